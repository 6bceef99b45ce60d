"""The environment interface: unbatched, pure functions of arrays that run under `jit` and `vmap`."""

import difflib
from typing import Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import text
from jaxenv.codec import Codec

S = TypeVar("S")
Scale = dict[str, Array]

SUCCESS = 1.0 - 1e-6  # a reward at least this large is a success


@struct.dataclass
class Outcome:
    """What one step gave.

    The rewards of an episode sum to at most 1; success is a return of 1 (within 1e-6).
    An invalid action (unreadable or illegal) changes nothing but the clock.
    """

    reward: Array  # f32[] in [0, 1]
    terminated: Array  # bool[]
    valid: Array  # bool[]


def outcome(reward, terminated, valid=True) -> Outcome:
    """An `Outcome` with exact dtypes from whatever scalars are at hand."""
    return Outcome(
        reward=jnp.asarray(reward, jnp.float32),
        terminated=jnp.asarray(terminated, bool),
        valid=jnp.asarray(valid, bool),
    )


class Env(Generic[S]):
    """One environment. Subclasses set the class attributes and write `reset` to `text_hint`.

    An instance holds settings and numpy constants only, never device arrays; it hashes by identity, so it can
    be a static argument of `jax.jit`. Coordinates are (row, col), counted from 0 at the top left.
    """

    id: str = ""  # the file stem, set by the registry
    category: ClassVar[str]
    source: ClassVar[tuple[str, ...]]  # where the task comes from
    horizon: int = 1  # most actions of an episode; 1 = single-turn
    question: str  # the task, always shown; override `text_question` where it depends on the instance
    rules: str  # harness part "rule": every rule and every way an episode ends
    answer: Codec  # text <-> i32[L]
    levels: dict[str, tuple[tuple[int, int], ...]] = {}  # parameter -> (low, high), inclusive, per level
    eval_level: int = 0  # the paper's example setting where it gives one
    min_resolution: tuple[int, ...] = (64,)  # per level: the smallest picture in which it is legible
    settings: tuple[str, ...] = ()  # attributes that `make(id, **settings)` may set
    solvable: bool = True  # False: chance or an opponent decides, `solve` is only a strong policy
    resolution: int = 256  # side of the picture in pixels, set by `make`

    # ---- supplied ----

    @property
    def num_levels(self) -> int:
        """Number of state-scale levels; level indices are 0 .. num_levels - 1."""
        return len(next(iter(self.levels.values()))) if self.levels else 1

    def sample_scale(self, key: Array, level: Array) -> Scale:
        """theta ~ Q_e(theta | level): one i32[] per parameter, uniform over the level's range."""
        scale = {}
        for k, (name, ranges) in zip(jax.random.split(key, max(len(self.levels), 1)), self.levels.items()):
            table = np.asarray(ranges, np.int32)
            low_high = jnp.asarray(table)[level]
            scale[name] = low_high[0]
            if (table[:, 0] != table[:, 1]).any():  # a draw costs compile time
                scale[name] = jax.random.randint(k, (), low_high[0], low_high[1] + 1, jnp.int32)
        return scale

    def init(self, key: Array, level: Array) -> S:
        """A fresh instance at a (traced) level."""
        k_scale, k_reset = jax.random.split(key)
        return self.reset(k_reset, self.sample_scale(k_scale, level))

    def limit(self, state: S) -> Array:
        """i32[]: actions after which the episode is truncated; at most `horizon`."""
        return jnp.int32(self.horizon)

    def progress(self, state: S) -> Array:
        """f32[] in [0, 1): paid once when the episode is truncated. Real progress only; default none."""
        return jnp.float32(0.0)

    @property
    def editable(self) -> bool:
        """Whether the environment has `edit`."""
        return type(self).edit is not Env.edit

    def edit(self, key: Array, state: S) -> S:
        """One small random change to the layout of an instance that was not yet played (ACCEL's mutations).

        Pure, keeps all shapes and dtypes, and keeps the instance solvable: an edit that would break it changes nothing.
        """
        raise NotImplementedError(f"instances of {self.id or type(self).__name__} cannot be edited")

    def text_question(self, state: S) -> Array:
        """u8[W]: the task, always shown."""
        return text.lit(self.question)

    # ---- written per environment ----

    def reset(self, key: Array, scale: Scale) -> S:
        raise NotImplementedError

    def step(self, key: Array, state: S, action: Array) -> tuple[S, Outcome]:
        """One action i32[L]. Never called with an unreadable action; any other i32 values may come."""
        raise NotImplementedError

    def solve(self, state: S) -> Array:
        """i32[L]: the answer, or a best next move."""
        raise NotImplementedError

    def render(self, state: S) -> Array:
        """u8[R, R, 3], R = self.resolution."""
        raise NotImplementedError

    def text_obs(self, state: S) -> Array:
        """u8[W], 0 = absent byte: a symbolic copy of the picture."""
        raise NotImplementedError

    def text_state(self, state: S) -> Array:
        """u8[W]: key facts of the state."""
        raise NotImplementedError

    def text_hint(self, state: S) -> Array:
        """u8[W]: where to look, not the answer."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}, {self.num_levels} levels, {self.resolution} px>"


def check(env: Env) -> None:
    """Raise a ValueError that names what an environment's declaration lacks or contradicts."""
    name = env.id or type(env).__name__
    for attribute in ("category", "source", "question", "rules", "answer"):
        if not getattr(env, attribute, None):
            raise ValueError(f"environment {name}: class attribute {attribute!r} is missing or empty")
    lengths = {k: len(v) for k, v in env.levels.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"environment {name}: parameters have different numbers of levels: {lengths}")
    for parameter, ranges in env.levels.items():
        for low, high in ranges:
            if low > high:
                raise ValueError(f"environment {name}: {parameter} has an empty range ({low}, {high})")
    if len(env.min_resolution) != env.num_levels:
        raise ValueError(
            f"environment {name}: min_resolution has {len(env.min_resolution)} entries for {env.num_levels} levels"
        )
    if not 0 <= env.eval_level < env.num_levels:
        raise ValueError(f"environment {name}: eval_level {env.eval_level} is not in 0..{env.num_levels - 1}")
    if env.horizon < 1:
        raise ValueError(f"environment {name}: horizon {env.horizon} is not positive")


def near(name: str, known: list[str]) -> str:
    """' Did you mean ...?' for an unknown name, or an empty string."""
    matches = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, matches))}?" if matches else ""


def where(condition: Array, new: Any, old: Any) -> Any:
    """Leafwise `jnp.where` of two pytrees of one structure under a scalar condition."""
    return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)
