"""Random paths and trees on square lattices. Cells are row * side + column of a side x side array."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

ABSENT = np.float32(4.0)  # the weight of two cells that no edge joins; edges weigh less


def hamiltonian_path(key: Array, side: int, size: Array, moves: int) -> Array:
    """i32[side * side]: places of the cells on a random path through all cells of a size x size board.

    Backbite moves from a path row by row: one end is joined to a random neighbour and the edge that closes a
    cycle is dropped; ends take turns. Steps of the path go up, down, left or right.

    Args:
        side, moves: static; about three moves per cell make the path forget where it began.
        size: i32[], at most side.
    Returns:
        0 .. size**2 - 1 on the board, -1 beyond it.
    """
    row, col = (x.reshape(-1) for x in np.mgrid[:side, :side].astype(np.int32))
    cell = np.arange(side * side, dtype=np.int32)
    inside = (row < size) & (col < size)
    place = row * size + jnp.where(row % 2 == 0, col, size - 1 - col)
    place = jnp.where(inside, place, -1)
    count = size * size

    def bite(place, direction):
        # The end here is always place 0; afterwards the whole path is turned around.
        end = jnp.where(place == 0, cell, 0).sum()
        r, c = end // side, end % side
        r = r + jnp.where(direction == 0, -1, jnp.where(direction == 1, 1, 0))
        c = c + jnp.where(direction == 2, -1, jnp.where(direction == 3, 1, 0))
        possible = (r >= 0) & (r < size) & (c >= 0) & (c < size)
        other = jnp.where(cell == r * side + c, place, 0).sum()
        turned = jnp.where(possible & (place < other), other - 1 - place, place)
        return jnp.where(inside, count - 1 - turned, -1), None

    directions = jax.random.randint(key, (moves,), 0, 4, jnp.int32)
    return lax.scan(bite, place, directions)[0]


def weights(key: Array, side: int) -> Array:
    """f32[side**2, side**2]: random weights in [0, 1) of the edges of a triangulated lattice, else `ABSENT`.

    Cells side by side are joined, and in every block of four the ends of one diagonal, drawn at random, so
    that edges never cross. Each cell makes all of its edges lighter by an amount of its own: light trees
    branch more than under independent weights.
    """
    k_weight, k_cell, k_diagonal = jax.random.split(key, 3)
    row, col = (x.reshape(-1) for x in np.mgrid[:side, :side])
    down, right = row[None] - row[:, None], col[None] - col[:, None]
    joined = (np.maximum(abs(down), abs(right)) == 1) & (abs(down) + abs(right) > 0)
    # One number per pair of cells: that of the smaller cell and of the direction to the other.
    first = np.minimum(np.arange(side**2)[:, None], np.arange(side**2)[None])
    kind = np.select([down == 0, right == 0, down == right], [0, 1, 2], 3)
    number = np.where(joined, 4 * first + kind, 4 * side**2).astype(np.int32)
    noise = jax.random.uniform(k_weight, (side**2, 4))
    falling = jax.random.bernoulli(k_diagonal, 0.5, (side, side))  # by the upper left cell of a block
    rising = ~jnp.roll(falling, 1, axis=1)  # by the upper right cell
    drawn = jnp.stack([jnp.ones_like(falling), jnp.ones_like(falling), falling, rising], axis=-1)
    noise = jnp.where(drawn.reshape(-1, 4), noise, ABSENT).reshape(-1)
    noise = jnp.append(noise, ABSENT)[number]
    cell = jax.random.uniform(k_cell, (side**2,))
    light = jnp.minimum(cell[:, None], cell[None, :])
    return jnp.where(noise < ABSENT, 0.25 * noise + 0.75 * light, ABSENT)


def spanning_tree(weight: Array, present: Array) -> Array:
    """i32[V]: the minimum spanning tree of a connected graph as parents, -1 at the root and where absent.

    Args:
        weight: f32[V, V] symmetric, at least `ABSENT` where there is no edge.
        present: bool[V].
    """
    vertices = present.shape[0]
    vertex = np.arange(vertices, dtype=np.int32)
    root = jnp.argmax(present).astype(jnp.int32)

    def add(_, carry):
        # Prim: by vertex outside, the lightest edge to the tree, and its other end.
        latest, outside, key, parent = carry
        outside = outside & (vertex != latest)
        row = weight[latest]
        closer = outside & (row < key)
        key = jnp.where(closer, row, key)
        parent = jnp.where(closer, latest, parent)
        lightest = outside & (key == jnp.where(outside, key, ABSENT).min())
        # Not by argmin, which compilers do element by element.
        return jnp.where(lightest, vertex, vertices - 1).min(), outside, key, parent

    start = (root, present, jnp.full(vertices, ABSENT), jnp.full(vertices, -1, jnp.int32))
    return lax.fori_loop(0, vertices, add, start)[3]
