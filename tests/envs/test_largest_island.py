"""Largest island: scipy, networkx and Reasoning Gym as references, levels that bound the islands, exact numbers."""

from collections import Counter

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from reasoning_gym.graphs.largest_island import LargestIslandConfig, LargestIslandDataset
from scipy.ndimage import label

import jaxenv
from jaxenv import codec, episode
from jaxenv.envs.geometry.largest_island import N, State

ENV = jaxenv.make("largest_island", 112)
KEYS = jax.random.split(jax.random.key(0), 1000)
grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))
solve = jax.jit(jax.vmap(ENV.solve))


@jax.jit
@jax.vmap
def look(key, level):
    s = ENV.init(key, level)
    scale = ENV.sample_scale(jax.random.split(key)[0], level)
    return s, ENV.solve(s)[0], ENV.text_obs(s), ENV.text_state(s), scale["islands"], scale["size"]


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    return [jax.tree.map(np.asarray, look(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


def state(*rows: str) -> State:
    """A batch of one hand-set grid."""
    land = np.zeros((1, N, N), bool)
    for r, row in enumerate(rows):
        land[0, r, : len(row)] = [c == "#" for c in row]
    return State(jnp.asarray(land), jnp.full(1, len(rows), jnp.int32), jnp.full(1, len(rows[0]), jnp.int32))


def graded(s: State, reply: str):
    return grade(s, jnp.asarray(codec.read(ENV.answer, f"<answer>{reply}</answer>"))[None])


@pytest.mark.parametrize("level", range(6))
def test_scipy_agrees_and_levels_bound_the_islands(seen, level):
    """Upstream's parameters bound walks, which merge: islands larger and fewer than asked for."""
    states, answers, _, _, wanted, most = seen[level]
    ranges = {name: ENV.levels[name][level] for name in ENV.levels}
    for values, name in ((states.rows, "rows"), (states.cols, "cols"), (wanted, "islands"), (most, "size")):
        low, high = ranges[name]
        assert values.min() == low and values.max() == high
    reached = []
    for land, rows, cols, answer, count, size in zip(
        states.land, states.rows, states.cols, answers, wanted, most
    ):
        assert not land[rows:].any() and not land[:, cols:].any()
        labels, found = label(land)
        sizes = np.bincount(labels.ravel())[1:]
        assert found == count and sizes.max() == answer <= size
        reached.append(answer == size)
    assert np.mean(reached) > 0.6  # the others ran out of room


@pytest.mark.parametrize("level", range(6))
def test_balance_and_diversity(seen, level):
    states, answers, boards, *_ = seen[level]
    counted = Counter(answers.tolist())
    assert counted.most_common(1)[0][1] <= (420, 290, 200, 170, 150, 130)[level]
    low, high = ENV.levels["size"][level]
    assert set(range(low, high + 1)) <= set(counted)
    assert len({b.tobytes() for b in boards}) >= (990 if level else 550)
    # Land is anywhere: every quarter of the grid has about as much of it.
    row, col = np.mgrid[:N, :N]
    low, right = row[None] * 2 >= states.rows[:, None, None], col[None] * 2 >= states.cols[:, None, None]
    share = [
        (states.land & (low == a) & (right == b)).sum() / states.land.sum() for a in (0, 1) for b in (0, 1)
    ]
    assert min(share) > 0.15 and max(share) < 0.35
    for guess in (states.land.sum(axis=(1, 2)), states.rows + states.cols, np.full(1000, answers.mean())):
        assert (guess == answers).mean() < 0.2


def test_levels_are_monotone(seen):
    means = [answers.mean() for _, answers, *_ in seen]
    assert means == sorted(means)
    level = ENV.eval_level  # Table 8: 4 to 8 islands of up to 20 cells
    assert ENV.levels["islands"][level] == (4, 8) and ENV.levels["size"][level][1] == 20


@pytest.mark.parametrize("level", [0, 2, 4])
def test_the_written_grid_is_enough(seen, level):
    """networkx on what `text_obs` says; the facts in `text_state`."""
    states, answers, boards, facts, wanted, _ = seen[level]
    for i in range(200):
        o, f = (bytes(b for b in t[i] if b).decode() for t in (boards, facts))
        legend, *rows = o.splitlines()
        assert legend == "# land, . water" and len(rows) == states.rows[i]
        cells = {(r, c): word for r, row in enumerate(rows) for c, word in enumerate(row.split())}
        graph = nx.grid_2d_graph(states.rows[i], states.cols[i])
        graph.remove_nodes_from([cell for cell, word in cells.items() if word == "."])
        assert max(map(len, nx.connected_components(graph))) == answers[i]
        assert f == (
            f"{states.rows[i]} rows, {states.cols[i]} columns, {len(graph)} land cells, {wanted[i]} islands"
        )


def test_parity_with_reasoning_gym(seen):
    data = LargestIslandDataset(
        LargestIslandConfig(max_rows=N, max_cols=N, max_num_islands=8, max_island_size=20, seed=3, size=200)
    )
    entries = [data[i] for i in range(200)]
    grids = [["".join(".#"[cell] for cell in row) for row in e["metadata"]["grid"]] for e in entries]
    theirs = jax.tree.map(lambda *x: jnp.concatenate(x), *[state(*grid) for grid in grids])
    replies = np.stack([codec.read(ENV.answer, f"<answer>{e['answer']}</answer>") for e in entries])
    assert (np.asarray(grade(theirs, replies).ret) == 1).all() and replies.min() == 0  # some have no land
    states, answers, *_ = seen[ENV.eval_level]
    for land, rows, cols, answer in zip(states.land[:200], states.rows, states.cols, answers):
        grid = land[:rows, :cols].astype(int).tolist()
        assert data._get_largest_island(grid) == answer
        assert (
            data.score_answer(ENV.answer.format([answer]), {"answer": str(data._get_largest_island(grid))})
            == 1
        )


@pytest.mark.parametrize(
    "rows, answer",
    [
        (("##..", "#..#", "..##", "...."), 3),
        (("#.#.", ".#.#", "#.#.", ".#.#"), 1),  # corners do not join
        (("#####", "#...#", "#.#.#", "#...#", "#####"), 16),
        (("....", "...."), 0),
        (("###.", "..#.", "###.", "#..#", "####"), 13),
        (("#." * 7,) + ("#" * 14,) * 13, 189),
    ],
)
def test_hand_set_grids(rows, answer):
    s = state(*rows)
    assert int(solve(s)[0, 0]) == answer
    assert graded(s, str(answer)).ret[0] == 1


def test_a_snake_over_the_whole_grid():
    """The longest possible island: labels have to travel all along it."""
    rows = [
        "#" * N if r % 2 == 0 else ("." * (N - 1) + "#" if r % 4 == 1 else "#" + "." * (N - 1))
        for r in range(N)
    ]
    assert int(solve(state(*rows))[0, 0]) == 7 * N + 7


def test_only_the_number_counts():
    """Upstream pays replies that contain the answer: 12, or a string of many digits, for 1."""
    s = state("#.#.", ".#.#")
    assert graded(s, "1").ret[0] == 1 and graded(s, " 1\n").ret[0] == 1
    for bad in ("12", "0", "2", "1234567890", "4", "one", "1 2", "1.5", "-1", ""):
        assert graded(s, bad).ret[0] == 0, bad
    assert not graded(s, "9").valid[0] and graded(s, "8").valid[0]  # the grid has 8 cells


def test_pictures_show_the_land_and_nothing_else(seen):
    for level, size in enumerate(ENV.min_resolution):
        env = jaxenv.make("largest_island", size)
        few = jax.tree.map(lambda x: x[:40], seen[level][0])
        pictures = np.asarray(jax.jit(jax.vmap(env.render))(few)).astype(int)
        for picture, land, rows, cols in zip(pictures, few.land, few.rows, few.cols):
            side = size // max(rows, cols) // 8 * 8
            top, left = ((size - side * k) // 2 // 8 * 8 for k in (rows, cols))
            board = picture[top : top + side * rows, left : left + side * cols]
            middle = board[side // 2 - 1 :: side, side // 2 :: side]
            np.testing.assert_array_equal(middle[..., 1] > middle[..., 2], land[:rows, :cols])
            assert len(np.unique(board.reshape(-1, 3), axis=0)) <= 5
