"""Random graphs of a known chromatic number."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv.gen.choice import permutation, subset


def colourable(key: Array, size: int, n: Array, m: Array, colours: Array) -> tuple[Array, Array]:
    """A random graph that needs exactly so many colours, and a colouring with them.

    Every vertex stands for a node of a small graph, each node for one vertex or more, and vertices are joined
    only if their nodes are. With one vertex of each node the whole small graph is among the edges; all other
    edges are drawn uniformly. The small graph is a clique of `colours` nodes or, half of the time for four
    colours and more, a cycle of five all joined to a clique of colours - 3: it needs as many colours and has
    no clique of that size.

    Args:
        size: static bound of n.
        n, m: i32[] vertices and wanted edges; m is raised to those of the small graph or cut to the possible
            ones where it does not fit.
        colours: i32[], 2 .. min(n, size - 2).
    Returns:
        bool[size, size], symmetric, and colours i32[size], -1 beyond the first n.
    """
    k_wheel, k_node, k_edge, k_order = jax.random.split(key, 4)
    wheel = jax.random.bernoulli(k_wheel) & (colours >= 4) & (n >= colours + 2)
    nodes = colours + jnp.where(wheel, 2, 0)
    index = np.arange(size, dtype=np.int32)
    # By rank: the first vertices of all nodes, the second ones, then any.
    drawn = jax.random.randint(k_node, (size,), 0, nodes, jnp.int32)
    node = jnp.where(index < 2 * nodes, index % nodes, drawn)
    u, v = node[:, None], node[None, :]
    around = ((u - v) % 5 == 1) | ((u - v) % 5 == 4)  # neighbours on the cycle of nodes 0 .. 4
    linked = (u != v) & (around | (u >= 5) | (v >= 5) | ~wheel)
    possible = linked & (index[:, None] < index[None, :]) & (index < n)[None, :]
    core = possible & (index < nodes)[None, :]
    chosen = core | subset(k_edge, possible & ~core, m - core.sum(dtype=jnp.int32))
    on_cycle = jnp.asarray(np.asarray([0, 1, 0, 1, 2], np.int32))[jnp.minimum(node, 4)]
    colour = jnp.where(wheel, jnp.where(node < 5, on_cycle, node - 2), node)
    rank = permutation(k_order, size, n)
    joined = (chosen | chosen.T)[rank][:, rank]
    return joined, jnp.where(index < n, colour[rank], -1)
