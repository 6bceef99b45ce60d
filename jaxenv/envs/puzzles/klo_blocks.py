"""Level out an array: how long can a block of elements get that all reach a threshold?"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import planes, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome

N = 16
CANDIDATES = 8  # arrays among which one with the wanted answer is chosen
PAPER, HIGH, LOW, AXIS, LINE, INK = (
    (250, 249, 245), (96, 178, 104), (240, 170, 90), (90, 95, 105), (214, 30, 40), (25, 30, 40)
)  # fmt: skip


@struct.dataclass
class State:
    values: Array  # i32[N] in 1 .. 2 n, the first n of them; 0 beyond
    n: Array  # i32[]
    threshold: Array  # i32[] at most the largest value, above the smallest


class KloBlocks(Env[State]):
    """RLVE's olympiad problem with the length of the block drawn first, uniformly from 1 to n.

    Among a few arrays of values up to 2 n one is chosen in which some threshold gives that length (another
    length only if there is none). Upstream allows neither 1 nor n, so that three elements always have the
    answer 2. Bars begin at zero, not at the smallest value, and values stand below them, so none is hidden.
    A block can be brought to the threshold K exactly if its mean is at least K: units only move to
    neighbours, and taking some from outside a block never helps more than a longer block would.
    """

    category = "puzzles"
    source = ("Gym-V Puzzles/KloBlocks-v0", "RLVE KloBlocks")
    question = (
        "The bars in the picture are the elements of an array, from left to right, with their values below; "
        "the red line is the threshold K, its value at the left. A move takes 1 from an element greater than "
        "K and adds it to an element next to it. After any number of moves, how many consecutive elements "
        "can be at least K at most?"
    )
    rules = (
        "Any number of moves is allowed, also none; each takes 1 from an element greater than K and adds it "
        "to the one before or behind. The answer is the greatest length of a block of consecutive elements "
        "that can all be at least K at the same time. Bars of at least K are green, the others orange. "
        "The right number earns full reward, any other nothing. One answer ends the episode."
    )
    answer = Ints(1, 0, N, "one number, the length of the block", (3,))
    levels = {"n": ((3, 4), (5, 6), (7, 8), (9, 10), (11, 12), (13, 16))}
    eval_level = 2  # contains N=7
    min_resolution = (64, 72, 88, 112, 128, 160)  # 9 px per bar

    def reset(self, key: Array, scale) -> State:
        n = scale["n"]
        noise = jax.random.uniform(key, (CANDIDATES * N + CANDIDATES * N + 2,))
        values, order, (k_length, k_threshold) = jnp.split(noise, (CANDIDATES * N, 2 * CANDIDATES * N))
        number = np.arange(N, dtype=np.int32)
        inside = (number < n)[None, :]
        values = 1 + (values.reshape(CANDIDATES, N) * (2 * n).astype(jnp.float32)).astype(jnp.int32)
        values = jnp.where(inside, jnp.minimum(values, 2 * n), 0)
        # By length l = 1 .. N: the greatest threshold that some block of l or more elements reaches.
        sums = jnp.pad(jnp.cumsum(values, axis=1), ((0, 0), (1, 0)))
        first, length = number[:, None], 1 + number[None, :]
        fits = first + length <= n
        blocks = sums[:, np.minimum(first + length, N)] - sums[:, first]
        best = jnp.where(fits[None], blocks // length[None], 0).max(axis=1)
        most = lax.cummax(best, axis=1, reverse=True)
        # Exactly l elements for thresholds above least and up to most, if there are any.
        smallest = jnp.where(inside, values, 2 * N).min(axis=1, keepdims=True)
        least = jnp.maximum(jnp.pad(most[:, 1:], ((0, 0), (0, 1))), smallest)
        wanted = (k_length * n.astype(jnp.float32)).astype(jnp.int32)
        score = order.reshape(CANDIDATES, N) + jnp.where(number == wanted, 1.0, 0.0)[None, :]
        chosen = jnp.argmax(jnp.where(most > least, score, -1.0))
        low, high = (x.reshape(-1)[chosen] for x in (least, most))
        step = (k_threshold * (high - low).astype(jnp.float32)).astype(jnp.int32)
        return State(values[chosen // N], n, low + 1 + jnp.minimum(step, high - low - 1))

    def step(self, key: Array, state: State, action: Array):
        valid = (action[0] >= 0) & (action[0] <= state.n)
        return state, outcome(action[0] == self.solve(state)[0], valid, valid)

    def solve(self, state: State) -> Array:
        place = np.arange(N + 1, dtype=np.int32)
        above = jnp.pad(
            jnp.cumsum(jnp.where(place[:-1] < state.n, state.values - state.threshold, 0)), (1, 0)
        )
        length = place[None, :] - place[:, None]
        reaches = (above[None, :] >= above[:, None]) & (length >= 0) & (place <= state.n)[None, :]
        return jnp.where(reaches, length, 0).max()[None]

    def render(self, state: State) -> Array:
        size, u = self.resolution, max(1, self.resolution // 256)
        number, present = np.arange(N, dtype=np.int32), np.arange(N) < state.n
        left, top = 14 * u, 6 * u
        pitch = jnp.minimum((size - left - 2 * u) // state.n, 32 * u)
        # Values of narrow bars stand in two lines by turns, else neighbours would run into one number.
        lower = jnp.where(pitch < 14 * u, 9 * u, 0)
        floor = size - 13 * u - lower
        start = left + (size - left - 2 * u - state.n * pitch) // 2 + number * pitch
        gap = jnp.maximum(pitch // 6, u)
        largest = state.values.max()

        def row(value):  # the uppermost row of a bar of that value
            return floor - value * (floor - top) // largest

        def corners(rows, cols):
            return jnp.stack(jnp.broadcast_arrays(rows, cols), axis=1)

        low, high = corners(row(state.values), start), corners(floor, start + pitch - gap - 1)
        tall, one = state.values >= state.threshold, jnp.ones(1, bool)
        line, foot = row(state.threshold)[None], floor[None] + 1
        across = planes.boxes(size, corners(line, left - u), corners(line + u - 1, size - 2 * u), one)
        axis = planes.boxes(size, corners(foot, left - u), corners(foot + u - 1, size - 2 * u), one)
        below = floor + 7 * u + jnp.where(number % 2 == 1, lower, 0)
        places = corners(below, start + (pitch - gap) // 2)
        ink = planes.labels(size, places, planes.digits(state.values, 2), u, present)
        name = planes.labels(
            size, corners(line, jnp.int32(6 * u)), planes.digits(state.threshold[None], 2), u, one
        )
        layers = [
            (planes.boxes(size, low, high, present & tall), HIGH),
            (planes.boxes(size, low, high, present & ~tall), LOW),
            (axis, AXIS),
            (across | name, LINE),
            (ink, INK),
        ]
        return planes.paint(layers, PAPER)

    def text_obs(self, state: State) -> Array:
        present = np.arange(N) < state.n
        return text.join(
            text.lit("K = "), text.num(state.threshold, 2), text.lit("\n"),
            text.items(text.num(state.values, 2), present, " "),
        )  # fmt: skip

    def text_state(self, state: State) -> Array:
        tall = (state.values >= state.threshold).sum(dtype=jnp.int32)
        return text.join(
            text.num(state.n, 2), text.lit(" elements, "), text.num(tall, 2),
            text.lit(" of them at least K; sum of all elements minus K: "),
            text.num(state.values.sum() - state.n * state.threshold, 4),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "A block can be leveled out to K or more if its mean is at least K. Subtract K from every "
            "element and look for the longest block whose sum is not negative."
        )


ENV = KloBlocks()
