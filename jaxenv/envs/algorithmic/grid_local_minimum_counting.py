"""Count the ways to number a grid so that its local minima are exactly the marked cells."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Natural
from jaxenv.core import Env, outcome
from jaxenv.solve.local_minima import LIMBS, STRIDE, counts
from jaxenv.sprites import Canvas

N = 5
SIZES = tuple((r, c) for r in range(2, N + 1) for c in range(3, N + 1))
SHIFT = STRIDE * N  # bits of a set of marks


@struct.dataclass
class State:
    marked: Array  # bool[N, N]; False beyond rows x cols
    rows: Array  # i32[]
    cols: Array  # i32[]


class GridLocalMinimumCounting(Env[State]):
    """RLVE's task with exact answers of up to 23 digits, drawn uniformly from all marks that are possible.

    These are few, so instances repeat: 10 for 2 x 3 cells, 20 for 2 x 4, 42 for 2 x 5, 34 for 3 x 3, 92 for
    3 x 4, 268 for 3 x 5, 313 for 4 x 4, 1,212 for 4 x 5, 6,426 for 5 x 5 (a turned grid has as many). A 2 x 2
    grid has one answer and is left out, and so is 2 x 3 below level 3, where 60 is right 4 times in 5. Upstream
    draws the marks of a random numbering, with sides from 2 on at every level, pays for near misses and
    turns a count of 0 into 1.
    """

    category = "algorithmic"
    source = ("Gym-V Algorithmic/GridLocalMinimumCounting-v0", "RLVE grid_local_minimum_counting")
    question = (
        "The cells of the grid are to be numbered from 1 on, each with another number. In how many ways can "
        "this be done so that exactly the cells marked X hold a number smaller than all of their neighbours?"
    )
    rules = (
        "A grid of n cells takes the numbers 1 to n, each once. Neighbours are the up to eight cells next to "
        "a cell, diagonally too. Every cell marked X has to hold a smaller number than all of its neighbours, "
        "and every other cell has to have a neighbour with a smaller number. "
        "Only the exact count earns the reward. The episode ends with the answer."
    )
    answer = Natural(9 * LIMBS, "one whole number", 36)
    levels = {
        "rows": ((2, 2), (2, 3), (3, 3), (2, 5), (4, 4), (5, 5)),
        "cols": ((4, 5), (4, 4), (3, 5), (3, 5), (4, 5), (4, 5)),
    }
    eval_level = 3  # the paper's max_n_m=5; the last level has no small grids
    min_resolution = (40, 40, 40, 40, 40, 40)

    def reset(self, key: Array, scale) -> State:
        keys, _, first = _table()
        size = _size(scale["rows"], scale["cols"])
        low, high = (jnp.asarray(first)[size + k] for k in range(2))
        marks = jnp.asarray(keys)[jax.random.randint(key, (), low, high, jnp.int32)]
        place = STRIDE * np.arange(N)[:, None] + np.arange(N)[None, :]
        return State(marks >> place.astype(np.int32) & 1 == 1, scale["rows"], scale["cols"])

    def step(self, key: Array, state: State, action: Array):
        return state, outcome(jnp.all(action == self.solve(state)), True)

    def solve(self, state: State) -> Array:
        keys, numberings, _ = _table()
        bits = 1 << (STRIDE * np.arange(N)[:, None] + np.arange(N)[None, :]).astype(np.int32)
        size = _size(state.rows, state.cols)
        wanted = jnp.where(state.marked, bits, 0).sum(dtype=jnp.int32) + (size << SHIFT)
        place = jnp.minimum(jnp.searchsorted(jnp.asarray(keys), wanted), len(keys) - 1)
        # Marks that are not in the table touch each other: no numbering has them.
        return jnp.where(jnp.asarray(keys)[place] == wanted, jnp.asarray(numberings)[place], 0)

    def render(self, state: State) -> Array:
        sprites = draw.sheet(self.resolution, tuple(range(3, N + 1)), _paint, (52, 46, 70))
        return draw.tiles(sprites, state.marked.astype(jnp.int32), state.rows, state.cols)

    def text_obs(self, state: State) -> Array:
        return text.table(state.marked.astype(jnp.int32), ".X", state.rows, state.cols)

    def text_state(self, state: State) -> Array:
        row, col = np.mgrid[:N, :N].astype(np.int32)
        places = text.coordinates(np.stack([row, col], axis=-1).reshape(-1, 2), 1)
        return text.join(
            text.num(state.rows, 1), text.lit(" rows, "), text.num(state.cols, 1), text.lit(" columns, numbers 1 to "),
            text.num(state.rows * state.cols, 2), text.lit("; X at (row, column) "),
            text.items(places, state.marked.reshape(-1)),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Place the numbers in order: each goes to an X or to a cell that is next to no X that is still "
            "empty. Which X are full is all you need to remember. This counts numberings with further minima, "
            "too: subtract those with one more X, add those with two more, and so on."
        )


def _size(rows: Array, cols: Array) -> Array:
    """i32[]: the place in `SIZES`."""
    return (rows - 2) * (N - 2) + cols - 3


@cache
def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Possible marks of all sizes, ascending by size and bits, their numberings, and where each size begins.

    i32[P] keys (the place of the size above the bits), i32[P, LIMBS], i32[len(SIZES) + 1].
    """
    tables = [counts(*size) for size in SIZES]
    keys = [marks + (k << SHIFT) for k, (marks, _) in enumerate(tables)]
    first = np.cumsum([0, *map(len, keys)])
    return (
        np.concatenate(keys).astype(np.int32),
        np.concatenate([numberings for _, numberings in tables]),
        first.astype(np.int32),
    )


def _paint(side: int) -> np.ndarray:
    """An unmarked cell with a dot, and a marked one with a cross, with a line on the right and bottom edge."""
    line = max(1, side // 24)
    edge, middle, reach = 1 - line / side, (1 - line / side) / 2, 0.28

    def cell(paper):
        return Canvas(side, (98, 84, 66)).rect(0, 0, edge, edge, paper)

    plain, cross, grey, white = cell((244, 234, 212)), cell((76, 74, 190)), (160, 150, 138), (255, 255, 255)
    if side < 16:  # whole pixels, or the strokes blur
        col, row = (np.floor(x * side) - (side - line) // 2 for x in (cross.x, cross.y))
        cross.fill((np.abs(col) == np.abs(row)) & (np.abs(col) < side // 2 - 1), white)
        plain.fill((col == 0) & (row == 0), grey)
    else:
        plain.disc(middle, middle, 0.09, grey)
        for sign in (-reach, reach):
            cross.line(middle - reach, middle - sign, middle + reach, middle + sign, 0.15, white)
    return np.stack([plain.done(), cross.done()])


ENV = GridLocalMinimumCounting()
