"""Tree even partitioning: all cuts by enumeration, networkx, orders of writing, near misses, the drawing."""

import re
from collections import Counter
from functools import cache
from itertools import combinations

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from jaxenv import codec, episode, make
from jaxenv.envs.graphs.tree_even_partitioning import GROUP, GROUPS, SIDE, State
from jaxenv.gen.lattice import hamiltonian_path
from jaxenv.lattices import PAPER

KEYS = 1000
ENV = make("tree_even_partitioning", 192)
LEVELS = range(ENV.num_levels)
SOLVE = jax.jit(ENV.solve)
ADVANCE = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))


@jax.jit
@jax.vmap
def _sample(key, level):
    state = ENV.init(key, level)
    action = ENV.solve(state)
    end = episode.advance(ENV, key, episode.begin(ENV, state), action)
    return state, action, end.ret, ENV.text_question(state), ENV.text_obs(state), ENV.text_state(state)


@cache
def sample(level):
    """KEYS instances: states, answers and what they earn, questions, observations, facts."""
    keys = jax.random.split(jax.random.key(level), KEYS)
    return jax.tree.map(np.asarray, _sample(keys, jnp.full(KEYS, level)))


def decode(row) -> str:
    return bytes(b for b in row if b).decode()


def edges_of(state, i):
    label, parent = state.label[i], state.parent[i]
    return [(int(label[v]), int(label[parent[v]])) for v in range(SIDE**2) if parent[v] >= 0]


def split(edges, size):
    """The groups: components after cutting every edge with a multiple of `size` vertices on either side."""
    graph = nx.Graph(edges)
    for edge in list(graph.edges):
        graph.remove_edge(*edge)
        part = len(nx.node_connected_component(graph, edge[0]))
        graph.add_edge(*edge, cut=part % size == 0)
    graph.remove_edges_from([(u, v) for u, v, cut in graph.edges(data="cut") if cut])
    return {frozenset(c) for c in nx.connected_components(graph)}


def groups_of(action):
    rows = np.asarray(action).reshape(GROUPS, GROUP)
    return [[int(v) for v in row if v >= 0] for row in rows if (row >= 0).any()]


def action_of(groups):
    out = np.full((GROUPS, GROUP), codec.BLANK, np.int32)
    for row, group in zip(out, groups):
        row[: len(group)] = group
    return out.reshape(-1)


def earned(state, answers):
    """Return and validity of several answers (lists of groups) to one state."""
    end = ADVANCE(
        jax.tree.map(lambda x: jnp.stack([x] * len(answers)), state),
        np.stack([action_of(groups) for groups in answers]),
    )
    return np.asarray(end.ret).tolist(), np.asarray(end.valid).tolist()


def lattice(rows, edges, n, k):
    """A state from rows of labels (0 = none) and edges between labels, the first the farther from the root."""
    label = np.zeros((SIDE, SIDE), np.int32)
    for r, row in enumerate(rows):
        label[r, : len(row)] = row
    at = {int(v): i for i, v in enumerate(label.reshape(-1)) if v}
    parent = np.full(SIDE**2, -1, np.int32)
    for child, above in edges:
        parent[at[child]] = at[above]
    return State(
        jnp.asarray(label.reshape(-1)), jnp.asarray(parent), jnp.int32(len(rows)), jnp.int32(n), jnp.int32(k)
    )


@pytest.mark.parametrize("level", (0, 1))
def test_the_split_is_the_only_one(level):
    """Every choice of n - 1 edges to cut, on 200 instances: one leaves groups of k, and `solve` writes it."""
    state, action, *_ = sample(level)
    for i in range(200):
        n, k, edges = int(state.n[i]), int(state.k[i]), edges_of(state, i)
        found = []
        for cut in combinations(edges, n - 1):
            graph = nx.Graph(edges)
            graph.remove_edges_from(cut)
            parts = {frozenset(c) for c in nx.connected_components(graph)}
            if {len(p) for p in parts} == {k}:
                found.append(parts)
        assert len(found) == 1 and found[0] == {frozenset(g) for g in groups_of(action[i])}


@pytest.mark.parametrize("level", LEVELS)
def test_the_texts_alone_give_the_answer(level):
    """Groups from the written edges and the question's numbers, by networkx; facts agree."""
    _, action, ret, question, observation, facts = sample(level)
    assert (ret == 1).all()
    for i in range(60):
        n, k = map(
            int,
            re.search(r"into (\d+) connected groups of exactly (\d+) vertices", decode(question[i])).groups(),
        )
        edges = [tuple(map(int, e)) for e in re.findall(r"(\d+)-(\d+)", decode(observation[i]))]
        graph = nx.Graph(edges)
        assert nx.is_tree(graph) and sorted(graph) == list(range(1, n * k + 1))
        groups = split(edges, k)
        assert groups == {frozenset(g) for g in groups_of(action[i])} and len(groups) == n
        count, leaves = re.fullmatch(r"(\d+) vertices, leaves (.*)", decode(facts[i])).groups()
        assert int(count) == n * k
        assert {int(v) for v in leaves.split(", ")} == {v for v in graph if graph.degree(v) == 1}


# A path 2 1 4 5 3 6 with one slanting edge; the third row is empty.
SMALL = lattice([(1, 2, 3), (4, 5, 6), (0, 0, 0)], [(2, 1), (1, 4), (5, 4), (3, 5), (6, 3)], 2, 3)
# Vertex 3 with the neighbour 2 and three arms of two.
STAR = lattice(
    [(7, 1, 8), (2, 3, 4), (5, 6, 0)], [(7, 1), (1, 3), (8, 4), (4, 3), (5, 6), (6, 3), (2, 3)], 4, 2
)


@pytest.mark.parametrize(
    ("state", "groups"), ((SMALL, [[1, 2, 4], [3, 5, 6]]), (STAR, [[1, 7], [4, 8], [5, 6], [2, 3]]))
)
def test_hand_set(state, groups):
    assert {frozenset(g) for g in groups_of(SOLVE(state))} == {frozenset(g) for g in groups}
    # Groups and the vertices of a group in any order, as text too.
    turned = [g[::-1] for g in groups[::-1]]
    assert earned(state, [groups, turned, groups[1:] + groups[:1]]) == ([1.0] * 3, [True] * 3)
    reply = "<answer>" + "\n".join(" ".join(map(str, g)) for g in turned) + "</answer>"
    assert earned(state, [groups_of(codec.read(ENV.answer, reply))])[0] == [1.0]
    # Two vertices of different groups exchanged: covers everything, not connected.
    swapped = [list(g) for g in groups]
    swapped[0][0], swapped[1][0] = swapped[1][0], swapped[0][0]
    assert earned(state, [swapped]) == ([0.0], [True])


def test_malformed_answers_are_invalid():
    """Upstream paid for covers with some connected groups; the rest was 0 there too."""
    bad = [
        [[1, 2, 4]],  # a group is missing
        [[1, 2], [4, 5], [3, 6]],  # other sizes
        [[1, 2, 4, 5], [3, 6]],
        [[1, 2, 4], [3, 5, 5]],  # a vertex twice
        [[1, 2, 4], [3, 5, 7]],  # no such vertex
        [[1, 2, 4], [3, 5]],
        [[1, 2, 4], [3, 5, 6], [1]],
    ]
    rewards, valid = earned(SMALL, bad)
    assert rewards == [0.0] * len(bad) and not any(valid)
    assert earned(SMALL, [[[1, 2, 3], [4, 5, 6]]]) == ([0.0], [True])  # no partial reward
    for reply in ("1 2 4 / 3 5 6", "1 2 61\n3 4 5", "1 2 3 4 5 6 7"):
        assert codec.read(ENV.answer, f"<answer>{reply}</answer>")[0] == codec.UNREADABLE


@pytest.mark.parametrize("level", LEVELS)
def test_balance_diversity_and_parameters(level):
    state, action, *_ = sample(level)
    (low_n, high_n), (low_k, high_k) = ENV.levels["n"][level], ENV.levels["k"][level]
    assert set(state.n) == set(range(low_n, high_n + 1)) and set(state.k) == set(range(low_k, high_k + 1))
    assert ((state.label > 0).sum(axis=1) == state.n * state.k).all()
    written = Counter(frozenset(map(frozenset, groups_of(a))) for a in action)
    assert written.most_common(1)[0][1] <= (250 if level == 0 else 30)
    distinct = len({a.tobytes() + b.tobytes() for a, b in zip(state.label, state.parent)})
    assert distinct >= (400 if level == 0 else 990)
    degrees = Counter(d for i in range(100) for _, d in nx.Graph(edges_of(state, i)).degree())
    assert level < 2 or max(degrees) >= 5  # not only paths
    # Neighbours in the picture, edge or none, have labels that tell nothing about each other.
    if level == 5:
        near = [abs(u - v) for i in range(100) for u, v in edges_of(state, i)]
        assert 15 < np.mean(near) < 25  # a third of 60 on average if random, less with fewer vertices


def test_levels_are_monotone_and_contain_the_papers_setting():
    sizes = [(sample(level)[0].n * sample(level)[0].k).mean() for level in LEVELS]
    assert sizes == sorted(sizes) and len(sizes) >= 4
    assert ENV.levels["n"][ENV.eval_level][1] == 10 and ENV.levels["k"][ENV.eval_level][1] == 6


def test_paths_are_hamiltonian_and_forget_their_start():
    size = 5
    run = jax.jit(jax.vmap(lambda k: hamiltonian_path(k, 6, jnp.int32(size), 108)))
    place = np.asarray(run(jax.random.split(jax.random.key(0), 400))).reshape(-1, 6, 6)
    assert (place[:, size:] == -1).all() and (place[:, :, size:] == -1).all()
    at = np.argsort(place[:, :size, :size].reshape(400, -1), axis=1)
    row, col = at // size, at % size
    assert (abs(np.diff(row, axis=1)) + abs(np.diff(col, axis=1)) == 1).all()
    assert len({p.tobytes() for p in place}) > 370
    ends = Counter(at[:, 0].tolist())  # on 5 x 5 an end has the colour of the corners: 13 cells
    assert len(ends) == 13 and max(ends.values()) < 0.25 * 400


def test_the_picture_shows_the_tree_and_nothing_else():
    """The same tree asks for 2 groups of 3 or 3 groups of 2 with one picture: no colour tells groups apart."""
    render = jax.jit(ENV.render)
    picture = np.asarray(render(SMALL))
    np.testing.assert_array_equal(picture, render(SMALL.replace(n=jnp.int32(3), k=jnp.int32(2))))
    side = 48  # three cells of 24 px at 192 px fill three of 64 px: tiles of 16 px
    cell = lambda r, c: picture[24 + r * side : 24 + (r + 1) * side, 24 + c * side : 24 + (c + 1) * side]  # noqa: E731
    ring = lambda r, c: cell(r, c)[8:13, 8:13]  # noqa: E731  (upper left of the disc, where no edge leaves 1, 3, 6)
    np.testing.assert_array_equal(ring(0, 0), ring(0, 1))
    np.testing.assert_array_equal(ring(0, 0), ring(1, 2))
    assert (cell(2, 1) == np.asarray(PAPER)).all()


@pytest.mark.parametrize("level", (0, 3, 5))
def test_every_edge_is_drawn_at_the_smallest_picture(level):
    """Half way between neighbours the picture is paper unless an edge joins them (exactly there, no disc lies)."""
    size = ENV.min_resolution[level]
    env = make(ENV.id, size)
    state = jax.tree.map(lambda x: x[:40], sample(level)[0])
    pictures = np.asarray(jax.jit(jax.vmap(env.render))(state))
    for i in range(40):
        side = int(state.side[i])
        pitch = size // (3 * side) // 8 * 8 * 3
        margin = (size - pitch * side) // 2 // 8 * 8
        edges = {frozenset(e) for e in edges_of(state, i)}
        label = state.label[i].reshape(SIDE, SIDE)
        for r, c in np.ndindex(side, side):
            for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
                if not (r + dr < side and 0 <= c + dc < side and label[r, c] and label[r + dr, c + dc]):
                    continue
                y, x = (margin + int((z + 0.5 + d / 2) * pitch) for z, d in ((r, dr), (c, dc)))
                across = picture_around(pictures[i], y, x)
                if dr and dc:  # the other diagonal of the block may pass
                    other = frozenset((int(label[r, c + dc]), int(label[r + dr, c])))
                    assert not {other, frozenset((int(label[r, c]), int(label[r + dr, c + dc])))} <= edges
                    if other in edges:
                        continue
                joined = frozenset((int(label[r, c]), int(label[r + dr, c + dc]))) in edges
                assert across == joined


def picture_around(picture, y, x):
    """Whether anything is painted in the 2 x 2 pixels whose corner is (y, x)."""
    return bool((picture[y - 1 : y + 1, x - 1 : x + 1] != np.asarray(PAPER)).any())
