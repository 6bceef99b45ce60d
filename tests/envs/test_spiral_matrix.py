"""Spiral matrix: a walker and Reasoning Gym as references, no matrix that reads row by row, exact lists only."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reasoning_gym.algorithmic.spiral_matrix import SpiralMatrixConfig, SpiralMatrixDataset

import jaxenv
from jaxenv import codec, episode, sprites
from jaxenv.codec import BLANK
from jaxenv.envs.algorithmic.spiral_matrix import N, State

ENV = jaxenv.make("spiral_matrix", 80)
KEYS = jax.random.split(jax.random.key(0), 1000)
grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))

solve = jax.jit(jax.vmap(ENV.solve))


@jax.jit
@jax.vmap
def look(key, level):
    s = ENV.init(key, level)
    return s, ENV.solve(s), ENV.text_obs(s), ENV.text_state(s)


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    return [jax.tree.map(np.asarray, look(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


def walk(matrix) -> list[int]:
    """A walker that turns right where it cannot go on."""
    size, (row, col), (down, right) = len(matrix), (0, 0), (0, 1)
    visited, out = set(), []
    while len(out) < size * size:
        visited.add((row, col))
        out.append(int(matrix[row][col]))
        ahead = (row + down, col + right)
        if not (0 <= ahead[0] < size and 0 <= ahead[1] < size) or ahead in visited:
            down, right = right, -down
        row, col = row + down, col + right
    return out


def state(rows) -> State:
    """A batch of one hand-set matrix; the cells beyond it hold digits that must not matter."""
    cells = np.full((1, N, N), 7, np.int32)
    cells[0, : len(rows), : len(rows)] = rows
    return State(jnp.asarray(cells), jnp.full(1, len(rows), jnp.int32))


def graded(s: State, reply: str):
    return grade(s, jnp.asarray(codec.read(ENV.answer, f"<answer>{reply}</answer>"))[None])


def listed(action) -> list[int]:
    return [int(v) for v in np.asarray(action).reshape(-1) if v != BLANK]


@pytest.mark.parametrize("level", range(6))
def test_walker_agrees_and_no_matrix_reads_row_by_row(seen, level):
    states, answers, _, _ = seen[level]
    low, high = ENV.levels["size"][level]
    assert set(states.size) == set(range(low, high + 1))
    distinct, copies = set(), np.full((len(KEYS), N * N), BLANK, np.int32)
    for i in range(len(KEYS)):
        n = states.size[i]
        matrix = states.cells[i, :n, :n]
        assert listed(answers[i]) == walk(matrix)
        copies[i, : n * n] = matrix.ravel()
        distinct.add(matrix.tobytes())
    assert len(distinct) >= (990 if level else 930)  # the smallest level has 9,000 instances
    # Neither the matrix row by row nor one fixed list earns anything to speak of.
    assert not np.asarray(grade(states, copies).ret).any()
    _, counts = np.unique(answers, axis=0, return_counts=True)
    assert counts.max() <= 10
    digits = np.bincount(answers[answers != BLANK], minlength=10)
    assert digits.min() > 0.8 * digits.max()


@pytest.mark.parametrize("level", [0, 3, 5])
def test_parity_with_reasoning_gym(seen, level):
    low, high = ENV.levels["size"][level]
    data = SpiralMatrixDataset(SpiralMatrixConfig(min_n=low, max_n=high, seed=3, size=100))
    entries = [data[i] for i in range(100)]
    batch = jax.tree.map(lambda *x: jnp.concatenate(x), *[state(e["metadata"]["matrix"]) for e in entries])
    replies = np.stack([codec.read(ENV.answer, f"<answer>{e['answer']}</answer>") for e in entries])
    assert (np.asarray(grade(batch, replies).ret) == 1).all()
    states, answers, _, _ = seen[level]
    for i in range(200):
        n = states.size[i]
        spiral = " ".join(map(str, data._get_spiral(states.cells[i, :n, :n].tolist())))
        assert data.score_answer(ENV.answer.format(answers[i]), {"answer": spiral}) == 1.0


@pytest.mark.parametrize(
    "matrix, expected",
    [
        ([[1, 2], [3, 4]], "1 2 4 3"),
        ([[3, 1, 3], [2, 4, 9], [1, 0, 8]], "3 1 3 9 8 0 1 2 4"),
        ([[1, 2, 3, 4], [5, 6, 7, 8], [9, 0, 1, 2], [3, 4, 5, 6]], "1 2 3 4 8 2 6 5 4 3 9 5 6 7 1 0"),
    ],
)
def test_hand_set_matrices(matrix, expected):
    s = state(matrix)
    assert ENV.answer.format(np.asarray(solve(s))[0]) == expected
    assert graded(s, expected).ret[0] == 1


def test_layout_is_lenient_but_order_and_length_count():
    s = state([[1, 2], [3, 4]])
    # Upstream paid 0.1 for a list, after evaluating the reply as Python.
    for good in ("1 2 4 3", "1243", "1, 2, 4, 3", "[1, 2, 4, 3]", "  1  2 4 3\n"):
        assert graded(s, good).ret[0] == 1, good
    for bad in ("1 2 3 4", "1 3 4 2", "3 4 2 1", "1 2 4 4"):
        end = graded(s, bad)
        assert end.ret[0] == 0 and end.valid[0] and end.terminated[0], bad
    for bad in ("1 2 4", "1 2 4 3 3", "1 2\n4 3", "1 2 4 x", "[1, 2] + [4, 3]", "10 2 4 3", ""):
        end = graded(s, bad)
        assert end.ret[0] == 0 and not end.valid[0], bad


def test_rows_that_would_do_are_changed():
    """A smallest matrix reads alike both ways in 1 of 10 draws; none of these may be asked."""
    keys = jax.random.split(jax.random.key(5), 5000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda k: ENV.reset(k, {"size": jnp.int32(2)}).cells[1, :2]))(keys))
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert len(np.unique(drawn, axis=0)) == 90


@pytest.mark.parametrize("level", range(6))
def test_texts(seen, level):
    states, answers, boards, facts = seen[level]
    for size, answer, o, f in zip(states.size[:40], answers, boards, facts):
        o, f = (bytes(b for b in t if b).decode() for t in (o, f))
        assert walk([line.split() for line in o.splitlines()]) == listed(answer)
        assert f == (f"{size} rows, {size} columns, {size * size} digits; number of rings: {(size + 1) // 2}")


def test_every_digit_is_crisp_at_every_smallest_picture():
    """At 8-px tiles the ten sprites are ten different 5 x 7 glyphs in two colours plus the line."""
    for level, size in enumerate(ENV.min_resolution):
        env, n = jaxenv.make("spiral_matrix", size), ENV.levels["size"][level][1]
        cells = np.zeros((10, N, N), np.int32)
        cells[:, 0, 0] = np.arange(10)
        tiles = np.asarray(
            jax.jit(jax.vmap(env.render))(State(jnp.asarray(cells), jnp.full(10, n, jnp.int32)))
        )
        for digit, tile in enumerate(tiles):
            ink = (tile[:7, 1:6] == (20, 52, 44)).all(axis=-1)
            np.testing.assert_array_equal(ink, sprites.glyph(str(digit)))
