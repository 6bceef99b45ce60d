"""Pictures of tiles, painted by whole rows of packed words.

Three rules make this fast on CPU and keep it so: a barrier between what is shown and painting it (else XLA
computes the scene anew for every pixel), gathers of whole words and rows instead of pixels, and no array of
minor dimension 3 before the last reshape.
"""

from collections.abc import Callable
from functools import cache

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

barrier = lax.optimization_barrier


class Sheet:
    """Square sprites at every tile size a board may need, in one vector of words. Built with `sheet`."""

    def __init__(
        self, resolution: int, sizes: tuple[int, ...], paint: Callable[[int], np.ndarray], background
    ):
        self.resolution, self.sizes = resolution, sizes
        self.side = np.zeros(max(sizes) + 1, np.int32)  # by board size: side of a tile in pixels
        self.offset = np.zeros(max(sizes) + 1, np.int32)  # by board size: where its sprites begin, in words
        by_side: dict[int, int] = {}
        words: list[np.ndarray] = []
        total = 0
        counts: set[int] = set()
        for n in sizes:
            self.side[n] = side = tile_side(resolution, n)
            if side not in by_side:
                sprites = np.asarray(paint(side))
                if sprites.shape[1:] != (side, side, 3) or sprites.dtype != np.uint8:
                    found = f"{sprites.dtype}{sprites.shape}"
                    raise ValueError(f"paint({side}) gave {found}, not u8[K, {side}, {side}, 3]")
                empty = np.broadcast_to(np.asarray(background, np.uint8), (1, side, side, 3))
                flat = np.concatenate([sprites, empty]).reshape(-1).view(np.uint32)
                by_side[side], total = total, total + flat.size
                words.append(flat)
                counts.add(len(sprites))
            self.offset[n] = by_side[side]
        if len(counts) != 1:
            raise ValueError(f"paint gave different numbers of sprites at different sizes: {sorted(counts)}")
        self.count = counts.pop()  # also the code of the background
        self.words = np.concatenate(words)


def tile_side(resolution: int, n: int) -> int:
    """Side in pixels of the tiles of an n x n board: a multiple of 8, or of 4 where 8 does not fit.

    Multiples of 8 are fast to paint and keep tiles aligned with the patches of a small vision tower.
    """
    side = resolution // n
    unit = 8 if side >= 8 else 4
    if side < unit:
        raise ValueError(
            f"a board of {n} x {n} tiles does not fit into {resolution} px: tiles need 4 px or more"
        )
    return side // unit * unit


@cache
def sheet(
    resolution: int, sizes: tuple[int, ...], paint: Callable[[int], np.ndarray], background=(0, 0, 0)
) -> Sheet:
    """The sprites `paint(side) -> u8[K, side, side, 3]` at the tile sizes of boards of the given sizes.

    Cached by its arguments: `paint` must be a module-level function (or otherwise one object for all calls).
    """
    return Sheet(resolution, tuple(sizes), paint, background)


def tiles(
    sprites: Sheet, cells: Array, rows: Array | int, cols: Array | int, tints: Array | None = None
) -> Array:
    """u8[R, R, 3]: the top-left rows x cols (traced) of i32[M, N] sprite codes, centred on the background.

    The tile size is that of a square board of max(rows, cols); `cells` may hold anything outside rows x cols.
    `tints`, i32[M, N, 3] in 0 .. 255, colours tiles freely: a cell's colour fills its tile but for the last
    `edge(side)` rows and columns of pixels, where its sprite, black elsewhere, draws the grid. Cells with
    other sprites have the tint 0, 0, 0.
    """
    size = sprites.resolution
    rows, cols = jnp.int32(rows), jnp.int32(cols)
    longest = jnp.maximum(rows, cols)
    side = jnp.asarray(sprites.side)[longest]
    row, in_row = _split(np.arange(size, dtype=np.int32), _margin(size, rows, side), side)
    # A picture row is 3/4 word a pixel; a tile row is a whole number of words since sides are multiples of 4.
    words_per_tile = 3 * side // 4
    margin_words = 3 * _margin(size, cols, side) // 4
    col, in_tile = _split(np.arange(3 * size // 4, dtype=np.int32), margin_words, words_per_tile)
    m, n = cells.shape
    # Where each word of each row of cells begins; row m is the background above and below the board.
    inside = (np.arange(m + 1, dtype=np.int32) < rows)[:, None] & ((col >= 0) & (col < cols))[None, :]
    codes = jnp.pad(jnp.take(cells, jnp.clip(col, 0, n - 1), axis=1, mode="clip"), ((0, 1), (0, 0)))
    codes = jnp.where(inside, codes, sprites.count)
    start = jnp.asarray(sprites.offset)[longest] + codes * (side * words_per_tile) + in_tile[None, :]
    row = jnp.where((row >= 0) & (row < rows), row, m)
    start, row, below, in_row = barrier((start, row, in_row * words_per_tile, in_row))
    index = start.at[row].get(mode="promise_in_bounds") + below[:, None]
    words = jnp.asarray(sprites.words).at[index].get(mode="promise_in_bounds")
    if tints is not None:
        strips = _strips(sprites, tints, longest, jnp.where(inside, col, n), in_tile)
        words |= strips.at[jnp.where(in_row < side - edge(side), row, m)].get(mode="promise_in_bounds")
    return to_u8(words, size)


def edge(side):
    """Pixels of the grid lines that `tiles` leaves free of tints, for tiles of a side."""
    return (side + 23) // 24


def _strips(sprites: Sheet, tints: Array, longest: Array, col: Array, in_tile: Array) -> Array:
    """u32[M + 1, W]: one row of pixels of each row of tints; columns i32[M + 1, W] of cells, N beyond them."""
    # Four pixels of one colour are three words, which repeat along a tile.
    byte = (4 * np.arange(3)[:, None] + np.arange(4)[None, :]) % 3
    words = (
        tints.astype(jnp.uint32)[:, :, byte] << (8 * np.arange(4, dtype=np.uint32))[None, None, None, :]
    ).sum(axis=-1, dtype=jnp.uint32)
    m = words.shape[0]
    words = jnp.pad(words, ((0, 1), (0, 1), (0, 0))).reshape(m + 1, -1)
    # The words of a tile's row with the bytes of the grid line taken out, by board size.
    shown = np.zeros((len(sprites.side), 3 * max(sprites.side)), np.uint8)
    for size in sprites.sizes:
        shown[size, : 3 * (sprites.side[size] - edge(sprites.side[size]))] = 255
    mask = jnp.asarray(shown.view(np.uint32))[longest, in_tile]
    return barrier(jnp.take_along_axis(words, 3 * col + in_tile[None, :] % 3, axis=1) & mask[None, :])


def _margin(size, count, side):
    unit = jnp.where(side >= 8, 8, 4)
    return (size - count * side) // 2 // unit * unit


def _split(position, margin, side):
    shifted = position - margin
    index = jnp.floor_divide(shifted, side)
    return index, shifted - index * side


def to_u8(words: Array, size: int) -> Array:
    """u32[R, 3R/4] packed words as u8[R, R, 3]: a bitcast, kept out of the painting loop by the barriers."""
    return barrier(lax.bitcast_convert_type(barrier(words), jnp.uint8)).reshape(size, size, 3)
