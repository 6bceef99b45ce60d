"""Find the rule that turns one strip of colours into another from examples, and apply it to a new strip."""

from functools import cache

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import lines, text
from jaxenv.codec import BLANK, Grid
from jaxenv.core import Env, outcome
from jaxenv.draw import barrier
from jaxenv.gen.strips import KINDS, N, draw
from jaxenv.sprites import GLYPH_HEIGHT, string

EXAMPLES = 4  # most
DIGITS = "0123456789"
# The ten colours of ARC, then paper, grid lines, unknown cells and ink.
COLOURS = (
    (0, 0, 0), (0, 116, 217), (255, 65, 54), (46, 204, 64), (255, 220, 0), (170, 170, 170), (240, 18, 190),
    (255, 133, 27), (127, 219, 255), (135, 12, 37), (228, 232, 240), (85, 85, 85), (250, 250, 250), (20, 24, 40),
)  # fmt: skip
PAPER, GRID, UNKNOWN, INK = range(10, 14)
# Lines of pixels: strips (before and after for each example, the test strip, the unknown one), the border of
# strips, paper, a rule across the picture, and the legend's: colours, then rows of dots of the digits.
STRIPS = 2 * EXAMPLES + 2
BORDER, EMPTY, RULE, LEGEND = range(STRIPS, STRIPS + 4)


@struct.dataclass
class State:
    strips: Array  # i32[EXAMPLES + 1, 2, N] colours 0 .. 9: strip and image; the last one is the test
    size: Array  # i32[] cells of each strip
    examples: Array  # i32[]


class Arc1D(Env[State]):
    """Reasoning Gym's 70 rules in 29 kinds, equally likely; the examples tell the rule, and no digits are drawn.

    Solid and coloured blocks that move are one rule, as are the two kinds of reversal and of sorting, so that
    shifts are no longer half of all tasks. Examples are drawn such that every rule of the list that explains
    them gives the same answer, and no strip is its own image: blocks that wrap do so in every example, dots
    are once out of reach of a fixed step, packed strips have had holes, a palette never holds the 5 that it
    replaces (see `gen.strips`). Blocks beside a dot have two cells or more, and steps toward a dot never end
    before they are done. One step of gravity moves all cells but those that lie against the wall.
    """

    category = "arc"
    source = ("Gym-V Arc/Arc1D-v0", "reasoning-gym arc_1d", "1D-ARC (arXiv:2305.18354)")
    question = (
        "Each pair of strips in the picture is an example of one hidden rule: it turns the upper strip into the "
        "lower one. Apply the rule to the last strip, below the line. The bottom of the picture shows the digit "
        "of each colour; write the result in these digits."
    )
    rules = (
        "One rule explains all examples, and the result has as many cells as the strip. Colour 0 is the "
        "background. Rules move, turn, sort, copy, complete, fill, clean or recolour the coloured cells; where "
        "they go and which colour they get may depend on sizes, on other cells or on certain colours. "
        "The exact strip earns full reward, anything else nothing. The episode ends with the answer."
    )
    answer = Grid(1, N, 0, 9, "the digits of the whole resulting strip, separated by spaces", "0 0 1 5 0")
    levels = {
        "size": ((8, 10), (10, 12), (10, 16), (10, 20), (10, 30), (20, 30)),
        "examples": ((4, 4), (3, 3), (3, 3), (3, 3), (3, 3), (2, 2)),
        "kind": ((0, 2), (0, 8), (0, 13), *[(0, len(KINDS) - 1)] * 3),  # places in `gen.strips.KINDS`
    }
    eval_level = 4
    min_resolution = (96, 96, 96, 120, 184, 184)

    def reset(self, key: Array, scale) -> State:
        strips = draw(key, scale["kind"], scale["size"], EXAMPLES + 1)
        return State(strips, scale["size"], scale["examples"])

    def step(self, key: Array, state: State, action: Array):
        complete = jnp.all((action != BLANK) == (np.arange(N) < state.size))
        return state, outcome(jnp.all(action == self.solve(state)), True, complete)

    def solve(self, state: State) -> Array:
        return jnp.where(np.arange(N) < state.size, state.strips[EXAMPLES, 1], BLANK)

    def render(self, state: State) -> Array:
        colours = np.asarray([lines.colour(*c) for c in COLOURS])
        strips = state.strips.at[EXAMPLES, 1].set(UNKNOWN).reshape(STRIPS, N).T
        strips = jnp.pad(
            strips, ((0, 0), (0, 1)), constant_values=GRID
        )  # the border of strips is a line, too
        strips = jnp.concatenate([strips, jnp.broadcast_to(np.asarray([[GRID], [PAPER]]), (2, STRIPS + 1))])
        col = jnp.asarray(_columns(self.resolution))[state.size]
        shown = barrier(jnp.asarray(colours)[strips])[col]
        row = jnp.asarray(_rows(self.resolution))[state.examples]
        return lines.paint(jnp.concatenate([shown, colours[_fixed_lines(self.resolution).T]], axis=1), row)

    def text_obs(self, state: State) -> Array:
        pairs = [text.table(pair, DIGITS, 2, state.size) for pair in state.strips[:EXAMPLES]]
        test = text.table(state.strips[EXAMPLES, :1], DIGITS, 1, state.size)
        shown = [text.join(text.lit(f"example {k}\n"), pair) for k, pair in enumerate(pairs, 1)]
        parts = [text.when(state.examples > k, part) for k, part in enumerate(shown)]
        return text.join(*parts, text.lit("last strip\n"), test)

    def text_state(self, state: State) -> Array:
        strip, place = state.strips[EXAMPLES, 0], np.arange(N, dtype=np.int32)
        begins = (strip != 0) & (strip != jnp.concatenate([jnp.zeros(1, jnp.int32), strip[:-1]]))
        ends = (strip != 0) & (strip != jnp.concatenate([strip[1:], jnp.zeros(1, jnp.int32)]))
        later = ends[None, :] & (place[None, :] >= place[:, None])
        end = jnp.where(later, place[None, :], N).min(axis=1)
        run = text.join(
            text.num(strip, 1), text.lit(" in "), text.num(place, 2),
            text.when(end > place, text.join(text.lit("-"), text.num(end, 2))),
        )  # fmt: skip
        return text.join(
            text.num(state.examples, 1), text.lit(" examples, cells 0 to "), text.num(state.size - 1, 2),
            text.lit("; last strip: "), text.items(run, begins),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Compare the coloured runs of each upper strip with those of the lower one: which of them moved, "
            "how far and toward what, which changed colour or size, which came or went? The same sentence has "
            "to hold for every example."
        )


def _unit(size: int) -> int:
    """Pixels of a dot of the legend's digits, and of the gap within a pair of strips."""
    return max(1, (size + 16) // 96)


@cache
def _columns(size: int) -> np.ndarray:
    """i32[N + 1, size]: by the cells of a strip, the cell that each picture column shows; N a border, N + 1 paper."""
    col = np.full((N + 1, size), N + 1, np.int32)
    for cells in range(8, N + 1):
        width = size // cells
        left = (size - width * cells) // 2
        col[cells, left : left + width * cells] = np.repeat(np.arange(cells), width)
        col[cells, left + width - 1 : left + width * cells : width] = N
        col[cells, left] = N
    return col


@cache
def _rows(size: int) -> np.ndarray:
    """i32[EXAMPLES + 1, size]: by the number of examples, the line that each picture row shows."""
    unit = _unit(size)
    legend = [EMPTY] * 2 * unit + [LEGEND] * 5 * unit + [EMPTY] * unit
    legend += [LEGEND + 1 + k for k in range(GLYPH_HEIGHT) for _ in range(unit)] + [EMPTY] * unit
    rows = np.full((EXAMPLES + 1, size), EMPTY, np.int32)
    for examples in range(1, EXAMPLES + 1):
        # A pair is two strips with a gap between; pairs are farther apart; a rule before and behind the test.
        fixed = (examples + 1) * unit + (examples - 1) * 3 * unit + 2 * 3 * unit + 2 * unit + len(legend)
        height = min((size - fixed) // (2 * examples + 2), size // 8)
        pairs = [
            [BORDER, *[2 * k] * (height - 2), BORDER]
            + [EMPTY] * unit
            + [BORDER, *[2 * k + 1] * (height - 2), BORDER]
            for k in (*range(examples), EXAMPLES)
        ]
        rule = [EMPTY] * 2 * unit + [RULE] * unit
        shown = pairs[0]
        for pair in pairs[1:examples]:
            shown = shown + [EMPTY] * 3 * unit + pair
        shown = shown + rule + [EMPTY] * 2 * unit + pairs[examples] + rule + legend
        top = (size - len(shown)) // 2
        rows[examples, top : top + len(shown)] = shown
    return rows


@cache
def _fixed_lines(size: int) -> np.ndarray:
    """i32[2 + 1 + 7, size]: paper, rule, and the legend: the ten colours, rows of dots of their digits."""
    unit, width = _unit(size), size // 10
    left = (size - 10 * width) // 2
    fixed = np.full((3 + GLYPH_HEIGHT, size), PAPER, np.int32)
    fixed[1] = INK
    for colour, digit in enumerate(DIGITS):
        start = left + colour * width
        fixed[2, start + unit : start + width - unit] = colour
        dots = string(digit).repeat(unit, axis=1)
        middle = start + (width - dots.shape[1]) // 2
        fixed[3:, middle : middle + dots.shape[1]][dots] = INK
    return fixed


ENV = Arc1D()
