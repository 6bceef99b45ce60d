"""Klo blocks: every reachable array by search, means by plain loops, upstream pitfalls, the drawing."""

import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import codec, episode, sprites, text
from jaxenv.envs.puzzles import klo_blocks
from jaxenv.envs.puzzles.klo_blocks import N, State

ENV = jaxenv.make("klo_blocks", 256)
LEVELS = range(ENV.num_levels)
COUNT = 1000


@jax.jit
@jax.vmap
def look(key, level):
    s = ENV.init(key, level)
    scale = ENV.sample_scale(jax.random.split(key)[0], level)
    return s, ENV.solve(s)[0], scale["n"], text.close(ENV.text_obs(s))[0], text.close(ENV.text_state(s))[0]


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    keys = jax.random.split(jax.random.key(0), COUNT)
    return [jax.tree.map(np.asarray, look(keys, jnp.full(COUNT, level))) for level in LEVELS]


grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))
paint = jax.jit(ENV.render)


def run(values, k) -> int:
    """Length of the longest block of elements of at least k."""
    return max(len(block) for block in "".join("x" if v >= k else " " for v in values).split(" "))


def search(values, k) -> int:
    """The answer by trying all moves in all orders."""
    known, todo, best = {tuple(values)}, [tuple(values)], 0
    while todo:
        now = todo.pop()
        best = max(best, run(now, k))
        for i, v in enumerate(now):
            for j in (i - 1, i + 1):
                if v > k and 0 <= j < len(now):
                    after = list(now)
                    after[i], after[j] = v - 1, after[j] + 1
                    if (after := tuple(after)) not in known:
                        known.add(after)
                        todo.append(after)
    return best


def by_means(values, k) -> int:
    blocks = [(i, j) for i in range(len(values)) for j in range(i + 1, len(values) + 1)]
    return max(j - i for i, j in [*blocks, (0, 0)] if sum(values[i:j]) >= k * (j - i))


def read(obs: str) -> tuple[list[int], int]:
    k, values = re.fullmatch(r"K = (\d+)\n([\d ]+)", obs).groups()
    return [int(v) for v in values.split(" ")], int(k)


@pytest.mark.parametrize("level", LEVELS)
def test_text_alone_suffices(seen, level):
    states, answers, sizes, boards, facts = seen[level]
    for o, f, n, right in zip(text.decode(boards), text.decode(facts), sizes, answers):
        values, k = read(o)
        assert by_means(values, k) == right and len(values) == n
        assert 1 <= min(values) < k <= max(values) <= 2 * n
        assert f == (
            f"{n} elements, {sum(v >= k for v in values)} of them at least K; "
            f"sum of all elements minus K: {sum(values) - n * k}"
        )
    assert (np.asarray(grade(states, answers[:, None]).ret) == 1).all()


def test_search_of_all_moves_agrees(seen):
    _, answers, _, boards, _ = seen[0]
    for o, right in zip(text.decode(boards[:250]), answers):
        assert search(*read(o)) == right
    _, answers, _, boards, _ = seen[1]
    small = [(read(o), a) for o, a in zip(text.decode(boards), answers) if len(o) == len("K = 9\n1 2 3 4 5")]
    assert len(small) > 10
    for (values, k), right in small[:10]:
        assert search(values, k) == right


@pytest.mark.parametrize("level", LEVELS)
def test_every_length_is_asked_for(seen, level):
    """Upstream leaves out 1 and n: three elements always have the answer 2."""
    states, answers, sizes, boards, _ = seen[level]
    low, high = ENV.levels["n"][level]
    assert set(sizes) == set(range(low, high + 1))
    for n in range(low, high + 1):
        count = Counter(answers[sizes == n])
        assert set(count) == set(range(1, n + 1))
        assert max(count.values()) <= (1 / n + 0.12) * (sizes == n).sum()
        assert min(count.values()) >= 0.3 / n * (sizes == n).sum()
    assert max(Counter(answers).values()) <= 0.4 * COUNT
    # Counting the bars that reach the threshold, or the longest run of them, is not enough.
    tall = (states.values >= states.threshold[:, None]).sum(axis=1)
    runs = np.asarray([run(v[:n], k) for v, n, k in zip(states.values, sizes, states.threshold)])
    assert (tall == answers).mean() <= 0.55 and (runs == answers).mean() <= 0.55
    assert len(set(text.decode(boards))) >= (990 if level else 750)  # n = 3: some 600 arrays and thresholds


def test_the_paper_setting_is_evaluated():
    low, high = ENV.levels["n"][ENV.eval_level]
    assert low <= 7 <= high and ENV.num_levels >= 4


def state(values, k) -> State:
    padded = np.pad(np.asarray(values, np.int32), (0, N - len(values)))
    return State(jnp.asarray(padded), jnp.int32(len(values)), jnp.int32(k))


@pytest.mark.parametrize(
    "values, k, right",
    [
        ((5, 1, 1), 3, 2),  # 5 1 becomes 3 3
        ((5, 1, 3), 3, 3),
        ((1, 5, 1), 3, 2),
        ((2, 2, 2, 6), 6, 1),
        ((9, 1, 1, 1, 1, 9), 4, 2),  # 9 1 1 has 11, one short of three times 4
        ((1, 8, 1, 8, 1), 3, 5),
        ((10, 1, 1, 1, 2, 3, 1), 3, 6),  # all but the last sum to 18
        (tuple(range(1, 17)), 16, 1),
        (tuple(range(1, 17)), 15, 3),  # 14 15 16
    ],
)
def test_hand_set_arrays(values, k, right):
    s = state(values, k)
    assert by_means(values, k) == right
    if len(values) < 7:
        assert search(values, k) == right
    replies = jnp.asarray([codec.read(ENV.answer, f"<answer>{a}</answer>") for a in range(18)])
    end = grade(jax.tree.map(lambda x: jnp.broadcast_to(x, (18, *x.shape)), s), replies)
    assert np.flatnonzero(end.ret == 1).tolist() == [right]
    assert np.flatnonzero(end.valid).tolist() == list(range(len(values) + 1))


def test_replies():
    for good in ("4", " 4 ", "(4)", "+4"):
        assert codec.read(ENV.answer, f"<answer>{good}</answer>")[0] == 4
    for bad in ("", "four", "17", "-1", "4.0", "4 5"):
        assert codec.read(ENV.answer, f"<answer>{bad}</answer>")[0] == codec.UNREADABLE


@pytest.mark.parametrize("level", [0, ENV.eval_level, 5])
def test_bars_are_in_proportion_and_values_below_them(seen, level):
    """Upstream scales from the smallest value, whose bar has no height and hides its number."""
    s = jax.tree.map(lambda x: x[0], seen[level][0])
    picture = np.asarray(paint(jax.tree.map(jnp.asarray, s)))
    axis = (picture == klo_blocks.AXIS).all(axis=2)[:, 100:200].all(axis=1).argmax()
    height = axis - 7  # of the largest
    for colour, chosen in (
        (klo_blocks.HIGH, s.values >= s.threshold),
        (klo_blocks.LOW, s.values < s.threshold),
    ):
        heights = (picture == colour).all(axis=2).sum(axis=0)
        bars = [h for k, h in enumerate(heights) if h and not heights[k - 1]]
        wanted = s.values[: s.n][chosen[: s.n]] * height / s.values.max()
        # The line of the threshold covers one row of the green bars.
        np.testing.assert_allclose(bars, wanted, atol=2.0)
    line = (picture == klo_blocks.LINE).all(axis=2)[:, 100:].sum(axis=1).argmax()
    assert abs((axis - 1 - line) - s.threshold * height / s.values.max()) <= 1
    # Every dot of every number stands below the bars.
    ink = (picture == klo_blocks.INK).all(axis=2)
    assert (
        ink.sum()
        == ink[axis + 1 :].sum()
        == sum(int(sprites.glyph(d).sum()) for v in s.values[: s.n] for d in str(v))
    )


def test_numbers_stay_apart_at_the_smallest_picture():
    for n, size in ((8, 88), (16, 160)):
        env = jaxenv.make("klo_blocks", size)
        picture = np.asarray(jax.jit(env.render)(state([10] * n, 10)))
        rows = np.flatnonzero((picture == klo_blocks.INK).all(axis=2).any(axis=1))
        assert len(rows) == 14  # two lines of seven dots
        for line in (rows[:7], rows[7:]):
            columns = np.flatnonzero((picture[line] == klo_blocks.INK).all(axis=2).any(axis=0))
            gaps = np.diff(columns) - 1
            # Inside a number the digits are at most 3 dots apart (a 1 is narrow), between numbers more.
            assert (gaps > 3).sum() == n // 2 - 1
