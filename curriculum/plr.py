"""Prioritized Level Replay (Jiang et al., 2021), with the rules of jaxued's level sampler.

For GRPO there is no critic to estimate regret from: the score of an instance is its learnability p (1 - p), where p is
the group's success ("No Regrets", Rutherford et al., 2024, found the usual regret proxies to follow success anyway).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array

from curriculum.base import (
    HARDEST,
    BaseScale,
    Curriculum,
    Request,
    check_choice,
    check_groups,
    check_int,
    check_real,
    check_targets,
    fresh,
    has_result,
    metrics_at_target,
    sum_by_env,
)

Prioritization = Literal["rank", "top_k"]


@struct.dataclass
class Instances:
    """What tells instances apart; one of them, or C in the buffer. The harness is always 4."""

    env: Array  # i32[C]
    level: Array  # i32[C]
    seed: Array  # u32[C]


@struct.dataclass
class State:
    """Buffer of C instances, of which the first `size` are filled, and counters of E environments."""

    target: Array  # i32[E] hardest scale level, 0 without scale
    instances: Instances
    score: Array  # f32[C] learnability when last seen; -inf where free
    timestamp: Array  # i32[C] `groups` when the slot was last written or replayed
    size: Array  # i32[]
    groups: Array  # i32[] scored groups since init: the clock of staleness
    prompts: Array  # i32[E] finished groups since init
    trained: Array  # i32[E] those that were trained on


@dataclass(frozen=True, kw_only=True)
class PLR(Curriculum):
    """Settings of PLR. The `stage` of a request is its slot in the buffer, -1 for a new instance.

    A batch is either all new or all replayed. Defaults are those of jaxued's maze script, but for a smaller buffer
    that fills sooner: the paper's whole budget is 7,680 prompts, jaxued's millions of episodes.

    `sample` cannot change the state, so the clock and the timestamps of replayed slots, which make each draw avoid
    the ones before it, are kept within the call and written by `update`. Where every batch is updated before the
    next is drawn, that is the same. A replayed row whose slot holds another instance by now is not scored.
    """

    robust: bool = False
    """Take no gradient on new instances, only score them (PLR-perp, Jiang et al., 2021b)."""
    base_scale: BaseScale = "uniform"
    """Level of new instances: uniform over 0..target, or always the target."""
    capacity: int = 1024
    replay_prob: float = 0.8
    """Probability that a batch is replayed, once the buffer is filled to `fill`, [0, 1]."""
    fill: float = 0.25
    """Share of the buffer that must be filled before anything is replayed, (0, 1]."""
    staleness: float = 0.3
    """Weight rho of staleness against score in the draw of replays, [0, 1]."""
    prioritization: Prioritization = "rank"
    """Score weights: (1 / rank)^(1 / temperature), or a softmax over the best `top_k`."""
    temperature: float = 0.3
    top_k: int = 4

    def __post_init__(self) -> None:
        """Raises ValueError for a setting out of range."""
        check_choice("base_scale", self.base_scale, get_args(BaseScale))
        check_choice("prioritization", self.prioritization, get_args(Prioritization))
        check_int("capacity", self.capacity, 1, 1 << 20)
        check_real("replay_prob", self.replay_prob, 0.0, 1.0)
        check_real("fill", self.fill, 0.0, 1.0, open_low=True)
        check_real("staleness", self.staleness, 0.0, 1.0)
        check_real("temperature", self.temperature, 0.0, 1e6, open_low=True)
        check_int("top_k", self.top_k, 1, self.capacity)

    def init(self, targets: Any) -> State:
        """An empty buffer; see `Curriculum.init`."""
        target = check_targets(targets)
        zeros = jnp.zeros((self.capacity,), jnp.int32)
        counter = jnp.zeros(target.shape, jnp.int32)
        return State(
            target=jnp.asarray(target),
            instances=Instances(env=zeros, level=zeros, seed=jnp.zeros((self.capacity,), jnp.uint32)),
            score=jnp.full((self.capacity,), -jnp.inf, jnp.float32),
            timestamp=zeros,
            size=jnp.zeros((), jnp.int32),
            groups=jnp.zeros((), jnp.int32),
            prompts=counter,
            trained=counter,
        )

    @partial(jax.jit, static_argnames=("self", "batch"))
    def sample(self, key: Array, state: State, batch: int) -> Request:
        """`batch` new instances, or as many replayed ones."""
        k_new, k_replay = jax.random.split(key)
        new = self._request(self._new(k_new, state, batch), jnp.full((batch,), -1, jnp.int32))
        replay, slot = self._replay(k_replay, state, batch)
        replayed = self._request(jax.tree.map(lambda x: x[slot], state.instances), slot)
        return jax.tree.map(partial(jnp.where, replay), replayed, new)

    @partial(jax.jit, static_argnames=("self",))
    def trains(self, state: State, request: Request, success: Array, reward: Array) -> Array:
        """bool[B] all groups; with `robust` the replayed ones."""
        finished = has_result(request, success)
        return finished & (request.stage >= 0) if self.robust else finished

    @partial(jax.jit, static_argnames=("self",))
    def update(
        self, state: State, request: Request, success: Array, reward: Array
    ) -> tuple[State, dict[str, Array]]:
        """Scores replayed instances and inserts new ones, row by row; see `Curriculum.update`.

        A new instance takes a free slot; else the slot of least weight, if its score is higher than the score there;
        one that is stored already is re-scored. The reward is not used.

        Returns:
            The state, and per environment: harness i32 (4), level i32 (the target), frontier_success f32 (mean over
            this batch's groups of the target level; nan without groups), prompts i32, trained i32, stored i32
            (instances in the buffer).
        """
        check_groups(request, success, reward)
        num_envs = state.target.shape[0]
        trained = self.trains(state, request, success, reward)
        finished, kept, _ = sum_by_env(request, success, trained, num_envs)
        scored = has_result(request, success) & (request.env < num_envs)
        success = jnp.clip(success.astype(jnp.float32), 0.0, 1.0)
        rows = (self._instances(request), request.stage, success * (1.0 - success), scored)
        state = jax.lax.scan(self._absorb, state, rows)[0]
        state = state.replace(prompts=state.prompts + finished, trained=state.trained + kept)
        filled = (jnp.arange(self.capacity) < state.size).astype(jnp.int32)
        counters = {
            "prompts": state.prompts,
            "trained": state.trained,
            "stored": jax.ops.segment_sum(filled, state.instances.env, num_envs),
        }
        return state, metrics_at_target(state.target, request, success) | counters

    def score_weights(self, score: Array, size: Array) -> Array:
        """f32[C] weights of the filled slots by score, summing to 1 (all 0 where none is filled)."""
        filled = jnp.arange(self.capacity) < size
        order = jnp.argsort(-score, stable=True)
        rank = jnp.zeros_like(order).at[order].set(jnp.arange(1, self.capacity + 1))
        if self.prioritization == "rank":
            weight = (1.0 / rank.astype(jnp.float32)) ** (1.0 / self.temperature)
        else:
            filled = filled & (rank <= self.top_k)
            weight = jnp.exp(score)  # a learnability is at most 1/4: no need to subtract the largest
        weight = jnp.where(filled, weight, 0.0)
        return weight / jnp.maximum(jnp.sum(weight), jnp.finfo(jnp.float32).tiny)

    def staleness_weights(self, timestamp: Array, size: Array, groups: Array) -> Array:
        """f32[C] weights of the filled slots by age, summing to 1; uniform where all are of age 0."""
        filled = jnp.arange(self.capacity) < size
        age = jnp.where(filled, groups - timestamp, 0).astype(jnp.float32)
        age = jnp.where(jnp.sum(age) > 0.0, age, filled.astype(jnp.float32))
        return age / jnp.maximum(jnp.sum(age), 1.0)

    def weights(self, by_score: Array, timestamp: Array, size: Array, groups: Array) -> Array:
        """f32[C] probability that a slot is replayed next."""
        by_age = self.staleness_weights(timestamp, size, groups)
        return (1.0 - self.staleness) * by_score + self.staleness * by_age

    def _new(self, key: Array, state: State, batch: int) -> Instances:
        request = fresh(key, state.target, batch, self.base_scale, stage=-1)
        return self._instances(request)

    def _instances(self, request: Request) -> Instances:
        return Instances(env=request.env, level=request.level, seed=request.seed)

    def _request(self, instances: Instances, stage: Array) -> Request:
        harness = jnp.full_like(instances.env, HARDEST)
        return Request(
            env=instances.env, harness=harness, level=instances.level, seed=instances.seed, stage=stage
        )

    def _replay(self, key: Array, state: State, batch: int) -> tuple[Array, Array]:
        """bool[] whether to replay, and the i32[B] slots, drawn one after another."""
        draws = jax.random.uniform(key, (batch + 1,), jnp.float32)
        ready = state.size >= math.ceil(self.fill * self.capacity)
        by_score = self.score_weights(state.score, state.size)

        def draw(clock: tuple[Array, Array], u: Array) -> tuple[tuple[Array, Array], Array]:
            timestamp, groups = clock
            bounds = jnp.cumsum(self.weights(by_score, timestamp, state.size, groups))
            slot = jnp.searchsorted(bounds, u * bounds[-1], side="right").astype(jnp.int32)
            slot = jnp.clip(slot, 0, jnp.maximum(state.size - 1, 0))  # rounding may reach the last bound
            return (timestamp.at[slot].set(groups + 1), groups + 1), slot

        _, slots = jax.lax.scan(draw, (state.timestamp, state.groups), draws[1:])
        return ready & (draws[0] < self.replay_prob), slots

    def _holds(self, state: State, slot: Array, instance: Instances) -> Array:
        """bool[] whether the slot is filled with this instance."""
        equal = jax.tree.map(lambda x, y: jnp.all(x[slot] == y), state.instances, instance)
        return jax.tree.reduce(jnp.logical_and, equal) & (slot >= 0) & (slot < state.size)

    def _absorb(self, state: State, row: tuple[Instances, Array, Array, Array]) -> tuple[State, None]:
        """One finished group."""
        instance, stage, score, scored = row
        replayed = scored & self._holds(state, stage, instance)
        inserted, new = scored & (stage < 0), self._slot(state, instance, score)
        # Slot C does not exist: what is written there is dropped.
        slot = jnp.where(replayed, stage, jnp.where(inserted, new, self.capacity))
        groups = state.groups + (replayed | inserted).astype(jnp.int32)
        state = state.replace(
            instances=jax.tree.map(lambda x, y: x.at[slot].set(y, mode="drop"), state.instances, instance),
            score=state.score.at[slot].set(score, mode="drop"),
            timestamp=state.timestamp.at[slot].set(groups, mode="drop"),
            size=jnp.where(slot < self.capacity, jnp.maximum(state.size, slot + 1), state.size),
            groups=groups,
        )
        return state, None

    def _slot(self, state: State, instance: Instances, score: Array) -> Array:
        """i32[] where a new instance goes; C: nowhere."""
        same = jax.tree.map(
            lambda x, y: jnp.all((x == y[None]).reshape(self.capacity, -1), axis=1), state.instances, instance
        )
        same = jax.tree.reduce(jnp.logical_and, same) & (jnp.arange(self.capacity) < state.size)

        def least() -> Array:
            by_score = self.score_weights(state.score, state.size)
            weights = self.weights(by_score, state.timestamp, state.size, state.groups)
            slot = jnp.argmin(weights).astype(jnp.int32)
            return jnp.where(score > state.score[slot], slot, self.capacity)

        slot = jax.lax.cond(state.size < self.capacity, lambda: state.size, least)
        return jnp.where(jnp.any(same), jnp.argmax(same).astype(jnp.int32), slot)


CURRICULUM = PLR
