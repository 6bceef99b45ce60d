"""A gymnax-style wrapper: `reset(key, params)`, `step(key, state, action, params)`, for jit, vmap and scan.

    env = GymnaxEnv("frozen_lake", level=2, resolution=64)
    obs, state = jax.vmap(env.reset)(jax.random.split(key, 32))
    obs, state, reward, done, info = jax.vmap(env.step)(keys, state, actions)

It needs no gymnax: only the calling convention is the same.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import codec, episode, harness
from jaxenv.core import Env
from jaxenv.episode import Episode
from jaxenv.registry import make

Observe = Literal["both", "picture", "prompt"]


@struct.dataclass
class EnvParams:
    """What may vary between episodes without a new compile; both may be traced, so a vmap can mix them."""

    level: Array | int  # i32[] state-scale level, 0 .. num_levels - 1 (beyond: the nearest level)
    harness: Array | int  # i32[] textual harness, 0 (all texts) .. 4 (task and picture only)


class GymnaxEnv:
    """One environment, unbatched and pure, in the calling convention of gymnax.

    The state is a `jaxenv.Episode`, an action the i32[L] of the environment's codec (`parse` reads it from
    text on the host), an observation {"picture": u8[R, R, 3], "prompt": u8[P] (zeros behind)} or one of the
    two.

    Without `auto_reset` a finished episode stays as it is and earns 0. With it, the state and the observation
    that `step` returns after an end are those of a fresh episode of the same `params`, and
    `info["final_observation"]` holds the observation of the state that was reached, in every step. A single
    call pays for the fresh episode only when the old one ends; **under vmap the condition becomes a select,
    so every step pays for a reset and for two observations**. Where instances are expensive to make, keep
    `auto_reset` off, run all episodes to the horizon and reset once.

    Args:
        env: an id, or an environment from `jaxenv.make`.
        level: default level of `default_params`; None is the environment's `eval_level`.
        harness: default harness of `default_params`.
        resolution: side of the picture in pixels, for an id.
        auto_reset: see above.
        observe: what an observation holds; the rest is not computed.
        modality: "symbolic" puts the textual observation into the prompt at every harness level.
    Raises:
        ValueError: what `jaxenv.make` refuses, or a level or harness that does not exist.
    """

    def __init__(
        self,
        env: str | Env,
        level: int | None = None,
        harness: int = 4,
        resolution: int = 256,
        auto_reset: bool = False,
        observe: Observe = "both",
        modality: harness.Modality = "picture",
    ):
        self.env = make(env, resolution) if isinstance(env, str) else env
        self.level = self.env.eval_level if level is None else level
        if not 0 <= self.level < self.env.num_levels:
            raise ValueError(
                f"{self.env.id} has levels 0..{self.env.num_levels - 1} at this resolution, not {level}"
            )
        if not 0 <= harness <= 4:
            raise ValueError(f"harness levels are 0..4, not {harness}")
        if observe not in ("both", "picture", "prompt"):
            raise ValueError(f"observe is 'both', 'picture' or 'prompt', not {observe!r}")
        self.harness, self.auto_reset, self.observe, self.modality = harness, auto_reset, observe, modality

    @property
    def name(self) -> str:
        return self.env.id

    @property
    def default_params(self) -> EnvParams:
        return EnvParams(level=self.level, harness=self.harness)

    @property
    def action_shape(self) -> tuple[int]:
        """(L,) of an i32 action."""
        return (self.env.answer.size,)

    @property
    def observation_shape(self) -> Any:
        """A `jax.ShapeDtypeStruct` for every part of an observation."""
        return jax.eval_shape(self.reset, jax.random.key(0))[0]

    def reset(self, key: Array, params: EnvParams | None = None) -> tuple[Any, Episode]:
        """A fresh episode: (observation, state)."""
        params = self.default_params if params is None else params
        state = episode.start(self.env, key, jnp.asarray(params.level, jnp.int32))
        return self.get_obs(state, params), state

    def step(
        self, key: Array, state: Episode, action: Array, params: EnvParams | None = None
    ) -> tuple[Any, Episode, Array, Array, dict[str, Any]]:
        """One action i32[L]: (observation, state, reward f32[], done bool[], info).

        `info` holds terminated, truncated, valid, success (bool[]), t (i32[] actions taken), return (f32[]),
        and with `auto_reset` the final_observation.
        """
        params = self.default_params if params is None else params
        k_step, k_reset = jax.random.split(key)
        moved = episode.advance(self.env, k_step, state, action)
        obs = self.get_obs(moved, params)
        info = {
            "terminated": moved.terminated,
            "truncated": moved.truncated,
            "valid": moved.valid,
            "success": moved.success,
            "t": moved.t,
            "return": moved.ret,
        }
        reward, done = moved.reward, moved.done
        if self.auto_reset:
            info["final_observation"] = obs
            obs, moved = lax.cond(done, lambda: self.reset(k_reset, params), lambda: (obs, moved))
        return obs, moved, reward, done, info

    def get_obs(self, state: Episode, params: EnvParams | None = None) -> Any:
        """The observation of a state."""
        params = self.default_params if params is None else params
        obs = {}
        if self.observe != "prompt":
            obs["picture"] = self.env.render(state.state)
        if self.observe != "picture":
            shown = harness.flags(jnp.asarray(params.harness, jnp.int32))
            obs["prompt"] = harness.prompt(self.env, state.state, shown, self.modality)
        return obs if self.observe == "both" else obs[self.observe]

    def parse(self, reply: str) -> np.ndarray:
        """i32[L] from a whole reply, on the host; a malformed one becomes an invalid action."""
        return codec.read(self.env.answer, reply)

    def format(self, action: np.ndarray) -> str:
        """A whole reply that `parse` reads as this action."""
        return codec.write(self.env.answer, action)
