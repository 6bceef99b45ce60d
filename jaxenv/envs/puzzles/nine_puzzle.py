"""Turn a grid of numbers into another one by shifting rows and columns around, a few cells at a time."""

import re

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import draw, text
from jaxenv.codec import BLANK, Words
from jaxenv.core import Env, outcome
from jaxenv.sprites import Canvas, string

N = 5  # cells along a side of the largest grid
FARTHEST = N - 1  # cells of the longest shift
SCRAMBLE = 18  # shifts of the longest scramble
MOVES = 100  # shifts of the longest answer
SPAN = 2 * FARTHEST + 1
ROW, COL = range(2)  # a shift is the code ((ROW or COL) * N + index) * SPAN + cells + FARTHEST


class Shifts(Words):
    """One shift a line, like 'row 0 -2'; commas and 'column' for 'col' are read too. Action: i32[n] of codes."""

    def __init__(self, n: int):
        shifts = [
            f"{axis} {index} {cells}"
            for axis in ("row", "col")
            for index in range(N)
            for cells in range(-FARTHEST, FARTHEST + 1)
        ]
        super().__init__(shifts, n, f"up to {n} moves, one a line", ("row 0 2\ncol 1 -1",))
        self._glue = "\n"

    def parse(self, answer: str) -> np.ndarray | None:
        lines = [re.sub(r"[\s,;:]+", " ", line).strip(" .").lower() for line in answer.splitlines()]
        lines = [re.sub(r"\+(?=\d)", "", line.replace("column", "col")) for line in lines if line]
        if not 1 <= len(lines) <= self.size or not all(line in self._index for line in lines):
            return None
        out = np.full(self.size, BLANK, np.int32)
        out[: len(lines)] = [self._index[line] for line in lines]
        return out


@struct.dataclass
class State:
    start: Array  # i32[N, N] different numbers in 1 .. N * N; anything beyond the grid
    goal: Array  # i32[N, N] the same numbers shifted
    size: Array  # i32[2] rows and columns
    most: Array  # i32[2] cells by which a row and a column may be shifted at once
    way: Array  # i32[SCRAMBLE] codes of shifts that lead to the goal, `BLANK` behind. Never shown


class NinePuzzle(Env[State]):
    """RLVE's task with the limits of shifts in the question: upstream's picture prompt lacks them.

    No shift of a scramble is in the line of the one before, and one that would end at the start grid is left
    out: goal and start always differ. The numbers of a grid are any of 1 to 25, so that grids of 2 x 2 are
    many, too. As upstream, wrong grids earn the tenth power of the share of right cells, but only if more
    cells are right than at the start: doing nothing earns nothing. Answers have up to 100 moves; shifts by
    zero cells are allowed.
    """

    category = "puzzles"
    source = ("Gym-V Puzzles/NinePuzzle-v0", "RLVE NinePuzzle")
    question = "Turn the upper grid into the lower one by shifting rows and columns around."
    rules = (
        "A move shifts one row or one column; cells pushed out at one end come back in at the other. A move "
        "by more cells than allowed, or in a row or column that is not there, makes the whole answer worth "
        "nothing. Any sequence of moves that ends in the lower grid earns full reward, however long it is. "
        "Otherwise the share of cells that are right at the end, to the power of ten, is paid, provided that "
        "more are right than at the start. The episode ends with your answer."
    )
    answer = Shifts(MOVES)
    levels = {
        "rows": ((2, 2), (2, 3), (2, 3), (3, 4), (3, 4), (4, 5)),
        "cols": ((2, 2), (2, 3), (2, 3), (3, 4), (3, 4), (4, 5)),
        "steps": ((1, 2), (2, 3), (4, 6), (5, 8), (9, 12), (12, 18)),
    }
    eval_level = 4  # contains max_n_m=4 with steps=12
    min_resolution = (80, 112, 112, 144, 144, 176)  # 16 px a cell: two digits

    def reset(self, key: Array, scale) -> State:
        k_cells, k_most, k_shifts = jax.random.split(key, 3)
        size = jnp.stack([scale["rows"], scale["cols"]])
        start = 1 + jnp.argsort(jax.random.uniform(k_cells, (N * N,))).astype(jnp.int32).reshape(N, N)
        most = 1 + _below(jax.random.uniform(k_most, (2,)), size[::-1] - 1)
        noise = jax.random.uniform(k_shifts, (SCRAMBLE + 1, 2))
        lines = size.sum()

        def scramble(carry, draw):
            cells, line, count = carry
            line = (line + 1 + _below(draw[0], lines - 1)) % lines
            axis = jnp.where(line < size[0], ROW, COL)
            index = jnp.where(line < size[0], line, line - size[0])
            by = _below(draw[1], 2 * most[axis]) - most[axis]
            by = jnp.where(by >= 0, by + 1, by)
            then = _shift(cells, size, axis, index, by)
            made = (count < scale["steps"]) & jnp.any((then != start) & _inside(size))
            code = jnp.where(made, (axis * N + index) * SPAN + by + FARTHEST, BLANK)
            return (jnp.where(made, then, cells), line, count + 1), code

        first = start, _below(noise[-1, 0], lines), jnp.int32(0)
        (goal, _, _), way = lax.scan(scramble, first, noise[:SCRAMBLE])
        behind = way == BLANK
        place = jnp.where(behind, SCRAMBLE, jnp.cumsum(~behind, dtype=jnp.int32) - 1)
        way = jnp.full(SCRAMBLE, BLANK, jnp.int32).at[place].set(way, mode="drop")
        return State(start, goal, size, most, way)

    def step(self, key: Array, state: State, action: Array):
        made = (action >= 0) & (action < 2 * N * SPAN)
        axis, index, by = action // (N * SPAN), action // SPAN % N, action % SPAN - FARTHEST
        axis = jnp.clip(axis, ROW, COL)
        legal = made & (index < state.size[axis]) & (jnp.abs(by) <= state.most[axis])
        whole = legal[0] & jnp.all(legal | (action == BLANK)) & ~jnp.any(legal[1:] & ~legal[:-1])

        def move(cells, shift):
            axis, index, by, legal = shift
            return jnp.where(legal, _shift(cells, state.size, axis, index, by), cells), None

        cells, _ = lax.scan(move, state.start, (axis, index, by, legal))
        count = state.size[0] * state.size[1]
        right, before = (_equal(x, state).sum(dtype=jnp.int32) for x in (cells, state.start))
        share = right.astype(jnp.float32) / count.astype(jnp.float32)
        partial = jnp.where(right > before, share**10, 0.0)
        reward = jnp.where(right == count, 1.0, partial)
        return state, outcome(jnp.where(whole, reward, 0.0), whole, whole)

    def solve(self, state: State) -> Array:
        return jnp.pad(state.way, (0, MOVES - SCRAMBLE), constant_values=BLANK)

    def render(self, state: State) -> Array:
        largest = self.levels["rows"][-1][1]  # of the levels that `make` found legible
        row = np.arange(2 * largest + 1, dtype=np.int32)
        cells = jnp.concatenate([state.start, state.goal + N * N, jnp.zeros((1, N), jnp.int32)])
        place = jnp.where(
            row < state.size[0], row, jnp.where(row > state.size[0], row - state.size[0] - 1 + N, 0)
        )
        place = jnp.where(row == state.size[0], 2 * N, place)
        sprites = draw.sheet(self.resolution, tuple(range(5, 2 * largest + 2, 2)), _paint, (74, 78, 92))
        return draw.tiles(sprites, cells[place, :largest], 2 * state.size[0] + 1, state.size[1])

    def text_question(self, state: State) -> Array:
        return text.join(
            text.lit(self.question),
            text.lit(" A move is 'row i s' or 'col i s': row or column i, counted from 0 at the top left, is "),
            text.lit("shifted around by s cells, to the right or down if s is positive, to the left or up if it "),
            text.lit("is negative. One move shifts a row by at most "), text.num(state.most[ROW], 1),
            text.lit(" and a column by at most "), text.num(state.most[COL], 1), text.lit("."),
        )  # fmt: skip

    def text_obs(self, state: State) -> Array:
        upper, lower = (
            text.rows_of(text.num(x, 2), state.size[0], state.size[1]) for x in (state.start, state.goal)
        )
        return text.join(
            text.lit("largest shift of a row "), text.num(state.most[ROW], 1),
            text.lit(", of a column "), text.num(state.most[COL], 1),
            text.lit("\nfrom\n"), upper, text.lit("to\n"), lower,
        )  # fmt: skip

    def text_state(self, state: State) -> Array:
        wrong = _inside(state.size) & (state.start != state.goal)
        by_row, by_col = (text.num(wrong.sum(axis=k, dtype=jnp.int32), 1) for k in (1, 0))
        line = np.arange(N)
        return text.join(
            text.num(wrong.sum(dtype=jnp.int32), 2), text.lit(" of "), text.num(state.size[0] * state.size[1], 2),
            text.lit(" cells differ; by row "), text.items(by_row, line < state.size[0], " "),
            text.lit(", by column "), text.items(by_col, line < state.size[1], " "),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Look for lines of the lower grid that are a line of the upper one, shifted, and work on the others "
            "first. Shifting n cells by s to one side is the same as by n - s to the other."
        )


def _below(noise: Array, count: Array) -> Array:
    """i32: 0 .. count - 1 from uniform noise in [0, 1)."""
    return jnp.minimum((noise * count.astype(jnp.float32)).astype(jnp.int32), count - 1)


def _inside(size: Array) -> Array:
    """bool[N, N]"""
    line = np.arange(N, dtype=np.int32)
    return (line < size[0])[:, None] & (line < size[1])[None, :]


def _equal(cells: Array, state: State) -> Array:
    return _inside(state.size) & (cells == state.goal)


def _shift(cells: Array, size: Array, axis: Array, index: Array, by: Array) -> Array:
    """i32[N, N] after one row is shifted to the right or one column down."""
    row, col = np.mgrid[:N, :N].astype(np.int32)
    from_row = jnp.where((axis == COL) & (col == index), (row - by) % size[0], row)
    from_col = jnp.where((axis == ROW) & (row == index), (col - by) % size[1], col)
    return cells.reshape(-1)[from_row * N + from_col]


def _paint(side: int) -> np.ndarray:
    """An arrow downwards, then 1 .. N * N on yellow cells and again on blue ones."""
    edge = 1 - max(1, side // 24) / side
    arrow = Canvas(side, (74, 78, 92)).rect(0.4, 0.1, 0.6, 0.5, (240, 240, 240))
    sprites = [arrow.polygon([(0.15, 0.45), (0.85, 0.45), (0.5, 0.9)], (240, 240, 240))]
    for face, ink in ((255, 232, 150), (50, 34, 4)), ((176, 212, 250), (6, 26, 60)):
        for number in range(1, N * N + 1):
            cell = Canvas(side, (120, 124, 136)).rect(0, 0, edge, edge, face)
            dots = string(str(number))
            cell.dots.append(
                (np.pad(dots, ((0, 0), (3, 3))) if number < 10 else dots, ink)
            )  # all of one height
            sprites.append(cell)
    return np.stack([sprite.done() for sprite in sprites])


ENV = NinePuzzle()
