"""ADCL: a fixed pool of instances, sorted from easy to hard for the present policy (Zhang et al., arXiv 2505.08364).

The initial policy rates the whole pool, which is then cut into batches of rising difficulty; after training on one
batch only the next is rated and sorted again ("difficulty shift"). Read in summaries of the paper only. Ours: the pool
is drawn from a seed instead of being a data set, its size and the number of batches, and that after the last batch the
first is rated again and a next pass begins.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

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
    check_targets,
    fresh,
    has_result,
    mean_success,
    metrics_at_target,
    sum_by_env,
)


@struct.dataclass
class State:
    """Pool of P instances, all of harness 4, and counters of E environments.

    Phase 0 rates the whole pool; phase 2b + 1 trains on batch b, phase 2b rates it before that (b modulo the number
    of batches).
    """

    target: Array  # i32[E] hardest scale level, 0 without scale
    env: Array  # i32[P]
    level: Array  # i32[P]
    seed: Array  # u32[P]
    estimate: Array  # f32[P] success when last rated; nan before
    order: Array  # i32[P] the pool from easy to hard; batch b is at places b P / K .. (b + 1) P / K - 1
    done: Array  # bool[P] finished in the present phase
    phase: Array  # i32[]
    prompts: Array  # i32[E] finished groups since init
    trained: Array  # i32[E] those that were trained on


@dataclass(frozen=True, kw_only=True)
class ADCL(Curriculum):
    """Settings of ADCL. The `stage` of a request is phase * P + index in the pool.

    A phase ends when each of its instances has a result. When fewer are left than a call of `sample` asks for, it
    goes round the batch from its start. The state moves in `update` only: two calls in between give the same rows.
    """

    base_scale: BaseScale = "uniform"
    """Level of the pool's instances: uniform over 0..target, or always the target."""
    pool: int = 2048
    """P. One pass generates nearly 3 P prompts and trains on P."""
    batches: int = 4
    """K, a divisor of the pool."""
    pool_seed: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a setting out of range."""
        check_choice("base_scale", self.base_scale, get_args(BaseScale))
        check_int("pool", self.pool, 1, 1 << 20)
        check_int("batches", self.batches, 1, self.pool)
        check_int("pool_seed", self.pool_seed, 0, (1 << 31) - 1)
        if self.pool % self.batches:
            raise ValueError(f"batches must divide pool ({self.pool}), got {self.batches}")

    def init(self, targets: Any) -> State:
        """The pool, not rated yet; see `Curriculum.init`."""
        target = jnp.asarray(check_targets(targets))
        pool = fresh(jax.random.key(self.pool_seed), target, self.pool, self.base_scale, stage=0)
        counter = jnp.zeros(target.shape, jnp.int32)
        return State(
            target=target,
            env=pool.env,
            level=pool.level,
            seed=pool.seed,
            estimate=jnp.full((self.pool,), jnp.nan, jnp.float32),
            order=jnp.arange(self.pool, dtype=jnp.int32),
            done=jnp.zeros((self.pool,), jnp.bool_),
            phase=jnp.zeros((), jnp.int32),
            prompts=counter,
            trained=counter,
        )

    @partial(jax.jit, static_argnames=("self", "batch"))
    def sample(self, key: Array, state: State, batch: int) -> Request:
        """The next instances of the phase in their order; the key is not used."""
        inside = self._inside(state.phase)
        waiting = jnp.where(inside, state.done[state.order].astype(jnp.int32), 2)
        place = jnp.argsort(waiting, stable=True)[jnp.arange(batch) % jnp.sum(inside, dtype=jnp.int32)]
        index = state.order[place]
        return Request(
            env=state.env[index],
            harness=jnp.full((batch,), HARDEST, jnp.int32),
            level=state.level[index],
            seed=state.seed[index],
            stage=state.phase * self.pool + index,
        )

    @partial(jax.jit, static_argnames=("self",))
    def trains(self, state: State, request: Request, success: Array, reward: Array) -> Array:
        """bool[B] groups of the present phase, if it is one of training."""
        return self._current(state, request, success) & (state.phase % 2 == 1)

    @partial(jax.jit, static_argnames=("self",))
    def update(
        self, state: State, request: Request, success: Array, reward: Array
    ) -> tuple[State, dict[str, Array]]:
        """Notes results; at the end of a phase of rating, sorts its instances. See `Curriculum.update`.

        Groups of an earlier phase are counted and otherwise ignored. The reward is not used.

        Returns:
            The state, and per environment: harness i32 (4), level i32 (the target), frontier_success f32 (mean over
            this batch's groups of the target level; nan without groups), prompts i32, trained i32.
        """
        check_groups(request, success, reward)
        trained = self.trains(state, request, success, reward)
        finished, kept, _ = sum_by_env(request, success, trained, state.target.shape[0])
        current = self._current(state, request, success)
        by_index = request.replace(env=request.stage % self.pool)
        _, count, total = sum_by_env(by_index, success, current, self.pool)
        rating = state.phase % 2 == 0
        rated = rating & (count > 0)
        state = state.replace(
            estimate=jnp.where(rated, mean_success(total, count), state.estimate),
            done=state.done | (count > 0),
            prompts=state.prompts + finished,
            trained=state.trained + kept,
        )
        inside = self._inside(state.phase)
        over = jnp.all(state.done[state.order] | ~inside)
        state = state.replace(
            order=jnp.where(over & rating, self._sorted(state, inside), state.order),
            done=state.done & ~over,
            phase=state.phase + over.astype(jnp.int32),
        )
        counters = {"prompts": state.prompts, "trained": state.trained}
        return state, metrics_at_target(state.target, request, success) | counters

    def _inside(self, phase: Array) -> Array:
        """bool[P] places of `order` that belong to the phase."""
        batch = jnp.arange(self.pool) // (self.pool // self.batches)
        return (batch == phase // 2 % self.batches) | (phase == 0)

    def _current(self, state: State, request: Request, success: Array) -> Array:
        known = has_result(request, success) & (request.env < state.target.shape[0])
        return known & (request.stage // self.pool == state.phase)

    def _sorted(self, state: State, inside: Array) -> Array:
        """i32[P] the order with the places `inside` sorted by falling success, ties by index."""
        places = jnp.arange(self.pool)
        # Places before and after keep theirs: they are sorted by place alone.
        part = jnp.where(inside, 1, jnp.where(places < jnp.argmax(inside), 0, 2))
        hardness = jnp.where(inside, -state.estimate[state.order], 0.0)
        tie = jnp.where(inside, state.order, places)
        return state.order[jnp.lexsort((tie, hardness, part))]


CURRICULUM = ADCL
