"""Nine puzzle: a search over all shifts, plain rolls, limits of shifts, shares of right cells, upstream pitfalls."""

import re
from collections import Counter, deque
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import codec, episode, make, text
from jaxenv.envs.puzzles.nine_puzzle import MOVES, SCRAMBLE, N, State

KEYS = 1000
ENV = make("nine_puzzle", 176)
LEVELS = range(ENV.num_levels)
PAINT = jax.jit(ENV.render)


@jax.jit
@jax.vmap
def _advance(s, action):
    end = episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), action)
    return end.ret, end.valid


def advance(instances, actions):
    """Return and validity; one compilation for all numbers of instances."""
    rows = np.minimum(np.arange(KEYS), len(actions) - 1)
    out = _advance(*jax.tree.map(lambda x: np.asarray(x)[rows], (instances, actions)))
    return [np.asarray(x)[: len(actions)] for x in out]


@jax.jit
@jax.vmap
def _sample(key, level):
    state = ENV.init(key, level)
    texts = ENV.text_question(state), ENV.text_obs(state), ENV.text_state(state)
    return state, ENV.solve(state), [text.close(x)[0] for x in texts]


@cache
def sample(level):
    """KEYS instances: states, answers, and the three texts."""
    keys = jax.random.split(jax.random.key(level), KEYS)
    states, actions, texts = jax.tree.map(np.asarray, _sample(keys, jnp.full(KEYS, level)))
    return states, actions, [text.decode(x) for x in texts]


def parse(observation: str):
    """The largest shifts of a row and a column, and the two grids."""
    limits, grids = observation.split("\nfrom\n")
    row, col = map(int, re.fullmatch(r"largest shift of a row (\d), of a column (\d)", limits).groups())
    upper, lower = (np.asarray([x.split() for x in g.splitlines()], int) for g in grids.split("to\n"))
    return (row, col), upper, lower


def roll(grid, move: str):
    """The grid after a move like 'row 0 2'."""
    axis, index, by = move.split()
    grid, index, by = grid.copy(), int(index), int(by)
    if axis == "row":
        grid[index] = np.roll(grid[index], by)
    else:
        grid[:, index] = np.roll(grid[:, index], by)
    return grid


def search(limits, upper, lower) -> list[str]:
    """A shortest sequence of moves."""
    moves = [
        f"{axis} {index} {by}"
        for axis, limit, count in zip(("row", "col"), limits, upper.shape)
        for index in range(count)
        for by in range(-limit, limit + 1)
        if by
    ]
    came, todo = {upper.tobytes(): None}, deque([upper])
    while lower.tobytes() not in came:
        now = todo.popleft()
        for move in moves:
            then = roll(now, move)
            if then.tobytes() not in came:
                came[then.tobytes()] = now, move
                todo.append(then)
    way, at = [], lower
    while came[at.tobytes()]:
        at, move = came[at.tobytes()]
        way.append(move)
    return way[::-1]


def read(way: list[str]) -> np.ndarray:
    return codec.read(ENV.answer, "<answer>" + "\n".join(way) + "</answer>")


def states(s, count):
    return jax.tree.map(lambda x: np.stack([np.asarray(x)] * count), s)


def state(upper, lower, limits) -> State:
    grids = np.zeros((2, N, N), np.int32)
    for grid, rows in zip(grids, (upper, lower)):
        grid[: len(rows), : len(rows[0])] = rows
    size = np.asarray([len(upper), len(upper[0])], np.int32)
    return State(*grids, size, np.asarray(limits, np.int32), np.full(SCRAMBLE, codec.BLANK, np.int32))


def earned(s, ways):
    """Return and validity of several answers for one state."""
    ret, valid = advance(states(s, len(ways)), np.stack([read(w) for w in ways]))
    return ret.tolist(), valid.tolist()


@pytest.mark.parametrize("level", LEVELS)
def test_solutions_against_plain_rolls(level):
    instances, actions, (questions, observations, facts) = sample(level)
    assert (advance(instances, actions)[0] == 1).all()
    low, high = ENV.levels["steps"][level]
    for action, question, observation, fact in zip(actions, questions, observations, facts):
        limits, upper, lower = parse(observation)
        assert f"a row by at most {limits[0]} and a column by at most {limits[1]}." in question
        assert 1 <= limits[0] < upper.shape[1] and 1 <= limits[1] < upper.shape[0]
        assert len(set(upper.ravel())) == upper.size and (upper != lower).any()
        way = ENV.answer.format(action).split("\n")
        assert low - 1 <= len(way) <= high
        grid = upper
        for move in way:
            axis, _, by = move.split()
            assert 1 <= abs(int(by)) <= limits[axis == "col"]
            grid = roll(grid, move)
        np.testing.assert_array_equal(grid, lower)
        wrong = upper != lower
        rows, cols = (" ".join(map(str, wrong.sum(axis=k))) for k in (1, 0))
        assert fact == f"{wrong.sum()} of {wrong.size} cells differ; by row {rows}, by column {cols}"


@pytest.mark.parametrize("level, count", [(0, 200), (1, 60)])
def test_a_search_that_reads_only_the_text(level, count):
    instances, actions, (_, observations, _) = sample(level)
    ways = [search(*parse(o)) for o in observations[:count]]
    ret, valid = advance(*jax.tree.map(lambda x: x[:count], (instances, np.stack([read(w) for w in ways]))))
    assert (np.asarray(ret) == 1).all() and np.asarray(valid).all()
    scrambles = [(a >= 0).sum() for a in actions[:count]]
    assert all(len(w) <= s for w, s in zip(ways, scrambles))
    # One move less is another grid: a share of its cells, and nothing if no more are right than at the start.
    short = np.stack([read(w[:-1] or ["row 0 0"]) for w in ways])
    assert (advance(jax.tree.map(lambda x: x[:count], instances), short)[0] < 0.5).all()


def test_hand_set_grids():
    s = state([[1, 2, 3], [4, 5, 6]], [[3, 1, 2], [4, 5, 6]], (2, 1))
    right = [["row 0 1"], ["row 0 -2"], ["row 0 2", "row 0 2"], ["col 0 1", "col 0 -1", "row 0 1"]]
    wrong = [["row 0 -1"], ["row 1 1"], ["col 0 1"], ["row 0 0"]]
    assert earned(s, right) == ([1.0] * 4, [True] * 4)
    assert earned(s, wrong) == ([0.0] * 4, [True] * 4)
    s = state([[1, 2], [3, 4], [5, 6]], [[5, 2], [1, 4], [6, 3]], (1, 2))  # column 0 down, then row 2
    assert earned(s, [["col 0 1", "row 2 1"], ["col 0 -2", "row 2 -1"]])[0] == [1.0, 1.0]
    assert earned(s, [["row 2 1", "col 0 1"]])[0][0] < 0.01


def test_shifts_beyond_the_limits_spoil_the_answer():
    """Upstream's picture prompt does not say how far rows and columns go."""
    s = state([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[2, 3, 1], [4, 5, 6], [7, 8, 9]], (1, 2))
    assert earned(s, [["row 0 -1"], ["row 0 2"], ["row 0 1", "row 0 1"]]) == ([1, 0, 1], [True, False, True])
    assert earned(s, [["col 0 2", "col 0 1", "row 0 -1"]]) == ([1.0], [True])
    assert earned(s, [["row 3 1", "row 0 -1"], ["col 0 3", "row 0 -1"]]) == ([0.0] * 2, [False] * 2)
    assert earned(s.replace(most=np.asarray([2, 1], np.int32)), [["row 0 2"], ["col 0 2", "col 0 1"]])[1] == [
        True,
        False,
    ]


def test_share_of_right_cells():
    upper = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
    goal = roll(roll(np.asarray(upper), "row 0 1"), "row 3 1")
    s = state(upper, goal, (1, 1))
    ret, _ = earned(
        s, [["row 0 0"], ["row 0 1"], ["row 0 1", "row 3 1"], ["row 1 1"], ["row 0 1", "row 3 -1"]]
    )
    np.testing.assert_allclose(ret, [0, 0.75**10, 1, 0, 0.75**10], rtol=1e-5)


def test_answers_with_gaps_or_nothing_in_them():
    s = state([[1, 2], [3, 4]], [[2, 1], [3, 4]], (1, 1))
    code = read(["row 0 1"])[0]
    rows = np.full((4, MOVES), codec.BLANK, np.int32)
    rows[0, 1] = rows[1, 0] = rows[1, 2] = rows[2, 0] = code
    rows[2, 1] = 2**31 - 1
    ret, valid = advance(states(s, 4), rows)
    assert not np.asarray(ret).any() and not np.asarray(valid).any()


def test_goal_and_start_differ():
    """Upstream's may be equal, and then any move of zero cells is right."""
    for level in LEVELS:
        instances, _, _ = sample(level)
        for nothing in ("row 0 0", "col 0 0"):
            assert not advance(instances, np.stack([read([nothing])] * KEYS))[0].any()


def test_replies():
    for good in (
        "row 0 2\ncol 1 -1",
        "Row 0 +2\n\n column 1 -1.\n",
        "row, 0, 2\ncol 1, -1",
        "row 0: 2\ncol 1 -1",
    ):
        np.testing.assert_array_equal(
            codec.read(ENV.answer, f"<answer>{good}</answer>"), read(["row 0 2", "col 1 -1"])
        )
    for bad in ("", "row 0", "row 5 1", "row 0 5", "row 0 1 col 0 1", "up 0 1", "row 0 1.5", "row -1 1"):
        assert codec.read(ENV.answer, f"<answer>{bad}</answer>")[0] == codec.UNREADABLE
    assert read(["row 0 1"] * MOVES)[-1] >= 0 and read(["row 0 1"] * (MOVES + 1))[0] == codec.UNREADABLE


@pytest.mark.parametrize("level", LEVELS)
def test_diversity_and_parameters(level):
    instances, actions, (_, observations, _) = sample(level)
    for name, k in (("rows", 0), ("cols", 1)):
        low, high = ENV.levels[name][level]
        assert set(instances.size[:, k]) == set(range(low, high + 1))
    assert set((actions >= 0).sum(axis=1)) >= set(range(*ENV.levels["steps"][level]))
    assert len(set(observations)) >= 990
    for action, _ in Counter(map(tuple, actions.tolist())).most_common(3):
        assert advance(instances, np.tile(np.asarray(action, np.int32), (KEYS, 1)))[0].mean() <= 0.4


def test_the_papers_setting_is_evaluated():
    assert all(ENV.levels[k][ENV.eval_level][1] == v for k, v in (("rows", 4), ("cols", 4), ("steps", 12)))


def test_the_picture_has_both_grids_and_not_the_way():
    s = state([[1, 2], [3, 4]], [[2, 1], [3, 4]], (1, 1))
    picture = np.asarray(PAINT(s))
    np.testing.assert_array_equal(picture, PAINT(s.replace(way=s.way + 5)))
    side, left = 32, (176 - 2 * 32) // 2 // 8 * 8  # five cells high
    top = (176 - 5 * 32) // 2 // 8 * 8
    cell = lambda r, c: picture[top + r * side :, left + c * side :][: side - 2, : side - 2]  # noqa: E731
    ink = lambda r, c: (cell(r, c).sum(axis=2) < 130).tobytes()  # noqa: E731
    assert ink(0, 0) == ink(3, 1) != ink(0, 1) == ink(3, 0) and ink(1, 0) == ink(4, 0) != ink(1, 1) == ink(
        4, 1
    )
    assert (cell(0, 0)[0, 0] != cell(3, 0)[0, 0]).any()
