"""minimum_spanning_tree_counting against enumeration and Kirchhoff's theorem, hand-set graphs, labels."""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from jaxenv import harness, make, text
from jaxenv.envs.graphs.minimum_spanning_tree_counting import MODULI, M, State
from jaxenv.solve.spanning import LIMIT, PRIMES, _determinants, count_minimum_spanning_trees

KEYS = 1000
ENV = make("minimum_spanning_tree_counting", 256)
SOLVE, STEP = jax.jit(ENV.solve), jax.jit(ENV.step)


@cache
def sample():
    """States and answers, [levels, KEYS]."""
    run = jax.jit(jax.vmap(lambda k, level: (lambda s: (s, ENV.solve(s)[0]))(ENV.init(k, level))))
    keys = jax.random.split(jax.random.key(1), KEYS)
    return [jax.tree.map(np.asarray, run(keys, jnp.full(KEYS, level))) for level in range(ENV.num_levels)]


def edges_of(states, k):
    m = states.m[k]
    return [tuple(map(int, e)) for e in zip(states.u[k, :m], states.v[k, :m], states.weight[k, :m])]


def state(n, edges, modulus=1000):
    columns = np.zeros((3, M), np.int32)
    columns[:, : len(edges)] = np.asarray(edges).T
    u, v, weight = jnp.asarray(columns)
    return State(u, v, weight, jnp.int32(n), jnp.int32(len(edges)), jnp.int32(modulus))


def by_enumeration(n, edges) -> int:
    costs = Counter()
    for chosen in combinations(edges, n - 1):
        graph = nx.Graph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from(e[:2] for e in chosen)
        if nx.is_connected(graph):
            costs[sum(e[2] for e in chosen)] += 1
    return costs[min(costs)]


def determinant(rows) -> int:
    rows, result = [[Fraction(int(x)) for x in row] for row in rows], Fraction(1)
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            rows[k], rows[pivot], result = rows[pivot], rows[k], -result
        result *= rows[k][k]
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k])]
    return int(result)


def by_kirchhoff(n, edges) -> int:
    """Contract weight by weight, exact integers."""
    head, count = list(range(n)), 1
    for weight in sorted({e[2] for e in edges}):
        graph = nx.MultiGraph((head[u], head[v]) for u, v, w in edges if w == weight and head[u] != head[v])
        for part in nx.connected_components(graph):
            part = sorted(part)
            laplacian = np.zeros((len(part), len(part)), int)
            for u, v in graph.subgraph(part).edges():
                i, j = part.index(u), part.index(v)
                laplacian[i, i] += 1
                laplacian[j, j] += 1
                laplacian[i, j] -= 1
                laplacian[j, i] -= 1
            count *= determinant(laplacian[1:, 1:])
            head = [part[0] if h in part else h for h in head]
    return count


@pytest.mark.parametrize(("level", "count"), ((0, 250), (1, 120)))
def test_against_enumeration(level, count):
    states, answers = sample()[level]
    for k in range(count):
        n, edges = int(states.n[k]), edges_of(states, k)
        assert by_enumeration(n, edges) % states.modulus[k] == answers[k]


@pytest.mark.parametrize("level", range(7))
def test_against_kirchhoff(level):
    states, answers = sample()[level]
    for k in range(60):
        n, edges = int(states.n[k]), edges_of(states, k)
        assert by_kirchhoff(n, edges) % states.modulus[k] == answers[k]


@pytest.mark.parametrize(
    ("n", "edges", "modulus", "answer"),
    (
        (4, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 3, 1)], 1000, 4),  # a cycle of equal weights
        (4, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 3, 2)], 1000, 1),  # its heaviest edge is alone
        (4, [(a, b, 1) for a, b in combinations(range(4), 2)], 1000, 16),  # Cayley: 4^2
        (6, [(a, b, 2) for a, b in combinations(range(6), 2)], 1000, 296),  # 6^4 = 1296, reduced
        (5, [(0, 1, 1), (0, 2, 1), (1, 2, 1), (1, 3, 2), (2, 3, 2), (0, 4, 3), (3, 4, 3)], 1000, 3 * 2 * 2),
    ),
)
def test_hand_set(n, edges, modulus, answer):
    s = state(n, edges, modulus)
    assert int(SOLVE(s)[0]) == answer
    for value, reward in ((answer, 1.0), (answer + 1, 0.0), (answer + modulus, 0.0), (-1, 0.0)):
        _, out = STEP(jax.random.key(0), s, jnp.asarray([value]))
        assert float(out.reward) == reward
        assert bool(out.valid) == (0 <= value < modulus)


def test_counts_are_exact_up_to_the_limit():
    """The densest level cannot exceed it, and a complete graph on 9 nodes (9^7) comes out right."""
    n, m = 14, M
    assert (2 * m / (n - 1)) ** (n - 1) / n < LIMIT
    pairs = np.asarray(list(combinations(range(9), 2)), np.int32)
    ones = np.ones(len(pairs), np.int32)
    count = jax.jit(lambda u, v, w: count_minimum_spanning_trees(u, v, w, w > 0, 9, 1))(*pairs.T, ones)
    assert int(count) == 9**7 and len(set(PRIMES.tolist())) == 2


def test_determinants():
    """Modulo each prime, on matrices that need rows exchanged or are singular."""
    matrices = np.random.default_rng(0).integers(-1, 2, (60, 5, 5)).astype(np.int32)
    residues = np.asarray(jax.jit(lambda m: _determinants(m, PRIMES[:, None]))(matrices))
    exact = [determinant(m) for m in matrices]
    assert 0 in exact and (matrices[:, 0, 0] == 0).any()
    np.testing.assert_array_equal(residues, [[d % int(p) for d in exact] for p in PRIMES])


def test_instances():
    """Connected, simple, as many edges as asked for, more than a tree's; weights of all classes."""
    for level, (states, _) in enumerate(sample()):
        (low, high), (_, dense) = ENV.levels["n"][level], ENV.levels["tenths"][level]
        assert (states.n >= low).all() and (states.n <= high).all()
        assert (states.m >= states.n).all() and (
            states.m <= np.maximum(states.n, states.n * dense // 10)
        ).all()
        assert (states.modulus >= MODULI[0]).all() and (states.modulus <= MODULI[1]).all()
        for k in range(100):
            edges = edges_of(states, k)
            graph = nx.Graph(e[:2] for e in edges)
            assert len(graph) == states.n[k] and nx.is_connected(graph)
            assert graph.number_of_edges() == len(edges) and all(u < v for u, v, _ in edges)
        most = ENV.levels["weights"][level][1]
        shares = np.bincount(states.weight[states.weight > 0], minlength=most + 1)[1:]
        assert len(shares) == most and shares.min() > 0.8 * shares.max()
    low, high = ENV.levels["n"][ENV.eval_level]
    assert low <= 14 <= high and ENV.levels["tenths"][ENV.eval_level][1] == 25


def test_balance_and_diversity():
    for level, (states, answers) in enumerate(sample()):
        assert Counter(answers.tolist()).most_common(1)[0][1] <= 0.35 * KEYS, level
        rows = np.concatenate(
            [states.u, states.v, states.weight, states.n[:, None], states.modulus[:, None]], 1
        )
        assert len({r.tobytes() for r in rows}) >= 990


def geometry(env, s):
    """Of one instance: labels overlap, labels on nodes, least distance of labels, nodes to other edges."""
    centres, p, q, places, node, edge, radius, half, _ = env.layout(s)
    other = edge[:, None] & edge[None, :] & ~np.eye(len(p), dtype=bool)
    overlap = (jnp.abs(places[:, None] - places[None]) < 2 * half[None, None] - 0.01).all(-1) & other
    gap = jnp.maximum(jnp.abs(places[:, None] - centres[None]) - half[None, None], 0)
    on_node = ((gap**2).sum(-1) < radius**2) & edge[:, None] & node[None]

    def distance(points):
        step = (q - p)[None]
        square = jnp.maximum((step**2).sum(-1), 1.0)
        along = jnp.clip(((points[:, None] - p[None]) * step).sum(-1) / square, 0, 1)
        return jnp.linalg.norm(points[:, None] - p[None] - along[..., None] * step, axis=-1)

    to_edges = jnp.where(other, distance(places), 99.0)
    index = np.arange(len(centres))[:, None]
    ends = (index == s.u[None, : len(p)]) | (index == s.v[None, : len(p)])
    to_nodes = jnp.where(node[:, None] & edge[None] & ~ends, distance(centres), 99.0)
    return overlap.any(), on_node.any(), to_edges.min(), to_nodes.min() - radius


@pytest.mark.parametrize(
    ("levels", "resolution"), (((0,), 72), ((3,), 160), ((4,), 200), ((5,), 240), ((5, 6), 256))
)
def test_labels_keep_apart(levels, resolution):
    """Upstream's labels, all at the middle, coincide in over half of the pictures."""
    for level in levels:
        assert ENV.min_resolution[level] <= resolution
        env = make(ENV.id, resolution)
        states = jax.tree.map(lambda x: x[:250], sample()[level][0])
        overlap, on_node, to_edges, to_nodes = jax.jit(jax.vmap(lambda s, env=env: geometry(env, s)))(states)
        assert not overlap.any() and not on_node.any(), level
        assert to_edges.min() > 1.5 and to_nodes.min() > 0.5, level


def test_modulus_is_asked_for():
    """Upstream showed it only in the picture's footer."""
    s = state(4, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (0, 3, 1)], 1234)
    prompt = jax.jit(lambda s: harness.prompt(ENV, s, harness.flags(jnp.int32(4))))(s)
    shown = text.decode(prompt[None])[0]
    assert "modulo 1234." in shown
    facts = bytes(b for b in np.asarray(ENV.text_state(s)) if b).decode()
    assert facts == "4 nodes, 4 edges, weight 1: 4, weight 2: 0, weight 3: 0, weight 4: 0, modulus 1234"
    obs = bytes(b for b in np.asarray(ENV.text_obs(s)) if b).decode()
    assert obs == "nodes 0 to 3\n0-1 weight 1\n1-2 weight 1\n2-3 weight 1\n0-3 weight 1"
