"""Behaviour cloning of the oracles: how a model from scratch becomes a weak base policy for GRPO."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from agents.policy import Params, Policy, Shapes, score
from agents.prompts import Prompt, PromptBatch, PromptWriter, bucket, pack
from jaxenv import EnvBatch, Episode, MixedBatch, episode, harness
from jaxenv.core import Env

BLOCK = 16  # steps whose demonstrations are made at once
PIECE = 64  # demonstrations of one call: one compile per environment, whatever its share


@dataclass(frozen=True)
class Config:
    steps: int = 1200  # 0: no cloning
    rows: int = 32  # demonstrations a step
    learning_rate: float = 1e-2  # Muon's, for matrices; a fifth of it is Adam's, for the rest
    harness: tuple[float, ...] = (0.15, 0.15, 0.2, 0.2, 0.3)  # shares of H0 .. H4 among the demonstrations
    shares: tuple[float, ...] = ()  # of the environments, in their order; empty: equal shares
    noise: float = 0.3  # share of wrong turns on the way to a demonstrated state
    probe_every: int = 0  # blocks of steps between probes of every environment's score; 0: no probes
    probe_from: int = 0  # steps before the first probe: early on everyone loses, and losing episodes are long
    probe_episodes: int = 64  # per environment and probe
    enough: float = 0.3  # an environment probed at this score or higher is only rehearsed
    rehearsal: float = 0.2  # what is left of such an environment's share

    def __post_init__(self):
        if self.steps < 0 or self.rows < 1:
            raise ValueError(f"cloning needs steps >= 0 and rows >= 1, got {self.steps} and {self.rows}")
        if len(self.harness) != 5 or min(self.harness) < 0 or not np.isclose(sum(self.harness), 1.0):
            raise ValueError(f"cloning.harness must be five shares that sum to 1, got {self.harness}")
        if self.shares and (min(self.shares) <= 0 or not np.isclose(sum(self.shares), 1.0)):
            raise ValueError(f"cloning.shares must be positive and sum to 1, got {self.shares}")
        if not 0 <= self.noise <= 1:
            raise ValueError(f"cloning.noise must lie in [0, 1], got {self.noise}")
        if self.probe_every < 0 or self.probe_from < 0 or self.probe_episodes < 2:
            raise ValueError(
                "cloning needs probe_every >= 0, probe_from >= 0 and probe_episodes >= 2, "
                f"got {self.probe_every}, {self.probe_from} and {self.probe_episodes}"
            )
        if not 0 < self.rehearsal <= 1:
            raise ValueError(f"cloning.rehearsal must lie in (0, 1], got {self.rehearsal}")

    def probes(self, step: int) -> bool:
        """Whether the environments are probed before this step, the first one of a block."""
        return (
            bool(self.probe_every)
            and step >= max(self.probe_from, 1)
            and step // BLOCK % self.probe_every == 0
        )

    def split(self, scores: Sequence[float]) -> np.ndarray:
        """Shares f32[E] of the environments in the next demonstrations, given their probed scores.

        Environments learn at very different rates, and GRPO needs bases that sometimes win and sometimes lose: one
        that is good enough leaves its demonstrations to the others, and gets them back if it is forgotten.
        """
        shares = np.asarray(self.shares or (1.0,) * len(scores), np.float32)
        shares = shares * np.where(np.asarray(scores) >= self.enough, self.rehearsal, 1.0)
        return (shares / shares.sum()).astype(np.float32)

    def optimizer(self) -> optax.GradientTransformation:
        warmup = max(1, self.steps // 20)
        schedule = optax.warmup_cosine_decay_schedule(
            0.0, self.learning_rate, warmup, max(self.steps, warmup + 1), 0.1 * self.learning_rate
        )
        # From scratch Muon needs about a third of AdamW's steps; at equal steps AdamW had not yet begun to look.
        muon = optax.contrib.muon(
            schedule, adam_learning_rate=lambda step: 0.2 * schedule(step), weight_decay=0.01
        )
        return optax.chain(optax.clip_by_global_norm(1.0), muon)


@partial(jax.jit, static_argnames="env")
def wander(env: Env, key: Array, levels: Array, noise: Array) -> Episode:
    """Episodes [B] at a random unfinished point: the oracle's way with some turns taken from another episode's oracle."""
    keys = jax.random.split(jax.random.fold_in(key, 0), levels.shape[0])
    start = jax.vmap(partial(episode.start, env))(keys, levels)
    share = jax.random.uniform(jax.random.fold_in(key, 1), levels.shape)
    stop = jnp.floor(share * (start.limit.astype(jnp.float32) / 2 + 1)).astype(jnp.int32)

    def turn(t, episodes):
        k = jax.random.fold_in(key, 2 + t)
        right = jax.vmap(env.solve)(episodes.state)
        astray = jax.random.bernoulli(jax.random.fold_in(k, 0), noise, levels.shape)
        actions = jnp.where(astray[:, None], jnp.roll(right, 1, axis=0), right)
        moved = jax.vmap(partial(episode.advance, env))(
            jax.random.split(k, levels.shape[0]), episodes, actions
        )
        kept = (t < stop) & ~moved.done
        return jax.tree.map(
            lambda n, o: jnp.where(kept.reshape((-1,) + (1,) * (n.ndim - 1)), n, o), moved, episodes
        )

    turns = jnp.max(stop) if env.horizon > 1 else jnp.int32(0)
    return jax.lax.fori_loop(0, turns, turn, start)


def demonstrations(
    mixed: MixedBatch,
    writer: PromptWriter,
    targets: Sequence[int],
    key: Array,
    count: int,
    config: Config,
    shares: np.ndarray,
) -> tuple[list[Prompt], list[np.ndarray]]:
    """About `count` prompts with the oracle's reply (token ids), levels 0 .. target, environments by `shares`."""
    prompts, replies = [], []
    for index, batch in enumerate(mixed.batches):
        each = math.ceil(count * float(shares[index]) - 1e-3)  # a third of 120 is 40 in float32 too
        for low in range(0, each, PIECE):
            k_level, k_wander, k_harness = jax.random.split(
                jax.random.fold_in(jax.random.fold_in(key, index), low), 3
            )
            levels = jax.random.randint(k_level, (PIECE,), 0, targets[index] + 1, jnp.int32)
            of_harness = jnp.asarray(config.harness, jnp.float32)
            shown = harness.flags(jax.random.choice(k_harness, 5, (PIECE,), p=of_harness))
            episodes = wander(batch.env, k_wander, levels, jnp.float32(config.noise))
            texts = batch.prompts(episodes, shown)[: each - low]
            pictures = _pictures(batch, episodes)
            answers = batch.format(batch.solve(episodes))[: each - low]
            prompts += [writer(text, picture, index) for text, picture in zip(texts, pictures)]
            replies += [writer.tokenizer.answer(a) for a in answers]
    return prompts, replies


def _pictures(batch: EnvBatch, episodes: Episode):
    if batch.modality != "picture":
        return [None] * episodes.t.shape[0]
    return np.asarray(batch.render(episodes))


def block(
    mixed: MixedBatch,
    writer: PromptWriter,
    targets: Sequence[int],
    key: Array,
    config: Config,
    shares: np.ndarray,
    shapes: Shapes,
    pad: int,
) -> list[tuple[PromptBatch, np.ndarray, np.ndarray]]:
    """The batches of `BLOCK` steps in random order: prompts, replies i32[B, 1, T], mask f32[B, 1, T].

    Each batch holds prompts of one length bucket and replies of one length bucket, so that little is padding.
    """
    prompts, replies = demonstrations(mixed, writer, targets, key, BLOCK * config.rows, config, shares)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    sizes = [
        (bucket(len(p.ids), shapes.buckets), bucket(len(r), shapes.replies)) for p, r in zip(prompts, replies)
    ]
    order = rng.permutation(len(prompts)).tolist()
    batches = []
    for size in sorted(set(sizes)):
        rows = [i for i in order if sizes[i] == size]
        # A last batch that is not full is filled with others of its kind, so that every step has the same weight.
        rows += [rows[k] for k in rng.integers(len(rows), size=-len(rows) % config.rows)]
        for low in range(0, len(rows), config.rows):
            some = rows[low : low + config.rows]
            tokens = np.full((config.rows, 1, size[1]), pad, np.int32)
            mask = np.zeros((config.rows, 1, size[1]), np.float32)
            for k, i in enumerate(some):
                tokens[k, 0, : len(replies[i])], mask[k, 0, : len(replies[i])] = replies[i], 1.0
            batches.append((pack([prompts[i] for i in some], config.rows, size[0], pad), tokens, mask))
    return [batches[i] for i in rng.permutation(len(batches))[:BLOCK]]


def step(
    policy: Policy,
    config: Config,
    params: Params,
    optimizer_state,
    prompts: PromptBatch,
    tokens: Array,
    mask: Array,
):
    """One step on the mean negative log-likelihood of the replies' tokens; gives its value too.

    `params` and `optimizer_state` are donated. Two programs: the optimiser, slow to compile, does not depend on shapes.
    """
    value, grads = _gradient(policy, params, prompts, tokens, mask)
    params, optimizer_state = _apply(config, params, optimizer_state, grads)
    return params, optimizer_state, value


@partial(jax.jit, static_argnames="policy")
def _gradient(policy: Policy, params: Params, prompts: PromptBatch, tokens: Array, mask: Array):
    def loss(params):
        log_probs, _ = score(policy, params, prompts, tokens, jnp.float32(1.0))
        return -(log_probs * mask).sum() / mask.sum()

    return jax.value_and_grad(loss)(params)


@partial(jax.jit, static_argnames="config", donate_argnames=("params", "optimizer_state"))
def _apply(config: Config, params: Params, optimizer_state, grads: Params):
    with jax.numpy_dtype_promotion("standard"):  # optax does not trace under strict promotion
        updates, optimizer_state = config.optimizer().update(grads, optimizer_state, params)
    return optax.apply_updates(params, updates), optimizer_state
