"""Othello rules on bitboards: one u32 a row, bit c for column c, so that rays advance by shifts.

A position is two sets of cells u32[N]; smaller boards occupy the top-left corner and `board` masks the rest.
Only bits 0 .. N - 1 of a row are used: there is room to treat both colours at once in the halves of a word.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

N = 10  # largest board
_DIRECTIONS = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)]
_DOWN = np.asarray([[r] for r, _ in _DIRECTIONS])
_LEFTWARD = np.asarray([[c < 0] for _, c in _DIRECTIONS], np.uint32)
_RIGHTWARD = np.asarray([[c > 0] for _, c in _DIRECTIONS], np.uint32)
_LOW = np.uint32((1 << N) - 1)
_HALF = np.uint32(16)


def board(size: Array) -> Array:
    """u32[N]: all cells of a size x size board."""
    full = (jnp.uint32(1) << size.astype(jnp.uint32)) - jnp.uint32(1)
    return jnp.where(np.arange(N) < size, full, jnp.uint32(0))


def cell(row: Array, col: Array) -> Array:
    """u32[N]: the set of one cell; empty if row or col lies outside 0 .. N - 1."""
    bit = jnp.uint32(1) << jnp.clip(col, 0, N).astype(jnp.uint32)
    return jnp.where((np.arange(N) == row) & (col >= 0), bit & _LOW, jnp.uint32(0))


def count(cells: Array) -> Array:
    """i32[...]: number of cells of u32[..., N]."""
    return lax.population_count(cells).astype(jnp.int32).sum(axis=-1)


def bits(cells: Array) -> Array:
    """bool[N, N] of u32[N]."""
    return (cells[:, None] >> np.arange(N, dtype=np.uint32)[None, :]) & jnp.uint32(1) == 1


def nth(cells: Array, index: Array) -> Array:
    """i32[2]: (row, col) of the index-th cell of a set in reading order; index < count(cells)."""
    upto = jnp.cumsum(lax.population_count(cells).astype(jnp.int32))
    row = (upto <= index).sum(dtype=jnp.int32)
    row = jnp.minimum(row, N - 1)
    left = index - jnp.where(row > 0, upto[row - 1], 0)
    in_row = (cells[row] >> np.arange(N, dtype=np.uint32)) & jnp.uint32(1)
    col = (jnp.cumsum(in_row.astype(jnp.int32)) <= left).sum(dtype=jnp.int32)
    return jnp.stack([row, jnp.minimum(col, N - 1)])


def legal(first: Array, second: Array, board: Array) -> tuple[Array, Array]:
    """The cells u32[N] where `first` may play and those where `second` may play, in one pass."""
    start, through = first | second << _HALF, second | first << _HALF
    empty = board & ~(first | second)
    landed = _any(_along(_flood(start, through))) & (empty | empty << _HALF)
    return landed & _LOW, landed >> _HALF


def play(mine: Array, theirs: Array, move: Array) -> tuple[Array, Array]:
    """Both sets after a disc of mine on `move` (u32[N], one cell or none) has flipped what it flanks."""
    run = _flood(move, theirs)
    flanked = jnp.any((_along(run) & mine[None]) != 0, axis=1, keepdims=True)
    flips = _any(jnp.where(flanked, run, jnp.uint32(0)))
    return mine | move | flips, theirs & ~flips


def gains(mine: Array, theirs: Array, board: Array) -> list[Array]:
    """How many discs each empty cell would flip for `mine`: six bit planes u32[N], lowest first."""
    empty = (board & ~(mine | theirs))[None]

    def step(k, carry):
        run, low, high = (
            carry  # runs of exactly k discs; per ray, the planes of the four bits of their lengths
        )
        moved = lax.optimization_barrier(_along(run))  # once, not once for each of its three uses
        land = moved & empty
        low |= jnp.where(k & 1, land, jnp.uint32(0)) | jnp.where(k & 2, land << _HALF, jnp.uint32(0))
        high |= jnp.where(k & 4, land, jnp.uint32(0)) | jnp.where(k & 8, land << _HALF, jnp.uint32(0))
        return moved & theirs[None], low, high

    none = jnp.zeros((8, N), jnp.uint32)
    first = _along(jnp.broadcast_to(mine[None], (8, N))) & theirs[None]
    _, low, high = lax.fori_loop(1, N - 1, step, (first, none, none))

    planes = [low & _LOW, low >> _HALF, high & _LOW, high >> _HALF]
    for half in (4, 2, 1):  # add up the rays pairwise, all cells at once
        planes, carry = lax.optimization_barrier([(p[:half], p[half:]) for p in planes]), none[:half]
        total = []
        for a, b in planes:
            total.append(a ^ b ^ carry)
            carry = (a & b) | ((a ^ b) & carry)
        planes = [*total, carry]
    return [p[0] for p in planes[:6]]  # no move flips 64 discs


def greatest(cells: Array, planes: list[Array]) -> Array:
    """u32[N]: those of a set with the greatest value, given as bit planes."""
    for plane in reversed(planes):
        top = cells & plane
        cells = jnp.where(jnp.any(top != 0), top, cells)
    return cells


def classes(size: int) -> np.ndarray:
    """u32[5, N]: corners, quiet edges, inner cells, edge neighbours of corners, their diagonal neighbours."""
    out = np.zeros((5, N), np.uint32)
    for r in range(size):
        for c in range(size):
            a, b = sorted((min(r, size - 1 - r), min(c, size - 1 - c)))
            kind = {(0, 0): 0, (0, 1): 3, (1, 1): 4}.get((a, b), 1 if a == 0 else 2)
            out[kind, r] |= np.uint32(1 << c)
    return out


def _along(x: Array) -> Array:
    """u32[8, N], one set for each ray, moved one cell along it. Bits off the board must be masked."""
    gap = jnp.zeros((8, 1), jnp.uint32)
    up, down = jnp.concatenate([x[:, 1:], gap], axis=1), jnp.concatenate([gap, x[:, :-1]], axis=1)
    return jnp.where(_DOWN < 0, up, jnp.where(_DOWN > 0, down, x)) << _RIGHTWARD >> _LEFTWARD


def _flood(start: Array, through: Array) -> Array:
    """u32[8, N]: for each ray the cells of unbroken runs of `through` that begin next to a start cell."""
    step = lambda _, runs: _along(runs | start[None]) & through[None]  # noqa: E731
    return lax.fori_loop(0, N - 2, step, jnp.zeros((8, N), jnp.uint32))


def _any(x: Array) -> Array:
    """u32[N]: union over the rays."""
    return lax.reduce(x, np.uint32(0), lax.bitwise_or, (0,))
