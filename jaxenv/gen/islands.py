"""Islands on a grid that never touch each other side by side, grown cell by cell as sets of bits, one word a row."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def around(bits: Array) -> Array:
    """i32[N]: the cells above, below, left and right of those in i32[N], also beyond the right border."""
    rows = jnp.pad(bits, 1)
    return rows[:-2] | rows[2:] | bits << 1 | bits >> 1


def pick_cell(noise: Array, bits: Array, rows: Array, cols: Array) -> Array:
    """i32[N] with one of the cells in i32[N], chosen by u32[]; none if there is none.

    Takes the first row with a cell from a random row on, and the first cell from a random column on: not
    uniform, but cheap.
    """
    index = np.arange(bits.shape[0], dtype=np.int32)
    start, shift = (noise % rows.astype(jnp.uint32), (noise >> 8) % cols.astype(jnp.uint32))
    later = jnp.where(index >= start.astype(jnp.int32), index, index + rows)
    row = jnp.argmin(jnp.where(bits != 0, later, 2 * bits.shape[0])).astype(jnp.int32)
    right = bits & (jnp.int32(-1) << shift.astype(jnp.int32))
    cells = jnp.where(right != 0, right, bits)
    return jnp.where(index == row, cells & -cells, 0)


def islands(key: Array, size: int, rows: Array, cols: Array, sizes: Array, wanted: Array) -> Array:
    """i32[size]: the land on rows x cols cells, one word a row.

    All islands begin as single cells apart from each other. Then one after the other grows, mostly from its
    newest cell, until it has its size or has no room that is not next to another island.

    Args:
        size: static, at least rows and cols, at most 30.
        sizes: i32[K] cells of each island, at least 1.
        wanted: i32[] islands, at most K; there is room for them if 5 (wanted - 1) < rows * cols.
    """
    most = sizes.shape[0]
    board = jnp.where(np.arange(size) < rows, (1 << cols) - 1, 0)
    noise = jax.random.bits(key, (most + 256,), jnp.uint32)

    def place(k, carry):
        seeds, free = carry
        cell = jnp.where(k < wanted, pick_cell(noise[k], free, rows, cols), 0)
        return seeds.at[k].set(cell), free & ~(cell | around(cell))

    start = jnp.zeros((most + 1, size), jnp.int32), board
    seeds, _ = lax.fori_loop(0, most, place, start)

    def grow(carry):
        land, own, newest, k, left, step = carry
        room = around(own) & board & ~(land | around(land & ~own))
        ahead = room & around(newest)
        word = noise[most + step % 256]
        room = jnp.where(jnp.any(ahead != 0) & (word >> 16 & 3 != 0), ahead, room)
        cell = pick_cell(word, room, rows, cols)
        grown = (left > 0) & jnp.any(cell != 0)
        cell, following = jnp.where(grown, cell, 0), seeds[k + 1]
        return (
            land | cell,
            jnp.where(grown, own | cell, following),
            jnp.where(grown, cell, following),
            jnp.where(grown, k, k + 1),
            jnp.where(grown, left - 1, sizes[jnp.minimum(k + 1, most - 1)] - 1),
            step + 1,
        )

    land = lax.reduce(seeds, np.int32(0), lax.bitwise_or, (0,))
    carry = (land, seeds[0], seeds[0], jnp.int32(0), sizes[0] - 1, jnp.int32(0))
    return lax.while_loop(lambda carry: carry[3] < wanted, grow, carry)[0]
