"""Arc1D: rules written once more as plain functions, Reasoning Gym's tasks, one answer per set of examples."""

from collections import Counter
from itertools import pairwise
from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reasoning_gym.arc.arc_1d import Arc1DConfig, Arc1DDataset

import jaxenv
from jaxenv import codec, episode
from jaxenv.codec import BLANK
from jaxenv.envs.arc.arc_1d import COLOURS, EXAMPLES, UNKNOWN, State
from jaxenv.gen.strips import KINDS, N

ENV = jaxenv.make("arc_1d", 184)
KEYS = jax.random.split(jax.random.key(0), 1000)
NAMES = KINDS
grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))
show = jax.jit(jax.vmap(lambda s: (ENV.solve(s), ENV.text_obs(s), ENV.text_state(s))))


@jax.jit
@jax.vmap
def look(key, level):
    return ENV.init(key, level), ENV.sample_scale(jax.random.split(key)[0], level)["kind"]


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances and their kinds."""
    return [jax.tree.map(np.asarray, look(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


# The rules on lists, from strip to image; None where a rule does not apply.


def runs(x, solid=True):
    """(start, length, colour) of the runs of one colour, or of coloured cells at all."""
    found = []
    for i, c in enumerate(x):
        if c and i and (x[i - 1] == c if solid else x[i - 1]):
            start, length, colour = found[-1]
            found[-1] = (start, length + 1, colour)
        elif c:
            found.append((i, 1, c))
    return found


def painted(n, pieces):
    y = [0] * n
    for start, length, colour in pieces:
        y[start : start + length] = [colour] * length
    return y


def shift(step):
    def rule(x):
        cells = {i + step: c for i, c in enumerate(x) if c}
        inside = all(0 <= i < len(x) for i in cells)
        return [cells.get(i, 0) for i in range(len(x))] if inside else None

    return rule


def roll(step):
    return lambda x: [x[(i - step) % len(x)] for i in range(len(x))]


def turned(rule):
    return lambda x: (y := rule(x[::-1])) and y[::-1]


def gravity(x):
    return sorted(x, key=lambda c: c == 0)


def counting(x):
    return sorted((min(c, 1) for c in x), reverse=True)


def antigravity(x):
    return sorted(x, key=lambda c: (1, 2, 0)[c]) if set(x) <= {0, 1, 2} else None


def weighted(x):
    return sorted(x, reverse=True) if set(x) <= {0, 1, 2} else None


def one_step(x):
    y = list(x)
    for i in range(1, len(y)):  # as upstream: a run moves as a whole
        if y[i] and not y[i - 1]:
            y[i - 1], y[i] = y[i], 0
    return y


def dotted(dots, place):
    """Rules for a block and a dot of certain colours: `place` gives the pieces that replace the block."""

    def rule(x):
        found = runs(x)
        if len(found) != 2:
            return None
        dot, block = found if found[0][1] == 1 and found[0][2] in dots else found[::-1]
        if dot[1] != 1 or dot[2] not in dots or block[2] in dots - set(range(3, 10)) or dot[2] == block[2]:
            return None
        pieces = place(len(x), dot[0], *block)
        inside = pieces and all(p >= 0 and p + length <= len(x) for p, length, _ in pieces)
        return painted(len(x), [dot, *pieces]) if inside else None

    return rule


def touch(n, dot, start, length, colour):
    return [(dot - length if start < dot else dot + 1, length, colour)]


def toward(step):
    def place(n, dot, start, length, colour):
        by = min(step, (dot - length - start) if start < dot else (start - dot - 1))
        return [(start + by if start < dot else start - by, length, colour)]

    return place


def stretch(n, dot, start, length, colour):
    low, high = min(start, dot), max(start + length - 1, dot)
    return [(low, high - low + 1, colour)]


def mirror(n, dot, start, length, colour):
    return [(2 * dot - start - length + 1, length, colour)]


def five(x):
    return [5 if c else 0 for c in x]


def fill(x):
    cells = [i for i, c in enumerate(x) if c]
    if len(cells) != 2 or x[cells[0]] != x[cells[1]]:
        return None
    return painted(len(x), [(cells[0], cells[1] - cells[0] + 1, x[cells[0]])])


def hollow(x):
    found = runs(x)
    if len(found) != 1 or found[0][1] < 2:
        return None
    (start, length, colour) = found[0]
    return painted(len(x), [(start, 1, colour), (start + length - 1, 1, colour)])


def reverse(x):
    if len(found := runs(x, solid=False)) != 1:
        return None
    start, length, _ = found[0]
    return x[:start] + x[start : start + length][::-1] + x[start + length :]


def denoise(x):
    found = runs(x)
    long = [run for run in found if run[1] > 1]
    if len(long) != 1 or len(found) < 2 or len({colour for *_, colour in found}) > 1:
        return None
    return painted(len(x), long)


def repair(x):
    if len(found := runs(x, solid=False)) != 1 or found[0][1] < 6:
        return None
    start, length, _ = found[0]
    colour, count = Counter(x[start : start + length]).most_common(1)[0]
    return painted(len(x), [(start, length, colour)]) if 2 * count > length else None


def own_size(x):
    found = runs(x)
    return shift(found[0][1])(x) if len(found) == 1 else None


def copy(x):
    found = runs(x)
    if len(found) < 2 or found[0][0] or any(length > 1 for _, length, _ in found[1:]):
        return None
    size = found[0][1]
    pieces = [(dot - size // 2, size, colour) for dot, _, colour in found[1:]]
    return painted(len(x), [found[0], *pieces]) if all(p + size <= len(x) for p, *_ in pieces) else None


def repeat(x):
    length = x.index(0) if 0 in x else len(x)
    pattern = x[: length // 2]
    if length % 2 or any(x[length:]) or pattern * 2 != x[:length] or not pattern:
        return None
    return [pattern[i % len(pattern)] for i in range(len(x))]


def biggest(x):
    found = sorted(runs(x), key=lambda run: run[1])
    alike = len({colour for *_, colour in found}) == 1
    if len(found) < 2 or not alike or found[-1][1] == found[-2][1]:
        return None
    return painted(len(x), [*found[:-1], (*found[-1][:2], 1)])


def by_size(x):
    found = sorted(runs(x), key=lambda run: run[1])
    if len(found) != 2 or {colour for *_, colour in found} != {3} or found[0][1] == found[1][1]:
        return None
    return painted(len(x), [(*found[0][:2], 2), (*found[1][:2], 1)])


def palette(x):
    count = x.index(0) if 0 in x else 0
    blocks = runs([0] * count + x[count:])
    if not count or len(blocks) != count or any(c != 5 for *_, c in blocks):
        return None
    return painted(
        len(x), [(k, 1, c) for k, c in enumerate(x[:count])] + [(*b[:2], c) for b, c in zip(blocks, x)]
    )


def half(x):
    if set(x) != {0, 2}:
        return None
    return painted(len(x), runs(x) + [(start, length // 2, 8) for start, length, _ in runs(x)])


def sort(x):
    found = sorted(runs(x), key=lambda run: run[1])
    if len(found) < 2 or len({colour for *_, colour in found}) > 1:
        return None
    starts = np.cumsum([0] + [length + 1 for _, length, _ in found])
    return (
        painted(len(x), [(start, *run[1:]) for start, run in zip(starts, found)])
        if starts[-1] <= len(x) + 1
        else None
    )


def duplicate(x):
    found = runs(x)
    blocks = [run for run in found if run[2] == 1 and run[1] > 1]
    if len(blocks) != 1 or len(found) not in (2, 3):
        return None
    start, length, _ = blocks[0]
    y = list(x)
    for seed, one, colour in found:
        if seed == start:
            continue
        if one != 1 or seed not in (start - 2, start + length + 1):
            return None
        cells = range(seed, -1, -1) if seed < start else range(seed, len(x))
        for k, i in enumerate(cells):
            if k % (length + 1) < length:
                y[i] = colour
    return y


def outward(x):
    if len(runs(x, solid=False)) != 1 or len(found := runs(x)) != 2:
        return None
    first, second = found
    if first[1] == 1 and second[1] > 2:
        return painted(len(x), [(0, first[0], first[2]), *found])
    if second[1] == 1 and first[1] > 2:
        return painted(len(x), [(second[0], len(x) - second[0], second[2]), *found])
    return None


def until(x):
    if x.count(5) != 1 or 5 not in (x[0], x[-1]) or x.count(0) > len(x) - 3:
        return None
    if x[-1] == 5:
        return turned(until)(x)
    y, following = list(x), 0
    for i in range(len(x) - 1, 0, -1):
        following = x[i] or following
        y[i] = following
    return y


def mark(x):
    found = runs(x)
    apart = all(b[0] - a[0] - a[1] >= 2 for a, b in pairwise(found))
    if not apart or not found or any(length > 3 or colour == 3 for _, length, colour in found):
        return None
    marks = [i for s, length, _ in found if length == 2 for i in (s - 1, s + 2) if 0 <= i < len(x)]
    return painted(len(x), [(i, 1, 3) for i in marks] + found)


RULES = {f"shift {k}": shift(k) for k in (-4, -3, -2, -1, 1, 2, 3, 4)}
RULES |= {f"roll {k}": roll(k) for k in (-4, -3, -2, -1, 1, 2, 3, 4)}
for _rule in (gravity, counting, antigravity, weighted, one_step):
    RULES |= {f"{_rule.__name__} left": _rule, f"{_rule.__name__} right": turned(_rule)}
RULES |= {f"toward {k}": dotted({2}, toward(k)) for k in (1, 2, 3, 4)}
RULES |= {"touch": dotted({1}, touch), "stretch": dotted({2}, stretch), "mirror": dotted({2}, mirror)}
RULES |= {
    rule.__name__: rule
    for rule in (
        five, fill, hollow, reverse, denoise, repair, own_size, copy, repeat, biggest, by_size, palette, half,
        sort, duplicate, outward, until, mark,
    )
}  # fmt: skip
# What somebody might think who does not know that the colour of a dot decides.
OTHERS = {f"toward any {k}": dotted(set(range(1, 10)), toward(k)) for k in (1, 2, 3, 4)}
OTHERS |= {"touch any": dotted(set(range(1, 10)), touch), "mirror any": dotted(set(range(1, 10)), mirror)}


def upstream(name: str) -> str:
    """Our name for a task of Reasoning Gym."""
    words = name.split("_")
    side = -1 if words[-1] == "left" else 1
    if words[0] == "move" and words[1] != "block":
        return f"{'roll' if 'wrapped' in words else 'shift'} {side * int(words[1][0])}"
    if words[0] == "gravity":  # "right" is a label: these pull to the left
        kind = {
            "one": "one_step",
            "weighted": "weighted",
            "counting": "counting",
            "antigravity": "antigravity",
        }
        return f"{kind.get(words[1], 'gravity')} {'left' if side > 0 else 'right'}"
    if name.startswith("block_touch_dot_"):
        return f"toward {words[3][0]}"
    return {
        "block_touch_dot": "touch", "block_scale_to_dot": "stretch", "block_and_noise_remove": "denoise",
        "block_and_noise_remove_inside": "repair", "move_block_by_own_size": "own_size",
        "two_points_and_fill": "fill", "two_points_and_fill_inv": "hollow", "copy_block_to_dots": "copy",
        "copy_block_to_dots_colors": "copy", "repeat_pattern_full": "repeat",
        "reflect_block_with_border_pixel": "reverse", "reflect_block_random": "reverse",
        "reflect_block_around_dot": "mirror", "paint_biggest_block": "biggest",
        "recolor_blocks_by_size": "by_size", "change_to_five": "five", "recolor_blocks_from_palette": "palette",
        "color_left_half_blocks": "half", "sort_blocks_by_size": "sort", "sort_complete_sequence": "sort",
        "duplicate_block_from_seeds": "duplicate", "fill_from_pixel": "outward",
        "fill_until_collision": "until", "mark_size_two_blocks": "mark",
    }[name]  # fmt: skip


def explaining(rules: dict, pairs) -> list[str]:
    return [name for name, rule in rules.items() if all(rule(x) == y for x, y in pairs)]


def read(shown: str):
    """Examples and the last strip from the text that stands for the picture."""
    lines = shown.splitlines()
    digits = [[int(w) for w in line.split()] for line in lines if line[0].isdigit()]
    count = sum(line.startswith("example ") for line in lines)
    assert len(lines) == 3 * count + 2 and lines[-2] == "last strip" and len(digits) == 2 * count + 1
    return list(zip(digits[:-1:2], digits[1::2])), digits[-1]


def decode(codes) -> str:
    return bytes(b for b in codes if b).decode()


def state(pairs, test, image) -> State:
    """A batch of one hand-set instance; cells and examples beyond it must not matter."""
    strips = np.full((1, EXAMPLES + 1, 2, N), 6, np.int32)
    for k, pair in [*enumerate(pairs), (EXAMPLES, (test, image))]:
        strips[0, k, :, : len(test)] = pair
    return State(jnp.asarray(strips), jnp.full(1, len(test), jnp.int32), jnp.full(1, len(pairs), jnp.int32))


def cells(digits: str) -> list[int]:
    return [int(c) for c in digits]


def graded(s: State, reply: str):
    return grade(s, jnp.asarray(codec.read(ENV.answer, f"<answer>{reply}</answer>"))[None])


def test_rules_agree_with_reasoning_gym():
    """Every one of the 70 tasks, at many sizes, and together these are all of our rules."""
    data, rng = Arc1DDataset(Arc1DConfig()), Random(0)
    assert len(data.task_names) == 70
    for name in data.task_names:
        make, arguments = data.ARC_1D_TASKS[name]
        for size in range(10, 31):
            for _ in range(4):
                while (pair := make(rng, size, **arguments)) is None:
                    pass
                assert RULES[upstream(name)](pair["input"]) == pair["output"], (name, pair)
    assert {upstream(name) for name in data.task_names} == set(RULES)
    kinds = {rule.split()[0] for rule in RULES}
    assert kinds == set(NAMES)


def test_parity_with_reasoning_gym(seen):
    """Their instances graded here, ours graded there."""
    data = Arc1DDataset(Arc1DConfig(min_size=10, max_size=30, num_train=3, seed=3, size=200))
    entries = [data[k] for k in range(200)]
    theirs = []
    for e in entries:
        train, test = e["metadata"]["train_examples"], e["metadata"]["test_example"]
        theirs.append(state([(p["input"], p["output"]) for p in train], test["input"], test["output"]))
    batch = jax.tree.map(lambda *x: jnp.concatenate(x), *theirs)
    replies = np.stack([codec.read(ENV.answer, f"<answer>{e['answer']}</answer>") for e in entries])
    assert (np.asarray(grade(batch, replies).ret) == 1).all()
    answers, boards, _ = show(batch)
    for e, answer, board in zip(entries, np.asarray(answers), np.asarray(boards)):
        assert data.score_answer(ENV.answer.format(answer), e) == 1
        pairs, test = read(decode(board))
        assert " ".join(map(str, test)) in e["question"] and len(pairs) == 3


@pytest.mark.parametrize("level", range(6))
def test_the_written_strips_have_one_answer(seen, level):
    """The reader of `text_obs` alone: all rules that explain the examples give the same, right answer.

    Upstream asks for strips that several rules explain differently, and for some that do not change.
    """
    states, kinds = seen[level]
    answers, boards, facts = (np.asarray(x) for x in show(jax.tree.map(jnp.asarray, states)))
    low, high = ENV.levels["size"][level]
    for i in range(1000):
        pairs, test = read(decode(boards[i]))
        assert low <= len(test) <= high and len(pairs) == ENV.levels["examples"][level][0]
        names = explaining(RULES, pairs)
        assert NAMES[kinds[i]] in {name.split()[0] for name in names}, (NAMES[kinds[i]], pairs)
        images = {tuple(image) for name in names if (image := RULES[name](test))}
        assert images == {tuple(answers[i][answers[i] != BLANK])}, (names, pairs, test, images)
        for name in explaining(OTHERS, pairs):
            assert OTHERS[name](test) in (None, list(*images)), (name, pairs, test)
        assert all(x != y for x, y in [*pairs, (test, list(*images))])
        named = [f"{c} in {s}" + (f"-{s + k - 1}" if k > 1 else "") for s, k, c in runs(test)]
        assert decode(facts[i]) == (
            f"{len(pairs)} examples, cells 0 to {len(test) - 1}; last strip: {', '.join(named)}"
        )


@pytest.mark.parametrize("level", range(6))
def test_levels_balance_and_diversity(seen, level):
    states, kinds = seen[level]
    low, high = ENV.levels["size"][level]
    assert set(states.size) == set(range(low, high + 1))
    low, high = ENV.levels["kind"][level]
    counts = np.bincount(kinds, minlength=len(KINDS))
    # No kind is rarer or more frequent than chance allows; upstream moves a block in almost half of all tasks.
    assert (counts[: high + 1] > 0.4 * 1000 / (high + 1)).all() and counts.max() < 2.2 * 1000 / (high + 1)
    assert low == 0 and not counts[high + 1 :].any()
    assert len({s.tobytes() for s in states.strips}) >= 990
    _, repeated = np.unique(states.strips[:, EXAMPLES, 1], axis=0, return_counts=True)
    assert repeated.max() <= 20
    for guess in (states.strips[:, EXAMPLES, 0], states.strips[:, 0, 1]):  # the strip itself, the first image
        padded = np.where(np.arange(N)[None] < states.size[:, None], guess, BLANK)
        assert np.asarray(grade(states, padded).ret).mean() < 0.1


def test_levels_are_monotone():
    for name in ("size", "kind"):
        assert list(ENV.levels[name]) == sorted(ENV.levels[name])
    assert list(ENV.levels["examples"]) == sorted(ENV.levels["examples"], reverse=True)
    level = ENV.eval_level  # Table 8: sizes 10 to 30, three examples
    assert ENV.levels["size"][level] == (10, 30) and ENV.levels["examples"][level] == (3, 3)


def test_examples_show_what_a_rule_needs(seen):
    """Blocks wrap in each example, palettes hold no 5, blocks differ where their size matters."""
    for states, kinds in seen[3:]:
        for strips, n, examples, kind in zip(states.strips, states.size, states.examples, kinds):
            pairs = [pair[:, :n].tolist() for pair in [*strips[:examples], strips[EXAMPLES]]]
            name = NAMES[kind]
            if name == "roll":
                steps = {name: rule for name, rule in RULES.items() if name.startswith("shift")}
                assert not any(explaining(steps, [pair]) for pair in pairs)
            if name == "palette":
                assert all(5 not in x[: x.index(0)] for x, _ in pairs)
            if name == "own_size":
                assert len({runs(x)[0][1] for x, _ in pairs[:2]}) == 2
            if name == "by_size":
                assert [runs(y)[0][2] for _, y in pairs[:2]] == [1, 2]
            if name == "touch":
                steps = {name: rule for name, rule in OTHERS.items() if name.startswith("toward")}
                assert not explaining(steps, pairs[:1])


@pytest.mark.parametrize(
    "examples, test, image, rule",
    [
        (("0330000000 0003300000", "0000100000 0000001000"), "2222000000", "0022220000", "shift 2"),
        (("0770000770 0777777770", "4000000004 4444444444"), "0050000500", "0055555500", None),
        (("0033300200 0000033320", "0200444000 0244400000"), "0002000770", "0002770000", None),
        (("0102010000 2000000011", "0012000100 2000000011"), "0002001210", "2200000011", "antigravity left"),
        (("3330003300 1110002200", "0330000333 0220000111"), "3300333300", "2200111100", "by_size"),
    ],
)
def test_hand_set_strips(examples, test, image, rule):
    pairs = [tuple(map(cells, e.split())) for e in examples]
    s = state(pairs, cells(test), cells(image))
    assert graded(s, " ".join(image)).ret[0] == 1 and graded(s, image).ret[0] == 1
    assert graded(s, " ".join(test)).ret[0] == 0
    answer, board, _ = (np.asarray(x)[0] for x in show(s))
    assert ENV.answer.format(answer) == " ".join(image) and read(decode(board)) == (pairs, cells(test))
    if rule:
        assert rule in explaining(RULES, pairs) and RULES[rule](cells(test)) == cells(image)


def test_near_misses_earn_nothing():
    """Upstream pays a longer answer that contains the right one."""
    s = state([(cells("0330000000"), cells("0003300000"))], cells("2222000000"), cells("0022220000"))
    for good in (
        "0 0 2 2 2 2 0 0 0 0",
        "0,0,2,2,2,2,0,0,0,0",
        "[0, 0, 2, 2, 2, 2, 0, 0, 0, 0]",
        "0022220000\n",
    ):
        assert graded(s, good).ret[0] == 1, good
    for bad in ("0 2 2 2 2 0 0 0 0 0", "0 0 0 2 2 2 2 0 0 0", "0 0 2 2 2 0 0 0 0 0", "0 0 3 3 3 3 0 0 0 0"):
        end = graded(s, bad)
        assert end.ret[0] == 0 and end.valid[0] and end.terminated[0], bad
    for bad in (
        "0 0 2 2 2 2 0 0 0 0 0",
        "0 0 0 2 2 2 2 0 0 0 0",
        "0 0 2 2 2 2",
        "0 0 2 2\n2 2 0 0 0 0",
        "2222",
        "",
    ):
        end = graded(s, bad)
        assert end.ret[0] == 0 and not end.valid[0], bad


def test_pictures_show_the_strips_and_hide_the_answer(seen):
    """Read back at each level's smallest picture: strips from the top, the unknown one last; no digits on them."""
    colours = np.asarray(COLOURS)
    for level, size in enumerate(ENV.min_resolution):
        env, few = jaxenv.make("arc_1d", size), jax.tree.map(lambda x: x[:25], seen[level][0])
        render = jax.jit(jax.vmap(env.render))
        pictures = np.asarray(render(few))
        other = few.replace(strips=few.strips.copy())
        other.strips[:, EXAMPLES, 1] = (other.strips[:, EXAMPLES, 1] + 1) % 10
        np.testing.assert_array_equal(np.asarray(render(other)), pictures)
        for picture, strips, n, examples in zip(pictures, few.strips, few.size, few.examples):
            width = size // n
            columns = (size - width * n) // 2 + np.arange(n) * width + width // 2 - 1
            at_middle = (picture[:, columns, None] == colours[None, None]).all(axis=-1).argmax(axis=-1)
            border = (picture[:, columns] == colours[11]).all(axis=(1, 2))
            starts = np.flatnonzero(border[:-1] & ~border[1:])[::2] + 1  # below every upper border
            wanted = [*strips[:examples].reshape(-1, N), strips[EXAMPLES, 0], np.full(N, UNKNOWN)]
            assert len(starts) == len(wanted)
            for start, strip in zip(starts, wanted):
                inside = at_middle[start : start + 2]
                np.testing.assert_array_equal(inside, np.tile(strip[:n], (2, 1)))
