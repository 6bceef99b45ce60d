"""Pictures of two-layer logic circuits: vertical input rails, a column of gates, one tall last gate.

Rails carry their name and bit on top. Each input of a gate is a horizontal wire of its own from a dot on its
rail; wires of one gate are ordered as the rails are. Lengths are multiples of `unit`, a pixel per 256 px.
"""

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import planes
from jaxenv.draw import barrier
from jaxenv.solve.gates import NAMES

PAPER, RAIL, LINE, INK = (250, 250, 246), (110, 155, 215), (60, 65, 75), (20, 25, 35)
GATE, LAST, CIRCLE = (255, 235, 185), (203, 234, 200), (215, 45, 45)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@struct.dataclass
class Plan:
    """Where everything stands, in pixels: upper left pixels of lines and corners, both ends inclusive."""

    low: Array  # i32[T + 1, 2] upper left corners of the gates, the last gate at the end
    high: Array  # i32[T + 1, 2] lower right corners
    gate: Array  # bool[T + 1] present
    pin: Array  # i32[T, P, 2] the dots: row of the wire, column of its rail
    wire: Array  # bool[T, P] present
    negated: Array  # bool[T, P]
    rail: Array  # i32[V] columns
    end: Array  # i32[V] lowest row of each rail
    inputs: Array  # bool[V] present


def unit(resolution: int) -> int:
    return max(1, resolution // 256)


def plan(resolution: int, used: Array, negated: Array, places: int) -> Plan:
    """The places of all parts of a circuit.

    Args:
        used, negated: bool[T, V], inputs of each term; terms without any do not exist.
        places: static, most inputs of a term.
    """
    terms, variables = used.shape
    u = unit(resolution)
    exists, inputs = used.any(axis=1), used.any(axis=0)
    count = exists.sum(dtype=jnp.int32)

    # Rows: below the names all gates share the height; pins are `pitch` apart, gates at least 3 u.
    first, room = 22 * u, resolution - 25 * u
    steps = jnp.where(exists, used.sum(axis=1, dtype=jnp.int32) - 1, 0)
    pitch = jnp.minimum((room - count * 8 * u) // jnp.maximum(steps.sum(), 1), 16 * u)
    height = jnp.where(exists, steps * pitch + 5 * u, 0)
    gap = jnp.minimum((room - height.sum()) // count, 40 * u)
    margin = (room - height.sum() - (count - 1) * gap) // 2
    top = first + margin + jnp.cumsum(height) - height + np.arange(terms, dtype=np.int32) * gap
    bottom = top + height - 1
    middle = (top + bottom) // 2
    last_top, last_bottom = middle[0] - 8 * u, jnp.where(exists, middle, 0).max() + 8 * u

    # Columns, from the right: OUT, the last gate, the other gates, circles, the rails.
    last_left, left = resolution - 50 * u, resolution - 86 * u
    across = left - 20 * u
    rails = jnp.maximum(inputs.sum(dtype=jnp.int32) - 1, 1)
    step = jnp.minimum(across // rails, 32 * u)
    rail = 4 * u + (across - rails * step) // 2 + np.arange(variables, dtype=np.int32) * step

    # The k-th pin of a term belongs to its k-th input from the left.
    rank = jnp.cumsum(used.astype(jnp.int32), axis=1) - 1
    place = np.arange(places, dtype=np.int32)
    taps = used[:, None, :] & (rank[:, None, :] == place[None, :, None])  # bool[T, P, V]
    row = (top + 2 * u)[:, None] + place[None, :] * pitch
    column = jnp.where(taps, rail[None, None, :], 0).sum(axis=2)

    def corners(rows, last_row, col, last_col):
        cols = jnp.full(terms, col, jnp.int32)
        return jnp.stack([jnp.append(rows, last_row), jnp.append(cols, jnp.int32(last_col))], axis=1)

    return Plan(
        low=corners(top, last_top, left, last_left),
        high=corners(bottom, last_bottom, left + 28 * u, last_left + 22 * u),
        gate=jnp.append(exists, True),
        pin=jnp.stack([row, column], axis=2),
        wire=taps.any(axis=2),
        negated=(taps & negated[:, None, :]).any(axis=2),
        rail=rail,
        end=jnp.where(taps, row[:, :, None], 0).max(axis=(0, 1)) + u - 1,
        inputs=inputs,
    )


def draw(resolution: int, plan: Plan, gates: Array, bits: Array) -> Array:
    """u8[R, R, 3]: a circuit with gates i32[T + 1] (the last gate at the end) and input bits bool[V]."""
    u, size = unit(resolution), resolution
    (top, left), (bottom, right) = plan.low.T, plan.high.T
    middle = (top + bottom) // 2
    variables = plan.rail.shape[0]
    start = jnp.stack([jnp.full(variables, 20 * u, jnp.int32), plan.rail], axis=1)
    rails = planes.boxes(size, start, jnp.stack([plan.end, plan.rail + u - 1], axis=1), plan.inputs)

    # All other lines and shapes of one kind have rows of their own, so that each kind is one span per row.
    row, column = (plan.pin[:, :, k].reshape(-1) for k in range(2))
    wire = plan.wire.reshape(-1)
    lines = _spans(*_rows(size, row, u, wire, column, left[0]))
    lines |= _discs(size, row, column, 3 * u, wire)
    circles = holes = jnp.zeros_like(lines)
    for odd in range(2):  # circles of neighbouring pins stand in two columns, so that they do not touch
        where = [plan.pin[:, odd::2, 0].reshape(-1), left[0] - (4 + 6 * odd) * u]
        minus = plan.negated[:, odd::2].reshape(-1)
        circles |= _discs(size, *where, 5 * u, minus)
        holes |= _discs(size, *where, 3 * u, minus)
    insides = []
    for part in (slice(0, -1), slice(-1, None)):
        exists, height = plan.gate[part], (bottom - top)[part] + 1
        following = left[-1] if part.stop else right[-1] + 6 * u
        lines |= _spans(*_rows(size, top[part], height, exists, left[part], right[part]))
        lines |= _spans(*_rows(size, middle[part], u, exists, right[part], following))
        insides.append(
            _spans(*_rows(size, top[part] + u, height - 2 * u, exists, left[part] + u, right[part] - u))
        )

    words = np.full((len(NAMES) + 1, 4), -1, np.int32)
    for k, word in enumerate((*NAMES, "OUT")):
        words[k, : len(word)] = planes.codes(word)
    centre = jnp.stack([middle, (left + right) // 2], axis=1)
    out = jnp.stack([middle[-1], right[-1] + 17 * u])
    places = jnp.concatenate([centre, out[None]])
    ink = planes.labels(
        size, places, jnp.asarray(words)[jnp.append(gates, len(NAMES))], u, jnp.append(plan.gate, True)
    )
    names = jnp.stack([jnp.asarray(planes.codes(LETTERS[:variables])), bits.astype(jnp.int32)], axis=1)
    for k in range(2):
        on_top = jnp.stack([jnp.full(variables, (5 + 9 * k) * u, jnp.int32), plan.rail], axis=1)
        ink |= planes.labels(size, on_top, names[:, k, None], u, plan.inputs)
    layers = [
        (rails, RAIL),
        (lines, LINE),
        (insides[0], GATE),
        (insides[1], LAST),
        (circles, CIRCLE),
        (holes, PAPER),
    ]
    return planes.paint([*layers, (ink, INK)], PAPER)


def _rows(size: int, top: Array, height, present: Array, *values) -> list[Array]:
    """For each row the values (scalars or i32[K]) of the one shape that covers it, else `-size`."""
    row = np.arange(size, dtype=np.int32)[None, :]
    inside = (row >= top[:, None]) & (row < (top + height)[:, None]) & present[:, None]
    zero = jnp.zeros_like(top)
    return [jnp.where(inside, (zero + v)[:, None], -size).max(axis=0) for v in values]


def _discs(size: int, line: Array, column: Array, diameter: int, present: Array) -> planes.Plane:
    """Discs of rows of their own around the upper left pixels of lines that are `unit` wide."""
    u = unit(size)
    shift = (diameter - u) // 2
    top, column = _rows(size, line - shift, diameter, present, line - shift, column - shift)
    offset = np.arange(diameter) - (diameter - 1) / 2
    inset = np.ceil((diameter - 1) / 2 - np.sqrt(diameter**2 / 4 - offset**2)).astype(np.int32)
    covered = top >= 0
    inset = jnp.asarray(inset)[jnp.where(covered, np.arange(size, dtype=np.int32) - top, 0)]
    return _spans(column + inset, column + diameter - 1 - inset)


def _spans(first: Array, last: Array) -> planes.Plane:
    """The plane that covers the columns first .. last, i32[R] each, in every row."""
    first, end = barrier((first, last + 1))
    word = 32 * np.arange(-(-first.shape[0] // 32), dtype=np.int32)[:, None]

    def behind(column):
        return jnp.uint32(0xFFFFFFFF) << jnp.clip(column[None, :] - word, 0, 32).astype(jnp.uint32)

    return behind(first) & ~behind(end)
