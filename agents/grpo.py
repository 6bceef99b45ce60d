"""GRPO: group-normalised advantages, a clipped ratio, a token mean over live groups; the prompt is read once.

Turns carry no history, so turns that share a prompt and a reply share a forward and backward pass: the loss of a
(prompt, reply) pair depends on its occurrences only through the sums of their positive and of their negative
advantages, and these two numbers are all that is kept. This is exact for any number of epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax import Array

from agents.policy import Params, Policy, Shapes, score
from agents.prompts import Prompt, PromptBatch, bucket, pack
from agents.rollout import Rollouts

_SAME = 1e-6  # rewards closer than this are equal: compare max - min, not a rounded standard deviation


@dataclass(frozen=True)
class Config:
    """Defaults and their reasons are in docs/learner.md."""

    learning_rate: float = 1e-4
    clip_low: float = 0.2
    clip_high: float = 0.28  # DAPO's clip-higher
    kl: float = 0.0  # weight of the k3 penalty against the policy at the start; 0: no reference is kept
    scale_by_std: bool = True  # False: centre only (Dr. GRPO)
    advantage: Literal["trajectory", "step"] = "trajectory"  # "step" adds GiGPO's same-state advantage
    step_weight: float = 1.0
    discount: float = 0.95  # of the returns that same-state advantages compare
    epochs: int = 1
    temperature: float = 1.0
    grad_clip: float = 1.0
    weight_decay: float = 0.0
    mismatch_cap: float = 2.0  # of the importance weight between the sampler's and the learner's log-probs

    def __post_init__(self):
        for name in ("learning_rate", "kl", "weight_decay", "step_weight"):
            if getattr(self, name) < 0:
                raise ValueError(f"grpo.{name} must not be negative, got {getattr(self, name)}")
        for name in ("temperature", "grad_clip", "mismatch_cap"):
            if getattr(self, name) <= 0:
                raise ValueError(f"grpo.{name} must be positive, got {getattr(self, name)}")
        if not 0 < self.clip_low < 1 or self.clip_high <= 0:
            raise ValueError(
                f"grpo clips must be 0 < low < 1 and high > 0, got {self.clip_low}, {self.clip_high}"
            )
        if not 0 <= self.discount <= 1:
            raise ValueError(f"grpo.discount must lie in [0, 1], got {self.discount}")
        if self.epochs < 1:
            raise ValueError(f"grpo.epochs must be at least 1, got {self.epochs}")
        if self.advantage not in ("trajectory", "step"):
            raise ValueError(f"grpo.advantage must be 'trajectory' or 'step', got {self.advantage!r}")

    def optimizer(self) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.grad_clip),
            optax.adamw(self.learning_rate, b1=0.9, b2=0.999, weight_decay=self.weight_decay),
        )


# ---- advantages ----


def normalise(values: np.ndarray, group: np.ndarray, scale_by_std: bool) -> np.ndarray:
    """f32[N]: values minus the mean of their group, over its unbiased standard deviation if asked.

    Exactly zero in groups whose values do not differ (singletons among them). `group` holds ids from 0 in any order.
    In numpy: the number of turns differs from batch to batch, and every new length would be compiled anew.
    """
    values = values.astype(np.float64)
    count = np.maximum(np.bincount(group), 1)
    centred = values - (np.bincount(group, values) / count)[group]
    low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    if scale_by_std:
        std = np.sqrt(np.bincount(group, centred**2) / np.maximum(count - 1, 1))
        centred = centred / (std + 1e-6)[group]
    return np.where((high - low > _SAME)[group], centred, 0.0).astype(np.float32)


def returns_to_go(reward: np.ndarray, episode: np.ndarray, discount: float) -> np.ndarray:
    """f32[M]: discounted sum of the rewards of a turn and the later ones of its episode (turns in time order)."""
    out = np.zeros(len(reward), np.float32)
    after = np.zeros(episode.max() + 1, np.float32)
    for m in range(len(reward) - 1, -1, -1):
        after[episode[m]] = out[m] = reward[m] + discount * after[episode[m]]
    return out


def advantages(rollouts: Rollouts, config: Config) -> np.ndarray:
    """f32[M]: the advantage of every turn: its trajectory's, plus its own among turns in the same state.

    Same state means the same group and the same prompt: states are compared byte for byte when prompts are made.
    """
    whole = normalise(rollouts.ret, rollouts.group, config.scale_by_std)[rollouts.episode]
    if config.advantage == "trajectory":
        return whole
    anchors = np.stack([rollouts.group[rollouts.episode], rollouts.prompt])
    _, anchor = np.unique(anchors, axis=1, return_inverse=True)
    to_go = returns_to_go(rollouts.reward, rollouts.episode, config.discount)
    step = normalise(to_go, anchor.reshape(-1), config.scale_by_std)
    return whole + np.float32(config.step_weight) * step


# ---- loss ----


@struct.dataclass
class Chunk:
    """B prompts with S distinct replies each; what depends on a reply's occurrences is summed over them."""

    prompts: PromptBatch
    tokens: Array  # i32[B, S, T]
    mask: Array  # f32[B, S, T] 1 on tokens the policy wrote
    gain: Array  # f32[B, S] sum of the positive advantages
    loss: Array  # f32[B, S] sum of the negative advantages
    count: Array  # f32[B, S] occurrences, 0 in padding
    gains: Array  # f32[B, S] those with a positive advantage
    losses: Array  # f32[B, S] those with a negative advantage
    sampler: Array  # f32[B, S, T] log-probs when sampled
    old: Array  # f32[B, S, T] log-probs before the first update from this batch; unused while `first`
    reference: Array  # f32[B, S, T] log-probs of the reference policy; zeros without a KL penalty


@struct.dataclass
class Totals:
    """Sums over the chunks of one update."""

    grads: Params
    sums: dict[str, Array]  # f32[] each
    highest_ratio: Array  # f32[]


SUMS = (
    "tokens",
    "entropy",
    "ratio",
    "clipped_low",
    "clipped_high",
    "kl_old",
    "kl_reference",
    "mismatch",
    "loss",
)


# Of the ratio of the learner's to the sampler's probability of a token, before it is capped: what the cap will meet.
QUANTILES = {"mismatch_p01": 0.01, "mismatch_p50": 0.5, "mismatch_p99": 0.99}
NEAR = (0.9, 1.1)
MISMATCH = (*QUANTILES, "mismatch_outside")


def mismatch(drift: np.ndarray, count: np.ndarray) -> dict[str, float]:
    """Quantiles of the ratio over tokens, and the fraction of tokens where it lies outside `NEAR`.

    Args:
        drift: f32[N], log-prob by the learner minus log-prob by the sampler.
        count: f32[N], how often each token occurs; positive somewhere.
    """
    order = np.argsort(drift)
    ratio, reached = np.exp(drift[order].astype(np.float64)), np.cumsum(count[order], dtype=np.float64)
    places = {name: np.searchsorted(reached, q * reached[-1]) for name, q in QUANTILES.items()}
    outside = (ratio < NEAR[0]) | (ratio > NEAR[1])
    return {
        **{name: float(ratio[min(place, len(ratio) - 1)]) for name, place in places.items()},
        "mismatch_outside": float(count[order][outside].sum() / reached[-1]),
    }


def empty_totals(params: Params) -> Totals:
    return Totals(
        jax.tree.map(jnp.zeros_like, params), {name: jnp.float32(0.0) for name in SUMS}, jnp.float32(0.0)
    )


def objective(
    policy: Policy, config: Config, params: Params, chunk: Chunk, first: Array, tokens: Array
) -> tuple[Array, tuple[dict[str, Array], Array, Array]]:
    """The part of the loss that a chunk contributes, with sums of statistics, the highest ratio and the log-probs.

    Args:
        first: bool[], True in the first epoch: the old policy is the current one, so every ratio is exactly 1.
        tokens: f32[], the batch's number of tokens in live groups, the denominator of the token mean.
    """
    log_probs, entropy = score(policy, params, chunk.prompts, chunk.tokens, jnp.float32(config.temperature))
    log_probs = jnp.where(chunk.mask > 0, log_probs, 0.0)
    old = jnp.where(first, jax.lax.stop_gradient(log_probs), chunk.old)
    ratio = jnp.exp(jnp.where(chunk.mask > 0, log_probs - old, 0.0))
    # Truncated importance weight from the sampler's numerics to the learner's, not differentiated.
    drift = jnp.where(chunk.mask > 0, old - chunk.sampler, 0.0)
    weight = jax.lax.stop_gradient(jnp.minimum(jnp.exp(drift), config.mismatch_cap))
    gain, loss = chunk.gain[..., None], chunk.loss[..., None]
    clipped = gain * jnp.minimum(ratio, 1 + config.clip_high) + loss * jnp.maximum(ratio, 1 - config.clip_low)
    count, gains, losses = (n[..., None] * chunk.mask for n in (chunk.count, chunk.gains, chunk.losses))
    # k3 (Schulman): non-negative, zero exactly where both policies agree; its gradient pulls towards the reference.
    behind = jnp.where(chunk.mask > 0, chunk.reference - log_probs, 0.0)
    kl_reference = jnp.exp(behind) - behind - 1.0
    value = (-weight * clipped * chunk.mask).sum()
    if config.kl:
        value = value + config.kl * (count * kl_reference).sum()
    value = value / tokens
    sums = {
        "tokens": count.sum(),
        "entropy": (count * entropy).sum(),
        "ratio": (count * ratio).sum(),
        "clipped_low": jnp.where(ratio < 1 - config.clip_low, losses, 0.0).sum(),
        "clipped_high": jnp.where(ratio > 1 + config.clip_high, gains, 0.0).sum(),
        "kl_old": (count * (jnp.exp(old - log_probs) - (old - log_probs) - 1.0)).sum(),
        "kl_reference": (count * kl_reference).sum() if config.kl else jnp.float32(0.0),
        "mismatch": (count * jnp.abs(drift)).sum(),
        "loss": value,
    }
    return value, (sums, jnp.max(ratio * chunk.mask), log_probs)


@partial(jax.jit, static_argnames=("policy", "config"), donate_argnames="totals")
def accumulate(
    policy: Policy, config: Config, params: Params, totals: Totals, chunk: Chunk, first: Array, tokens: Array
) -> tuple[Totals, Array]:
    """Add one chunk's gradient and statistics; also gives its log-probs f32[B, S, T], the old ones of later epochs."""
    gradient = jax.value_and_grad(objective, argnums=2, has_aux=True)
    (_, (sums, highest, log_probs)), grads = gradient(policy, config, params, chunk, first, tokens)
    added = Totals(
        jax.tree.map(jnp.add, totals.grads, grads),
        {name: totals.sums[name] + sums[name] for name in SUMS},
        jnp.maximum(totals.highest_ratio, highest),
    )
    return added, log_probs


@partial(jax.jit, static_argnames=("config",), donate_argnames=("params", "optimizer_state"))
def apply(config: Config, params: Params, optimizer_state, grads: Params):
    """One optimiser step; also gives the gradient's norm before clipping."""
    with jax.numpy_dtype_promotion("standard"):  # optax does not trace under strict promotion
        updates, optimizer_state = config.optimizer().update(grads, optimizer_state, params)
    return optax.apply_updates(params, updates), optimizer_state, optax.global_norm(grads)


@partial(jax.jit, static_argnames=("policy",))
def _score(policy: Policy, params: Params, prompts: PromptBatch, tokens: Array, temperature: Array) -> Array:
    return score(policy, params, prompts, tokens, temperature)[0]


# ---- packing ----


@dataclass(frozen=True)
class Pairs:
    """Distinct (prompt, reply) pairs of the live groups of a batch."""

    prompt: np.ndarray  # i32[Q]
    tokens: np.ndarray  # i32[Q, T]
    mask: np.ndarray  # bool[Q, T]
    sampler: np.ndarray  # f32[Q, T]
    gain: np.ndarray  # f32[Q]
    loss: np.ndarray  # f32[Q]
    count: np.ndarray  # f32[Q]
    gains: np.ndarray  # f32[Q]
    losses: np.ndarray  # f32[Q]
    live: np.ndarray  # bool[B] groups that any advantage is left in
    total_tokens: float  # tokens of all turns in live groups


def pairs(rollouts: Rollouts, advantage: np.ndarray) -> Pairs:
    """Merge equal turns. Groups without any advantage are left out: they count in no mean."""
    group = rollouts.group[rollouts.episode]
    live = np.zeros(int(rollouts.group.max()) + 1, bool)
    np.logical_or.at(live, group, advantage != 0)
    kept = np.flatnonzero(live[group])
    rows = np.concatenate(
        [rollouts.prompt[kept, None], np.where(rollouts.mask, rollouts.tokens, -1)[kept]], axis=1
    )
    _, where_first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    sums = partial(np.bincount, inverse, minlength=len(where_first))
    first = kept[where_first]
    a = advantage[kept].astype(np.float64)
    return Pairs(
        rollouts.prompt[first], rollouts.tokens[first], rollouts.mask[first], rollouts.log_probs[first],
        sums(np.maximum(a, 0)).astype(np.float32), sums(np.minimum(a, 0)).astype(np.float32),
        sums().astype(np.float32), sums(a > 0).astype(np.float32), sums(a < 0).astype(np.float32), live,
        float(rollouts.mask[kept].sum()),
    )  # fmt: skip


def chunks(prompts: Sequence[Prompt], batch: Pairs, shapes: Shapes, pad: int) -> list[Chunk]:
    """The pairs in batches of static shape: `shapes.rows` prompts of one length bucket with `shapes.samples` replies."""
    rows: list[tuple[int, int, int, list[int]]] = []  # (prompt bucket, reply bucket, prompt, pairs)
    length = batch.mask.sum(axis=1)
    order = np.lexsort((np.arange(len(batch.prompt)), batch.prompt))
    keys = [
        (bucket(len(prompts[batch.prompt[q]].ids), shapes.buckets),
         bucket(int(length[q]), shapes.replies), int(batch.prompt[q]))
        for q in order
    ]  # fmt: skip
    for key, q in sorted(zip(keys, order.tolist())):
        if not rows or rows[-1][:3] != key or len(rows[-1][3]) == shapes.samples:
            rows.append((*key, []))
        rows[-1][3].append(q)
    out = []
    while rows:
        size, reply, *_ = rows[0]
        some = [r for r in rows[: shapes.rows] if r[:2] == (size, reply)]
        rows = rows[len(some) :]
        shape = (shapes.rows, shapes.samples)
        tokens = np.full((*shape, reply), pad, np.int32)
        mask, sampler = np.zeros((*shape, reply), np.float32), np.zeros((*shape, reply), np.float32)
        names = ("gain", "loss", "count", "gains", "losses")
        sums = {name: np.zeros(shape, np.float32) for name in names}
        for i, (_, _, _, qs) in enumerate(some):
            for k, q in enumerate(qs):
                n = length[q]
                tokens[i, k, :n], mask[i, k, :n], sampler[i, k, :n] = (
                    batch.tokens[q, :n],
                    1.0,
                    batch.sampler[q, :n],
                )
                for name in names:
                    sums[name][i, k] = getattr(batch, name)[q]
        packed = pack([prompts[p] for _, _, p, _ in some], shapes.rows, size, pad)
        zeros = np.zeros_like(sampler)
        out.append(Chunk(packed, tokens, mask, **sums, sampler=sampler, old=zeros, reference=zeros))
    return out


# ---- update ----


@struct.dataclass
class Learner:
    """What an update changes."""

    params: Params
    optimizer_state: optax.OptState
    reference: Params | None  # the policy at the start, with a KL penalty


def init(config: Config, params: Params) -> Learner:
    reference = jax.tree.map(jnp.copy, params) if config.kl else None
    return Learner(params, config.optimizer().init(params), reference)


def update(
    policy: Policy, config: Config, learner: Learner, rollouts: Rollouts, shapes: Shapes
) -> tuple[Learner, dict[str, float]]:
    """One batch of rollouts, `config.epochs` optimiser steps. Without a live group nothing changes.

    `learner` is donated: use the returned one.
    """
    batch = pairs(rollouts, advantages(rollouts, config))
    metrics = {"live_groups": float(batch.live.mean()), "pairs": float(len(batch.prompt))}
    if not batch.live.any():
        return learner, metrics
    todo = chunks(rollouts.prompts, batch, shapes, policy.config.pad)
    if config.kl:
        todo = [
            c.replace(
                reference=_score(
                    policy, learner.reference, c.prompts, c.tokens, np.float32(config.temperature)
                )
            )
            for c in todo
        ]
    params, state = learner.params, learner.optimizer_state
    learnt = []  # log-probs f32[B, S, T] of every chunk before the first step
    for epoch in range(config.epochs):
        totals = empty_totals(params)
        for i, chunk in enumerate(todo):
            totals, log_probs = accumulate(
                policy, config, params, totals, chunk, np.bool_(epoch == 0), np.float32(batch.total_tokens)
            )
            if epoch == 0:
                learnt.append(log_probs)
                if config.epochs > 1:
                    todo[i] = chunk.replace(old=log_probs)
        params, state, norm = apply(config, params, state, totals.grads)
    sums = {name: float(value) for name, value in totals.sums.items()}
    metrics |= {name: sums[name] / sums["tokens"] for name in SUMS if name not in ("tokens", "loss")}
    drift, count = (np.concatenate(x) for x in zip(*(_drift(c, lp) for c, lp in zip(todo, learnt))))
    metrics |= mismatch(drift, count)
    metrics |= {"loss": sums["loss"], "grad_norm": float(norm), "highest_ratio": float(totals.highest_ratio)}
    return Learner(params, state, learner.reference), metrics


def _drift(chunk: Chunk, log_probs: Array) -> tuple[np.ndarray, np.ndarray]:
    """f32[N] each: learner's minus sampler's log-prob of the tokens of a chunk, and their occurrences."""
    written = (chunk.mask > 0) & (chunk.count[..., None] > 0)
    count = np.broadcast_to(chunk.count[..., None], chunk.mask.shape)
    return (np.asarray(log_probs) - chunk.sampler)[written], count[written]
