"""Connected components of a grid."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv.solve.grid import neighbours


def component_sizes(land: Array) -> Array:
    """i32[H * W]: cells of each 4-connected component of bool[H, W], at the place of its last cell; else 0."""
    cells = land.size
    own = jnp.where(land, np.arange(1, cells + 1, dtype=np.int32).reshape(land.shape), 0)

    def spread(carry):
        label, _ = carry
        new = jnp.where(land, jnp.maximum(label, neighbours(label, 0).max(axis=0)), 0)
        return new, jnp.any(new != label)

    label, _ = lax.while_loop(lambda carry: carry[1], spread, (own, jnp.bool_(True)))
    counted = jnp.zeros(cells + 1, jnp.int32).at[label.reshape(-1)].add(1)
    return counted[1:]
