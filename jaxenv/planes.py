"""Line drawings as planes of one bit per pixel: segments, discs, boxes and labels, painted in few colours.

Every shape here is convex, so it covers one span of columns in each picture row; shapes are computed as
spans and written into packed words one after another, and the planes are turned into coloured pixels once.
Coordinates are (row, col) in pixels, whole numbers at pixel centres, rounded to eighths of a pixel. All
geometry after that rounding is in integers or single correctly rounded operations, so that a drawing is the
same, bit for bit, however it is compiled. A pixel belongs to a shape if its centre does, the outline
included; on the outline itself the rounding (an eighth of a pixel) decides. Shapes may lie partly or wholly
outside of the picture, up to 512 px from it.
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv.draw import barrier
from jaxenv.sprites import GLYPH_HEIGHT, GLYPH_WIDTH, glyph

Plane = Array | np.ndarray  # u32[ceil(R / 32), R], indexed [word, row]; bit k of word w is column 32 w + k
Colour = Sequence[int] | Array  # 3 bytes, red, green, blue; may be traced
# Character codes are places in this string: a digit is its own code.
FONT_CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ+-=?(),.:/ "
MAX_LAYERS = 7

_UNIT = 8  # sub-positions of a pixel; with coordinates in -512..1536 px no product below leaves i32
_FAR = 1 << 13  # columns and rows beyond any picture
_TOGETHER = 4  # shapes per step of the accumulating loop: saves passes over the plane
_NOWHERE = np.float32(1 << 20)  # stands for 1 / 0 where a line is parallel to an axis


def segments(resolution: int, p: Array, q: Array, width, present: Array) -> Plane:
    """K straight strokes with round ends: all pixels within width / 2 of the line from p to q.

    Args:
        resolution: side of the picture in pixels, a multiple of 8 in 64..1024.
        p, q: [K, 2] ends; where they are equal the stroke is a disc.
        width: scalar or [K] in pixels; below 1 a stroke may have gaps.
        present: bool[K].
    """
    (pr, pc), (qr, qc) = _units(p), _units(q)
    # From the upper end down, so that dr >= 0.
    swap = qr < pr
    pr, qr, pc, qc = (jnp.where(swap, y, x) for x, y in ((pr, qr), (qr, pr), (pc, qc), (qc, pc)))
    half = _round(jnp.asarray(width, jnp.float32) * (_UNIT // 2)) * jnp.ones_like(pr)
    dr, dc = qr - pr, qc - pc
    square = dr * dr + dc * dc
    reach = (half.astype(jnp.float32) * jnp.sqrt(square.astype(jnp.float32))).astype(jnp.int32) + 1
    rows = _UNIT * np.arange(resolution, dtype=np.int32)[None, :]
    # Beside the line: |dr (c - pc) - dc (r - pr)| <= reach
    # and between its ends: 0 <= dr (r - pr) + dc (c - pc) <= square.
    # The spare unit keeps the bounds of lines parallel to an axis off 0, where the sign decides.
    across = (dr * pc - dc * pr)[:, None] + dc[:, None] * rows
    along = (dr * pr + dc * pc)[:, None] - dr[:, None] * rows
    by_across, by_along = _inverse(dr), _inverse(dc)
    one, other = _cut(along - 1, by_along), _cut(along + (square + 1)[:, None], by_along)
    low = jnp.maximum(_cut(across - reach[:, None], by_across), jnp.minimum(one, other))
    high = jnp.minimum(_cut(across + reach[:, None], by_across), jnp.maximum(one, other))
    low, high = _whole(low, high, (square > 0)[:, None])
    for row, col in ((pr, pc), (qr, qc)):
        cap_low, cap_high = _disc(rows, row, col, half)
        low, high = jnp.minimum(low, cap_low), jnp.maximum(high, cap_high)
    return _accumulate(low, high, present)


def discs(resolution: int, centre: Array, radius, present: Array) -> Plane:
    """K filled discs: all pixels within `radius`, scalar or [K], of `centre` [K, 2]; `present` is bool[K]."""
    row, col = _units(centre)
    radius = _round(jnp.asarray(radius, jnp.float32) * _UNIT) * jnp.ones_like(row)
    rows = _UNIT * np.arange(resolution, dtype=np.int32)[None, :]
    return _accumulate(*_disc(rows, row, col, radius), present)


def boxes(resolution: int, low: Array, high: Array, present: Array) -> Plane:
    """K filled boxes: all pixels from `low` to `high` [K, 2], both inclusive; `present` is bool[K]."""
    (top, left), (bottom, right) = _units(low), _units(high)
    rows = _UNIT * np.arange(resolution, dtype=np.int32)[None, :]
    inside = (rows >= top[:, None]) & (rows <= bottom[:, None])
    left, right = -(-left // _UNIT), right // _UNIT
    left, right = jnp.where(inside, left[:, None], _FAR), jnp.where(inside, right[:, None], -_FAR)
    return _accumulate(left, right, present)


def label_size(characters: int | Array, scale: int = 1) -> tuple[int, int | Array]:
    """(height, width) in pixels of a label of that many characters."""
    return GLYPH_HEIGHT * scale, ((GLYPH_WIDTH + 1) * characters - 1) * scale


def labels(resolution: int, centre: Array, codes: Array, scale: int, present: Array) -> Plane:
    """K short strings in the font of 5 x 7 dots, each dot scale x scale pixels, one dot between characters.

    A label is never moved: what lies beyond the border is cut off, so leave a margin. Its top left pixel is
    the centre minus half of (size - 1), rounded down; `label_size` gives the size.

    Args:
        resolution: side of the picture in pixels.
        centre: [K, 2].
        codes: i32[K, C], places in `FONT_CHARACTERS`, -1 where one is absent; the present ones close up.
        scale: static, 1..6.
        present: bool[K].
    """
    if not 1 <= scale <= 6:
        raise ValueError(f"label scale {scale} is not in 1..6")
    codes = jnp.asarray(codes)
    count, length = codes.shape
    shown = codes >= 0
    place = (jnp.cumsum(shown.astype(jnp.int32), axis=1) - 1) * ((GLYPH_WIDTH + 1) * scale)
    dots = jnp.asarray(_font(scale))[jnp.maximum(codes, 0)]
    dots = jnp.where(shown[..., None], dots, jnp.uint32(0))  # [K, C, 7]
    height, width = label_size(shown.sum(axis=1, dtype=jnp.int32), scale)
    row, col = _units(centre)
    top = (2 * row - (height - 1) * _UNIT) // (2 * _UNIT)
    left = (2 * col - (width - 1) * _UNIT) // (2 * _UNIT)
    n_words = -(-label_size(length, scale)[1] // 32)
    # The lines of dots of each string as words: u32[K, 7, n_words].
    start = place[..., None, None] - 32 * np.arange(n_words, dtype=np.int32)[None, None, None, :]
    lines = lax.reduce(_shifted(dots[..., None], start), np.uint32(0), lax.bitwise_or, (1,))
    line = (np.arange(resolution, dtype=np.int32)[None, :] - top[:, None]) // scale
    line = jnp.where(present[:, None] & (line >= 0) & (line < GLYPH_HEIGHT), line, GLYPH_HEIGHT)
    lines = jnp.pad(lines, ((0, 0), (0, 1), (0, 0)))
    at = jnp.arange(count)[:, None]
    by_row = [lines[..., k].at[at, line].get(mode="promise_in_bounds") for k in range(n_words)]
    base = 32 * np.arange(-(-resolution // 32), dtype=np.int32)[:, None]

    def write(left, *pieces):
        shifts = (left + 32 * k - base for k in range(n_words))
        moved = [_shifted(piece[None, :], shift) for piece, shift in zip(pieces, shifts)]
        return functools.reduce(jnp.bitwise_or, moved)

    return _loop(write, resolution, (left, *by_row))


def codes(string: str) -> np.ndarray:
    """i32[len]: the codes of a fixed string. Raises ValueError for a character that the font lacks."""
    return np.asarray([FONT_CHARACTERS.index(c) for c in string], np.int32)


def digits(x: Array, places: int) -> Array:
    """i32[..., places]: the character codes of integers, right-aligned, -1 before the first.

    A negative number needs a place for its sign; of numbers that are too long the first digits are lost.
    """
    x = jnp.asarray(x)[..., None]
    powers = np.asarray([10**k for k in range(places - 1, -1, -1)], np.int32)
    powers = powers.reshape((1,) * (x.ndim - 1) + (-1,))
    shown = (jnp.abs(x) >= powers) | (powers == 1)
    first = jnp.concatenate([shown[..., 1:] & ~shown[..., :-1], jnp.zeros_like(shown[..., :1])], axis=-1)
    minus = jnp.where(first & (x < 0), jnp.int32(FONT_CHARACTERS.index("-")), jnp.int32(-1))
    return jnp.where(shown, jnp.abs(x) // powers % 10, minus)


def fixed(mask: np.ndarray) -> np.ndarray:
    """The plane of a constant drawing, bool[R, R] (grids, frames, captions); costs nothing at run time."""
    mask = np.asarray(mask, bool)
    rows, cols = mask.shape
    padded = np.pad(mask, ((0, 0), (0, -cols % 32))).reshape(rows, -1, 32)
    return np.ascontiguousarray(_packed(padded).T)


def paint(layers: Sequence[tuple[Plane, Colour]], background: Colour) -> Array:
    """u8[R, R, 3]: at most seven planes in their colours over a background, later ones over earlier ones."""
    if not 1 <= len(layers) <= MAX_LAYERS:
        raise ValueError(f"paint takes 1 to {MAX_LAYERS} layers, not {len(layers)}")
    resolution = layers[0][0].shape[1]
    # A byte of a plane is 8 pixels, 24 bytes of the picture. As three dimensions this is vectorised.
    planes = [lax.bitcast_convert_type(jnp.asarray(plane).T, jnp.uint8) for plane, _ in layers]
    planes = barrier(tuple(p.reshape(resolution, -1, 1)[:, : resolution // 8] for p in planes))
    bit = (1 << np.arange(24) // 3).astype(np.uint8)[None, None, :]
    picture, *colours = (_eight_pixels(c) for c in (background, *(colour for _, colour in layers)))
    for plane, colour in zip(planes, colours):
        picture = jnp.where(plane & bit != 0, colour, picture)
    return barrier(picture).reshape(resolution, resolution, 3)


def _eight_pixels(colour: Colour) -> Array:
    """u8[1, 1, 24]: known at compile time where it can be, else computed once, not anew for every pixel."""
    if isinstance(colour, Array):
        return barrier(jnp.tile(colour.astype(jnp.uint8), 8)[None, None, :])
    return np.tile(np.asarray(colour, np.uint8), 8)[None, None, :]


def _font(scale: int) -> np.ndarray:
    """u32[characters, 7]: lines of dots of each glyph, columns repeated `scale` times, leftmost at bit 0."""
    return _packed(np.stack([glyph(c) for c in FONT_CHARACTERS]).repeat(scale, axis=2))


def _packed(bits: np.ndarray) -> np.ndarray:
    """u32[...] of bool[..., at most 32], the first at bit 0."""
    return (bits.astype(np.uint32) << np.arange(bits.shape[-1], dtype=np.uint32)).sum(-1, dtype=np.uint32)


def _round(x: Array) -> Array:
    return jnp.round(x).astype(jnp.int32)


def _units(points: Array) -> tuple[Array, Array]:
    """Rows and columns [K] in whole sub-positions."""
    points = _round(jnp.clip(jnp.asarray(points, jnp.float32), -512.0, 1536.0) * _UNIT)
    return points[:, 0], points[:, 1]


def _inverse(step: Array) -> Array:
    inverse = 1.0 / jnp.where(step == 0, 1, _UNIT * step).astype(jnp.float32)
    return jnp.where(step == 0, _NOWHERE, inverse)[:, None]


def _cut(numerator: Array, inverse: Array) -> Array:
    return jnp.clip(numerator.astype(jnp.float32) * inverse, -float(_FAR), float(_FAR))


def _whole(low: Array, high: Array, present: Array) -> tuple[Array, Array]:
    """The whole columns in low .. high, or _FAR .. -_FAR where there are none."""
    low, high = jnp.ceil(low).astype(jnp.int32), jnp.floor(high).astype(jnp.int32)
    some = present & (low <= high)
    return jnp.where(some, low, _FAR), jnp.where(some, high, -_FAR)


def _disc(rows: Array, row: Array, col: Array, radius: Array) -> tuple[Array, Array]:
    """Columns i32[K, R] that discs cover in each row."""
    square = (radius * radius)[:, None] - (rows - row[:, None]) ** 2
    half = jnp.sqrt(jnp.maximum(square, 0).astype(jnp.float32))
    col = col.astype(jnp.float32)[:, None]
    return _whole((col - half) * (1 / _UNIT), (col + half) * (1 / _UNIT), square >= 0)


def _accumulate(low: Array, high: Array, present: Array) -> Plane:
    """The plane of spans low .. high, i32[K, R] each, of those shapes that are present."""
    resolution = low.shape[1]
    low = jnp.where(present[:, None], low, _FAR)
    end = jnp.maximum(jnp.where(present[:, None], high + 1, 0), low)  # an empty span where high < low
    base = 32 * np.arange(-(-resolution // 32), dtype=np.int32)[:, None]

    def write(low, end):
        return _from(low[None, :] - base) & ~_from(end[None, :] - base)

    return _loop(write, resolution, (low, end))


def _from(first: Array) -> Array:
    """u32: bits first .. 31, all if it is negative, none if it is above 31."""
    # XLA defines shifts by 32 or more to give 0.
    return jnp.uint32(0xFFFFFFFF) << jnp.maximum(first, 0).astype(jnp.uint32)


def _shifted(bits: Array, left: Array) -> Array:
    """u32 bits moved up by `left`, down where it is negative."""
    up = bits << jnp.maximum(left, 0).astype(jnp.uint32)
    return jnp.where(left >= 0, up, bits >> jnp.maximum(-left, 0).astype(jnp.uint32))


def _loop(write, resolution: int, shapes: tuple[Array, ...]) -> Plane:
    """The union of write(*shape) over the leading axis of `shapes`, a few at a time."""
    count = shapes[0].shape[0]
    plane = jnp.zeros((-(-resolution // 32), resolution), jnp.uint32)
    shapes = barrier(shapes)
    whole = count // _TOGETHER * _TOGETHER
    if whole > _TOGETHER:
        groups = tuple(x[:whole].reshape(-1, _TOGETHER, *x.shape[1:]) for x in shapes)

        def step(plane, group):
            for k in range(_TOGETHER):
                plane = plane | write(*(x[k] for x in group))
            return plane, None

        plane, _ = lax.scan(step, plane, groups)
    else:
        whole = 0
    for k in range(whole, count):
        plane = plane | write(*(x[k] for x in shapes))
    return plane
