"""A simulated learner, to compare curricula on many environments in seconds.

The learner is one number per environment and harness, the logit of success at the target level. It is no model of any
policy: that harnesses help, that levels are hard, how far skill carries over from one harness to the next and that
only live groups teach are put in, not found. What it can show is the curriculum's own behaviour: how fast a frontier
can move in a budget, how often it moves by luck, how many groups are dead and what is thrown away.
"""

from functools import partial
from statistics import NormalDist
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from curriculum.base import HARDEST, NUM_HARNESS, Curriculum, Request
from curriculum.hdc import HDC

Match = Literal["prompts", "trained"]

# Midpoints of equally likely slices: a mean over them is a mean over instances.
NODES = np.array([NormalDist().inv_cdf((i + 0.5) / 32) for i in range(32)], np.float32)


@struct.dataclass
class Learner:
    """What is put in, in logits of success. Its numbers are traced: one compile for all learners.

    `start` and `harness` give Table 2 roughly: 12% at H4, and each harness section alone about what it gives there.
    `rate` is set so that plain GRPO ends near the paper's 32% (Table 5, mean of ID-ST and ID-MT). The rest is guessed.
    """

    start: float = -3.7
    """Mean over environments at H4 and the target level, before training."""
    spread: float = 1.5
    """Standard deviation over environments."""
    harness: tuple[float, float, float, float] = (1.5, 1.8, 0.9, 0.9)
    """Lost with text observation, text state, hint and rule, the steps from H0 to H4."""
    scale: float = 4.0
    """Level 0 against the target level; levels between are spaced evenly."""
    instance: float = 2.0
    """Standard deviation over instances of a level, which makes the rollouts of a group alike."""
    edit: float = 0.5
    """Standard deviation of the change that one edit of an instance makes."""
    rate: float = 0.025
    """Gained at a group's harness when half of its rollouts succeed; in proportion to the variance of others."""
    transfer: float = 0.7
    """Share of a gain that reaches the neighbouring harness levels, its square the next ones, [0, 1]."""
    forget: float = 0.0
    """Share of all gains that is lost per update, [0, 1]."""

    def skill(self, key: Array, num_envs: int) -> Array:
        """f32[E, 5] before training."""
        hardest = self.start + self.spread * jax.random.normal(key, (num_envs, 1), jnp.float32)
        lost = jnp.stack([jnp.asarray(x, jnp.float32) for x in (*self.harness, 0.0)])
        return hardest + jnp.cumsum(lost[::-1])[::-1][None]

    def logit(self, skill: Array, target: Array, env: Array, harness: Array, level: Array) -> Array:
        """f32[B] of the average instance."""
        easier = 1.0 - level.astype(jnp.float32) / jnp.maximum(target[env], 1).astype(jnp.float32)
        return skill[env, harness] + jnp.where(target[env] > 0, self.scale * easier, 0.0)

    def success(self, skill: Array, target: Array, env: Array, harness: Array, level: Array) -> Array:
        """f32[B] true success over all instances."""
        logit = self.logit(skill, target, env, harness, level)
        return jnp.mean(jax.nn.sigmoid(logit[:, None] + self.instance * jnp.asarray(NODES)[None]), axis=1)

    def play(self, key: Array, skill: Array, target: Array, request: Request, group_size: int) -> Array:
        """f32[B] share of successful rollouts; nan for padding. An instance is as hard at every visit."""
        seeds = jnp.concatenate([request.seed[:, None], request.edits], axis=1)
        noise = jax.vmap(jax.vmap(lambda seed: jax.random.normal(jax.random.key(seed), (), jnp.float32)))(
            seeds
        )
        edits = jnp.sum(jnp.where(request.edits != 0, noise[:, 1:], 0.0), axis=1)
        logit = self.logit(skill, target, request.env, request.harness, request.level)
        chance = jax.nn.sigmoid(logit + self.instance * noise[:, 0] + self.edit * edits)
        wins = jax.random.uniform(key, (*chance.shape, group_size), jnp.float32) < chance[:, None]
        return jnp.where(request.env >= 0, jnp.mean(wins, axis=1, dtype=jnp.float32), jnp.nan)

    def learn(self, skill: Array, begin: Array, request: Request, success: Array, trained: Array) -> Array:
        """f32[E, 5] skill after a gradient on the `trained` groups."""
        gain = jnp.where(trained, 4.0 * self.rate * success * (1.0 - success), 0.0)
        gains = jnp.zeros_like(skill).at[request.env, request.harness].add(gain)
        steps = np.abs(np.subtract.outer(np.arange(NUM_HARNESS), np.arange(NUM_HARNESS)))
        kept = (1.0 - self.forget) * (skill - begin)
        return (
            begin + kept + gains @ jnp.asarray(self.transfer, jnp.float32) ** jnp.asarray(steps, jnp.float32)
        )


@struct.dataclass
class Outcome:
    """Of one run over E environments."""

    before: Array  # f32[] true success at H4 and the target level, mean over environments
    after: Array  # f32[]
    reached: Array  # f32[] share of environments whose harness frontier is 4 at the end
    mastered: Array  # f32[] share that passed the threshold at H4 and the target level; 0 where not defined
    moved: Array  # bool[] the harness frontier was ever below 4
    live: Array  # f32[] live share of trained groups
    prompts: Array  # i32[] finished groups
    trained: Array  # i32[] those trained on
    promotions: Array  # i32[] steps of a frontier
    early: Array  # i32[] those taken while the true success there was below the threshold


@struct.dataclass
class _Carry:
    state: Any
    skill: Array
    reached: Array  # f32[]
    mastered: Array
    moved: Array
    live: Array  # i32[]
    prompts: Array
    trained: Array
    promotions: Array
    early: Array


@partial(jax.jit, static_argnames=("config", "updates", "batch", "group_size", "budget", "match"))
def run(
    key: Array,
    state: Any,
    target: Array,
    learner: Learner,
    *,
    config: Curriculum,
    updates: int,
    batch: int,
    group_size: int = 16,
    budget: int,
    match: Match = "prompts",
) -> Outcome:
    """Trains the simulated learner under a curriculum, as one scan. Vmap over keys for several seeds.

    The learner of a key is the same under every curriculum.

    Args:
        state: of `config.init(target)`.
        target: i32[E].
        updates: at most; the run stops learning once `budget` is reached.
        budget: prompts, either generated (`match` "prompts") or trained on ("trained").
    """
    k_skill, k_run = jax.random.split(key)
    begin = learner.skill(k_skill, target.shape[0])
    envs = jnp.arange(target.shape[0], dtype=jnp.int32)
    hardest = jnp.full_like(envs, HARDEST)
    hdc = getattr(config, "inner", config)
    hdc = hdc if isinstance(hdc, HDC) else None

    def step(carry: _Carry, key: Array) -> tuple[_Carry, None]:
        request, success, trained = _batch(key, carry, target, config, learner, batch, group_size)
        state, metrics = config.update(carry.state, request, success, success)
        live = trained & (success > 0.0) & (success < 1.0)
        promotions, early = carry.promotions, carry.early
        if hdc is not None:
            scale, harness = metrics["scale_promoted"], metrics["harness_promoted"]
            level = jnp.where(harness, target, metrics["level"] - scale.astype(jnp.int32))
            r = metrics["harness"] - harness.astype(jnp.int32)
            true = learner.success(carry.skill, target, envs, r, level)
            short = (scale & (true < hdc.tau_scale)) | (harness & (true < hdc.tau_harness))
            promotions = promotions + jnp.sum(scale | harness, dtype=jnp.int32)
            early = early + jnp.sum(short, dtype=jnp.int32)
        at_hardest = metrics["harness"] == HARDEST
        mastered = metrics.get("mastered", jnp.zeros_like(at_hardest))
        after = _Carry(
            state=state,
            skill=learner.learn(carry.skill, begin, request, success, trained),
            reached=jnp.mean(at_hardest, dtype=jnp.float32),
            mastered=jnp.mean(mastered, dtype=jnp.float32),
            moved=carry.moved | jnp.any(~at_hardest),
            live=carry.live + jnp.sum(live, dtype=jnp.int32),
            prompts=carry.prompts + jnp.sum(jnp.isfinite(success), dtype=jnp.int32),
            trained=carry.trained + jnp.sum(trained, dtype=jnp.int32),
            promotions=promotions,
            early=early,
        )
        going = getattr(carry, match) < budget
        return jax.tree.map(partial(jnp.where, going), after, carry), None

    zero = jnp.zeros((), jnp.int32)
    share = jnp.zeros((), jnp.float32)
    start = _Carry(state, begin, share, share, jnp.zeros((), bool), zero, zero, zero, zero, zero)
    end, _ = jax.lax.scan(step, start, jax.random.split(k_run, updates))
    true = [jnp.mean(learner.success(skill, target, envs, hardest, target)) for skill in (begin, end.skill)]
    return Outcome(
        before=true[0],
        after=true[1],
        reached=end.reached,
        mastered=end.mastered,
        moved=end.moved,
        live=end.live.astype(jnp.float32) / jnp.maximum(end.trained, 1).astype(jnp.float32),
        prompts=end.prompts,
        trained=end.trained,
        promotions=end.promotions,
        early=end.early,
    )


def _batch(
    key: Array,
    carry: _Carry,
    target: Array,
    config: Curriculum,
    learner: Learner,
    batch: int,
    group_size: int,
) -> tuple[Request, Array, Array]:
    """The groups of one update: request, f32[N] success, bool[N] trained; N = batch * (1 + refills)."""
    keys = jax.random.split(key, 2 * (1 + config.refills))
    request = config.sample(keys[0], carry.state, batch)
    success = learner.play(keys[1], carry.skill, target, request, group_size)
    trained = config.trains(carry.state, request, success, success)
    for k_draw, k_play in zip(keys[2::2], keys[3::2], strict=True):
        missing = batch - jnp.sum(trained, dtype=jnp.int32)
        more = config.refill(k_draw, carry.state, batch)
        more = more.replace(env=jnp.where(jnp.arange(batch) < missing, more.env, -1))
        gained = learner.play(k_play, carry.skill, target, more, group_size)
        trained = jnp.concatenate([trained, config.trains(carry.state, more, gained, gained)])
        request = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), request, more)
        success = jnp.concatenate([success, gained])
    return request, success, trained
