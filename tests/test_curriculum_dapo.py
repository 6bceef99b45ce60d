"""DAPO's dynamic sampling around other curricula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curriculum.dapo import DAPO
from curriculum.hdc import HDC
from curriculum.none import NoCurriculum
from curriculum.plr_robust import RobustPLR
from curriculum.vcrl import VCRL

TARGETS = [2, 0, 1]


def test_live_groups_only():
    config = DAPO(inner=HDC())
    state = config.init(TARGETS)
    request = config.sample(jax.random.key(0), state, 5)
    success = jnp.asarray([0.0, 1 / 16, 0.5, 1.0, jnp.nan], jnp.float32)
    np.testing.assert_array_equal(config.trains(state, request, success, success), [0, 1, 1, 0, 0])


def test_the_inner_curriculum_sees_every_group_and_both_budgets_are_counted():
    inner = HDC(min_prompts=2)
    config = DAPO(inner=inner, refills=2)
    state, plain = config.init(TARGETS), inner.init(TARGETS)
    generated = trained = 0
    rng = np.random.default_rng(0)
    for key in jax.random.split(jax.random.key(3), 20):
        request = config.sample(key, state, 8)
        assert all(
            (a == b).all()
            for a, b in zip(
                jax.tree.leaves(request), jax.tree.leaves(inner.sample(key, plain, 8)), strict=True
            )
        )
        success = jnp.asarray(rng.choice([0.0, 0.5, 1.0, 1.0], 8), jnp.float32)
        live = np.asarray(config.trains(state, request, success, success))
        generated, trained = generated + 8, trained + int(live.sum())
        state, metrics = config.update(state, request, success, success)
        plain, expected = inner.update(plain, request, success, success)
        for name in ("harness", "level", "scale_promoted", "mastered", "frontier_success"):
            np.testing.assert_array_equal(metrics[name], expected[name])
        assert int(metrics["prompts"].sum()) == generated and int(metrics["trained"].sum()) == trained
    assert int(plain.stage.sum()) > 0 and trained < generated


def test_refill_draws_anew():
    config = DAPO(inner=NoCurriculum(base_scale="uniform"))
    state = config.init(TARGETS)
    first, second = (config.refill(jax.random.key(i), state, 16) for i in range(2))
    assert (first.env >= 0).all() and len(set(first.seed.tolist()) & set(second.seed.tolist())) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("refills", 0), ("inner", "hdc"), ("inner", RobustPLR()), ("inner", VCRL()), ("inner", DAPO())],
)
def test_invalid_settings(field, value):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        DAPO(**{field: value})
