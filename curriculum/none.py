"""No curriculum: the full task from the first step, without harness (the paper's plain GRPO baseline)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array

from curriculum.base import (
    BaseScale,
    Curriculum,
    Request,
    check_choice,
    check_groups,
    check_targets,
    fresh,
    metrics_at_target,
    sum_by_env,
)


@struct.dataclass
class State:
    """Nothing moves: targets and counters of E environments."""

    target: Array  # i32[E] hardest scale level, 0 without scale
    prompts: Array  # i32[E] finished groups since init


@dataclass(frozen=True, kw_only=True)
class NoCurriculum(Curriculum):
    """Harness 4 always. The paper does not give the scale of its runs without a curriculum: no default."""

    base_scale: BaseScale
    """Level of a prompt: uniform over 0..target, or always the target."""

    def __post_init__(self) -> None:
        """Raises ValueError for an unknown base_scale."""
        check_choice("base_scale", self.base_scale, get_args(BaseScale))

    def init(self, targets: Any) -> State:
        """Zero counters for E environments; see `Curriculum.init`."""
        target = check_targets(targets)
        return State(target=jnp.asarray(target), prompts=jnp.zeros(target.shape, jnp.int32))

    @partial(jax.jit, static_argnames=("self", "batch"))
    def sample(self, key: Array, state: State, batch: int) -> Request:
        """`batch` prompts of environments drawn uniformly, all of stage 0."""
        return fresh(key, state.target, batch, self.base_scale, stage=0)

    @partial(jax.jit, static_argnames=("self",))
    def update(
        self, state: State, request: Request, success: Array, reward: Array
    ) -> tuple[State, dict[str, Array]]:
        """Counts finished groups; see `Curriculum.update`. The reward is not used.

        Returns:
            The state, and per environment: harness i32 (4), level i32 (the target), frontier_success f32
            (mean over this batch's groups of the target level; nan without groups), prompts i32, trained i32.
        """
        check_groups(request, success, reward)
        finished, _, _ = sum_by_env(request, success, jnp.ones_like(success, bool), state.target.shape[0])
        state = state.replace(prompts=state.prompts + finished)
        counters = {"prompts": state.prompts, "trained": state.prompts}
        return state, metrics_at_target(state.target, request, success) | counters


CURRICULUM = NoCurriculum
