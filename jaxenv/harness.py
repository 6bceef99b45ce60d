"""Textual harnesses (paper Section 4.1 and Table 7): which of four helping texts a prompt shows.

H0 shows all four, each further level takes one away, H4 shows none: only the task and the picture.
"""

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import text
from jaxenv.core import Env

PARTS = ("text_obs", "text_state", "hint", "rule")
LEVELS = np.asarray([[level <= k for k in range(4)] for level in range(5)])  # bool[5, 4]: H0 .. H4
Modality = Literal["picture", "symbolic"]


def flags(level: Array) -> Array:
    """bool[..., 4]: the parts shown at (traced) harness levels i32[...], in the order of `PARTS`."""
    return jnp.asarray(LEVELS)[level]


def only(*parts: str) -> np.ndarray:
    """bool[4] for any subset of the parts by name (the paper's Table 2 shows each one alone)."""
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise ValueError(f"unknown harness parts {sorted(unknown)}; the parts are {PARTS}")
    return np.asarray([p in parts for p in PARTS])


def prompt(env: Env, state, shown: Array, modality: Modality = "picture") -> Array:
    """u8[P]: the prompt of one state, zeros behind; `shown` is bool[4] and may be traced.

    In the text-symbolic modality the observation is always shown (it stands for the picture); nothing else changes.
    """
    show_obs, show_state, show_hint, show_rule = (shown[k] for k in range(4))
    if modality == "symbolic":
        show_obs = jnp.bool_(True)
    limit = text.lit("\n")
    if env.horizon > 1:
        actions = jnp.minimum(env.limit(state), jnp.int32(env.horizon))  # as `episode.begin` counts
        limit = text.join(
            text.lit(" The episode ends after "),
            text.num(actions, max(3, len(str(env.horizon)))),
            text.lit(" actions.\n"),
        )
    open_text = text.join(
        env.text_question(state),
        text.lit("\n"),
        text.when(show_rule, text.join(text.lit("Rules: " + env.rules), limit)),
        text.when(show_hint, text.join(text.lit("Hint: "), env.text_hint(state), text.lit("\n"))),
        text.when(show_state, text.join(text.lit("State: "), env.text_state(state), text.lit("\n"))),
        text.when(show_obs, text.join(text.lit("Observation:\n"), env.text_obs(state), text.lit("\n"))),
        text.lit(env.answer.instruction),
    )
    # Closed as a whole: part by part runs faster by a few microseconds, and takes twice as long to compile.
    closed, _ = text.close(open_text)
    return closed
