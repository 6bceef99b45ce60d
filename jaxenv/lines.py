"""Pictures whose rows repeat: a few different lines of pixels, and which of them each picture row shows.

This paints tables and strips with cells of any width and height, where `draw.tiles` needs square tiles of
4 or 8 px. Lines lie along the last axis here, so that a picture column is one contiguous piece: to widen
cells to pixels is to gather by picture column. Keep the lines few: the picture is made by gathering rows.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv.draw import barrier, to_u8


def colour(red: int, green: int, blue: int) -> np.uint32:
    """A packed colour."""
    return np.uint32(red | green << 8 | blue << 16)


def paint(columns: Array, row: Array | np.ndarray) -> Array:
    """u8[R, R, 3]: line `row[y]` in picture row y.

    Args:
        columns: u32[R, K], by picture column the packed colours of the K lines; R is a multiple of 4.
        row: i32[R] in 0 .. K - 1.
    """
    size, count = columns.shape
    a, b, c, d = (barrier(columns).reshape(size // 4, 4, count)[:, k] for k in range(4))
    words = jnp.stack([a | b << 24, b >> 8 | c << 16, c >> 16 | d << 8], axis=1)  # 4 pixels are 3 words
    words, row = barrier((words.reshape(3 * size // 4, count).T, jnp.asarray(row)))
    return to_u8(words.at[row].get(mode="promise_in_bounds"), size)
