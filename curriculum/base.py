"""The interface of a curriculum, and the few things all of them need."""

import math
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

NUM_HARNESS = 5  # H0 shows every harness section, H4 only the picture and the task description (Table 7)
HARDEST = NUM_HARNESS - 1

BaseScale = Literal["uniform", "target"]

# Success is summed in whole units of 2**-18. Integer sums do not depend on the order of a batch, and k / G is
# a whole number of units for every G that is a power of two. 8191 groups of success 1 still fit an int32.
UNIT = 1 << 18
MAX_GROUPS = (1 << 31) // UNIT - 1

MAX_TARGET = (1 << 20) - 1  # `pick` chooses among up to 2**20 values almost evenly


@struct.dataclass
class Request:
    """What to generate: one row per prompt. A prompt is one GRPO group; its rollouts share the row.

    Keep the row with the group until it is finished and hand it back to `update` unchanged: `stage` says at
    which point of the curriculum it was drawn. A row whose `env` is outside [0, E) is padding: nothing to
    generate in what `refill` gives, nothing to learn from in `update`.
    """

    env: Array  # i32[B] index of the environment, 0..E-1
    harness: Array  # i32[B] 0..4
    level: Array  # i32[B] state-scale level, 0..target of the environment
    seed: Array  # u32[B] seed of the instance
    stage: Array  # i32[B] stage of the environment, or place in a buffer, when the row was drawn

    @property
    def edits(self) -> Array:
        """u32[B, D] edits made to the instance of `seed`, in order, 0 for none. D = 0 but for ACCEL."""
        return jnp.zeros((*self.env.shape, 0), jnp.uint32)


@struct.dataclass
class EditedRequest(Request):
    """A request whose instances may differ from those of their seeds."""

    edit_seeds: Array  # u32[B, D]

    @property
    def edits(self) -> Array:
        """u32[B, D] one seed per edit; see `Request.edits`."""
        return self.edit_seeds


class Curriculum:
    """A frozen, hashable config whose methods are pure functions of an array state.

    `sample`, `refill`, `trains` and `update` are jitted with the config (and `batch`) static. They vmap over
    keys and states, run in a scan, and compile once per config and batch size. The state is a pytree of arrays
    only: save it with the checkpoint.

    One training step: generate what `sample` asks for; while `trains` refuses some of the groups, generate that
    many rows from the front of a `refill`, at most `refills` times; take a gradient on the groups that `trains`
    accepted; hand all groups to one `update`.
    """

    refills: ClassVar[int] = 0  # rounds of `refill` per update, at most

    def init(self, targets: Any) -> Any:
        """State of E environments at the start.

        Args:
            targets: i32[E], concrete: hardest level to be reached per environment, 0 where it has no scale.

        Raises:
            ValueError: targets is not a non-empty vector of integers >= 0.
        """
        raise NotImplementedError

    def sample(self, key: Array, state: Any, batch: int) -> Request:
        """Draws `batch` prompts."""
        raise NotImplementedError

    @partial(jax.jit, static_argnames=("self",))
    def trains(self, state: Any, request: Request, success: Array, reward: Array) -> Array:
        """bool[B] the finished groups to take a gradient on; asked before `update`, with its arguments.

        By default all groups that have a result.
        """
        return has_result(request, success)

    @partial(jax.jit, static_argnames=("self", "batch"))
    def refill(self, key: Array, state: Any, batch: int) -> Request:
        """`batch` prompts to generate instead of groups that `trains` refused, best ones first.

        By default nothing: rows with env = -1.
        """
        return nothing(batch)

    def update(
        self, state: Any, request: Request, success: Array, reward: Array
    ) -> tuple[Any, dict[str, Array]]:
        """Takes in finished groups; returns the new state and metrics, one entry per environment.

        Hand over all finished groups, those that `trains` refused and dead ones too: filtered groups pull the
        mean success towards 1/2.

        Args:
            request: B rows as drawn by `sample` or `refill`, in any order, from this or earlier states.
            success: f32[B] share of a group's rollouts that succeeded, in [0, 1] (values outside are
                clipped); for environments without a success flag, their mean normalised return. A group that
                has no result is marked by a non-finite value and ignored.
            reward: f32[B] mean reward of the group, in [0, 1].

        Returns:
            The state and at least these metrics, of shape [E]: harness i32 and level i32 of the frontier,
            frontier_success f32 (nan where unknown), prompts i32 (finished groups since init), trained i32 (those
            that `trains` accepted).

        Raises:
            ValueError: success or reward is not of shape [B], or B is too large for exact sums.
        """
        raise NotImplementedError


def has_result(request: Request, success: Array) -> Array:
    """bool[B] rows that are no padding and whose group was finished."""
    return (request.env >= 0) & jnp.isfinite(success)


def rows(request: Request, index: Array) -> Request:
    """Some rows of a request, in the given order."""
    return jax.tree.map(lambda x: x[index], request)


def nothing(batch: int) -> Request:
    """`batch` rows of padding."""
    zeros = jnp.zeros((batch,), jnp.int32)
    none = jnp.full((batch,), -1, jnp.int32)
    return Request(env=none, harness=zeros, level=zeros, seed=jnp.zeros((batch,), jnp.uint32), stage=none)


def fresh(key: Array, target: Array, batch: int, base_scale: BaseScale, stage: int) -> Request:
    """`batch` new instances at H4 of environments drawn uniformly.

    Args:
        target: i32[E].
        base_scale: level of an instance: uniform over 0..target, or always the target.
    """
    k_draw, k_seed = jax.random.split(key)
    draw_env, draw_level = jax.random.uniform(k_draw, (2, batch), jnp.float32)
    env = pick(draw_env, target.shape[0])
    level = target[env]
    if base_scale == "uniform":
        level = pick(draw_level, level + 1)
    return Request(
        env=env,
        harness=jnp.full((batch,), HARDEST, jnp.int32),
        level=level,
        seed=jax.random.bits(k_seed, (batch,), jnp.uint32),
        stage=jnp.full((batch,), stage, jnp.int32),
    )


def metrics_at_target(target: Array, request: Request, success: Array) -> dict[str, Array]:
    """Metrics where nothing moves: harness 4, level target, and the mean of this batch's groups there."""
    there = (request.level == target[request.env]) & (request.harness == HARDEST)
    _, count, total = sum_by_env(request, success, there, target.shape[0])
    return {
        "harness": jnp.full_like(target, HARDEST),
        "level": target,
        "frontier_success": mean_success(total, count),
    }


def check_choice(field: str, value: Any, allowed: tuple[str, ...]) -> None:
    """ValueError unless `value` is one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{field} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def check_real(field: str, value: Any, low: float, high: float, open_low: bool = False) -> None:
    """ValueError unless `value` is a finite number in [low, high], or in (low, high]."""
    inside = isinstance(value, Real) and not isinstance(value, bool) and low <= value <= high
    if not inside or math.isinf(value) or (open_low and value == low):
        left = "(" if open_low else "["
        right = ")" if math.isinf(high) else "]"
        raise ValueError(f"{field} must be a number in {left}{low:g}, {high:g}{right}, got {value!r}")


def check_int(field: str, value: Any, low: int, high: int) -> None:
    """ValueError unless `value` is an integer in [low, high]."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{field} must be an integer in [{low}, {high}], got {value!r}")


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


def squares_by_env(request: Request, success: Array, counts: Array, num_envs: int) -> Array:
    """i32[E] summed squares of the successes that `sum_by_env` counts, in units of 1 / UNIT, as exactly."""
    clipped = jnp.clip(success.astype(jnp.float32), 0.0, 1.0)
    units = jnp.where(counts & jnp.isfinite(success), jnp.round(clipped * clipped * UNIT), 0.0)
    return jax.ops.segment_sum(units.astype(jnp.int32), request.env, num_envs)


def mean_success(total: Array, count: Array) -> Array:
    """f32[E] mean of `count` successes that sum to `total` units; nan where there are none."""
    mean = total.astype(jnp.float32) / (jnp.maximum(count, 1).astype(jnp.float32) * UNIT)
    return jnp.where(count > 0, mean, jnp.nan)
