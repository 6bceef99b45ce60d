"""Gradients in few numbers: every unit's GRPO gradient is projected as it is made, and then forgotten.

A CountSketch adds each coordinate, with a random sign, to one of k buckets. Inner products stay as they are on average,
with a standard error of about |x| |y| / sqrt(k): 0.011 of a cosine at k = 8,192. It is linear, so the sketch of a sum is
the sum of sketches, and its hashes come from a key and a parameter's place alone: nothing is stored.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from agents import grpo
from agents.policy import Params, Policy

_HASHES, _ADAPTERS = 0, 1  # what the key is folded with


def sketch(tree: Any, key: Array, size: int) -> Array:
    """f32[size]: the CountSketch of all leaves together."""
    total = jnp.zeros(size, jnp.float32)
    for place, leaf in enumerate(jax.tree.leaves(tree)):
        k_bucket, k_sign = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, _HASHES), place))
        bucket = jax.random.randint(k_bucket, (leaf.size,), 0, size, jnp.int32)
        sign = jax.random.rademacher(k_sign, (leaf.size,), jnp.float32)
        values = leaf.reshape(-1).astype(jnp.float32)
        total = total + jax.ops.segment_sum(sign * values, bucket, size)
    return total


# ---- LoRA ----


def adapters(params: Params, rank: int) -> dict[str, Array]:
    """f32[rank, outputs] zeros for every linear layer: the second factors of fresh LoRA adapters.

    A fresh adapter's second factor is zero and its first one random, so the gradient is all in the second.
    """
    kernels = {name: leaf for name, leaf in _named(params) if leaf.ndim == 2 and "kernel" in name}
    return {name: jnp.zeros((rank, leaf.shape[1]), jnp.float32) for name, leaf in kernels.items()}


def adapt(params: Params, second: dict[str, Array], key: Array) -> Params:
    """Parameters with adapters added to the kernels; the first factors come from the key."""

    def added(place: int, name: str, kernel: Array) -> Array:
        if name not in second:
            return kernel
        rank = second[name].shape[0]
        k = jax.random.fold_in(jax.random.fold_in(key, _ADAPTERS), place)
        first = jax.random.normal(k, (kernel.shape[0], rank), jnp.float32) * np.float32(rank**-0.5)
        return kernel + (first @ second[name]).astype(kernel.dtype)

    leaves = [added(place, name, leaf) for place, (name, leaf) in enumerate(_named(params))]
    return jax.tree.unflatten(jax.tree.structure(params), leaves)


def _named(params: Params) -> list[tuple[str, Array]]:
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree.leaves_with_path(params)]


# ---- gradients ----


@partial(jax.jit, static_argnames=("policy", "config", "size", "rank"))
def gradients(
    policy: Policy,
    config: grpo.Config,
    params: Params,
    chunks: grpo.Chunk,
    tokens: Array,
    key: Array,
    size: int,
    rank: int = 0,
) -> Array:
    """f32[U, size]: sketches of the gradients that U chunks (stacked along a new first axis) contribute.

    Args:
        tokens: f32[U] tokens of the batch that each chunk is part of.
        key: of hashes and adapters; sketches of different keys cannot be compared.
        rank: 0 for all parameters, else of LoRA adapters at every linear layer.
    """
    if rank:
        variables, whole = adapters(params, rank), lambda v: adapt(params, v, key)
    else:
        variables, whole = params, lambda v: v

    def one(chunk: grpo.Chunk, count: Array) -> Array:
        loss = lambda v: grpo.objective(policy, config, whole(v), chunk, jnp.bool_(True), count)[0]  # noqa: E731
        return sketch(jax.grad(loss)(variables), key, size)

    return jax.vmap(one)(chunks, tokens)
