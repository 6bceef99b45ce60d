"""Knight swap: a search on the board that is shown, Guarini's puzzle, detours, illegal moves, impossible boards."""

import re
from collections import Counter
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import codec, episode, make, text
from jaxenv.envs.puzzles.knight_swap import GLYPHS, LONGEST, MOVES, State
from jaxenv.gen.knight_swap import bank

KEYS = 1000
ENV = make("knight_swap", 40)
LEVELS = range(ENV.num_levels)
PAINT = jax.jit(ENV.render)
SQUARES = [f"{c}{r}" for r in (3, 2, 1) for c in "ABCD"]


def apart(a: str, b: str) -> bool:
    return sorted(abs(ord(x) - ord(y)) for x, y in zip(a, b)) == [1, 2]


@jax.jit
@jax.vmap
def _advance(s, action):
    end = episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), action)
    return end.ret, end.valid


def advance(instances, actions):
    """Return and validity; one compilation for all numbers of instances."""
    rows = np.minimum(np.arange(KEYS), len(actions) - 1)
    out = _advance(*jax.tree.map(lambda x: np.asarray(x)[rows], (instances, actions)))
    return [np.asarray(x)[: len(actions)] for x in out]


@jax.jit
@jax.vmap
def _sample(key, level):
    state = ENV.init(key, level)
    texts = ENV.text_question(state), ENV.text_obs(state), ENV.text_state(state)
    return state, ENV.solve(state), [text.close(x)[0] for x in texts]


@cache
def sample(level):
    """KEYS instances: states, answers, and the three texts."""
    keys = jax.random.split(jax.random.key(level), KEYS)
    states, actions, texts = jax.tree.map(np.asarray, _sample(keys, jnp.full(KEYS, level)))
    return states, actions, [text.decode(x) for x in texts]


def parse(observation: str):
    """The board as {square: glyph} of those that are there, and who moves first."""
    legend, *rows, letters = observation.splitlines()
    assert letters.split() == list("ABCD")
    board = {
        f"{c}{row.split()[0]}": glyph
        for row in rows
        for c, glyph in zip("ABCD", row.split()[1:])
        if glyph != "#"
    }
    return board, re.search(r"; (white|black) moves first", legend)[1]


def search(board: dict, first: str) -> list[str] | None:
    """A shortest solution, None if there is none: breadth first over all positions."""
    near = {a: [b for b in board if apart(a, b)] for a in board}
    white, black = (frozenset(s for s in board if board[s] == colour) for colour in "wB")
    start = (white, black, first == "black")
    came, now = {start: None}, [start]
    while now:
        following = []
        for position in now:
            own, other = position[:2][:: -1 if position[2] else 1]
            for a in own:
                for b in near[a]:
                    if b in own or b in other:
                        continue
                    pair = (own - {a} | {b}, other)[:: -1 if position[2] else 1]
                    then = (*pair, not position[2])
                    if then in came:
                        continue
                    came[then] = position, f"{a}-{b}"
                    if pair == (black, white):
                        way = []
                        while came[then]:
                            then, move = came[then]
                            way.append(move)
                        return way[::-1]
                    following.append(then)
        now = following
    return None


def read(way) -> np.ndarray:
    return codec.read(ENV.answer, f"<answer>{way if isinstance(way, str) else ', '.join(way)}</answer>")


def state(picture: str, first: str) -> State:
    """From three rows of glyphs; the length of a shortest solution by search."""
    square = np.asarray([GLYPHS.index(x) for x in picture.split()], np.int32)
    board = {s: GLYPHS[x] for s, x in zip(SQUARES, square) if x}
    way = search(board, first)
    return State(square, np.int32(first == "black"), np.int32(len(way or [])), np.zeros(LONGEST, np.int32))


def earned(s, ways):
    rows = jax.tree.map(lambda x: np.stack([np.asarray(x)] * len(ways)), s)
    ret, valid = advance(rows, np.stack([read(w) for w in ways]))
    return ret.tolist(), valid.tolist()


@pytest.mark.parametrize("level, count", [(0, 200), (1, 60), (2, 40), (3, 20), (4, 10), (5, 3)])
def test_a_search_on_the_board_shown(level, count):
    """Lengths are shortest, and impossible boards are impossible: upstream deletes a legal move silently."""
    instances, actions, (questions, observations, facts) = sample(level)
    assert (advance(instances, actions)[0] == 1).all()
    some = list(range(count)) + np.flatnonzero(instances.shortest == 0)[: count // 2].tolist()
    ways = []
    for k in some:
        board, first = parse(observations[k])
        assert questions[k].endswith(f"{first.capitalize()} moves first.")
        way = search(board, first)
        assert len(way or []) == instances.shortest[k]
        ways.append(way or "No")
        edges = [f"{a}-{b}" for a in SQUARES for b in SQUARES if a in board and b in board and apart(a, b)]
        one_way = [e for e in edges if SQUARES.index(e[:2]) < SQUARES.index(e[3:])]
        mine = "w" if first == "white" else "B"
        moves = [e for e in edges if board[e[:2]] == mine and board[e[3:]] == "."]
        assert facts[k] == (
            f"squares a jump apart: {', '.join(one_way)}; possible first moves: {', '.join(moves) or 'none'}"
        )
    part = jax.tree.map(lambda x: x[np.asarray(some)], instances)
    assert (advance(part, np.stack([read(w) for w in ways]))[0] == 1).all()


def test_guarinis_puzzle():
    """Four knights on the ring of eight squares around the middle of 3 x 3: sixteen moves, since 1512."""
    s = state("w . w # . # . # B . B #", "white")
    assert s.shortest == 16
    around = ["A3", "C2", "A1", "B3", "C1", "A2", "C3", "B1"]
    assert all(apart(a, b) for a, b in zip(around, around[1:] + around[:1]))
    # All turn around the ring together, four steps each; a knight behind follows one in front.
    way, at = [], {0: "w", 2: "B", 4: "B", 6: "w"}
    for turn in range(16):
        colour = "wB"[turn % 2]
        k = next(k for k in sorted(at) if at[k] == colour and (k + 1) % 8 not in at)
        way.append(f"{around[k]}-{around[(k + 1) % 8]}")
        at[(k + 1) % 8] = at.pop(k)
    assert earned(s, [way, way[:-1], "No"]) == ([1.0, 0.0, 0.0], [True] * 3)


def test_impossible_on_a_path():
    """A1, B3, C1 and C3, A2, C1: on a line of five squares two knights cannot pass each other."""
    s = state("# . . # . # # # w # B #", "white")
    assert s.shortest == 0
    assert earned(s, ["No", ["A1-B3"], ["A1-B3", "C1-A2"]]) == ([1.0, 0.0, 0.0], [True] * 3)


def test_lengths_detours_and_illegal_moves():
    picture = ". . . . . . . . w . . B"
    s = state(picture, "white")
    board = {a: g for a, g in zip(SQUARES, picture.split())}
    way = search(board, "white")
    n = len(way)
    assert s.shortest == n
    forth = [way[0], way[1], "-".join(way[0].split("-")[::-1]), "-".join(way[1].split("-")[::-1])]
    ret, valid = earned(s, [way, forth + way, forth + forth + way, way[:-2], forth, way[:-1]])
    np.testing.assert_allclose(ret, [1, n / (n + 4), n / (n + 8), 0, 0, 0], rtol=1e-6)
    assert all(valid)
    illegal = [
        way[1:], way[1:] + way[:1], ["A3-B1", *way], [way[0], way[0], *way], ["D1-C3", *way], [*way, "No"], ["No", *way],
    ]  # fmt: skip
    assert earned(s, illegal) == ([0.0] * 7, [False] * 7)
    gap = np.full((2, MOVES), codec.BLANK, np.int32)
    gap[0, :n], gap[0, n + 1] = read(way)[:n], 0
    gap[1, 1 : n + 1] = read(way)[:n]
    rows = jax.tree.map(lambda x: np.stack([np.asarray(x)] * 2), s)
    assert not advance(rows, gap)[0].any()


def test_moving_out_of_turn_onto_others_or_onto_missing_squares():
    s = state("w . . # . . B # # . . .", "white")
    for bad in (["C2-A1"], ["A3-C2"], ["A3-B1", "B1-D2"], ["A3-B1", "B1-A3"]):
        assert earned(s, [bad]) == ([0.0], [False])
    assert earned(s, [["A3-B1"]]) == ([0.0], [True])  # upstream pays 0.05 for any legal move


def test_replies():
    moves = read(["A1-C2", "B3-D2"])
    for good in ("A1-C2, B3-D2", "a1-c2 b3-d2", '["A1-C2", "B3-D2"]', "A1-C2\nB3-D2."):
        np.testing.assert_array_equal(codec.read(ENV.answer, f"<answer>{good}</answer>"), moves)
    for no in ("No", "no", "NO."):
        assert codec.read(ENV.answer, f"<answer>{no}</answer>")[0] == ENV.answer.words.index("No")
    for bad in ("", "A1-A2", "impossible", "A1", "A1-C2 to B3"):
        assert codec.read(ENV.answer, f"<answer>{bad}</answer>")[0] == codec.UNREADABLE


@pytest.mark.parametrize("level", LEVELS)
def test_balance_diversity_and_parameters(level):
    instances, actions, (_, observations, _) = sample(level)
    scale = {name: ranges[level][0] for name, ranges in ENV.levels.items()}
    nodes = (instances.square > 0).sum(axis=1)
    assert scale["min_nodes"] <= nodes.min() and nodes.max() <= scale["max_nodes"]
    for colour in (2, 3):
        assert ((instances.square == colour).sum(axis=1) == scale["pieces"]).all()
    possible = instances.shortest > 0
    assert 0.15 <= 1 - possible.mean() <= 0.25  # No is right as often as upstream, and not a good answer
    lengths = instances.shortest[possible]
    assert scale["min_steps"] <= lengths.min() and lengths.max() <= scale["max_steps"]
    assert 0.4 <= instances.first.mean() <= 0.6
    for action, count in Counter(map(tuple, actions[possible].tolist())).most_common(1):
        assert count <= 0.1 * KEYS, action
    # Levels 0 and 1 have some 1,000 and 4,000 boards with a solution.
    assert len(set(observations)) >= (400, 800, 990, 990, 990, 990)[level]


def test_the_bank():
    b = bank()
    assert len(b.board) == len(b.moves) == b.plan.shape[1] and len(b.impossible) > 10_000
    by_length = [np.diff(b.first[pieces], axis=1).sum(axis=0) for pieces in (1, 2, 3)]
    assert all((count[1::2] == 0).all() and (count[:6] == 0).all() for count in by_length)


def test_levels_are_monotone_and_contain_the_papers_setting():
    lengths = [sample(level)[0].shortest for level in LEVELS]
    means = [x[x > 0].mean() for x in lengths]
    assert means[1:] == sorted(means[1:]) and means[0] < means[2]
    setting = {"pieces": 2, "min_nodes": 9, "max_nodes": 10, "min_steps": 8, "max_steps": 20}
    assert {k: v[ENV.eval_level][0] for k, v in ENV.levels.items()} == setting


def test_the_picture_shows_the_board_and_not_the_plan():
    s = state("w . . # . . B # # . . .", "white")
    picture = np.asarray(PAINT(s))
    np.testing.assert_array_equal(picture, PAINT(s.replace(plan=s.plan + 7, shortest=s.shortest + 2)))
    tiles = picture.reshape(5, 8, 5, 8, 3).transpose(0, 2, 1, 3, 4)
    # Four kinds of squares, seven labels, what is around.
    assert len({tiles[r, c].tobytes() for r in range(5) for c in range(5)}) == 12
