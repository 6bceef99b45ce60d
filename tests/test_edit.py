"""Edits of instances (ACCEL): small, solvable, pure."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import EnvBatch, MixedBatch, episode
from jaxenv.core import SUCCESS

EDITABLE = [e for e in jaxenv.ids() if jaxenv.make(e, 1024).editable]
COUNT, EDITS = 32, 6


@pytest.mark.parametrize("env_id", EDITABLE)
def test_edited_instances_differ_and_are_solvable(env_id):
    batch = EnvBatch(env_id, resolution=64)
    env = batch.env
    levels = np.arange(COUNT, dtype=np.int32) % env.num_levels
    start = batch.start(jax.random.split(jax.random.key(0), COUNT), levels)
    seeds = np.random.default_rng(0).integers(1, 2**32, (COUNT, EDITS), dtype=np.uint32)
    edited = batch.edit(start, seeds)
    same = jax.tree.map(lambda a, b: a.shape == b.shape and a.dtype == b.dtype, edited, start)
    assert all(jax.tree.leaves(same))
    assert (batch.identities(edited) != batch.identities(start)).any(axis=1).mean() > 0.9
    np.testing.assert_array_equal(
        batch.identities(batch.edit(start, np.zeros_like(seeds))), batch.identities(start)
    )

    @jax.jit
    @jax.vmap
    def oracle(ep):
        turn = lambda _, e: episode.advance(env, jax.random.key(0), e, env.solve(e.state))  # noqa: E731
        return jax.lax.fori_loop(0, env.horizon, turn, ep)

    end = oracle(edited)
    assert (np.asarray(end.ret) >= SUCCESS).all() and np.asarray(end.terminated).all()


@pytest.mark.parametrize("env_id", EDITABLE)
def test_jit_equals_eager(env_id):
    env = jaxenv.make(env_id, 64)
    state = env.init(jax.random.key(1), jnp.int32(env.num_levels - 1))
    compiled = jax.jit(partial(env.edit, jax.random.key(2)))(state)
    with jax.disable_jit():
        eager = env.edit(jax.random.key(2), state)
    jax.tree.map(np.testing.assert_array_equal, compiled, eager)


def test_mixed_batches_edit_only_what_is_asked():
    mixed = MixedBatch(["frozen_lake", "tictactoe_qa"], resolution=64)
    env, level = np.asarray([0, 1, 0]), np.zeros(3, np.int32)
    keys = jax.random.split(jax.random.key(3), 3)
    plain = mixed.identities(mixed.start(env, level, keys))
    edits = np.asarray([[5, 6], [0, 0], [0, 0]], np.uint32)
    edited = mixed.identities(mixed.start(env, level, keys, edits))
    assert edited[0] != plain[0] and edited[1:] == plain[1:]
    with pytest.raises(NotImplementedError, match="tictactoe_qa cannot be edited"):
        mixed.start(env, level, keys, np.ones((3, 1), np.uint32))
