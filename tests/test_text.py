"""Byte texts against plain Python: what is written, how holes close, and that jit changes nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import text


def plain(part) -> str:
    """The text of a part with its holes left out."""
    return bytes(b for b in np.asarray(part).reshape(-1).tolist() if b).decode("ascii")


def checked(function, *args):
    """The value of a function of arrays, the same with and without jit."""
    eager, jitted = function(*args), jax.jit(function)(*args)
    np.testing.assert_array_equal(eager, jitted)
    assert eager.dtype == jitted.dtype == jnp.uint8
    return jitted


def test_lit():
    assert text.lit("a b\n").tobytes() == b"a b\n"
    assert text.lit("").shape == (0,)
    with pytest.raises(UnicodeEncodeError):
        text.lit("é")


@pytest.mark.parametrize("width", [1, 2, 3, 5, 9, 10])
def test_num(width):
    high = min(10**width - 1, 2**31 - 1)
    low = -(10 ** (width - 1) - 1)
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [[0, 1, high, low, high // 2, 9, -9, 10, -10, 100, -99], rng.integers(low, high, 200)]
    )
    values = values[(values >= low) & (values <= high)].astype(np.int32)
    out = np.asarray(checked(lambda x: text.num(x, width), values))
    assert out.shape == (len(values), width)
    for value, digits in zip(values.tolist(), out):
        assert plain(digits) == str(value)
        assert digits.tobytes().decode().replace("\0", " ") == f"{value:{width}d}"


def test_num_of_other_shapes():
    grid = np.arange(-3, 9, dtype=np.int32).reshape(3, 4)
    out = checked(lambda x: text.num(x, 2), grid)
    assert out.shape == (3, 4, 2) and [plain(c) for c in out.reshape(-1, 2)] == [str(v) for v in range(-3, 9)]
    assert plain(checked(lambda x: text.num(x, 3), np.int32(7))) == "7"
    assert plain(text.num(5, 2)) == "5"
    small = jnp.asarray([200, 7], jnp.uint8)
    assert [plain(c) for c in checked(lambda x: text.num(x, 3), small)] == ["200", "7"]


def test_num_too_long_loses_its_leading_digits():
    assert [plain(text.num(np.int32(v), 2)) for v in (123, 100, 105, 1999)] == ["23", "00", "05", "99"]


def test_when():
    assert plain(checked(lambda c: text.when(c, text.lit("yes")), True)) == "yes"
    assert plain(checked(lambda c: text.when(c, text.lit("yes")), False)) == ""
    flags = np.asarray([True, False, True])
    out = checked(lambda c: text.when(c, text.lit("ab")), flags)
    assert [plain(row) for row in out] == ["ab", "", "ab"]
    rows = np.stack([text.lit("ab"), text.lit("cd"), text.lit("ef")])
    assert plain(checked(text.when, flags, rows)) == "abef"
    assert checked(text.when, np.zeros((2, 3), bool), text.lit("ab")).shape == (2, 3, 2)


def test_choose():
    names = ["ice", "a", "", "border"]
    for k, name in enumerate(names):
        assert plain(checked(lambda i: text.choose(i, names), np.int32(k))) == name
    out = checked(lambda i: text.choose(i, names), np.asarray([[0, 3], [2, 1]], np.int32))
    assert out.shape == (2, 2, 6) and plain(out) == "icebordera"


@pytest.mark.parametrize("present", range(16))
def test_items(present):
    words = ["ab", "c", "def", "g"]
    parts = np.stack([np.pad(text.lit(w), (0, 3 - len(w))) for w in words])
    flags = np.asarray([present >> k & 1 for k in range(4)], bool)
    expected = [w for w, f in zip(words, flags) if f]
    assert plain(checked(text.items, parts, flags)) == ", ".join(expected)
    assert plain(text.items(parts, jnp.asarray(flags), "; ")) == "; ".join(expected)


def test_coordinates():
    rc = np.asarray([[0, 12], [7, 3]], np.int32)
    assert [plain(row) for row in checked(text.coordinates, rc)] == ["(0, 12)", "(7, 3)"]


def test_join_stays_fixed_only_if_all_parts_are():
    fixed = text.join(text.lit("a"), text.lit("bc"))
    assert isinstance(fixed, np.ndarray) and plain(fixed) == "abc"
    traced = text.join(text.lit("a"), text.num(jnp.int32(4), 2), text.lit("!"))
    assert isinstance(traced, jax.Array) and plain(traced) == "a4!"
    rows = text.join(text.lit("<"), text.num(jnp.arange(3), 1), text.lit(">"))
    assert [plain(r) for r in rows] == ["<0>", "<1>", "<2>"]


@pytest.mark.parametrize("rows, cols", [(1, 1), (1, 5), (4, 1), (4, 5), (3, 2), (0, 3)])
@pytest.mark.parametrize("separator", [" ", "", " | "])
def test_table_and_rows_of(rows, cols, separator):
    cells = np.random.default_rng(1).integers(0, 4, (4, 5)).astype(np.int32)
    inside = cells[:rows, :cols].tolist()
    expected = "".join(separator.join(".HGP"[c] for c in row) + "\n" for row in inside)
    table = checked(
        lambda c, r, k: text.table(c, ".HGP", r, k, separator), cells, np.int32(rows), np.int32(cols)
    )
    assert plain(table) == expected == plain(text.table(cells, ".HGP", rows, cols, separator))
    numbers = cells * 37
    expected = "".join(separator.join(map(str, row)) + "\n" for row in numbers[:rows, :cols].tolist())
    out = checked(
        lambda c, r, k: text.rows_of(text.num(c, 3), r, k, separator), numbers, np.int32(rows), np.int32(cols)
    )
    assert plain(out) == expected


def test_close():
    rng = np.random.default_rng(2)
    for width in (1, 7, 64):
        holes = np.where(rng.random((20, width)) < 0.4, 0, rng.integers(1, 128, (20, width))).astype(np.uint8)
        holes[0], holes[1] = 0, 65  # nothing at all; no hole at all
        closed, lengths = jax.jit(jax.vmap(text.close))(holes)
        for row, out, length in zip(holes, np.asarray(closed), np.asarray(lengths).tolist()):
            kept = row[row != 0]
            assert length == len(kept) and out.shape == (width,)
            np.testing.assert_array_equal(out, np.pad(kept, (0, width - length)))
        eager, length = text.close(jnp.asarray(holes[2]))
        np.testing.assert_array_equal(eager, np.asarray(closed)[2])
    fixed, length = text.close(text.join(text.lit("a"), np.zeros(2, np.uint8), text.lit("b")))
    assert isinstance(fixed, np.ndarray) and fixed.tobytes() == b"ab" and length == 2


def test_decode():
    rows = np.zeros((3, 4), np.uint8)
    rows[0, :2], rows[2, :4] = text.lit("hi"), text.lit("full")
    assert text.decode(jnp.asarray(rows)) == ["hi", "", "full"]
