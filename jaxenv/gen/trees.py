"""Random binary trees."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def binary_tree(key: Array, capacity: int, size: Array, height: Array) -> tuple[Array, Array]:
    """Left and right children, i32[capacity] each (-1 = none), of a random binary tree.

    Nodes are numbered row by row and in a row from left to right, so node 0 is the root. Every subtree draws
    its root uniformly among the inorder places that leave both sides few enough nodes for the rows below:
    without that bound this is the shape of a search tree grown from a random permutation.

    Args:
        capacity: most nodes, static.
        size: i32[] nodes, 1 .. min(capacity, 2 ** height - 1).
        height: i32[] most rows, 1 .. capacity.
    """
    place = np.arange(capacity, dtype=np.int32)
    noise = jax.random.uniform(key, (capacity, capacity))
    zero = jnp.zeros(capacity, jnp.int32)

    def row(carry):
        # By inorder place: the interval of the subtree it lies in, the root above, its own row once known.
        depth, low, high, parent, rows = carry
        most = (1 << (height - 1 - depth)) - 1  # nodes that fit into the rows below this one
        before, behind = place[None, :] - low[:, None], high[:, None] - 1 - place[None, :]
        fits = (before >= 0) & (before <= most) & (behind >= 0) & (behind <= most)
        root = jnp.argmax(jnp.where(fits, noise[depth][None, :], -1.0), axis=1).astype(jnp.int32)
        open_ = rows < 0
        rows = jnp.where(open_ & (root == place), depth, rows)
        low = jnp.where(open_ & (place > root), root + 1, low)
        high = jnp.where(open_ & (place < root), root, high)
        return depth + 1, low, high, jnp.where(open_ & (root != place), root, parent), rows

    start = jnp.where(place < size, jnp.int32(-1), jnp.int32(capacity))
    carry = (jnp.int32(0), zero, zero + size, zero - 1, start)
    *_, parent, rows = lax.while_loop(lambda carry: (carry[4] < 0).any(), row, carry)
    order = rows * capacity + place
    number = (order[None, :] < order[:, None]).sum(axis=1, dtype=jnp.int32)
    above = number[jnp.maximum(parent, 0)]

    def children(side):
        index = jnp.where((parent >= 0) & side, above, capacity)
        return jnp.full(capacity, -1, jnp.int32).at[index].set(number, mode="drop")

    return children(place < parent), children(place > parent)
