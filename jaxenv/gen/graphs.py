"""Random connected graphs as lists of edges, and where to write along edges that cross."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv.draw import barrier
from jaxenv.gen.choice import permutation, subset

# Places along an edge, the middle first, then by turns to either side.
_BLOCKED = 1024.0  # cost of a place that covers a node or another label
FRACTIONS = (0.5 + 0.025 * np.asarray([(k + 1) // 2 * (-1) ** k for k in range(25)])).astype(np.float32)


def connected(key: Array, nodes: int, edges: int, n: Array, m: Array) -> tuple[Array, Array, Array]:
    """A random connected simple graph: a random recursive tree over shuffled nodes and random further edges.

    Args:
        nodes, edges: static bounds of n and m.
        n, m: traced, with n - 1 <= m <= n (n - 1) / 2.
    Returns:
        u, v: i32[edges] with u < v, in order of (u, v); 0 beyond the first m.
        present: bool[edges], the first m.
    """
    k_order, k_parent, k_extra = jax.random.split(key, 3)
    first, second = (x.astype(np.int32) for x in np.triu_indices(nodes, 1))
    order = permutation(k_order, nodes, n)
    rank = jnp.zeros(nodes, jnp.int32).at[order].set(np.arange(nodes, dtype=np.int32))
    # The node of rank r > 0 joins one of a lower rank.
    parent = jax.random.randint(k_parent, (nodes,), 0, jnp.maximum(np.arange(nodes), 1), jnp.int32)
    low, high = jnp.minimum(rank[first], rank[second]), jnp.maximum(rank[first], rank[second])
    inside = second < n
    tree = inside & (parent[high] == low)
    chosen = tree | subset(k_extra, inside & ~tree, m - (n - 1))
    place = jnp.where(chosen, jnp.cumsum(chosen.astype(jnp.int32)) - 1, edges)
    u, v = (jnp.zeros(edges + 1, jnp.int32).at[place].set(x, mode="drop")[:edges] for x in (first, second))
    return u, v, np.arange(edges, dtype=np.int32) < m


def ring(n: Array, nodes: int) -> Array:
    """f32[nodes, 2] (row, col) on a circle of radius 1 about 0: node 0 on top, the others follow clockwise.

    The circle has an odd number of places (one stays empty if n is even), so that no three lines between
    nodes meet in one point, as diameters would.
    """
    count = np.arange(nodes + 1)[:, None] // 2 * 2 + 1
    turn = 2 * np.pi * np.arange(nodes)[None, :] / count
    return jnp.asarray(np.stack([-np.cos(turn), np.sin(turn)], axis=-1).astype(np.float32))[n]


def label_places(p: Array, q: Array, present: Array, discs: Array, radius: float, half: np.ndarray) -> Array:
    """f32[M, 2]: centres for labels on edges: apart from each other, off the nodes and the other edges.

    Each label in turn takes the best of the `FRACTIONS` of its edge, then each once more given the others.

    Args:
        p, q: [M, 2] ends of the edges.
        present: bool[M].
        discs: [N, 2] centres of the nodes (absent ones far away), all of one `radius`.
        half: f32[2], half the height and width of a label with its margin.
    """
    count, options = p.shape[0], len(FRACTIONS)
    # In units of label halves, all candidates of all edges as one vector per coordinate: every loop below
    # runs over the few other things and keeps this long axis, which vectorises.
    scaled = [x / half[None] for x in (p, q, discs)]
    (pr, pc), (qr, qc), (nr, nc) = (x.T for x in scaled)
    row, col = (
        (a[:, None] + (b - a)[:, None] * FRACTIONS[None]).reshape(-1) for a, b in ((pr, qr), (pc, qc))
    )
    step_r, step_c = qr - pr, qc - pc
    inverse = 1.0 / jnp.maximum(step_r**2 + step_c**2, 1e-6)
    own = np.repeat(np.arange(count, dtype=np.int32), options)
    row, col, *edges = barrier((row, col, pr, pc, step_r, step_c, inverse))

    def off_edge(cost, edge):
        index, there, a, b, dr, dc, inv = edge
        along = jnp.clip(((row - a) * dr + (col - b) * dc) * inv, 0.0, 1.0)
        square = (row - a - along * dr) ** 2 + (col - b - along * dc) ** 2
        # An edge that passes under a label makes it ambiguous.
        more = 30.0 * jnp.maximum(1.0 - square, 0.0) + jnp.maximum(2.0 - square, 0.0)
        return cost + jnp.where(there & (own != index), more, 0.0), None

    def off_node(cost, node):
        gap_r = jnp.maximum(jnp.abs(row - node[0]) - 1.0, 0.0) * half[0]
        gap_c = jnp.maximum(jnp.abs(col - node[1]) - 1.0, 0.0) * half[1]
        return cost + jnp.where(gap_r**2 + gap_c**2 < radius**2, jnp.float32(_BLOCKED), 0.0), None

    cost = jnp.asarray(np.tile(0.01 * np.arange(options, dtype=np.float32), count))
    cost, _ = lax.scan(off_edge, cost, (np.arange(count, dtype=np.int32), present, *edges))
    cost, _ = lax.scan(off_node, cost, (nr, nc))

    def under(place, edge):
        """How much a label at one place blocks each candidate."""
        near = (jnp.abs(row - row[place]) < 2.0) & (jnp.abs(col - col[place]) < 2.0)
        return jnp.where(near & present[edge], jnp.float32(_BLOCKED), 0.0)

    def best(cost, edge):
        own_costs = lax.dynamic_slice(cost, (edge * options,), (options,))
        return edge * options + jnp.argmin(own_costs).astype(jnp.int32)

    def choose(cost, edge):
        place = best(cost, edge)
        return cost + under(place, edge), place

    def again(cost, edge_place):
        edge, place = edge_place
        cost = cost - under(place, edge)
        return choose(cost, edge)

    order = np.arange(count, dtype=np.int32)
    cost, places = lax.scan(choose, cost, order)
    cost, places = lax.scan(again, cost, (order, places))
    return jnp.stack([row[places] * half[0], col[places] * half[1]], axis=1)
