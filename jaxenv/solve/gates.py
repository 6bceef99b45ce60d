"""Logic gates with any number of inputs."""

import jax.numpy as jnp
from jax import Array

AND, NAND, XOR, OR, NOR = range(5)
NAMES = ("AND", "NAND", "XOR", "OR", "NOR")


def inverts(gate: Array) -> Array:
    """bool, shaped like gate: NAND and NOR give the opposite of AND and OR."""
    return (gate == NAND) | (gate == NOR)


def disjunctive(gate: Array) -> Array:
    """bool, shaped like gate: OR and NOR ask whether some input is 1."""
    return (gate == OR) | (gate == NOR)


def output(gate: Array, bits: Array, present: Array) -> Array:
    """bool[...]: what gates i32[...] give for inputs bool[..., K]; XOR gives 1 for an odd number of ones."""
    every = jnp.all(bits | ~present, axis=-1)
    some = jnp.any(bits & present, axis=-1)
    odd = (bits & present).sum(axis=-1, dtype=jnp.int32) % 2 == 1
    plain = jnp.where(gate == XOR, odd, jnp.where(disjunctive(gate), some, every))
    return plain ^ inverts(gate)
