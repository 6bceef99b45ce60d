"""Binary trees whose inorder is 0 .. n-1: every subtree is an interval of nodes.

The score of a tree is score(left) * score(right) + the score of its root; an empty side counts 1, a leaf just
its own score. Tables are [first node, number of nodes].
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def best(value: Array) -> tuple[Array, Array]:
    """Greatest scores of all intervals and the roots that give them, both i32[N + 1, N + 1].

    Args:
        value: i32[N] scores of the nodes, 0 for absent nodes at the end. With scores up to 20, trees of up
            to 13 nodes stay below 2^31 (1,485,456,420).
    Returns:
        Greatest scores (1 where the interval is empty) and roots, counted from the interval's first node,
        the first of equals. Intervals that reach beyond N are meaningless.
    """

    def scores(size, table):
        return jnp.where(np.arange(value.shape[0]) < size, _by_root(value, table, size), -1)

    def grow(size, carry):
        table, roots = carry
        by_root = scores(size, table)
        table = table.at[:-1, size].set(by_root.max(axis=1))
        return table, roots.at[:-1, size].set(jnp.argmax(by_root, axis=1).astype(jnp.int32))

    return lax.fori_loop(1, value.shape[0] + 1, grow, _empty(value))


def score(value: Array, place: Array, n: Array) -> Array:
    """i32[]: the score of the tree in which the root of every subtree is its node of the least `place`.

    Args:
        value: i32[N].
        place: i32[N] places of the nodes in the preorder, or any others.
        n: i32[] nodes.
    """
    index = np.arange(place.shape[0], dtype=np.int32)

    def grow(size, carry):
        table, roots = carry
        inside = index[None, :] < size
        at = place.at[index[:, None] + index[None, :]].get(mode="clip")
        root = jnp.argmin(jnp.where(inside, at, jnp.iinfo(jnp.int32).max), axis=1).astype(jnp.int32)
        by_root = jnp.take_along_axis(_by_root(value, table, size), root[:, None], axis=1)[:, 0]
        return table.at[:-1, size].set(by_root), roots

    table, _ = lax.fori_loop(1, place.shape[0] + 1, grow, _empty(value))
    return table[0, n]


def preorder(roots: Array, n: Array) -> Array:
    """i32[N]: the nodes 0 .. n-1 in preorder, -1 behind, of the tree that a table of roots describes."""
    nodes = roots.shape[0] - 1
    node = np.arange(nodes, dtype=np.int32)
    zero = jnp.zeros(nodes, jnp.int32)

    def descend(_, carry):
        # By node: the subtree it lies in, by first node, size and place of its root, until it is that root.
        first, size, start = carry
        root = first + roots[first, size]
        left, right = node < root, node > root
        start = start + jnp.where(left, 1, 0) + jnp.where(right, 1 + root - first, 0)
        size = jnp.where(left, root - first, jnp.where(right, first + size - 1 - root, size))
        return jnp.where(right, root + 1, first), size, start

    _, _, place = lax.fori_loop(0, nodes - 1, descend, (zero, zero + n, zero))
    return jnp.full(nodes, -1, jnp.int32).at[jnp.where(node < n, place, nodes)].set(node, mode="drop")


def consistent(order: Array, n: Array) -> Array:
    """bool[]: whether the first n of i32[N], and no others, are the preorder of a tree with nodes 0 .. n-1.

    No node may come after a larger one that comes after one in between: 1 .. 2 .. 0 cannot be.
    """
    index = np.arange(order.shape[0])
    present = index < n
    known = jnp.any(order[None, :] == index[:, None].astype(np.int32), axis=1)
    complete = jnp.all(jnp.where(present, known & (order < n), order < 0))
    a, b, c = order[:, None, None], order[None, :, None], order[None, None, :]
    i, j, k = index[:, None, None], index[None, :, None], index[None, None, :]
    return complete & ~jnp.any((i < j) & (j < k) & (k < n) & (c < a) & (a < b))


def _empty(value: Array) -> tuple[Array, Array]:
    size = value.shape[0] + 1
    return jnp.zeros((size, size), jnp.int32).at[:, 0].set(1), jnp.zeros((size, size), jnp.int32)


def _by_root(value: Array, table: Array, size: Array) -> Array:
    """i32[N, N]: the scores of the intervals of one size by first node and root, counted from it."""
    first, root = np.mgrid[: value.shape[0], : value.shape[0]].astype(np.int32)
    left = table.at[first, root].get(mode="clip")
    right = table.at[first + root + 1, size - 1 - root].get(mode="clip")
    product = jnp.where(size == 1, 0, left * right)  # a leaf has no sides
    return product + value.at[first + root].get(mode="clip")
