"""Arrangements of straight lines on square boards. Host only: results are constants."""

from functools import cache

import numpy as np


@cache
def layouts(side: int, count: int, shortest: int) -> np.ndarray:
    """i32[K, count, 4]: all ways to peel `count` lines off a square board, side by side or across.

    Each line runs along a whole side of what is left of the board, and the cells beside it stay free, so no
    two lines cross or touch. A line is (vertical, row or column, first cell, length).
    """

    @cache
    def rest(top: int, left: int, height: int, width: int, missing: int) -> frozenset:
        if missing == 0:
            return frozenset([frozenset()])
        found = set()
        if width >= shortest and height > 0:
            for row, below in ((top, top + 2), (top + height - 1, top)):
                line = (0, row, left, width)
                found |= {others | {line} for others in rest(below, left, height - 2, width, missing - 1)}
        if height >= shortest and width > 0:
            for col, behind in ((left, left + 2), (left + width - 1, left)):
                line = (1, col, top, height)
                found |= {others | {line} for others in rest(top, behind, height, width - 2, missing - 1)}
        return frozenset(found)

    return np.asarray(sorted(sorted(lines) for lines in rest(0, 0, side, side, count)), np.int32)
