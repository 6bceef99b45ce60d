"""Distances on grids by fixed-point relaxation."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

FAR = np.int32(1 << 20)  # larger than any distance, far from overflow
MOVES = np.asarray([(-1, 0), (1, 0), (0, -1), (0, 1)], np.int32)  # up, down, left, right


def neighbours(field: Array, fill) -> Array:
    """[4, H, W]: the value of the cell above, below, left and right of each cell, `fill` beyond the border."""
    padded = jnp.pad(field, 1, constant_values=fill)
    return jnp.stack([padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]])


def distances(cost: Array, targets: Array) -> Array:
    """i32[H, W]: the least total cost of a 4-connected walk to a target, both end cells counted.

    Args:
        cost: i32[H, W], positive cost of standing on a cell; `FAR` or more is a wall.
        targets: bool[H, W].
    """
    initial = jnp.where(targets, cost, FAR)

    def relax(carry):
        field, _ = carry
        better = jnp.minimum(field, jnp.minimum(neighbours(field, FAR).min(axis=0) + cost, FAR))
        return better, jnp.any(better != field)

    field, _ = lax.while_loop(lambda carry: carry[1], relax, (initial, jnp.bool_(True)))
    return field


def steps(free: Array, targets: Array) -> Array:
    """i32[H, W]: moves to the nearest target over free cells (bool[H, W]), `FAR` where there is no way."""
    field = distances(jnp.where(free, jnp.int32(1), FAR), targets)
    return jnp.where(field < FAR, field - 1, FAR)
