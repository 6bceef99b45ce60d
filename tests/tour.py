"""One jitted tour per environment: many keys at every level, seen from every side. Shared by the tests of all ids."""

import hashlib
from dataclasses import dataclass
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import codec, episode, harness, make
from jaxenv.core import Env

KEYS = 32  # instances per level


@dataclass(frozen=True)
class Tour:
    """Everything seen of `KEYS` instances per level; arrays are [levels * KEYS, ...], levels slowest."""

    env: Env
    traces: int
    level: np.ndarray
    keys: jax.Array
    seen: dict[str, np.ndarray]


SHOWN = np.concatenate([harness.LEVELS, np.eye(4, dtype=bool)])  # bool[9, 4]: H0 .. H4, then each part alone


def glance(env: Env, key: jax.Array, level: jax.Array) -> dict[str, jax.Array]:
    """One instance: its start, picture and texts, the oracle's first action and what follows."""
    start = episode.start(env, key, level)
    action = env.solve(start.state)
    first = episode.advance(env, jax.random.fold_in(key, 1), start, action)
    return {
        "start": start,
        "action": action,
        "first": first,
        "picture": env.render(start.state),
        "prompts": jax.vmap(lambda shown: harness.prompt(env, start.state, shown))(SHOWN),
        "symbolic": harness.prompt(env, start.state, harness.flags(jnp.int32(4)), "symbolic"),
        "question": env.text_question(start.state),
        "text_obs": env.text_obs(start.state),
        "text_state": env.text_state(start.state),
        "text_hint": env.text_hint(start.state),
    }


def look(env: Env, key: jax.Array, level: jax.Array) -> dict[str, jax.Array]:
    """A glance, the picture that follows, the oracle's episode and what some useless policies earn."""
    seen = glance(env, key, level)
    start = seen["start"]

    def oracle(ep, k):
        action = env.solve(ep.state)
        return episode.advance(env, k, ep, action), action

    keys = jax.random.split(jax.random.fold_in(key, 1), env.horizon)
    end, actions = jax.lax.scan(oracle, start, keys)
    after_end = episode.advance(env, key, end, actions[-1])
    unreadable = jnp.full(env.answer.size, codec.UNREADABLE)
    noop = jax.lax.scan(lambda e, k: (episode.advance(env, k, e, unreadable), None), start, keys)[0]
    return {
        **seen,
        "end": end,
        "after_end": after_end,
        "noop": noop,
        "picture_after": env.render(seen["first"].state),
    }


def resolution_of(env_id: str) -> int:
    """The smallest multiple of 64 at which every level of an environment can be drawn."""
    return -(-max(make(env_id, 1024).min_resolution) // 64) * 64


@cache
def tour(env_id: str) -> Tour:
    env = make(env_id, resolution_of(env_id))
    level = np.repeat(np.arange(env.num_levels, dtype=np.int32), KEYS)
    keys = jax.random.split(jax.random.key(7), len(level))
    traces = []

    @partial(jax.jit)
    @jax.vmap
    def run(key, level):
        traces.append(None)
        return look(env, key, level)

    chunk = 64
    pieces = []
    for low in range(0, len(level), chunk):
        rows = np.minimum(np.arange(low, low + chunk), len(level) - 1)
        piece = jax.tree.map(np.asarray, run(keys[rows], level[rows]))
        pieces.append(jax.tree.map(lambda x, low=low: x[: len(level) - low], piece))
    seen = jax.tree.map(lambda *x: np.concatenate(x), *pieces)
    return Tour(env, len(traces), level, keys, seen)


def golden(t: Tour) -> dict[str, str]:
    """Hashes of one picture, full prompt and answer of an environment's middle level."""
    i = len(t.level) // 2
    parts = {
        "picture": t.seen["picture"][i],
        "prompt": t.seen["prompts"][i, 0],
        "action": t.seen["action"][i],
    }
    return {name: hashlib.sha256(array.tobytes()).hexdigest()[:16] for name, array in parts.items()}
