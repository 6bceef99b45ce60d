"""Hierarchical Difficulty Curriculum, and the runs without a curriculum beside it."""

import dataclasses
import math
import random
from collections import deque
from fractions import Fraction
from functools import partial

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import curriculum
from curriculum.base import MAX_GROUPS, Request
from curriculum.hdc import HDC
from curriculum.none import NoCurriculum

TARGETS = np.array([3, 2, 0, 1, 4])
MANY = 20_000  # prompts, where frequencies are looked at
MODES = pytest.mark.parametrize("compare", [">", ">="])


def rows(env, harness, level, stage):
    """A request from equally long lists, or numbers that are repeated."""
    env, harness, level, stage = np.broadcast_arrays(np.atleast_1d(env), harness, level, stage)
    fields = {"env": env, "harness": harness, "level": level, "stage": stage}
    fields = {name: jnp.asarray(value, jnp.int32) for name, value in fields.items()}
    return Request(seed=jnp.zeros(env.shape, jnp.uint32), **fields)


def frontier(state, envs):
    """Rows drawn at the current frontier of `envs`."""
    envs = np.asarray(envs)
    return rows(envs, np.asarray(state.r)[envs], np.asarray(state.u)[envs], np.asarray(state.stage)[envs])


def feed(config, state, request, success):
    success = jnp.asarray(np.broadcast_to(np.float32(success), request.env.shape))
    return config.update(state, request, success, success)


def at(state, r, u):
    """The state moved to frontier (r, u) in every environment, as if by promotions."""
    full = jnp.full_like
    return state.replace(r=full(state.r, r), u=full(state.u, u), stage=full(state.stage, 7))


def same(left, right):
    """Equal to the bit, types included."""
    left_leaves, left_def = jax.tree.flatten(left)
    right_leaves, right_def = jax.tree.flatten(right)
    assert left_def == right_def
    for a, b in zip(left_leaves, right_leaves, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


# Sampling


def test_harness_distribution_by_hand():
    e1, e2, e3 = math.exp(-1), math.exp(-2), math.exp(-3)
    table = HDC(p_cur=0.7, alpha=1.0).harness_table()
    np.testing.assert_allclose(table[0], [1, 0, 0, 0, 0])
    np.testing.assert_allclose(table[1], [0.3, 0.7, 0, 0, 0])
    np.testing.assert_allclose(table[2], [0.3 * e2 / (e1 + e2), 0.3 * e1 / (e1 + e2), 0.7, 0, 0])
    np.testing.assert_allclose(table[3, :3], 0.3 * np.array([e3, e2, e1]) / (e1 + e2 + e3))
    np.testing.assert_allclose(table[4], [0.009618, 0.026143, 0.071065, 0.193174, 0.7], atol=1e-6)
    np.testing.assert_allclose(HDC(p_cur=0.5, alpha=0.0).harness_table()[4], [0.125] * 4 + [0.5])
    # A decay so steep that every weight of the formula is 0 in floating point.
    np.testing.assert_allclose(HDC(alpha=1e6).harness_table()[4], [0, 0, 0, 0.3, 0.7])


@pytest.mark.parametrize(
    "config", [HDC(), HDC(p_cur=0.4, alpha=0.3), HDC(p_cur=1.0)], ids=["default", "flat", "one"]
)
def test_harness_frequencies(config):
    table = config.harness_table()
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    state = config.init([2] * 5).replace(r=jnp.arange(5, dtype=jnp.int32))
    request = config.sample(jax.random.key(3), state, MANY)
    env, harness = np.asarray(request.env), np.asarray(request.harness)
    for r in range(5):
        seen = np.bincount(harness[env == r], minlength=5)
        expected = table[r] * seen.sum()
        possible = expected > 0
        assert seen[~possible].sum() == 0
        chi2 = ((seen - expected)[possible] ** 2 / expected[possible]).sum()
        assert chi2 < 30  # at most 4 degrees of freedom: 5e-6


@pytest.mark.parametrize("window", [0, 1, 1000])
def test_levels_uniform_in_window(window):
    config = HDC(window=window)
    state = config.init([9] * 5).replace(u=jnp.arange(5, dtype=jnp.int32))
    request = config.sample(jax.random.key(1), state, MANY)
    env, level = np.asarray(request.env), np.asarray(request.level)
    assert abs(np.bincount(env, minlength=5) / (MANY / 5) - 1).max() < 0.06  # environments are uniform
    for u in range(5):
        lower = max(0, u - window)
        seen = np.bincount(level[env == u], minlength=u + 1)
        assert seen[:lower].sum() == 0 and len(seen) == u + 1
        share = seen[lower:] / seen.sum()
        assert abs(share * (u - lower + 1) - 1).max() < 0.15


def test_draws_are_independent():
    config = HDC(window=1000)
    request = config.sample(jax.random.key(8), at(config.init([4] * 5), 4, 4), MANY)
    seen = np.zeros((5, 5, 5, 2))
    np.add.at(seen, (request.env, request.harness, request.level, request.seed % 2), 1)
    expected = np.broadcast_to(config.harness_table()[4][:, None, None] * MANY / 50, seen.shape)
    chi2 = ((seen - expected) ** 2 / expected).sum()
    assert 150 < chi2 < 350  # 249 degrees of freedom, standard deviation 22


def test_request_types_and_seeds():
    config = HDC()
    state = at(config.init(TARGETS), 2, 0)
    request = config.sample(jax.random.key(0), state, MANY)
    for field in dataclasses.fields(Request):
        value = getattr(request, field.name)
        assert value.shape == (MANY,) and not value.weak_type
        assert value.dtype == (jnp.uint32 if field.name == "seed" else jnp.int32)
    assert (request.stage == 7).all()
    assert len(np.unique(request.seed)) >= MANY - 3
    same(request, config.sample(jax.random.key(0), state, MANY))
    other = config.sample(jax.random.key(1), state, MANY)
    for name in ("env", "harness", "seed"):
        assert (getattr(other, name) != getattr(request, name)).any()


def test_mastered_weight_thins_out_mastered_environments():
    config = HDC(mastered_weight=0.25)
    state = config.init([0] * 4).replace(mastered=jnp.array([True, False, True, False]))
    seen = np.bincount(config.sample(jax.random.key(2), state, 10_000).env, minlength=4)
    np.testing.assert_allclose(seen, [1000, 4000, 1000, 4000], rtol=0.1)


# Promotion


@MODES
@pytest.mark.parametrize(
    ("tau", "size", "groups"),
    [
        ("3/4", 16, [12, 12, 12, 12]),
        ("3/4", 16, [16, 16, 15, 1]),
        ("9/10", 10, [9, 9, 8, 10, 9]),  # neither 0.9 nor the sum is exact in binary
        ("1/3", 10, [3, 4, 3]),
    ],
)
def test_promotion_exactly_at_the_threshold(compare, tau, size, groups):
    """One rollout below, at, and one above the threshold; environments 0-2 climb in scale, 3-5 in harness."""
    limit = Fraction(tau)
    config = HDC(compare=compare, min_prompts=len(groups), tau_scale=float(limit), tau_harness=float(limit))
    state = config.init([1, 1, 1, 0, 0, 0])
    wins = np.array([[groups[0] + offset, *groups[1:]] for offset in (-1, 0, 1, -1, 0, 1)])
    wins = np.minimum(wins, size)
    means = [Fraction(int(row.sum()), size * len(groups)) for row in wins]
    passes = np.array([mean > limit or (compare == ">=" and mean == limit) for mean in means])
    request = frontier(state, np.repeat(np.arange(6), len(groups)))
    after, metrics = feed(config, state, request, (wins.astype(np.float32) / np.float32(size)).ravel())
    np.testing.assert_array_equal(after.u, np.where(np.arange(6) < 3, passes, 0))
    np.testing.assert_array_equal(after.r, np.where(np.arange(6) < 3, 0, passes))
    np.testing.assert_array_equal(metrics["scale_promoted"] | metrics["harness_promoted"], passes)
    np.testing.assert_allclose(metrics["frontier_success"], [float(mean) for mean in means], rtol=1e-5)


@MODES
@pytest.mark.parametrize("tau20", [1, 6, 14, 19])
def test_threshold_over_many_group_sizes(compare, tau20):
    """Windows of 20 groups whose mean equals tau20 / 20, and their neighbours one rollout away."""
    rng = random.Random(tau20)
    config = HDC(compare=compare, min_prompts=20, tau_scale=tau20 / 20)
    env, success, expected = [], [], []
    for size in (3, 5, 6, 7, 12, 16, 20, 24, 48, 100, 128):
        for offset in (-1, 0, 1):
            wins = [(tau20 * size + offset) // 20] * 20
            for i in rng.sample(range(20), (tau20 * size + offset) % 20):
                wins[i] += 1
            env += [len(expected)] * 20
            success += [np.float32(k) / np.float32(size) for k in wins]
            expected.append(offset > 0 or (offset == 0 and compare == ">="))
    state = config.init([1] * len(expected))
    after, _ = feed(config, state, frontier(state, env), np.array(success, np.float32))
    np.testing.assert_array_equal(after.u, np.array(expected, np.int32))


def test_window_tumbles():
    config = HDC(min_prompts=3)
    state = config.init([2])
    one = frontier(state, [0])
    state, metrics = feed(config, state, one, 1.0)
    state, metrics = feed(config, state, one, 1.0)
    assert int(state.count[0]) == 2 and int(state.u[0]) == 0 and float(metrics["frontier_success"][0]) == 1.0
    state, metrics = feed(config, state, one, 0.0)  # 2/3: fails, and the two passed groups are forgotten
    assert int(state.count[0]) == 0 and int(state.total[0]) == 0 and int(state.u[0]) == 0
    np.testing.assert_allclose(metrics["frontier_success"], [2 / 3], rtol=1e-6)
    state, metrics = feed(config, state, rows([0], 0, 0, 99), 1.0)
    assert np.isnan(metrics["frontier_success"][0])
    state, _ = feed(config, state, one, 1.0)
    assert int(state.count[0]) == 1 and int(state.u[0]) == 0  # one group since the check
    state, _ = feed(config, state, frontier(state, [0] * 2), 1.0)
    assert int(state.u[0]) == 1 and int(state.stage[0]) == 1 and int(state.count[0]) == 0
    assert int(state.prompts[0]) == 7


def test_one_promotion_per_update():
    config = HDC(min_prompts=2)
    state = config.init([3, 0, 3])
    after, metrics = feed(config, state, frontier(state, [0] * 40 + [1] * 40), 1.0)
    np.testing.assert_array_equal(after.u, [1, 0, 0])
    np.testing.assert_array_equal(after.r, [0, 1, 0])
    np.testing.assert_array_equal(after.stage, [1, 1, 0])
    np.testing.assert_array_equal(metrics["scale_promoted"], [True, False, False])
    np.testing.assert_array_equal(metrics["harness_promoted"], [False, True, False])
    np.testing.assert_array_equal(after.count, 0)


def test_harness_step_needs_samples_of_the_target():
    """The groups that lift u to the target must not lift r as well."""
    config = HDC(min_prompts=2)
    state = config.init([1])
    late = frontier(state, [0] * 2)
    state, metrics = feed(config, state, late, 1.0)
    assert (int(state.r[0]), int(state.u[0])) == (0, 1) and not metrics["harness_promoted"][0]
    state, _ = feed(config, state, late, 1.0)
    state, _ = feed(config, state, rows([0] * 4, 0, 0, 1), 1.0)  # current stage, easier level
    assert (int(state.r[0]), int(state.u[0]), int(state.count[0])) == (0, 1, 0)
    state, metrics = feed(config, state, frontier(state, [0] * 2), 1.0)
    assert (int(state.r[0]), int(state.u[0])) == (1, 0) and metrics["harness_promoted"][0]


@pytest.mark.parametrize(("reset_to", "window", "level"), [("zero", 1, 0), ("lower", 1, 3), ("lower", 9, 0)])
def test_reset_to(reset_to, window, level):
    config = HDC(min_prompts=1, reset_to=reset_to, window=window)
    state = at(config.init([4]), 1, 4)
    state, _ = feed(config, state, frontier(state, [0]), 1.0)
    assert (int(state.r[0]), int(state.u[0])) == (2, level)


def test_thresholds_are_separate():
    config = HDC(min_prompts=1, tau_scale=0.2, tau_harness=0.6)
    state = config.init([1])
    state, _ = feed(config, state, frontier(state, [0]), 0.4)
    assert (int(state.r[0]), int(state.u[0])) == (0, 1)
    state, _ = feed(config, state, frontier(state, [0]), 0.4)
    assert (int(state.r[0]), int(state.u[0])) == (0, 1)
    state, _ = feed(config, state, frontier(state, [0]), 0.7)
    assert (int(state.r[0]), int(state.u[0])) == (1, 0)


@pytest.mark.parametrize("count", ["frontier", "any_harness"])
def test_stale_and_rehearsal_samples(count):
    config = HDC(min_prompts=1, count=count, window=3)
    state = at(config.init([3]), 2, 1)
    ignored = [(2, 1, 6), (2, 1, 8), (2, 1, 0), (2, 0, 7), (2, 2, 7), (2, 3, 7), (0, 0, 7), (3, 3, 2)]
    for harness, level, stage in ignored:
        after, metrics = feed(config, state, rows([0], harness, level, stage), 1.0)
        assert np.isnan(metrics["frontier_success"][0])
        same(after, state.replace(prompts=state.prompts + 1))
    for harness in (0, 1):
        after, _ = feed(config, state, rows([0], harness, 1, 7), 1.0)
        assert int(after.u[0]) == (2 if count == "any_harness" else 1)


def test_groups_without_result_and_padding_are_ignored():
    config = HDC(min_prompts=4)
    state = config.init([1, 1])
    request = rows([0, 0, -1, 2, 1, -5, 0], 0, 0, 0)
    after, metrics = feed(config, state, request, [1.0, np.nan, 1.0, 1.0, 0.5, 1.0, np.inf])
    np.testing.assert_array_equal(after.prompts, [1, 1])
    np.testing.assert_array_equal(after.count, [1, 1])
    np.testing.assert_array_equal(metrics["frontier_success"], [1.0, 0.5])
    clipped, _ = feed(config, state, rows([0, 1], 0, 0, 0), [7.0, -7.0])
    exact, _ = feed(config, state, rows([0, 1], 0, 0, 0), [1.0, 0.0])
    same(clipped, exact)


def test_order_in_a_batch_does_not_matter():
    rng = np.random.default_rng(0)
    config = HDC(min_prompts=15, tau_scale=0.5)
    state = config.init([2] * 7)
    request = rows(rng.integers(0, 7, 128), 0, 0, 0)
    success = rng.random(128, np.float32)  # shaped returns: a float sum would depend on the order
    expected = feed(config, state, request, success)
    assert expected[1]["scale_promoted"].any() and not expected[1]["scale_promoted"].all()
    assert expected[0].total.any()
    for _ in range(20):
        order = rng.permutation(128)
        shuffled = jax.tree.map(lambda x, order=order: x[order], request)
        same(feed(config, state, shuffled, success[order]), expected)
    # Below a check, two updates hold what one update with both halves holds.
    waiting = HDC(min_prompts=1000)
    whole, _ = feed(waiting, state, request, success)
    half, _ = feed(waiting, state, jax.tree.map(lambda x: x[:64], request), success[:64])
    half, _ = feed(waiting, half, jax.tree.map(lambda x: x[64:], request), success[64:])
    same(whole, half)


def test_without_scale_only_the_harness_moves():
    config = HDC(min_prompts=2)
    state = config.init([0])
    for r in range(4):
        assert (int(state.r[0]), int(state.u[0]), int(state.stage[0])) == (r, 0, r)
        request = config.sample(jax.random.key(r), state, 20)
        assert (request.level == 0).all()
        state, _ = feed(config, state, frontier(state, [0] * 2), 1.0)
    assert int(state.r[0]) == 4 and not state.mastered[0]


def test_mastered_clamps_and_keeps_sampling():
    config = HDC(min_prompts=1, window=1)
    state = at(config.init([2]), 4, 2)
    state, metrics = feed(config, state, frontier(state, [0]), 0.5)
    assert not state.mastered[0]
    for _ in range(3):
        state, metrics = feed(config, state, frontier(state, [0]), 1.0)
        assert (int(state.r[0]), int(state.u[0]), int(state.stage[0])) == (4, 2, 7)
        assert state.mastered[0] and metrics["mastered"][0] and not metrics["harness_promoted"][0]
        assert int(state.count[0]) == 0
    state, metrics = feed(config, state, frontier(state, [0]), 0.0)  # never taken back
    assert state.mastered[0] and float(metrics["frontier_success"][0]) == 0.0
    request = config.sample(jax.random.key(0), state, 400)
    assert set(np.asarray(request.level)) == {1, 2} and set(np.asarray(request.harness)) == {0, 1, 2, 3, 4}


# Algorithm 1 in plain Python


class Twin:
    """Algorithm 1 of the paper over one dict per environment, in exact fractions.

    Tags are (r, u, number of promotions) tuples: a sample whose tag is not the present one is late.
    """

    def __init__(
        self, targets, window, tau_scale, tau_harness, min_prompts, inclusive, any_harness, to_lower
    ):
        self.window, self.min_prompts = window, min_prompts
        self.tau_scale, self.tau_harness = tau_scale, tau_harness
        self.inclusive, self.any_harness, self.to_lower = inclusive, any_harness, to_lower
        self.ties = 0  # checks that met their threshold exactly
        self.envs = [
            {"r": 0, "u": 0, "target": int(t), "moves": 0, "results": [], "mastered": False} for t in targets
        ]

    def lower(self, u):
        return u - self.window if u > self.window else 0

    def tag(self, e):
        return self.envs[e]["r"], self.envs[e]["u"], self.envs[e]["moves"]

    def may_draw(self, e, h, s):
        env = self.envs[e]
        return 0 <= h <= env["r"] and s in range(self.lower(env["u"]), env["u"] + 1)

    def exceeds(self, p, tau):
        self.ties += p == tau
        return p >= tau if self.inclusive else p > tau

    def update(self, groups):
        for e, h, s, tag, success in groups:
            env = self.envs[e]
            if tag == self.tag(e) and s == env["u"] and (self.any_harness or h == env["r"]):
                env["results"].append(success)
        for env in self.envs:
            if len(env["results"]) < self.min_prompts:
                continue
            p = sum(env["results"], Fraction(0)) / len(env["results"])
            env["results"] = []
            if env["u"] < env["target"]:  # line 12; line 15 waits for samples of the target level
                if self.exceeds(p, self.tau_scale):
                    env["u"] += 1
                    env["moves"] += 1
            elif self.exceeds(p, self.tau_harness):  # line 15
                if env["r"] == 4:
                    env["mastered"] = True
                else:
                    env["r"] += 1
                    env["u"] = self.lower(env["target"]) if self.to_lower else 0
                    env["moves"] += 1


SETTINGS = {
    "default": HDC(),
    "rlve": HDC(window=3, tau_scale=0.9, tau_harness=0.9, min_prompts=8, compare=">="),
    "literal_window": HDC(window=10**6, reset_to="lower"),  # Algorithm 1: l_e = 0, u_e <- l_e
    "single_prompt": HDC(min_prompts=1, p_cur=0.5, alpha=0.2, window=0, compare=">="),
    "any_harness": HDC(count="any_harness", reset_to="lower", tau_scale=0.5, min_prompts=2, window=2),
    "uneven": HDC(min_prompts=3, tau_scale=0.3, tau_harness=0.7, p_cur=0.9),
}


@pytest.mark.parametrize("size", [10, 16])
@pytest.mark.parametrize("name", SETTINGS)
def test_agrees_with_algorithm_1(name, size):
    config = SETTINGS[name]
    rng = random.Random(f"{name}{size}")
    tau_scale = Fraction(config.tau_scale).limit_denominator(20)
    tau_harness = Fraction(config.tau_harness).limit_denominator(20)
    twin = Twin(
        TARGETS,
        config.window,
        tau_scale,
        tau_harness,
        config.min_prompts,
        inclusive=config.compare == ">=",
        any_harness=config.count == "any_harness",
        to_lower=config.reset_to == "lower",
    )
    state = config.init(TARGETS)
    in_flight = deque()
    late = 0
    for step, key in enumerate(jax.random.split(jax.random.key(11), 250)):
        request = jax.device_get(config.sample(key, state, 24))
        drawn = list(zip(request.env.tolist(), request.harness.tolist(), request.level.tolist(), strict=True))
        assert all(twin.may_draw(*row) for row in drawn)
        tags = [twin.tag(e) for e, _, _ in drawn]
        # Some updates are easy, some hard and some close to a threshold; results come back out of order.
        chance = rng.choice([0.2, float(tau_scale), float(tau_harness), 0.97, 0.97])
        wins = [sum(rng.random() < chance for _ in range(size)) for _ in drawn]
        in_flight.append((request, drawn, tags, wins))
        if step % 3 == 0:
            continue
        for _ in range(min(len(in_flight), rng.choice([1, 1, 2]))):
            request, drawn, tags, wins = in_flight.popleft() if rng.random() < 0.7 else in_flight.pop()
            late += sum(tag != twin.tag(e) for (e, _, _), tag in zip(drawn, tags, strict=True))
            results = [Fraction(k, size) for k in wins]
            twin.update([(*row, tag, k) for row, tag, k in zip(drawn, tags, results, strict=True)])
            state, _ = feed(config, state, request, np.float32(wins) / np.float32(size))
            now = jax.device_get(state)
            pairs = {"r": now.r, "u": now.u, "moves": now.stage, "mastered": now.mastered}
            for field, values in pairs.items():
                assert values.tolist() == [env[field] for env in twin.envs], (step, field)
            assert now.count.tolist() == [len(env["results"]) for env in twin.envs]
    assert late > 50 and now.stage.min() >= 4 and now.r.max() == 4
    assert twin.ties > 0


# State, compilation, configuration


def step(config, state, key):
    """One draw and its update, with made-up success of 9/16 to 16/16."""
    k_sample, k_success = jax.random.split(key)
    request = config.sample(k_sample, state, 16)
    wins = jax.random.bits(k_success, (16,), jnp.uint32) % 8 + 9
    success = wins.astype(jnp.float32) / 16
    state, metrics = config.update(state, request, success, success)
    return state, (request, metrics)


def drive(config, state, key, steps):
    """The last state and all requests and metrics, stacked."""
    trail = []
    for k in jax.random.split(key, steps):
        state, seen = step(config, state, k)
        trail.append(seen)
    return state, jax.tree.map(lambda *x: np.stack(x), *trail)


DRIVEN = pytest.mark.parametrize(
    "config",
    [HDC(min_prompts=2, mastered_weight=0.5), NoCurriculum(base_scale="uniform")],
    ids=["hdc", "none"],
)


@DRIVEN
def test_checkpoint_continues_to_the_bit(config):
    state, _ = drive(config, config.init(TARGETS), jax.random.key(0), 25)
    assert all(isinstance(leaf, jax.Array) and not leaf.weak_type for leaf in jax.tree.leaves(state))
    saved = flax.serialization.to_bytes(state)
    restored = flax.serialization.from_bytes(config.init(TARGETS), saved)
    same(state, restored)
    same(drive(config, state, jax.random.key(1), 25), drive(config, restored, jax.random.key(1), 25))


@DRIVEN
def test_jit_equals_eager(config):
    jitted = drive(config, config.init(TARGETS), jax.random.key(2), 6)
    with jax.disable_jit():
        eager = drive(config, config.init(TARGETS), jax.random.key(2), 6)
    same(jitted, eager)


@DRIVEN
def test_vmap_and_scan_equal_loops(config):
    start = config.init(TARGETS)
    keys = jax.random.split(jax.random.key(4), 3)
    scan = jax.jit(
        jax.vmap(lambda key: jax.lax.scan(partial(step, config), start, jax.random.split(key, 30)))
    )
    batched = scan(keys)
    for index, key in enumerate(keys):
        same(jax.tree.map(lambda x, index=index: x[index], batched), drive(config, start, key, 30))
    if isinstance(config, HDC):
        assert len({tuple(row) for row in np.asarray(batched[0].stage).tolist()}) == 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traced(HDC):
    """Counts how often the bodies of sample and update run in Python."""

    label: str

    def harness_table(self):
        TRACES.append("sample")
        return super().harness_table()

    def _passes(self, total, count, threshold):
        TRACES.append("update")
        return super()._passes(total, count, threshold)


TRACES = []


def test_one_trace():
    TRACES.clear()
    for _ in range(2):  # equal configs share the compiled functions
        config = Traced(label="trace", min_prompts=1)
        state, _ = drive(config, config.init(TARGETS), jax.random.key(0), 4)
    assert int(state.stage.sum()) > 0
    assert TRACES == ["sample", "update", "update"]  # one per threshold


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("p_cur", 0.0),
        ("p_cur", 1.1),
        ("p_cur", float("nan")),
        ("p_cur", "0.7"),
        ("alpha", -0.1),
        ("alpha", float("inf")),
        ("window", -1),
        ("window", 1.5),
        ("window", True),
        ("tau_scale", -0.1),
        ("tau_scale", 1.0),
        ("tau_harness", 1.0),
        ("tau_harness", None),
        ("min_prompts", 0),
        ("min_prompts", 10**6),
        ("reset_to", "one"),
        ("count", "all"),
        ("compare", ">>"),
        ("mastered_weight", 0.0),
    ],
)
def test_invalid_settings(field, value):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        HDC(**{field: value})


def test_settings_at_the_limits():
    assert HDC(tau_scale=1.0, tau_harness=1.0, compare=">=").tau_scale == 1.0
    assert hash(HDC(p_cur=1.0, window=0, min_prompts=1)) == hash(HDC(p_cur=1.0, window=0, min_prompts=1))
    config = HDC(tau_scale=1.0, compare=">=", min_prompts=2)
    state = config.init([1])
    assert int(feed(config, state, frontier(state, [0] * 2), 1.0)[0].u[0]) == 1
    assert int(feed(config, state, frontier(state, [0] * 2), [1.0, 0.999])[0].u[0]) == 0


@pytest.mark.parametrize("targets", [[], 3, [[1]], [-1, 2], [1.0], [True], [2**31]])
def test_invalid_targets(targets):
    with pytest.raises(ValueError, match=r"^targets must be"):
        HDC().init(targets)


@pytest.mark.parametrize("config", [HDC(), NoCurriculum(base_scale="target")], ids=["hdc", "none"])
def test_invalid_batches(config):
    state = config.init([1, 1])
    request = rows([0, 1], 4, 1, 0)
    good = jnp.zeros(2, jnp.float32)
    for success, reward in ((good[:1], good), (good, good[:1]), (good[0], good), (good[:, None], good)):
        with pytest.raises(ValueError, match="one entry per request row"):
            config.update(state, request, success, reward)
    most = MAX_GROUPS - getattr(config, "min_prompts", 0)
    with pytest.raises(ValueError, match=f"at most {most} groups per update"):
        feed(config, state, rows([0] * (most + 1), 0, 0, 0), 1.0)


def test_largest_batch_does_not_overflow():
    config = HDC(min_prompts=3)
    state = config.init([1, 1])
    state, _ = feed(config, state, frontier(state, [0] * 2), 1.0)
    largest = MAX_GROUPS - config.min_prompts
    state, metrics = feed(config, state, frontier(state, [0] * largest), 1.0)
    assert int(state.u[0]) == 1 and float(metrics["frontier_success"][0]) == 1.0
    # The other end: nothing solved, far below the threshold.
    state, metrics = feed(config, state, frontier(state, [1] * largest), 0.0)
    assert int(state.u[1]) == 0 and float(metrics["frontier_success"][1]) == 0.0


# No curriculum, and the registry


def test_no_curriculum():
    targets = [3, 0, 1]
    for base_scale in ("uniform", "target"):
        config = curriculum.make("none", base_scale=base_scale)
        state = config.init(targets)
        request = config.sample(jax.random.key(0), state, 3000)
        assert (request.harness == 4).all() and (request.stage == 0).all()
        assert len(np.unique(request.seed)) > 2990
        for index, target in enumerate(targets):
            seen = np.bincount(
                np.asarray(request.level)[np.asarray(request.env) == index], minlength=target + 1
            )
            assert len(seen) == target + 1 and 850 < seen.sum() < 1150
            if base_scale == "target":
                assert seen[:-1].sum() == 0
            else:
                assert abs(seen / seen.sum() * (target + 1) - 1).max() < 0.2
        after, metrics = feed(config, state, rows([0, 0, 0, 1, -1], 4, [3, 3, 0, 0, 0], 0), [1, 0.5, 0, 1, 1])
        same(after, state.replace(prompts=jnp.array([3, 1, 0], jnp.int32)))
        np.testing.assert_array_equal(metrics["frontier_success"], [0.75, 1.0, np.nan])
        np.testing.assert_array_equal(metrics["harness"], 4)
        np.testing.assert_array_equal(metrics["level"], targets)


def test_base_scale_is_explicit():
    with pytest.raises(TypeError, match="base_scale"):
        curriculum.make("none")
    with pytest.raises(ValueError, match="base_scale must be one of"):
        curriculum.make("none", base_scale="hard")


def test_registry():
    assert {"hdc", "none"} <= set(curriculum.names()) and "base" not in curriculum.names()
    assert curriculum.make("hdc", window=3) == HDC(window=3)
    for wrong in ("hcd", "HDC", "hdcs"):
        with pytest.raises(ValueError, match=f"'{wrong}'; did you mean .*'hdc'"):
            curriculum.make(wrong)
    with pytest.raises(ValueError, match=r"'zzzzzz'; known: .*hdc.*none"):
        curriculum.make("zzzzzz")
    with pytest.raises(ValueError, match="'base'"):
        curriculum.make("base")
    with pytest.raises(TypeError, match="p_curr"):
        curriculum.make("hdc", p_curr=0.5)
    with pytest.raises(ValueError, match="p_cur"):
        curriculum.make("hdc", p_cur=2.0)
