"""Answer a question on a tic-tac-toe board: the mark in a cell, the best move or the best reply to a move."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Choice
from jaxenv.core import Env, outcome
from jaxenv.gen.choice import pick
from jaxenv.solve.tictactoe import EMPTY, FIRST, POWERS, SECOND, best_moves, completes, mover, positions
from jaxenv.sprites import Canvas

MARK, MOVE, REPLY = range(3)  # kinds of question
LETTERS = "ABCDEFGH"


@struct.dataclass
class State:
    cells: Array  # i32[9] the board shown, row by row: EMPTY, FIRST (red O) or SECOND (blue X)
    kind: Array  # i32[] MARK, MOVE or REPLY
    cell: Array  # i32[] MARK: the cell asked about; REPLY: the move given; MOVE: unused
    order: Array  # i32[8] what the letters stand for: a mark (kind MARK) or a cell
    count: Array  # i32[] letters offered


class TicTacToeQA(Env[State]):
    """Game-RL's questions with the options in the question and the best move defined by perfect play.

    Upstream ranks moves by a list of rules and the order of the cells, so that equally good moves are wrong.
    Boards are drawn among all running games with that many marks in which at most a third of the moves, at
    least one, is best; letters are shuffled. A reply question is a move question with a mark taken back.
    """

    category = "puzzles"
    source = ("Gym-V Puzzles/TicTacToe-QA-v0", "Game-RL TicTacToe")
    question = "The picture shows a game of tic-tac-toe. Answer the question about it."
    rules = (
        "Red (rings, O) and blue (crosses, X) take turns, red moves first. Three own marks in a row, column "
        "or diagonal win; a full board without them is a draw. A best move is one with which its player gets "
        "the best result that perfect play of both sides allows: a win before a draw before a loss. How fast "
        "the game ends does not count. Rows count from the top, columns from the left, both from 0. "
        "A right letter earns full reward, a wrong one nothing. The episode ends with the answer."
    )
    answer = Choice(LETTERS)
    levels = {
        "kind": ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2)),
        "marks": ((1, 6), (3, 6), (2, 6), (2, 6), (1, 6)),
    }
    eval_level = 3
    min_resolution = (24, 24, 24, 24, 24)

    def reset(self, key: Array, scale) -> State:
        k_board, k_back, k_mark, k_cell, k_order = jax.random.split(key, 5)
        kind = scale["kind"]
        marks = scale["marks"] + jnp.where(kind == REPLY, 1, 0)  # on the board to answer from
        codes, sizes = positions(1, 3)
        table = jnp.where(kind == MARK, 0, 1)
        number = jax.random.randint(k_board, (), 0, jnp.asarray(sizes)[table, marks], jnp.int32)
        cells = jnp.asarray(codes)[table, marks, number] // POWERS % 3
        options = jnp.where(kind == MARK, np.arange(9) < 3, cells == EMPTY)
        # The mark is drawn first, then a cell that holds it: all marks present are equally often the answer.
        present = jnp.any(cells[None, :] == np.arange(3, dtype=np.int32)[:, None], axis=1)
        asked = pick(k_cell, cells == pick(k_mark, present))
        given = pick(k_back, cells == mover(marks + 1))  # a mark of the one who moved last
        cells = jnp.where((kind == REPLY) & (np.arange(9) == given), EMPTY, cells)
        cell = jnp.where(kind == MARK, asked, jnp.where(kind == REPLY, given, 0))
        noise = jnp.where(options, jax.random.uniform(k_order, (9,)), 2.0)
        order = jnp.argsort(noise)[: len(LETTERS)].astype(jnp.int32)
        return State(cells, kind, cell, order, options.sum(dtype=jnp.int32))

    def text_question(self, state: State) -> Array:
        player = mover((state.cells != EMPTY).sum())
        name, other = (text.choose(who, ["", "red", "blue"]) for who in (player, 3 - player))
        at = _place(state.cell)
        turn = text.join(text.lit("It is the turn of "), name)
        asked = [
            text.join(text.lit("What is in cell "), at, text.lit("?")),
            text.join(turn, text.lit(". Which move is best under perfect play?")),
            text.join(
                turn, text.lit(". Suppose "), name, text.lit(" plays "), at,
                text.lit(". Which reply of "), other, text.lit(" is then best under perfect play?"),
            ),
        ]  # fmt: skip
        mark = text.choose(state.order, ["nothing", "a red ring", "a blue cross"] + [""] * 6)
        options = text.join(
            text.lit("\n"), text.lit(LETTERS)[:, None], text.lit(". "),
            text.when(state.kind == MARK, mark), text.when(state.kind != MARK, _place(state.order)),
        )  # fmt: skip
        return text.join(
            text.lit("The picture shows a game of tic-tac-toe. "),
            text.lit("Cells are (row, column), counted from 0 at the top left. "),
            *[text.when(state.kind == kind, part) for kind, part in enumerate(asked)],
            text.when(np.arange(len(LETTERS)) < state.count, options).reshape(-1),
        )

    def step(self, key: Array, state: State, action: Array):
        valid = (action[0] >= 0) & (action[0] < state.count)
        right = _right(state)[jnp.clip(action[0], 0, len(LETTERS) - 1)]
        return state, outcome(valid & right, True, valid)

    def solve(self, state: State) -> Array:
        return jnp.argmax(_right(state)).astype(jnp.int32)[None]

    def render(self, state: State) -> Array:
        sprites = draw.sheet(self.resolution, (3,), _paint, (60, 64, 84))
        return draw.tiles(sprites, state.cells.reshape(3, 3), 3, 3)

    def text_obs(self, state: State) -> Array:
        return text.join(
            text.lit("O red, X blue, . empty\n"), text.table(state.cells.reshape(3, 3), ".OX", 3, 3)
        )

    def text_state(self, state: State) -> Array:
        board = _board(state)
        counts = [text.num((state.cells == mark).sum(dtype=jnp.int32), 1) for mark in (FIRST, SECOND, EMPTY)]
        lines = []
        for player, name in ((FIRST, "red"), (SECOND, "blue")):
            wins = completes(board, jnp.int32(player))
            lines += [
                text.lit(f"; {name} completes three at "),
                text.when(jnp.any(wins), text.items(_place(np.arange(9)), wins)),
                text.when(~jnp.any(wins), text.lit("no cell")),
            ]
        return text.join(
            counts[0], text.lit(" red, "), counts[1], text.lit(" blue, "), counts[2], text.lit(" empty"),
            text.when(state.kind == REPLY, text.lit("; after the given move")),
            text.when(state.kind != MARK, text.join(*lines)),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        count = "Count rows from the top and columns from the left, starting with 0."
        think = "Look for a line to complete, then for a line to block, then for a move that threatens two."
        return text.join(
            text.when(state.kind == MARK, text.lit(count)), text.when(state.kind != MARK, text.lit(think))
        )


def _board(state: State) -> Array:
    """i32[9]: the board on which the move is asked for, the given one included."""
    player = mover((state.cells != EMPTY).sum())
    return jnp.where((state.kind == REPLY) & (np.arange(9) == state.cell), player, state.cells)


def _right(state: State) -> Array:
    """bool[8]: the letters that are right."""
    best = jnp.asarray(best_moves())[(_board(state) * POWERS).sum()][state.order]
    right = jnp.where(state.kind == MARK, state.order == state.cells[state.cell], best)
    return right & (np.arange(len(LETTERS)) < state.count)


def _place(cell: Array) -> Array:
    return text.coordinates(jnp.stack([cell // 3, cell % 3], axis=-1), 1)


def _paint(side: int) -> np.ndarray:
    """Sprites EMPTY, red ring, blue cross, on white cells."""

    def cell():
        edge = max(1, side // 32) / side
        return Canvas(side, (70, 74, 96)).rect(0, 0, 1 - edge, 1 - edge, (252, 252, 250))

    middle = (1 - max(1, side // 32) / side) / 2
    low, high = middle - 0.31, middle + 0.31
    ring = cell().disc(middle, middle, 0.40, (214, 40, 48)).disc(middle, middle, 0.23, (252, 252, 250))
    cross = (
        cell().line(low, low, high, high, 0.16, (34, 84, 200)).line(low, high, high, low, 0.16, (34, 84, 200))
    )
    return np.stack([c.done() for c in (cell(), ring, cross)])


ENV = TicTacToeQA()
