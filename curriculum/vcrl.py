"""VCRL: train on groups whose rewards vary, and refill the batch from a bank of such instances (arXiv 2509.19803).

Read in reviews of the paper only. Theirs are: the normalised variance p, the threshold kappa (0.3 for the first 20
steps, 0.8 later), the momentum 0.9, at most two replays of a stored instance, no resampling when the bank is empty.
The paper's equation for priorities was not found; here they move by P <- 0.9 P + 0.1 p and start at p. Also ours: the
bank's size, that the lowest priority gives way to a higher one when it is full, and that a replayed group is trained
on only if it passes kappa too.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, get_args

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array

from curriculum.base import (
    HARDEST,
    UNIT,
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

TOLERANCE = 1e-6  # p within rounding of kappa passes


@struct.dataclass
class State:
    """Bank of C instances, all of harness 4, and counters of E environments."""

    target: Array  # i32[E] hardest scale level, 0 without scale
    step: Array  # i32[] updates since init
    env: Array  # i32[C]
    level: Array  # i32[C]
    seed: Array  # u32[C]
    priority: Array  # i32[C] in units of 1 / UNIT, so that its order is the same on every backend; -1: free
    replays: Array  # i32[C] times replayed since the instance was stored
    prompts: Array  # i32[E] finished groups since init
    trained: Array  # i32[E] those that passed kappa


@dataclass(frozen=True, kw_only=True)
class VCRL(Curriculum):
    """Settings of VCRL. The `stage` of a request is its slot in the bank, -1 for a new instance."""

    refills: ClassVar[int] = 1

    group_size: int = 16
    """Rollouts per group, which the largest possible variance depends on."""
    base_scale: BaseScale = "uniform"
    """Level of new instances: uniform over 0..target, or always the target."""
    kappa_early: float = 0.3
    """Smallest p that is trained on during the first `early_steps` updates, [0, 1]."""
    kappa: float = 0.8
    """The same afterwards."""
    early_steps: int = 20
    momentum: float = 0.9
    """Weight of a stored priority against the newly measured p, [0, 1]."""
    max_replays: int = 2
    """Replays after which an instance leaves the bank."""
    capacity: int = 1024

    def __post_init__(self) -> None:
        """Raises ValueError for a setting out of range."""
        check_choice("base_scale", self.base_scale, get_args(BaseScale))
        check_int("group_size", self.group_size, 2, 1 << 15)
        for name in ("kappa_early", "kappa", "momentum"):
            check_real(name, getattr(self, name), 0.0, 1.0)
        check_int("early_steps", self.early_steps, 0, 1 << 30)
        check_int("max_replays", self.max_replays, 1, 1 << 30)
        check_int("capacity", self.capacity, 1, 1 << 20)

    def init(self, targets: Any) -> State:
        """An empty bank; see `Curriculum.init`."""
        target = check_targets(targets)
        zeros = jnp.zeros((self.capacity,), jnp.int32)
        counter = jnp.zeros(target.shape, jnp.int32)
        return State(
            target=jnp.asarray(target),
            step=jnp.zeros((), jnp.int32),
            env=zeros,
            level=zeros,
            seed=jnp.zeros((self.capacity,), jnp.uint32),
            priority=jnp.full((self.capacity,), -1, jnp.int32),
            replays=zeros,
            prompts=counter,
            trained=counter,
        )

    def variance(self, success: Array) -> Array:
        """f32[B] p: the variance of a group's rewards over the largest possible one, in [0, 1].

        For k successes of G: 4 k (G - k) / G^2 where G is even, 4 k (G - k) / (G^2 - 1) where it is odd. Of graded
        returns only the mean is known; the same formula then gives the largest variance that the mean allows.
        """
        success = jnp.clip(success.astype(jnp.float32), 0.0, 1.0)
        odd = self.group_size**2 / (self.group_size**2 - 1) if self.group_size % 2 else 1.0
        return 4.0 * odd * success * (1.0 - success)

    @partial(jax.jit, static_argnames=("self", "batch"))
    def sample(self, key: Array, state: State, batch: int) -> Request:
        """`batch` new instances."""
        return fresh(key, state.target, batch, self.base_scale, stage=-1)

    @partial(jax.jit, static_argnames=("self",))
    def trains(self, state: State, request: Request, success: Array, reward: Array) -> Array:
        """bool[B] groups whose p reaches kappa."""
        kappa = jnp.where(state.step < self.early_steps, self.kappa_early, self.kappa)
        return has_result(request, success) & (self.variance(success) >= kappa - TOLERANCE)

    @partial(jax.jit, static_argnames=("self", "batch"))
    def refill(self, key: Array, state: State, batch: int) -> Request:
        """The stored instances of highest priority; padding where there are no more.

        Raises:
            ValueError: batch exceeds the capacity.
        """
        if batch > self.capacity:
            raise ValueError(f"batch ({batch}) must be at most capacity ({self.capacity})")
        priority, slot = jax.lax.top_k(state.priority, batch)
        stored = priority >= 0
        return Request(
            env=jnp.where(stored, state.env[slot], -1),
            harness=jnp.full((batch,), HARDEST, jnp.int32),
            level=state.level[slot],
            seed=state.seed[slot],
            stage=jnp.where(stored, slot.astype(jnp.int32), -1),
        )

    @partial(jax.jit, static_argnames=("self",))
    def update(
        self, state: State, request: Request, success: Array, reward: Array
    ) -> tuple[State, dict[str, Array]]:
        """Stores and re-rates instances, row by row; see `Curriculum.update`. The reward is not used.

        A replayed row whose slot holds another instance by now is counted and otherwise ignored.

        Returns:
            The state, and per environment: harness i32 (4), level i32 (the target), frontier_success f32 (mean over
            this batch's groups of the target level; nan without groups), prompts i32, trained i32, stored i32
            (instances in the bank).
        """
        check_groups(request, success, reward)
        num_envs = state.target.shape[0]
        trained = self.trains(state, request, success, reward)
        finished, kept, _ = sum_by_env(request, success, trained, num_envs)
        rated = has_result(request, success) & (request.env < num_envs)
        p = jnp.round(jnp.where(rated, self.variance(success), 0.0) * UNIT).astype(jnp.int32)
        rows = (request, p, rated, trained & rated)
        state = jax.lax.scan(self._absorb, state, rows)[0]
        state = state.replace(
            step=state.step + 1, prompts=state.prompts + finished, trained=state.trained + kept
        )
        stored = jax.ops.segment_sum((state.priority >= 0).astype(jnp.int32), state.env, num_envs)
        counters = {"prompts": state.prompts, "trained": state.trained, "stored": stored}
        return state, metrics_at_target(state.target, request, success) | counters

    def _absorb(self, state: State, row: tuple[Request, Array, Array, Array]) -> tuple[State, None]:
        """One finished group: re-rates the slot it was replayed from, or enters the bank."""
        request, p, rated, kept = row
        slot = jnp.maximum(request.stage, 0)
        replayed = rated & (request.stage >= 0) & (request.stage < self.capacity)
        for name in ("env", "level", "seed"):
            replayed = replayed & (getattr(state, name)[slot] == getattr(request, name))
        replayed = replayed & (state.priority[slot] >= 0)
        lowest = jnp.argmin(state.priority)
        entering = kept & (request.stage < 0) & (p > state.priority[lowest])
        slot = jnp.where(replayed, slot, jnp.where(entering, lowest.astype(jnp.int32), self.capacity))
        # A row that neither is a replay nor enters writes to slot C, which does not exist: dropped.
        replays = jnp.where(replayed, state.replays[slot] + 1, 0)
        old = state.priority[slot]
        change = jnp.round((1.0 - self.momentum) * (p - old).astype(jnp.float32)).astype(jnp.int32)
        rerated = jnp.where(replays >= self.max_replays, -1, old + change)
        priority = jnp.where(replayed, rerated, p)

        def put(old: Array, new: Array) -> Array:
            return old.at[slot].set(new, mode="drop")

        state = state.replace(
            env=put(state.env, request.env),
            level=put(state.level, request.level),
            seed=put(state.seed, request.seed),
            priority=put(state.priority, priority),
            replays=put(state.replays, replays),
        )
        return state, None


CURRICULUM = VCRL
