"""Matchstick equation: moves of segments between sets of segments, exact values, shortest repairs, upstream pitfalls."""

import re
from collections import Counter
from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxenv import codec, episode, make, text
from jaxenv.envs.visgym.matchstick_equation import State
from jaxenv.gen import matchstick_equation as matches
from jaxenv.gen.matchstick_equation import ABSENT, BREAKS, PLACES, SYMBOLS, M

KEYS = 1000
ENV = make("matchstick_equation", 88)
LEVELS = range(ENV.num_levels)
ILLEGAL = np.asarray([0, 0, 0, 0, 0], np.int32)
# As they are drawn: top, upper right, lower right, bottom, lower left, upper left, middle.
SHAPES = {
    "0": "012345", "1": "12", "2": "01346", "3": "01236", "4": "1256", "5": "02356", "6": "023456", "7": "012",
    "8": "0123456", "9": "012356", "+": "67", "-": "6", "*": "89", "/": "9",
}  # fmt: skip
SHAPE = {symbol: frozenset(map(int, s)) for symbol, s in SHAPES.items()} | {"=": frozenset((11, 12))}
SYMBOL = {shape: symbol for symbol, shape in SHAPE.items()}


@jax.jit
@jax.vmap
def _sample(key, level):
    state = ENV.init(key, level)
    return state, text.close(ENV.text_obs(state))[0], text.close(ENV.text_state(state))[0]


@cache
def sample(level):
    """KEYS instances: states, observations and facts."""
    keys = jax.random.split(jax.random.key(level), KEYS)
    states, *texts = jax.tree.map(np.asarray, _sample(keys, jnp.full(KEYS, level)))
    return states, *(text.decode(x) for x in texts)


@jax.jit
@jax.vmap
def _play(state, actions):
    def turn(ep, action):
        ep = episode.advance(ENV, jax.random.key(0), ep, action)
        return ep, (ep.valid, ep.done, ep.state.symbols, ep.state.moved)

    end, seen = lax.scan(turn, episode.begin(ENV, state), actions)
    return end.ret, end.t, seen


def play(states, sequences):
    """Returns, lengths, and of every step: valid, done, symbols, moved. One compilation; short sequences go on illegally."""
    actions = np.tile(ILLEGAL, (KEYS, ENV.horizon, 1))
    for row, sequence in zip(actions, sequences):
        row[: len(sequence)] = [codec.read(ENV.answer, f"<answer>{a}</answer>") for a in sequence]
    rows = np.minimum(np.arange(KEYS), len(sequences) - 1)
    out = jax.tree.map(np.asarray, _play(jax.tree.map(lambda x: np.asarray(x)[rows], states), actions))
    return jax.tree.map(lambda x: x[: len(sequences)], out)


@jax.jit
@jax.vmap
def oracle(state):
    def turn(ep, _):
        return episode.advance(ENV, jax.random.key(0), ep, ENV.solve(ep.state)), None

    end = lax.scan(turn, episode.begin(ENV, state), None, length=ENV.horizon)[0]
    return end.ret, end.t


def value(side: str) -> Fraction:
    """One side of an equation, exactly. Raises ZeroDivisionError."""
    total = Fraction(0)
    for sign, term in re.findall(r"(^|[+-])([\d*/]+)", side):
        first, *others = re.split(r"([*/])", term)
        product = Fraction(int(first))
        for operator, number in zip(others[::2], others[1::2]):
            product = product * int(number) if operator == "*" else product / int(number)
        total += -product if sign == "-" else product
    return total


def holds(equation: str) -> bool:
    left, right = equation.split("=")
    try:
        return value(left) == value(right)
    except ZeroDivisionError:
        return False


def neighbours(equation: str):
    """All legal moves with the equations after them, by taking segments away and laying them elsewhere."""
    for a, one in enumerate(equation):
        for s in SHAPE[one]:
            fewer = SYMBOL.get(SHAPE[one] - {s})
            if fewer is None:
                continue
            for b, other in enumerate(equation):
                for t in set(range(PLACES)) - SHAPE[other]:
                    more = SYMBOL.get(SHAPE[other] | {t})
                    if a != b and more is not None:
                        after = list(equation)
                        after[a], after[b] = fewer, more
                        yield f"move {a} {s} {b} {t}", "".join(after)


def repairs(equation: str, depth: int) -> list[list[str]]:
    """Move sequences of the least length, at most `depth`, to true equations, one for each equation; [] if none."""
    seen, now = {equation}, {equation: []}
    for _ in range(depth):
        following = {}
        for at, way in now.items():
            for move, then in neighbours(at):
                if then not in seen:
                    seen.add(then)
                    following[then] = [*way, move]
        found = [way for then, way in following.items() if holds(then)]
        if found:
            return found
        now = following
    return []


def parse(observation: str) -> tuple[str, int]:
    """The equation and the moves left."""
    left, equation, numbered = observation.splitlines()
    symbols = [x.split(":") for x in numbered.removeprefix("numbered ").split(" ")]
    assert [int(k) for k, _ in symbols] == list(range(len(symbols)))
    assert equation.replace(" ", "") == "".join(x for _, x in symbols)
    return equation.replace(" ", ""), int(re.fullmatch(r"moves left: (\d)", left)[1])


def state(equation: str, allowed: int) -> State:
    symbols = np.full(M, ABSENT, np.int32)
    symbols[: len(equation)] = [SYMBOLS.index(x) for x in equation]
    nothing = np.zeros((BREAKS, 4), np.int32)
    return State(symbols, np.int32(allowed), np.int32(0), nothing, nothing)


def stacked(states):
    return jax.tree.map(lambda *x: np.stack(x), *states)


@pytest.mark.parametrize("level, count", [(0, 200), (1, 100), (2, 100), (3, 40), (4, 30), (5, 0)])
def test_a_search_that_reads_only_the_text(level, count):
    """No repair is shorter than what is allowed, all that a search finds are right, and other moves are not."""
    states, observations, _ = sample(level)
    moves = ENV.levels["moves"][level][0]
    rows, sequences, wanted = [], [], []
    for k, observation in enumerate(observations[:count]):
        equation, left = parse(observation)
        assert left == moves and not holds(equation)
        found = repairs(equation, moves)
        assert found and all(len(way) == moves for way in found)
        other = [way for way, then in neighbours(equation) if not holds(then)]
        for way, right in [*((w, 1) for w in found[:2]), *(([w], 0) for w in other[:2])]:
            rows.append(k), sequences.append([*way, "stop"]), wanted.append(right)
    if rows:
        ret, t, _ = play(jax.tree.map(lambda x: x[np.asarray(rows)], states), sequences)
        np.testing.assert_array_equal(ret, wanted)
        np.testing.assert_array_equal(t, [len(s) for s in sequences])
    ret, t = oracle(states)
    assert (ret == 1).all() and (t == moves + 1).all()


def test_three_moves_are_needed_at_the_hardest_level():
    _, observations, _ = sample(5)
    for observation in observations[:8]:
        assert not repairs(parse(observation)[0], 2)


@pytest.mark.parametrize(
    "equation, right",
    [
        ("2+3*4=14", True), ("2+3*4=20", False), ("7/2=3", False), ("9-3*3=0", True), ("9-12/4=6", True),
        ("3-8/5=1", False), ("5/0=0", False), ("0/5=0", True), ("5/0=5", False), ("1+5/0=1", False), ("6/4=1", False),
        ("05+1=6", True), ("00+1=1", True), ("5+1=06", True), ("99+99*9=990", True), ("1-3*2=5", False),
        ("3-8=5", False), ("891/99=9", True), ("12*12=144", True),
    ],
)  # fmt: skip
def test_exact_values(equation, right):
    """Upstream takes 05 for an error but 00 for a number."""
    assert holds(equation) == right
    assert bool(matches.true(jnp.asarray(state(equation, 1).symbols))) == right
    ret, _, _ = play(stacked([state(equation, 1)]), [["stop"]])
    assert ret[0] == right


def test_hand_set_equation():
    """5+9=9 is 6+3=9 with a match moved from the 6 to the 3; 5+3=8 is the only other repair."""
    assert sorted(repairs("5+9=9", 1)) == [["move 2 5 0 4"], ["move 2 5 4 4"]]
    sequences = [
        ["move 2 5 0 4", "stop"], ["stop"], ["move 2 5 0 4"], ["move 2 1 0 4", "stop"],
        ["move 2 1 0 4", "undo", "move 2 5 0 4", "stop"], ["move 2 1 0 4", "move 2 5 0 4", "stop"],
    ]  # fmt: skip
    ret, t, (valid, _, symbols, moved) = play(stacked([state("5+9=9", 1)] * 6), sequences)
    assert ret.tolist() == [1, 0, 0, 0, 1, 0] and t.tolist() == [2, 1, 8, 2, 4, 3]
    assert valid[4, :4].all() and not valid[5, 1] and moved[4, :3].tolist() == [1, 0, 1]
    assert "".join(SYMBOLS[s] for s in symbols[0, 0, :5]) == "6+3=9"
    assert "".join(SYMBOLS[s] for s in symbols[4, 1, :5]) == "5+9=9"


def test_any_true_equation_is_right():
    """Not only the one that was broken."""
    two = next(e for e in map(lambda o: parse(o)[0], sample(1)[1]) if len(repairs(e, 1)) > 1)
    ways = repairs(two, 1)
    assert (play(stacked([state(two, 1)] * len(ways)), [[*w, "stop"] for w in ways])[0] == 1).all()


@pytest.mark.parametrize("equation", ["86-97=31", "8+6*7=590", "10/9=23"])
def test_exactly_the_legal_moves_are_valid(equation):
    """All 20,449 combinations of symbols and segments; none within one symbol, like 6 to 9 or 2 to 3."""
    s = state(equation, 1)
    every = np.stack(np.meshgrid(*[np.arange(k) for k in (M, PLACES, M, PLACES)], indexing="ij"), axis=-1)
    actions = np.pad(every.reshape(-1, 4), ((0, 0), (1, 0))).astype(np.int32)
    _, out = step(s, actions)
    legal = {tuple(map(int, move.split()[1:])) for move, _ in neighbours(equation)}
    assert {tuple(a[1:].tolist()) for a in actions[np.asarray(out.valid)]} == legal
    assert all(a != b for a, _, b, _ in legal) and not np.asarray(out.terminated).any()


step = jax.jit(jax.vmap(lambda s, a: ENV.step(jax.random.key(0), s, a), in_axes=(None, 0)))


def test_budget_undo_and_clock():
    s = state("8+6=99", 2)
    sequences = [
        ["undo", "move 0 6 4 4", "move 1 7 5 4", "undo", "undo", "undo", "stop"],
        ["move 0 6 4 4", "move 1 7 5 4", "move 2 4 0 6", "undo", "move 2 4 0 6"],
    ]
    ret, t, (valid, done, symbols, moved) = play(stacked([s, s]), sequences)
    assert valid[0, :7].tolist() == [False, True, True, True, True, False, True]
    assert moved[0, :6].tolist() == [0, 1, 2, 1, 0, 0] and not ret.any()
    assert valid[1, :5].tolist() == [True, True, False, True, True] and t[1] == 12 and not done[1, 10]
    shown = ["".join(SYMBOLS[x] for x in row[:6]) for row in symbols[0]]
    assert shown[:6] == ["8+6=99", "0+6=89", "0-6=88", "0+6=89", "8+6=99", "8+6=99"]


@pytest.mark.parametrize("level", LEVELS)
def test_facts_diversity_and_parameters(level):
    states, observations, facts = sample(level)
    _, kinds, largest = matches.SETTINGS[level]
    assert all(
        ENV.levels[k][level] == (v, v) for k, v in zip(("moves", "kinds", "largest"), matches.SETTINGS[level])
    )
    for observation, fact in zip(observations[:50], facts):
        equation = parse(observation)[0]
        gives, receives = re.fullmatch(r"number.*; can give (.*); can receive (.*)", fact).groups()
        listed = [
            {f"{k}/{s}: {x}>{SYMBOL[change(SHAPE[x], {s})]}" for k, x in enumerate(equation) for s in range(PLACES)
             if change(SHAPE[x], {s}) in SYMBOL and change(SHAPE[x], {s}) != SHAPE[x]}
            for change in (frozenset.difference, frozenset.union)
        ]  # fmt: skip
        assert [set(gives.split(", ")), set(receives.split(", "))] == [set(x) for x in listed]
    equations = [parse(o)[0] for o in observations]
    assert not any(re.search(r"(^|\D)0\d", e) for e in equations)
    assert max(int(n) for e in equations for n in re.findall(r"\d+", e.split("=")[0])) <= (
        9 if largest == 9 else 999
    )
    signs = {2: "+-", 4: "+-*/", 5: "+-*/"}[kinds]
    assert set("".join(equations)) - set("0123456789=") == set(signs)
    assert any(len(re.findall(r"[+*/-]", e)) == 2 for e in equations) == (kinds == 5)
    assert len(set(observations)) >= (990 if level else 263)  # there are 752 of one-digit numbers
    assert (states.symbols != ABSENT).sum(axis=1).max() <= ENV._longest()
    # No sequence of actions that looks at nothing is right often.
    for plan, _ in Counter(map(bytes, states.plan)).most_common(1):
        same = [x.tobytes() == plan for x in states.plan]
        assert np.mean(same) <= 0.2


def test_the_papers_setting_is_evaluated():
    assert ENV.levels["moves"][ENV.eval_level] == (2, 2)


def test_replies():
    for good in ("move 0 6 2 0", "Move 0, 6, 2, 0", "('move', [0, 6, 2, 0])", "0 6 2 0"):
        assert codec.read(ENV.answer, f"<answer>{good}</answer>").tolist() == [0, 0, 6, 2, 0]
    assert codec.read(ENV.answer, "<answer>STOP</answer>")[0] == 2
    for bad in ("", "move 0 6 2", "move 0 6 2 13", "stop 1", "put 0 6 2 0", "move -1 0 0 0"):
        assert codec.read(ENV.answer, f"<answer>{bad}</answer>")[0] == codec.UNREADABLE


def test_symbols_are_numbered_and_segments_are_named():
    """Neither is in upstream's picture."""
    for word in (
        "0 top",
        "1 upper right",
        "2 lower right",
        "3 bottom",
        "4 lower left",
        "5 upper left",
        "6 middle",
    ):
        assert word in ENV.question
    picture = np.asarray(jax.jit(ENV.render)(state("99+99*9=990", 1)))
    tiles = picture.reshape(11, 8, 11, 8, 3).transpose(0, 2, 1, 3, 4)
    labels = [tiles[6, k].tobytes() for k in range(11)]
    assert len(set(labels)) == 11 and (tiles[6] < 128).all(axis=-1).any(axis=(1, 2)).all()
