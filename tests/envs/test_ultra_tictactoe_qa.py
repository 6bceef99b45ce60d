"""Ultra tic-tac-toe questions: a plain referee, games that can be replayed, answers found from the texts alone."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import codec, episode
from jaxenv.envs.puzzles.ultra_tictactoe_qa import (
    BEST,
    CENTRES,
    FEWEST,
    LEGAL,
    MOST,
    PIECES,
    POINTS,
    WHICH,
    WHO,
    State,
)

ENV = jaxenv.make("ultra_tictactoe_qa", 80)
KEYS = jax.random.split(jax.random.key(0), 1400)


@jax.jit
@jax.vmap
def look(key):
    s = ENV.init(key, jnp.int32(0))
    return s, ENV.solve(s), ENV.text_question(s), ENV.text_obs(s), ENV.text_state(s)


SOLVE = jax.jit(ENV.solve)
ADVANCE = jax.jit(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a))


@jax.jit
@jax.vmap
def earned(s, action):
    return ENV.step(jax.random.key(0), s, action)[1]


@pytest.fixture(scope="module")
def seen():
    return jax.tree.map(np.asarray, look(KEYS))


def decode(rows) -> list[str]:
    return [bytes(b for b in row if b).decode() for row in rows]


# ---- a referee: boards are lists of 81 characters by row and column ----


def cells_of(sub: int) -> list[int]:
    return [9 * (3 * (sub // 3) + r) + 3 * (sub % 3) + c for r in range(3) for c in range(3)]


def sub_and_place(cell: int) -> tuple[int, int]:
    row, col = divmod(cell, 9)
    return 3 * (row // 3) + col // 3, 3 * (row % 3) + col % 3


def points(board, player: str, sub: int) -> int:
    rows = [[board[cells_of(sub)[3 * r + c]] == player for c in range(3)] for r in range(3)]
    lines = [*rows, *zip(*rows), [rows[k][k] for k in range(3)], [rows[k][2 - k] for k in range(3)]]
    return sum(map(all, lines))


def sent_to(board) -> int:
    """The sub-board of the next mark, from the board alone; no other has been sent to more often than marked."""
    open_subs = []
    for sub in range(9):
        sent = sum(board[cells_of(k)[sub]] != "." for k in range(9)) + (sub == 4)
        marked = sum(board[c] != "." for c in cells_of(sub))
        assert sent - marked in (0, 1)
        open_subs += [sub] * (sent - marked)
    (only,) = open_subs
    return only


def gains(board) -> dict[int, int]:
    """By cell: the points that the next mark would score there."""
    player, sub = "XO"[(81 - board.count(".")) % 2], sent_to(board)
    out = {}
    for cell in cells_of(sub):
        if board[cell] == ".":
            then = [*board[:cell], player, *board[cell + 1 :]]
            out[cell] = points(then, player, sub) - points(board, player, sub)
    return out


def answer(board, kind: int, asked: int) -> list[int]:
    if kind == WHO:
        return [".XO".index(board[asked])]
    if kind == LEGAL:
        return [len(gains(board))]
    if kind == CENTRES:
        return [sum(board[cells_of(k)[4]] != "." for k in range(9))]
    if kind == PIECES:
        return [81 - board.count(".")]
    if kind == POINTS:
        return [points(board, "XO"[asked // 9], asked % 9)]
    if kind == WHICH:
        return list(divmod(sent_to(board), 3))
    (best,) = [c for c, g in gains(board).items() if g == max(gains(board).values())]
    assert gains(board)[best] > 0
    return list(divmod(best, 9))


def playable(board, last: int) -> bool:
    """Whether some game ends on this board with this move: every mark but the first goes where it was sent.

    Places and sub-boards are a directed graph with an edge per mark, of which a game is a walk over all edges.
    The sides alternate, so the walk is found by search over edges of the side to move.
    """
    marks = {
        side: [sub_and_place(c) for c in range(81) if board[c] == side and c != last] for side in ("X", "O")
    }
    sub, _ = sub_and_place(last)
    total = len(marks["X"]) + len(marks["O"])

    def walk(at, side, used):
        if len(used) == total:
            return at == sub
        other = "O" if side == "X" else "X"
        return any(
            walk(edge[1], other, used | {edge}) for edge in marks[side] if edge[0] == at and edge not in used
        )

    return walk(4, "X", frozenset())


def state(rows: str, kind: int, asked: int = 0, last: int = 0) -> State:
    board = [".XO".index(c) for c in re.sub(r"[\s|/]", "", rows)]
    cells = jnp.asarray(np.asarray(board, np.int32).reshape(9, 9))
    return State(cells, jnp.int32(last), jnp.int32(kind), jnp.int32(asked))


def test_answers_and_positions(seen):
    states, answers, *_ = seen
    for i in range(700):
        board = [".XO"[c] for c in states.cells[i].reshape(-1)]
        assert board.count("X") - board.count("O") in (0, 1)
        assert FEWEST <= 81 - board.count(".") <= MOST
        want = answer(board, states.kind[i], states.asked[i])
        np.testing.assert_array_equal(answers[i], [*want, codec.BLANK][:2])
        _, place = sub_and_place(states.last[i])
        assert place == sent_to(board)  # the last move names the sub-board that the counts tell
        assert board[states.last[i]] == "OX"[(81 - board.count(".")) % 2]


def test_shown_positions_come_from_games(seen):
    states = seen[0]
    few = (states.cells != 0).sum(axis=(1, 2)) <= 14
    for i in np.flatnonzero(few)[:60]:
        assert playable([".XO"[c] for c in states.cells[i].reshape(-1)], int(states.last[i]))


def test_answers_are_spread(seen):
    states, answers, questions, boards, _ = seen
    kinds = np.bincount(states.kind, minlength=7)
    assert (kinds > 140).all()
    for kind in range(7):
        _, counts = np.unique(answers[states.kind == kind], axis=0, return_counts=True)
        assert counts.max() <= 0.55 * kinds[kind]
    _, counts = np.unique(answers, axis=0, return_counts=True)
    assert counts.max() <= 0.3 * len(answers)
    assert len(set(zip(decode(questions[:1000]), decode(boards[:1000])))) >= 990


def test_texts_alone_suffice(seen):
    _, answers, questions, observations, facts = seen
    for i, (q, o, f) in enumerate(zip(*(decode(t[:500]) for t in (questions, observations, facts)))):
        lines = [line.replace("|", "") for line in o.split("\n")[1:] if "---" not in line]
        board = list("".join(lines))
        assert len(board) == 81
        numbers = [int(n) for n in re.findall(r"\((\d), (\d)\)", q)[-1]] if "(" in q else []
        sub = "sub-board" in q and "sub-boards have" not in q
        if "What is in cell" in q:
            kind, asked = WHO, 9 * numbers[0] + numbers[1]
        elif "How many points" in q:
            kind = POINTS
            asked = 9 * "XO".index(re.search("points has ([XO])", q)[1]) + 3 * numbers[0] + numbers[1]
        else:
            asked = 0
            kind = next(
                k
                for k, words in (
                    (LEGAL, "can be marked"), (CENTRES, "centre cell"), (PIECES, "on the board"),
                    (WHICH, "must the next mark"), (BEST, "most points at once"),
                )
                if words in q
            )  # fmt: skip
        if kind in (LEGAL, BEST):
            # The last move is told and agrees with the board; so does the turn.
            just, turn = re.search(r"([XO]) has just .* turn of ([XO])\.", q).groups()
            assert {just, turn} == {"X", "O"} and board[9 * numbers[0] + numbers[1]] == just
            assert turn == "XO"[(81 - board.count(".")) % 2]
            assert sub_and_place(9 * numbers[0] + numbers[1])[1] == sent_to(board)
            assert f.endswith("({}, {})".format(*divmod(sent_to(board), 3)))
        else:
            assert "has just" not in q and (sub or kind not in (POINTS, WHICH))
            listed = [int(n) for n in re.findall(r"\d+", f)]
            assert listed[:9] == [sum(board[c] != "." for c in cells_of(k)) for k in range(9)]
            assert (len(listed) == 18) == (kind == WHICH)
        want = answer(board, kind, asked)
        np.testing.assert_array_equal(answers[i], [*want, codec.BLANK][:2])


def test_only_the_right_answer_earns(seen):
    states, answers, *_ = seen
    few = jax.tree.map(lambda x: x[:300], states)
    right = answers[:300]
    assert (np.asarray(earned(few, right).reward) == 1).all()
    square = few.kind >= WHICH
    off = right.copy()
    off[:, 0] += 1
    swapped = np.where(square[:, None] & (right[:, :1] != right[:, 1:]), right[:, ::-1], off)
    longer = np.where(square[:, None], np.stack([right[:, 0], np.full(300, -1)], 1), [[0, 0]])
    longer[:, 0] = right[:, 0]
    for wrong in (off, swapped, longer.astype(np.int32)):
        assert (np.asarray(earned(few, wrong).reward) == 0).all()
    # A number where a square is asked for, or the other way round, is not valid.
    assert not np.asarray(earned(few, longer.astype(np.int32)).valid).any()


@pytest.mark.parametrize(
    "rows, kind, asked, right",
    [
        # X in the middle, O sent there again (its centre), and so on: nothing but the middle is filled.
        ("." * 40 + "X" + "." * 40, WHICH, 0, "1 1"),
        ("." * 40 + "X" + "." * 40, LEGAL, 0, "8"),
        ("." * 40 + "X" + "." * 40, CENTRES, 0, "1"),
        ("." * 40 + "X" + "." * 40, PIECES, 0, "1"),
        ("." * 40 + "X" + "." * 40, WHO, 40, "1"),
        ("." * 40 + "X" + "." * 40, WHO, 41, "0"),
        # X at the top left of the middle: O goes to the top left sub-board, upstream's (1, 1), here (0, 0).
        ("." * 30 + "X" + "." * 50, WHICH, 0, "0 0"),
        # Lines that share a cell: all eight lines of a full sub-board score, not 9 or 15.
        ("XXX......" * 3 + "." * 54, POINTS, 0, "8"),
        ("XXX......" * 3 + "." * 54, POINTS, 9, "0"),
        ("XXX......" + "X........" * 2 + "." * 54, POINTS, 0, "2"),
        ("X.X......" + ".X......." + "X.X......" + "." * 54, POINTS, 0, "2"),
        ("......X.X" + ".......X." + "......X.X" + "." * 54, POINTS, 2, "2"),
    ],
)
def test_hand_set_boards(rows, kind, asked, right):
    s = state(rows, kind, asked)
    action = codec.read(ENV.answer, f"<answer>{right}</answer>")
    np.testing.assert_array_equal(SOLVE(s), action)
    end = ADVANCE(s, action)
    assert end.ret == 1 and end.terminated


def test_hand_set_game():
    """X misses the top row of the middle sub-board, then one cell completes two lines and another one."""
    moves = [(3, 3), (1, 1), (3, 4), (1, 4), (5, 5), (7, 7), (4, 5), (4, 7)]
    cells = np.zeros((9, 9), np.int32)
    for k, (r, c) in enumerate(moves):
        cells[r, c] = 1 + k % 2
        board = [".XO"[x] for x in cells.reshape(-1)]
        s = State(jnp.asarray(cells), jnp.int32(9 * r + c), jnp.int32(WHICH), jnp.int32(0))
        assert 3 * int(SOLVE(s)[0]) + int(SOLVE(s)[1]) == sent_to(board) == sub_and_place(9 * r + c)[1]
        assert playable(board, 9 * r + c)
    assert {k: g for k, g in gains(board).items() if g} == {9 * 3 + 5: 2, 9 * 4 + 4: 1}
    np.testing.assert_array_equal(SOLVE(s.replace(kind=jnp.int32(BEST))), [3, 5])


def test_numbers_and_squares_are_read_leniently():
    for good, want in (
        ("7", (7, -1)),
        ("(3, 5)", (3, 5)),
        ("3 5", (3, 5)),
        ("[3,5]", (3, 5)),
        ("34", (34, -1)),
    ):
        assert tuple(codec.read(ENV.answer, f"<answer>{good}</answer>")) == want
    for bad in ("", "X", "1 2 3", "1, 2, 3, 1", "82", "-1"):
        assert codec.read(ENV.answer, f"<answer>{bad}</answer>")[0] == codec.UNREADABLE


def test_rules_say_where_x_begins_and_when_the_game_ends():
    assert "begins, in the sub-board in the middle" in ENV.rules
    assert "ends when the centre cells of all sub-boards are marked" in ENV.rules


def test_picture_frames_sub_boards_and_shows_no_last_move():
    s = state("X" + "." * 79 + "O", WHICH)
    paint = jax.jit(ENV.render)
    picture = np.asarray(paint(s)).astype(int)
    tile = lambda r, c: picture[8 * r + 8 : 8 * r + 16, 8 * c + 8 : 8 * c + 16]  # noqa: E731
    cross, ring, empty = tile(0, 0), tile(8, 8), tile(4, 4)
    assert (cross[..., 2] - cross[..., 0]).sum() > (empty[..., 2] - empty[..., 0]).sum() + 300
    assert (ring[..., 0] - ring[..., 2]).sum() > 300
    for line in (3, 6):  # a dark line begins each sub-board
        assert (picture[8 * line + 8, 8:].sum(axis=-1) < 200).all()
        assert (picture[8:, 8 * line + 8].sum(axis=-1) < 200).all()
    np.testing.assert_array_equal(
        picture, np.asarray(paint(s.replace(last=jnp.int32(80), kind=jnp.int32(0))))
    )
