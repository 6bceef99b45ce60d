"""A template environment on one page: count the red dots on a board that also has blue ones.

Copy this file, rename it, change it, and use it without touching jaxenv:

    import jaxenv
    jaxenv.register("my_env.py")                  # the id is the file's name; the file must define ENV
    env = jaxenv.make("my_env", resolution=224)   # now as any other: in EnvBatch, MixedBatch, the curricula

Everything an environment does with arrays runs under `jit` and `vmap`: no Python `if` on a traced value, no
shape that depends on one. Sizes are therefore maxima (N below) and the level only changes values.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome
from jaxenv.gen.choice import subset
from jaxenv.sprites import Canvas

N = 8  # cells along a side of the largest board
EMPTY, BLUE, RED = range(3)  # cell codes, in the order of the glyphs and of the sprites
GLYPHS = ".BR"


# The state of one instance: arrays only, and everything that rules, picture and texts need.
@struct.dataclass
class State:
    cells: Array  # i32[N, N] cell codes; EMPTY beyond size
    size: Array  # i32[]


class CountDots(Env[State]):
    """Exactly `red` red and `blue` blue dots on random cells of a size x size board."""

    # ---- what the environment is, in words and numbers ----
    category = "cognition"
    source = ("the template of this repository",)
    horizon = 1  # most actions of an episode: 1 is single-turn
    question = "How many red dots are on the board? Blue dots do not count."  # always shown
    rules = (
        "You answer once with the number of red dots. A right answer earns full reward, a wrong one nothing."
    )
    # How a reply becomes an action i32[L] and back; jaxenv.codec has Choice, Ints, Grid and Lists.
    answer = Ints(1, 0, N * N, "the number of red dots", example=[7])
    # Easiest level first; a scale is drawn uniformly from the inclusive ranges of its level.
    levels = {
        "size": ((3, 3), (4, 4), (6, 6), (8, 8)),
        "red": ((0, 5), (0, 9), (2, 16), (6, 30)),
        "blue": ((0, 3), (2, 6), (6, 16), (20, 30)),
    }
    eval_level = 2  # the level of evaluations
    min_resolution = (
        32,
        32,
        48,
        64,
    )  # per level: the smallest legible picture; `make` leaves levels off below it

    # ---- the rules ----
    def reset(self, key: Array, scale) -> State:
        """An instance of a given scale. Draw what the answer is first: no retries, and the answers are
        balanced.
        """
        k_dots, k_red = jax.random.split(key)
        row, col = np.mgrid[:N, :N].astype(np.int32)
        board = (row < scale["size"]) & (col < scale["size"])
        dots = subset(k_dots, board, scale["red"] + scale["blue"])
        red = subset(k_red, dots, scale["red"])
        cells = jnp.where(red, jnp.int32(RED), jnp.where(dots, jnp.int32(BLUE), jnp.int32(EMPTY)))
        return State(cells, scale["size"])

    def step(self, key: Array, state: State, action: Array):
        """The next state and what the action earned; unreadable replies never come here."""
        return state, outcome(reward=action[0] == self._red(state), terminated=True)

    def solve(self, state: State) -> Array:
        """The right answer (or, with a longer horizon, a best next move): tests demand that it earns 1."""
        return self._red(state)[None]

    def _red(self, state: State) -> Array:
        return (state.cells == RED).sum(dtype=jnp.int32)

    # ---- what the agent sees ----
    def render(self, state: State) -> Array:
        """u8[R, R, 3]. Sprites are painted once, in numpy; `draw.tiles` puts them on the board."""
        sprites = draw.sheet(self.resolution, tuple(range(3, N + 1)), _paint, background=(40, 44, 52))
        return draw.tiles(sprites, state.cells, state.size, state.size)

    # Texts are bytes with holes: `text.lit` for fixed words, `text.num` for numbers, `text.join` to put them
    # in order.
    def text_obs(self, state: State) -> Array:
        """A complete copy of the picture: the question can be answered from it alone."""
        return text.join(
            text.lit("R red, B blue, . empty\n"), text.table(state.cells, GLYPHS, state.size, state.size)
        )

    def text_state(self, state: State) -> Array:
        """Key facts that help without being the answer."""
        dots = (state.cells != EMPTY).sum(dtype=jnp.int32)
        return text.join(text.lit("the board has "), text.num(state.size, 1), text.lit(" rows and "),
                         text.num(dots, 2), text.lit(" dots"))  # fmt: skip

    def text_hint(self, state: State) -> Array:
        """Where to look; the same for all answers."""
        return text.lit("Count row by row and add up.")


def _paint(side: int) -> np.ndarray:
    """u8[3, side, side, 3]: one sprite per cell code. Lengths are shares of the side: any size works."""

    def cell():
        return Canvas(side, (200, 200, 195)).rect(0.04, 0.04, 0.96, 0.96, (245, 243, 235))

    empty, blue, red = (
        cell(),
        cell().disc(0.5, 0.5, 0.34, (40, 90, 200)),
        cell().disc(0.5, 0.5, 0.34, (210, 40, 40)),
    )
    return np.stack([c.done() for c in (empty, blue, red)])


ENV = CountDots()
