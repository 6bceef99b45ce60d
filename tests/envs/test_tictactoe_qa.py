"""Tic-tac-toe questions: a textbook minimax, upstream pitfalls, answers found from the texts alone."""

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import codec, episode
from jaxenv.envs.puzzles.tictactoe_qa import LETTERS, MARK, MOVE, REPLY, State
from jaxenv.solve.tictactoe import POWERS, best_moves, positions

ENV = jaxenv.make("tictactoe_qa", 24)
LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
KEYS = jax.random.split(jax.random.key(0), 1000)


@jax.jit
@jax.vmap
def look(key, level):
    """An instance, its answer, its texts, and what each letter earns."""
    s = ENV.init(key, level)
    outs = jax.vmap(lambda a: ENV.step(key, s, a[None])[1])(jnp.arange(len(LETTERS), dtype=jnp.int32))
    return s, ENV.solve(s)[0], ENV.text_question(s), ENV.text_obs(s), ENV.text_state(s), outs


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    return [jax.tree.map(np.asarray, look(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


def decode(rows) -> list[str]:
    return [bytes(b for b in row if b).decode() for row in rows]


def winner(board) -> int:
    return next((board[a] for a, b, c in LINES if board[a] and board[a] == board[b] == board[c]), 0)


@cache
def value(board, mover) -> int:
    """For the mover: 1 won, 0 drawn, -1 lost."""
    if winner(board) or 0 not in board:
        return -1 if winner(board) else 0
    return max(-value((*board[:c], mover, *board[c + 1 :]), 3 - mover) for c in range(9) if not board[c])


def best(board) -> set[int]:
    """The cells of all best moves, by plain recursion."""
    board = tuple(int(x) for x in board)
    mover = 1 + (9 - board.count(0)) % 2
    after = {c: -value((*board[:c], mover, *board[c + 1 :]), 3 - mover) for c in range(9) if not board[c]}
    return {c for c, v in after.items() if v == max(after.values())}


def state(rows: str, kind: int, cell: int = 0, order: str = "") -> State:
    """A hand-set state; `order` names what the letters stand for, default: free cells from the top left."""
    cells = np.asarray([".OX".index(c) for c in rows.replace("/", "")], np.int32)
    free = cells == 0
    free[cell] &= kind != REPLY
    options = [int(c) for c in order] or list(range(3) if kind == MARK else np.flatnonzero(free))
    padded = np.asarray((options + [8] * 8)[:8], np.int32)
    return State(
        jnp.asarray(cells), jnp.int32(kind), jnp.int32(cell), jnp.asarray(padded), jnp.int32(len(options))
    )


def rewards(s: State) -> str:
    """The letters that earn full reward."""
    got = []
    for letter in LETTERS:
        action = jnp.asarray(codec.read(ENV.answer, f"<answer>{letter}</answer>"))
        end = episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), action)
        assert bool(end.valid) == (LETTERS.index(letter) < int(s.count)) and end.done
        got.append(letter if end.ret == 1 else "")
    return "".join(got)


def test_table_equals_plain_minimax_on_every_board():
    table, running = best_moves(), 0
    for code in range(3**9):
        board = code // POWERS % 3
        lead = (board == 1).sum() - (board == 2).sum()
        if lead not in (0, 1) or winner(board) or lead != (board > 0).sum() % 2 or 0 not in board:
            assert not table[code].any()
            continue
        running += 1
        assert set(np.flatnonzero(table[code])) == best(board)
    assert running == 4520 == positions(1)[1].sum()  # boards of games that are not over


@pytest.mark.parametrize("level", range(5))
def test_instances_are_fair(seen, level):
    states, answer, _, _, _, outs = seen[level]
    for i in range(1000):
        board, kind, cell = states.cells[i].copy(), states.kind[i], states.cell[i]
        options = states.order[i, : states.count[i]]
        red, blue = (board == 1).sum(), (board == 2).sum()
        assert red - blue in (0, 1) and not winner(board)
        low, high = ENV.levels["marks"][level]
        assert low <= red + blue <= high
        if kind == MARK:
            assert sorted(options) == [0, 1, 2]
            right = {board[cell]}
        else:
            if kind == REPLY:
                assert board[cell] == 0
                board[cell] = 1 if red == blue else 2
                assert not winner(board)
            # Exactly the empty cells, none twice, none occupied, letters without a gap.
            assert sorted(options) == list(np.flatnonzero(board == 0))
            right = best(board)
            assert len(right) <= max(1, len(options) // 3)
        expected = [k < len(options) and options[k] in right for k in range(len(LETTERS))]
        np.testing.assert_array_equal(outs.reward[i], np.asarray(expected, np.float32))
        np.testing.assert_array_equal(outs.valid[i], np.arange(len(LETTERS)) < len(options))
        assert expected[answer[i]]


@pytest.mark.parametrize("level", range(5))
def test_no_letter_and_no_simple_rule_is_right_often(seen, level):
    states, _, question, obs, _, outs = seen[level]
    assert outs.reward.mean(axis=0).max() <= 0.42  # three options: one third
    move = states.kind != MARK
    occupied = states.cells > 0
    occupied |= (states.kind == REPLY)[:, None] & (np.arange(9) == states.cell[:, None])
    for order in (range(9), range(8, -1, -1), (4, 0, 2, 6, 8, 1, 3, 5, 7), (0, 2, 6, 8, 4, 1, 3, 5, 7)):
        cell = np.asarray(order)[np.argmin(occupied[:, order], axis=1)]  # the first free one
        letter = np.argmax(states.order == cell[:, None], axis=1)
        if move.any():
            assert outs.reward[np.arange(1000), letter][move].mean() <= 0.55
    if level == 0:
        colours = np.bincount(states.cells[np.arange(1000), states.cell], minlength=3) / 1000
        assert colours.max() <= 0.42
    kinds = np.bincount(states.kind, minlength=3) / 1000
    low, high = ENV.levels["kind"][level]
    assert (kinds[low : high + 1] > 0.4).all()
    distinct = set(zip(decode(question), decode(obs)))
    assert len(distinct) >= (990 if level else 900)


@pytest.mark.parametrize("level", range(5))
def test_texts_alone_suffice(seen, level):
    """Options, mover and given move stand in the question; the board in the symbolic copy."""
    _, _, questions, boards, facts, outs = seen[level]
    some = slice(0, 200)
    for i, (q, o, f) in enumerate(zip(*(decode(t[some]) for t in (questions, boards, facts)))):
        board = [".OX".index(c) for c in re.sub(r"\s", "", o.split("\n", 1)[1])]
        asked, *lines = q.split("\n")
        options = [re.fullmatch(r"([A-H])\. (.*)", line).groups() for line in lines]
        assert [letter for letter, _ in options] == list(LETTERS[: len(options)])
        places = [3 * int(r) + int(c) for r, c in re.findall(r"\((\d), (\d)\)", asked)]
        if "What is in" in asked:
            names = ["nothing", "a red ring", "a blue cross"]
            right = [board[places[0]] == names.index(name) for _, name in options]
        else:
            mover = ("red", "blue").index(re.search(r"It is the turn of (\w+)\.", asked)[1]) + 1
            assert mover == 1 + (9 - board.count(0)) % 2
            if "Suppose" in asked:
                board[places[0]] = mover
                assert f"Which reply of {('blue', 'red')[mover - 1]} is" in asked
            right = [3 * int(c[1]) + int(c[4]) in best(board) for _, c in options]
            for player, name in ((1, "red"), (2, "blue")):
                wins = [c for c in range(9) if not board[c] and winner([*board[:c], player, *board[c + 1 :]])]
                listed = re.search(f"{name} completes three at ([^;]*)", f)[1]
                assert listed == (", ".join(f"({c // 3}, {c % 3})" for c in wins) or "no cell")
        np.testing.assert_array_equal(outs.reward[i, : len(options)] == 1, right)


@pytest.mark.parametrize(
    "s, right",
    [
        (state("OX./.O./..X", MARK, 8), "C"),  # the default order is nothing, red, blue
        (state("OX./.O./..X", MARK, 8, "201"), "A"),
        (state("OX./.O./..X", MARK, 2, "201"), "B"),
        (state("OO./XX./...", MOVE), "A"),  # complete the top row
        (state("OO./.X./...", MOVE, 0, "876532"), "F"),  # block the top row
        (state("O../.../...", MOVE), "D"),  # only the centre holds against a corner
        (state("O../.X./..O", MOVE), "ACDF"),  # edges draw, a corner runs into a double threat
        (state("O.O/X.X/X.O", MOVE), "AB"),  # two ways to win at once: upstream knows only the first
        (state("OO./X../...", MOVE), "ABCDEF"),  # lost whatever blue does: no move is worse than another
        (state(".../.../...", REPLY, 0), "D"),  # red takes a corner: the centre
        (state("XX./O../O..", REPLY, 8), "AD"),  # win at once, or block with a double threat
    ],
)
def test_hand_set_boards(s, right):
    assert rewards(s) == right
    assert LETTERS[int(ENV.solve(s)[0])] in right


def test_letters_are_read_leniently_and_others_refused():
    for good in ("C", "c", " (C) ", "C.", "[c]"):
        assert codec.read(ENV.answer, f"<answer>{good}</answer>")[0] == 2
    for bad in ("", "I", "AB", "3", "A or B", "(0, 1)"):
        assert codec.read(ENV.answer, f"<answer>{bad}</answer>")[0] == codec.UNREADABLE


def test_marks_differ_at_the_smallest_picture():
    picture = np.asarray(jax.jit(ENV.render)(state("OX./.../...", MOVE))).astype(int)
    ring, cross, empty = (picture[:8, 8 * k : 8 * k + 8] for k in range(3))
    red, blue = ((tile - empty)[..., [0, 2]].sum(axis=(0, 1)) for tile in (ring, cross))
    assert red[1] < red[0] < 0 and blue[0] < blue[1] < 0
    assert (ring[3, 3] == empty[3, 3]).all() and (cross[3, 3] != empty[3, 3]).any()  # hollow, crossed
