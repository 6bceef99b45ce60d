"""HDC's further settings: one axis alone, and promotion on a lower confidence bound."""

import math
from fractions import Fraction
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curriculum.base import MAX_GROUPS, Request
from curriculum.harness_only import HarnessOnly
from curriculum.hdc import HDC
from curriculum.scale_only import ScaleOnly


def frontier(state, envs):
    """Rows drawn at the current frontier of `envs`."""
    envs = jnp.asarray(envs, jnp.int32)
    seed = jnp.zeros(envs.shape, jnp.uint32)
    return Request(env=envs, harness=state.r[envs], level=state.u[envs], seed=seed, stage=state.stage[envs])


def feed(config, state, request, success):
    success = jnp.asarray(success, jnp.float32)
    return config.update(state, request, success, success)


# One axis


def test_scale_only_stays_at_h4():
    config = ScaleOnly(min_prompts=2)
    state = config.init([2, 0])
    for u in (0, 1, 2):
        np.testing.assert_array_equal(state.r, 4)
        assert int(state.u[0]) == u
        request = config.sample(jax.random.key(u), state, 60)
        assert (request.harness == 4).all() and (request.level <= state.u[request.env]).all()
        state, metrics = feed(config, state, frontier(state, [0, 0]), [1.0, 1.0])
    np.testing.assert_array_equal(state.u, [2, 0])
    np.testing.assert_array_equal(metrics["mastered"], [True, False])
    np.testing.assert_array_equal(config.harness_table(), np.eye(5))


def test_harness_only_stays_at_the_target():
    config = HarnessOnly(min_prompts=2, window=5)
    state = config.init([2, 0])
    for r in range(5):
        np.testing.assert_array_equal(state.u, [2, 0])
        assert int(state.r[0]) == r
        request = config.sample(jax.random.key(r), state, 60)
        np.testing.assert_array_equal(request.level, np.array([2, 0])[request.env])
        assert set(np.asarray(request.harness[request.env == 0])) <= set(range(r + 1))
        state, metrics = feed(config, state, frontier(state, [0, 0]), [1.0, 1.0])
        assert not metrics["scale_promoted"].any()
    assert int(state.r[0]) == 4 and state.mastered[0] and int(state.r[1]) == 0


def test_defaults_are_presets_of_hdc():
    assert ScaleOnly().axes == "scale" and HarnessOnly().axes == "harness" and HDC().axes == "both"
    assert ScaleOnly() != HDC(axes="scale")  # another class, so that a table can tell them apart


# The lower bound


def lower_bound(successes, confidence):
    """The docstring's formula in plain Python: the window and one imaginary group of success 0."""
    values = [Fraction(0), *successes]
    n = len(values)
    mean = sum(values) / n
    variance = sum((v - mean) ** 2 for v in values) / (n - 1)
    return float(mean) - NormalDist().inv_cdf(confidence) * math.sqrt(variance / n)


def test_lower_bound_by_hand():
    z = NormalDist().inv_cdf(0.9)
    for n in (1, 4, 9, 30):
        assert lower_bound([Fraction(1)] * n, 0.9) == pytest.approx((n - z) / (n + 1))
    # Close to the exact binomial bound of n wins in n, 0.1 ** (1 / n): both ask for nine at 0.75.
    assert next(n for n in range(1, 30) if 0.1 ** (1 / n) > 0.75) == 9
    assert next(n for n in range(1, 30) if lower_bound([Fraction(1)] * n, 0.9) > 0.75) == 9


LOWER = HDC(promote_on="lower", min_prompts=4, confidence=0.9, patience=8)


def test_four_perfect_groups_do_not_promote_but_nine_do():
    state = LOWER.init([1])
    for count in range(1, 10):
        assert int(state.u[0]) == 0 and int(state.count[0]) == count - 1
        state, metrics = feed(LOWER, state, frontier(state, [0]), [1.0])
        assert float(metrics["frontier_success"][0]) == 1.0
    assert int(state.u[0]) == 1 and int(state.count[0]) == 0 and int(state.squares[0]) == 0


def test_an_undecided_window_grows_and_a_failed_one_is_emptied():
    config = HDC(promote_on="lower", min_prompts=2, patience=3)
    state = config.init([1])
    for success in (1.0, 1.0, 1.0, 0.25, 1.0):  # means above 0.75 from the second group on
        state, _ = feed(config, state, frontier(state, [0]), [success])
    assert int(state.count[0]) == 5
    emptied, _ = feed(config, state, frontier(state, [0]), [0.0])  # 4.25 / 6: the mean fails
    assert int(emptied.count[0]) == 0 and int(emptied.u[0]) == 0
    longest, _ = feed(config, state, frontier(state, [0]), [1.0])  # 3 * 2 groups: patience is over
    assert int(longest.count[0]) == 0 and int(longest.u[0]) == 0


@pytest.mark.parametrize("size", [10, 16])
def test_agrees_with_the_formula(size):
    """Random windows of one environment, group by group; decisions nearer than 1e-5 to a threshold are left out."""
    config = LOWER
    rng = np.random.default_rng(size)
    step = jax.jit(lambda state, success: feed(config, state, frontier(state, [0]), success[None]))
    state, window, stage, close = config.init([4]), [], 0, 0
    for chance in rng.choice([0.75, 0.9, 0.97, 1.0], 300):
        wins = rng.binomial(size, chance) if rng.random() < 0.5 else size * int(rng.random() < chance)
        window.append(Fraction(int(wins), size))
        state, _ = step(state, jnp.float32(wins) / jnp.float32(size))
        if len(window) >= 4:
            mean, bound = sum(window) / len(window), lower_bound(window, 0.9)
            if abs(bound - 0.75) < 1e-5:
                close += 1
                break
            if mean > Fraction(3, 4) and bound > 0.75:
                stage, window = stage + 1, []
            elif mean <= Fraction(3, 4) or len(window) >= 32:
                window = []
        assert (int(state.stage[0]), int(state.count[0])) == (stage, len(window))
    assert stage >= 4 and not close


def test_promotion_by_luck():
    """True success 0.5, threshold 0.75, checks of 4 prompts with all-or-nothing groups, 4,000 environments."""
    envs, rounds = 4000, 40
    request_rows = np.arange(envs)
    passes = {}
    for config in (HDC(), LOWER):
        step = jax.jit(
            lambda state, wins, config=config: feed(config, state, frontier(state, request_rows), wins)
        )
        state = config.init(np.full(envs, 100))
        rng = np.random.default_rng(0)
        promoted = 0
        for _ in range(rounds):
            state, metrics = step(state, rng.integers(0, 2, envs).astype(np.float32))
            promoted += int(metrics["scale_promoted"].sum())
        passes[config.promote_on] = promoted / (envs * rounds / 4)
    assert passes["mean"] == pytest.approx(1 / 16, rel=0.1)  # four wins of four
    assert passes["lower"] < 0.003


def test_order_and_largest_windows():
    config = HDC(promote_on="lower", min_prompts=3, patience=4, tau_scale=0.3)
    state = config.init([2] * 5)
    rng = np.random.default_rng(1)
    env = rng.integers(0, 5, 64)
    success = (rng.random(64) * np.array([0.2, 0.5, 0.7, 0.9, 1.0])[env]).astype(np.float32)
    expected, _ = feed(config, state, frontier(state, env), success)
    assert 0 < int(expected.stage.sum()) < 5
    order = rng.permutation(64)
    shuffled, _ = feed(config, state, frontier(state, env[order]), success[order])
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(shuffled), strict=True):
        np.testing.assert_array_equal(a, b)
    most = MAX_GROUPS - 12
    after, _ = feed(config, state, frontier(state, [0] * most), np.ones(most))
    assert int(after.u[0]) == 1
    with pytest.raises(ValueError, match=f"at most {most} groups"):
        feed(config, state, frontier(state, [0] * (most + 1)), np.ones(most + 1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("axes", "none"),
        ("promote_on", "median"),
        ("confidence", 0.4),
        ("confidence", 1.0),
        ("patience", 0),
        ("patience", 2.5),
    ],
)
def test_invalid_settings(field, value):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        HDC(**{field: value})


def test_invalid_combinations():
    with pytest.raises(ValueError, match=r"^tau_scale must be"):  # no lower bound reaches 1
        HDC(promote_on="lower", compare=">=", tau_scale=1.0)
    with pytest.raises(ValueError, match=r"^patience must be at most 4"):
        HDC(promote_on="lower", min_prompts=1000, patience=5)
