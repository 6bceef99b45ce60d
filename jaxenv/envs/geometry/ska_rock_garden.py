"""Mirror points at the diagonal so that their bounding box is smallest, at the least cost."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import planes, text
from jaxenv.codec import BLANK, Words
from jaxenv.core import Env, outcome

N = 12
SPAN = 2 * N + 1  # coordinates 0 .. 2 N
LETTERS = "ABCDEFGHIJKL"
TICKS = N + 1  # numbers along an axis, at every other grid line
RADIUS = 6  # least of a rock, in pixels; grid lines are at least 7 apart


@struct.dataclass
class State:
    points: Array  # i32[N, 2] (x, y) in 0 .. 2 n, x to the right and y upwards; the first n
    cost: Array  # i32[N] 1 .. n
    n: Array  # i32[]


class SkaRockGarden(Env[State]):
    """Gym-V's task with the rocks named and no solution in the picture.

    Upstream colours the rocks to mirror, draws the best box and prints its perimeter and cost, but not the
    numbers of the rocks that the answer needs. Here rocks are letters on a numbered grid, the costs stand below
    it, and rocks are at least two grid lines apart in x or y so that none covers another. All best choices are
    right, others earn nothing: doing nothing got up to half the reward upstream. Levels start at three rocks.
    """

    category = "geometry"
    source = ("Gym-V Geometry/SkaRockGarden-v0", "RLVE ska_rock_garden")
    question = (
        "The picture shows rocks at whole coordinates. Each may be mirrored at the diagonal line, from (x, y) "
        "to (y, x), at the cost below its letter. Choose which rocks to mirror so that the perimeter of the "
        "smallest upright box around all rocks is as small as possible and, among these choices, the total "
        "cost is as small as possible."
    )
    rules = (
        "The box has horizontal and vertical sides and contains all rocks, mirrored or not; it may have no "
        "width or height. A smaller perimeter always comes before a smaller cost. Any choice with the least "
        "perimeter and, for it, the least cost earns full reward, any other nothing. The episode ends with your "
        "answer."
    )
    answer = Words(
        "01", N, "one digit per rock in the order of the letters, 1 to mirror it and 0 to leave it", "01001"
    )
    levels = {"n": ((3, 3), (4, 4), (5, 5), (6, 7), (8, 9), (10, 12))}
    eval_level = 3  # contains max_n=7
    min_resolution = (96, 112, 120, 152, 176, 224)

    def reset(self, key: Array, scale) -> State:
        n = scale["n"]
        k_place, k_cost = jax.random.split(key)
        y, x = (c.reshape(-1) for c in np.mgrid[:SPAN, :SPAN].astype(np.int32))

        def place(noise, _):
            chosen = jnp.argmax(noise).astype(jnp.int32)
            near = (jnp.abs(x - chosen % SPAN) <= 1) & (jnp.abs(y - chosen // SPAN) <= 1)
            return jnp.where(near, -1.0, noise), chosen

        # A rock takes at most nine of at least 49 places: there is always one left for the first n.
        noise = jnp.where((x <= 2 * n) & (y <= 2 * n), jax.random.uniform(k_place, (SPAN**2,)), -1.0)
        _, cell = lax.scan(place, noise, None, N)
        cost = jax.random.randint(k_cost, (N,), 1, n + 1, jnp.int32)
        present = np.arange(N) < n
        points = jnp.stack([cell % SPAN, cell // SPAN], axis=1)
        return State(jnp.where(present[:, None], points, 0), jnp.where(present, cost, 0), n)

    def step(self, key: Array, state: State, action: Array):
        present = np.arange(N) < state.n
        valid = jnp.all(jnp.where(present, (action == 0) | (action == 1), action == BLANK))
        best = self.solve(state)
        equal = _perimeter(state, action) == _perimeter(state, best)
        equal &= _cost(state, action) == _cost(state, best)
        return state, outcome(valid & equal, True, valid)

    def solve(self, state: State) -> Array:
        """With every point on one side of the diagonal the ranges of both coordinates are as far inside as
        they can be. The best boxes take the two lower and the two upper ends for x and y in some order.
        """
        present = np.arange(N) < state.n
        low, high = state.points.min(axis=1), state.points.max(axis=1)
        ends = jnp.stack(
            [
                jnp.where(present, low, SPAN).min(), jnp.where(present, high, SPAN).min(),
                jnp.where(present, low, -1).max(), jnp.where(present, high, -1).max(),
            ]
        )  # fmt: skip
        # By way: the lower end of x and of y, the upper ones.
        first, last = ends[np.asarray([[0, 1], [1, 0]] * 2)], ends[np.asarray([[2, 3]] * 2 + [[3, 2]] * 2)]

        def fits(points):
            inside = (points[None] >= first[:, None]) & (points[None] <= last[:, None])
            return inside.all(axis=2) | ~present[None]

        stays, mirrored = fits(state.points), fits(state.points[:, ::-1])
        possible = (stays | mirrored).all(axis=1)
        cost = jnp.where(stays, 0, state.cost[None]).sum(axis=1)
        way = jnp.argmin(jnp.where(possible, cost, jnp.int32(1 << 20)))
        return jnp.where(present, jnp.where(stays[way], 0, 1), BLANK)

    def render(self, state: State) -> Array:
        size, most = self.resolution, self.levels["n"][-1][1]
        scale = max(1, size // 320)
        side = 2 * state.n
        # Room for the ticks' numbers clear of rocks on the axes, for the rows of costs below, for rocks above.
        clear, line = (RADIUS + 4) * scale, 9 * scale
        left, below, beyond = clear + 12 * scale, clear + 3 * line + 5 * scale, (RADIUS + 2) * scale
        pitch = (size - below - beyond) // side
        spare = (size - left - beyond - pitch * side) // 2
        x0, y0 = left + spare, beyond + pitch * side
        pixel = np.arange(size, dtype=np.int32)

        def lines(start, each):
            return (pixel >= start) & (pixel <= start + pitch * side) & ((pixel - start) % each == 0)

        every, some = (_grid(lines(x0, pitch * k), lines(y0 - pitch * side, pitch * k)) for k in (1, 2))
        ends = jnp.stack([jnp.stack([y0, x0]), jnp.stack([y0, x0]) + pitch * side * np.asarray([-1, 1])])
        diagonal = planes.segments(size, ends[:1], ends[1:], 1.25 * scale, np.ones(1, bool))
        # Numbers below the x axis and, right-aligned, before the y axis.
        tick = 2 * jnp.arange(TICKS)
        wide = planes.label_size(jnp.where(tick > 9, 2, 1), scale)[1]
        under = jnp.stack([0 * tick + y0 + clear + 3 * scale, x0 + tick * pitch], axis=1)
        beside = jnp.stack([y0 - tick * pitch, x0 - clear - wide // 2], axis=1)
        shown = jnp.tile(tick <= side, 2)
        numbers = jnp.tile(planes.digits(tick, 2), (2, 1))
        # Rocks and the two rows of letters and costs.
        rock = np.arange(most, dtype=np.int32)
        present = rock < state.n
        point = state.points[:most]
        at = jnp.stack([y0 - point[:, 1] * pitch, x0 + point[:, 0] * pitch], axis=1)
        column = jnp.minimum(size // state.n, 32 * scale)
        table = (size - column * state.n) // 2 + column // 2 + rock * column
        row = y0 + clear + line + 8 * scale
        letters = jnp.stack([jnp.full(most, -1), planes.codes(LETTERS)[:most]], axis=1)
        names = jnp.stack([0 * table + row, table], axis=1)
        costs = jnp.stack([0 * table + row + line + scale, table], axis=1)
        radius = jnp.clip(0.45 * pitch.astype(jnp.float32), RADIUS * scale, RADIUS * scale + 2)
        ink = planes.labels(
            size, jnp.concatenate([under, beside, at, names, costs]),
            jnp.concatenate([numbers, letters, letters, planes.digits(state.cost[:most], 2)]),
            scale, jnp.concatenate([shown, *[present] * 3]),
        )  # fmt: skip
        return planes.paint(
            [
                (every, (234, 236, 242)),
                (some, (206, 211, 222)),
                (diagonal, (110, 140, 190)),
                (planes.discs(size, at, radius, present), (120, 92, 40)),
                (planes.discs(size, at, radius - scale, present), (250, 222, 160)),
                (ink, (24, 26, 36)),
            ],
            (255, 255, 255),
        )

    def text_obs(self, state: State) -> Array:
        rock = text.join(
            text.lit(LETTERS)[:, None], text.lit(" "), text.coordinates(state.points, 2), text.lit(" cost "),
            text.num(state.cost, 2),
        )  # fmt: skip
        return text.join(text.lit("rocks (x, y): "), text.items(rock, np.arange(N) < state.n))

    def text_state(self, state: State) -> Array:
        nothing = jnp.where(np.arange(N) < state.n, 0, BLANK)
        low, high = _box(state, nothing)
        return text.join(
            text.num(state.n, 2), text.lit(" rocks; as they lie, x from "), text.num(low[0], 2),
            text.lit(" to "), text.num(high[0], 2), text.lit(", y from "), text.num(low[1], 2),
            text.lit(" to "), text.num(high[1], 2), text.lit(", perimeter "),
            text.num(_perimeter(state, nothing), 3),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "With all rocks on one side of the diagonal the perimeter is smallest. Other choices may reach the "
            "same perimeter at a lower cost: all rocks on the other side, or some rocks left where they are "
            "because the box holds them anyway."
        )


def _box(state: State, action: Array) -> tuple[Array, Array]:
    """The lower and upper ends (x, y), i32[2] each, of all rocks after a choice i32[N]."""
    points = jnp.where((action == 1)[:, None], state.points[:, ::-1], state.points)
    present = (np.arange(N) < state.n)[:, None]
    return jnp.where(present, points, SPAN).min(axis=0), jnp.where(present, points, -1).max(axis=0)


def _perimeter(state: State, action: Array) -> Array:
    low, high = _box(state, action)
    return 2 * (high - low).sum()


def _cost(state: State, action: Array) -> Array:
    return jnp.where(action == 1, state.cost, 0).sum()


def _grid(columns: Array, rows: Array) -> planes.Plane:
    """Lines along all columns and rows in bool[R] each, from the first to the last of the others."""

    def within(line):
        return jnp.cumsum(line.astype(jnp.int32)) > 0, jnp.cumsum(line[::-1].astype(jnp.int32))[::-1] > 0

    def words(bits):
        padded = jnp.pad(bits, (0, -bits.shape[0] % 32)).reshape(-1, 32)
        return jnp.where(padded, jnp.uint32(1) << np.arange(32, dtype=np.uint32), 0).sum(
            axis=1, dtype=jnp.uint32
        )

    across = words(jnp.logical_and(*within(columns)))[:, None]
    upright = words(columns)[:, None]
    inside = jnp.logical_and(*within(rows))
    return jnp.where(rows[None], across, jnp.where(inside[None], upright, jnp.uint32(0)))


ENV = SkaRockGarden()
