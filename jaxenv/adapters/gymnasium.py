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


@partial(jax.jit, static_argnames="env")
def _start(env: Env, seed: Array, level: Array) -> tuple[Array, episode.Episode]:
    key, k_start = jax.random.split(jax.random.key(seed))
    return key, episode.start(env, k_start, level)


@partial(jax.jit, static_argnames="env")
def _advance(env: Env, key: Array, ep: episode.Episode, action: Array) -> episode.Episode:
    return episode.advance(env, jax.random.fold_in(key, ep.t), ep, action)


@partial(jax.jit, static_argnames=("env", "modality"))
def _observe(env: Env, modality: harness.Modality, state: Any, shown: Array) -> tuple[Array | None, Array]:
    picture = env.render(state) if modality == "picture" else None
    return picture, harness.prompt(env, state, shown, modality)


_render = jax.jit(lambda env, state: env.render(state), static_argnums=0)


class GymnasiumEnv(gymnasium.Env):
    """One environment. Observations: {"image": u8[R, R, 3], "text": str}; symbolic ones have no image.

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
        _, shapes = jax.eval_shape(partial(_start, self.env), np.uint32(0), np.int32(0))
        observe = partial(_observe, self.env, modality)
        picture, prompt = jax.eval_shape(observe, shapes.state, np.ones(4, bool))
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

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """A fresh episode; the same seed gives the same one. `options={"level": k}` sets its level."""
        super().reset(seed=seed)
        self._level = self._checked((options or {}).get("level", self.level))
        seed_of_episode = np.uint32(self.np_random.integers(2**32))
        self._key, self._episode = _start(self.env, seed_of_episode, np.int32(self._level))
        return self._observation(), self._info()

    def step(self, action: str):
        """One reply: (observation, reward in [0, 1], terminated, truncated, info)."""
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        answer = codec.read(self.env.answer, action)
        self._episode = _advance(self.env, self._key, self._episode, answer)
        observation, info = self._observation(), self._info()
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

    def _observation(self) -> dict[str, Any]:
        shown = harness.LEVELS[self.harness]
        self._picture, prompt = _observe(self.env, self.modality, self._episode.state, shown)
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
