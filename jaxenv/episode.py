"""Episodes: the clock, the absorbing end and the two ways to end, written once for all environments."""

from typing import Any

import jax.numpy as jnp
from flax import struct
from jax import Array

from jaxenv.codec import UNREADABLE
from jaxenv.core import SUCCESS, Env, outcome, where


@struct.dataclass
class Episode:
    """One running or finished episode. There is no auto-reset: a finished episode stays as it is."""

    state: Any
    t: Array  # i32[] actions taken
    limit: Array  # i32[] actions after which it is truncated
    done: Array  # bool[] terminated or truncated
    terminated: Array  # bool[] ended by the rules
    truncated: Array  # bool[] ended by the clock alone
    valid: Array  # bool[] the last action was readable and legal
    reward: Array  # f32[] of the last action; 0 once done
    ret: Array  # f32[] return so far, in [0, 1]

    @property
    def success(self) -> Array:
        """bool[]: the episode earned full reward."""
        return self.ret >= SUCCESS


def start(env: Env, key: Array, level: Array) -> Episode:
    """A fresh episode at a (traced) level."""
    return begin(env, env.init(key, level))


def begin(env: Env, state: Any) -> Episode:
    """A fresh episode from a given state (a hand-set board, an edited level)."""
    no, zero = jnp.bool_(False), jnp.float32(0.0)
    limit = jnp.minimum(env.limit(state), jnp.int32(env.horizon))
    return Episode(state, jnp.int32(0), limit, no, no, no, jnp.bool_(True), zero, zero)


def advance(env: Env, key: Array, episode: Episode, action: Array) -> Episode:
    """One action i32[L] (`codec.UNREADABLE` rows are invalid actions). Finished episodes stay, with reward 0."""
    readable = action[0] != UNREADABLE
    # An unreadable action never reaches the environment; zeros are a harmless stand-in whose effect is dropped.
    state, out = env.step(key, episode.state, jnp.where(readable, action, 0))
    valid = readable & out.valid
    out = where(valid, out, outcome(0.0, False, False))
    state = where(valid, state, episode.state)
    t = episode.t + 1
    truncated = ~out.terminated & (t >= episode.limit)
    reward = out.reward + jnp.where(truncated, env.progress(state), jnp.float32(0.0))
    reward = jnp.minimum(reward, 1.0 - episode.ret)
    moved = Episode(
        state, t, episode.limit, out.terminated | truncated, out.terminated, truncated, valid, reward,
        episode.ret + reward,
    )  # fmt: skip
    return where(episode.done, episode.replace(reward=jnp.float32(0.0)), moved)
