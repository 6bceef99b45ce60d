"""Read a square matrix of digits in clockwise spiral order."""

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


class SpiralMatrix(Env[State]):
    """Reasoning Gym's task without the matrices whose rows one after the other are the answer already.

    Those are one in ten of upstream's smallest ones. Upstream pays a tenth for a Python list and evaluates
    the reply to find it; here spaces, commas and brackets are all read alike, and only the exact list counts.
    The smallest level has 9,000 instances.
    """

    category = "algorithmic"
    source = ("Gym-V Algorithmic/SpiralMatrix-v0", "reasoning-gym spiral_matrix")
    question = (
        "The picture shows a square matrix of digits. List all digits in clockwise spiral order, starting at "
        "the top left."
    )
    rules = (
        "The spiral starts at the top left digit, goes right along the top row, down the right column, left "
        "along the bottom row and up the left column, then on in the same way inside of what it has visited, "
        "until every digit is listed once. "
        "The exact list earns full reward, anything else nothing. The episode ends with the answer."
    )
    answer = Grid(1, N * N, 0, 9, "all digits in one line, separated by spaces", "1 2 3")
    levels = {"size": ((2, 2), (3, 3), (4, 4), (5, 6), (7, 8), (9, 10))}
    eval_level = 3
    min_resolution = (16, 24, 32, 48, 64, 80)

    def reset(self, key: Array, scale) -> State:
        size = scale["size"]
        cells = jax.random.randint(key, (N, N), 0, 10, jnp.int32)
        # Where reading row by row would do, another digit at the start of the second row breaks it.
        other = cells.at[1, 0].set((cells[1, 0] + 1) % 10)
        place = np.arange(N * N, dtype=np.int32)
        by_row = cells[place // size, place % size]
        plain = jnp.all((by_row == _spiral(cells, size)) | (place >= size * size))
        return State(jnp.where(plain, other, cells), size)

    def step(self, key: Array, state: State, action: Array):
        complete = jnp.all((action != BLANK) == (np.arange(N * N) < state.size * state.size))
        return state, outcome(jnp.all(action == self.solve(state)), True, complete)

    def solve(self, state: State) -> Array:
        listed = np.arange(N * N) < state.size * state.size
        return jnp.where(listed, _spiral(state.cells, state.size), BLANK)

    def render(self, state: State) -> Array:
        largest = self.levels["size"][-1][1]  # of the levels that `make` found legible
        sprites = draw.sheet(self.resolution, tuple(range(2, largest + 1)), _paint, (42, 58, 54))
        return draw.tiles(sprites, state.cells[:largest, :largest], state.size, state.size)

    def text_obs(self, state: State) -> Array:
        return text.table(state.cells, DIGITS, state.size, state.size)

    def text_state(self, state: State) -> Array:
        size = text.num(state.size, 2)
        return text.join(
            size, text.lit(" rows, "), size, text.lit(" columns, "), text.num(state.size * state.size, 3),
            text.lit(" digits; number of rings: "), text.num((state.size + 1) // 2, 1),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Peel off the border clockwise, each corner once, then do the same with the smaller square that "
            "is left."
        )


def _orders() -> np.ndarray:
    """i32[N + 1, N * N]: for each size the cells (as row * N + col) in spiral order, 0 behind."""
    orders = np.zeros((N + 1, N * N), np.int32)
    for size in range(1, N + 1):
        rest = np.add.outer(N * np.arange(size), np.arange(size))
        listed: list[int] = []
        while rest.size:
            listed += rest[0].tolist()
            rest = rest[1:].T[::-1]  # the next side lies on top
        orders[size, : len(listed)] = listed
    return orders


_ORDERS = _orders()


def _spiral(cells: Array, size: Array) -> Array:
    """i32[N * N]: the digits in spiral order, anything behind the last."""
    return cells.reshape(-1)[jnp.asarray(_ORDERS)[size]]


def _paint(side: int) -> np.ndarray:
    """One sprite a digit, with a grid line on its right and bottom edge."""
    edge = 1 - max(1, side // 24) / side
    return np.stack(
        [
            Canvas(side, (172, 186, 180)).rect(0, 0, edge, edge, (252, 252, 246)).text(d, (20, 52, 44)).done()
            for d in DIGITS
        ]
    )


ENV = SpiralMatrix()
