"""Local minima: all numberings of small grids and exact Python integers as references, exact answers only."""

from collections import Counter
from functools import cache
from itertools import permutations, product
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import codec, episode
from jaxenv.codec import Natural
from jaxenv.envs.algorithmic.grid_local_minimum_counting import SIZES, N, State
from jaxenv.solve.local_minima import STRIDE, counts

ENV = jaxenv.make("grid_local_minimum_counting", 40)
KEYS = jax.random.split(jax.random.key(0), 1000)
SPACE = {(2, 3): 10, (2, 4): 20, (2, 5): 42, (3, 3): 34, (3, 4): 92, (3, 5): 268, (4, 4): 313, (4, 5): 1212}
SPACE |= {(5, 5): 6426}
grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))

solve = jax.jit(jax.vmap(ENV.solve))


@jax.jit
@jax.vmap
def look(key, level):
    s = ENV.init(key, level)
    return s, ENV.solve(s), ENV.text_obs(s), ENV.text_state(s)


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    return [jax.tree.map(np.asarray, look(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


def value(limbs) -> int:
    return int(ENV.answer.format(limbs))


def near(rows, cols, a) -> list[tuple[int, int]]:
    around = product(range(a[0] - 1, a[0] + 2), range(a[1] - 1, a[1] + 2))
    return [b for b in around if b != a and 0 <= b[0] < rows and 0 <= b[1] < cols]


@cache
def numbered(rows, cols) -> Counter:
    """All numberings of a small grid, counted by their local minima."""
    cells = list(product(range(rows), range(cols)))
    grids = np.asarray(list(permutations(range(len(cells)))), np.int8).reshape(-1, rows, cols)
    minima = np.zeros(len(grids), np.int64)
    for r, c in cells:
        lowest = np.logical_and.reduce([grids[:, r, c] < grids[:, y, x] for y, x in near(rows, cols, (r, c))])
        minima |= lowest.astype(np.int64) << STRIDE * r + c
    return Counter(minima.tolist())


def exact(rows, cols, marks: frozenset) -> int:
    """RLVE's way in Python integers: at least these minima, less those with more, set by set."""
    cells = list(product(range(rows), range(cols)))

    @cache
    def at_least(marks: frozenset) -> int:
        @cache
        def ways(placed: int, empty: frozenset) -> int:
            if placed == len(cells):
                return 1
            blocked = empty.union(*(near(rows, cols, x) for x in empty))
            total = (
                (len(cells) - len(blocked) - placed) * ways(placed + 1, empty)
                if len(cells) > len(blocked) + placed
                else 0
            )
            return total + sum(ways(placed + 1, empty - {x}) for x in empty)

        return ways(0, marks)

    def more(marks, rest) -> int:
        total = at_least(marks)
        for k, cell in enumerate(rest):
            if not any(x in marks for x in near(rows, cols, cell)):
                total -= more(marks | {cell}, rest[k + 1 :])
        return total

    return more(marks, [cell for cell in cells if cell not in marks])


def state(*rows: str) -> State:
    """A batch of one hand-set grid."""
    marked = np.zeros((1, N, N), bool)
    for r, row in enumerate(rows):
        marked[0, r, : len(row)] = [c == "X" for c in row]
    return State(jnp.asarray(marked), jnp.full(1, len(rows), jnp.int32), jnp.full(1, len(rows[0]), jnp.int32))


def solved(s: State) -> int:
    return value(np.asarray(solve(s))[0])


def graded(s: State, reply: str):
    return grade(s, jnp.asarray(codec.read(ENV.answer, f"<answer>{reply}</answer>"))[None])


@pytest.mark.parametrize("rows, cols", [(2, 2), (2, 3), (2, 4), (4, 2), (3, 3)])
def test_table_against_all_numberings(rows, cols):
    marks, numberings = counts(rows, cols)
    assert {m: value(n) for m, n in zip(marks.tolist(), numberings)} == dict(numbered(rows, cols))


@pytest.mark.parametrize("size", SIZES)
def test_table_is_complete(size):
    """Every numbering has exactly one set of local minima, so the counts add up to a factorial."""
    marks, numberings = counts(*size)
    values = [value(n) for n in numberings]
    assert sum(values) == factorial(size[0] * size[1]) and min(values) > 0
    assert len(set(marks.tolist())) == len(marks) == SPACE[tuple(sorted(size))]
    assert f"{len(marks):,} for {min(size)} x {max(size)}" in " ".join(ENV.__doc__.split())
    assert max(values) < 10**23


@pytest.mark.parametrize("level, number", [(0, 300), (1, 200), (2, 200), (3, 60), (4, 10), (5, 3)])
def test_python_integers_agree(seen, level, number):
    """The reader of `text_obs` alone."""
    _, answers, boards, _ = seen[level]
    count = cache(exact)
    for board, answer in zip(boards[:number], answers):
        rows = [line.split() for line in bytes(b for b in board if b).decode().splitlines()]
        marks = frozenset((r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == "X")
        assert count(len(rows), len(rows[0]), marks) == value(answer)


@pytest.mark.parametrize("level", range(6))
def test_levels_balance_and_diversity(seen, level):
    states, answers, _, _ = seen[level]
    ranges = [ENV.levels[side][level] for side in ("rows", "cols")]
    sizes = {
        (r, c) for r in range(ranges[0][0], ranges[0][1] + 1) for c in range(ranges[1][0], ranges[1][1] + 1)
    }
    assert set(zip(states.rows.tolist(), states.cols.tolist())) == sizes
    common = Counter(map(value, answers)).most_common(1)[0][1]
    assert common <= (400, 300, 120, 120, 30, 20)[level]
    distinct = {(m.tobytes(), r, c) for m, r, c in zip(states.marked, states.rows, states.cols)}
    # All marks of a size are equally likely: that many are expected to come up at least once.
    expected = sum(
        SPACE[tuple(sorted(s))] * (1 - (1 - 1 / SPACE[tuple(sorted(s))] / len(sizes)) ** 1000) for s in sizes
    )
    assert abs(len(distinct) - expected) < 40 and (level < 4 or len(distinct) > 600)


def test_levels_are_monotone(seen):
    sizes = [(states.rows * states.cols).mean() for states, *_ in seen]
    assert sizes == sorted(sizes)
    assert (
        ENV.levels["rows"][ENV.eval_level] == (2, 5) and ENV.levels["cols"][ENV.eval_level][1] == 5
    )  # Table 8


@pytest.mark.parametrize(
    "rows, answer",
    [
        ((".X.", "..."), 120),  # next to all others: it is 1, the rest is free
        (("X..", "..."), 60),
        (("X.X", "..."), 60),
        (("...", ".X.", "..."), 40320),
        (("X.X", "...", "X.X"), 4800),
        (("XX.", "..."), 0),
        (("....", "....", "...."), 0),  # some cell holds 1
    ],
)
def test_hand_set_grids(rows, answer):
    s = state(*rows)
    assert solved(s) == answer
    assert graded(s, str(answer)).ret[0] == 1


def test_near_misses_earn_nothing():
    """Upstream pays (smaller / larger)^10, 1 to ten digits for any of these."""
    s = state(".....", ".....", "..X..", ".....", ".....")
    right = solved(s)
    for bad in (
        right + 1,
        right - 1,
        right + 10**9,
        right % 10**9,
        right // 10,
        right * 10,
        right % 2**32,
        1,
        0,
    ):
        end = graded(s, str(bad))
        assert end.ret[0] == 0 and end.valid[0] and end.terminated[0], bad
    for good in (f"{right:,}", f"+{right}", f"000{right}", f" {right}\n"):
        assert graded(s, good).ret[0] == 1, good
    for bad in (f"{right}.0", f"about {right}", f"-{right}", "1.2e22", f"{right} {right}", "", "12,67"):
        end = graded(s, bad)
        assert end.ret[0] == 0 and not end.valid[0], bad


def test_numbers_of_any_length_keep_every_digit():
    rng, natural = np.random.default_rng(0), Natural(27, "a number", 36)
    for _ in range(300):
        number = int("".join(map(str, rng.integers(10, size=rng.integers(1, 28)))))
        action = natural.parse(str(number))
        assert action.shape == (3,) and ((action >= 0) & (action < 10**9)).all()
        assert natural.format(action) == str(number)
        assert natural.parse(natural.format(natural.random(rng))) is not None
    assert natural.parse("9" * 27) is not None and natural.parse("1" + "0" * 27) is None
    assert natural.parse("0" * 40).tolist() == [0, 0, 0] and natural.format([0, 0, 0]) == "0"
    assert natural.parse("1,234,567").tolist() == [0, 0, 1234567]
    for bad in ("1,23,456", "1,2", "1234,567", "1 000", "0x10", "٣", "+", "--1", "1_000"):
        assert natural.parse(bad) is None, bad


@pytest.mark.parametrize("level", [0, 3, 5])
def test_state_names_the_marks(seen, level):
    states, _, _, facts = seen[level]
    for marked, rows, cols, f in zip(states.marked[:60], states.rows, states.cols, facts):
        places = ", ".join(f"({r}, {c})" for r, c in np.argwhere(marked))
        shown = bytes(b for b in f if b).decode()
        assert (
            shown == f"{rows} rows, {cols} columns, numbers 1 to {rows * cols}; X at (row, column) {places}"
        )


def test_picture_shows_the_marks_at_the_smallest_size(seen):
    for level, size in enumerate(ENV.min_resolution):
        env, states = jaxenv.make("grid_local_minimum_counting", size), seen[level][0]
        few = jax.tree.map(lambda x: x[:30], states)
        for picture, marked, rows, cols in zip(
            np.asarray(jax.jit(jax.vmap(env.render))(few)), few.marked, few.rows, few.cols
        ):
            side = size // max(rows, cols) // 8 * 8
            top, left = ((size - side * k) // 2 // 8 * 8 for k in (rows, cols))
            blue = (picture[top + 1 :: side, left::side] == (76, 74, 190)).all(axis=-1)
            np.testing.assert_array_equal(blue[:rows, :cols], marked[:rows, :cols])
