"""Advantages by hand; the merged, shared-prefix loss against a plain loop over turns; what must leave no trace."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small import narrow, prompts, setup

from agents import grpo, qwen3vl
from agents.policy import Shapes, score
from agents.prompts import bucket, pack
from agents.rollout import Rollouts

SHAPES = Shapes(buckets=(200,), replies=(3, 6), rows=2, samples=3)
LENGTH = 6


class Plain(grpo.Config):
    """GRPO with plain gradient descent: Adam would blow rounding errors up to whole steps."""

    def optimizer(self):
        return optax.sgd(self.learning_rate)


def rollouts(
    group, ret, episode=None, prompt=None, tokens=None, mask=None, log_probs=None, reward=None, valid=None
):
    """Rollouts from what matters; one turn per episode where nothing else is said."""
    group, ret = np.asarray(group, np.int32), np.asarray(ret, np.float32)
    episode = np.arange(len(group)) if episode is None else np.asarray(episode)
    count = len(episode)
    prompt = group[episode] if prompt is None else np.asarray(prompt)
    tokens = np.full((count, LENGTH), 10) if tokens is None else tokens
    mask = np.ones((count, LENGTH), bool) if mask is None else mask
    log_probs = np.full((count, LENGTH), -1.0) if log_probs is None else log_probs
    reward = ret[episode] if reward is None else reward
    return Rollouts(
        prompts=prompts(6), prompt_texts=[], episode=episode.astype(np.int32), prompt=prompt.astype(np.int32),
        tokens=tokens.astype(np.int32), log_probs=log_probs.astype(np.float32), mask=mask, replies=[""] * count,
        valid=np.ones(count, bool) if valid is None else valid, reward=np.asarray(reward, np.float32), group=group,
        ret=ret, success=ret >= 1, length=np.bincount(episode, minlength=len(group)).astype(np.int32),
    )  # fmt: skip


# ---- advantages ----


def test_advantages_by_hand():
    r = rollouts([0, 0, 0, 0], [1, 0, 0, 1])
    std = np.sqrt(1 / 3)  # unbiased
    np.testing.assert_allclose(
        grpo.advantages(r, grpo.Config()), np.array([1, -1, -1, 1]) * 0.5 / std, rtol=1e-5
    )
    centred = grpo.advantages(r, grpo.Config(scale_by_std=False))
    np.testing.assert_allclose(centred, [0.5, -0.5, -0.5, 0.5], atol=1e-7)


@pytest.mark.parametrize("scale_by_std", [True, False])
def test_advantages_sum_to_zero_and_follow_permutations(scale_by_std):
    config = grpo.Config(scale_by_std=scale_by_std)
    rng = np.random.default_rng(0)
    group, ret = np.repeat([2, 0, 3, 1], 8), rng.random(32).astype(np.float32)  # ids in any order
    got = grpo.advantages(rollouts(group, ret), config)
    np.testing.assert_allclose(np.bincount(group, got), 0, atol=1e-5)
    if scale_by_std:
        for g in range(4):
            np.testing.assert_allclose(got[group == g].std(ddof=1), 1, atol=1e-4)
    order = rng.permutation(32)  # groups interleaved
    np.testing.assert_allclose(
        grpo.advantages(rollouts(group[order], ret[order]), config), got[order], atol=1e-5
    )


def test_groups_without_a_difference_are_exactly_dead():
    noise = np.float32(0.1) + np.arange(4, dtype=np.float32) * np.float32(2e-8)
    assert len(set(noise.tolist())) > 1
    ret = [*noise, 0, 0, 0, 0, 1, 1, 1, 1, 0.3, 1, 0]  # group 3 is a singleton, group 4 lives
    group = [0] * 4 + [1] * 4 + [2] * 4 + [3] + [4] * 2
    r = rollouts(group, ret)
    got = grpo.advantages(r, grpo.Config())
    assert (got[:13] == 0).all() and (got[13:] != 0).all()
    batch = grpo.pairs(dataclasses.replace(r, prompt=r.prompt % 6), got)
    np.testing.assert_array_equal(batch.live, [False, False, False, False, True])
    assert batch.total_tokens == 2 * LENGTH


def test_returns_to_go_by_hand():
    episode = np.array([0, 1, 2, 0, 2, 0])  # turns of three episodes in time order
    reward = np.array([0.0, 1.0, 0.25, 0.0, 0.5, 1.0], np.float32)
    got = grpo.returns_to_go(reward, episode, 0.5)
    np.testing.assert_allclose(got, [0.25, 1.0, 0.5, 0.5, 0.5, 1.0])
    np.testing.assert_allclose(grpo.returns_to_go(reward, episode, 0.0), reward)
    np.testing.assert_allclose(grpo.returns_to_go(reward, episode, 1.0), [1, 1, 0.75, 1, 0.5, 1])


def test_step_advantages_by_hand():
    # Group 0: episodes 0 and 1 both start before prompt 0; then 0 sees prompt 1 and wins, 1 sees prompt 2 and loses.
    # Group 1: episode 2 sees prompt 0 as well, which is no comparison with another group's turns.
    r = rollouts(
        group=[0, 0, 1],
        ret=[1.0, 0.0, 0.5],
        episode=[0, 1, 2, 0, 1],
        prompt=[0, 0, 0, 1, 2],
        reward=[0, 0, 0.5, 1, 0],
    )
    config = grpo.Config(advantage="step", scale_by_std=False, discount=0.5, step_weight=2.0)
    # Returns to go: 0.5, 0, 0.5, 1, 0. Only the first two share an anchor: 0.25 and -0.25 around their mean.
    want = [0.5 + 2 * 0.25, -0.5 - 2 * 0.25, 0.0, 0.5, -0.5]
    np.testing.assert_allclose(grpo.advantages(r, config), want, atol=1e-6)
    whole = grpo.advantages(r, dataclasses.replace(config, advantage="trajectory"))
    np.testing.assert_allclose(whole, [0.5, -0.5, 0.0, 0.5, -0.5], atol=1e-6)
    scaled = grpo.advantages(r, dataclasses.replace(config, scale_by_std=True))
    np.testing.assert_allclose(
        scaled, (1 + 2 * np.array([1, 1, 0, 0, 0])) * np.array([1, -1, 0, 1, -1]) * 2**-0.5, atol=1e-4
    )


# ---- merging and packing ----


@pytest.fixture(scope="module")
def played():
    """30 turns of 12 episodes in 3 groups, with repeated replies; group 2 is dead. Sampler log-probs are a bit off."""
    rng = np.random.default_rng(1)
    held = setup()
    group = np.repeat(np.arange(3), 4)
    ret = np.array([1, 0, 0.5, 0, 0, 0.25, 1, 1, 1, 1, 1, 1], np.float32)
    episode = np.concatenate([np.arange(12), np.arange(12), [0, 1, 5, 6, 9, 10]])
    prompt = group[episode] * 2 + rng.integers(0, 2, len(episode))
    bank = rng.integers(10, 16, (6, 4, LENGTH))  # four replies per prompt
    length = rng.integers(1, LENGTH + 1, (6, 4))
    choice = rng.integers(0, 4, len(episode))
    mask = np.arange(LENGTH) < length[prompt, choice][:, None]
    tokens = np.where(mask, bank[prompt, choice], narrow().config.pad)
    batch = pack(prompts(6), 6, 200, narrow().config.pad)
    log_probs = np.asarray(
        jax.jit(score, static_argnums=0)(narrow(), held.params, batch, bank.astype(np.int32), np.float32(1))[
            0
        ]
    )
    off = rng.normal(0, 0.5, log_probs.shape).astype(np.float32)
    sampler = np.where(mask, (log_probs - off)[prompt, choice], 0)
    valid = rng.random(len(episode)) < 0.5
    reward = rng.random(len(episode))
    return rollouts(group, ret, episode, prompt, tokens, mask, sampler, reward, valid)


def test_pairs_keep_all_advantages_and_occurrences(played):
    config = grpo.Config(advantage="step")
    advantage = grpo.advantages(played, config)
    batch = grpo.pairs(played, advantage)
    np.testing.assert_array_equal(
        batch.live, [True, True, True]
    )  # same-state advantages bring group 2 to life
    batch = grpo.pairs(played, grpo.advantages(played, grpo.Config()))
    np.testing.assert_array_equal(batch.live, [True, True, False])
    live = played.group[played.episode] < 2
    assert batch.count.sum() == live.sum() > len(batch.count)  # some were merged; invalid replies count too
    assert (~played.valid[live]).any()
    assert batch.total_tokens == played.mask[live].sum()
    advantage = grpo.advantages(played, grpo.Config())
    np.testing.assert_allclose(batch.gain.sum(), advantage[advantage > 0].sum(), rtol=1e-5)
    np.testing.assert_allclose(batch.loss.sum(), advantage[advantage < 0].sum(), rtol=1e-5)
    assert (
        batch.gains.sum() == (advantage[live] > 0).sum() and batch.losses.sum() == (advantage[live] < 0).sum()
    )
    assert ((batch.gain > 0) == (batch.gains > 0)).all() and ((batch.gain > 0) & (batch.loss < 0)).any()
    seen = {(p, *t[m].tolist()) for p, t, m in zip(batch.prompt, batch.tokens, batch.mask)}
    assert len(seen) == len(batch.prompt)
    assert seen == {
        (p, *t[m].tolist()) for p, t, m in zip(played.prompt[live], played.tokens[live], played.mask[live])
    }


def test_replies_that_differ_only_in_their_end_are_two_pairs():
    tokens = np.full((2, LENGTH), 10)
    mask = np.ones((2, LENGTH), bool)
    mask[1, 3:] = False  # a prefix of the other, with the same ids behind its end
    r = rollouts([0, 0], [1, 0], tokens=tokens, mask=mask)
    assert len(grpo.pairs(r, grpo.advantages(r, grpo.Config())).prompt) == 2


def test_chunks_pack_every_pair_exactly_once(played):
    some = prompts(6)
    batch = grpo.pairs(played, grpo.advantages(played, grpo.Config(advantage="step")))
    shapes = dataclasses.replace(SHAPES, buckets=(100, 200), samples=2)
    seen = []
    for c in grpo.chunks(some, batch, shapes, 0):
        rows, samples, length = c.tokens.shape
        assert (rows, samples) == (2, 2) and length in (3, 6) and c.prompts.tokens.shape[1] in (100, 200)
        for i, k in zip(*np.nonzero(c.count)):
            (p,) = [
                p
                for p, one in enumerate(some)
                if one.ids.tolist() == c.prompts.tokens[i][: c.prompts.lengths[i]].tolist()
            ]
            assert bucket(len(some[p].ids), shapes.buckets) == c.prompts.tokens.shape[1]
            np.testing.assert_array_equal(c.prompts.pictures[i, 0], some[p].picture)
            n = int(c.mask[i, k].sum())
            assert bucket(n, shapes.replies) == length and (c.mask[i, k, :n] == 1).all()
            seen.append(
                (p, *c.tokens[i, k, :n], c.gain[i, k], c.loss[i, k], c.count[i, k], *c.sampler[i, k, :n])
            )
        padding = c.count == 0
        assert (c.mask[padding] == 0).all() and (c.gain[padding] == 0).all() and (c.loss[padding] == 0).all()
    want = [
        (p, *t[m], g, lo, n, *s[m])
        for p, t, m, g, lo, n, s in zip(
            batch.prompt, batch.tokens, batch.mask, batch.gain, batch.loss, batch.count, batch.sampler
        )
    ]
    assert sorted(map(tuple, seen)) == sorted(map(tuple, want))


# ---- the loss against a plain loop ----


CONFIG = Plain(
    learning_rate=3.0,
    epochs=2,
    kl=0.2,
    advantage="step",
    clip_low=0.02,
    clip_high=0.03,
    mismatch_cap=1.2,
    grad_clip=1e9,
)


@partial(jax.jit, static_argnums=(0, 1))
def textbook(
    policy, config, params, tokens, length, answer, mask, picture, a, old, sampler, reference, first
):
    """One turn's summed token losses and their gradient, prompt and reply in one causal pass."""

    def loss(params):
        model = policy.model(params)
        patches = qwen3vl.patchify(picture[None, None], policy.config)
        hidden = model.forward(tokens[None], (length + LENGTH)[None], patches, (8, 8))[0]
        logits = model.logits(hidden)
        logits = logits.at[:, list(policy.banned)].set(-jnp.inf)
        places = length - 1 + jnp.arange(LENGTH, dtype=jnp.int32)
        log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits[places]), answer[:, None], axis=1)[:, 0]
        before = jnp.where(first, jax.lax.stop_gradient(log_probs), old)
        ratio = jnp.exp(log_probs - before)
        weight = jnp.minimum(jnp.exp(jax.lax.stop_gradient(before) - sampler), config.mismatch_cap)
        clipped = jnp.clip(ratio, 1 - config.clip_low, 1 + config.clip_high)
        gained = weight * jnp.minimum(ratio * a, clipped * a)
        behind = reference - log_probs
        k3 = jnp.exp(behind) - behind - 1
        return ((config.kl * k3 - gained) * mask).sum(), (log_probs, ratio, k3)

    (value, out), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return value, grads, out


def plain_update(policy, config, params, reference, r: Rollouts):
    """GRPO as one would write it first: two loops, no merging, no sharing."""
    advantage = grpo.advantages(r, config)
    group = r.group[r.episode]
    live = [m for m in range(len(r.prompt)) if np.abs(advantage[group == group[m]]).max() > 0]
    total = sum(r.mask[m].sum() for m in live)

    def turn(params, m, old, reference, first):
        prompt = r.prompts[r.prompt[m]]
        n = len(prompt.ids)
        tokens = np.zeros(200 + LENGTH, np.int32)
        tokens[:n], tokens[n : n + LENGTH] = prompt.ids, r.tokens[m]
        answer = np.where(r.mask[m], r.tokens[m], 10).astype(np.int32)
        return textbook(
            policy, config, params, tokens, np.int32(n), answer, r.mask[m].astype(np.float32), prompt.picture,
            np.float32(advantage[m]), old, r.log_probs[m], reference, np.bool_(first),
        )  # fmt: skip

    zeros = np.zeros(LENGTH, np.float32)
    anchor = {m: turn(reference, m, zeros, zeros, True)[2][0] for m in live}
    old = dict.fromkeys(live, zeros)
    statistics = {}
    for epoch in range(config.epochs):
        total_grads = jax.tree.map(jnp.zeros_like, params)
        low = high = loss = kl = 0.0
        for m in live:
            value, grads, (log_probs, ratio, k3) = turn(params, m, old[m], anchor[m], epoch == 0)
            if epoch == 0:
                old[m] = log_probs
            total_grads = jax.tree.map(lambda t, g: t + g / np.float32(total), total_grads, grads)
            ratio, seen = np.asarray(ratio), r.mask[m]
            high += ((ratio > 1 + config.clip_high) & seen).sum() * (advantage[m] > 0)
            low += ((ratio < 1 - config.clip_low) & seen).sum() * (advantage[m] < 0)
            loss, kl = loss + float(value), kl + float((np.asarray(k3) * seen).sum())
        params = jax.tree.map(lambda p, g: p - np.float32(config.learning_rate) * g, params, total_grads)
        statistics = {
            "loss": loss / total,
            "kl_reference": kl / total,
            "high": high / total,
            "low": low / total,
        }
    return params, statistics


def moved(params, scale=0.02, seed=0):
    """Other parameters nearby."""
    leaves, structure = jax.tree.flatten(params)
    rng = np.random.default_rng(seed)
    leaves = [x + jnp.asarray(rng.normal(0, scale, x.shape), x.dtype) for x in leaves]
    return jax.tree.unflatten(structure, leaves)


def copy(params):
    return jax.tree.map(jnp.copy, params)


def test_merged_update_equals_a_plain_loop_over_turns(played):
    start, reference = setup().params, moved(setup().params)
    want, statistics = plain_update(narrow(), CONFIG, start, reference, played)
    learner = grpo.Learner(copy(start), CONFIG.optimizer().init(start), reference)
    got, metrics = grpo.update(narrow(), CONFIG, learner, played, SHAPES)
    largest = 0.0
    for a, b, s in zip(*map(jax.tree.leaves, (got.params, want, start))):
        largest = max(largest, np.abs(b - s).max())
        np.testing.assert_allclose(a, b, atol=2e-5)
    assert largest > 0.02  # the parameters moved far more than the tolerance
    assert statistics["high"] > 0.02 and statistics["low"] > 0.02  # clipping is at work
    np.testing.assert_allclose(metrics["clipped_high"], statistics["high"], atol=1e-6)
    np.testing.assert_allclose(metrics["clipped_low"], statistics["low"], atol=1e-6)
    np.testing.assert_allclose(metrics["kl_reference"], statistics["kl_reference"], rtol=1e-3)
    np.testing.assert_allclose(metrics["loss"], statistics["loss"], rtol=1e-3)


# ---- what must hold at once ----


def parts(config, played, params=None):
    """A function that adds up the gradients and statistics of all chunks at given parameters."""
    batch = grpo.pairs(played, grpo.advantages(played, config))
    todo = grpo.chunks(played.prompts, batch, SHAPES, narrow().config.pad)

    def run(params, first=True, change=lambda c: c):
        totals = grpo.empty_totals(params)
        logs = []
        for c in todo:
            totals, log_probs = grpo.accumulate(
                narrow(), config, params, totals, change(c), np.bool_(first), np.float32(batch.total_tokens)
            )
            logs.append(np.asarray(log_probs))
        return totals, logs

    return todo, batch, run


STILL = Plain(learning_rate=0.0, epochs=2, mismatch_cap=2.0)


def test_ratio_is_exactly_one_and_nothing_moves_at_learning_rate_zero(played):
    start = setup().params
    learner = grpo.Learner(copy(start), STILL.optimizer().init(start), None)
    got, metrics = grpo.update(narrow(), STILL, learner, played, SHAPES)
    jax.tree.map(np.testing.assert_array_equal, got.params, start)
    # Two epochs: the second one compares with the log-probs of the first.
    assert metrics["ratio"] == 1.0 and metrics["highest_ratio"] == 1.0 and metrics["kl_old"] == 0.0
    assert metrics["clipped_low"] == metrics["clipped_high"] == 0.0
    assert metrics["grad_norm"] > 0 and metrics["live_groups"] == np.float32(2 / 3)


def test_denominator_counts_tokens_of_live_groups_only(played):
    _, batch, run = parts(STILL, played)
    totals, _ = run(setup().params)
    live = played.group[played.episode] < 2
    assert float(totals.sums["tokens"]) == batch.total_tokens == played.mask[live].sum()
    # Another dead group changes nothing.
    alone = dataclasses.replace(
        played, group=played.group[:8], ret=played.ret[:8],
        **{f: getattr(played, f)[live] for f in ("episode", "prompt", "tokens", "log_probs", "mask", "valid", "reward")},
    )  # fmt: skip
    _, same, _ = parts(STILL, alone)
    for name in (
        "prompt",
        "tokens",
        "mask",
        "sampler",
        "gain",
        "loss",
        "count",
        "gains",
        "losses",
        "total_tokens",
    ):
        np.testing.assert_array_equal(getattr(batch, name), getattr(same, name))


def test_clipping_stops_the_gradient_on_the_right_side(played):
    _, _, run = parts(STILL, played)
    _, logs = run(setup().params)

    def changed(sign, ratio):
        """All advantages of one sign, all ratios the same."""
        queue = iter(logs)

        def change(c):
            size = np.abs(c.gain) + np.abs(c.loss) + (c.count > 0)
            none = 0 * size
            gain, loss, gains, losses = (
                (size, none, c.count, none) if sign > 0 else (none, -size, none, c.count)
            )
            old = np.where(c.mask > 0, next(queue) - np.log(np.float32(ratio)), 0)
            return c.replace(gain=gain, loss=loss, gains=gains, losses=losses, old=old, sampler=old)

        return change

    for sign, ratio, stopped, name in (
        (1, 1.5, True, "clipped_high"), (-1, 0.5, True, "clipped_low"), (1, 0.5, False, ""), (-1, 1.5, False, "")
    ):  # fmt: skip
        totals, _ = run(setup().params, first=False, change=changed(sign, ratio))
        norm = float(optax.global_norm(totals.grads))
        assert norm == 0.0 if stopped else norm > 1e-3
        for counted in ("clipped_low", "clipped_high"):
            assert float(totals.sums[counted]) == (float(totals.sums["tokens"]) if counted == name else 0.0)
        np.testing.assert_allclose(totals.sums["ratio"] / totals.sums["tokens"], ratio, rtol=1e-4)


def test_mismatch_weight_is_capped(played):
    _, _, run = parts(STILL, played)
    _, logs = run(setup().params)

    def off(shift):
        queue = iter(logs)
        return lambda c: c.replace(sampler=np.where(c.mask > 0, next(queue) - np.float32(shift), 0))

    equal, _ = run(setup().params, change=off(0.0))
    for shift, weight in ((np.log(1.5), 1.5), (5.0, STILL.mismatch_cap), (-np.log(2), 0.5)):
        got, _ = run(setup().params, change=off(shift))
        for a, b in zip(jax.tree.leaves(got.grads), jax.tree.leaves(equal.grads)):
            np.testing.assert_allclose(a, weight * b, atol=1e-5)
        np.testing.assert_allclose(got.sums["mismatch"] / got.sums["tokens"], abs(shift), rtol=1e-4)


def test_ratios_to_the_sampler_are_reported_over_tokens(played):
    todo, batch, run = parts(STILL, played)
    _, logs = run(setup().params)
    ratios = np.sort([
        np.exp(np.float64(log_probs[place] - c.sampler[place]))
        for c, log_probs in zip(todo, logs)
        for place in map(tuple, np.argwhere(c.mask > 0))
        for _ in range(int(c.count[place[:2]]))
    ])  # fmt: skip
    assert len(ratios) == batch.total_tokens
    learner = grpo.Learner(copy(setup().params), STILL.optimizer().init(setup().params), None)
    _, metrics = grpo.update(narrow(), STILL, learner, played, SHAPES)
    for name, q in grpo.QUANTILES.items():
        assert metrics[name] == pytest.approx(np.quantile(ratios, q, method="inverted_cdf"), rel=1e-4)
    assert metrics["mismatch_outside"] == pytest.approx(np.mean((ratios < 0.9) | (ratios > 1.1)))
    assert (
        0.5 < metrics["mismatch_outside"] < 1
        and metrics["mismatch_p01"] < 0.6 < 1.6 < metrics["mismatch_p99"]
    )


def test_kl_penalty_pulls_towards_the_reference(played):
    config = dataclasses.replace(CONFIG, kl=1.0)
    todo, batch, run = parts(config, played)
    start, reference = setup().params, moved(setup().params, 0.05)
    logs = [np.asarray(grpo._score(narrow(), reference, c.prompts, c.tokens, np.float32(1))) for c in todo]

    def only_kl(c):
        (index,) = [i for i, other in enumerate(todo) if other is c]
        return c.replace(gain=0 * c.gain, loss=0 * c.loss, reference=np.where(c.mask > 0, logs[index], 0))

    def distance(params):
        totals, now = run(params, change=only_kl)
        gap = sum(np.abs((n - l) * c.mask).sum() for n, l, c in zip(now, logs, todo))
        return totals, float(totals.sums["kl_reference"]), gap

    totals, kl, gap = distance(start)
    assert kl > 1e-3 and float(totals.sums["loss"]) == pytest.approx(kl / batch.total_tokens, rel=1e-4)
    nearer = jax.tree.map(lambda p, g: p - np.float32(0.3) * g, start, totals.grads)
    _, kl_nearer, gap_nearer = distance(nearer)
    assert 0 <= kl_nearer < kl and gap_nearer < gap
    at_reference, zero, _ = distance(reference)
    assert 0 <= zero < 1e-9 and float(optax.global_norm(at_reference.grads)) < 1e-4


def test_a_batch_without_advantages_changes_nothing():
    r = rollouts(np.repeat([0, 1], 4), [1] * 4 + [0.25] * 4)
    start = setup().params
    learner = grpo.Learner(start, STILL.optimizer().init(start), None)
    got, metrics = grpo.update(narrow(), STILL, learner, r, SHAPES)
    assert got is learner and metrics == {"live_groups": 0.0, "pairs": 0.0}


def test_a_reference_is_kept_only_with_a_penalty():
    start = setup().params
    assert grpo.init(grpo.Config(), start).reference is None
    learner = grpo.init(grpo.Config(kl=0.1), start)
    jax.tree.map(np.testing.assert_array_equal, learner.reference, start)


@pytest.mark.parametrize(
    "field, value",
    [("learning_rate", -1.0), ("kl", -0.1), ("weight_decay", -1.0), ("step_weight", -1.0), ("temperature", 0.0),
     ("grad_clip", 0.0), ("mismatch_cap", 0.0), ("clip_low", 0.0), ("clip_low", 1.0), ("clip_high", 0.0),
     ("discount", 1.5), ("epochs", 0), ("advantage", "gae")],
)  # fmt: skip
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ValueError, match="grpo"):
        grpo.Config(**{field: value})
