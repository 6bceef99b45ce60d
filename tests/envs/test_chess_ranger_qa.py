"""Chess Ranger questions: plain chess moves, an exhaustive search, answers found from the texts alone."""

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import codec, episode
from jaxenv.envs.puzzles.chess_ranger_qa import AT, CAPTURES, COUNT, FIND, KEEP, KINDS, NOTHING, State
from jaxenv.gen.chess_ranger import FEWEST, MOST, bank

ENV = jaxenv.make("chess_ranger_qa", 72)
KEYS = jax.random.split(jax.random.key(0), 1000)
SOLVE = jax.jit(ENV.solve)
ADVANCE = jax.jit(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a))


@jax.jit
@jax.vmap
def look(key, level):
    s = ENV.init(key, level)
    return s, ENV.solve(s), ENV.text_question(s), ENV.text_obs(s), ENV.text_state(s)


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    return [jax.tree.map(np.asarray, look(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


def decode(rows) -> list[str]:
    return [bytes(b for b in row if b).decode() for row in rows]


# ---- the rules, on dictionaries from square names to kinds ----


def neighbour(square: str, file: int, rank: int) -> str | None:
    f, r = ord(square[0]) + file, int(square[1]) + rank
    return f"{chr(f)}{r}" if ord("a") <= f <= ord("h") and 1 <= r <= 8 else None


LINES = [(0, 1), (0, -1), (1, 0), (-1, 0)]
DIAGONALS = [(1, 1), (1, -1), (-1, 1), (-1, -1)]


def targets(board: dict, square: str) -> set[str]:
    kind = board[square]
    if kind == "pawn":
        return {n for f in (-1, 1) if (n := neighbour(square, f, 1)) in board}
    if kind == "knight":
        jumps = [(f, r) for f in (-2, -1, 1, 2) for r in (-2, -1, 1, 2) if abs(f) + abs(r) == 3]
        return {n for f, r in jumps if (n := neighbour(square, f, r)) in board}
    ways = {"rook": LINES, "bishop": DIAGONALS}.get(kind, LINES + DIAGONALS)
    out = set()
    for f, r in ways:
        n = neighbour(square, f, r)
        while n and n not in board and kind != "king":
            n = neighbour(n, f, r)
        if n in board:
            out.add(n)
    return out


def captures(board: dict) -> set[tuple[str, str]]:
    return {(a, b) for a in board for b in targets(board, a)}


def after(board: dict, move: tuple[str, str]) -> dict:
    return {s: k for s, k in board.items() if s not in move} | {move[1]: board[move[0]]}


@cache
def solvable_items(items: frozenset) -> bool:
    board = dict(items)
    return len(board) == 1 or any(solvable_items(frozenset(after(board, m).items())) for m in captures(board))


def solvable(board: dict) -> bool:
    return solvable_items(frozenset(board.items()))


def solve_text(question: str, obs: str) -> str:
    """The answer, from the question and the list of pieces."""
    board = dict(reversed(piece.split(" ")) for piece in obs.split(", "))
    kinds = list(board.values())
    if found := re.search(r"How many (\w+)s are on the board", question):
        return str(kinds.count(found[1]))
    if found := re.search(r"On which square is the (\w+)\?", question):
        (square,) = [s for s, k in board.items() if k == found[1]]
        return square
    if found := re.search(r"What is on (..)\?", question):
        contents = dict(re.findall(r"([A-G])\. (\w+)", question))
        (letter,) = [x for x, name in contents.items() if name == board.get(found[1], "nothing")]
        return letter
    if "How many captures" in question:
        return str(len(captures(board)))
    options = re.findall(r"([A-D])\. (..) takes (..)", question)
    assert len({o[1:] for o in options}) == 4 and {o[1:] for o in options} <= captures(board)
    return "".join(x for x, a, b in options if solvable(after(board, (a, b))))


# ---- between the two ----


def state(pieces: str, question: int, asked: int = 0, options=()) -> State:
    """A hand-set board from pieces like 'Ke4', and for KEEP captures by the places of two pieces in it."""
    names = pieces.split()
    square = np.full(MOST, -1, np.int32)
    kind = np.full(MOST, NOTHING, np.int32)
    for k, name in enumerate(names):
        square[k] = 8 * (8 - int(name[2])) + ord(name[1]) - ord("a")
        kind[k] = "PNBRQK".index(name[0])
    board = {n[1:]: KINDS["PNBRQK".index(n[0])] for n in names}
    pairs = np.zeros((4, 2), np.int32)
    if options:
        pairs[: len(options)] = options
    good = np.zeros(4, bool)
    good[: len(options)] = [solvable(after(board, (names[a][1:], names[b][1:]))) for a, b in options]
    return State(square, kind, np.int32(question), np.int32(asked), pairs, good)


def earned(s: State, reply: str):
    return ADVANCE(s, codec.read(ENV.answer, f"<answer>{reply}</answer>"))


def test_bank_is_what_it_says():
    boards, good = bank()
    assert boards.shape[0] == MOST - FEWEST + 1
    rng = np.random.default_rng(0)
    for count in range(FEWEST, MOST + 1):
        entries = boards[count - FEWEST]
        assert ((entries >= 0).sum(axis=1) == count).all()
        assert len({e.tobytes() for e in entries}) == len(entries)
        for i in rng.choice(len(entries), 40 if count < 7 else 12, replace=False):
            names = [f"{'abcdefgh'[p % 8]}{8 - p // 8 % 8}" for p in entries[i, :count]]
            board = dict(zip(names, (KINDS[p // 64] for p in entries[i, :count])))
            assert len(board) == count and solvable(board)
            want = np.zeros((MOST, MOST), bool)
            for a, b in captures(board):
                want[names.index(a), names.index(b)] = solvable(after(board, (a, b)))
            np.testing.assert_array_equal(good[count - FEWEST, i], want)


@pytest.mark.parametrize("level", range(6))
def test_texts_alone_suffice(seen, level):
    _, answers, questions, observations, facts = seen[level]
    for i, (q, o, f) in enumerate(zip(*(decode(t[:150]) for t in (questions, observations, facts)))):
        if level >= 4 and "still be solved" in q and i >= 60:
            continue  # the search is slow
        assert ENV.answer.format(answers[i]) == solve_text(q, o).lower()
        board = dict(reversed(piece.split(" ")) for piece in o.split(", "))
        assert f.startswith(f"{len(board)} pieces") and len(board) == level + FEWEST
        if "How many captures" in q:
            assert f == f"{len(board)} pieces"
        else:
            assert set(re.findall(r"(\w\d)x(\w\d)", f)) == captures(board)


@pytest.mark.parametrize("level", range(6))
def test_instances_are_fair(seen, level):
    states, answers, questions, observations, _ = seen[level]
    kinds = np.bincount(states.question, minlength=5)
    assert (kinds[: AT + 1] > 140).all() and ((kinds[CAPTURES:] > 140) == (level > 0)).all()
    _, counts = np.unique(answers, axis=0, return_counts=True)
    assert counts.max() <= 0.3 * len(answers)
    for kind in np.flatnonzero(kinds):
        _, counts = np.unique(answers[states.question == kind], axis=0, return_counts=True)
        assert counts.max() <= 0.55 * kinds[kind]  # upstream: the moves left, always pieces - 1
    distinct = set(zip(decode(questions), decode(observations)))
    assert len(distinct) >= (990 if level else 950)
    keep = states.question == KEEP
    assert states.good[keep].any(axis=1).all()
    for i in range(100):
        squares = states.square[i][: level + FEWEST]
        assert len(set(squares)) == len(squares) and set(squares) <= set(range(64))
        assert (states.square[i][level + FEWEST :] == -1).all()


def test_boards_are_moved_and_mirrored(seen):
    """All columns and rows are used about alike, pawns do not all look one way."""
    for states, *_ in seen:
        square = states.square[states.square >= 0]
        for line in (square // 8, square % 8):
            share = np.bincount(line, minlength=8) / len(line)
            assert share.min() > 0.06 and share.max() < 0.2


SMALL = "Ka1 Qb2 Pc3 Nd5"


@pytest.mark.parametrize(
    "pieces, question, asked, right",
    [
        ("Pa2 Pb3 Kc3", COUNT, 0, "2"),
        ("Pa2 Pb3 Kc3", COUNT, 4, "0"),
        ("Pa2 Pb3 Kc3", FIND, 5, "c3"),
        ("Pa2 Pb3 Kc3", AT, 8 * 6, "A"),
        ("Pa2 Pb3 Kc3", AT, 8 * 5 + 2, "F"),
        ("Pa2 Pb3 Kc3", AT, 0, "G"),
        # The pawn on a2 takes b3 (towards rank 8), the one on b3 takes nothing; the king takes b3.
        ("Pa2 Pb3 Kc3", CAPTURES, 0, "2"),
        ("Pa8 Pb7 Ph1", CAPTURES, 0, "1"),
        ("Ra1 Pa4 Na8", CAPTURES, 0, "1"),  # the rook sees the first piece of its column only
        ("Qd4 Pd5 Pe5 Pe4 Pe3 Pd3 Pc3 Pc4", CAPTURES, 0, "13"),
        ("Nb1 Pa3 Pc3", CAPTURES, 0, "2"),
    ],
)
def test_hand_set_boards(pieces, question, asked, right):
    s = state(pieces, question, asked)
    assert ENV.answer.format(np.asarray(SOLVE(s))) == right.lower()
    end = earned(s, right)
    assert end.ret == 1 and end.terminated
    for wrong in ("3", "d4", "B"):
        assert float(earned(s, wrong).ret) == float(wrong == right)


@pytest.mark.parametrize(
    "pieces, options, right",
    [
        # The king takes both pawns; after the pawn's capture nothing reaches anything.
        ("Ka1 Pb2 Pc3", [(0, 1), (1, 2)], "A"),
        ("Ka1 Pb2 Pc3", [(1, 2), (0, 1)], "B"),
        # Whoever takes, the rook or the queen or the knight can finish.
        ("Ra1 Nb3 Pa4 Qd4", [(0, 2), (1, 0), (1, 3), (3, 0)], "ABCD"),
    ],
)
def test_captures_that_keep_the_board_solvable(pieces, options, right):
    s = state(pieces, KEEP, 0, options)
    assert ENV.answer.format(np.asarray(SOLVE(s))) == right.lower()
    assert earned(s, right).ret == 1


def test_any_order_of_letters_is_right_and_nothing_else():
    s = state("Ka1 Qb2 Pc3 Nd5", KEEP).replace(good=np.asarray([False, True, False, True]))
    for right in ("BD", "DB", "b, d", "D B"):
        assert earned(s, right).ret == 1
    for wrong in ("B", "D", "BDA", "ABCD", "AC", "BBD", "BDD", "BB"):
        end = earned(s, wrong)
        assert end.ret == 0 and end.done
    for invalid in ("BE", "B4", "2"):
        assert not earned(s, invalid).valid
    single = s.replace(good=np.asarray([False, False, True, False]))
    assert earned(single, "C").ret == 1 and earned(single, "BC").ret == 0


def test_answers_of_another_form_are_not_valid():
    s = state("Pa2 Pb3 Kc3", COUNT)
    for reply, question in (
        ("e4", COUNT),
        ("B", COUNT),
        ("2", FIND),
        ("b", FIND),
        ("4e", FIND),
        ("e4", AT),
        ("2", AT),
    ):
        assert not earned(s.replace(question=np.int32(question)), reply).valid
    assert earned(s, "2").valid and not earned(s, "222").valid


def test_no_format_hint_depends_on_the_answer():
    """Upstream's prompt asks for one letter or for several, as the answer has it."""
    assert "one or more letters" in ENV.answer.instruction
    one, two = (
        state(SMALL, KEEP).replace(good=np.asarray(good))
        for good in ([True, False, False, False], [True] * 4)
    )
    texts = jax.jit(
        lambda s: (ENV.text_question(s), ENV.text_hint(s), ENV.text_obs(s), ENV.text_state(s), ENV.render(s))
    )
    jax.tree.map(np.testing.assert_array_equal, texts(one), texts(two))


def test_colours_and_kings_are_explained():
    assert "They have no colours" in ENV.rules and "kings too" in ENV.rules


def test_picture_tells_pieces_and_squares_apart():
    paint = jax.jit(ENV.render)
    shown = np.asarray(paint(state("Pa8 Nb7 Bc6 Rd5 Qe4 Kf3", COUNT)))
    tile = lambda picture, r, c: picture[8 * r : 8 * r + 8, 8 * c + 8 : 8 * c + 16]  # noqa: E731
    tiles = [tile(shown, k, k).tobytes() for k in range(7)]
    assert len(set(tiles)) == 7  # six pieces and an empty square, all light
    empty = np.asarray(paint(state("Ph1", COUNT)))
    assert (tile(empty, 0, 0)[3, 3] > tile(empty, 0, 1)[3, 3]).all()  # a8 is light
    assert len({shown[8 * r : 8 * r + 8, :8].tobytes() for r in range(8)}) == 8
