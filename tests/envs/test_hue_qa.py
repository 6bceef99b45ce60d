"""Hue questions: colours read from the text alone, lines that never cross, colours that differ to the eye."""

import re
from collections import Counter
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import codec, episode, text
from jaxenv.envs.cognition.hue_qa import APART, GRADIENT, MATCH, NAME, NAMES, PALETTE, N, State
from jaxenv.gen.gradients import layouts

ENV = jaxenv.make("hue_qa", 88)
LEVELS = range(ENV.num_levels)
COUNT = 1000


@jax.jit
@jax.vmap
def look(key, level):
    s = ENV.init(key, level)
    scale = ENV.sample_scale(jax.random.split(key)[0], level)
    texts = [text.close(f(s))[0] for f in (ENV.text_question, ENV.text_obs, ENV.text_state)]
    return s, ENV.solve(s)[0], scale, texts


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    keys = jax.random.split(jax.random.key(0), COUNT)
    return [jax.tree.map(np.asarray, look(keys, jnp.full(COUNT, level))) for level in LEVELS]


grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))
show = jax.jit(
    lambda s: (ENV.solve(s)[0], text.close(ENV.text_question(s))[0], text.close(ENV.text_obs(s))[0])
)
paint = jax.jit(ENV.render)


def rgb(word: str) -> np.ndarray:
    return np.asarray([int(word[k : k + 2], 16) for k in (0, 2, 4)], float)


# The names as the rules state them.
NAMED = {name: rgb(word) for name, word in re.findall(r"([a-z]+) ([0-9a-f]{6})", ENV.rules)}


def lab(colour) -> np.ndarray:
    """CIE L*a*b* of an sRGB colour: a measure of what the eye tells apart, not the one the environment uses."""
    c = np.asarray(colour, float) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    to_xyz = np.asarray([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ linear / np.asarray([0.9505, 1.0, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.asarray([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def difference(a, b) -> float:
    return float(np.linalg.norm(lab(a) - lab(b)))


def answer(question: str, obs: str) -> int:
    """The answer from question and symbolic copy, with nothing of jaxenv."""
    asked, *listed = question.splitlines()
    legend, *rows = obs.splitlines()
    assert legend == "red, green, blue in hexadecimal; . hatched"
    options = [re.fullmatch(rf"{k}\. (.*)", line)[1] for k, line in enumerate(listed, 1)]
    cells = {(r, c): w for r, row in enumerate(rows) if ":" not in row for c, w in enumerate(row.split())}
    places = [(int(r), int(c)) for r, c in re.findall(r"\((\d), (\d)\)", asked)]
    if "Which colour has cell" in asked:
        far = [difference(rgb(cells[places[0]]), NAMED[name]) for name in options]
        return int(np.argmin(far)) + 1
    if "Which gradient runs" in asked:
        first, last = (next(n for n, c in NAMED.items() if (c == rgb(cells[p])).all()) for p in places)
        return options.index(f"{first} to {last}") + 1
    letter = re.search(r"belongs to letter ([A-F])\?", asked)[1]
    (at,) = (p for p, w in cells.items() if w == letter)
    best = []
    for dr, dc in ((0, 1), (1, 0)):  # the line is the longer run of cells that are not hatched
        run = [k for sign in (1, -1) for k in walk(cells, at, (sign * dr, sign * dc), sign)]
        best = max(best, run, key=len)
    known = [(k, rgb(w)) for k, w in best if len(w) == 6]
    steps, colours = np.asarray([k for k, _ in known]), np.stack([c for _, c in known])
    wanted = np.polyval(np.polyfit(steps, colours, 1), 0)
    assert rows[-1].startswith("numbered colours: ")
    swatches = [rgb(w) for w in re.findall(r"\d ([0-9a-f]{6})", rows[-1])]
    off = sorted((np.abs(wanted - s).max(), k) for k, s in enumerate(swatches, 1))
    assert len(off) == 6 and off[0][0] < 4 < 15 < off[1][0]
    return off[0][1]


def walk(cells, at, step, sign):
    """(place along the line, text) of the cells from the next one on."""
    k, out = 1, []
    while (p := (at[0] + k * step[0], at[1] + k * step[1])) in cells and cells[p] != ".":
        out.append((sign * k, cells[p]))
        k += 1
    return out


@pytest.mark.parametrize("level", LEVELS)
def test_texts_alone_suffice(seen, level):
    states, answers, _, (questions, boards, facts) = seen[level]
    for q, o, f, right in zip(*map(text.decode, (questions[:300], boards, facts)), answers):
        assert answer(q, o) == right
        # Upstream's state text names the colours, which answers the first question.
        assert not any(
            re.search(rf"\b{name}\b", part.split("\n", 1)[-1]) for name in PALETTE for part in (o, f)
        )
    assert (np.asarray(grade(states, answers[:, None]).ret) == 1).all()


@pytest.mark.parametrize("level", LEVELS)
def test_lines_never_cross_or_touch(seen, level):
    """Upstream 85 % of boards at the evaluated setting have a line drawn over another."""
    states, _, scale, _ = seen[level]
    np.testing.assert_array_equal((states.lines[:, :, 3] > 0).sum(axis=1), scale["lines"])
    assert set(scale["kind"]) == set(range(ENV.levels["kind"][level][0], ENV.levels["kind"][level][1] + 1))
    for i in range(200):
        owner = {}
        for k, (vertical, index, first, length) in enumerate(states.lines[i, : scale["lines"][i]]):
            assert length >= (3 if states.size[i] == 5 else 4) and first >= 0 and 0 <= index < states.size[i]
            for step in range(first, first + length):
                cell = (step, index) if vertical else (index, step)
                assert cell not in owner and step < states.size[i]
                owner[cell] = k
        for (r, c), k in owner.items():
            assert owner.get((r + 1, c), k) == k == owner.get((r, c + 1), k)
    ends = states.ends.reshape(COUNT, -1)
    assert (np.sort(ends, axis=1) == np.arange(len(NAMES))).all()  # all ends of a board differ


def test_every_layout_is_used():
    for side, count, number in ((5, 2, 14), (5, 3, 30), (6, 3, 36), (7, 4, 42), (8, 5, 344), (8, 6, 364)):
        table = layouts(side, count, 3 if side == 5 else 4)
        assert table.shape == (number, count, 4) and len(np.unique(table, axis=0)) == number
        turned = {frozenset((1 - v, *rest) for v, *rest in lines) for lines in table.tolist()}
        assert turned == {frozenset(map(tuple, lines)) for lines in table.tolist()}  # rows and columns alike


def test_names_are_no_synonyms():
    assert NAMED.keys() == PALETTE.keys()
    assert all((NAMED[name] == PALETTE[name]).all() for name in PALETTE)
    closest = min(difference(PALETTE[a], PALETTE[b]) for a, b in combinations(PALETTE, 2))
    assert closest >= 30  # 2 to 3 can be told apart side by side


@pytest.mark.parametrize("level", LEVELS)
def test_options_differ_to_the_eye(seen, level):
    states, answers, _, (questions, _, _) = seen[level]
    _, board = jax.vmap(jaxenv.envs.cognition.hue_qa._board)(states)
    board = np.asarray(board)
    for i in np.flatnonzero(states.kind == NAME)[:100]:
        colour = board[i].reshape(-1, 3)[states.asked[i]]
        far = [difference(colour, list(PALETTE.values())[n]) for n in states.options[i, :, 0]]
        right = far.pop(answers[i] - 1)
        assert right <= 25 and min(far) >= right + 10
    for i in np.flatnonzero(states.kind == GRADIENT):
        pairs = [tuple(pair) for pair in states.options[i]]
        assert len(set(pairs)) == 8 and {(b, a) for a, b in pairs} == set(pairs)
        # Four colours, each as often first as last: the options do not tell which is right.
        assert sorted(Counter(a for a, _ in pairs).values()) == [2, 2, 2, 2]
    for i in np.flatnonzero(states.kind == MATCH):
        for a, b in combinations(states.swatches[i], 2):
            assert redmean(a, b) >= (APART - 1) ** 2  # the environment's is in whole numbers
    decoded = text.decode(questions)
    for i in np.flatnonzero(states.kind != MATCH)[:100]:
        listed = re.findall(r"\n\d\. (.*)", decoded[i])
        assert len(set(listed)) == 8


def redmean(a, b) -> float:
    red = (int(a[0]) + int(b[0])) / 2
    r, g, b = (np.asarray(a, float) - np.asarray(b, float)) ** 2
    return (2 + red / 256) * r + 4 * g + (2 + (767 - red - 512) / 256) * b


@pytest.mark.parametrize("level", range(2, ENV.num_levels))
def test_blanks_can_be_inferred(seen, level):
    states, _, scale, _ = seen[level]
    for i in np.flatnonzero(states.kind == MATCH)[:150]:
        letters = states.letters[i]
        assert sorted(letters[letters > 0]) == list(range(1, scale["lines"][i] + 1))
        blanks = 0
        for vertical, index, first, length in states.lines[i, : scale["lines"][i]]:
            line = letters[:, index] if vertical else letters[index]
            blank = (line[first : first + length] > 0).sum()
            assert blank <= length // 2 and length - blank >= 2
            blanks += blank
        assert blanks == scale["lines"][i] and states.asked[i] < blanks


@pytest.mark.parametrize("level", LEVELS)
def test_no_number_is_right_often(seen, level):
    states, answers, _, (questions, boards, _) = seen[level]
    assert max(Counter(answers).values()) <= 0.25 * COUNT
    named = answers[states.kind == NAME], states.options[states.kind == NAME, :, 0]
    names = Counter(options[a - 1] for a, options in zip(*named))
    assert not names or (len(names) == len(PALETTE) and max(names.values()) <= 0.15 * len(named[0]))
    if level in (0, 5):  # the name most often offered near another: no favourite among the options either
        assert Counter(states.options[states.kind == NAME, :, 0].ravel()).most_common(1)[0][1] <= COUNT
    distinct = set(zip(text.decode(questions), text.decode(boards)))
    assert len(distinct) >= 990


def test_the_paper_setting_is_evaluated():
    scale = {name: ranges[ENV.eval_level] for name, ranges in ENV.levels.items()}
    assert scale == {"size": (8, 8), "lines": (6, 6), "kind": (0, 2)}


def state(kind, asked, options=(), blanks=(), swatches=()) -> State:
    """5 x 5: red to blue along row 1, yellow to green down column 4 from row 3, black to white along row 3."""
    lines, ends = np.zeros((6, 4), np.int32), np.zeros((6, 2), np.int32)
    lines[:3] = (0, 1, 0, 5), (1, 4, 3, 2), (0, 3, 0, 3)
    ends[:3] = [
        [NAMES.index(n) for n in pair] for pair in (("red", "blue"), ("yellow", "green"), ("black", "white"))
    ]
    pairs, letters, colours = (
        np.zeros((8, 2), np.int32),
        np.zeros((N, N), np.int32),
        np.zeros((6, 3), np.int32),
    )
    for k, words in enumerate(options):
        pairs[k] = [NAMES.index(n) for n in (words.split(" to ") * 2)[:2]]
    for k, cell in enumerate(blanks, 1):
        letters[cell] = k
    colours[: len(swatches)] = np.asarray(swatches).reshape(-1, 3)
    fields = (lines, ends, np.int32(5), letters, colours, np.int32(kind), np.int32(asked), pairs)
    return State(*map(jnp.asarray, fields))


EIGHT = ["green", "blue", "red", "white", "black", "yellow", "pink", "gray"]
PAIRS = [
    "blue to red",
    "red to blue",
    "red to pink",
    "pink to red",
    "pink to cyan",
    "cyan to pink",
    "cyan to blue",
    "blue to cyan",
]
SIX = [(125, 50, 125), (20, 20, 20), (145, 188, 55), (135, 135, 135), (78, 60, 170), (250, 250, 250)]


@pytest.mark.parametrize(
    "s, right",
    [
        (state(NAME, N * 1 + 0, EIGHT), 3),
        (state(NAME, N * 1 + 4, EIGHT), 2),
        (state(NAME, N * 3 + 1, EIGHT), 8),  # halfway from black to white: (135, 135, 135)
        (state(NAME, N * 4 + 4, EIGHT), 1),
        (state(GRADIENT, 0, PAIRS), 2),
        (state(GRADIENT, 2, [*PAIRS[:5], "white to black", "black to white", "gray to white"]), 7),
        (state(MATCH, 0, blanks=[(1, 2), (3, 1)], swatches=SIX), 1),
        (state(MATCH, 1, blanks=[(1, 2), (3, 1)], swatches=SIX), 4),
        (state(MATCH, 2, blanks=[(1, 1), (1, 2), (1, 3)], swatches=SIX), 5),
    ],
)
def test_hand_set_boards(s, right):
    found, q, o = show(s)
    assert int(found) == right == answer(text.decode(q[None])[0], text.decode(o[None])[0])
    replies = jnp.asarray([codec.read(ENV.answer, f"<answer>{k}</answer>") for k in range(1, 9)])
    end = grade(jax.tree.map(lambda x: jnp.broadcast_to(x, (8, *x.shape)), s), replies)
    assert (np.flatnonzero(end.ret == 1) + 1).tolist() == [right]
    assert np.asarray(end.valid).sum() == (6 if int(s.kind) == MATCH else 8)


def test_replies():
    for good in ("4", " 4 ", "(4)"):
        assert codec.read(ENV.answer, f"<answer>{good}</answer>")[0] == 4
    for bad in ("", "0", "9", "red", "4. red", "4.0", "1, 4"):
        assert codec.read(ENV.answer, f"<answer>{bad}</answer>")[0] == codec.UNREADABLE


def test_the_picture_has_the_colours_of_the_text():
    """At the smallest picture each cell holds 7 x 7 pixels of its exact colour."""
    s = state(MATCH, 0, blanks=[(1, 2), (3, 1)], swatches=SIX)
    picture = np.asarray(paint(s))
    count = Counter(map(tuple, picture.reshape(-1, 3).tolist()))
    for colour in [*SIX, PALETTE["red"], PALETTE["blue"], (173, 40, 80), (78, 60, 170)]:
        assert count[tuple(colour)] >= 49
    bare = Counter(map(tuple, np.asarray(paint(s.replace(kind=jnp.int32(NAME)))).reshape(-1, 3).tolist()))
    assert not bare[145, 188, 55]  # no swatches where none are asked for
