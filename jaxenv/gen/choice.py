"""Random choices among masked candidates, all by ranking noise: exact counts, no rejection."""

import jax
import jax.numpy as jnp
from jax import Array


def pick(key: Array, mask: Array) -> Array:
    """i32[]: a uniformly random index of bool[N] among the True ones (0 if there is none)."""
    noise = jax.random.uniform(key, mask.shape)
    return jnp.argmax(jnp.where(mask, noise, -1.0)).astype(jnp.int32)


def subset(key: Array, mask: Array, count: Array) -> Array:
    """bool, shaped like mask: exactly `count` (traced) of the True ones, or all if there are fewer."""
    noise = jnp.where(mask, jax.random.uniform(key, mask.shape), 2.0).reshape(-1)
    # The rank by counting is quadratic but vectorises; a sort is an order of magnitude slower at these sizes.
    index = jnp.arange(noise.size)
    before = (noise[None, :] < noise[:, None]) | (
        (noise[None, :] == noise[:, None]) & (index[None, :] < index[:, None])
    )
    rank = before.sum(axis=1)
    return (mask.reshape(-1) & (rank < count)).reshape(mask.shape)


def permutation(key: Array, size: int, count: Array) -> Array:
    """i32[size]: the first `count` (traced) entries are a random permutation of 0 .. count - 1, then the rest in order."""
    index = jnp.arange(size)
    noise = jnp.where(index < count, jax.random.uniform(key, (size,)), 2.0 + index.astype(jnp.float32))
    return jnp.argsort(noise).astype(jnp.int32)
