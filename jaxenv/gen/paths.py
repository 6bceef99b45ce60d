"""Random winding paths on grids."""

import jax
import jax.numpy as jnp
from jax import Array

from jaxenv.solve.grid import FAR, distances


def random_path(key: Array, free: Array, start: Array, goal: Array) -> Array:
    """bool[H, W]: the cells of a random path between two cells (one-hot bool[H, W]) over free cells.

    The cheapest path under random cell costs: a cell is on it if the costs from both ends add up to the whole.
    Equal costs are improbable and would only add a second path.
    """
    cost = jnp.where(free, jax.random.randint(key, free.shape, 1, 1 << 12, jnp.int32), FAR)
    from_start, from_goal = distances(cost, start), distances(cost, goal)
    whole = jnp.where(goal, from_start, 0).sum()
    return free & (from_start + from_goal - cost == whole)
