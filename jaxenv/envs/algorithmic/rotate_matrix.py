"""Rotate a square matrix of digits clockwise by a stated multiple of 90 degrees."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import BLANK, Grid
from jaxenv.core import Env, outcome
from jaxenv.sprites import Canvas

N = 10
DIGITS = "0123456789"


@struct.dataclass
class State:
    cells: Array  # i32[N, N] digits 0 .. 9; anything beyond size
    size: Array  # i32[]
    turns: Array  # i32[] quarter turns clockwise


class RotateMatrix(Env[State]):
    """Reasoning Gym's task without its copy tasks: the result always differs from the matrix shown.

    The angle is 1 to 3 quarter turns plus some full turns; upstream draws 0 to 10 quarter turns, so that more
    than a quarter of its instances ask for the matrix as it is. The smallest level has 30,000 instances.
    """

    category = "algorithmic"
    source = ("Gym-V Algorithmic/RotateMatrix-v0", "reasoning-gym rotate_matrix")
    question = "The picture shows a square matrix of digits. Rotate it clockwise and write the result."
    rules = (
        "One quarter turn (90 degrees) clockwise makes the left column, read from bottom to top, the new top "
        "row. Larger angles are several quarter turns one after the other; 360 degrees change nothing. "
        "The answer is the whole rotated matrix, with as many rows and columns as the one shown. "
        "The exact matrix earns full reward, anything else nothing. The episode ends with the answer."
    )
    answer = Grid(N, N, 0, 9, "the rotated matrix, one row a line, digits separated by spaces", "1 2\n3 4")
    levels = {
        "size": ((2, 2), (3, 3), (4, 5), (5, 6), (7, 8), (9, 10)),
        "quarters": ((1, 3), (1, 3), (1, 3), (1, 3), (1, 3), (1, 3)),
        "full": ((0, 0), (0, 0), (0, 0), (0, 2), (0, 2), (0, 2)),
    }
    eval_level = 2
    min_resolution = (16, 24, 40, 48, 64, 80)

    def reset(self, key: Array, scale) -> State:
        state = State(
            jax.random.randint(key, (N, N), 0, 10, jnp.int32),
            scale["size"],
            scale["quarters"] + 4 * scale["full"],
        )
        # A matrix that the turn leaves as it is would be a copy task; another corner digit breaks it.
        other = state.cells.at[0, 0].set((state.cells[0, 0] + 1) % 10)
        symmetric = jnp.all((_rotated(state) == state.cells) | ~_inside(state.size))
        return state.replace(cells=jnp.where(symmetric, other, state.cells))

    def text_question(self, state: State) -> Array:
        return text.join(
            text.lit("The picture shows a square matrix of digits. Rotate it clockwise by "),
            text.num(90 * state.turns, 3),
            text.lit(" degrees and write the result."),
        )

    def step(self, key: Array, state: State, action: Array):
        shaped = jnp.all((action != BLANK).reshape(N, N) == _inside(state.size))
        return state, outcome(jnp.all(action == self.solve(state)), True, shaped)

    def solve(self, state: State) -> Array:
        return jnp.where(_inside(state.size), _rotated(state), BLANK).reshape(-1)

    def render(self, state: State) -> Array:
        largest = self.levels["size"][-1][1]  # of the levels that `make` found legible
        sprites = draw.sheet(self.resolution, tuple(range(2, largest + 1)), _paint, (52, 55, 80))
        return draw.tiles(sprites, state.cells[:largest, :largest], state.size, state.size)

    def text_obs(self, state: State) -> Array:
        return text.table(state.cells, DIGITS, state.size, state.size)

    def text_state(self, state: State) -> Array:
        size = text.num(state.size, 2)
        return text.join(
            size, text.lit(" rows, "), size, text.lit(" columns, "), text.num(90 * state.turns, 3),
            text.lit(" degrees; without full turns "), text.num(90 * (state.turns % 4), 3),
            text.lit(" degrees"),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Take away full turns of 360 degrees first. Then build the result row by row: "
            "for one quarter turn each new row is an old column read from bottom to top, the leftmost first."
        )


def _inside(size: Array) -> Array:
    """bool[N, N]"""
    row, col = np.mgrid[:N, :N].astype(np.int32)
    return (row < size) & (col < size)


def _rotated(state: State) -> Array:
    """i32[N, N]: the rotated matrix, anything beyond size."""
    row, col = np.mgrid[:N, :N].astype(np.int32)
    last = state.size - 1
    turn = state.turns % 4
    # Where the digit that ends at (row, col) comes from.
    from_row = jnp.select([turn == 1, turn == 2, turn == 3], [last - col, last - row, col], row)
    from_col = jnp.select([turn == 1, turn == 2, turn == 3], [row, last - col, last - row], col)
    return state.cells.at[from_row, from_col].get(mode="clip")


def _paint(side: int) -> np.ndarray:
    """One sprite a digit, with a grid line on its right and bottom edge."""
    edge = 1 - max(1, side // 24) / side
    return np.stack(
        [
            Canvas(side, (178, 178, 205)).rect(0, 0, edge, edge, (236, 233, 250)).text(d, (32, 30, 70)).done()
            for d in DIGITS
        ]
    )


ENV = RotateMatrix()
