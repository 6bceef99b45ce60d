"""The bank of car parks made by `scripts/make_rush_hour.py`."""

from functools import cache
from pathlib import Path

import numpy as np

BANK = Path(__file__).with_suffix(".npy")
FEWEST, SLOTS = 3, 11  # vehicles, the red car included
PLAN = 22  # moves of the longest solution


@cache
def bank() -> tuple[np.ndarray, np.ndarray]:
    """Car parks by their number of vehicles (from `FEWEST` on) and solutions that are as short as possible.

    Returns:
        u8[9, P, SLOTS]: of each vehicle its offset in its lane (3 bits), the lane (3 bits), whether it has
        length 3 and whether it is horizontal; 255 is an empty slot. The red car comes first.
        u8[9, P, PLAN]: moves, 2 * slot + 1 forward (right or down) or 2 * slot backward; 255 behind the last.
    """
    rows = np.load(BANK)
    return rows[..., :SLOTS], rows[..., SLOTS:]
