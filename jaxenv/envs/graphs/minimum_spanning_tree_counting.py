"""Count the minimum spanning trees of a weighted graph, modulo a given number."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import planes, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome
from jaxenv.gen.graphs import connected, label_places, ring
from jaxenv.solve.spanning import count_minimum_spanning_trees

N, M, CLASSES = 14, 39, 4
MODULI = (1000, 9999)


@struct.dataclass
class State:
    u: Array  # i32[M] edges u - v with u < v, the first m of them
    v: Array  # i32[M]
    weight: Array  # i32[M] in 1 .. CLASSES
    n: Array  # i32[] nodes
    m: Array  # i32[] edges
    modulus: Array  # i32[]


class MinimumSpanningTreeCounting(Env[State]):
    """Gym-V's task with at least as many edges as nodes (trees have one answer) and moduli of 1000 and more.

    The number of weights is a parameter of the level (upstream it follows from size and edge ratio), so that
    ties do not become rarer by accident. Each weight stands where it covers nothing else, not at the middle.
    """

    category = "graphs"
    source = ("Gym-V Graphs/MinimumSpanningTreeCounting-v0", "RLVE minimum_spanning_tree_counting")
    question = "How many different minimum spanning trees does the graph in the picture have?"
    rules = (
        "The number on an edge is its weight. A spanning tree is a set of edges that joins all nodes without "
        "a cycle. It is minimum if no other has a smaller sum of weights. Two trees differ if their edges "
        "differ. Modulo k means the remainder after division by k. Only the exact number earns the reward. "
        "The episode ends with your answer."
    )
    answer = Ints(1, 0, MODULI[1], "one whole number", (12,))
    levels = {
        "n": ((4, 5), (5, 6), (6, 8), (8, 10), (10, 12), (12, 14), (13, 14)),
        "tenths": (
            (12, 15),
            (14, 18),
            (16, 20),
            (18, 22),
            (20, 25),
            (22, 25),
            (25, 28),
        ),  # edges per ten nodes
        "weights": ((2, 2), (2, 2), (2, 2), (3, 3), (3, 3), (4, 4), (3, 3)),
    }
    eval_level = 5  # contains max_n=14, edge_ratio=2.5
    min_resolution = (72, 88, 112, 160, 200, 240, 256)

    def reset(self, key: Array, scale) -> State:
        k_graph, k_weight, k_modulus = jax.random.split(key, 3)
        n = scale["n"]
        m = jnp.clip(n * scale["tenths"] // 10, n, n * (n - 1) // 2)
        u, v, present = connected(k_graph, N, M, n, m)
        weight = jax.random.randint(k_weight, (M,), 1, scale["weights"] + 1, jnp.int32)
        modulus = jax.random.randint(k_modulus, (), MODULI[0], MODULI[1] + 1, jnp.int32)
        return State(u, v, jnp.where(present, weight, 0), n, m, modulus)

    def step(self, key: Array, state: State, action: Array):
        valid = (action[0] >= 0) & (action[0] < state.modulus)
        return state, outcome(action[0] == self.solve(state)[0], valid, valid)

    def solve(self, state: State) -> Array:
        present = np.arange(M) < state.m
        count = count_minimum_spanning_trees(state.u, state.v, state.weight, present, N, CLASSES)
        return (count % state.modulus)[None]

    def layout(self, state: State):
        """Node centres f32[n, 2], edge ends and label centres f32[m, 2] in pixels, both masks, and sizes.

        As long as the largest level on offer: low resolutions offer few levels and are painted faster.
        """
        nodes = max(high for _, high in self.levels["n"])
        edges = min(nodes * max(high for _, high in self.levels["tenths"]) // 10, nodes * (nodes - 1) // 2)
        size, scale = self.resolution, max(1, self.resolution // 256)
        radius = (8.0 if nodes > 10 else 6.0) * scale
        half = np.asarray([4.5, 3.5], np.float32) * scale
        node, edge = np.arange(nodes) < state.n, np.arange(edges) < state.m
        centres = (size - 1) / 2 + ((size - 1) / 2 - radius - 1) * ring(state.n, N)[:nodes]
        p, q = centres[state.u[:edges]], centres[state.v[:edges]]
        discs = jnp.where(node[:, None], centres, -1e6)
        return (
            centres,
            p,
            q,
            label_places(p, q, edge, discs, radius + 1, half),
            node,
            edge,
            radius,
            half,
            scale,
        )

    def render(self, state: State) -> Array:
        centres, p, q, places, node, edge, radius, half, scale = self.layout(state)
        size, count = self.resolution, len(p)
        names = planes.digits(np.arange(len(centres), dtype=np.int32), 2)
        written = jnp.concatenate([places, centres])
        codes = jnp.concatenate(
            [jnp.pad(state.weight[:count, None], ((0, 0), (1, 0)), constant_values=-1), names]
        )
        return planes.paint(
            [
                (planes.segments(size, p, q, 1.5 * scale, edge), (130, 138, 150)),
                (planes.boxes(size, places - half[None], places + half[None], edge), (255, 255, 255)),
                (planes.discs(size, centres, radius, node), (40, 90, 150)),
                (planes.discs(size, centres, radius - scale, node), (205, 228, 250)),
                (planes.labels(size, written, codes, scale, jnp.concatenate([edge, node])), (15, 20, 30)),
            ],
            (255, 255, 255),
        )

    def text_question(self, state: State) -> Array:
        modulus = text.num(state.modulus, 4)
        return text.join(text.lit(self.question + " Give the count modulo "), modulus, text.lit("."))

    def text_obs(self, state: State) -> Array:
        edge = text.join(
            text.num(state.u, 2),
            text.lit("-"),
            text.num(state.v, 2),
            text.lit(" weight "),
            text.num(state.weight, 1),
        )
        edges = text.items(edge, np.arange(M) < state.m, "\n")
        return text.join(text.lit("nodes 0 to "), text.num(state.n - 1, 2), text.lit("\n"), edges)

    def text_state(self, state: State) -> Array:
        of_class = [text.num((state.weight == k).sum(dtype=jnp.int32), 2) for k in range(1, CLASSES + 1)]
        parts = [text.join(text.lit(f", weight {k}: "), x) for k, x in enumerate(of_class, 1)]
        return text.join(
            text.num(state.n, 2), text.lit(" nodes, "), text.num(state.m, 2), text.lit(" edges"), *parts,
            text.lit(", modulus "), text.num(state.modulus, 4),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Go through the weights from the lightest, joining nodes as you go. Edges of equal weight leave "
            "a choice where they close a cycle; the choices of different weights multiply."
        )


ENV = MinimumSpanningTreeCounting()
