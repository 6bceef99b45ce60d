"""sum_triangle_area against fractions and itertools, hand-set boards, diversity and legibility."""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import codec, make
from jaxenv.envs.geometry.sum_triangle_area import N, State

KEYS = 1000
ENV = make("sum_triangle_area", 256)
SOLVE, STEP = jax.jit(ENV.solve), jax.jit(ENV.step)


@cache
def sample():
    """States and answers, [levels, KEYS]."""
    run = jax.jit(jax.vmap(lambda k, level: (lambda s: (s, ENV.solve(s)[0]))(ENV.init(k, level))))
    keys = jax.random.split(jax.random.key(1), KEYS)
    return [jax.tree.map(np.asarray, run(keys, jnp.full(KEYS, level))) for level in range(ENV.num_levels)]


def state(points):
    xy = np.zeros((N, 2), np.int32)
    xy[: len(points)] = points
    return State(jnp.asarray(xy), jnp.int32(len(points)))


def reference(points) -> int:
    """Twice the sum of areas by the shoelace formula in exact fractions, one trapezoid per side."""
    total = Fraction(0)
    for (ax, ay), (bx, by), (cx, cy) in combinations([tuple(map(int, p)) for p in points], 3):
        sides = [((ax, ay), (bx, by)), ((bx, by), (cx, cy)), ((cx, cy), (ax, ay))]
        total += abs(sum(Fraction((x1 - x0) * (y0 + y1), 2) for (x0, y0), (x1, y1) in sides))
    assert (2 * total).denominator == 1
    return int(2 * total)


@pytest.mark.parametrize(("level", "count"), ((0, 300), (1, 300), (2, 200), (4, 60), (5, 30)))
def test_against_fractions(level, count):
    states, answers = sample()[level]
    for k in range(count):
        points = states.points[k, : states.n[k]]
        assert len({tuple(p) for p in points}) == states.n[k]
        assert points.min() >= 0 and points.max() <= states.n[k]
        assert reference(points) == answers[k]


@pytest.mark.parametrize(
    ("points", "answer"),
    (
        ([(0, 0), (3, 0), (0, 3)], 9),
        ([(0, 0), (1, 1), (3, 3)], 0),  # on one line
        ([(0, 0), (4, 0), (0, 4), (4, 4)], 64),  # four halves of a square
        ([(0, 0), (2, 0), (4, 0), (1, 3)], 24),  # three of the four triples have area: 6 + 12 + 6
    ),
)
def test_hand_set(points, answer):
    s = state(points)
    assert int(SOLVE(s)[0]) == answer
    for value, reward in ((answer, 1.0), (answer + 1, 0.0), (answer + 2, 0.0), (-1, 0.0)):
        _, out = STEP(jax.random.key(0), s, jnp.asarray([value]))
        assert float(out.reward) == reward and bool(out.valid) == (value >= 0)
    obs = bytes(b for b in np.asarray(ENV.text_obs(s)) if b).decode()
    assert obs == "points (x, y): " + ", ".join(f"({x}, {y})" for x, y in points)


def test_balance_and_diversity():
    """No constant is right often; the spaces of 3 and 4 points are as small as the docstring says."""
    for level, (states, answers) in enumerate(sample()):
        assert Counter(answers.tolist()).most_common(1)[0][1] <= 0.3 * KEYS
        distinct = len({s.tobytes() for s in states.points})
        assert distinct >= (0, 940, 990, 990, 990, 990)[level]
        assert (answers <= ENV.answer.high).all()
    assert len({s.tobytes() for s in sample()[0][0].points}) > 400  # of 560


def test_levels_are_monotone():
    means = [answers.mean() for _, answers in sample()]
    assert means == sorted(means)
    low, high = ENV.levels["n"][ENV.eval_level]
    assert low <= 9 <= high


def test_near_misses_earn_nothing():
    """Upstream graded by (min / max)^10; here only the exact sum counts."""
    states, answers = sample()[4]
    run = jax.jit(jax.vmap(lambda s, a: ENV.step(jax.random.key(0), s, a)[1].reward))
    for factor, wanted in ((1.0, 1.0), (1.01, 0.0)):
        given = np.floor(answers * factor).astype(np.int32) + (factor > 1)
        assert (np.asarray(run(states, given[:, None])) == wanted).all()


def test_every_point_is_drawn_on_its_crossing():
    """At each level's smallest picture: dots apart, one per point, ticks inside of the picture."""
    for level, size in enumerate(ENV.min_resolution):
        env = make("sum_triangle_area", size)
        states = jax.tree.map(lambda x: x[:50], sample()[level][0])
        pictures = np.asarray(jax.jit(jax.vmap(env.render))(states)).astype(int)
        red = (pictures[..., 0] > 150) & (pictures[..., 1] < 80)
        ink = (pictures == np.asarray((40, 44, 56))).all(-1)
        for k in range(50):
            n = states.n[k]
            rows, cols = np.flatnonzero(red[k].any(1)), np.flatnonzero(red[k].any(0))
            groups = lambda x: 1 + (np.diff(x) > 1).sum()  # noqa: E731
            points = states.points[k, :n]
            assert groups(rows) == len(set(points[:, 1])) and groups(cols) == len(set(points[:, 0]))
            assert ink[k].sum() > 2 * 7 * n  # two rows of numbers
            border = np.concatenate([ink[k][0], ink[k][-1], ink[k][:, 0], ink[k][:, -1]])
            assert not border.any()


def test_nothing_but_points_grid_and_ticks():
    """Upstream laid example triangles over the points: two instances differ only where their points do."""
    a, b = state([(0, 0), (3, 0), (0, 3)]), state([(0, 0), (3, 0), (2, 3)])
    render = jax.jit(ENV.render)
    pa, pb = np.asarray(render(a)), np.asarray(render(b))
    changed = (pa != pb).any(-1)
    red = ((pa[..., 0] > 150) & (pa[..., 1] < 80)) | ((pb[..., 0] > 150) & (pb[..., 1] < 80))
    assert changed.any() and not (changed & ~red).any()


def test_texts():
    s = state([(0, 0), (4, 0), (0, 4), (4, 4)])
    shown = bytes(b for b in np.asarray(ENV.text_state(s)) if b).decode()
    assert shown == "4 points with coordinates 0 to 4, 4 choices of three"
    assert codec.read(ENV.answer, "<answer>64</answer>")[0] == 64
    assert codec.read(ENV.answer, "<answer>6.4</answer>")[0] == codec.UNREADABLE
