"""Counting minimum spanning trees exactly, by weight class and the matrix-tree theorem."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

# Two primes below sqrt(2^31), so that products of residues are exact in i32; the second's inverse modulo the
# first puts residues together (Chinese remainders).
PRIMES = np.asarray([46337, 46327], np.int32)
LIMIT = int(PRIMES[0]) * int(PRIMES[1])  # counts below this, 2.1e9, are exact
_INVERSE = np.int32(pow(int(PRIMES[1]), -1, int(PRIMES[0])))


def count_minimum_spanning_trees(
    u: Array, v: Array, weight: Array, present: Array, nodes: int, classes: int
) -> Array:
    """i32[]: how many minimum spanning trees (forests, if disconnected) a weighted graph has.

    All minimum spanning trees join the same components weight by weight, so the count is a product over
    weights: of the spanning trees of the edges of one weight, where what lighter edges join is one node
    (Kirchhoff).

    Args:
        u, v: i32[M] ends of the edges in 0 .. nodes - 1; parallel edges count as different.
        weight: i32[M] in 1 .. classes.
        present: bool[M].
        nodes, classes: static bounds.
    Returns:
        The count, exact if it is below `LIMIT`; with m edges on n nodes it is at most (2m / (n-1))^(n-1) / n.
    """
    at_u, at_v = jax.nn.one_hot(u, nodes, dtype=jnp.float32), jax.nn.one_hot(v, nodes, dtype=jnp.float32)
    lighter = present[None, :] & (weight[None, :] <= np.arange(classes + 1, dtype=np.int32)[:, None])
    linked = jnp.einsum("ce,ei,ej->cij", lighter.astype(jnp.float32), at_u, at_v)
    reach = linked + jnp.swapaxes(linked, 1, 2) + np.eye(nodes, dtype=np.float32)[None] > 0
    for _ in range(max(nodes - 1, 1).bit_length()):
        hops = reach.astype(jnp.float32)
        reach = jnp.einsum("cij,cjk->cik", hops, hops) > 0
    # The first node of each component stands for it, before and after the edges of one weight are added.
    head = jnp.argmax(reach, axis=2)
    before, after = head[:-1], head[1:]
    of_class = present[None, :] & (weight[None, :] == np.arange(1, classes + 1, dtype=np.int32)[:, None])
    ends = jax.nn.one_hot(before[:, u], nodes, dtype=jnp.float32) - jax.nn.one_hot(
        before[:, v], nodes, dtype=jnp.float32
    )
    laplacian = jnp.einsum("cei,cej->cij", ends * of_class[..., None].astype(jnp.float32), ends)
    index = np.arange(nodes)[None, :]
    free = (before == index) & (
        after != index
    )  # heads that this class joins to another; the rest is left out
    kept = free[:, :, None] & free[:, None, :]
    matrix = jnp.where(kept, laplacian.astype(jnp.int32), jnp.asarray(np.eye(nodes, dtype=np.int32))[None])
    residues = _determinants(matrix, PRIMES[:, None])
    first, second = (_product(r, p) for r, p in zip(residues, PRIMES))
    return second + PRIMES[1] * _modulo((first - second) % PRIMES[0] * _INVERSE, PRIMES[0])


def _product(residues: Array, prime) -> Array:
    product = residues[0]
    for r in residues[1:]:
        product = _modulo(product * r, prime)
    return product


def _determinants(matrices: Array, prime: np.ndarray) -> Array:
    """i32[P, C]: determinants of i32[C, n, n] modulo each of i32[P, 1] primes, by elimination.

    Rows are multiplied by the pivot instead of divided by it, which takes one modular inverse in all: in step k
    every row left is too large by all earlier pivots, so the product of the pivots is too large by `excess`.
    """
    n = matrices.shape[-1]
    index = np.arange(n, dtype=np.int32)
    by_cell = prime[..., None, None]

    def eliminate(k, carry):
        rows, product, earlier, excess = carry
        column = lax.dynamic_index_in_dim(rows, k, axis=3, keepdims=False)
        usable = (column != 0) & (index >= k)[None, None, :]
        # Row k itself where the rest of the column is 0, and with it the determinant.
        at = jnp.where(usable.any(axis=-1), jnp.argmax(usable, axis=-1).astype(jnp.int32), k)
        top = jnp.take_along_axis(rows, at[..., None, None], axis=2)
        pivot = lax.dynamic_index_in_dim(top, k, axis=3, keepdims=False)[..., 0]
        # Exchanging two rows changes the sign; the rows above are never read again.
        product = _modulo(product * jnp.where((at == k) | (pivot == 0), pivot, prime - pivot), prime)
        excess, earlier = _modulo(excess * earlier, prime), _modulo(earlier * pivot, prime)
        moved = index[None, None, :] == at[..., None]
        rows = jnp.where(moved[..., None], lax.dynamic_slice_in_dim(rows, k, 1, axis=2), rows)
        column = lax.dynamic_index_in_dim(rows, k, axis=3, keepdims=False)
        rows = _modulo(rows * pivot[..., None, None], by_cell) - _modulo(column[..., None] * top, by_cell)
        return jnp.where(rows < 0, rows + by_cell, rows), product, earlier, excess

    residues = jnp.where(matrices[None] < 0, matrices[None] + by_cell, matrices[None])
    one = jnp.ones(residues.shape[:2], jnp.int32)
    _, product, _, excess = lax.fori_loop(0, n, eliminate, (residues, one, one, one))

    def square(k, carry):
        power, base = carry
        power = jnp.where((prime - 2) >> k & 1 == 1, _modulo(power * base, prime), power)
        return power, _modulo(base * base, prime)

    # excess^(prime - 2) is its inverse, and 0 where a pivot was 0.
    inverse, _ = lax.fori_loop(0, int(prime.max()).bit_length(), square, (one, excess))
    return _modulo(product * inverse, prime)


def _modulo(x: Array, prime: Array | np.ndarray) -> Array:
    """x mod prime for 0 <= x < 2^31 without an integer division, which CPUs do one at a time."""
    quotient = (x.astype(jnp.float32) / jnp.asarray(prime).astype(jnp.float32)).astype(jnp.int32)
    rest = x - quotient * prime
    rest = jnp.where(rest < 0, rest + prime, rest)
    return jnp.where(rest >= prime, rest - prime, rest)
