"""Tic-tac-toe solved once over all boards. Host only: results are constants.

A board is i32[9], row by row: 0 empty, 1 the first player, 2 the second. Its code is the sum of cell * 3**i.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
from jax import Array

EMPTY, FIRST, SECOND = range(3)
LINES = np.asarray(
    [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)], np.int32
)
POWERS = 3 ** np.arange(9, dtype=np.int32)


@cache
def best_moves() -> np.ndarray:
    """bool[3**9, 9]: the moves that keep the best result (win, draw, loss) under perfect play of both.

    How fast does not count. All False where the game is over or the board cannot arise by turns.
    """
    boards = np.arange(3**9)[:, None] // POWERS % 3
    count = (boards > 0).sum(axis=1)
    lead = (boards == FIRST).sum(axis=1) - (boards == SECOND).sum(axis=1)
    won = [(boards[:, LINES] == player).all(axis=2).any(axis=1) for player in (FIRST, SECOND)]
    value = won[0].astype(np.int32) - won[1]  # for the first player; 0 is also the full board without a line
    best = np.zeros((3**9, 9), bool)
    for marks in range(8, -1, -1):
        here = np.flatnonzero((count == marks) & (lead == marks % 2) & ~won[0] & ~won[1])
        mover, sign = (FIRST, 1) if marks % 2 == 0 else (SECOND, -1)
        free = boards[here] == EMPTY
        after = np.where(free, here[:, None] + mover * POWERS, 0)
        gain = np.where(free, sign * value[after], -2)
        best[here] = gain == gain.max(axis=1, keepdims=True)
        value[here] = sign * gain.max(axis=1)
    return best


@cache
def positions(*shares: int) -> tuple[np.ndarray, np.ndarray]:
    """Running games in which at most one free cell in `share`, but always one, is a best move; 1 gives all.

    Returns:
        i32[K, 9, M]: codes by share and number of marks, zeros behind.
        i32[K, 9]: how many there are.
    """
    best = best_moves().sum(axis=1)
    count = (np.arange(3**9)[:, None] // POWERS % 3 > 0).sum(axis=1)
    limit = np.maximum(1, (9 - count) // np.asarray(shares)[:, None])
    fits = (best > 0) & (best <= limit)
    fits = fits[:, None, :] & (count == np.arange(9)[:, None])
    size = fits.sum(axis=2)
    # A stable sort brings the codes that fit to the front, in order.
    codes = np.argsort(~fits, axis=2, kind="stable")[:, :, : size.max()]
    return np.where(np.arange(size.max()) < size[:, :, None], codes, 0).astype(np.int32), size.astype(
        np.int32
    )


def completes(board: Array, player: Array) -> Array:
    """bool[9]: the empty cells of i32[9] with which a player makes three in a line."""
    own = (board[LINES] == player).sum(axis=1)
    open_line = (own == 2) & (board[LINES] == EMPTY).any(axis=1)
    on_line = np.stack([(cell == LINES).any(axis=1) for cell in range(9)])
    return (board == EMPTY) & jnp.any(on_line & open_line[None, :], axis=1)


def mover(marks: Array) -> Array:
    """i32[]: who moves after so many marks."""
    return jnp.where(marks % 2 == 0, jnp.int32(FIRST), jnp.int32(SECOND))
