"""Addition table: all permutations and counting up from one as references, one solution, all digits count."""

from itertools import pairwise, permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import codec, episode, sprites
from jaxenv.codec import BLANK
from jaxenv.envs.algorithmic.addition_table import LETTERS, N, State

ENV = jaxenv.make("addition_table", 224)
KEYS = jax.random.split(jax.random.key(0), 1000)
grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))

show = jax.jit(jax.vmap(lambda s: (ENV.solve(s), ENV.text_obs(s))))


@jax.jit
@jax.vmap
def look(key, level):
    s = ENV.init(key, level)
    return s, ENV.solve(s), ENV.text_obs(s), ENV.text_state(s)


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    return [jax.tree.map(np.asarray, look(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


def decode(codes) -> str:
    return bytes(b for b in np.asarray(codes) if b).decode()


def table(shown: str) -> tuple[list[str], dict[tuple[str, str], str]]:
    """The letters of the header row and the sums of a table as written in `text_obs`."""
    (plus, *letters), *rows = [line.split() for line in shown.splitlines()]
    assert plus == "+" and [row[0] for row in rows] == letters
    return letters, {(row[0], c): s for row in rows for c, s in zip(letters, row[1:], strict=True)}


def holds(value: dict[str, int], sums) -> bool:
    base = len(value)
    return all(
        value[a] + value[b] == sum(base**k * value[c] for k, c in enumerate(reversed(s)))
        for (a, b), s in sums.items()
    )


def count_up(letters, sums) -> list[int]:
    """Zero is neutral, one is the carry, and every other digit is one more than the digit before."""
    (zero,) = [c for c in letters if all(sums[c, d] == d for d in letters)]
    (one,) = {s[0] for s in sums.values() if len(s) == 2}
    value, letter = {}, zero
    while letter not in value:
        value[letter] = len(value)
        letter = sums[letter, one][-1]
    return [value[c] for c in letters]


def state(letters: str, digits) -> State:
    """A batch of one hand-set table; what stands beyond its base must not matter."""
    of, to = np.full((1, N), 25, np.int32), np.full((1, N), 1, np.int32)
    of[0, : len(letters)] = [LETTERS.index(c) for c in letters]
    to[0, : len(letters)] = digits
    return State(jnp.asarray(of), jnp.asarray(to), jnp.full(1, len(letters), jnp.int32))


def graded(s: State, reply: str):
    return grade(s, jnp.asarray(codec.read(ENV.answer, f"<answer>{reply}</answer>"))[None])


@pytest.mark.parametrize("level, count", [(0, 300), (1, 200), (2, 12)])
def test_one_solution_by_all_permutations(seen, level, count):
    _, answers, tables, _ = seen[level]
    for shown, answer in zip(tables[:count], answers):
        letters, sums = table(decode(shown))
        right = [p for p in permutations(range(len(letters))) if holds(dict(zip(letters, p)), sums)]
        assert right == [tuple(answer[answer != BLANK])]


@pytest.mark.parametrize("level", range(6))
def test_counting_up_from_the_written_table(seen, level):
    """The reader of `text_obs` alone: the table holds, and it gives the answer."""
    states, answers, tables, facts = seen[level]
    low, high = ENV.levels["base"][level]
    assert set(states.base) == set(range(low, high + 1))
    for i in range(0, 1000, 4):
        letters, sums = table(decode(tables[i]))
        base = states.base[i]
        assert len(letters) == base and letters == sorted(set(letters))
        digits = count_up(letters, sums)
        assert sorted(digits) == list(range(base)) and holds(dict(zip(letters, digits)), sums)
        np.testing.assert_array_equal(answers[i], digits + [BLANK] * (N - base))
        (one,) = [c for c, digit in zip(letters, digits) if digit == 1]
        assert decode(facts[i]) == (
            f"{base} letters: base {base}, digits 0 to {base - 1}; on the left of two letters there is only {one}"
        )
        reply = codec.read(ENV.answer, f"<answer>{' '.join(map(str, digits))}</answer>")
        np.testing.assert_array_equal(reply, answers[i])


@pytest.mark.parametrize("level", range(6))
def test_balance_and_diversity(seen, level):
    states, answers, tables, _ = seen[level]
    assert len({t.tobytes() for t in tables}) >= (950 if level == 0 else 990)
    _, counts = np.unique(answers, axis=0, return_counts=True)
    assert counts.max() <= (220, 70, 20, 5, 5, 5)[level]
    # Every letter is used, and the first letter stands for every digit equally often.
    letters = np.bincount(states.letters[np.arange(N)[None] < states.base[:, None]], minlength=26)
    assert letters.min() > 0.6 * letters.max()
    for base in set(states.base):
        first = np.bincount(answers[states.base == base, 0], minlength=base)
        assert len(first) == base and first.min() > 0.4 * first.mean()


def test_levels():
    bases = ENV.levels["base"]
    assert list(bases) == sorted(bases) and all(a[1] < b[0] for a, b in pairwise(bases))
    assert bases[0] == (3, 3) and bases[-1][1] == N  # upstream registers 3 to 10 digits


@pytest.mark.parametrize(
    "letters, digits, shown",
    [
        ("ABC", (2, 0, 1), " +  A  B  C\n A CC  A CB\n B  A  B  C\n C CB  C  A\n"),
        (
            "BKQZ",
            (1, 3, 0, 2),
            " +  B  K  Q  Z\n B  Z BQ  B  K\n K BQ BZ  K BB\n Q  B  K  Q  Z\n Z  K BB  Z BQ\n",
        ),
    ],
)
def test_hand_set_tables(letters, digits, shown):
    """Base 3 with A = 2, B = 0, C = 1: A + A = 4 is CC, A + C = 3 is CB."""
    s = state(letters, digits)
    answer, written = (np.asarray(x)[0] for x in show(s))
    assert [line.split() for line in decode(written).splitlines()] == [
        line.split() for line in shown.splitlines()
    ]
    assert ENV.answer.format(answer) == " ".join(map(str, digits))
    assert graded(s, " ".join(map(str, digits))).ret[0] == 1


def test_all_digits_count_and_layout_does_not():
    s = state("BKQZ", (1, 3, 0, 2))
    for good in ("1 3 0 2", "1, 3, 0, 2", "[1, 3, 0, 2]", " 1;3;0;2\n"):
        assert graded(s, good).ret[0] == 1, good
    # Upstream's original pays for single digits; two swapped ones are wrong here.
    for bad in ("1 3 2 0", "3 1 0 2", "0 1 2 3", "1 1 1 1"):
        end = graded(s, bad)
        assert end.ret[0] == 0 and end.valid[0] and end.terminated[0], bad
    # Digits that the base does not have and other numbers of digits, the base in front (upstream's form).
    for bad in ("1 3 0 4", "4 1 3 0 2", "1 3 0", "1 3\n0 2", "B=1 K=3 Q=0 Z=2", ""):
        end = graded(s, bad)
        assert end.ret[0] == 0 and not end.valid[0], bad
    example = codec.read(ENV.answer, ENV.answer.instruction)
    assert example[0] != codec.UNREADABLE and (example != BLANK).sum() < 3  # too short for any table


def test_numbers_of_two_places_are_read():
    digits = (12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
    s = state(LETTERS[:N], digits)
    assert graded(s, " ".join(map(str, digits))).ret[0] == 1


def test_letters_are_crisp_at_every_smallest_picture(seen):
    """Read back from the pixels: the whole table of an instance in the smallest legible picture."""
    inks = np.asarray([(92, 24, 160), (28, 28, 40)])
    for level, size in enumerate(ENV.min_resolution):
        env = jaxenv.make("addition_table", size)
        states, _, tables, _ = seen[level]
        base, picture = states.base[0], np.asarray(jax.jit(env.render)(jax.tree.map(lambda x: x[0], states)))
        letters, sums = table(decode(tables[0]))
        side = size // (base + 1)
        margin, x, y = (size - side * (base + 1)) // 2, (side - 12) // 2, (side - 8) // 2
        for r, a in enumerate(["+", *letters]):
            for c, b in enumerate(["+", *letters]):
                tile = picture[margin + side * r : margin + side * (r + 1), margin + side * c :][:, :side]
                ink = (tile[:, :, None] == inks).all(axis=-1).any(axis=-1)
                wanted = np.zeros_like(ink)
                word = sprites.string(sums[a, b] if r and c else a if r else b)
                left = x + (11 - word.shape[1]) // 2
                wanted[y : y + 7, left : left + word.shape[1]] = word
                np.testing.assert_array_equal(ink, wanted)
