"""The bank of Chess Ranger boards made by `scripts/make_chess_ranger.py`."""

from functools import cache
from pathlib import Path

import numpy as np

BANK = Path(__file__).with_suffix(".npz")
FEWEST, MOST = 3, 8  # pieces


@cache
def bank() -> tuple[np.ndarray, np.ndarray]:
    """Solvable boards by their number of pieces (from `FEWEST` on), as far up and left as they go.

    Returns:
        i32[6, B, MOST]: each piece as 64 * kind + 8 * row + col, in the order of squares; -1 behind the last.
        bool[6, B, MOST, MOST]: whether the capture of one piece (first index) of another one keeps the board
        solvable; False where the capture is not possible.
    """
    with np.load(BANK) as stored:
        pieces, good = stored["pieces"].astype(np.int32), stored["good"]
    return np.where(pieces == 0xFFFF, -1, pieces), np.unpackbits(good, axis=-1).reshape(
        *pieces.shape, MOST
    ) > 0
