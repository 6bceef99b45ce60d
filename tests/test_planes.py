"""Line drawings against plain numpy ones, pixel by pixel."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import planes
from jaxenv.sprites import string

every_size = pytest.mark.parametrize("resolution", (64, 72, 224, 256))


def unpack(plane, resolution) -> np.ndarray:
    """bool[R, R] (or [B, R, R])"""
    rows = np.swapaxes(np.asarray(plane), -1, -2)
    bits = (rows[..., None] >> np.arange(32, dtype=np.uint32)) & 1
    return bits.astype(bool).reshape(*rows.shape[:-1], -1)[..., :resolution]


def eighths(x):
    return np.round(np.asarray(x, np.float64) * 8) / 8


def shapes(resolution: int, count: int = 12):
    """Strokes of all kinds: level, upright, of no length, short, reaching over the border, wholly outside."""
    rng = np.random.default_rng(resolution)
    p = rng.uniform(-12, resolution + 12, (count, 2)).astype(np.float32)
    q = rng.uniform(-12, resolution + 12, (count, 2)).astype(np.float32)
    p[:4] = np.round(rng.uniform(20, resolution - 20, (4, 2)))
    q[:4] = p[:4] + np.asarray([(0, 17), (-15, 0), (0, 0), (0.3, 0.2)], np.float32)
    p[4], q[4] = (-40, -40), (-30, resolution + 40)
    q[5] = p[5] + np.asarray([0.125, 25])
    q[6] = p[6] + np.asarray([25, -0.125])
    width = np.asarray([1, 2, 5, 3, 4.5, 1.5, 2, 9, 1, 2.5, 3, 1.25], np.float32)
    return p, q, width


def distance(resolution, p, q):
    """f64[K, R, R] from each pixel centre to each segment."""
    y, x = np.mgrid[:resolution, :resolution]
    p, q = eighths(p)[:, :, None, None], eighths(q)[:, :, None, None]
    d = q - p
    along = ((y - p[:, 0]) * d[:, 0] + (x - p[:, 1]) * d[:, 1]) / np.maximum((d**2).sum(axis=1), 1e-9)
    along = np.clip(along, 0, 1)
    return np.hypot(y - p[:, 0] - along * d[:, 0], x - p[:, 1] - along * d[:, 1])


def one_each(draw, count, resolution):
    """bool[K, R, R]: the plane of each shape alone."""
    alone = np.eye(count, dtype=bool)
    return unpack(jax.jit(jax.vmap(draw))(alone), resolution)


@every_size
def test_segments(resolution):
    p, q, width = shapes(resolution)
    got = one_each(lambda present: planes.segments(resolution, p, q, width, present), len(p), resolution)
    away = distance(resolution, p, q) - eighths(width / 2)[:, None, None]
    # The stroke's outline is exact to an eighth of a pixel, that of strokes longer than 8 px to a hundredth.
    longer = np.hypot(*(q - p).T) > 8
    margin = np.where(longer, 0.02, 0.13)[:, None, None]
    assert got[away < -margin].all() and not got[away > margin].any()
    assert (got == (away <= 0))[longer].mean() > 0.9999
    assert got[0].sum() >= 18 and got[2].sum() == 21 and not got[4].any()  # width 5: the disc of radius 2.5
    together = unpack(planes.segments(resolution, p, q, width, np.ones(len(p), bool)), resolution)
    np.testing.assert_array_equal(together, got.any(axis=0))


@every_size
def test_thin_strokes_have_no_gaps(resolution):
    p, q, _ = shapes(resolution)
    inside = (np.minimum(p, q) > 0).all(axis=1) & (np.maximum(p, q) < resolution - 1).all(axis=1)
    got = one_each(lambda present: planes.segments(resolution, p, q, 1, present), len(p), resolution)
    for k in np.flatnonzero(inside & (np.hypot(*(q - p).T) > 4)):
        rows, cols = np.flatnonzero(got[k].any(axis=1)), np.flatnonzero(got[k].any(axis=0))
        assert len(rows) == np.ptp(rows) + 1 and len(cols) == np.ptp(cols) + 1


@every_size
def test_discs_and_boxes(resolution):
    p, q, width = shapes(resolution)
    y, x = np.mgrid[:resolution, :resolution]
    got = one_each(lambda present: planes.discs(resolution, p, 2 * width, present), len(p), resolution)
    centre = eighths(p)[:, :, None, None]
    away = np.hypot(y - centre[:, 0], x - centre[:, 1]) - eighths(2 * width)[:, None, None]
    assert (got == (away <= 0))[np.abs(away) > 1e-3].all()
    np.testing.assert_array_equal(
        unpack(planes.discs(resolution, p, 5, np.ones(len(p), bool)), resolution),
        (away + eighths(2 * width)[:, None, None] <= 5).any(axis=0),
    )
    low, high = np.minimum(p, q), np.maximum(p, q)
    got = one_each(lambda present: planes.boxes(resolution, low, high, present), len(p), resolution)
    a, b = eighths(low)[:, :, None, None], eighths(high)[:, :, None, None]
    np.testing.assert_array_equal(got, (y >= a[:, 0]) & (y <= b[:, 0]) & (x >= a[:, 1]) & (x <= b[:, 1]))


@pytest.mark.parametrize(("resolution", "scale"), ((64, 1), (72, 2), (224, 2), (256, 3)))
def test_labels(resolution, scale):
    texts = ["7", "42", "100", "A-B", "", "?", "W"]
    codes = np.full((len(texts), 4), -1, np.int32)
    for k, t in enumerate(texts):
        codes[k, 4 - len(t) :] = planes.codes(t)
    codes[2] = planes.codes("1")[0], -1, *planes.codes("00")  # a hole closes up
    rng = np.random.default_rng(0)
    centre = np.concatenate([rng.uniform(0, resolution, (6, 2)), [[0, resolution - 2]]]).astype(np.float32)
    got = one_each(
        lambda present: planes.labels(resolution, centre, codes, scale, present), len(texts), resolution
    )
    for k, t in enumerate(texts):
        want = np.zeros((resolution + 200, resolution + 200), bool)
        if t:
            dots = np.kron(string(t), np.ones((scale, scale), bool))
            assert dots.shape == planes.label_size(len(t), scale)
            size = np.asarray(dots.shape)
            top, left = np.floor(eighths(centre[k]) - (size - 1) / 2).astype(int) + 100
            want[top : top + size[0], left : left + size[1]] = dots
        np.testing.assert_array_equal(got[k], want[100:-100, 100:-100])
    with pytest.raises(ValueError, match="scale 0"):
        planes.labels(resolution, centre, codes, 0, np.ones(len(texts), bool))


def test_font_and_digits():
    assert [planes.FONT_CHARACTERS.index(str(d)) for d in range(10)] == list(range(10))
    np.testing.assert_array_equal(planes.codes("10-"), [1, 0, planes.FONT_CHARACTERS.index("-")])
    with pytest.raises(ValueError, match="substring"):
        planes.codes("a")
    got = np.asarray(planes.digits(jnp.asarray([0, 7, 40, 305, -6, -21]), 3))
    for row, want in zip(got, ["  0", "  7", " 40", "305", " -6", "-21"]):
        assert "".join(" " if c < 0 else planes.FONT_CHARACTERS[c] for c in row) == want


@every_size
def test_paint_and_fixed(resolution):
    rng = np.random.default_rng(1)
    masks = rng.random((7, resolution, resolution)) < 0.4
    colours = rng.integers(0, 256, (8, 3)).astype(np.uint8)
    for count in (1, 3, 7):
        want = np.broadcast_to(colours[0], (resolution, resolution, 3)).copy()
        for mask, colour in zip(masks[:count], colours[1:]):
            want[mask] = colour
        layers = [(planes.fixed(m), tuple(int(v) for v in c)) for m, c in zip(masks[:count], colours[1:])]
        np.testing.assert_array_equal(planes.paint(layers, tuple(int(v) for v in colours[0])), want)
        traced = jax.jit(lambda c, count=count: planes.paint(
            [(planes.fixed(m), c[k + 1]) for k, m in enumerate(masks[:count])], c[0]
        ))  # fmt: skip
        np.testing.assert_array_equal(traced(jnp.asarray(colours)), want)
    with pytest.raises(ValueError, match="1 to 7"):
        planes.paint([(planes.fixed(masks[0]), (0, 0, 0))] * 8, (0, 0, 0))


def scene(resolution, p, q, width, present):
    half = jnp.asarray([4.0, 6.0])[None, :]
    middle = (p + q) / 2
    labels = planes.labels(resolution, middle, planes.digits(jnp.arange(len(p)), 2), 1, present)
    return planes.paint(
        [
            (planes.segments(resolution, p, q, width, present), (90, 90, 90)),
            (planes.boxes(resolution, middle - half, middle + half, present), (255, 255, 255)),
            (labels, (0, 0, 0)),
            (planes.discs(resolution, p, width + 2, present), (180, 210, 250)),
        ],
        (250, 250, 245),
    )


@every_size
def test_jit_equals_eager_equals_vmap(resolution):
    p, q, width = (jnp.asarray(x) for x in shapes(resolution))
    draw = partial(scene, resolution)
    batch = [jnp.stack([x, x[::-1], jnp.roll(x, 3, axis=0)]) for x in (p, q, width)]
    present = jnp.asarray(np.random.default_rng(2).random((3, len(p))) < 0.8)
    together = np.asarray(jax.jit(jax.vmap(draw))(*batch, present))
    for k in range(3):
        alone = [x[k] for x in (*batch, present)]
        np.testing.assert_array_equal(jax.jit(draw)(*alone), together[k])
    if resolution != 72:
        return  # the eager check is slow and no different at other sizes
    with jax.disable_jit():
        np.testing.assert_array_equal(draw(*(x[0] for x in (*batch, present))), together[0])


@every_size
def test_nothing_present(resolution):
    p, q, width = shapes(resolution)
    picture = np.asarray(scene(resolution, jnp.asarray(p), jnp.asarray(q), width, jnp.zeros(len(p), bool)))
    assert (picture == np.asarray([250, 250, 245])).all()


def test_no_nan():
    p, q, width = shapes(64)
    far = np.float32(1e9)  # beyond any picture: clipped, not overflowing
    p[7], q[7], q[8] = -far, far, far
    with jax.debug_nans(True), jax.disable_jit():
        scene(64, jnp.asarray(p), jnp.asarray(q), width, jnp.ones(len(p), bool))
        planes.segments(64, jnp.zeros((2, 2)), jnp.zeros((2, 2)), 0, jnp.ones(2, bool))
