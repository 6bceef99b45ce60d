"""Othello's rules against TextArena, over whole random games on all four boards.

Left out on purpose: TextArena ends a game after two illegal moves and lets a side that cannot move pass with any
action; here the clock bounds illegal moves and passes are automatic.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from peers import peer

from jaxenv.solve import othello as rules
from jaxenv.solve.othello import N

peer("textarena")
from textarena.envs.Othello.env import OthelloEnv  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@jax.jit
def look(mover, other, size):
    legal, replies = rules.legal(mover, other, rules.board(size))
    return rules.bits(legal), rules.bits(replies)


@jax.jit
def play(mover, other, row, col):
    return rules.play(mover, other, rules.cell(row, col))


def bitboard(env: OthelloEnv, piece: str) -> np.ndarray:
    out = np.zeros(N, np.uint32)
    for r, row in enumerate(env.board):
        for c, cell in enumerate(row):
            out[r] |= np.uint32((cell == piece) << c)
    return out


@pytest.mark.parametrize("size", [4, 6, 8, 10])
def test_games_agree(size):
    rng = np.random.default_rng(size)
    passes = moves = 0
    for game in range(12 if size < 10 else 6):
        env = OthelloEnv(board_size=size)
        env.reset(2, seed=game)
        sides = [bitboard(env, "B"), bitboard(env, "W")]
        done = False
        while not done:
            me = env.state.current_player_id
            legal, _ = look(sides[me], sides[1 - me], jnp.int32(size))
            options = [list(map(int, at)) for at in np.argwhere(np.asarray(legal))]
            assert options == env._valid_moves("BW"[me])
            if options:
                row, col = options[rng.integers(len(options))]
                sides[me], sides[1 - me] = map(np.asarray, play(sides[me], sides[1 - me], row, col))
                moves += 1
            else:
                row = col = 0
                passes += 1
            done, _ = env.step(f"[{row}, {col}]")
            for k, piece in enumerate("BW"):
                np.testing.assert_array_equal(sides[k], bitboard(env, piece))
            legal, replies = look(sides[0], sides[1], jnp.int32(size))
            assert done == (not np.asarray(legal).any() and not np.asarray(replies).any())
        lead = int(np.sign(int(np.bitwise_count(sides[0]).sum()) - int(np.bitwise_count(sides[1]).sum())))
        assert env.state.rewards == {0: lead, 1: -lead}
    assert moves > 12 * size and (passes > 0 or size > 4)
