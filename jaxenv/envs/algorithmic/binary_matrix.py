"""Write for every cell of a 0/1 matrix how far the nearest 0 is, counted in rows plus columns."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import BLANK, Grid
from jaxenv.core import Env, outcome
from jaxenv.gen.choice import pick
from jaxenv.solve.grid import FAR
from jaxenv.sprites import Canvas

N = 10


@struct.dataclass
class State:
    zeros: Array  # bool[N, N]; False beyond size
    size: Array  # i32[]


class BinaryMatrix(Env[State]):
    """Reasoning Gym's task; some cell is always two or more steps from a zero, so that no answer is a copy.

    Of upstream's smallest matrices more than half are their own answer. Where a draw is, the zeros next to
    one random cell are taken away; the zero that is set in any case is never one of them. The smallest level
    has 220 instances of 3 x 3 and 36,874 of 4 x 4; the next ones have millions. Rarer zeros make larger
    distances, so their share falls with the level. Spaces, commas and brackets are all read alike (upstream
    evaluates the reply, and a line break at its end costs the point).
    """

    category = "algorithmic"
    source = ("Gym-V Algorithmic/BinaryMatrix-v0", "reasoning-gym binary_matrix")
    question = (
        "The picture shows a square matrix of zeros (green) and ones (dark). Write the matrix that holds, for "
        "every cell, the distance to the nearest zero, counted in rows plus columns."
    )
    rules = (
        "The distance between two cells is the difference of their rows plus the difference of their columns "
        "(taxicab distance); ones are no obstacles. A zero has distance 0 to itself. The answer has as many "
        "rows and columns as the matrix shown. "
        "The exact matrix earns full reward, anything else nothing. The episode ends with the answer."
    )
    answer = Grid(N, N, 0, 2 * N - 2, "the distances, one row a line, separated by spaces", "1 2\n0 1")
    levels = {
        "size": ((3, 4), (5, 5), (5, 6), (5, 8), (7, 10), (9, 10)),
        "percent": ((30, 30), (30, 30), (25, 25), (25, 25), (20, 20), (15, 15)),  # of the cells are zeros
    }
    eval_level = 3
    min_resolution = (32, 40, 48, 64, 80, 80)

    def reset(self, key: Array, scale) -> State:
        k_cell, k_zero, k_others = jax.random.split(key, 3)
        row, col = np.mgrid[:N, :N].astype(np.int32)
        size = scale["size"]
        inside = (row < size) & (col < size)
        cell = pick(k_cell, inside.reshape(-1))
        around = jnp.abs(row - cell // N) + jnp.abs(col - cell % N) <= 1
        zero = pick(k_zero, (inside & ~around).reshape(-1)) == row * N + col
        share = scale["percent"].astype(jnp.float32) / 100
        zeros = inside & (zero | (jax.random.uniform(k_others, (N, N)) < share))
        near = jnp.all(~inside | (_distances(zeros) <= 1))
        return State(zeros & ~(near & around), size)

    def step(self, key: Array, state: State, action: Array):
        shaped = jnp.all((action != BLANK).reshape(N, N) == _inside(state.size))
        return state, outcome(jnp.all(action == self.solve(state)), True, shaped)

    def solve(self, state: State) -> Array:
        return jnp.where(_inside(state.size), _distances(state.zeros), BLANK).reshape(-1)

    def render(self, state: State) -> Array:
        largest = self.levels["size"][-1][1]  # of the levels that `make` found legible
        sprites = draw.sheet(self.resolution, tuple(range(2, largest + 1)), _paint, (64, 62, 58))
        ones = (~state.zeros[:largest, :largest]).astype(jnp.int32)
        return draw.tiles(sprites, ones, state.size, state.size)

    def text_obs(self, state: State) -> Array:
        return text.table((~state.zeros).astype(jnp.int32), "01", state.size, state.size)

    def text_state(self, state: State) -> Array:
        size, (row, col) = text.num(state.size, 2), np.mgrid[:N, :N].astype(np.int32)
        places = text.coordinates(np.stack([row, col], axis=-1).reshape(-1, 2), 1)
        return text.join(
            size, text.lit(" rows, "), size, text.lit(" columns; zeros at (row, column) "),
            text.items(places, state.zeros.reshape(-1)),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Start from the zeros: the cells above, below, left and right of them get 1, the cells next to "
            "those that are still open get 2, and so on. A diagonal neighbour is two steps away."
        )


def _inside(size: Array) -> Array:
    """bool[N, N]"""
    row, col = np.mgrid[:N, :N].astype(np.int32)
    return (row < size) & (col < size)


def _distances(zeros: Array) -> Array:
    """i32[N, N]: taxicab distances to the nearest of bool[N, N], first along rows, then along columns."""
    steps = np.abs(np.subtract.outer(np.arange(N), np.arange(N))).astype(np.int32)
    in_row = (jnp.where(zeros, 0, FAR)[:, :, None] + steps[None, :, :]).min(axis=1)
    return (in_row[:, None, :] + steps[:, :, None]).min(axis=0)


def _paint(side: int) -> np.ndarray:
    """Sprites 0 (pale green) and 1 (dark), with a grid line on the right and bottom edge."""
    edge = 1 - max(1, side // 24) / side

    def cell(digit, paper, ink):
        return Canvas(side, (150, 150, 140)).rect(0, 0, edge, edge, paper).text(digit, ink).done()

    return np.stack([cell("0", (208, 242, 205), (18, 104, 40)), cell("1", (70, 72, 82), (250, 250, 250))])


ENV = BinaryMatrix()
