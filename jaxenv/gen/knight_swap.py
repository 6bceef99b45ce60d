"""The bank of boards made by `scripts/make_knight_swap.py`: knights on a part of a board of 3 x 4 squares.

Squares are numbered row by row from the upper left. A board is packed into 25 bits: two for each square (`ABSENT`
to `BLACK`), then who begins (0 white, 1 black). Of boards that are reflections of each other, or the same with
colours exchanged, the bank has one.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

BANK = Path(__file__).with_suffix(".npz")
ROWS, COLS = 3, 4
SQUARES = ROWS * COLS
ABSENT, EMPTY, WHITE, BLACK = range(4)
LONGEST = 30  # moves of the longest solution
HALF = LONGEST // 2  # moves in each of the two numbers that hold a solution
MOST = 3  # knights of a colour


def _edges() -> np.ndarray:
    place = [(s // COLS, s % COLS) for s in range(SQUARES)]
    jump = lambda a, b: {abs(a[0] - b[0]), abs(a[1] - b[1])} == {1, 2}  # noqa: E731
    return np.asarray(
        [(s, t) for s in range(SQUARES) for t in range(SQUARES) if jump(place[s], place[t])], np.int32
    )


EDGES = _edges()  # i32[28, 2] all knight's moves on the whole board: from, to
_GRID = np.arange(SQUARES, dtype=np.int32).reshape(ROWS, COLS)
REFLECTIONS = np.stack([_GRID[::v, ::h].reshape(-1) for v in (1, -1) for h in (1, -1)])  # i32[4, SQUARES]


def pack(allowed: int, white: int, black: int, first: int) -> int:
    """A board, from masks of squares (bit s is square s), as the bank has it."""
    code = first << 2 * SQUARES
    for s in range(SQUARES):
        code |= ((allowed >> s & 1) + (white >> s & 1) + 2 * (black >> s & 1)) << 2 * s
    return code


@dataclass(frozen=True)
class Bank:
    board: np.ndarray  # u32[K] packed boards with a solution, by pieces, squares and moves
    plan: np.ndarray  # u32[2, K] their solutions
    moves: np.ndarray  # u8[K] how long these are
    first: (
        np.ndarray
    )  # i32[MOST + 1, SQUARES + 1, LONGEST + 2] by pieces, squares and moves: where such boards begin
    impossible: np.ndarray  # u32[I] packed boards without a solution, by pieces and squares
    first_impossible: np.ndarray  # i32[MOST + 1, SQUARES + 2] by pieces and squares: where such boards begin


@cache
def bank() -> Bank:
    with np.load(BANK) as file:
        board, plan, moves, impossible = (file[x] for x in ("board", "plan", "moves", "impossible"))
    order = _kind(board) * (LONGEST + 2) + moves
    every = np.arange((MOST + 1) * (SQUARES + 1) * (LONGEST + 2))
    first = np.searchsorted(order, every).astype(np.int32).reshape(MOST + 1, SQUARES + 1, LONGEST + 2)
    kinds = (np.arange(MOST + 1) * (SQUARES + 1))[:, None] + np.arange(SQUARES + 2)[None, :]
    first_impossible = np.searchsorted(_kind(impossible), kinds).astype(np.int32)
    return Bank(board, plan, moves, first, impossible, first_impossible)


def _kind(board: np.ndarray) -> np.ndarray:
    """A number for pieces and squares of packed boards, in this order."""
    square = board[:, None] >> (2 * np.arange(SQUARES, dtype=np.uint32)) & 3
    pieces, squares = (square == WHITE).sum(axis=1), (square != ABSENT).sum(axis=1)
    return pieces * (SQUARES + 1) + squares


def unpack(code: Array) -> tuple[Array, Array]:
    """What is on each square, i32[SQUARES], and who begins."""
    code = code.astype(jnp.int32)
    return code >> 2 * np.arange(SQUARES, dtype=np.int32) & 3, code >> 2 * SQUARES


def legal(square: Array, colour: Array) -> Array:
    """bool[28]: which of `EDGES` a colour (WHITE or BLACK) can move along."""
    return (square[EDGES[:, 0]] == colour) & (square[EDGES[:, 1]] == EMPTY)


def follow(square: Array, first: Array, plan: Array, moves: Array) -> Array:
    """i32[LONGEST]: the moves of a solution u32[2] as places in `EDGES`; anything from `moves` on.

    At each move the number is divided by how many moves there are; the remainder tells which one is made.
    """

    def move(k, carry):
        square, codes, way = carry
        half = k // HALF
        possible = legal(square, WHITE + (first + k) % 2)
        count = jnp.maximum(possible.sum(dtype=jnp.int32), 1).astype(jnp.uint32)
        rank = (codes[half] % count).astype(jnp.int32)
        edge = jnp.argmax(possible & (jnp.cumsum(possible, dtype=jnp.int32) == rank + 1)).astype(jnp.int32)
        a, b = jnp.asarray(EDGES)[edge]
        square = square.at[b].set(square[a]).at[a].set(EMPTY)
        return square, codes.at[half].set(codes[half] // count), way.at[k].set(edge)

    way = jnp.zeros(LONGEST, jnp.int32)
    return lax.fori_loop(0, LONGEST, move, (square, plan, way))[2]
