"""Count the rectangles whose outlines are drawn on a grid."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome
from jaxenv.gen.choice import permutation, subset
from jaxenv.sprites import Canvas

N, MOST = 56, 12
EMPTY, EDGE, CROSSING = range(3)


@struct.dataclass
class State:
    corners: Array  # i32[MOST, 4] top, left, bottom, right of each rectangle
    count: Array  # i32[] rectangles, the first ones
    size: Array  # i32[] side of the grid


class RectangleCount(Env[State]):
    """Reasoning Gym's task, made recoverable: no two outlines run along each other or meet in a corner.

    Any two edges in the same direction lie in different rows (columns) that are not next to each other, so
    that outlines only ever cross, and every rectangle shows four corners of its own. Upstream's outlines may
    coincide in part or wholly, its picture drops empty rows, and a guess that is one off earns 0.64. Grids
    have just enough rows for the rectangles, 16 to 56 (upstream 80), so that tiles of 4 px are legible.
    """

    category = "cognition"
    source = ("Gym-V Cognition/RectangleCount-v0", "reasoning-gym rectangle_count")
    question = (
        "The picture shows the outlines of rectangles, which may cross. How many rectangles were drawn? "
        "Rectangles that only come about where outlines cross do not count."
    )
    rules = (
        "Every rectangle is drawn as a closed outline, one cell thick. Cells where two outlines cross have "
        "another colour; they belong to both. Outlines cross, but never run along each other or touch in "
        "a corner. A rectangle inside of another one counts like any other. "
        "Only the exact number earns the reward. The episode ends with the answer."
    )
    answer = Ints(1, 0, 99, "the number of rectangles drawn", (20,))
    levels = {
        "count": ((1, 3), (2, 4), (3, 6), (4, 8), (5, 10), (8, 12)),
        "size": ((16, 16), (20, 20), (28, 28), (40, 40), (48, 48), (56, 56)),
    }
    eval_level = 4  # up to 10 rectangles, as registered upstream
    min_resolution = (64, 80, 112, 160, 192, 224)

    def reset(self, key: Array, scale) -> State:
        k_rows, k_cols, k_order = jax.random.split(key, 3)
        count, size = scale["count"], scale["size"]
        rows, cols = (_pairs(k, count, size) for k in (k_rows, k_cols))
        corners = jnp.concatenate([rows, cols[permutation(k_order, MOST, count)]], axis=1)
        return State(corners[:, jnp.asarray([0, 2, 1, 3])], count, size)

    def step(self, key: Array, state: State, action: Array):
        valid = (action[0] >= 0) & (action[0] <= self.answer.high)
        return state, outcome(action[0] == state.count, valid, valid)

    def solve(self, state: State) -> Array:
        return state.count[None]

    def cells(self, state: State) -> Array:
        """i32[N, N]: EMPTY, EDGE or CROSSING."""
        drawn = np.arange(MOST) < state.count
        top, left, bottom, right = jnp.where(drawn[:, None], state.corners, N).T

        def edges(at, low, high):
            """i32[N] each: where the edge in a row (column) begins and ends; there is at most one."""
            first, last = jnp.full(N, N, jnp.int32), jnp.full(N, -1, jnp.int32)
            for line in at:
                first = first.at[line].set(low, mode="drop")
                last = last.at[line].set(high, mode="drop")
            return first, last

        (west, east), (north, south) = edges((top, bottom), left, right), edges((left, right), top, bottom)
        place = np.arange(N, dtype=np.int32)
        across = (west[:, None] <= place[None, :]) & (place[None, :] <= east[:, None])
        down = (north[None, :] <= place[:, None]) & (place[:, None] <= south[None, :])
        corner = (place[None, :] == west[:, None]) | (place[None, :] == east[:, None])
        crossing = across & down & ~corner
        return jnp.where(
            crossing, jnp.int32(CROSSING), jnp.where(across | down, jnp.int32(EDGE), jnp.int32(EMPTY))
        )

    def render(self, state: State) -> Array:
        sizes = tuple(low for low, _ in self.levels["size"])  # of the levels that `make` found legible
        sprites = draw.sheet(self.resolution, sizes, _paint, (214, 214, 206))
        cells = self.cells(state)[: sizes[-1], : sizes[-1]]
        return draw.tiles(sprites, cells, state.size, state.size)

    def text_obs(self, state: State) -> Array:
        return text.join(
            text.lit("# outline, + crossing of two, . empty\n"),
            text.table(self.cells(state), ".#+", state.size, state.size, separator=""),
        )

    def text_state(self, state: State) -> Array:
        drawn = np.arange(MOST) < state.count
        low, high = (jnp.where(drawn, state.corners[:, k], N * (k < 2)) for k in (0, 2))
        crossings = (self.cells(state) == CROSSING).sum(dtype=jnp.int32)
        return text.join(
            text.num(state.size, 2), text.lit(" rows and columns; outlines in rows "), text.num(low.min(), 2),
            text.lit(" to "), text.num(high.max(), 2), text.lit("; "), text.num(crossings, 3),
            text.lit(" crossings"),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Look for corners: at a crossing both outlines go straight on. Count the upper left corners, or "
            "follow each outline from its upper left corner around."
        )


def _pairs(key: Array, count: Array, size: Array) -> Array:
    """i32[MOST, 2]: ends of `count` intervals in 0 .. size - 1, ascending; no two ends are equal or adjacent.

    The lines are drawn first and then paired, sometimes with any other and sometimes with a near one, so that
    there are large and small rectangles. Needs size >= 4 count - 1.
    """
    k_lines, k_range, k_pair = jax.random.split(key, 3)
    lines = 2 * count
    chosen = subset(k_lines, np.arange(N) < size - lines + 1, lines)
    # The k-th line moves down by k, so that none is next to another.
    place = jnp.where(chosen, jnp.cumsum(chosen.astype(jnp.int32)) - 1, 2 * MOST)
    line = jnp.zeros(2 * MOST, jnp.int32).at[place].set(np.arange(N, dtype=np.int32) + place, mode="drop")
    reach = jax.random.randint(k_range, (), 3, 2 * lines + 3, jnp.int32).astype(jnp.float32)
    index = np.arange(2 * MOST)
    noise = index.astype(np.float32) + reach * jax.random.uniform(k_pair, (2 * MOST,))
    order = jnp.argsort(jnp.where(index < lines, noise, np.float32(1e6) + index.astype(np.float32)))
    return jnp.sort(line[order].reshape(MOST, 2), axis=1)


def _paint(side: int) -> np.ndarray:
    """Sprites empty, outline and crossing, with a line on the right and bottom edge where there is room for one."""
    edge = 1 if side < 8 else 1 - max(1, side // 8) / side

    def cell(line, colour):
        return Canvas(side, line).rect(0, 0, edge, edge, colour).done()

    return np.stack(
        [
            cell((232, 232, 226), (255, 255, 252)),
            cell((22, 66, 150), (54, 110, 214)),
            cell((112, 16, 110), (196, 44, 190)),
        ]
    )


ENV = RectangleCount()
