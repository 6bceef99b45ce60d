"""Line drawings as planes of one bit per pixel: segments, discs, boxes and labels, painted in up to seven colours.

Every shape here is convex, so it covers one span of columns in each picture row; shapes are computed as spans, written
into packed words one after another, and the words of all planes are turned into coloured pixels once. Coordinates are
(row, col) in pixels, whole numbers at pixel centres, rounded to eighths of a pixel. All geometry after that rounding
is in integers or single correctly rounded operations, so that a drawing is the same, bit for bit, however it is
compiled. A pixel belongs to a shape if its centre does, the outline included; on the outline itself the rounding
(an eighth of a pixel) decides. Shapes may lie partly or wholly outside of the picture, up to 1024 px from it.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv.draw import barrier, to_u8
from jaxenv.sprites import GLYPH_HEIGHT, GLYPH_WIDTH, glyph

Plane = Array | np.ndarray  # u32[ceil(R / 32), R], indexed [word, row]; bit k of word w is column 32 w + k
Colour = Sequence[int] | Array  # 3 bytes, red, green, blue; may be traced
FONT_CHARACTERS = (
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ+-=?(),.:/ "  # character codes are places in this string
)
MAX_LAYERS = 7

_UNIT = 8  # sub-positions of a pixel; with coordinates in -1024..2048 px no product below leaves i32
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
    # Beside the line: |dr (c - pc) - dc (r - pr)| <= reach. Between its ends: 0 <= dr (r - pr) + dc (c - pc) <= square.
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
    """K filled discs: all pixels within `radius` (scalar or [K], pixels) of `centre` [K, 2], where `present` bool[K]."""
    row, col = _units(centre)
    radius = _round(jnp.asarray(radius, jnp.float32) * _UNIT) * jnp.ones_like(row)
    rows = _UNIT * np.arange(resolution, dtype=np.int32)[None, :]
    return _accumulate(*_disc(rows, row, col, radius), present)


def boxes(resolution: int, low: Array, high: Array, present: Array) -> Plane:
    """K filled boxes: all pixels from `low` [K, 2] to `high` [K, 2], both inclusive, where `present` bool[K]."""
    (top, left), (bottom, right) = _units(low), _units(high)
    rows = _UNIT * np.arange(resolution, dtype=np.int32)[None, :]
    inside = (rows >= top[:, None]) & (rows <= bottom[:, None])
    left, right = -(-left // _UNIT), right // _UNIT
    return _accumulate(
        jnp.where(inside, left[:, None], _FAR), jnp.where(inside, right[:, None], -_FAR), present
    )


def label_size(characters: int | Array, scale: int = 1) -> tuple[int, int | Array]:
    """(height, width) in pixels of a label of that many characters."""
    return GLYPH_HEIGHT * scale, ((GLYPH_WIDTH + 1) * characters - 1) * scale


def labels(resolution: int, centre: Array, codes: Array, scale: int, present: Array) -> Plane:
    """K short strings in the font of 5 x 7 dots, each dot scale x scale pixels, one dot between characters.

    A label is never moved: what lies beyond the border is cut off, so leave a margin. Its top left pixel is the centre
    minus half of (size - 1), rounded down; `label_size` gives the size.

    Args:
        resolution: side of the picture in pixels.
        centre: [K, 2].
        codes: i32[K, C], places in `FONT_CHARACTERS`, -1 where a character is absent; the present ones close up.
        scale: static, 1..6.
        present: bool[K].
    """
    if not 1 <= scale <= 6:
        raise ValueError(f"label scale {scale} is not in 1..6")
    codes = jnp.asarray(codes)
    count, length = codes.shape
    shown = codes >= 0
    place = (jnp.cumsum(shown.astype(jnp.int32), axis=1) - 1) * ((GLYPH_WIDTH + 1) * scale)
    dots = jnp.where(
        shown[..., None], jnp.asarray(_font(scale))[jnp.maximum(codes, 0)], jnp.uint32(0)
    )  # [K, C, 7]
    height, width = label_size(shown.sum(axis=1, dtype=jnp.int32), scale)
    row, col = _units(centre)
    top = (2 * row - (height - 1) * _UNIT) // (2 * _UNIT)
    left = (2 * col - (width - 1) * _UNIT) // (2 * _UNIT)
    n_words = -(-label_size(length, scale)[1] // 32)
    # The lines of dots of each string as words: u32[K, 7, n_words].
    start = place[..., None, None] - 32 * np.arange(n_words, dtype=np.int32)[None, None, None, :]
    lines = _or(_shifted(dots[..., None], start), axis=1)
    line = (np.arange(resolution, dtype=np.int32)[None, :] - top[:, None]) // scale
    line = jnp.where(present[:, None] & (line >= 0) & (line < GLYPH_HEIGHT), line, GLYPH_HEIGHT)
    lines = jnp.pad(lines, ((0, 0), (0, 1), (0, 0)))
    at = jnp.arange(count)[:, None]
    by_row = [lines[..., k].at[at, line].get(mode="promise_in_bounds") for k in range(n_words)]
    base = 32 * np.arange(-(-resolution // 32), dtype=np.int32)[:, None]

    def write(left, *pieces):
        shifts = (left + 32 * k - base for k in range(n_words))
        return _or(
            jnp.stack([_shifted(piece[None, :], shift) for piece, shift in zip(pieces, shifts)]), axis=0
        )

    return _loop(write, resolution, (left, *by_row))


def codes(string: str) -> np.ndarray:
    """i32[len]: the character codes of a fixed string. Raises ValueError for a character that the font lacks."""
    return np.asarray([FONT_CHARACTERS.index(c) for c in string], np.int32)


def digits(x: Array, places: int) -> Array:
    """i32[..., places]: the character codes of integers, right-aligned, -1 before the first.

    A negative number needs a place for its sign; of numbers that are too long the first digits are lost.
    """
    x = jnp.asarray(x)[..., None]
    powers = np.asarray([10**k for k in range(places - 1, -1, -1)], np.int32).reshape(
        (1,) * (x.ndim - 1) + (-1,)
    )
    shown = (jnp.abs(x) >= powers) | (powers == 1)
    sign = jnp.concatenate([shown[..., 1:] & ~shown[..., :-1], jnp.zeros_like(shown[..., :1])], axis=-1) & (
        x < 0
    )
    minus = jnp.where(sign, jnp.int32(FONT_CHARACTERS.index("-")), jnp.int32(-1))
    return jnp.where(shown, jnp.abs(x) // powers % 10, minus)


def fixed(mask: np.ndarray) -> np.ndarray:
    """The plane of a constant drawing, bool[R, R] (grids, frames, captions); costs nothing at run time."""
    mask = np.asarray(mask, bool)
    rows, cols = mask.shape
    padded = np.pad(mask, ((0, 0), (0, -cols % 32))).reshape(rows, -1, 32)
    return np.ascontiguousarray(
        (padded.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(-1, dtype=np.uint32).T
    )


def paint(layers: Sequence[tuple[Plane, Colour]], background: Colour) -> Array:
    """u8[R, R, 3]: at most seven planes in their colours over a background, later ones over earlier ones."""
    if not 1 <= len(layers) <= MAX_LAYERS:
        raise ValueError(f"paint takes 1 to {MAX_LAYERS} layers, not {len(layers)}")
    resolution = layers[0][0].shape[1]
    first, second, of_first, of_second = _PIXELS_OF_WORD
    planes = barrier(tuple(jnp.asarray(plane).T[:, :, None] for plane, _ in layers))
    words = _words_of(background)
    for plane, (_, colour) in zip(planes, layers):
        mask = jnp.where(plane & first != 0, of_first, jnp.uint32(0)) | jnp.where(
            plane & second != 0, of_second, jnp.uint32(0)
        )
        words = (words & ~mask) | (_words_of(colour) & mask)
    return to_u8(words.reshape(resolution, -1)[:, : 3 * resolution // 4], resolution)


def _pixels_of_word() -> np.ndarray:
    """u32[4, 1, 1, 24]: 32 pixels are 24 words; each holds bytes of two pixels: their plane bits and their bytes."""
    word = np.arange(24)
    of_first = np.asarray([0xFFFFFF, 0xFFFF, 0xFF], np.uint32)[word % 3]
    bits = np.uint32(1) << np.stack([4 * word // 3, (4 * word + 3) // 3]).astype(np.uint32)
    return np.concatenate([bits, [of_first, ~of_first]]).reshape(4, 1, 1, 24)


_PIXELS_OF_WORD = _pixels_of_word()


def _words_of(colour: Colour) -> Array:
    """u32[1, 1, 24]: the words of 32 pixels of one colour."""
    colour = jnp.asarray(colour, jnp.uint8).astype(jnp.uint32)
    pixels = colour[(np.arange(24)[:, None] * 4 + np.arange(4)) % 3]
    return (pixels << np.asarray([[0, 8, 16, 24]], np.uint32)).sum(axis=1, dtype=jnp.uint32).reshape(1, 1, 24)


def _font(scale: int) -> np.ndarray:
    """u32[characters, 7]: lines of dots of each glyph, columns repeated `scale` times, leftmost at bit 0."""
    dots = np.stack([glyph(c) for c in FONT_CHARACTERS]).repeat(scale, axis=2)
    return (dots.astype(np.uint32) << np.arange(dots.shape[2], dtype=np.uint32)).sum(-1, dtype=np.uint32)


def _round(x: Array) -> Array:
    return jnp.round(x).astype(jnp.int32)


def _units(points: Array) -> tuple[Array, Array]:
    """Rows and columns [K] in whole sub-positions."""
    points = _round(jnp.clip(jnp.asarray(points, jnp.float32), -1024.0, 2048.0) * _UNIT)
    return points[:, 0], points[:, 1]


def _inverse(step: Array) -> Array:
    return jnp.where(step == 0, _NOWHERE, 1.0 / jnp.where(step == 0, 1, _UNIT * step).astype(jnp.float32))[
        :, None
    ]


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
    return _loop(
        lambda low, end: _from(low[None, :] - base) & ~_from(end[None, :] - base), resolution, (low, end)
    )


def _from(first: Array) -> Array:
    """u32: bits first .. 31, where `first` may lie outside of 0 .. 31."""
    return jnp.uint32(0xFFFFFFFF) << jnp.clip(first, 0, 32).astype(jnp.uint32)


def _shifted(bits: Array, left: Array) -> Array:
    """u32 bits moved up by `left`, down where it is negative. Shifts by 32 or more give 0 in XLA."""
    up = bits << jnp.maximum(left, 0).astype(jnp.uint32)
    return jnp.where(left >= 0, up, bits >> jnp.maximum(-left, 0).astype(jnp.uint32))


def _or(words: Array, axis: int) -> Array:
    return lax.reduce(words, np.uint32(0), lax.bitwise_or, (axis,))


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
