"""The triangular peg board with 15 holes: its jumps and the fewest pegs that can be left, for all 2^15 positions.

Holes are numbered row by row from 1 at the top; bit k - 1 of a position is a peg in hole k.
"""

from functools import cache

import numpy as np

ROWS, HOLES = 5, 15
PLACES = tuple((r, c) for r in range(ROWS) for c in range(r + 1))  # (row, place in the row), hole 1 first
_DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1))


def _jumps() -> np.ndarray:
    hole = {place: k for k, place in enumerate(PLACES, 1)}
    lines = (
        ((r, c), (r + dr, c + dc), (r + 2 * dr, c + 2 * dc)) for r, c in PLACES for dr, dc in _DIRECTIONS
    )
    return np.asarray([[hole[p] for p in line] for line in lines if line[2] in hole], np.int32)


JUMPS = _jumps()  # i32[36, 3]: from, over, to
_BITS = np.left_shift(1, JUMPS - 1).astype(np.int32)
BEFORE = _BITS[:, 0] | _BITS[:, 1]  # i32[36] what a jump finds in its three holes
CHANGED = BEFORE | _BITS[:, 2]  # i32[36] its three holes; a jump turns all of them over


@cache
def tables() -> tuple[np.ndarray, np.ndarray]:
    """u8[2^15] twice: the fewest pegs that can be left, and the jump (a row of `JUMPS`) that leads there."""
    position = np.arange(1 << HOLES, dtype=np.int32)
    pegs = np.bitwise_count(position)
    fewest, jump = pegs.copy(), np.zeros(1 << HOLES, np.uint8)
    for count in range(2, HOLES):
        now = position[pegs == count]
        best, which = np.full(len(now), count, np.uint8), np.zeros(len(now), np.uint8)
        for k, (before, changed) in enumerate(zip(BEFORE, CHANGED)):
            left = np.where(now & changed == before, fewest[now ^ changed], count)
            best, which = np.where(left < best, left, best), np.where(left < best, k, which)
        fewest[now], jump[now] = best, which
    return fewest, jump


@cache
def solvable(low: int, high: int) -> list[np.ndarray]:
    """Positions with low .. high pegs, by count, that are reached from one empty hole and lead to one peg."""
    fewest, _ = tables()
    full = (1 << HOLES) - 1
    now, out = np.asarray([full ^ 1 << k for k in range(HOLES)], np.int32), {}
    for count in range(HOLES - 1, low - 1, -1):
        out[count] = now[fewest[now] == 1]
        then = [now[now & changed == before] ^ changed for before, changed in zip(BEFORE, CHANGED)]
        now = np.unique(np.concatenate(then))
    return [out[count] for count in range(low, high + 1)]
