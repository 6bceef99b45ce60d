"""DAPO's dynamic sampling around any curriculum: generate until the batch is full of live groups (arXiv 2503.14476)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array

from curriculum.base import Curriculum, Request, check_groups, check_int, sum_by_env
from curriculum.hdc import HDC


@struct.dataclass
class State:
    """The wrapped curriculum's state, and counters of E environments."""

    inner: Any
    prompts: Array  # i32[E] finished groups since init
    trained: Array  # i32[E] those that were live


@dataclass(frozen=True, kw_only=True)
class DAPO(Curriculum):
    """Trains on groups with some but not all rollouts successful; dead ones are replaced by new draws.

    DAPO draws until the batch is full; environments that always fail would never fill it, so the rounds are bounded
    and what is missing after the last is left out of the batch. The wrapped curriculum sees every group, dead ones
    too. Live means 0 < success < 1 (as verl's filter on the accuracy); of graded returns only the mean is known here,
    so a group of equal returns inside (0, 1) counts as live.
    """

    inner: Curriculum = HDC()
    """The curriculum whose draws are filtered; one that trains on all its groups."""
    refills: int = 3
    """Rounds of new draws per update, at most."""

    def __post_init__(self) -> None:
        """Raises ValueError for a setting out of range."""
        check_int("refills", self.refills, 1, 100)
        if not isinstance(self.inner, Curriculum) or type(self.inner).trains is not Curriculum.trains:
            raise ValueError(f"inner must be a curriculum that trains on all its groups, got {self.inner!r}")

    def init(self, targets: Any) -> State:
        """The wrapped curriculum's start; see `Curriculum.init`."""
        inner = self.inner.init(targets)
        counter = jnp.zeros((len(targets),), jnp.int32)
        return State(inner=inner, prompts=counter, trained=counter)

    @partial(jax.jit, static_argnames=("self", "batch"))
    def sample(self, key: Array, state: State, batch: int) -> Request:
        """What the wrapped curriculum samples."""
        return self.inner.sample(key, state.inner, batch)

    @partial(jax.jit, static_argnames=("self", "batch"))
    def refill(self, key: Array, state: State, batch: int) -> Request:
        """More of what the wrapped curriculum samples; its state does not move within an update."""
        return self.inner.sample(key, state.inner, batch)

    @partial(jax.jit, static_argnames=("self",))
    def trains(self, state: State, request: Request, success: Array, reward: Array) -> Array:
        """bool[B] live groups."""
        accepted = self.inner.trains(state.inner, request, success, reward)
        return accepted & (success > 0.0) & (success < 1.0)

    @partial(jax.jit, static_argnames=("self",))
    def update(
        self, state: State, request: Request, success: Array, reward: Array
    ) -> tuple[State, dict[str, Array]]:
        """Updates the wrapped curriculum with all groups; its metrics, with this one's prompts and trained."""
        check_groups(request, success, reward)
        live = self.trains(state, request, success, reward)
        finished, kept, _ = sum_by_env(request, success, live, state.prompts.shape[0])
        inner, metrics = self.inner.update(state.inner, request, success, reward)
        state = State(inner=inner, prompts=state.prompts + finished, trained=state.trained + kept)
        return state, metrics | {"prompts": state.prompts, "trained": state.trained}


CURRICULUM = DAPO
