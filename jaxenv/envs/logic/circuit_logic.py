"""Read a drawn logic circuit of two layers and its input bits, and give the output bit."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import schematics, text
from jaxenv.codec import Choice
from jaxenv.core import Env, outcome
from jaxenv.gen.circuits import connect, inputs_for
from jaxenv.solve.gates import AND, NAMES, NAND, NOR, OR, XOR, output

T, V, I = 8, 12, 6  # most terms, inputs and literals of a term
TERM_GATES, FINAL_GATES = (AND, NAND, XOR), (OR, NOR, XOR, AND)
LETTERS = schematics.LETTERS[:V]


@struct.dataclass
class State:
    bits: Array  # bool[V] of the inputs A, B, ...
    used: Array  # bool[T, V] inputs of each term; a term without any does not exist
    negated: Array  # bool[T, V] those that enter it negated
    gate: Array  # i32[T] AND, NAND or XOR
    final: Array  # i32[] OR, NOR, XOR or AND


class CircuitLogic(Env[State]):
    """Reasoning Gym's circuits, drawn as rails, wires and gates, and balanced.

    The output, the gates and what each gate gives are drawn first; the inputs follow. So neither the last
    gate nor the others tell anything about the output (upstream an AND at the end is 94 % zero). Also, the
    inputs of a term are distinct and in the order of the rails, at most 12 in all, and spaces around answers
    cost nothing. Level 0 (two terms of two inputs, no negation) has 36 choices of gates times 148 of inputs.
    """

    category = "logic"
    source = ("Gym-V Logic/CircuitLogic-v0", "Reasoning Gym circuit_logic")
    question = (
        "The picture shows a logic circuit and the bits of its inputs. Which bit comes out at OUT? "
        "A dot joins a wire to an input line, a red circle negates, XOR gives 1 for an odd number of ones."
    )
    rules = (
        "Each input is a vertical line with its name and bit on top. Wires that cross a line without a dot "
        "are not joined to it. A red circle where a wire enters a gate turns 0 into 1 and 1 into 0. "
        "AND gives 1 if all its inputs are 1, OR if at least one is 1, XOR if the number of ones is odd; "
        "NAND gives the opposite of AND and NOR the opposite of OR. "
        "All gates of the first column feed the tall last gate, whose output is OUT. "
        "One answer ends the episode."
    )
    answer = Choice(("0", "1"))
    levels = {
        "terms": ((2, 2), (2, 3), (3, 4), (3, 5), (4, 6), (4, 8), (6, 8)),
        "min_inputs": ((2, 2), (2, 2), (2, 2), (3, 3), (4, 4), (4, 4), (4, 4)),  # of a term
        "max_inputs": ((2, 2), (3, 3), (4, 4), (4, 4), (5, 5), (6, 6), (6, 6)),
        "variables": ((4, 4), (5, 5), (6, 6), (8, 8), (10, 10), (12, 12), (12, 12)),  # most inputs in all
        "negated_percent": ((0, 0), (20, 20), (30, 30), (30, 30), (30, 30), (30, 30), (30, 30)),
    }
    eval_level = 5
    min_resolution = (128, 136, 144, 160, 176, 256, 256)

    def reset(self, key: Array, scale) -> State:
        k_final, k_out, k_gate, k_width, k_term, k_literal, k_minus, k_wire = jax.random.split(key, 8)
        final = jax.random.choice(k_final, np.asarray(FINAL_GATES, np.int32))
        gate = jax.random.choice(k_gate, np.asarray(TERM_GATES, np.int32), (T,))
        width = jax.random.randint(k_width, (T,), scale["min_inputs"], scale["max_inputs"] + 1, jnp.int32)
        exists = np.arange(T) < scale["terms"]
        terms = inputs_for(k_term, final, jax.random.bernoulli(k_out), exists)
        present = (np.arange(I)[None, :] < width[:, None]) & exists[:, None]
        literals = jax.vmap(inputs_for)(jax.random.split(k_literal, T), gate, terms, present)
        minus = jax.random.uniform(k_minus, (T, I)) * 100 < scale["negated_percent"].astype(jnp.float32)
        bits, used, negated = connect(k_wire, literals, minus, present, scale["variables"], V)
        return State(bits, used, negated, jnp.where(exists, gate, AND), final)

    def step(self, key: Array, state: State, action: Array):
        return state, outcome(action[0] == self.solve(state)[0], True)

    def solve(self, state: State) -> Array:
        terms = output(state.gate, state.bits[None, :] ^ state.negated, state.used)
        return output(state.final, terms, state.used.any(axis=1)).astype(jnp.int32)[None]

    def render(self, state: State) -> Array:
        plan = schematics.plan(self.resolution, state.used, state.negated, I)
        return schematics.draw(self.resolution, plan, jnp.append(state.gate, state.final), state.bits)

    def text_obs(self, state: State) -> Array:
        letters = text.lit(LETTERS)[:, None]
        inputs = text.join(letters, text.lit(" = "), text.num(state.bits.astype(jnp.int32), 1))
        number = text.num(np.arange(1, T + 1), 1)
        literals = text.join(text.when(state.negated, text.lit("not ")), jnp.broadcast_to(letters, (T, V, 1)))
        terms = text.join(
            text.lit("T"), number, text.lit(" = "), text.choose(state.gate, NAMES), text.lit("("),
            jax.vmap(text.items)(literals, state.used), text.lit(")\n"),
        )  # fmt: skip
        exists = state.used.any(axis=1)
        return text.join(
            text.items(inputs, state.used.any(axis=0)), text.lit("\n"), text.when(exists, terms).reshape(-1),
            text.lit("OUT = "), text.choose(state.final, NAMES), text.lit("("),
            text.items(text.join(text.lit("T"), number), exists), text.lit(")"),
        )  # fmt: skip

    def text_state(self, state: State) -> Array:
        def count(mask):
            return text.num(mask.sum(dtype=jnp.int32), 2)

        return text.join(
            count(state.used.any(axis=0)), text.lit(" inputs, "), count(state.bits), text.lit(" of them 1; "),
            count(state.used.any(axis=1)), text.lit(" gates with "), count(state.used),
            text.lit(" wires to the inputs, "), count(state.negated),
            text.lit(" of them negated; last gate "), text.choose(state.final, NAMES),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Follow each wire of a gate left to its dot and up to the bit. Write down what every gate gives, "
            "then apply the last one. A single 0 settles AND and NAND, a single 1 settles OR and NOR; "
            "XOR needs all bits."
        )


ENV = CircuitLogic()
