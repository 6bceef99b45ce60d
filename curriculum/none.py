"""No curriculum: the full task from the first step, without harness (the paper's plain GRPO baseline)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array

from curriculum.base import NUM_HARNESS, Request, check_groups, check_targets, mean_success, pick, sum_by_env

BaseScale = Literal["uniform", "target"]


@struct.dataclass
class State:
    """Nothing moves: targets and counters of E environments."""

    target: Array  # i32[E] hardest scale level, 0 without scale
    prompts: Array  # i32[E] finished groups since init


@dataclass(frozen=True, kw_only=True)
class NoCurriculum:
    """Harness 4 always. The paper does not give the scale of its runs without a curriculum: no default."""

    base_scale: BaseScale
    """Level of a prompt: uniform over 0..target, or always the target."""

    def __post_init__(self) -> None:
        """Raises ValueError for an unknown base_scale."""
        allowed = get_args(BaseScale)
        if self.base_scale not in allowed:
            raise ValueError(f"base_scale must be one of {allowed}, got {self.base_scale!r}")

    def init(self, targets: Any) -> State:
        """Zero counters for E environments; see `Curriculum.init`."""
        target = check_targets(targets)
        return State(target=jnp.asarray(target), prompts=jnp.zeros(target.shape, jnp.int32))

    @partial(jax.jit, static_argnames=("self", "batch"))
    def sample(self, key: Array, state: State, batch: int) -> Request:
        """`batch` prompts of environments drawn uniformly, all of stage 0."""
        k_draw, k_seed = jax.random.split(key)
        draw_env, draw_level = jax.random.uniform(k_draw, (2, batch), jnp.float32)
        env = pick(draw_env, state.target.shape[0])
        level = state.target[env]
        if self.base_scale == "uniform":
            level = pick(draw_level, level + 1)
        return Request(
            env=env,
            harness=jnp.full((batch,), NUM_HARNESS - 1, jnp.int32),
            level=level,
            seed=jax.random.bits(k_seed, (batch,), jnp.uint32),
            stage=jnp.zeros((batch,), jnp.int32),
        )

    @partial(jax.jit, static_argnames=("self",))
    def update(
        self, state: State, request: Request, success: Array, reward: Array
    ) -> tuple[State, dict[str, Array]]:
        """Counts finished groups; see `Curriculum.update`. The reward is not used.

        Returns:
            The state, and per environment: harness i32 (4), level i32 (the target), frontier_success f32
            (mean over this batch's groups of the target level; nan without groups).
        """
        check_groups(request, success, reward)
        counts = request.level == state.target[request.env]
        finished, at_target, total = sum_by_env(request, success, counts, state.target.shape[0])
        metrics = {
            "harness": jnp.full_like(state.target, NUM_HARNESS - 1),
            "level": state.target,
            "frontier_success": mean_success(total, at_target),
        }
        return state.replace(prompts=state.prompts + finished), metrics


CURRICULUM = NoCurriculum
