"""Count the cells of the largest island on a grid of land and water."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome
from jaxenv.gen.islands import islands
from jaxenv.solve.components import component_sizes
from jaxenv.sprites import Canvas

N, ISLANDS = 14, 10


@struct.dataclass
class State:
    land: Array  # bool[N, N]; False beyond rows x cols
    rows: Array  # i32[]
    cols: Array  # i32[]


class LargestIsland(Env[State]):
    """Reasoning Gym's task with islands that stay apart: the levels bound the islands, not walks that merge.

    There are exactly `islands` of them, and none has more than `size` cells; the first one to grow aims at
    that, the others at anything up to it, so that all answers of a level are about equally likely. Only the
    number counts (upstream pays a reply that contains it among others).
    """

    category = "geometry"
    source = ("Gym-V Geometry/LargestIsland-v0", "reasoning-gym largest_island")
    question = (
        "The picture shows islands (green) in the sea (blue). Cells that share a side belong to the same "
        "island. How many cells does the largest island have?"
    )
    rules = (
        "An island is a group of green cells in which every cell can be reached from every other by steps up, "
        "down, left and right over green cells; diagonal contact does not join. Everything outside is sea. "
        "Only the exact number of cells earns the reward. The episode ends with the answer."
    )
    answer = Ints(1, 0, N * N, "the number of cells of the largest island", (12,))
    levels = {
        "rows": ((4, 5), (5, 6), (5, 8), (7, 10), (8, 10), (10, 14)),
        "cols": ((4, 5), (5, 6), (5, 8), (7, 10), (8, 10), (10, 14)),
        "islands": ((2, 3), (2, 4), (2, 5), (3, 6), (4, 8), (6, 10)),
        "size": ((2, 4), (2, 6), (3, 10), (4, 14), (5, 20), (6, 24)),
    }
    eval_level = 4
    min_resolution = (40, 48, 64, 80, 80, 112)

    def reset(self, key: Array, scale) -> State:
        k_sizes, k_grow = jax.random.split(key)
        sizes = jax.random.randint(k_sizes, (ISLANDS,), 1, scale["size"] + 1, jnp.int32)
        sizes = sizes.at[0].set(scale["size"])
        rows, cols = scale["rows"], scale["cols"]
        land = islands(k_grow, N, rows, cols, sizes, scale["islands"])
        return State(land[:, None] >> np.arange(N, dtype=np.int32)[None, :] & 1 == 1, rows, cols)

    def step(self, key: Array, state: State, action: Array):
        valid = (action[0] >= 0) & (action[0] <= state.rows * state.cols)
        return state, outcome(action[0] == self.solve(state)[0], valid, valid)

    def solve(self, state: State) -> Array:
        return component_sizes(state.land).max()[None]

    def render(self, state: State) -> Array:
        largest = max(self.levels[side][-1][1] for side in ("rows", "cols"))  # of the levels on offer
        sprites = draw.sheet(self.resolution, tuple(range(2, largest + 1)), _paint, (44, 48, 58))
        cells = state.land[:largest, :largest].astype(jnp.int32)
        return draw.tiles(sprites, cells, state.rows, state.cols)

    def text_obs(self, state: State) -> Array:
        cells = state.land.astype(jnp.int32)
        return text.join(text.lit("# land, . water\n"), text.table(cells, ".#", state.rows, state.cols))

    def text_state(self, state: State) -> Array:
        count = (component_sizes(state.land) > 0).sum(dtype=jnp.int32)
        return text.join(
            text.num(state.rows, 2), text.lit(" rows, "), text.num(state.cols, 2), text.lit(" columns, "),
            text.num(state.land.sum(dtype=jnp.int32), 3), text.lit(" land cells, "), text.num(count, 2),
            text.lit(" islands"),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Take one island at a time: from one of its cells go on to all cells that share a side with it, "
            "and count. Islands that touch only at corners are different ones."
        )


def _paint(side: int) -> np.ndarray:
    """Sprites water, with a wave, and land, with a lighter upper left edge."""
    pixel = max(1, side // 24) / side
    water = Canvas(side, (24, 84, 150)).rect(0, 0, 1 - pixel, 1 - pixel, (44, 116, 190))
    if side >= 16:
        wave = 0.5 + 0.06 * np.sin(2 * np.pi * water.x)
        water.fill((np.abs(water.y - wave) < 0.03) & (np.abs(water.x - 0.5) < 0.28), (120, 176, 228))
    land = Canvas(side, (38, 104, 44)).rect(0, 0, 1 - pixel, 1 - pixel, (136, 206, 118))
    land.rect(pixel, pixel, 1 - pixel, 1 - pixel, (86, 168, 76))
    return np.stack([water.done(), land.done()])


ENV = LargestIsland()
