"""MiniGrid's moves and view: headings, walks that count turns, the egocentric window and visibility.

Headings are 0 right, 1 down, 2 left, 3 up, as in MiniGrid; positions are (row, col).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

RIGHT, DOWN, LEFT, UP = range(4)
AHEAD = np.asarray([(0, 1), (1, 0), (0, -1), (-1, 0)], np.int32)  # one step forward, by heading
VIEW = 7  # cells a side; the viewer stands in the middle of the bottom row


def turns(start: Array, end: Array) -> Array:
    """i32[]: quarter turns between two headings."""
    once = (end - start) % 4
    return jnp.minimum(once, 4 - once)


def walk(pos: Array, heading: Array, target: Array, end: Array) -> Array:
    """i32[]: least moves and turns from one pose to another over a rectangle without obstacles.

    Going straight to the target with at most one corner is best: a detour adds moves and saves no turn.
    """
    rows, cols = target[0] - pos[0], target[1] - pos[1]
    vertical = jnp.where(rows > 0, jnp.int32(DOWN), jnp.int32(UP))
    horizontal = jnp.where(cols > 0, jnp.int32(RIGHT), jnp.int32(LEFT))
    by_row = turns(heading, vertical) + turns(vertical, end)
    by_col = turns(heading, horizontal) + turns(horizontal, end)
    row_first = turns(heading, vertical) + 1 + turns(horizontal, end)
    col_first = turns(heading, horizontal) + 1 + turns(vertical, end)
    corner = jnp.minimum(row_first, col_first)
    straight = jnp.where(rows != 0, by_row, jnp.where(cols != 0, by_col, turns(heading, end)))
    return jnp.abs(rows) + jnp.abs(cols) + jnp.where((rows != 0) & (cols != 0), corner, straight)


def window(pos: Array, heading: Array) -> tuple[Array, Array]:
    """i32[7, 7] twice: row and col on the map of each cell of the view, the heading pointing up."""
    ahead, right = np.mgrid[VIEW - 1 : -1 : -1, -(VIEW // 2) : VIEW // 2 + 1].astype(np.int32)
    forward, sideways = jnp.asarray(AHEAD)[heading], jnp.asarray(AHEAD)[(heading + 1) % 4]
    return tuple(pos[k] + ahead * forward[k] + right * sideways[k] for k in range(2))


def visible(transparent: Array) -> Array:
    """bool[7, 7]: cells of the view that are seen past opaque ones, by MiniGrid's `Grid.process_vis`.

    Row by row away from the viewer, light spreads to the right, then to the left, and from each lit
    transparent cell on to the next row: straight on and diagonally to the side it was spreading to.
    """
    column = np.arange(VIEW, dtype=np.uint32)
    clear = jnp.where(transparent, jnp.uint32(1) << column[None, :], jnp.uint32(0)).sum(
        axis=1, dtype=jnp.uint32
    )
    first, last, one = np.uint32(1), np.uint32(1 << (VIEW - 1)), np.uint32(1)
    lit, rows = jnp.uint32(1 << (VIEW // 2)), []
    for k in range(VIEW - 1, -1, -1):
        for _ in range(VIEW - 1):
            lit |= (lit & clear[k]) << one
        to_right = lit & clear[k] & ~last
        for _ in range(VIEW - 1):
            lit |= (lit & clear[k]) >> one
        to_left = lit & clear[k] & ~first
        rows.append(lit)
        lit = to_right | to_right << one | to_left | to_left >> one
    return (jnp.stack(rows[::-1])[:, None] >> column[None, :]) & one == 1


def through(
    pos: Array, heading: Array, gates: Array, facing: Array, extra: Array, ahead: Array, goal: Array
) -> Array:
    """i32[]: least actions to a goal behind gates (doors, gaps) that lead from one free rectangle to the next.

    Each gate is entered and left in one direction, so that the least way is the sum of the least ways between.

    Args:
        pos, heading: the pose; in front of the first gate that lies ahead, or in it.
        gates, facing: i32[K, 2] cells in their order and i32[K] the headings in which they are passed.
        extra: i32[K] actions that a gate needs before it is entered (1 for a shut door).
        ahead: bool[K] gates still to be passed: the last ones in use.
        goal: i32[2].
    """
    index, facing = np.arange(len(gates), dtype=np.int32), jnp.asarray(facing)
    first = ahead & (jnp.cumsum(ahead.astype(jnp.int32)) == 1)
    step = jnp.asarray(AHEAD)[facing]
    start = jnp.where(first[:, None], pos[None, :], jnp.roll(gates + step, 1, axis=0))
    turned = jnp.where(first, heading, jnp.roll(facing, 1))
    inside = first & jnp.all(gates == pos[None, :], axis=1)
    legs = jnp.where(
        inside,
        jax.vmap(turns)(turned, facing) + 1,
        jax.vmap(walk)(start, turned, gates - step, facing) + extra + 2,
    )
    some, last = jnp.any(ahead), jnp.max(jnp.where(ahead, index, 0))
    pos = jnp.where(some, (gates + step)[last], pos)
    heading = jnp.where(some, facing[last], heading)
    rest = jax.vmap(walk, (None, None, None, 0))(pos, heading, goal, np.arange(4, dtype=np.int32)).min()
    return jnp.where(ahead, legs, 0).sum(dtype=jnp.int32) + rest
