"""Rectangle count: corners in the written grid and Reasoning Gym's drawing as references, exact numbers only."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reasoning_gym.cognition.rectangle_count import RectangleCountConfig, RectangleCountDataset

import jaxenv
from jaxenv import codec, episode
from jaxenv.envs.cognition.rectangle_count import MOST, State

ENV = jaxenv.make("rectangle_count", 224)
KEYS = jax.random.split(jax.random.key(0), 1000)
grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))
show = jax.jit(jax.vmap(lambda s: (ENV.solve(s)[0], ENV.text_obs(s), ENV.text_state(s))))
draw = jax.jit(jax.vmap(lambda key, level: ENV.init(key, level)))


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    return [jax.tree.map(np.asarray, draw(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


@pytest.fixture(scope="module")
def texts(seen):
    """Per level: answers, written grids and facts of the first 250."""
    return [jax.tree.map(np.asarray, show(jax.tree.map(lambda x: x[:250], s))) for s in seen]


def decode(codes) -> str:
    return bytes(b for b in codes if b).decode()


def state(size: int, *corners) -> State:
    """A batch of one hand-set drawing; rectangles beyond the count must not matter."""
    every = np.full((1, MOST, 4), 1, np.int32)
    every[0, : len(corners)] = np.reshape(corners, (-1, 4))
    return State(jnp.asarray(every), jnp.full(1, len(corners), jnp.int32), jnp.full(1, size, jnp.int32))


def outlines(size: int, corners) -> list[str]:
    """How often each cell is drawn, counted as upstream does, cell by cell."""
    times = np.zeros((size, size), int)
    for top, left, bottom, right in corners:
        cells = {(r, c) for r in range(top, bottom + 1) for c in range(left, right + 1)}
        cells -= {(r, c) for r in range(top + 1, bottom) for c in range(left + 1, right)}
        for cell in cells:
            times[cell] += 1
    return ["".join(".#+"[t] for t in row) for row in times]


def count_corners(rows: list[str]) -> tuple[int, int, int, int]:
    """Corners of each kind: outline cells from which the outline goes on to exactly one row and one column side."""
    padded = np.pad(np.asarray([[c != "." for c in row] for row in rows]), 1)
    here, up, down, left, right = (
        padded[1 + r : padded.shape[0] - 1 + r, 1 + c : padded.shape[1] - 1 + c]
        for r, c in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
    )
    corner = here & (up ^ down) & (left ^ right)
    return tuple(int((corner & a & b).sum()) for a in (up, down) for b in (left, right))


def graded(s: State, reply: str):
    return grade(s, jnp.asarray(codec.read(ENV.answer, f"<answer>{reply}</answer>"))[None])


@pytest.mark.parametrize("level", range(6))
def test_corners_of_the_written_grid_give_the_count(texts, level):
    """The reader of `text_obs` alone: each rectangle shows four corners, and nothing else does."""
    for answer, board, facts in zip(*texts[level]):
        legend, *rows = decode(board).splitlines()
        assert legend == "# outline, + crossing of two, . empty"
        assert count_corners(rows) == (answer,) * 4
        used = [r for r, row in enumerate(rows) if set(row) != {"."}]
        assert decode(facts) == (
            f"{len(rows)} rows and columns; outlines in rows {used[0]} to {used[-1]}; "
            f"{sum(row.count('+') for row in rows)} crossings"
        )


@pytest.mark.parametrize("level", range(6))
def test_outlines_only_cross(seen, texts, level):
    """Upstream lets outlines share edges and corners, so that the number drawn cannot be told."""
    s = seen[level]
    low, high = ENV.levels["count"][level]
    size = ENV.levels["size"][level][0]
    assert set(s.count) == set(range(low, high + 1)) and (s.size == size).all()
    crossed, small = [], []
    for i, (corners, count) in enumerate(zip(s.corners, s.count)):
        top, left, bottom, right = corners[:count].T
        for first, last in ((top, bottom), (left, right)):
            assert (last - first >= 2).all()  # sides of three cells or more
            ends = np.sort(np.concatenate([first, last]))
            assert ends[0] >= 0 and ends[-1] < size and (np.diff(ends) >= 2).all()
        small.append((((bottom - top) < size / 4) & ((right - left) < size / 4)).any())
        if i < 250:
            rows = outlines(size, corners[:count])  # no cell is drawn three times
            assert decode(texts[level][1][i]).splitlines()[1:] == rows
            crossed.append(any("+" in row for row in rows))
    assert np.mean(crossed) > 0.25 and (level < 2 or np.mean(small) > 0.2)


@pytest.mark.parametrize("level", range(6))
def test_balance_and_diversity(seen, level):
    s = seen[level]
    low, high = ENV.levels["count"][level]
    assert Counter(s.count.tolist()).most_common(1)[0][1] / 1000 < 1 / (high - low + 1) + 0.06
    assert len({(c[:k].tobytes()) for c, k in zip(s.corners, s.count)}) >= 990


def test_levels_are_monotone():
    for ranges in ENV.levels.values():
        assert list(ranges) == sorted(ranges)


@pytest.mark.parametrize(
    "size, corners",
    [
        (16, [(0, 0, 15, 15)]),
        (16, [(0, 0, 9, 9), (5, 5, 14, 14)]),  # crosses: three rectangles to be seen, two were drawn
        (16, [(0, 0, 15, 15), (2, 2, 13, 13), (4, 4, 11, 11)]),  # nested
        (20, [(2, 8, 17, 11), (8, 2, 11, 17)]),  # a cross: four crossings around a fifth rectangle
        (20, []),
    ],
)
def test_hand_set_drawings(size, corners):
    s = state(size, *corners)
    answer, board, _ = (np.asarray(x)[0] for x in show(s))
    rows = decode(board).splitlines()[1:]
    assert rows == outlines(size, corners) and count_corners(rows) == (len(corners),) * 4
    assert answer == len(corners) and graded(s, str(answer)).ret[0] == 1


def test_parity_with_reasoning_gym(seen):
    """Their drawings are read alike wherever their outlines stay apart, and their scorer takes our answers."""
    data = RectangleCountDataset(
        RectangleCountConfig(max_rectangles=3, width=40, height=40, seed=3, size=200)
    )
    clear = 0
    for k in range(200):
        entry = data[k]
        rows = entry["metadata"]["puzzle"].replace(" ", ".").replace("█", "+").splitlines()
        assert len(rows) == 40
        corners = count_corners(rows)
        if corners == (int(entry["answer"]),) * 4:
            clear += 1
        assert data.score_answer(ENV.answer.format([int(entry["answer"])]), entry) == 1
    assert 100 < clear < 200  # in the others outlines touch or coincide


def test_near_guesses_earn_nothing():
    """Upstream pays 0.64 for one too many, 0.48 for two."""
    s = state(20, (2, 8, 17, 11), (8, 2, 11, 17))
    assert graded(s, "2").ret[0] == 1 and graded(s, " 2 ").ret[0] == 1
    for bad in ("1", "3", "5", "9", "0", "20"):  # 5 and 9: rectangles that come about by crossing
        end = graded(s, bad)
        assert end.ret[0] == 0 and end.valid[0] and end.terminated[0], bad
    for bad in ("two", "2 1", "-2", "2.0", "", "100"):
        end = graded(s, bad)
        assert end.ret[0] == 0 and not end.valid[0], bad


def test_pictures_keep_every_row(seen):
    """Upstream squeezes empty rows out; here each cell of the grid is a tile, at the smallest picture 4 px."""
    for level, size in enumerate(ENV.min_resolution):
        env = jaxenv.make("rectangle_count", size)
        few = jax.tree.map(lambda x: x[:20], seen[level])
        pictures = np.asarray(jax.jit(jax.vmap(env.render))(few))
        cells = np.asarray(jax.jit(jax.vmap(env.cells))(few))
        for picture, grid in zip(pictures, cells):
            shown = picture[1::4, 1::4]
            colours = np.asarray([(255, 255, 252), (54, 110, 214), (196, 44, 190)], np.uint8)
            np.testing.assert_array_equal(shown, colours[grid[: len(shown), : len(shown)]])
