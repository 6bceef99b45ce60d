"""Strips of colours before and after a hidden rule: the 1D-ARC tasks of Reasoning Gym, drawn answer and all.

The draws are made so that no strip is its own image and so that the examples tell a rule from the others: a
block that moves by its own size has different sizes, one that moves to a dot is once farther away than any
fixed step goes, and so on. The first two examples of a rule are drawn with that in mind where one alone
cannot tell.

Kinds whose strips are built alike are drawn together: the bounds of every draw depend on the kind (`_of`), the
draw and the painting are done once. All kinds live in one program, and drawing each of them apart would take
most of the time to run it and to compile it.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv.draw import barrier

N = 30  # cells of the longest strip
BLOCKS = 6  # most blocks in a row
# Easiest first: levels take the first few of them.
KINDS = (
    "shift", "five", "fill",
    "gravity", "counting", "antigravity", "weighted", "one_step", "roll",
    "touch", "toward", "stretch", "reverse", "mirror",
    "hollow", "denoise", "repair", "own_size", "copy", "repeat", "biggest", "by_size", "palette", "half",
    "sort", "duplicate", "outward", "until", "mark",
)  # fmt: skip
# Kinds with a rule to the left and one to the right.
TURNED = ("shift", "gravity", "counting", "antigravity", "weighted", "one_step", "roll")
# Kinds in which the side of a dot, a seed or a marker is drawn for each strip.
SIDED = ("touch", "toward", "stretch", "mirror", "outward", "until")

_at = np.arange(N, dtype=np.int32)
_nth = np.arange(BLOCKS, dtype=np.int32)
_OWN, _SHARED = 17, 2  # most scalar draws for one strip, for all strips of an instance


class Dice:
    """The random draws behind one pair of strips."""

    def __init__(self, own: Array, shared: Array, cells: Array, n: Array, index: Array):
        """
        Args:
            own: f32[_OWN], shared: f32[_SHARED], cells: f32[2, N], all uniform in [0, 1).
            n: i32[] cells of the strip; some kinds need 10 of them.
            index: i32[] 0 and 1 for the first two examples.
        """
        self._own, self._shared, self._next, self.n = own, shared, 0, n
        self.first, self.second = index == 0, index == 1
        self.noise = cells[0]
        self.colours = _between(cells[1], 1, 9)  # i32[N]
        self._eight = _between(cells[1], 1, 8)

    def whole(self, low, high) -> Array:
        """A whole number, both ends included."""
        self._next += 1
        return barrier(_between(self._own[self._next - 1], low, high))

    def coin(self) -> Array:
        return self.whole(0, 1) == 1

    def colour(self, *taken) -> Array:
        """One of 1 .. 9 without those taken, which are given in ascending order."""
        c = self.whole(1, 9 - len(taken))
        for t in taken:
            c = _skip(c, t)
        return c

    def colours_but(self, taken) -> Array:
        """i32[N]: random, one of 1 .. 9 is left out."""
        return _skip(self._eight, taken)

    def same(self, which: int, low, high) -> Array:
        """A whole number that is the same for all strips of an instance."""
        return _between(self._shared[which], low, high)

    def layout(self, sizes: Array, count: Array, room: Array, gap: Array) -> Array:
        """i32[BLOCKS]: random starts for the first `count` blocks in a row, at least `gap` apart."""
        self._next += BLOCKS + 1
        weight = self._own[self._next - BLOCKS - 1 : self._next] + 0.01
        total = jnp.where(np.arange(BLOCKS + 1) <= count, weight, 0.0).sum()
        used = jnp.where(_nth < count, sizes + gap, 0)
        spare = (room - (used.sum() - gap)).astype(jnp.float32)
        ahead, part = (jnp.where(_BEFORE, x[None, :], 0).sum(axis=1) for x in (used, weight[:-1]))
        return barrier(ahead + jnp.floor(spare * (part + weight[:-1]) / total).astype(jnp.int32))


_BEFORE = np.tril(np.ones((BLOCKS, BLOCKS), bool), -1)


def draw(key: Array, kind: Array, n: Array, count: int) -> Array:
    """i32[count, 2, N]: examples of one rule, strip and image each, 0 beyond n.

    Args:
        kind: i32[] place in `KINDS`.
        n: i32[] cells, at least 10, or 8 for the first three kinds.
    """
    each = _OWN + 1 + 2 * N
    noise = jax.random.uniform(key, (_SHARED + 1 + count * each,))
    shared, strips = noise[: _SHARED + 1], noise[_SHARED + 1 :].reshape(count, each)
    family = np.asarray([[k in names for _, names in FAMILIES].index(True) for k in KINDS])
    family, turned, sided = (
        jnp.asarray(x)[kind] for x in (family, *(np.isin(KINDS, names) for names in (TURNED, SIDED)))
    )

    def one(noise, index):
        own, cells = noise[:_OWN], noise[_OWN + 1 :].reshape(2, N)
        pairs = [make(Dice(own, shared, cells, n, index), kind) for make, _ in FAMILIES]
        pair = jnp.stack([jnp.stack(pair) for pair in pairs])[family]
        mirrored = jnp.where(turned, shared[_SHARED] < 0.5, sided & (noise[_OWN] < 0.5))
        pair = jnp.where(mirrored, pair[:, jnp.clip(n - 1 - _at, 0, N - 1)], pair)
        return jnp.where(_at[None, :] < n, pair, 0)

    return jax.vmap(one)(strips, np.arange(count, dtype=np.int32))


def _between(u: Array, low, high) -> Array:
    """Whole numbers low .. high, i32, from uniform ones in [0, 1)."""
    choices = jnp.asarray(high - low + 1, jnp.int32).astype(jnp.float32)
    return low + jnp.floor(u * choices).astype(jnp.int32)


def _skip(x: Array, taken) -> Array:
    """The numbers from `taken` on move up by one."""
    return jnp.where(x >= taken, x + 1, x)


def _is(kind: Array, *names: str) -> Array:
    return jnp.any(kind == np.asarray([KINDS.index(name) for name in names]))


def _of(kind: Array, value, **other):
    """The value given for the kind at hand by its name, or the first one; numbers or tuples of numbers."""
    for name, x in other.items():
        value = jax.tree.map(lambda a, b, name=name: jnp.where(_is(kind, name), a, b), x, value)
    return value


def _span(start, length) -> Array:
    """bool[N]"""
    return (start <= _at) & (_at < start + length)


def _put(mask: Array, colour, strip=None) -> Array:
    return jnp.where(mask, colour, jnp.zeros(N, jnp.int32) if strip is None else strip)


def _pieces(d: Dice, kind: Array) -> tuple[Array, Array]:
    """A block of one colour alone, with a dot at its right, or with another block.

    fill: two points, and what lies between them; hollow: the reverse.
    own_size: right, by the own size; even in the first example, odd in the second.
    touch, toward, stretch: to the dot, by 1 to 4 toward it but never past it, or up to it and over it. For
    `touch` it is once farther away than any step of `toward`, which once does not come up to it.
    mirror: to the other side of the dot, as far from it; in the first example not next to it.
    outward: the cell at the left end of the block fills the way to the border.
    by_size: the larger block turns to 1, the smaller one to 2; the larger one is first, then second.
    """
    n, step, half = d.n, d.same(0, 1, 4), (d.n - 1) // 2
    least = _of(  # cells between block and dot
        kind, 1, touch=jnp.where(d.first, 5, 1), toward=jnp.where(d.first, step + 1, step),
        mirror=jnp.where(d.first, 1, 0),
    )  # fmt: skip
    sizes = _of(
        kind, (2, jnp.minimum(n // 2, n - 1 - least)), fill=(3, n), hollow=(3, n), own_size=(1, half),
        mirror=(2, half - least), outward=(3, n - 5), by_size=(3, jnp.minimum(8, n // 2)),
    )  # fmt: skip
    size = d.whole(*sizes)
    parity = jnp.where(
        d.first, jnp.maximum(size - size % 2, 2), jnp.where(d.second, size - 1 + size % 2, size)
    )
    size = _of(kind, size, own_size=parity)
    between = d.whole(*_of(kind, (least, n - 1 - size), mirror=(least, half - size), by_size=(2, size - 1)))
    together = _of(
        kind, size + between + 1, fill=size, hollow=size, own_size=2 * size + 1,
        mirror=2 * (size + between) + 1, outward=size + 4,
    )  # fmt: skip
    start = d.whole(0, n - together) + _of(kind, 0, outward=2)
    dot = _of(kind, 2, touch=1)
    lowest = _of(kind, dot + 1, fill=1, hollow=1, own_size=1, outward=1)
    colour = d.whole(lowest, 9)
    other = d.colour(colour)
    place = start + size + between

    # Each piece is a start, a length and a colour; the second one lies over the first.
    none, block, spot = (0, 0, 0), (start, size, colour), (place, 1, dot)
    ends = (start, 1, colour), (start + size - 1, 1, colour)
    small, ahead = between, d.first | (~d.second & d.coin())
    left, right = jnp.where(ahead, size, small), jnp.where(ahead, small, size)
    later = d.whole(start + left + 1, n - right)
    first = jnp.where(ahead, 1, 2)
    before = _of(
        kind, (block, spot), fill=ends, hollow=(block, none), own_size=(block, none),
        outward=((start - 1, 1, other), block), by_size=((start, left, 3), (later, right, 3)),
    )  # fmt: skip
    moved = _of(kind, start + between, toward=start + step, mirror=place + between + 1, own_size=start + size)
    after = _of(
        kind, ((moved, size, colour), spot), fill=(block, none), hollow=ends,
        own_size=((moved, size, colour), none), stretch=((start, place - start + 1, colour), none),
        outward=((0, start, other), block), by_size=((start, left, first), (later, right, 3 - first)),
    )  # fmt: skip
    under, over, under_after, over_after = barrier((*before, *after))
    return _piece(over, _piece(under)), _piece(over_after, _piece(under_after))


def _piece(piece, strip=None) -> Array:
    start, length, colour = piece
    return _put(_span(start, length), colour, strip)


def _moved(d: Dice, kind: Array) -> tuple[Array, Array]:
    """A block of one or many colours.

    shift: by 1 to 4; never by the block's own size and never up to the border.
    roll: the same around the border, which the block lies across afterwards.
    reverse: in place, with one end of another colour, or random ones; not in the middle in the first example.
    repeat: a pattern of at least two colours, shown twice, goes on to the end.
    """
    n, step, solid = d.n, d.same(0, 1, 4), (d.same(1, 0, 1) == 1) & ~_is(kind, "repeat")
    size = d.whole(*_of(
        kind, (1, n - step - 2), roll=(2, n // 2), reverse=(3, n - 2), repeat=(2, jnp.minimum(5, (n - 1) // 2))
    ))  # fmt: skip
    size = _of(kind, size, shift=jnp.where(size == step, size + 1, size))
    start = d.whole(*_of(
        kind, (0, n - 1 - step - size), roll=(n - size - step + 1, n - 1 - step), reverse=(0, n - size),
        repeat=(0, 0),
    ))  # fmt: skip
    centred = d.first & (2 * start + size == n)
    start = _of(kind, start, reverse=jnp.where(centred, start + 1, start))
    # A cell of the block that has another colour than its first one in any case.
    odd = _of(kind, -1, reverse=jnp.where(d.coin() & solid, 0, size - 1), repeat=1)
    block = jnp.where(solid, d.colours[0], d.colours)
    block = barrier(jnp.where(_at == odd, d.colour(d.colours[0]), block))
    moves = ~_is(kind, "reverse", "repeat")
    before, after = (_at - start) % n, (_at - jnp.where(moves, start + step, start)) % n
    goes = _of(kind, after, reverse=size - 1 - after, repeat=after % size)
    shown, length = _of(kind, (size, size), repeat=(2 * size, n))
    index = _of(kind, before, repeat=before % size)
    return _put(before < shown, block[index % N]), _put(after < length, block[goes % N])


def _scattered(d: Dice, kind: Array) -> tuple[Array, Array]:
    """Single cells, two empty ones before a coloured one: that one falls farther than by one.

    gravity: to the left; counting: as many ones at the left; one_step: all but what lies against the wall,
    where there is something; five: every coloured cell turns to 5.
    """
    start = _of(kind, 0, one_step=1)
    last = d.whole(start + 2, d.n - 1)
    gap = last - start
    hole = d.whole(0, gap - 1)
    other = (hole + 1 + d.whole(0, gap - 2)) % gap
    empty = (_at == start + hole) | (_at == start + other) | ((d.noise >= 0.5) & (_at >= start))
    strip = jnp.where(_at == last, d.colour(1, 2, 5), jnp.where(empty | (_at >= d.n), 0, d.colours))
    strip = barrier(strip)
    place = (
        jnp.where(_at[None, :] <= _at[:, None], (strip != 0)[None, :], False).sum(axis=1, dtype=jnp.int32) - 1
    )
    goes = (strip != 0)[:, None] & (place[:, None] == _at[None, :])
    below = jnp.concatenate([strip[1:], jnp.zeros(1, jnp.int32)])
    return strip, _of(
        kind,
        jnp.where(goes, strip[:, None], 0).sum(axis=0),
        counting=_put(_at <= place[-1], 1),
        one_step=jnp.where(_at < jnp.argmax(strip == 0), strip, below),
        five=_put(strip != 0, 5),
    )


def _two_colours(d: Dice, kind: Array) -> tuple[Array, Array]:
    """Ones and twos, one of them in the wrong order, and a hole.

    antigravity: twos to the left and ones to the right; weighted: twos to the left and ones behind them.
    """
    one = d.whole(0, d.n - 2)
    two = d.whole(one + 1, d.n - 1)
    hole = _skip(_skip(d.whole(0, d.n - 3), one), two)
    strip = jnp.where(d.noise < 0.25, 1, jnp.where(d.noise < 0.5, 2, 0))
    strip = jnp.where(
        (_at == hole) | (_at >= d.n), 0, jnp.where(_at == one, 1, jnp.where(_at == two, 2, strip))
    )
    strip = barrier(strip)
    ones, twos = barrier(tuple((strip == c).sum(dtype=jnp.int32) for c in (1, 2)))
    return strip, _put(_at < twos, 2, _put(_span(_of(kind, d.n - ones, weighted=twos), ones), 1))


def _noise(d: Dice, kind: Array) -> tuple[Array, Array]:
    """A block and up to three single cells. denoise: those around it vanish; repair: those inside take its colour."""
    inside = _is(kind, "repair")
    size = d.whole(*_of(kind, (2, d.n - 4), repair=(6, d.n)))
    start, colour = d.whole(0, d.n - size), d.colour(5)
    count = jnp.minimum(d.whole(1, 3), _of(kind, 3, repair=size // 2 - 1))
    allowed = jnp.where(inside, _span(start + 1, size - 2), ~_span(start - 1, size + 2) & (_at < d.n))
    block, chosen = _put(_span(start, size), colour), jnp.zeros(N, bool)
    for k in range(3):
        allowed = barrier(allowed)
        cell = jnp.argmax(jnp.where(allowed, d.noise, -1.0)).astype(jnp.int32)
        chosen = chosen | ((_at == cell) & allowed & (k < count))
        allowed = allowed & (jnp.abs(_at - cell) > jnp.where(inside, 0, 1))
    return _put(chosen, jnp.where(inside, d.colours_but(colour), colour), block), block


def _duplicate(d: Dice, kind: Array) -> tuple[Array, Array]:
    """Copies of a block of ones, in the colour of a seed beside it, from the seed to the border.

    In the first example there is room for two of them at the left.
    """
    size = d.whole(2, jnp.where(d.first, 2, 4))
    start = d.whole(jnp.where(d.first, 5, 3), d.n - size - 3)
    left, right = d.coin() | d.first, d.coin()
    strip = image = _put(_span(start, size), 1)
    for side, beyond, colour in (
        (left, start - 2 - _at, d.colour(1)),
        (right | ~left, _at - start - size - 1, d.colour(1)),
    ):
        strip = _put(side & (beyond == 0), colour, strip)
        image = _put(side & (beyond >= 0) & (beyond % (size + 1) < size), colour, image)
    return strip, image


def _rows(d: Dice, kind: Array) -> tuple[Array, Array]:
    """Up to `BLOCKS` blocks in a row.

    copy: the block at the left goes around every dot, in the dot's colour: the block's own, or others.
    biggest: the largest block turns to 1: the first one in the first example, the last one in the second.
    palette: blocks of fives take the colours that stand at the left, in their order; none of these is 5.
    half: the left half of every block turns to 8, rounded down; the first examples have 3 and 4 cells.
    sort: by size from the left, one cell apart; sizes never ascend before, nor descend in the first example.
    until: toward a 5 at the left border, every cell fills the way to the next one.
    mark: blocks of two cells get a 3 on either side; the first example has another block, too.
    """
    n, early = d.n, d.first | d.second
    length = d.whole(2, jnp.minimum(4, n // 2 - 2))
    arm = jnp.where(n >= 11, d.same(0, 1, 2), 1)
    length = _of(kind, length, copy=2 * arm + 1, until=1)  # of all blocks, where they are alike
    most = _of(
        kind, jnp.minimum(3, (n + 1) // (length + 1) - 1), biggest=jnp.minimum(4, n // 3),
        palette=jnp.minimum(4, n // (length + 2)), half=jnp.where(early, 2, jnp.minimum(3, n // 3)),
        sort=jnp.where(d.first, 3, jnp.minimum(4, n // 3)), until=4, mark=jnp.minimum(3, (n + 2) // 5),
    )  # fmt: skip
    count = d.whole(_of(kind, 2, copy=1, sort=jnp.where(d.first, 3, 2)), most)
    high = _of(
        kind, length, biggest=jnp.minimum(6, n // count), half=n // count - 1, sort=(n + 1) // count - 1
    )
    head = d.whole(jnp.minimum(2, high), high)  # the largest block; the first one to be sorted
    low, high = _of(kind, (length, length), biggest=(1, head - 1), half=(2, high), mark=(1, 3),
                    sort=(jnp.where((_nth == 2) & d.first, head, 1), high))  # fmt: skip
    sizes = _between(d.noise[:BLOCKS], low, high)
    place = d.whole(0, count - 1)
    place = _of(kind, place, biggest=jnp.where(d.first, 0, jnp.where(d.second, count - 1, place)))
    chosen, begin = _nth == place, _nth == 0
    other = d.whole(1, head - 1)
    sizes = _of(
        kind, sizes,
        biggest=jnp.where(chosen, head, sizes),
        half=jnp.where(begin & early, jnp.where(d.first, 3, 4), sizes),
        sort=jnp.where(begin, head, jnp.where(_nth == 1, other, sizes)),
        mark=jnp.where(chosen, 2, jnp.where((sizes == 2) & d.first, 3, sizes)),
    )  # fmt: skip
    packed = _is(kind, "sort") & (d.same(1, 0, 1) == 1)
    sizes, count = _of_each_size(d, packed, sizes, count)
    edge = _of(kind, 0, copy=length + 1, palette=count + 1, until=2)
    starts = edge + d.layout(sizes, count, n - edge, _of(kind, 1, until=0, mark=2))
    # The space that each block and the gap behind it take in front of others: in order, or by size.
    smaller = (sizes[None, :] < sizes[:, None]) | ((sizes[None, :] == sizes[:, None]) & _BEFORE)
    in_order, by_size = (
        jnp.where(x & (_nth < count)[None, :], (sizes + 1)[None, :], 0).sum(axis=1)
        for x in (_BEFORE, smaller)
    )
    starts = jnp.where(packed, in_order, starts)

    # Layers of pieces: start, length and colour. What lies under the blocks is there before and after, but
    # for the marks.
    rank = (d.noise[None, :8] < d.noise[:8, None]).sum(axis=1, dtype=jnp.int32)[:BLOCKS]
    colour = d.colour(1)
    one = jnp.full(BLOCKS, colour)
    alike = d.same(1, 0, 1) == 1
    dots = jnp.where(alike, one, jnp.where(begin, d.colour(colour), d.colours[:BLOCKS]))
    free, five = (d.colours_but(taken)[:BLOCKS] for taken in (3, 5))
    palette = _skip(rank + 1, 5)
    ahead = jnp.concatenate([jnp.zeros(1, jnp.int32), starts[:-1]])
    two, zero = jnp.full(BLOCKS, 2), jnp.zeros(BLOCKS, jnp.int32)
    under = _of(
        kind, (zero, zero, zero), copy=(zero, jnp.where(begin, length, 0), one), palette=(_nth, one // one, palette),
        half=(starts, sizes, two), until=(zero, jnp.where(begin, 1, 0), two + 3),
        mark=(starts - 1, jnp.where(sizes == 2, 4, 0), two + 1),
    )  # fmt: skip
    before = _of(
        kind, (starts, sizes, one), copy=(starts + arm, one // one, dots), palette=(starts, sizes, two + 3),
        half=(starts, sizes, two), until=(starts, sizes, five), mark=(starts, sizes, free),
    )  # fmt: skip
    after = _of(
        kind, (starts, sizes, one), copy=(starts, sizes, dots), biggest=(starts, sizes, jnp.where(chosen, 1, one)),
        palette=(starts, sizes, palette), half=(starts, sizes // 2, two + 6), sort=(by_size, sizes, one),
        until=(ahead + 1, starts - ahead, five), mark=(starts, sizes, free),
    )  # fmt: skip
    under, before, after = (_layer(layer, count) for layer in barrier((under, before, after)))
    unmarked = jnp.where(_is(kind, "mark"), 0, under)
    return jnp.where(before > 0, before, unmarked), jnp.where(after > 0, after, under)


def _of_each_size(d: Dice, wanted: Array, sizes: Array, count: Array) -> tuple[Array, Array]:
    """Where it is wanted, one block of each size from 1 on, as many as fit, never in ascending order."""
    most = (d.n >= np.asarray([2, 5, 9, 14, 20, 27])).sum(dtype=jnp.int32)  # k sizes take k (k + 3) / 2 cells
    noise = jnp.where(_nth < most, d.noise[:BLOCKS], 2.0)
    each = 1 + (noise[None, :] < noise[:, None]).sum(axis=1, dtype=jnp.int32)
    swapped = d.whole(0, most - 2)
    near = jnp.where(_nth == swapped, swapped + 2, jnp.where(_nth == swapped + 1, swapped + 1, _nth + 1))
    ascending = jnp.all((each == _nth + 1) | (_nth >= most))
    each = jnp.where(d.first | ascending, near, each)
    return barrier((jnp.where(wanted, each, sizes), jnp.where(wanted, most, count)))


def _layer(layer: tuple[Array, Array, Array], count: Array) -> Array:
    """i32[N]: the first `count` of i32[BLOCKS] pieces that do not overlap."""
    start, length, colour = (x[:, None] for x in layer)
    covered = (start <= _at[None, :]) & (_at[None, :] < start + length) & (_nth < count)[:, None]
    return jnp.where(covered, colour, 0).max(axis=0)


FAMILIES: tuple[tuple[Callable[[Dice, Array], tuple[Array, Array]], tuple[str, ...]], ...] = (
    (_pieces, ("fill", "hollow", "own_size", "touch", "toward", "stretch", "mirror", "outward", "by_size")),
    (_moved, ("shift", "roll", "reverse", "repeat")),
    (_scattered, ("gravity", "counting", "one_step", "five")),
    (_two_colours, ("antigravity", "weighted")),
    (_noise, ("denoise", "repair")),
    (_duplicate, ("duplicate",)),
    (_rows, ("copy", "biggest", "palette", "half", "sort", "until", "mark")),
)
