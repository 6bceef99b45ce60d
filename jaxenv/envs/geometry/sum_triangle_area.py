"""Add up the areas of all triangles between given lattice points."""

from itertools import combinations

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import planes, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome
from jaxenv.gen.choice import subset

N = 12
TRIPLES = np.asarray(list(combinations(range(N), 3)), np.int32).T  # i32[3, 220]


@struct.dataclass
class State:
    points: Array  # i32[N, 2] (x, y) in 0 .. n, x to the right and y upwards; the first n, in order of (y, x)
    n: Array  # i32[] points, and the largest coordinate


class SumTriangleArea(Env[State]):
    """Gym-V's task, twice the areas so that the sum is whole; ticks and grid instead of example triangles.

    The order of points does not show: there are C((n+1)^2, n) instances, 560 with 3 points, 12,650 with 4
    (1000 keys give about 960 different ones), 376,992 with 5.
    """

    category = "geometry"
    source = ("Gym-V Geometry/SumTriangleArea-v0", "RLVE sum_triangle_area")
    question = (
        "The picture shows points with whole coordinates. For every three of them take twice the area of the "
        "triangle between them. What is the sum over all choices of three points?"
    )
    rules = (
        "Every choice of three different points counts once, in any order. Three points on one line give 0. "
        "Only the exact sum earns the reward. The episode ends with your answer."
    )
    answer = Ints(1, 0, 99_999, "one whole number", (17,))
    levels = {"n": ((3, 3), (4, 4), (5, 5), (6, 7), (8, 9), (10, 12))}
    eval_level = 4  # contains max_n=9
    min_resolution = (64, 64, 64, 80, 96, 200)

    def reset(self, key: Array, scale) -> State:
        n = scale["n"]
        y, x = (c.reshape(-1) for c in np.mgrid[: N + 1, : N + 1].astype(np.int32))
        chosen = subset(key, (x <= n) & (y <= n), n)
        place = jnp.where(chosen, jnp.cumsum(chosen.astype(jnp.int32)) - 1, N)
        points = jnp.zeros((N + 1, 2), jnp.int32).at[place].set(np.stack([x, y], axis=1))
        return State(points[:N], n)

    def step(self, key: Array, state: State, action: Array):
        valid = action[0] >= 0
        return state, outcome(action[0] == self.solve(state)[0], valid, valid)

    def solve(self, state: State) -> Array:
        a, b, c = state.points[TRIPLES]
        u, v = b - a, c - a
        twice = jnp.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
        return jnp.where(TRIPLES[2] < state.n, twice, 0).sum(dtype=jnp.int32)[None]

    def render(self, state: State) -> Array:
        size, most = self.resolution, max(high for _, high in self.levels["n"])
        scale = max(1, size // 320)
        # Room for the ticks' numbers clear of dots on the axes, and for half of one beyond the last tick.
        largest = max(2.5, size / 50)
        clear = int(largest) + 2
        before, beyond = (11 if most > 9 else 7) * scale + clear + 1, 5 * scale + 1
        cell = (size - before - beyond) // state.n
        spare = (size - before - beyond - cell * state.n) // 2
        x0, y0 = before + spare, size - 1 - before - spare
        ticks = jnp.arange(most + 1)
        x, y = x0 + ticks * cell, y0 - ticks * cell
        end_x, end_y = x0 + state.n * cell + 0 * x, y0 - state.n * cell + 0 * y
        present = ticks <= state.n
        low = jnp.concatenate([jnp.stack([end_y, x], 1), jnp.stack([y, x0 + 0 * x], 1)])
        high = jnp.concatenate([jnp.stack([y0 + 0 * y, x], 1), jnp.stack([y, end_x], 1)])
        grid = planes.boxes(size, low, high, jnp.concatenate([present, present]))
        first = np.asarray([0, most + 1])
        axes = planes.boxes(size, low[first], high[first], np.ones(2, bool))
        # Numbers below the x axis and, right-aligned, before the y axis.
        wide = planes.label_size(jnp.where(ticks > 9, 2, 1), scale)[1]
        under = jnp.stack([0 * x + y0 + clear + planes.label_size(1, scale)[0] // 2, x], 1)
        beside = jnp.stack([y, x0 - clear - wide // 2], 1)
        numbers = planes.labels(
            size, jnp.concatenate([under, beside]), jnp.tile(planes.digits(ticks, 2), (2, 1)), scale,
            jnp.concatenate([present, present]),
        )  # fmt: skip
        points = state.points[:most]
        at = jnp.stack([y0 - points[:, 1] * cell, x0 + points[:, 0] * cell], 1)
        radius = jnp.clip(cell.astype(jnp.float32) / 5, 2.5, largest)
        there = np.arange(most) < state.n
        return planes.paint(
            [
                (grid, (214, 218, 226)),
                (axes, (60, 66, 80)),
                (numbers, (40, 44, 56)),
                (planes.discs(size, at, radius, there), (196, 40, 52)),
            ],
            (255, 255, 255),
        )

    def text_obs(self, state: State) -> Array:
        points = text.items(text.coordinates(state.points, 2), np.arange(N) < state.n)
        return text.join(text.lit("points (x, y): "), points)

    def text_state(self, state: State) -> Array:
        triples = state.n * (state.n - 1) * (state.n - 2) // 6
        return text.join(
            text.num(state.n, 2), text.lit(" points with coordinates 0 to "), text.num(state.n, 2),
            text.lit(", "), text.num(triples, 3), text.lit(" choice"),
            text.when(triples > 1, text.lit("s")), text.lit(" of three"),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Read all coordinates from the ticks first. Twice the area of points A, B, C is "
            "|(Bx - Ax)(Cy - Ay) - (By - Ay)(Cx - Ax)|."
        )


ENV = SumTriangleArea()
