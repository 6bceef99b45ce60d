"""The interface of a curriculum, and the few things all of them need."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

NUM_HARNESS = 5  # H0 shows every harness section, H4 only the picture and the task description (Table 7)

# Success is summed in whole units of 2**-18. Integer sums do not depend on the order of a batch, and k / G is
# a whole number of units for every G that is a power of two. 8191 groups of success 1 still fit an int32.
UNIT = 1 << 18
MAX_GROUPS = (1 << 31) // UNIT - 1

MAX_TARGET = (1 << 20) - 1  # `pick` chooses among up to 2**20 values almost evenly


@struct.dataclass
class Request:
    """What to generate: one row per prompt. A prompt is one GRPO group; its rollouts share the row.

    Keep the row with the group until it is finished and hand it back to `update` unchanged: `stage` says at
    which point of the curriculum it was drawn. A row of `update` whose `env` is outside [0, E) is padding.
    """

    env: Array  # i32[B] index of the environment, 0..E-1
    harness: Array  # i32[B] 0..4
    level: Array  # i32[B] state-scale level, 0..target of the environment
    seed: Array  # u32[B] seed of the instance
    stage: Array  # i32[B] stage of the environment when the row was drawn


class Curriculum(Protocol):
    """A frozen, hashable config whose methods are pure functions of an array state.

    `sample` and `update` are jitted with the config (and `batch`) static. They vmap over keys and states, run
    in a scan, and compile once per config and batch size. The state is a pytree of arrays only: save it with
    the checkpoint.
    """

    def init(self, targets: Any) -> Any:
        """State of E environments at the start.

        Args:
            targets: i32[E], concrete: hardest level to be reached per environment, 0 where it has no scale.

        Raises:
            ValueError: targets is not a non-empty vector of integers >= 0.
        """
        ...

    def sample(self, key: Array, state: Any, batch: int) -> Request:
        """Draws `batch` prompts."""
        ...

    def update(
        self, state: Any, request: Request, success: Array, reward: Array
    ) -> tuple[Any, dict[str, Array]]:
        """Takes in finished groups; returns the new state and metrics, one entry per environment.

        Hand over all finished groups, before any zero-variance filter: filtered groups pull the mean success
        towards 1/2.

        Args:
            request: B rows as drawn by `sample`, in any order, from this or earlier states.
            success: f32[B] share of a group's rollouts that succeeded, in [0, 1] (values outside are
                clipped); for environments without a success flag, their mean normalised return. A group that
                has no result is marked by a non-finite value and ignored.
            reward: f32[B] mean reward of the group, in [0, 1].

        Raises:
            ValueError: success or reward is not of shape [B], or B is too large for exact sums.
        """
        ...


def check_targets(targets: Any) -> np.ndarray:
    """`targets` as i32[E]; ValueError unless it is a non-empty vector of integers >= 0."""
    array = np.asarray(targets)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"targets must be integers of shape [E], got {array.dtype}{list(array.shape)}")
    if array.min() < 0 or array.max() > MAX_TARGET:
        raise ValueError(f"targets must be in [0, {MAX_TARGET}], got {array.min()}..{array.max()}")
    return array.astype(np.int32)


def check_groups(request: Request, success: Array, reward: Array, max_groups: int = MAX_GROUPS) -> None:
    """ValueError unless success and reward have one entry per row and their sums stay exact."""
    shape = request.env.shape
    if len(shape) != 1 or success.shape != shape or reward.shape != shape:
        got = f"{success.shape} and {reward.shape}, request {shape}"
        raise ValueError(f"success and reward need one entry per request row, got {got}")
    if shape[0] > max_groups:
        raise ValueError(f"at most {max_groups} groups per update, got {shape[0]}; split the batch")


def pick(draw: Array, size: Array | int) -> Array:
    """i32[B] in 0..size-1 from draw f32[B], uniform in [0, 1): far cheaper to compile than `random.randint`.

    For size <= 2**20 the product of size and the largest draw, 1 - 2**-23, is below size after rounding too.
    """
    return jnp.floor(draw * jnp.asarray(size, jnp.float32)).astype(jnp.int32)


def sum_by_env(request: Request, success: Array, counts: Array, num_envs: int) -> tuple[Array, Array, Array]:
    """Sums one batch per environment, exactly and whatever its order.

    Args:
        success: f32[B], clipped to [0, 1].
        counts: bool[B] rows whose success is wanted.

    Returns:
        i32[E] number of groups with a result; i32[E] number of those that count; i32[E] their summed success,
        in units of 1 / UNIT.
    """
    valid = jnp.isfinite(success)
    counts = counts & valid
    units = jnp.round(jnp.clip(success.astype(jnp.float32), 0.0, 1.0) * UNIT)
    units = jnp.where(counts, units, 0.0).astype(jnp.int32)
    columns = jnp.stack([valid.astype(jnp.int32), counts.astype(jnp.int32), units], axis=1)
    sums = jax.ops.segment_sum(columns, request.env, num_envs)
    return sums[:, 0], sums[:, 1], sums[:, 2]


def mean_success(total: Array, count: Array) -> Array:
    """f32[E] mean of `count` successes that sum to `total` units; nan where there are none."""
    mean = total.astype(jnp.float32) / (jnp.maximum(count, 1).astype(jnp.float32) * UNIT)
    return jnp.where(count > 0, mean, jnp.nan)
