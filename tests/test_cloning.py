"""Demonstrations are the oracle's, in the shares asked for; blocks cover them; a short run learns something."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import ENVS, setup

from agents import cloning
from agents.cloning import BLOCK, Config
from agents.policy import Shapes
from agents.prompts import bucket
from jaxenv import MixedBatch, codec, make

# 64 demonstrations a block: 32, 16, 16 of the environments.
CONFIG = Config(steps=30, rows=4, learning_rate=0.1, shares=(0.5, 0.25, 0.25))
COUNTS = (32, 16, 16)
SHAPES = Shapes(buckets=(100, 200), replies=(4, 12))


def demonstrate(seed=0, count=64, config=CONFIG):
    held = setup()
    key, shares = jax.random.key(seed), config.split([0.0] * len(ENVS))
    return cloning.demonstrations(held.mixed, held.writer, held.targets, key, count, config, shares)


@pytest.fixture(scope="module")
def shown():
    return demonstrate()


def test_environments_in_the_shares_asked_for(shown):
    prompts, replies = shown
    assert len(prompts) == len(replies) == 64
    assert np.bincount([p.kind for p in prompts]).tolist() == list(COUNTS)


def test_an_environment_that_is_good_enough_leaves_its_demonstrations_to_the_others():
    config = Config(shares=(0.5, 0.3, 0.2), enough=0.4, rehearsal=0.1)
    np.testing.assert_allclose(config.split([0.0, 0.39, 0.1]), [0.5, 0.3, 0.2], rtol=1e-6)
    np.testing.assert_allclose(config.split([0.4, 0.1, 0.1]), np.asarray([0.05, 0.3, 0.2]) / 0.55, rtol=1e-6)
    # Forgotten again: back to where it was. All good enough: as at first.
    np.testing.assert_allclose(config.split([0.3, 0.1, 0.9]), np.asarray([0.5, 0.3, 0.02]) / 0.82, rtol=1e-6)
    np.testing.assert_allclose(config.split([1.0, 0.4, 0.5]), [0.5, 0.3, 0.2], rtol=1e-6)
    np.testing.assert_allclose(Config().split([0.0, 0.0]), [0.5, 0.5])


def test_when_environments_are_probed():
    blocks = range(0, 200, BLOCK)
    assert not any(Config().probes(b) for b in blocks)
    assert [b for b in blocks if Config(probe_every=2).probes(b)] == [32, 64, 96, 128, 160, 192]
    assert [b for b in blocks if Config(probe_every=3, probe_from=97).probes(b)] == [144, 192]


def test_harness_in_the_shares_asked_for():
    tokenizer = setup().writer.tokenizer

    def share(config):
        texts = [tokenizer.decode(p.ids) for p in demonstrate(1, 64, config)[0]]
        marks = [
            [bool(re.search(m, t)) for m in ("Observation:", "State: ", "Hint: ", "Rules: ")] for t in texts
        ]
        return np.bincount([4 - sum(m) for m in marks], minlength=5) / len(texts)

    np.testing.assert_array_equal(
        share(dataclasses.replace(CONFIG, harness=(0, 0, 0, 0, 1.0))), [0, 0, 0, 0, 1]
    )
    mixed = share(dataclasses.replace(CONFIG, harness=(0.5, 0, 0.25, 0, 0.25)))
    assert mixed[1] == mixed[3] == 0
    np.testing.assert_allclose(mixed, [0.5, 0, 0.25, 0, 0.25], atol=0.2)


def test_replies_are_the_oracles():
    """At H0 the prompt holds the whole state: every reply wins the single-turn task that its text describes."""
    held = setup()
    count = cloning.PIECE
    for index, env_id in enumerate(ENVS):
        mixed = MixedBatch([env_id], 64)
        key = jax.random.key(4)
        only = dataclasses.replace(CONFIG, harness=(1.0, 0, 0, 0, 0))
        prompts, replies = cloning.demonstrations(
            mixed, held.writer, held.targets[[index]], key, count, only, np.ones(1)
        )
        k_level, k_wander, _ = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, 0), 0), 3)
        levels = jax.random.randint(k_level, (count,), 0, held.targets[index] + 1, jnp.int32)
        episodes = cloning.wander(make(env_id, 64), k_wander, levels, jnp.float32(only.noise))
        (batch,) = mixed.batches
        assert not np.asarray(episodes.done).any()
        texts = [held.writer.tokenizer.decode(r) for r in replies]
        actions = batch.parse(texts)
        assert (actions != codec.UNREADABLE).all()
        np.testing.assert_array_equal(actions, np.asarray(batch.solve(episodes)))
        moved = batch.step(jax.random.split(key, count), episodes, actions)
        assert np.asarray(moved.valid).all()
        if batch.env.horizon == 1:
            assert np.asarray(moved.success).all()
        for prompt, picture in zip(prompts, np.asarray(batch.render(episodes))):
            np.testing.assert_array_equal(prompt.picture, picture)


def test_wandering_reaches_unfinished_states_on_and_off_the_way():
    env = make("frozen_lake", 64)
    levels = jnp.full(COUNTS[0], 2, jnp.int32)
    for noise in (0.0, 0.5):
        episodes = cloning.wander(env, jax.random.key(2), levels, jnp.float32(noise))
        t = np.asarray(episodes.t)
        assert not np.asarray(episodes.done).any() and (np.asarray(episodes.ret) == 0).all()
        assert t.min() == 0 and t.max() >= 2 and (t <= np.asarray(episodes.limit) // 2).all()
    straight = cloning.wander(env, jax.random.key(2), levels, jnp.float32(0.0))
    left = np.asarray(jax.vmap(lambda s: env._to_goal(s)[s.pos[0], s.pos[1]])(straight.state))
    whole = (np.asarray(straight.limit) - 2) // 2
    np.testing.assert_array_equal(left, whole - np.asarray(straight.t))  # without noise: on a shortest way
    assert (left > 0).all()


def test_the_key_decides(shown):
    again, other = demonstrate(), demonstrate(5)
    same = [
        np.array_equal(a.ids, b.ids) and np.array_equal(a.picture, b.picture)
        for a, b in zip(shown[0], again[0])
    ]
    assert all(same) and all(np.array_equal(a, b) for a, b in zip(shown[1], again[1]))
    assert any(not np.array_equal(a.picture, b.picture) for a, b in zip(shown[0], other[0]))


def block(seed=0):
    held = setup()
    shares, pad = CONFIG.split([0.0] * len(ENVS)), held.policy.config.pad
    return cloning.block(
        held.mixed, held.writer, held.targets, jax.random.key(seed), CONFIG, shares, SHAPES, pad
    )


def test_a_block_is_a_full_batch_for_every_step():
    batches = block()
    assert len(batches) == BLOCK
    eos, sizes = setup().policy.config.eos, set()
    for prompts, tokens, mask in batches:
        assert prompts.tokens.shape[0] == CONFIG.rows and tokens.shape == mask.shape and tokens.shape[1] == 1
        for size, sizes_of in ((prompts.tokens.shape[1], SHAPES.buckets), (tokens.shape[2], SHAPES.replies)):
            assert size == bucket(size, sizes_of)
        sizes.add((prompts.tokens.shape[1], tokens.shape[2]))
        for row, length, reply, seen in zip(prompts.tokens, prompts.lengths, tokens[:, 0], mask[:, 0]):
            assert bucket(int(length), SHAPES.buckets) == len(row)
            count = int(seen.sum())
            assert (seen[:count] == 1).all() and reply[count - 1] == eos and eos not in reply[: count - 1]
            assert bucket(count, SHAPES.replies) == len(reply)
    assert len(sizes) > 1
    for a, b in zip(batches, block()):
        jax.tree.map(np.testing.assert_array_equal, a, b)
    assert any((a[1].shape != b[1].shape) or (a[1] != b[1]).any() for a, b in zip(batches, block(1)))


def test_loss_falls():
    held = setup()
    mixed = MixedBatch(["frozen_lake"], 64)
    wide = Shapes(buckets=(200,), replies=(12,))
    params = jax.tree.map(jnp.copy, held.params)
    state, losses = CONFIG.optimizer().init(params), []
    for first in (0, BLOCK):
        key = jax.random.fold_in(jax.random.key(0), first)
        batches = cloning.block(
            mixed, held.writer, held.targets[:1], key, CONFIG, np.ones(1), wide, held.policy.config.pad
        )
        for batch in batches[: CONFIG.steps - first]:
            params, state, loss = cloning.step(held.policy, CONFIG, params, state, *batch)
            losses.append(float(loss))
    assert len(losses) == CONFIG.steps
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:3])
    # The caller's parameters were not touched.
    assert np.isfinite(np.asarray(jax.tree.leaves(held.params)[0])).all()


@pytest.mark.parametrize(
    "field, value",
    [("steps", -1), ("rows", 0), ("harness", (1.0,)), ("harness", (0.5, 0.5, 0.5, -0.5, 0)), ("harness", (0.1,) * 5),
     ("shares", (0.5, 0.6)), ("shares", (1.5, -0.5)), ("noise", 1.5), ("probe_every", -1), ("probe_from", -1), ("probe_episodes", 1), ("rehearsal", 0.0)],
)  # fmt: skip
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ValueError, match=f"cloning.*{field}"):
        Config(**{field: value})
