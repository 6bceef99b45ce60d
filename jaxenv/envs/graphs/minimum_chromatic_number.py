"""Colour the vertices of a graph properly with as few colours as possible."""

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import planes, text
from jaxenv.codec import BLANK, Grid
from jaxenv.core import Env, outcome
from jaxenv.gen.colourings import colourable
from jaxenv.gen.graphs import ring

N, M = 14, 54
FIRST, SECOND = (x.astype(np.int32) for x in np.triu_indices(N, 1))  # all pairs of vertices


@struct.dataclass
class State:
    u: Array  # i32[M] edges u - v with u < v, the first m of them
    v: Array  # i32[M]
    colour: Array  # i32[N] a colouring with the fewest colours, 0 or more; -1 beyond n. Never shown
    n: Array  # i32[] vertices
    m: Array  # i32[] edges


class MinimumChromaticNumber(Env[State]):
    """Gym-V's task: the whole colouring is asked for, not only the number of its colours.

    Any proper colouring with the fewest colours is right, whatever they are called; upstream paid something
    for more colours, even for all different ones. The number needed is drawn first, with a subgraph that
    proves it, and is never 1 (upstream has graphs without edges); it may exceed the largest clique. Where that
    subgraph or the colouring does not fit the density, there are a few edges more or less.
    """

    category = "graphs"
    source = ("Gym-V Graphs/MinimumChromaticNumber-v0", "RLVE minimum_chromatic_number")
    question = (
        "Colour the vertices of the graph in the picture so that any two vertices joined by an edge have "
        "different colours, with as few different colours as possible. Colours are whole numbers from 0 to 13."
    )
    rules = (
        "Edges are straight lines between two vertices; lines may cross. The answer names one colour for every "
        "vertex, in the order of their numbers. Which numbers stand for the colours does not matter. Only a "
        "colouring with the fewest possible colours earns the reward. The episode ends with your answer."
    )
    answer = Grid(1, N, 0, N - 1, "the colours of vertex 0, 1, 2 and so on in one line", "0 1 0 2")
    levels = {
        "n": ((4, 6), (7, 8), (8, 10), (10, 12), (12, 14)),
        "density": ((40, 60), (50, 60), (50, 60), (50, 60), (55, 60)),  # edges per hundred pairs
        "colours": ((2, 3), (3, 4), (3, 5), (4, 5), (4, 6)),
    }
    eval_level = 4  # contains max_n=14, edge_density=0.6
    min_resolution = (64, 80, 112, 144, 176)

    def reset(self, key: Array, scale) -> State:
        n = scale["n"]
        m = scale["density"] * n * (n - 1) // 200
        joined, colour = colourable(key, N, n, m, scale["colours"])
        chosen = joined[FIRST, SECOND]
        place = jnp.where(chosen, jnp.cumsum(chosen.astype(jnp.int32)) - 1, M)
        u, v = (jnp.zeros(M, jnp.int32).at[place].set(x, mode="drop") for x in (FIRST, SECOND))
        return State(u, v, colour, n, chosen.sum(dtype=jnp.int32))

    def step(self, key: Array, state: State, action: Array):
        vertex = np.arange(N) < state.n
        valid = jnp.all(jnp.where(vertex, (action >= 0) & (action < N), action == BLANK))
        proper = jnp.all((action[state.u] != action[state.v]) | (np.arange(M) >= state.m))
        fewest = _count(action) == _count(state.colour)
        return state, outcome(valid & proper & fewest, True, valid)

    def solve(self, state: State) -> Array:
        return state.colour

    def render(self, state: State) -> Array:
        size, scale = self.resolution, max(1, self.resolution // 128)
        most = self.levels["n"][-1][1]
        radius = (8.0 if most > 10 else 6.0) * scale
        vertex = np.arange(most, dtype=np.int32)
        centre = (size - 1) / 2 + ((size - 1) / 2 - radius - 1) * ring(state.n, N)[:most]
        edges = most * (most - 1) // 2 * self.levels["density"][-1][1] // 100
        lines = planes.segments(
            size, centre[state.u[:edges]], centre[state.v[:edges]], 1.25 * scale, np.arange(edges) < state.m
        )
        present = vertex < state.n
        return planes.paint(
            [
                (lines, (96, 112, 140)),
                (planes.discs(size, centre, radius, present), (40, 90, 150)),
                (planes.discs(size, centre, radius - scale, present), (205, 228, 250)),
                (planes.labels(size, centre, planes.digits(vertex, 2), scale, present), (15, 20, 30)),
            ],
            (255, 255, 255),
        )

    def text_obs(self, state: State) -> Array:
        edge = text.join(text.num(state.u, 2), text.lit("-"), text.num(state.v, 2))
        return text.join(
            text.lit("vertices 0 to "), text.num(state.n - 1, 2), text.lit("\nedges: "),
            text.items(edge, np.arange(M) < state.m),
        )  # fmt: skip

    def text_state(self, state: State) -> Array:
        present = (np.arange(M) < state.m)[:, None]
        ends = (_is(state.u, N) | _is(state.v, N)) & present
        degree = ends.sum(axis=0, dtype=jnp.int32)
        return text.join(
            text.num(state.n, 2), text.lit(" vertices, "), text.num(state.m, 2),
            text.lit(" edges; neighbours of each vertex in order: "),
            text.items(text.num(degree, 2), np.arange(N) < state.n, " "),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Look for the largest set of vertices that are all joined to each other: it needs a colour for "
            "each. Then colour the vertex with the fewest colours left, again and again. An odd cycle needs "
            "three colours."
        )


def _is(values: Array, size: int) -> Array:
    """bool[K, size]: which number below `size` each of i32[K] is."""
    return values[:, None] == np.arange(size, dtype=np.int32)[None, :]


def _count(colour: Array) -> Array:
    """i32[]: different colours among i32[N]; absent places, below 0, do not count."""
    return _is(colour, N).any(axis=0).sum(dtype=jnp.int32)


ENV = MinimumChromaticNumber()
