"""What the MiniGrid environments share: action words, the picture of the view, places as the agent sees them."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Choice
from jaxenv.solve.minigrid import AHEAD, VIEW, visible
from jaxenv.sprites import Canvas

UNSEEN, FLOOR, WALL, GOAL = range(4)  # cell codes that all of them begin with, in the order of `basics`
DONE, TURN_LEFT, TURN_RIGHT, PICKUP, DROP, TOGGLE, FORWARD = range(7)
ACTIONS = Choice(
    ("done", "left", "right", "pickup", "drop", "toggle", "forward"),
    {"turn left": "left", "turn right": "right", "move forward": "forward", "pick up": "pickup"},
)
LINE_COLOUR, FLOOR_COLOUR, UNSEEN_COLOUR = (74, 76, 84), (40, 42, 48), (12, 12, 14)


def view(cells: Array, opaque: Array, agent: Array | int) -> Array:
    """i32[7, 7]: `UNSEEN` where opaque cells (bool[7, 7]) hide what is there, the agent in its place."""
    return jnp.where(visible(~opaque), cells, jnp.int32(UNSEEN)).at[VIEW - 1, VIEW // 2].set(jnp.int32(agent))


def picture(resolution: int, paint: Callable[[int], np.ndarray], seen: Array) -> Array:
    """u8[R, R, 3]: the view in the sprites of `paint`, see `draw.sheet`."""
    return draw.tiles(draw.sheet(resolution, (VIEW,), paint, UNSEEN_COLOUR), seen, VIEW, VIEW)


def offset(pos: Array, heading: Array, target: Array) -> Array:
    """u8[W]: '2 ahead, 1 left', a place (row, col) as the agent sees it."""
    ahead, right = jnp.asarray(AHEAD)[heading], jnp.asarray(AHEAD)[(heading + 1) % 4]
    ahead, right = jnp.sum((target - pos) * ahead), jnp.sum((target - pos) * right)
    return text.join(
        text.num(jnp.abs(ahead), 2), text.choose((ahead < 0).astype(jnp.int32), [" ahead, ", " behind, "]),
        text.num(jnp.abs(right), 2), text.choose((right < 0).astype(jnp.int32), [" right", " left"]),
    )  # fmt: skip


def floor(side: int) -> Canvas:
    """The sprite of bare floor; lines of whole pixels."""
    line = 1 / side
    return Canvas(side, LINE_COLOUR).rect(line, line, 1, 1, FLOOR_COLOUR)


def agent(canvas: Canvas) -> Canvas:
    """The red triangle, facing up."""
    return canvas.polygon([(0.5, 0.10), (0.88, 0.86), (0.12, 0.86)], (225, 40, 40))


def basics(side: int) -> list[Canvas]:
    """The sprites of `UNSEEN`, `FLOOR`, `WALL` and `GOAL`."""
    line = 1 / side
    return [
        Canvas(side, UNSEEN_COLOUR),
        floor(side),
        Canvas(side, (112, 116, 124)).rect(line, line, 1, 1, (138, 142, 150)),
        Canvas(side, LINE_COLOUR).rect(line, line, 1, 1, (40, 175, 80)),
    ]
