"""Rush Hour against TextArena: our car parks, random and oracle moves, every step compared.

Left out on purpose: TextArena pays for the column of the red car and ends after two illegal moves in a row.
"""

import contextlib
import copy
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from peers import peer

import jaxenv
from jaxenv.envs.games.rush_hour import LETTERS, SLOTS

peer("textarena")
from textarena.envs.RushHour.env import RushHourEnv, _Vehicle  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
ENV = jaxenv.make("rush_hour", 64)


def vehicles(state) -> dict:
    out = {}
    for k in range(SLOTS):
        if length := int(state.length[k]):
            lane, offset, flat = int(state.lane[k]), int(state.offset[k]), bool(state.horizontal[k])
            out[LETTERS[k]] = _Vehicle(
                LETTERS[k], *((lane, offset) if flat else (offset, lane)), length, flat
            )
    return out


def peer_env() -> RushHourEnv:
    with contextlib.redirect_stdout(io.StringIO()):  # its generator prints
        env = RushHourEnv("easy")
        env.reset(1, seed=0)
    return env


def test_moves_agree():
    step = jax.jit(lambda state, act: ENV.step(jax.random.key(0), state, act))
    start, solve = jax.jit(ENV.init), jax.jit(ENV.solve)
    rng, first = np.random.default_rng(0), peer_env()
    seen = {"legal": 0, "illegal": 0, "out": 0}
    for k in range(5 * ENV.num_levels):
        state = jax.tree.map(np.asarray, start(jax.random.key(k), jnp.int32(k % ENV.num_levels)))
        env = copy.deepcopy(first)
        env.state.game_state["vehicles"] = vehicles(state)
        for _ in range(60):
            act = (
                np.asarray(solve(state))
                if rng.random() < 0.8
                else rng.integers(0, 2 * SLOTS, 1).astype(np.int32)
            )
            then, out = step(state, act)
            done, _ = env.step(f"[{ENV.answer.names[int(act[0])]}]")
            if not out.valid:
                seen["illegal"] += 1
                assert env.state.error_count == 1 and not done
                env.state.error_count = 0  # forget the strike
                continue
            seen["legal"] += 1
            state = jax.tree.map(np.asarray, then)
            assert env.state.game_state["vehicles"] == vehicles(state)
            assert done == bool(out.terminated)
            if done:
                seen["out"] += 1
                assert env.state.rewards[0] == 1.0 == float(out.reward)
                break
    assert min(seen.values()) > 10
