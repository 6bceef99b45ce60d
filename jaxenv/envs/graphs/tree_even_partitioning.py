"""Split a tree with N * K vertices into N connected groups of K."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import lattices, text
from jaxenv.codec import BLANK, Grid
from jaxenv.core import Env, outcome
from jaxenv.gen.choice import permutation
from jaxenv.gen.lattice import ABSENT, hamiltonian_path, spanning_tree, weights

SIDE = 8  # of the lattice on which vertices are drawn
GROUPS, GROUP = 10, 6
MOST = GROUPS * GROUP  # vertices


@struct.dataclass
class State:
    label: Array  # i32[SIDE * SIDE] vertices by cell of the lattice, row by row: 1 .. n * k; 0 = none
    parent: Array  # i32[SIDE * SIDE] the other end of one edge of each vertex, a cell; -1 = none
    side: Array  # i32[] cells along a side of the lattice in use
    n: Array  # i32[] groups
    k: Array  # i32[] vertices of a group


class TreeEvenPartitioning(Env[State]):
    """Gym-V's task on trees drawn on a lattice: no two edges cross and no vertex covers another.

    Upstream paints the solution: colours by group, thicker edges inside of groups. Here all vertices and edges
    look alike. Groups are pieces of a random path through the lattice; inside of groups and between them a
    minimum spanning tree under random weights chooses among the edges to up to eight neighbours. Labels are
    shuffled. The groups are unique: an edge is between two of them if and only if a multiple of K vertices is
    on either side. They may be given in any order.
    """

    category = "graphs"
    source = ("Gym-V Graphs/TreeEvenPartitioning-v0", "RLVE tree_even_partitioning")
    question = "Split the tree in the picture into connected groups of equal size."
    rules = (
        "Every vertex belongs to exactly one group. A group is connected if any two of its vertices are joined "
        "by a way along edges that stays inside of the group. Groups and the vertices of a group may be "
        "written in any order. Only a split in which all groups are connected earns the reward. The episode "
        "ends with your answer."
    )
    answer = Grid(GROUPS, GROUP, 1, MOST, "the groups, one a line, vertices separated by spaces", "1 4\n3 2")
    levels = {
        "n": ((2, 2), (3, 3), (3, 4), (4, 6), (6, 8), (8, 10)),
        "k": ((2, 3), (3, 3), (3, 4), (3, 5), (4, 5), (4, 6)),
    }
    eval_level = 5  # contains max_n=10, max_k=6
    min_resolution = (72, 72, 96, 144, 168, 192)

    def reset(self, key: Array, scale) -> State:
        k_path, k_start, k_tree, k_label = jax.random.split(key, 4)
        n, k = scale["n"], scale["k"]
        count = n * k
        side = (count > np.arange(SIDE, dtype=np.int32) ** 2).sum(dtype=jnp.int32)  # the least that suffices
        place = hamiltonian_path(k_path, SIDE, side, 3 * SIDE**2)
        place = place - jax.random.randint(k_start, (), 0, side * side - count + 1, jnp.int32)
        present = (place >= 0) & (place < count)
        group = place // k
        # Lighter inside of groups: the tree first joins each group, then groups to each other.
        weight = weights(k_tree, SIDE)
        weight = weight + jnp.where(group[:, None] == group[None, :], 0.0, 1.0)
        weight = jnp.where(present[:, None] & present[None, :], weight, ABSENT)
        order = permutation(k_label, MOST, count)
        label = jnp.where(present, order[jnp.clip(place, 0, MOST - 1)] + 1, 0)
        return State(label, spanning_tree(weight, present), side, n, k)

    def step(self, key: Array, state: State, action: Array):
        rows = action.reshape(GROUPS, GROUP)
        row, col = np.mgrid[:GROUPS, :GROUP].astype(np.int32)
        wanted = (row < state.n) & (col < state.k)
        group = jnp.full(MOST + 1, -1, jnp.int32)
        group = group.at[jnp.where(wanted, rows, MOST + 1)].set(row, mode="drop")
        shaped = jnp.all(jnp.where(wanted, (rows >= 1) & (rows <= state.n * state.k), rows == BLANK))
        valid = shaped & ((group[1:] >= 0).sum(dtype=jnp.int32) == state.n * state.k)
        # A group of k vertices of a tree is connected if k - 1 edges are inside.
        end, other = group[state.label], group[state.label[state.parent]]
        inside = ((state.parent >= 0) & (end == other)).sum(dtype=jnp.int32)
        return state, outcome(valid & (inside == state.n * (state.k - 1)), True, valid)

    def solve(self, state: State) -> Array:
        present, linked = state.label > 0, state.parent >= 0
        above = jnp.where(linked, state.parent, SIDE**2)
        one = present.astype(jnp.int32)

        def grow(carry):
            size, _ = carry
            larger = one + jnp.zeros(SIDE**2, jnp.int32).at[above].add(size, mode="drop")
            return larger, jnp.any(size != larger)

        size, _ = lax.while_loop(lambda carry: carry[1], grow, (one, jnp.bool_(True)))
        cell = np.arange(SIDE**2, dtype=np.int32)
        top = jnp.where(linked & (size % state.k != 0), state.parent, cell)
        for _ in range((MOST - 1).bit_length()):
            top = top[top]
        # By label: the least label of the same group, the places of groups in that order and inside of them.
        label = np.arange(1, MOST + 1, dtype=np.int32)
        of = (
            jnp.full(MOST + 1, -1, jnp.int32)
            .at[jnp.where(present, state.label, MOST + 1)]
            .set(top, mode="drop")[1:]
        )
        same = (of[:, None] == of[None, :]) & (of >= 0)[:, None]
        first = jnp.where(same, label[None, :], MOST + 1).min(axis=1)
        leads = first == label
        row = (leads[None, :] & (label[None, :] < first[:, None])).sum(axis=1, dtype=jnp.int32)
        col = (same & (label[None, :] < label[:, None])).sum(axis=1, dtype=jnp.int32)
        index = jnp.where(of >= 0, row * GROUP + col, MOST)
        return jnp.full(MOST, BLANK, jnp.int32).at[index].set(label, mode="drop")

    def render(self, state: State) -> Array:
        most = max(high for _, high in self.levels["n"]) * max(high for _, high in self.levels["k"])
        largest = math.isqrt(most - 1) + 1
        return lattices.draw_tree(self.resolution, state.label, state.parent, state.side, largest)

    def text_question(self, state: State) -> Array:
        n, k = text.num(state.n, 2), text.num(state.k, 1)
        return text.join(
            text.lit("Split the tree in the picture into "), n, text.lit(" connected groups of exactly "), k,
            text.lit(" vertices each."),
        )  # fmt: skip

    def text_obs(self, state: State) -> Array:
        edge = text.join(text.num(state.label, 2), text.lit("-"), text.num(state.label[state.parent], 2))
        return text.join(text.lit("edges: "), text.items(edge, state.parent >= 0))

    def text_state(self, state: State) -> Array:
        linked = state.parent >= 0
        ends = jnp.where(linked, state.parent, SIDE**2)
        degree = linked.astype(jnp.int32).at[ends].add(1, mode="drop")
        leaf = degree == 1
        return text.join(
            text.num(state.n * state.k, 2), text.lit(" vertices, leaves "),
            text.items(text.num(state.label, 2), leaf),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Start at the leaves: a leaf is in the group of its only neighbour. Whenever the part that hangs on "
            "an edge has exactly as many vertices as a group, it is one: cut there and go on with the rest."
        )


ENV = TreeEvenPartitioning()
