"""Binary trees as arrays: depths, and the places of nodes in the three traversals."""

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array


@struct.dataclass
class Places:
    """Where each node stands, counted from 0; meaningless for absent nodes."""

    depth: Array  # i32[N] edges from the root
    preorder: Array  # i32[N] node, left subtree, right subtree
    inorder: Array  # i32[N] left subtree, node, right subtree
    postorder: Array  # i32[N] left subtree, right subtree, node


def places(left: Array, right: Array, present: Array) -> Places:
    """Depths and traversal places of one tree.

    Args:
        left, right: i32[N] children, -1 = none; nodes may be numbered in any way.
        present: bool[N].

    A node's place is the number of nodes before it; who comes first follows from who lies in whose subtree.
    """
    n = left.shape[0]
    node = np.arange(n)
    child = (left[:, None] == node[None, :]) | (right[:, None] == node[None, :])
    exists = present[:, None] & present[None, :]
    inside = (child | np.eye(n, dtype=bool)) & exists  # [a, k]: k lies in the subtree of a
    for _ in range((n - 1).bit_length()):
        inside = _compose(inside, inside)
    in_left = inside[jnp.maximum(left, 0)] & (left >= 0)[:, None]
    in_right = inside[jnp.maximum(right, 0)] & (right >= 0)[:, None]
    apart = _compose(in_left.T, in_right)  # [j, k]: j is left of k, neither is above the other
    above = in_left | in_right  # [j, k]: j is an ancestor of k

    def count(before):
        return before.sum(axis=0, dtype=jnp.int32)

    return Places(
        depth=count(above),
        preorder=count(apart | above),
        inorder=count(apart | in_right | in_left.T),
        postorder=count(apart | above.T),
    )


def sequence(values: Array, place: Array, present: Array, blank: int = -1) -> Array:
    """i32[N]: the values of the present nodes in the order of their places, `blank` behind."""
    n = values.shape[0]
    return jnp.full(n, blank, jnp.int32).at[jnp.where(present, place, n)].set(values, mode="drop")


def _compose(a: Array, b: Array) -> Array:
    """bool[N, N]: boolean matrix product."""
    return (a[:, :, None] & b[None, :, :]).any(axis=1)
