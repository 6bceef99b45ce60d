"""Ska rock garden: all choices by enumeration, ties, doing nothing, the drawing at its smallest."""

import re
from collections import Counter
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from jaxenv import codec, episode, make
from jaxenv.envs.geometry.ska_rock_garden import LETTERS, N, State

KEYS = 1000
ENV = make("ska_rock_garden", 224)
LEVELS = range(ENV.num_levels)
ADVANCE = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))


@jax.jit
@jax.vmap
def _sample(key, level):
    state = ENV.init(key, level)
    action = ENV.solve(state)
    end = episode.advance(ENV, key, episode.begin(ENV, state), action)
    return state, action, end.ret, ENV.text_obs(state), ENV.text_state(state)


@cache
def sample(level):
    """KEYS instances: states, answers and what they earn, observations, facts."""
    keys = jax.random.split(jax.random.key(level), KEYS)
    return jax.tree.map(np.asarray, _sample(keys, jnp.full(KEYS, level)))


def decode(row) -> str:
    return bytes(b for b in row if b).decode()


def parse(observation):
    """Points and costs from the text."""
    rocks = re.findall(r"([A-L]) \((\d+), (\d+)\) cost (\d+)", decode(observation))
    assert "".join(r[0] for r in rocks) == LETTERS[: len(rocks)]
    return np.asarray([(int(x), int(y)) for _, x, y, _ in rocks]), np.asarray([int(r[3]) for r in rocks])


@cache
def choices(n):
    return np.asarray(list(product((0, 1), repeat=n)))


def values(points, cost):
    """Perimeter and cost of every choice, in the order of `choices`."""
    flips = choices(len(points))
    moved = np.where(flips[:, :, None] == 1, points[None, :, ::-1], points[None])
    return 2 * np.ptp(moved, axis=1).sum(axis=1), (flips * cost).sum(axis=1)


def best(points, cost):
    """All best choices, bool by choice, from the perimeter and the cost of every choice."""
    perimeter, total = values(points, cost)
    shortest = perimeter == perimeter.min()
    return shortest & (total == total[shortest].min())


def state(points, cost):
    n = len(points)
    xy, price = np.zeros((N, 2), np.int32), np.zeros(N, np.int32)
    xy[:n], price[:n] = points, cost
    return State(jnp.asarray(xy), jnp.asarray(price), jnp.int32(n))


def padded(answers):
    return np.asarray([[int(c) for c in a] + [-1] * (N - len(a)) for a in answers], np.int32)


def earned(s, answers):
    """Return and validity of several choices for one state."""
    end = ADVANCE(jax.tree.map(lambda x: jnp.stack([x] * len(answers)), s), padded(answers))
    return np.asarray(end.ret).tolist(), np.asarray(end.valid).tolist()


@pytest.mark.parametrize(("level", "count"), ((0, 300), (1, 200), (2, 100), (3, 40)))
def test_exactly_the_best_choices_are_right(level, count):
    """Every choice of every instance."""
    states, _, ret, observation, _ = sample(level)
    assert (ret == 1).all()
    rows, answers, wanted = [], [], []
    for i in range(count):
        points, cost = parse(observation[i])
        rows += [i] * 2 ** len(points)
        answers += choices(len(points)).tolist()
        wanted += best(points, cost).tolist()
    chunk = 4096
    for k in range(0, len(rows), chunk):
        part = slice(k, k + chunk)
        fill = chunk - len(rows[part])
        index = np.asarray(rows[part] + [0] * fill)
        end = ADVANCE(
            jax.tree.map(lambda x, index=index: x[index], states), padded(answers[part] + ["0"] * fill)
        )
        np.testing.assert_array_equal(np.asarray(end.ret)[: chunk - fill] == 1, wanted[part])
        assert np.asarray(end.valid)[: chunk - fill].all()


@pytest.mark.parametrize("level", LEVELS)
def test_the_observation_alone_gives_the_answer(level):
    """Enumeration over the written rocks; the facts are those of the rocks as they lie."""
    states, action, _, observation, facts = sample(level)
    count = 60
    answers = []
    for i in range(count):
        points, cost = parse(observation[i])
        right = best(points, cost)
        answers.append(choices(len(points))[np.flatnonzero(right)[-1]])
        assert right[int("".join(str(v) for v in action[i] if v >= 0), 2)]
        low, high = points.min(axis=0), points.max(axis=0)
        assert decode(facts[i]) == (
            f"{len(points)} rocks; as they lie, x from {low[0]} to {high[0]}, y from {low[1]} to {high[1]}, "
            f"perimeter {values(points, cost)[0][0]}"
        )
    end = ADVANCE(jax.tree.map(lambda x: jnp.asarray(x[:count]), states), padded(answers))
    assert (np.asarray(end.ret) == 1).all()


@pytest.mark.parametrize(
    ("points", "cost", "right"),
    (
        ([(0, 5), (5, 1), (2, 6)], [1, 3, 2], ["010", "101"]),  # either side of the diagonal costs 3
        ([(0, 5), (5, 1), (2, 6)], [1, 2, 2], ["010"]),
        ([(0, 0), (6, 6), (3, 1)], [1, 1, 1], ["000"]),  # the box holds everything already
        ([(0, 6), (3, 3), (6, 0)], [2, 1, 2], ["001", "100"]),  # a rock on the diagonal is free to stay
    ),
)
def test_hand_set(points, cost, right):
    s = state(points, cost)
    answers = ["".join(map(str, c)) for c in choices(3)]
    rewards, valid = earned(s, answers)
    assert all(valid) and {a for a, r in zip(answers, rewards) if r == 1} == set(right)
    assert set(rewards) <= {0.0, 1.0}
    found = np.asarray(jax.jit(ENV.solve)(s))
    assert "".join(str(v) for v in found if v >= 0) in right


def test_malformed_answers_are_invalid():
    s = state([(0, 5), (5, 1), (2, 6)], [1, 2, 2])
    for answer in ("01", "0100", "0"):
        assert earned(s, [answer]) == ([0.0], [False])
    for reply in ("010", "0 1 0", "0,1,0", "[0, 1, 0]"):
        np.testing.assert_array_equal(codec.read(ENV.answer, f"<answer>{reply}</answer>"), padded(["010"])[0])
    for reply in ("B", "012", "0" * (N + 1), "-1 0 0"):
        assert codec.read(ENV.answer, f"<answer>{reply}</answer>")[0] == codec.UNREADABLE


@pytest.mark.parametrize("level", LEVELS)
def test_balance_diversity_and_parameters(level):
    """No constant choice is best often, not even given the number of rocks; levels hold what they say."""
    states, action, *_ = sample(level)
    (low, high), n = ENV.levels["n"][level], states.n
    assert set(n) == set(range(low, high + 1))
    present = np.arange(N) < n[:, None]
    assert ((states.cost > 0) == present).all() and (states.cost.max(axis=1) <= n).all()
    assert (states.points.max(axis=(1, 2)) <= 2 * n).all() and states.points.min() == 0
    assert states.points.max() == 2 * high and states.cost.max() == high
    candidates = [np.zeros(k, int) for k in range(low, high + 1)] + [
        np.ones(k, int) for k in range(low, high + 1)
    ]
    if level == 0:
        candidates = list(choices(3))
    else:
        candidates += [
            np.asarray([v for v in a if v >= 0]) for a, _ in Counter(map(tuple, action)).most_common(4)
        ]
    for answer in candidates:
        right = np.asarray(ADVANCE(states, np.repeat(padded([answer]), KEYS, axis=0)).ret)
        assert right[n == len(answer)].mean() <= 0.55
    rocks = np.concatenate([states.points.reshape(KEYS, -1), states.cost], axis=1)
    assert len({r.tobytes() for r in rocks}) >= 990
    # Rocks never cover each other.
    gap = abs(states.points[:, :, None] - states.points[:, None]).max(axis=3)
    pair = present[:, :, None] & present[:, None] & ~np.eye(N, dtype=bool)
    assert gap[pair].min() >= 2


def test_levels_are_monotone_and_contain_the_papers_setting():
    sizes = [sample(level)[0].n.mean() for level in LEVELS]
    assert sizes == sorted(sizes) and len(sizes) >= 4
    assert ENV.levels["n"][0] == (3, 3)  # which upstream cannot reach
    assert ENV.levels["n"][ENV.eval_level][1] == 7


def test_ties_of_the_perimeter_are_decided_by_the_cost():
    """Mirroring all rocks of a best choice has the same box but another cost: common, so cost matters."""
    _, action, _, observation, _ = sample(3)
    cheaper = 0
    for i in range(100):
        points, cost = parse(observation[i])
        perimeter, total = values(points, cost)
        chosen = int("".join(str(v) for v in action[i] if v >= 0), 2)
        other = (1 << len(points)) - 1 - chosen
        assert perimeter[other] == perimeter[chosen] and total[other] >= total[chosen]
        cheaper += total[other] > total[chosen]
    assert cheaper > 80


@pytest.mark.parametrize("level", (0, 3, 5))
def test_rocks_are_all_alike_and_apart_at_the_smallest_picture(level):
    """As many separate discs of one colour as rocks, where the coordinates say; no border is touched."""
    size = ENV.min_resolution[level]
    env = make(ENV.id, size)
    states = jax.tree.map(lambda x: x[:30], sample(level)[0])
    pictures = np.asarray(jax.jit(jax.vmap(env.render))(states)).astype(int)
    for i in range(30):
        n = int(states.n[i])
        rock = (pictures[i] == (120, 92, 40)).all(-1) | (pictures[i] == (250, 222, 160)).all(-1)
        filled = ndimage.binary_fill_holes(rock)  # the letters inside
        parts, count = ndimage.label(filled)
        assert count == n
        centre = np.asarray(ndimage.center_of_mass(filled, parts, range(1, n + 1)))
        areas = ndimage.sum_labels(filled, parts, range(1, n + 1))
        assert np.ptp(areas) <= 0.1 * areas.mean()
        for axis, coordinate in ((0, -states.points[i, :n, 1]), (1, states.points[i, :n, 0])):
            rank = np.sort(centre[:, axis])
            pitch = np.ptp(rank) / max(np.ptp(coordinate), 1)
            np.testing.assert_allclose(rank - rank[0], np.sort(coordinate - coordinate.min()) * pitch, atol=1)
        painted = (pictures[i] != 255).any(-1)
        assert not painted[[0, -1]].any() and not painted[:, [0, -1]].any()


def test_nothing_but_rocks_and_costs_changes_the_picture():
    """Another cost changes the last row of the table only."""
    render = jax.jit(ENV.render)
    points = [(0, 5), (5, 1), (2, 6)]
    a, b = (np.asarray(render(state(points, cost))) for cost in ([1, 2, 2], [1, 2, 3]))
    rows = np.flatnonzero((a != b).any(axis=(1, 2)))
    assert rows.size and rows.min() > 0.9 * 224 and np.ptp(rows) < 7
