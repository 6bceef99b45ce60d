"""Random two-layer logic circuits, drawn backwards from the wanted output."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxenv.gen.choice import pick
from jaxenv.solve.gates import XOR, disjunctive, inverts


def inputs_for(key: Array, gate: Array, value: Array, present: Array) -> Array:
    """bool[K]: random inputs for which a gate (i32[]) gives `value` (bool[]); only those in `present` count.

    An AND that gives 0 has mostly ones among its inputs (OR and the inverted gates accordingly), so that it
    cannot be told at a glance. Needs at least one input; every gate can give both values.
    """
    k_bits, k_one = jax.random.split(key)
    # As the inputs of an AND or XOR: OR is an AND of opposites.
    flip = disjunctive(gate)
    wanted = value ^ inverts(gate) ^ flip
    bits = jax.random.uniform(k_bits, present.shape) < jnp.where(gate == XOR, 0.5, 0.7)
    one = (np.arange(present.shape[0]) == pick(k_one, present)) & present
    wrong = ((bits & present).sum(dtype=jnp.int32) % 2 == 1) ^ wanted
    bits = jnp.where(gate == XOR, bits ^ (one & wrong), jnp.where(wanted, True, bits & ~one))
    return (bits ^ flip) & present


def connect(key: Array, values: Array, negated: Array, present: Array, most: Array, size: int):
    """Inputs for the literals of a circuit such that each has the value it should have.

    Half of the literals use an input that exists already, if one with the right bit is not yet in the same
    term; the others get a new input. Once there are `most` inputs and none fits, the negation changes.

    Args:
        values, negated, present: bool[T, I], by term and place; a term's places are filled from the first on.
        most: i32[] inputs, at least the literals of any term and at most `size`.
    Returns:
        bits: bool[size] of the inputs; used, negated: bool[T, size], the literals of each term.
    """
    terms, places = values.shape
    k_coin, k_noise, k_order = jax.random.split(key, 3)
    coin = jax.random.bernoulli(k_coin, 0.5, (terms * places,))
    noise = jax.random.uniform(k_noise, (terms * places, size))
    first = np.tile(np.arange(places) == 0, terms)
    index = np.arange(size, dtype=np.int32)

    def literal(carry, each):
        bits, count, taken = carry
        value, minus, present, first, coin, noise = each
        taken = taken & ~first
        free = (index < count) & ~taken
        fits = free & (bits == (value ^ minus))
        new = (count < most) & (coin | ~fits.any())
        old = jnp.argmax(jnp.where(jnp.where(fits.any(), fits, free), noise, -1.0)).astype(jnp.int32)
        chosen = (index == jnp.where(new, count, old)) & present
        bits = jnp.where(chosen & new, value ^ minus, bits)
        minus = value ^ (chosen & bits).any()
        return (bits, count + (new & present).astype(jnp.int32), taken | chosen), (chosen, chosen & minus)

    nothing = jnp.zeros(size, bool)
    flat = [x.reshape(-1) for x in (values, negated, present)]
    (bits, count, _), (used, minus) = lax.scan(
        literal, (nothing, jnp.int32(0), nothing), (*flat, jnp.asarray(first), coin, noise)
    )
    order = jnp.argsort(jnp.where(index < count, jax.random.uniform(k_order, (size,)), 2.0))
    used, minus = (x.reshape(terms, places, size).any(axis=1)[:, order] for x in (used, minus))
    return bits[order], used, minus
