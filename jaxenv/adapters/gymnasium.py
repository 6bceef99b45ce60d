"""Every environment as a Gymnasium environment: a picture and a prompt are seen, whole text replies are read.

    import gymnasium, jaxenv.adapters.gymnasium

    env = gymnasium.make("jaxenv/FrozenLake-v0", level=2, harness=0, resolution=224)
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("<answer>left</answer>")

Importing this module registers all ids in CamelCase, and later ones as `jaxenv.register` adds them. Gymnasium
can import it by itself: `gymnasium.make("jaxenv.adapters.gymnasium:jaxenv/FrozenLake-v0")`. `import jaxenv`
alone registers nothing, because it does not load Gymnasium.
"""

import string
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np
from jax import Array

from jaxenv import codec, episode, harness, registry, text
from jaxenv.core import Env

CHARSET = string.ascii_letters + string.digits + string.punctuation + " \n"  # printable ASCII


def gymnasium_id(env_id: str) -> str:
    """'frozen_lake' -> 'jaxenv/FrozenLake-v0'"""
    return f"jaxenv/{''.join(word[:1].upper() + word[1:] for word in env_id.split('_'))}-v0"


# One program per call, shared by all instances of an environment: `make` gives one object for the same
# arguments.


@partial(jax.jit, static_argnames=("env", "modality"))
def _reset(env: Env, modality: harness.Modality, seed: Array, level: Array, shown: Array):
    key, k_start = jax.random.split(jax.random.key(seed))
    ep = episode.start(env, k_start, level)
    return key, ep, _observe(env, modality, ep, shown)


@partial(jax.jit, static_argnames=("env", "modality"))
def _step(env: Env, modality: harness.Modality, key: Array, ep: episode.Episode, action: Array, shown: Array):
    ep = episode.advance(env, jax.random.fold_in(key, ep.t), ep, action)
    return ep, _observe(env, modality, ep, shown)


def _observe(
    env: Env, modality: harness.Modality, ep: episode.Episode, shown: Array
) -> tuple[Array | None, Array]:
    picture = env.render(ep.state) if modality == "picture" else None
    return picture, harness.prompt(env, ep.state, shown, modality)


_render = jax.jit(lambda env, state: env.render(state), static_argnums=0)


class GymnasiumEnv(gymnasium.Env):
    """One environment. Observations: {"image": u8[R, R, 3], "text": str}, or {"text": str} in the symbolic
    modality.

    An action is a whole reply; any string is accepted, and one without a legible `<answer>` is an invalid
    action, which changes nothing but the clock. A single-turn episode always ends by termination: its one
    action is the task, not a time limit. `info` holds valid, success, level and t.

    Args:
        env_id: one of `jaxenv.ids()`, or an environment from `jaxenv.make` (then resolution and settings
            are its own).
        level: state-scale level of the episodes; None is the environment's `eval_level`.
        harness: 0 (all helping texts) .. 4 (only the task and the picture).
        resolution: side of the picture in pixels.
        modality: "picture", or "symbolic" for a text that takes the picture's place.
        render_mode: None or "rgb_array".
        settings: the environment's own, e.g. `slip=0.33`.
    Raises:
        ValueError: what `jaxenv.make` refuses, or a level or harness that does not exist.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}

    def __init__(
        self,
        env_id: str | Env,
        level: int | None = None,
        harness: int = 4,
        resolution: int = 256,
        modality: harness.Modality = "picture",
        render_mode: str | None = None,
        **settings,
    ):
        self.env = registry.make(env_id, resolution, **settings) if isinstance(env_id, str) else env_id
        self.level = self._checked(self.env.eval_level if level is None else level)
        self.harness, self.modality, self.render_mode = harness, modality, render_mode
        if not 0 <= harness <= 4:
            raise ValueError(f"harness levels are 0..4, not {harness}")
        if modality not in ("picture", "symbolic"):
            raise ValueError(f"modality is 'picture' or 'symbolic', not {modality!r}")
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is None or 'rgb_array', not {render_mode!r}")
        self.action_space = gymnasium.spaces.Text(max_length=codec.MAX_REPLY, min_length=0, charset=CHARSET)
        shapes = jax.eval_shape(partial(_reset, self.env, modality), *self._arguments(0, self.level))
        _, _, (picture, prompt) = shapes
        spaces: dict[str, gymnasium.Space] = {
            "text": gymnasium.spaces.Text(max_length=prompt.shape[0], charset=CHARSET)
        }
        if picture is not None:
            spaces["image"] = gymnasium.spaces.Box(0, 255, picture.shape, np.uint8)
        self.observation_space = gymnasium.spaces.Dict(spaces)
        self._key = self._episode = self._picture = None

    def _checked(self, level: int) -> int:
        if not 0 <= level < self.env.num_levels:
            last = self.env.num_levels - 1
            raise ValueError(f"{self.env.id} has levels 0..{last} at {self.env.resolution} px, not {level}")
        return int(level)

    def _arguments(self, seed: int, level: int):
        return np.uint32(seed), np.int32(level), harness.LEVELS[self.harness]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """A fresh episode; the same seed gives the same one. `options={"level": k}` sets the level of this
        episode.
        """
        super().reset(seed=seed)
        self._level = self._checked((options or {}).get("level", self.level))
        arguments = self._arguments(self.np_random.integers(2**32), self._level)
        self._key, self._episode, seen = _reset(self.env, self.modality, *arguments)
        return self._observation(seen), self._info()

    def step(self, action: str):
        """One reply: (observation, reward in [0, 1], terminated, truncated, info)."""
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        answer = codec.read(self.env.answer, action)
        self._episode, seen = _step(
            self.env, self.modality, self._key, self._episode, answer, harness.LEVELS[self.harness]
        )
        observation, info = self._observation(seen), self._info()
        done, truncated = bool(self._episode.done), bool(self._episode.truncated)
        truncated = truncated and int(self._episode.limit) > 1
        return observation, float(self._episode.reward), done and not truncated, truncated, info

    def render(self) -> np.ndarray | None:
        """u8[R, R, 3], if the render mode is "rgb_array"."""
        if self.render_mode is None:
            return None
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("call reset before render")
        picture = _render(self.env, self._episode.state) if self._picture is None else self._picture
        return np.array(picture)

    def _observation(self, seen: tuple[Array | None, Array]) -> dict[str, Any]:
        self._picture, prompt = seen
        observation: dict[str, Any] = {"text": text.decode(np.asarray(prompt)[None])[0]}
        if self._picture is not None:
            observation["image"] = np.array(self._picture)  # a copy that the caller may write to
        return observation

    def _info(self) -> dict[str, Any]:
        ep = self._episode
        return {"valid": bool(ep.valid), "success": bool(ep.success), "level": self._level, "t": int(ep.t)}


def _register(env_id: str) -> None:
    name = gymnasium_id(env_id)
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=f"{__name__}:GymnasiumEnv", kwargs={"env_id": env_id})


registry.on_register.append(_register)
for _id in registry.ids():
    _register(_id)
