"""All 4 x 4 sudoku grids and their smallest puzzles, made on the host as constants. Cells go row by row."""

from functools import cache
from itertools import combinations, permutations

import jax.numpy as jnp
import numpy as np
from jax import Array

CELLS = 16
_ROW, _COL = np.divmod(np.arange(CELLS), 4)
UNITS = np.stack(  # i64[12, 4]: the cells of every row, column and block
    [np.flatnonzero(of == k) for of in (_ROW, _COL, _ROW // 2 * 2 + _COL // 2) for k in range(4)]
)


def complete(cells: Array) -> Array:
    """bool[...]: every row, column and block of i32[..., 16] holds 1, 2, 3 and 4."""
    held = jnp.where((cells >= 1) & (cells <= 4), 1 << jnp.clip(cells, 1, 4), 0)
    return jnp.all(held[..., UNITS].sum(axis=-1) == 0b11110, axis=-1)  # the only sum of four such powers


@cache
def grids() -> np.ndarray:
    """i32[288, 16]: all complete grids."""
    lines = np.asarray(list(permutations((1, 2, 3, 4))), np.int32)
    every = lines[np.indices((24,) * 4).reshape(4, -1).T].reshape(-1, CELLS)
    return every[((1 << every)[:, UNITS].sum(axis=2) == 0b11110).all(axis=1)]


@cache
def four_clues() -> tuple[np.ndarray, np.ndarray]:
    """The sets of four cells whose digits alone decide the grid (fewer never do; every grid has some).

    Returns:
        bool[288, M, 16]: by grid, False behind.
        i32[288]: how many there are, 12 or 128.
    """
    sets = np.asarray(list(combinations(range(CELLS), 4)))
    digits = (grids()[:, sets] - 1) @ 4 ** np.arange(4) + 256 * np.arange(len(sets))
    alone = np.bincount(digits.reshape(-1))[digits] == 1
    count = alone.sum(axis=1)
    first = np.argsort(~alone, axis=1, kind="stable")[:, : count.max()]
    cells = (sets[first][..., None] == np.arange(CELLS)).any(axis=2)
    return cells & (np.arange(count.max()) < count[:, None])[..., None], count.astype(np.int32)
