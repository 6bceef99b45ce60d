"""jaxenv: multimodal environments as jittable JAX functions."""

from jaxenv import codec, core, draw, episode, harness, sets, text
from jaxenv.batch import EnvBatch, MixedBatch
from jaxenv.core import Env, Outcome
from jaxenv.episode import Episode
from jaxenv.registry import ids, make, register

__all__ = [
    "Env", "EnvBatch", "Episode", "MixedBatch", "Outcome", "codec", "core", "draw", "episode", "harness", "ids",
    "make", "register", "sets", "text",
]  # fmt: skip
