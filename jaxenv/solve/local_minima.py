"""How many ways there are to number a grid so that its local minima are exactly the marked cells.

Every number from 1 to rows * cols is placed once; a local minimum is smaller than all of its up to eight
neighbours. Counts reach 10^22 for 5 x 5 cells, so they are limbs of nine decimal digits throughout.
"""

from functools import cache

import numpy as np

LIMBS = 3  # most significant first: 27 digits; no count exceeds 25! < 10^26
LIMB = 10**9
STRIDE = 5  # of the bit sets: cell (row, col) is bit STRIDE * row + col


@cache
def counts(rows: int, cols: int) -> tuple[np.ndarray, np.ndarray]:
    """All marks that can be the local minima of a grid, at most 5 x 5, and the numberings that have them.

    Numbers are placed from 1 upward, with the marked cells that are full so far as the state: a number goes
    to a marked cell, or to one that is free and no neighbour of an empty marked one. This counts numberings
    with at least these minima; inclusion and exclusion over larger sets of marks leaves those with no others.

    Returns:
        marks: i32[P] bit sets, ascending; no two marked cells are neighbours.
        numberings: i32[P, LIMBS].
    """
    cells = [(r, c) for r in range(rows) for c in range(cols)]
    bit = np.asarray([1 << STRIDE * r + c for r, c in cells])
    near = np.asarray([[max(abs(a - c), abs(b - d)) <= 1 for c, d in cells] for a, b in cells])
    by_size, at_least = _sets(near), []
    for members in by_size:
        ways = np.zeros((len(members), 1 << members.shape[1], LIMBS), np.int64)
        ways[:, 0, LIMBS - 1] = 1
        free = _free(near, members)
        for placed in range(len(cells)):
            more = ways * np.maximum(free - placed, 0)[:, :, None]
            for k in range(members.shape[1]):
                pairs = (len(members), -1, 2, 1 << k, LIMBS)  # without and with the k-th marked cell
                more.reshape(pairs)[:, :, 1] += ways.reshape(pairs)[:, :, 0]
            ways = _carried(more)
        at_least.append(ways[:, -1])
    marks = np.concatenate([bit[members].sum(axis=1) for members in by_size])
    order = np.argsort(marks)
    exactly = np.zeros((len(marks), LIMBS), np.int64)
    for members, ways in zip(by_size, at_least):
        # Every subset of these marks, with a sign by the number of marks left out.
        subset = np.arange(1, 1 << members.shape[1])
        chosen = subset[:, None] >> np.arange(members.shape[1]) & 1
        part = np.searchsorted(marks, bit[members] @ chosen.T, sorter=order)
        sign = 1 - 2 * ((members.shape[1] - chosen.sum(axis=1)) % 2)
        np.add.at(exactly, part.ravel(), (ways[:, None] * sign[None, :, None]).reshape(-1, LIMBS))
    return marks[order].astype(np.int32), _carried(exactly).astype(np.int32)


def _sets(near: np.ndarray) -> list[np.ndarray]:
    """For each size k from 1 on the sets of k cells without neighbours, i64[., k], cells ascending."""
    count = len(near)
    sets = [np.arange(count)[:, None]]
    while len(sets[-1]):
        fits = ~near[sets[-1]].any(axis=1) & (np.arange(count) > sets[-1][:, -1:])
        which, cell = np.nonzero(fits)
        sets.append(np.concatenate([sets[-1][which], cell[:, None]], axis=1))
    return sets[:-1]


def _free(near: np.ndarray, members: np.ndarray) -> np.ndarray:
    """i64[P, 2^k]: by the set of marked cells that are full, the cells that are near no empty marked one.

    Every number placed so far stands on one of these, so this less their count is the choice for the next.
    """
    k = members.shape[1]
    blocked = np.zeros((len(members), 1 << k, near.shape[0]), bool)
    for full in range(1 << k):
        empty = [j for j in range(k) if not full >> j & 1]
        blocked[:, full] = near[members[:, empty]].any(axis=1)
    return (~blocked).sum(axis=2)


def _carried(limbs: np.ndarray) -> np.ndarray:
    """The same numbers, 0 or more, with every limb in 0 .. LIMB - 1."""
    for k in range(LIMBS - 1, 0, -1):
        carry = limbs[..., k] // LIMB
        limbs[..., k] -= carry * LIMB
        limbs[..., k - 1] += carry
    return limbs
