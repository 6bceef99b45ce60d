"""Harness text as bytes with holes: u8 arrays of static width in which 0 is an absent byte.

Parts are written with holes (a number of up to three digits, a table of a traced size) and closed once, by
`close`, when the prompt is put together. Fixed text is a numpy array: its length is known at trace time.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

Text = Array | np.ndarray


def lit(string: str) -> np.ndarray:
    """A fixed ASCII string as u8[len]."""
    return np.frombuffer(string.encode("ascii"), np.uint8)


def num(x: Array, width: int) -> Array:
    """Integers of any shape [...] as decimal digits u8[..., width], right-aligned, leading places absent.

    Negative numbers need one place for the sign. Numbers too long for `width` lose their leading digits:
    choose the width, at most 10, from a bound.
    """
    x = jnp.asarray(x, jnp.int32)
    powers = np.asarray([10**k for k in range(width - 1, -1, -1)], np.int32).reshape((1,) * x.ndim + (-1,))
    magnitude = jnp.abs(x)[..., None]
    digits = magnitude // powers % 10
    shown = (magnitude >= powers) | (powers == 1)
    out = jnp.where(shown, digits + ord("0"), 0)
    if width > 1:  # the sign stands just before the first digit
        before_first = jnp.pad(shown[..., 1:] & ~shown[..., :-1], [(0, 0)] * x.ndim + [(0, 1)])
        out = jnp.where(before_first & (x < 0)[..., None], ord("-"), out)
    return out.astype(jnp.uint8)


def when(condition: Array, part: Text) -> Array:
    """The part where a traced bool[...] holds (broadcast over leading axes), nothing elsewhere."""
    condition = jnp.asarray(condition)
    part = jnp.asarray(part)
    if condition.ndim and part.ndim == 1:
        part = jnp.broadcast_to(part, condition.shape + part.shape)
    return jnp.where(condition[..., None] if condition.ndim else condition, part, jnp.uint8(0))


def choose(index: Array, strings: Sequence[str]) -> Array:
    """One of several fixed strings by a traced index of any shape [...]: u8[..., longest]."""
    width = max(map(len, strings))
    table = np.stack([np.pad(lit(s), (0, width - len(s))) for s in strings])
    return jnp.asarray(table)[index]


def join(*parts: Text) -> Text:
    """Parts in order along the last axis; fixed if all parts are fixed."""
    xp = np if all(isinstance(p, np.ndarray) for p in parts) else jnp
    lead = max((p.shape[:-1] for p in parts), key=len)
    return xp.concatenate([xp.broadcast_to(p, lead + p.shape[-1:]) for p in parts], axis=-1)


def items(parts: Array, present: Array, separator: str = ", ") -> Array:
    """u8[K, W] parts, those present (bool[K]), with separators between: u8[K * (W + len(separator))]."""
    first = jnp.cumsum(present.astype(jnp.int32)) == 1
    glue = when(present & ~first, lit(separator))
    return jnp.concatenate([glue, when(present, parts)], axis=-1).reshape(-1)


def coordinates(rc: Array, width: int = 2) -> Array:
    """i32[..., 2] as '(row, col)'."""
    return join(lit("("), num(rc[..., 0], width), lit(", "), num(rc[..., 1], width), lit(")"))


def table(cells: Array, glyphs: str, rows: Array | int, cols: Array | int, separator: str = " ") -> Array:
    """The top-left rows x cols of i32[M, N] cell codes, one glyph a cell, one line a row."""
    return rows_of(jnp.asarray(lit(glyphs))[cells][..., None], rows, cols, separator)


def rows_of(cells: Array, rows: Array | int, cols: Array | int, separator: str = " ") -> Array:
    """The top-left rows x cols of u8[M, N, W] cell texts, separated in a row, one line a row."""
    m, n, _ = cells.shape
    inside = (np.arange(m)[:, None] < rows) & (np.arange(n)[None, :] < cols)
    inside = jnp.broadcast_to(jnp.asarray(inside), (m, n))
    glue = when(inside & (np.arange(n) > 0)[None, :], lit(separator))
    body = jnp.concatenate([glue, when(inside, cells)], axis=-1).reshape(m, -1)
    return jnp.concatenate([body, when(inside[:, 0], lit("\n"))], axis=-1).reshape(-1)


def close(part: Text) -> tuple[Text, Array | int]:
    """Holes closed: the same bytes left-aligned (u8[W], zeros behind) and their number."""
    if isinstance(part, np.ndarray):
        kept = part[part != 0]
        return kept, len(kept)
    (width,) = part.shape
    present = part != 0
    place = jnp.where(present, jnp.cumsum(present.astype(jnp.int32)) - 1, width)
    closed = jnp.zeros(width + 1, jnp.uint8).at[place].set(part, mode="promise_in_bounds")[:width]
    return closed, present.sum(dtype=jnp.int32)


def decode(batch: Array) -> list[str]:
    """u8[B, W] closed texts as Python strings, with one copy from the device."""
    rows = np.asarray(batch)
    lengths = (rows != 0).sum(axis=1)
    return [rows[i, :n].tobytes().decode("ascii") for i, n in enumerate(lengths)]
