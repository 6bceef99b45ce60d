"""Jump with the pegs of a triangular board until a single one is left."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import planes, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome
from jaxenv.solve.peg_jump import BEFORE, CHANGED, HOLES, JUMPS, PLACES, solvable, tables
from jaxenv.sprites import Canvas, string

FEWEST, MOST = 8, 14  # pegs at the start
BACKGROUND, BOARD, HOLE, PEG, INK = (
    (232, 232, 228),
    (150, 105, 62),
    (74, 46, 24),
    (214, 40, 40),
    (255, 255, 255),
)


@struct.dataclass
class State:
    pegs: Array  # i32[] bit k - 1 is a peg in hole k
    limit: Array  # i32[] actions


class PegJump(Env[State]):
    """Gym-V's and TextArena's PegJump on the 18 straight lines of the board.

    TextArena's own table lacks some of these and has jumps that are not straight. Upstream begins with one empty
    hole; here 8 to 14 pegs (each number equally likely) stand in one of the 2,526 positions that can be reached
    from one empty hole and can still be solved. A last peg earns 1, a board without jumps ends the episode with
    0: upstream's share of removed pegs pays random play 0.77. The clock is twice the jumps needed, which
    replaces upstream's rule of two illegal jumps.
    """

    category = "games"
    source = ("Gym-V Games/PegJump-v0", "TextArena PegJump")
    horizon = 2 * (MOST - 1)
    question = (
        "Jump with the pegs until only one is left. Choose the next jump: the hole a peg jumps from and the hole "
        "it lands in."
    )
    rules = (
        "The holes are numbered row by row from 1 at the top to 15. A peg jumps in a straight line, along a row or "
        "a slanted line of the triangle, over the neighbouring peg into the empty hole right behind it, and the "
        "peg it jumped over is taken off. Any other jump is illegal, changes nothing and uses up an action. A "
        "single peg left ends the episode with full reward; several pegs without a possible jump end it without "
        "reward."
    )
    answer = Ints(2, 1, HOLES, "the hole to jump from and the hole to land in", (4, 1))
    min_resolution = (80,)

    def reset(self, key: Array, scale) -> State:
        k_count, k_position = jax.random.split(key)
        by_count = solvable(FEWEST, MOST)
        sizes = np.asarray([len(x) for x in by_count], np.int32)
        first = np.cumsum(sizes) - sizes
        count = jax.random.randint(k_count, (), 0, len(sizes), jnp.int32)
        at = jax.random.randint(k_position, (), 0, jnp.asarray(sizes)[count], jnp.int32)
        pegs = jnp.asarray(np.concatenate(by_count))[jnp.asarray(first)[count] + at]
        return State(pegs, 2 * (FEWEST + count - 1))

    def limit(self, state: State) -> Array:
        return state.limit

    def step(self, key: Array, state: State, action: Array):
        asked = (JUMPS[:, 0] == action[0]) & (JUMPS[:, 2] == action[1])
        jump = asked & _possible(state.pegs)
        pegs = state.pegs ^ jnp.where(jump, CHANGED, 0).sum(dtype=jnp.int32)
        solved = (pegs & (pegs - 1)) == 0
        return state.replace(pegs=pegs), outcome(solved, solved | ~jnp.any(_possible(pegs)), jnp.any(jump))

    def solve(self, state: State) -> Array:
        """A jump that leads to the fewest pegs that are still possible."""
        _, jump = tables()
        return jnp.asarray(JUMPS)[jnp.asarray(jump)[state.pegs].astype(jnp.int32)][::2]

    def render(self, state: State) -> Array:
        board, holes, pegs, labels = _drawing(self.resolution)
        standing = _bits(state.pegs)[:, None, None]
        shown = jnp.where(standing, pegs, np.uint32(0)).sum(axis=0, dtype=jnp.uint32)  # pegs do not overlap
        layers = [(board, BOARD), (holes, HOLE), (shown, PEG), (labels, INK)]
        return planes.paint(layers, BACKGROUND)

    def text_obs(self, state: State) -> Array:
        marks = text.choose(_bits(state.pegs).astype(jnp.int32), ["o", "*"])
        ends = ["\n" if c == r else " " for r, c in PLACES]
        holes = [text.join(text.lit(str(k + 1)), marks[k], text.lit(ends[k])) for k in range(HOLES)]
        return text.join(text.lit("hole numbers, * peg, o empty\n"), *holes)

    def text_state(self, state: State) -> Array:
        jumps = text.join(text.num(JUMPS[:, 0], 2), text.lit(" to "), text.num(JUMPS[:, 2], 2))
        return text.join(
            text.num(_bits(state.pegs).sum(dtype=jnp.int32), 2), text.lit(" pegs; possible jumps: "),
            text.items(jumps, _possible(state.pegs)),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Think several jumps ahead; pegs in corners and far from all others are hard to remove."
        )


def _bits(pegs: Array) -> Array:
    """bool[HOLES]"""
    return (pegs >> np.arange(HOLES, dtype=np.int32)) & 1 == 1


def _possible(pegs: Array) -> Array:
    """bool[36]: for every jump a peg to make it, one to jump over and an empty hole."""
    return pegs & CHANGED == BEFORE


@cache
def _drawing(resolution: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The planes of board, holes and labels, and one for each peg: u32[HOLES, ceil(R / 32), R]."""
    size, pitch = resolution, resolution / 5.6
    y, x = np.mgrid[:size, :size] + 0.5
    centres = [(size * 0.21 + 0.88 * pitch * r, size / 2 + pitch * (c - r / 2)) for r, c in PLACES]
    canvas = Canvas(size, 0).polygon([(0.5, -0.04), (1.02, 0.91), (-0.02, 0.91)], 1)
    board = canvas.pixels[2::4, 2::4, 0] > 0.5
    discs = [(y - cy) ** 2 + (x - cx) ** 2 <= (0.42 * pitch) ** 2 for cy, cx in centres]
    scale, labels = max(1, int(0.06 * pitch)), np.zeros((size, size), bool)
    for k, (cy, cx) in enumerate(centres):
        dots = np.kron(string(str(k + 1)), np.ones((scale, scale), bool))
        top, left = round(cy - dots.shape[0] / 2), round(cx - dots.shape[1] / 2)
        labels[top : top + dots.shape[0], left : left + dots.shape[1]] |= dots
    holes = np.any(discs, axis=0)
    return (
        planes.fixed(board),
        planes.fixed(holes),
        np.stack([planes.fixed(d) for d in discs]),
        planes.fixed(labels),
    )


ENV = PegJump()
