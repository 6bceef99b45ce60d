"""PegJump against TextArena, its table of jumps replaced by the straight lines of the board.

Left out on purpose: TextArena's own table (checked below to differ), its reward for removed pegs and its end after
two illegal jumps in a row.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from peers import peer

import jaxenv
from jaxenv.solve.peg_jump import JUMPS

peer("textarena")
from textarena.envs.PegJump.env import PegJumpEnv  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
ENV = jaxenv.make("peg_jump", 80)
LINES = [tuple(j) for j in JUMPS.tolist()]


def mirror(pegs: int) -> PegJumpEnv:
    env = PegJumpEnv()
    env.ALLOWED_MOVES = LINES
    env.reset(1, seed=0)
    env.state.game_state["board"] = [False] + [bool(pegs >> k & 1) for k in range(15)]
    return env


def test_their_table_is_not_the_board():
    theirs = set(PegJumpEnv().ALLOWED_MOVES)
    assert (7, 11, 13) in theirs - set(LINES) and (11, 12, 13) in set(LINES) - theirs


def test_games_agree():
    step = jax.jit(lambda state, jump: ENV.step(jax.random.key(0), state, jump))
    start, solve = jax.jit(lambda key: ENV.init(key, jnp.int32(0))), jax.jit(ENV.solve)
    rng = np.random.default_rng(0)
    ends, illegal = [], 0
    for game in range(150):
        state = start(jax.random.key(game))
        env = mirror(int(state.pegs))
        while True:
            if rng.random() < 0.5:
                a, _, c = LINES[rng.integers(len(LINES))]
            else:
                a, c = np.asarray(solve(state)).tolist()
            then, out = step(state, np.int32([a, c]))
            done, _ = env.step(f"[{a} {c}]")
            if not out.valid:
                illegal += 1
                assert env.state.error_count == 1 and not done
                env.state.error_count = 0  # forget the strike
                continue
            state = then
            board = env.state.game_state["board"]
            assert [bool(int(state.pegs) >> k & 1) for k in range(15)] == board[1:]
            assert done == bool(out.terminated)
            if done:
                assert (env.state.rewards[0] == 1.0) == (float(out.reward) == 1.0)
                ends.append(float(out.reward))
                break
    assert 0 < np.mean(ends) < 1 and illegal > 100
