"""Tile pictures against a plain painter that knows nothing of words, strips and barriers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import draw, sprites

BACKGROUND = (9, 80, 161)
KINDS = 5
M, N = 7, 9


def paint(side: int) -> np.ndarray:
    """Noise: every byte of every sprite matters."""
    return np.random.default_rng(side).integers(0, 256, (KINDS, side, side, 3)).astype(np.uint8)


def plain(resolution: int, cells: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """The definition: whole tiles side by side, on whole units of the background, as near to the centre as
    they go.
    """
    side = draw.tile_side(resolution, max(rows, cols))
    unit = 8 if side >= 8 else 4
    top, left = ((resolution - k * side) // 2 // unit * unit for k in (rows, cols))
    out = np.empty((resolution, resolution, 3), np.uint8)
    out[:] = BACKGROUND
    kinds = paint(side)
    for r in range(rows):
        for c in range(cols):
            y, x = top + r * side, left + c * side
            out[y : y + side, x : x + side] = kinds[cells[r, c]]
    return out


@pytest.mark.parametrize("resolution", [48, 64, 224, 256])
def test_tiles_equal_the_plain_painter(resolution):
    sheet = draw.sheet(resolution, tuple(range(1, N + 1)), paint, BACKGROUND)
    rng = np.random.default_rng(0)
    shapes = [(1, 1), (1, N), (M, 1), (M, N), (3, 3), (5, 5), (7, 7), (2, 8), (6, 4), (7, 3)]
    cells = rng.integers(0, KINDS, (len(shapes), M, N)).astype(np.int32)
    rows, cols = np.asarray(shapes, np.int32).T
    for k, (r, c) in enumerate(shapes):  # what lies outside the board may be anything
        outside = (np.arange(M)[:, None] >= r) | (np.arange(N)[None, :] >= c)
        cells[k][outside] = rng.integers(-(2**31), 2**31 - 1, outside.sum())
    painter = jax.jit(lambda x, r, c: draw.tiles(sheet, x, r, c))
    together = np.asarray(jax.jit(jax.vmap(lambda x, r, c: draw.tiles(sheet, x, r, c)))(cells, rows, cols))
    assert together.shape == (len(shapes), resolution, resolution, 3) and together.dtype == np.uint8
    for k, (r, c) in enumerate(shapes):
        np.testing.assert_array_equal(together[k], plain(resolution, cells[k], r, c), err_msg=f"{r} x {c}")
    np.testing.assert_array_equal(painter(cells[3], rows[3], cols[3]), together[3])
    with jax.disable_jit():
        np.testing.assert_array_equal(draw.tiles(sheet, jnp.asarray(cells[7]), 2, 8), together[7])


def paint_window(side: int) -> np.ndarray:
    """Grid lines around a black window, and noise."""
    frame = np.full((side, side, 3), 77, np.uint8)
    frame[: side - draw.edge(side), : side - draw.edge(side)] = 0
    return np.stack([frame, paint(side)[0]])


@pytest.mark.parametrize("resolution", [48, 224, 256])
def test_tints_fill_windows(resolution):
    sheet = draw.sheet(resolution, tuple(range(1, N + 1)), paint_window, BACKGROUND)
    rng = np.random.default_rng(1)
    shapes = [(1, 1), (M, N), (5, 5), (2, 8), (7, 3)]
    cells = rng.integers(0, 2, (len(shapes), M, N)).astype(np.int32)
    tints = np.where(cells[..., None] == 0, rng.integers(0, 256, (*cells.shape, 3)), 0).astype(np.int32)
    rows, cols = np.asarray(shapes, np.int32).T
    shown = jax.jit(jax.vmap(lambda x, t, r, c: draw.tiles(sheet, x, r, c, t)))(cells, tints, rows, cols)
    bare = jax.jit(jax.vmap(lambda x, r, c: draw.tiles(sheet, x, r, c)))(cells, rows, cols)
    for picture, wanted, x, t, (r, c) in zip(*map(np.array, (shown, bare)), cells, tints, shapes):
        side = draw.tile_side(resolution, max(r, c))
        unit, inner = 8 if side >= 8 else 4, side - draw.edge(side)
        top, left = ((resolution - k * side) // 2 // unit * unit for k in (r, c))
        for i, j in np.argwhere(x[:r, :c] == 0):
            y, z = top + i * side, left + j * side
            wanted[y : y + inner, z : z + inner] = t[i, j]
        np.testing.assert_array_equal(picture, wanted)


def test_tile_sides():
    assert [draw.tile_side(64, n) for n in (1, 3, 5, 8, 9, 16)] == [64, 16, 8, 8, 4, 4]
    assert [draw.tile_side(224, n) for n in (3, 8, 13, 27, 28, 29, 56)] == [72, 24, 16, 8, 8, 4, 4]
    for resolution in (48, 64, 224, 256, 448):
        for n in range(1, resolution // 4 + 1):
            side = draw.tile_side(resolution, n)
            assert side * n <= resolution and side % (8 if resolution // n >= 8 else 4) == 0
            assert (side + 8) * n > resolution


def test_too_many_tiles():
    with pytest.raises(ValueError, match="17 x 17 tiles does not fit into 64 px"):
        draw.tile_side(64, 17)
    with pytest.raises(ValueError, match="17 x 17"):
        draw.sheet(64, (3, 17), paint, BACKGROUND)


def test_sheet_refuses_wrong_sprites():
    for wrong in (
        lambda side: np.zeros((2, side, side), np.uint8),
        lambda side: np.zeros((2, side, side + 1, 3), np.uint8),
        lambda side: np.zeros((2, side, side, 3), np.float32),
    ):
        with pytest.raises(ValueError, match="not u8"):
            draw.sheet(64, (3,), wrong, BACKGROUND)
    uneven = lambda side: np.zeros((side, side, side, 3), np.uint8)  # noqa: E731
    with pytest.raises(ValueError, match="sprites"):
        draw.sheet(64, (3, 8), uneven, BACKGROUND)


def test_sheet_is_shared():
    assert draw.sheet(64, (3, 4), paint, BACKGROUND) is draw.sheet(64, (3, 4), paint, BACKGROUND)
    sheet = draw.sheet(64, (5, 6, 7, 8), paint, BACKGROUND)  # one tile size: one copy of the sprites
    assert sheet.words.size * 4 == (KINDS + 1) * 8 * 8 * 3 and sheet.count == KINDS


def test_to_u8():
    words = np.random.default_rng(0).integers(0, 2**32, (16, 12)).astype(np.uint32)
    np.testing.assert_array_equal(draw.to_u8(jnp.asarray(words), 16), words.view(np.uint8).reshape(16, 16, 3))


def test_glyphs():
    for character in sprites._FONT:
        dots = sprites.glyph(character)
        assert dots.shape == (sprites.GLYPH_HEIGHT, sprites.GLYPH_WIDTH)
    pictures = {sprites.glyph(c).tobytes() for c in sprites._FONT}
    assert len(pictures) == len(sprites._FONT)
    assert sprites.string("AB").shape == (7, 11) and not sprites.string("AB")[:, 5].any()
    with pytest.raises(KeyError):
        sprites.glyph("~")


def test_canvas():
    red, blue, black = (255, 0, 0), (0, 0, 255), (0, 0, 0)
    half = sprites.Canvas(8, black).rect(0.5, 0, 1, 1, red).done()
    assert half.shape == (8, 8, 3) and half.dtype == np.uint8
    assert (half[:, 4:] == red).all() and not half[:, :4].any()
    disc = sprites.Canvas(32, black).disc(0.5, 0.5, 0.25, red).done()
    np.testing.assert_array_equal(disc, disc[::-1, ::-1])
    assert disc[..., 0].sum() / 255 / 32**2 == pytest.approx(np.pi / 16, rel=0.02)
    line = sprites.Canvas(32, black).line(0.2, 0.5, 0.8, 0.5, 0.25, red).done()
    assert (line[13:19, 7:25] == red).all() and not line[:11].any() and not line[21:].any()
    assert sprites.Canvas(8, black).line(0.5, 0.5, 0.5, 0.5, 0.5, red).done().any()  # a point
    for corners in ([(0, 0), (1, 0), (0, 1)], [(0, 0), (0, 1), (1, 0)]):  # either way round
        triangle = sprites.Canvas(16, black).polygon(corners, blue).done()
        assert (triangle[2, 2] == blue).all() and not triangle[13, 13].any()


@pytest.mark.parametrize(
    "side, text, scale", [(8, "A", 1), (12, "42", 1), (16, "A", 1), (32, "A", 3), (64, "42", 3)]
)
def test_canvas_text_is_centred_and_whole(side, text, scale):
    ink = (sprites.Canvas(side, (0, 0, 0)).text(text, (255, 255, 255)).done() > 0).all(axis=-1)
    dots = sprites.string(text)
    assert ink.sum() == dots.sum() * scale**2
    rows, cols = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    assert abs((rows[0] + rows[-1]) - (side - 1)) <= 1
    assert abs((cols[0] + cols[-1]) - (side - 1)) <= 1 + scale  # a glyph may have an empty column
    with pytest.raises(ValueError, match="does not fit"):
        sprites.Canvas(side, (0, 0, 0)).text("A" * side, (255, 255, 255)).done()
