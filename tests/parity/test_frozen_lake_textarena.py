"""Frozen Lake without slip against TextArena: the same lakes, random walks, every step compared.

Left out on purpose: TextArena pays partial progress for falling into a hole and ends an episode after two moves
off the board in a row; here a hole pays nothing and the clock bounds illegal moves.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from peers import peer

import jaxenv
from jaxenv.envs.games.frozen_lake import GOAL, HOLE

peer("textarena")
from textarena.envs.FrozenLake.env import FrozenLakeEnv  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
ENV = jaxenv.make("frozen_lake", 64)


def mirror(state) -> FrozenLakeEnv:
    """TextArena's environment with one of our lakes in it."""
    size = int(state.size)
    env = FrozenLakeEnv(size=size, num_holes=1)
    env.reset(1, seed=0)
    mark = {HOLE: "H", GOAL: "G"}
    cells = np.asarray(state.cells)[:size, :size].tolist()
    goal = next((r, c) for r in range(size) for c in range(size) if cells[r][c] == GOAL)
    env.player_pos = tuple(np.asarray(state.pos).tolist())
    env.state.game_state.update(
        grid=[[mark.get(c, " ") for c in row] for row in cells], player_pos=env.player_pos, goal_pos=goal
    )
    return env


def test_steps_agree():
    step = jax.jit(lambda state, act: ENV.step(jax.random.key(0), state, act[None]))
    start = jax.jit(ENV.init)
    rng = np.random.default_rng(0)
    seen = set()
    for k in range(20 * ENV.num_levels):
        state = start(jax.random.key(k), jnp.int32(k % ENV.num_levels))
        env = mirror(state)
        for _ in range(30):
            act = int(rng.integers(4))
            then, out = step(state, np.int32(act))
            done, _ = env.step(f"[{ENV.answer.names[act]}]")
            if not out.valid:
                assert env.state.error_count == 1 and not done
                env.state.error_count = 0  # forget the strike
                seen.add("illegal")
                continue
            state = then
            assert env.state.game_state["player_pos"] == tuple(np.asarray(state.pos).tolist())
            assert done == bool(out.terminated)
            if done:
                assert (env.state.rewards[0] == 1.0) == (float(out.reward) == 1.0)
                seen.add("goal" if out.reward else "hole")
                break
    assert seen == {"illegal", "goal", "hole"}
