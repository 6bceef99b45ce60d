"""What every curriculum must keep: pure, jitted, vmapped, scanned, checkpointed, one trace, budgets counted."""

import dataclasses
from functools import partial

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import curriculum
from curriculum.accel import ACCEL
from curriculum.adcl import ADCL
from curriculum.base import Curriculum, Request, nothing
from curriculum.dapo import DAPO
from curriculum.hdc import HDC
from curriculum.none import NoCurriculum
from curriculum.plr import PLR
from curriculum.vcrl import VCRL

TARGETS = np.array([3, 2, 0, 1])
BATCH = 6
CONFIGS = {
    "lower": HDC(promote_on="lower", min_prompts=2, patience=3, tau_scale=0.5, tau_harness=0.3),
    "vcrl": VCRL(capacity=8, early_steps=3, kappa=0.7),
    "dapo": DAPO(inner=NoCurriculum(base_scale="uniform"), refills=2),
    "plr": PLR(capacity=8),
    "accel": ACCEL(capacity=8, editable=(0, 1, 3), max_edits=2),
    "adcl": ADCL(pool=12, batches=3),
}
EVERY = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def same(left, right):
    """Equal to the bit, types included."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def step(config, state, key):
    """One training step as the interface asks for it, with made-up success; one round of refill."""
    request = config.sample(key, state, BATCH)
    success = (request.seed % 17).astype(jnp.float32) / 16
    trained = config.trains(state, request, success, success)
    if config.refills:
        more = config.refill(key, state, BATCH)
        missing = BATCH - jnp.sum(trained, dtype=jnp.int32)
        more = more.replace(env=jnp.where(jnp.arange(BATCH) < missing, more.env, -1))
        request = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), request, more)
        success = jnp.where(request.env >= 0, (request.seed % 17).astype(jnp.float32) / 16, jnp.nan)
        trained = config.trains(state, request, success, success)
    state, metrics = config.update(state, request, success, success)
    return state, (request, trained, metrics)


def loop(config, state, key, steps):
    """The last state, and all requests, trained groups and metrics, stacked."""
    trail = []
    for k in jax.random.split(key, steps):
        state, seen = step(config, state, k)
        trail.append(seen)
    return state, jax.tree.map(lambda *x: np.stack(x), *trail)


@EVERY
def test_vmap_and_scan_equal_loops(config):
    start = config.init(TARGETS)
    keys = jax.random.split(jax.random.key(4), 2)
    scan = jax.jit(
        jax.vmap(lambda key: jax.lax.scan(partial(step, config), start, jax.random.split(key, 16)))
    )
    end, (request, trained, metrics) = jax.device_get(scan(keys))
    for index, key in enumerate(keys):
        expected = loop(config, start, key, 16)
        same(jax.tree.map(lambda x, index=index: x[index], (end, (request, trained, metrics))), expected)
    # Prompts are counted where they were generated, and again where they were trained on.
    for e in range(len(TARGETS)):
        mine = request.env == e
        np.testing.assert_array_equal(metrics["prompts"][:, -1, e], mine.sum((1, 2)))
        np.testing.assert_array_equal(metrics["trained"][:, -1, e], (mine & trained).sum((1, 2)))
    assert all(metrics[name].dtype == np.int32 for name in ("harness", "level", "prompts", "trained"))
    assert metrics["frontier_success"].dtype == np.float32
    assert (request.level <= TARGETS[request.env])[request.env >= 0].all()


@EVERY
def test_checkpoint_continues_to_the_bit(config):
    state, _ = loop(config, config.init(TARGETS), jax.random.key(0), 9)
    assert all(isinstance(leaf, jax.Array) and not leaf.weak_type for leaf in jax.tree.leaves(state))
    assert all(leaf.size for leaf in jax.tree.leaves(state))  # orbax stores no empty arrays
    restored = flax.serialization.from_bytes(config.init(TARGETS), flax.serialization.to_bytes(state))
    same(state, restored)
    same(loop(config, state, jax.random.key(1), 6), loop(config, restored, jax.random.key(1), 6))


@EVERY
def test_jit_equals_eager(config):
    state, _ = loop(config, config.init(TARGETS), jax.random.key(3), 7)
    jitted = loop(config, state, jax.random.key(2), 2)
    with jax.disable_jit():
        eager = loop(config, state, jax.random.key(2), 2)
    same(jitted, eager)


@EVERY
def test_padding_and_groups_without_result_change_nothing(config):
    state, _ = loop(config, config.init(TARGETS), jax.random.key(0), 9)
    request = config.sample(jax.random.key(7), state, BATCH)
    success = jnp.full((BATCH,), 0.5, jnp.float32)
    for rows, result in (
        (request, success * jnp.nan),
        (request, success * jnp.inf),
        (request.replace(env=jnp.full((BATCH,), -1, jnp.int32)), success),
        (request.replace(env=jnp.full((BATCH,), len(TARGETS), jnp.int32)), success),
    ):
        after, _ = config.update(state, rows, result, result)
        if isinstance(config, VCRL):  # its schedule counts updates
            after = after.replace(step=state.step)
        if isinstance(config, ACCEL):  # nothing was replayed, so there are no parents any more
            after = after.replace(parents=state.parents)
        same(after, state)
        if rows.env[0] < len(TARGETS):
            assert not config.trains(state, rows, result, result).any()


@EVERY
def test_the_order_of_independent_rows_does_not_change_the_counters(config):
    state, _ = loop(config, config.init(TARGETS), jax.random.key(5), 5)
    request = config.sample(jax.random.key(7), state, BATCH)
    success = jnp.asarray([0.1, 0.9, 0.5, 0.0, 1.0, 0.3], jnp.float32)
    order = np.array([3, 0, 5, 1, 4, 2])
    metrics = config.update(state, request, success, success)[1]
    moved = config.update(state, jax.tree.map(lambda x: x[order], request), success[order], success)[1]
    for name in ("harness", "level", "frontier_success", "prompts", "trained"):
        np.testing.assert_array_equal(metrics[name], moved[name])


@EVERY
def test_invalid_batches_and_targets(config):
    state = config.init(TARGETS)
    request = config.sample(jax.random.key(0), state, BATCH)
    with pytest.raises(ValueError, match="one entry per request row"):
        config.update(state, request, jnp.zeros(BATCH - 1), jnp.zeros(BATCH))
    with pytest.raises(ValueError, match=r"^targets must be"):
        config.init([-1, 2])


def test_every_curriculum_is_found_and_hashable():
    needs = {"none": {"base_scale": "target"}, "accel": {"editable": (0,)}}
    names = curriculum.names()
    assert {"hdc", "scale_only", "harness_only", "none", "rlve", "vcrl", "dapo"} <= set(names)
    assert {"plr", "plr_robust", "accel", "adcl"} <= set(names) and "simulate" not in names
    for name in names:
        config = curriculum.make(name, **needs.get(name, {}))
        assert isinstance(config, Curriculum) and config == curriculum.make(name, **needs.get(name, {}))
        assert isinstance(hash(config), int) and dataclasses.is_dataclass(config)
        assert isinstance(config.refills, int) and config.refills >= 0


def test_defaults_of_the_interface():
    config = HDC()
    state = config.init([1, 1])
    request = Request(
        *(jnp.asarray([0, 1, -1, 1], jnp.int32),) * 3, jnp.zeros(4, jnp.uint32), jnp.zeros(4, jnp.int32)
    )
    success = jnp.asarray([0.0, jnp.nan, 1.0, 1.0], jnp.float32)
    np.testing.assert_array_equal(config.trains(state, request, success, success), [True, False, False, True])
    assert config.refills == 0
    same(config.refill(jax.random.key(0), state, 3), nothing(3))
    assert (nothing(3).env == -1).all() and nothing(3).edits.shape == (3, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traced(VCRL):
    """Counts how often Python runs the bodies that call `variance`."""

    def variance(self, success):
        TRACES.append(success.shape)
        return super().variance(success)


TRACES = []


def test_one_trace():
    for _ in range(2):  # equal configs share the compiled functions
        config = Traced(capacity=8)
        state = config.init(TARGETS)
        for key in jax.random.split(jax.random.key(0), 3):
            request = config.sample(key, state, BATCH)
            success = jnp.full((BATCH,), 0.5, jnp.float32)
            config.trains(state, request, success, success)
            state, _ = config.update(state, request, success, success)
    assert TRACES == [(BATCH,)] * 2  # trains, which update shares, and update
