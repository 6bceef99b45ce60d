"""Answer a question on a game of ultra tic-tac-toe: nine sub-boards, each move names the sub-board of the next."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import draw, text
from jaxenv.codec import BLANK, Grid
from jaxenv.core import Env, outcome
from jaxenv.sprites import Canvas

WHO, LEGAL, CENTRES, PIECES, POINTS, WHICH, BEST = range(7)  # kinds of question
EMPTY, X, O = range(3)
CENTRE = 4  # the sub-board in which X begins, and the place in a sub-board that counts as its centre
FEWEST, MOST = 10, 34  # marks on the board: upstream's easy plot
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
DIGIT, CORNER = 12, 21  # sprites, behind four frames of each mark


@struct.dataclass
class State:
    cells: Array  # i32[9, 9] by (row, col) of the whole board: EMPTY, X or O
    last: Array  # i32[] the last move, 9 * row + col; not told where the question is WHICH
    kind: Array  # i32[] WHO .. BEST
    asked: Array  # i32[] WHO: a cell, 9 * row + col; POINTS: 9 * (player - 1) + sub-board; else 0


class UltraTicTacToeQA(Env[State]):
    """Game-RL's seven questions, answered with a number or a square instead of one of eight options.

    Upstream's options are numbers named by other numbers (option 4 reads 3), include 15 points although 8 are
    the most, and cut the names of sub-boards. Its rules do not say where X begins and when the game ends;
    without the first nobody can tell where the next mark goes. Squares count from 0 here, from 1 upstream.
    Both sides complete as many lines as they can with every move, at random otherwise; games are shown after
    10 to 34 moves (the default upstream). The number asked for is drawn before the moment, cell or sub-board that
    has it, so that none is much more frequent. Should a game have no move that is the only best one, at any
    moment, WHICH is asked instead of BEST.
    """

    category = "puzzles"
    source = ("Gym-V Puzzles/UltraTicTacToe-QA-v0", "Game-RL UltraTicTacToe")
    question = "The picture shows a game of ultra tic-tac-toe. Answer the question about it."
    rules = (
        "X (blue) and O (red) take turns to mark an empty cell of a board of nine sub-boards of 3 x 3 cells. X "
        "begins, in the sub-board in the middle. The place of a mark within its sub-board names the sub-board "
        "of the next mark: a mark in the top left cell of any sub-board sends the other player to the top left "
        "sub-board, and so on. Each row, column or diagonal of three own marks within one sub-board scores one "
        "point; lines may share cells. The game ends when the centre cells of all sub-boards are marked. Cells "
        "are (row, column) of the whole board, from 0 to 8; sub-boards are (row, column), from 0 to 2. "
        "The right number or square earns full reward, any other nothing. One answer ends the episode."
    )
    answer = Grid(1, 2, 0, 81, "a number, or the row and the column of a cell or sub-board", "5 7")
    levels = {"kind": ((WHO, BEST),)}
    min_resolution = (80,)

    def reset(self, key: Array, scale) -> State:
        noise = jax.random.bits(key, ((MOST + 1) * 11 + 90,))
        moves, few = noise[: 9 * (MOST + 1)].reshape(MOST + 1, 9), noise[9 * (MOST + 1) :]
        few, asked_noise = few[: 2 * (MOST + 1)].reshape(2, -1), few[2 * (MOST + 1) :]
        order, at, facts = _play(moves)
        possible = (np.arange(MOST + 1) >= FEWEST) & (facts[LEGAL] > 0)
        single = possible & (facts[BEST] == 1)
        kind = jnp.where((scale["kind"] == BEST) & ~jnp.any(single), WHICH, scale["kind"])
        scored = possible & (facts[POINTS] > 0)
        possible = jnp.where(kind == POINTS, jnp.where(jnp.any(scored), scored, possible), possible)
        possible = jnp.where(kind == BEST, single, possible)
        # The value is drawn first, then a moment that has it: all values are about equally often the answer.
        value = facts[jnp.where(kind == BEST, 0, kind)]
        same = (value[None, :] == np.arange(MOST + 1, dtype=np.int32)[:, None]) & possible[None, :]
        moment = _pick(few[1], same[_pick(few[0], same.any(axis=1))])
        marks = jnp.where((order > 0) & (order <= moment), 2 - order % 2, EMPTY)
        points = jnp.asarray(_POINTS)[jnp.stack([_bits(marks == X), _bits(marks == O)])].reshape(-1)
        cells = _whole(marks)
        values = jnp.pad(points, (0, 63), constant_values=-1)
        values = jnp.where(kind == POINTS, values, cells.reshape(-1))
        same = values[None, :] == np.arange(9, dtype=np.int32)[:, None]
        asked = _pick(asked_noise[:81], same[_pick(asked_noise[81:], same.any(axis=1))])
        sub, place = at[moment - 1] // 9, at[moment - 1] % 9
        last = 9 * (3 * (sub // 3) + place // 3) + 3 * (sub % 3) + place % 3
        return State(cells, last, kind, jnp.where((kind == WHO) | (kind == POINTS), asked, 0))

    def text_question(self, state: State) -> Array:
        asked = [
            "What is in cell ",
            "How many cells can be marked next?",
            "How many sub-boards have a mark in their centre cell?",
            "How many marks are on the board?",
            "How many points has ",
            "In which sub-board must the next mark go? The last move is not told.",
            "Which cell gives the most points at once?",
        ]
        mover = (state.cells != EMPTY).sum(dtype=jnp.int32) % 2
        told = (state.kind == LEGAL) | (state.kind == BEST)
        return text.join(
            text.lit(
                "The picture shows a game of ultra tic-tac-toe. Rows and columns count from 0 at the top left. "
            ),
            text.when(
                told,
                text.join(
                    text.choose(mover, ["O", "X"]), text.lit(" has just marked cell "), _cell(state.last),
                    text.lit(", it is the turn of "), text.choose(mover, ["X", "O"]), text.lit(". "),
                ),
            ),
            text.choose(state.kind, asked),
            text.when(
                state.kind == WHO, text.join(_cell(state.asked), text.lit("? 0 nothing, 1 X, 2 O."))
            ),
            text.when(
                state.kind == POINTS,
                text.join(
                    text.choose(state.asked // 9 % 2, ["X", "O"]), text.lit(" in sub-board "),
                    _sub(state.asked % 9), text.lit("?"),
                ),
            ),
        )  # fmt: skip

    def step(self, key: Array, state: State, action: Array):
        square = state.kind >= WHICH
        most = jnp.where(state.kind == WHICH, 2, jnp.where(square, 8, 81))
        valid = (action[0] >= 0) & (action[0] <= most)
        valid &= jnp.where(square, (action[1] >= 0) & (action[1] <= most), action[1] == BLANK)
        return state, outcome(valid & jnp.all(action == self.solve(state)), True, valid)

    def solve(self, state: State) -> Array:
        subs = _subs(state.cells)
        filled = subs != EMPTY
        here = _next(state.cells)
        own = subs[here] == X + filled.sum(dtype=jnp.int32) % 2
        gain = jnp.where(filled[here], -1, jnp.asarray(_GAIN)[_bits(own)])
        place = jnp.argmax(gain).astype(jnp.int32)
        player = X + state.asked // 9
        points = jnp.asarray(_POINTS)[_bits(subs[state.asked % 9] == player)]
        numbers = [
            state.cells.reshape(-1)[state.asked], 9 - filled[here].sum(dtype=jnp.int32),
            filled[:, CENTRE].sum(dtype=jnp.int32), filled.sum(dtype=jnp.int32), points,
        ]  # fmt: skip
        blank = jnp.int32(BLANK)
        answers = [jnp.stack([number, blank]) for number in numbers]
        cell = jnp.stack([3 * (here // 3) + place // 3, 3 * (here % 3) + place % 3])
        answers += [jnp.stack([here // 3, here % 3]), cell]
        return jnp.stack(answers)[state.kind]

    def render(self, state: State) -> Array:
        sprites = draw.sheet(self.resolution, (10,), _paint, _PAPER)
        start = (np.arange(9, dtype=np.int32) % 3 == 0).astype(np.int32)
        codes = 4 * state.cells + (2 * start[:, None] + start[None, :])
        index = DIGIT + np.arange(9, dtype=np.int32)
        top = np.concatenate([[np.int32(CORNER)], index])
        codes = jnp.concatenate([top[None, :], jnp.concatenate([index[:, None], codes], axis=1)])
        return draw.tiles(sprites, codes, 10, 10)

    def text_obs(self, state: State) -> Array:
        spread = np.asarray([0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8])  # with lines between sub-boards
        line = (spread < 0)[:, None] | (spread < 0)[None, :]
        codes = jnp.where(line, 3 + (spread < 0)[:, None], state.cells[spread[:, None], spread[None, :]])
        return text.join(text.lit("X, O, . empty\n"), text.table(codes, ".XO|-", 11, 11, ""))

    def text_state(self, state: State) -> Array:
        filled = _subs(state.cells) != EMPTY
        counts = [text.num(filled.sum(axis=axis, dtype=jnp.int32), 1) for axis in (1, 0)]
        every = np.ones(9, bool)
        told = (state.kind == LEGAL) | (state.kind == BEST)
        return text.join(
            text.when(
                told, text.join(text.lit("the next mark goes into sub-board "), _sub(_next(state.cells)))
            ),
            text.when(
                ~told, text.join(text.lit("marks in the sub-boards, row by row: "), text.items(counts[0], every))
            ),
            text.when(
                state.kind == WHICH,
                text.join(
                    text.lit("; marks in the nine places of a sub-board, over all of them: "),
                    text.items(counts[1], every),
                ),
            ),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        find = "Find the cell or sub-board first; count rows from the top, columns from the left, from 0."
        count = "Go through the sub-boards one by one and add up."
        lines = "Look at all eight lines of the sub-board; one cell may belong to several."
        move = "The place of the last mark in its sub-board names the sub-board to look at."
        infer = (
            "Every mark sends its successor to a sub-board: compare how many were sent to a sub-board with how "
            "many marks it has; the first mark was sent to the middle."
        )
        index = np.asarray([0, 3, 1, 1, 2, 4, 3], np.int32)
        return text.choose(jnp.asarray(index)[state.kind], [find, count, lines, move, infer])


def _tables() -> tuple[np.ndarray, np.ndarray]:
    """By the set of own places (bit k = place k): i32[512] lines in it, i32[512, 9] lines one more completes."""
    sets = np.arange(512)
    lines = np.asarray([sum(1 << k for k in line) for line in LINES])
    points = (sets[:, None] & lines == lines).sum(axis=1).astype(np.int32)
    return points, points[sets[:, None] | 1 << np.arange(9)] - points[:, None]


_POINTS, _GAIN = _tables()
_PAPER = (232, 234, 240)


def _play(noise: Array) -> tuple[Array, Array, Array]:
    """A game of MOST moves (or fewer if it ends) that takes the most points with every move.

    Returns:
        i32[9, 9]: by sub-board and place, the number of its move from 1 on, 0 if there is none.
        i32[MOST + 1]: the move made after so many moves, 9 * sub-board + place.
        i32[7, MOST + 1]: by kind of question and moves made: the answer to LEGAL, CENTRES, PIECES and WHICH, the
        points of both sides together for POINTS, how many moves are best and gain something for BEST, else 0.
    """

    def move(carry, now):
        order, own, other, here, score = carry  # own, other: i32[9] sets of places by sub-board
        made, chance = now
        empty = (own[here] | other[here]) >> np.arange(9, dtype=np.int32) & 1 == 0
        gain = jnp.where(empty, jnp.asarray(_GAIN)[own[here]], -1)
        place = jnp.argmax(jnp.where(empty, (gain << 24) | (chance >> 9).astype(jnp.int32), -1))
        place = place.astype(jnp.int32)
        legal = empty.sum(dtype=jnp.int32)
        centres = ((own | other) >> CENTRE & 1).sum(dtype=jnp.int32)
        best = ((gain == gain.max()) & (gain > 0)).sum(dtype=jnp.int32)
        facts = jnp.stack([jnp.int32(0), legal, centres, made, score, here, best])
        sub = (np.arange(9) == here) & (legal > 0)
        order = jnp.where(sub[:, None] & (np.arange(9) == place)[None, :], made + 1, order)
        own = own | jnp.where(sub, 1 << place, 0)
        score = score + jnp.maximum(gain.max(), 0)
        return (order, other, own, jnp.where(legal > 0, place, here), score), (9 * here + place, facts)

    empty = jnp.zeros(9, jnp.int32)
    start = (jnp.zeros((9, 9), jnp.int32), empty, empty, jnp.int32(CENTRE), jnp.int32(0))
    steps = (np.arange(MOST + 1, dtype=np.int32), noise)
    (order, *_), (at, facts) = lax.scan(move, start, steps)
    return order, at, facts.T


def _pick(noise: Array, mask: Array) -> Array:
    """i32[]: the index with the largest noise (u32) where the mask holds."""
    return jnp.argmax(jnp.where(mask, (noise >> 1).astype(jnp.int32), -1)).astype(jnp.int32)


def _bits(mask: Array) -> Array:
    """i32[...]: sets of places bool[..., 9] as numbers."""
    return jnp.where(mask, 1 << np.arange(9, dtype=np.int32), 0).sum(axis=-1, dtype=jnp.int32)


def _subs(cells: Array) -> Array:
    """i32[9, 9] by (row, col) as i32[9, 9] by sub-board and place; its own inverse."""
    return cells.reshape(3, 3, 3, 3).transpose(0, 2, 1, 3).reshape(9, 9)


_whole = _subs


def _next(cells: Array) -> Array:
    """i32[]: the sub-board of the next mark, to which one more mark was sent than it has."""
    filled = _subs(cells) != EMPTY
    sent = filled.sum(axis=0, dtype=jnp.int32) + (np.arange(9) == CENTRE).astype(np.int32)
    return jnp.argmax(sent - filled.sum(axis=1, dtype=jnp.int32)).astype(jnp.int32)


def _cell(cell: Array) -> Array:
    return text.coordinates(jnp.stack([cell // 9, cell % 9], axis=-1), 1)


def _sub(sub: Array) -> Array:
    return text.coordinates(jnp.stack([sub // 3, sub % 3], axis=-1), 1)


def _paint(side: int) -> np.ndarray:
    """Empty, cross and ring, each plain, with a frame on the left, on top and on both; nine digits; paper."""
    white, thin, frame = (252, 252, 250), (190, 194, 206), (40, 44, 60)
    pixel = max(1, side // 32) / side

    def cell(mark, top, left):
        canvas = Canvas(side, thin).rect(0, 0, 1 - pixel, 1 - pixel, white)
        canvas.rect(0, 0, 1, pixel * 2 * top, frame).rect(0, 0, pixel * 2 * left, 1, frame)
        middle = (1 + pixel) / 2
        low, high = middle - 0.26, middle + 0.26
        if mark == X:
            canvas.line(low, low, high, high, 0.15, (34, 84, 200))
            canvas.line(low, high, high, low, 0.15, (34, 84, 200))
        if mark == O:
            canvas.disc(middle, middle, 0.34, (214, 40, 48)).disc(middle, middle, 0.19, white)
        return canvas

    cells = [cell(mark, top, left) for mark in range(3) for top in (0, 1) for left in (0, 1)]
    digits = [Canvas(side, _PAPER).text(str(k), (60, 64, 80)) for k in range(9)]
    return np.stack([c.done() for c in (*cells, *digits, Canvas(side, _PAPER))])


ENV = UltraTicTacToeQA()
