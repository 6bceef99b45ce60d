"""Minimum chromatic number: every colouring by enumeration, backtracking, other names, near misses."""

import re
from collections import Counter
from functools import cache
from itertools import combinations

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy import ndimage

from jaxenv import codec, episode, make
from jaxenv.envs.graphs.minimum_chromatic_number import M, N, State

KEYS = 1000
ENV = make("minimum_chromatic_number", 176)
LEVELS = range(ENV.num_levels)
ADVANCE = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))


@jax.jit
@jax.vmap
def _sample(key, level):
    state = ENV.init(key, level)
    action = ENV.solve(state)
    end = episode.advance(ENV, key, episode.begin(ENV, state), action)
    return state, action, end.ret, ENV.text_obs(state), ENV.text_state(state)


@cache
def sample(level):
    """KEYS instances: states, answers and what they earn, observations, facts."""
    keys = jax.random.split(jax.random.key(level), KEYS)
    return jax.tree.map(np.asarray, _sample(keys, jnp.full(KEYS, level)))


def decode(row) -> str:
    return bytes(b for b in row if b).decode()


def edges_of(state, i):
    return list(zip(state.u[i, : state.m[i]].tolist(), state.v[i, : state.m[i]].tolist()))


def colouring(n, edges, colours):
    """A proper colouring with at most so many colours by backtracking, or None."""
    near = [[] for _ in range(n)]
    for u, v in edges:
        near[u].append(v)
        near[v].append(u)
    order = sorted(range(n), key=lambda v: -len(near[v]))
    found = {}

    def extend(k):
        if k == n:
            return True
        vertex = order[k]
        used = max(found.values(), default=-1) + 1
        for colour in range(min(used + 1, colours)):  # a new colour only once: names do not matter
            if all(found.get(w) != colour for w in near[vertex]):
                found[vertex] = colour
                if extend(k + 1):
                    return True
                del found[vertex]
        return False

    return [found[v] for v in range(n)] if extend(0) else None


def fewest(n, edges):
    return next(k for k in range(1, n + 1) if colouring(n, edges, k))


def state(n, edges, colour):
    ends = np.zeros((2, M), np.int32)
    ends[:, : len(edges)] = np.asarray([sorted(e) for e in edges]).T
    padded = np.asarray(list(colour) + [-1] * (N - n), np.int32)
    return State(*jnp.asarray(ends), jnp.asarray(padded), jnp.int32(n), jnp.int32(len(edges)))


def padded(colours):
    return np.asarray([list(c) + [-1] * (N - len(c)) for c in colours], np.int32)


def earned(s, colours):
    """Return and validity of several answers to one state."""
    end = ADVANCE(jax.tree.map(lambda x: jnp.stack([x] * len(colours)), s), padded(colours))
    return np.asarray(end.ret).tolist(), np.asarray(end.valid).tolist()


def partitions(n):
    """All ways to colour n vertices, up to names: the first vertex of a colour takes the next number."""
    ways = [[]]
    for _ in range(n):
        ways = [[*w, c] for w in ways for c in range(max(w, default=-1) + 2)]
    return ways


@pytest.mark.parametrize("level", LEVELS)
def test_the_number_of_colours_is_the_least(level):
    """Backtracking over 250 instances of each level, fewer of the largest."""
    states, action, ret, *_ = sample(level)
    assert (ret == 1).all()
    low, high = ENV.levels["colours"][level]
    for i in range(250 if level < 3 else 80):
        n, edges = int(states.n[i]), edges_of(states, i)
        colours = action[i, :n]
        assert fewest(n, edges) == len(set(colours.tolist()))
        assert low <= len(set(colours.tolist())) <= high
        assert all(colours[u] != colours[v] for u, v in edges) and (action[i, n:] == -1).all()


def test_all_best_colourings_and_no_others_are_right():
    """Every way to colour 40 graphs of four to six vertices."""
    states, *_ = sample(0)
    for i in range(40):
        n, edges = int(states.n[i]), edges_of(states, i)
        ways = partitions(n)
        proper = [all(w[u] != w[v] for u, v in edges) for w in ways]
        least = min(len(set(w)) for w, p in zip(ways, proper) if p)
        fill = ways + [ways[0]] * (203 - len(ways))  # one shape for all sizes
        ret, valid = earned(jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), states), fill)
        assert ret[: len(ways)] == [float(p and len(set(w)) == least) for w, p in zip(ways, proper)]
        assert all(valid)


@pytest.mark.parametrize("level", LEVELS)
def test_the_observation_alone_gives_the_answer(level):
    """A colouring found by backtracking on the written edges earns 1; facts agree with networkx."""
    states, _, _, observation, facts = sample(level)
    count = 60
    answers = []
    for i in range(count):
        shown = decode(observation[i])
        n = int(re.search(r"vertices 0 to (\d+)", shown)[1]) + 1
        edges = [tuple(map(int, e)) for e in re.findall(r"(\d+)-(\d+)", shown)]
        answers.append(colouring(n, edges, fewest(n, edges)))
        graph = nx.Graph(edges)
        graph.add_nodes_from(range(n))
        degrees = " ".join(str(graph.degree(v)) for v in range(n))
        expected = f"{n} vertices, {len(edges)} edges; neighbours of each vertex in order: {degrees}"
        assert decode(facts[i]) == expected
    end = ADVANCE(jax.tree.map(lambda x: jnp.asarray(x[:count]), states), padded(answers))
    assert (np.asarray(end.ret) == 1).all()


CYCLE = state(5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], [0, 1, 0, 1, 2])
WHEEL = state(6, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)] + [(k, 5) for k in range(5)], [0, 1, 0, 1, 2, 3])
PRISM = state(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5)], [0, 1, 2, 1, 2, 0])


@pytest.mark.parametrize(
    ("s", "right", "wrong"),
    (
        (CYCLE, [[0, 1, 0, 1, 2], [2, 0, 1, 0, 1], [13, 7, 13, 7, 0]], [[0, 1, 0, 1, 0], [0, 1, 2, 3, 1], [0, 1, 2, 3, 4]]),
        (WHEEL, [[0, 1, 0, 1, 2, 3], [5, 4, 3, 5, 4, 0]], [[0, 1, 0, 1, 2, 2], [0, 1, 2, 3, 1, 4], [0, 1, 2, 3, 4, 5]]),
        (PRISM, [[0, 1, 2, 1, 2, 0], [2, 1, 0, 0, 2, 1]], [[0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 2, 3]]),
    ),
)  # fmt: skip
def test_hand_set(s, right, wrong):
    """An odd cycle needs three, an odd wheel four, a prism three; names do not matter."""
    ret, valid = earned(s, right + wrong)
    assert ret == [1.0] * len(right) + [0.0] * len(wrong) and all(valid)
    reply = "<answer>" + " ".join(map(str, right[0])) + "</answer>"
    assert codec.read(ENV.answer, reply)[: int(s.n)].tolist() == right[0]


def test_the_number_alone_or_malformed_answers_are_invalid():
    """The paper's description asks for the number of colours; the colouring is what counts."""
    bad = [[3], [0, 1, 0, 1], [0, 1, 0, 1, 2, 0], [0, 1, -1, 1, 2]]
    ret, valid = earned(CYCLE, bad)
    assert ret == [0.0] * len(bad) and not any(valid)
    for reply in ("0 1 0 1 14", "red blue red blue green", "0 1\n0 1 2", "-1 0 1 0 1"):
        assert codec.read(ENV.answer, f"<answer>{reply}</answer>")[0] == codec.UNREADABLE


@pytest.mark.parametrize("level", LEVELS)
def test_balance_diversity_and_parameters(level):
    """No constant answer, no all-different one and no greedy one is right often; no graph lacks edges."""
    states, action, *_ = sample(level)
    (low, high), (sparse, dense) = ENV.levels["n"][level], ENV.levels["density"][level]
    n, m = states.n, states.m
    assert set(n) == set(range(low, high + 1))
    share = 100 * m / (n * (n - 1) / 2)
    # The core may force some edges more, the colours some fewer, and the count is rounded down.
    assert (share > sparse - 100 / (low * (low - 1) / 2)).mean() > 0.93 and np.median(share) <= dense
    assert (m > 0).all() and (m <= M).all()
    least = np.asarray([len(set(a[a >= 0].tolist())) for a in action])
    kinds = np.bincount(least, minlength=8) / KEYS
    for colours in range(ENV.levels["colours"][level][0], ENV.levels["colours"][level][1] + 1):
        assert kinds[colours] > 0.2
    if level == 0:
        candidates = [w for k in range(low, high + 1) for w in partitions(k)]
    else:
        candidates = [list(range(k)) for k in range(low, high + 1)]
        candidates += [a[a >= 0].tolist() for a in action[:10]]
    for answer in candidates:
        rows = n == len(answer)
        end = ADVANCE(states, np.repeat(padded([answer]), KEYS, axis=0))
        assert np.asarray(end.ret).mean() <= 0.55 and np.asarray(end.ret)[rows].mean() <= 0.55
    ends = np.concatenate([states.u, states.v, n[:, None]], axis=1)
    assert len({e.tobytes() for e in ends}) >= (400 if level == 0 else 990)


def test_levels_are_monotone_and_contain_the_papers_setting():
    sizes = [(sample(level)[0].n.mean(), sample(level)[0].m.mean()) for level in LEVELS]
    assert sizes == sorted(sizes) and len(sizes) >= 4
    assert ENV.levels["n"][ENV.eval_level][1] == 14 and ENV.levels["density"][ENV.eval_level][1] == 60


def test_cliques_do_not_always_tell_the_number():
    """Some graphs need more colours than their largest clique has vertices."""
    states, action, *_ = sample(4)
    more = 0
    for i in range(150):
        largest = max(map(len, nx.find_cliques(nx.Graph(edges_of(states, i)))))
        more += len(set(action[i][action[i] >= 0].tolist())) > largest
    assert 30 <= more <= 100


@pytest.mark.parametrize("level", (0, 2, 4))
def test_discs_and_edges_keep_apart_at_the_smallest_picture(level):
    """Discs do not touch, no edge passes under a disc that is not its end, and all lie inside."""
    size = ENV.min_resolution[level]
    env = make(ENV.id, size)
    picture = jax.jit(env.render)
    for n in range(*np.add(ENV.levels["n"][level], (0, 1))):
        every = list(combinations(range(n), 2))[:M]
        empty, full = (np.asarray(picture(state(n, e, range(n)))).astype(int) for e in ([(0, 1)], every))
        fill = lambda p: (p == np.asarray((205, 228, 250))).all(-1)  # noqa: E731
        np.testing.assert_array_equal(fill(empty), fill(full))
        ink = fill(empty)
        for colour in ((40, 90, 150), (15, 20, 30)):
            ink |= (empty == np.asarray(colour)).all(-1)
        assert ndimage.label(ink, np.ones((3, 3)))[1] == n
        assert not ink[[0, -1]].any() and not ink[:, [0, -1]].any()


def test_equal_vertices_look_equal():
    """Nothing in the picture depends on the stored colouring."""
    render = jax.jit(ENV.render)
    other = CYCLE.replace(colour=jnp.asarray([1, 0, 1, 2, 0] + [-1] * (N - 5), jnp.int32))
    np.testing.assert_array_equal(render(CYCLE), render(other))
    assert Counter(np.asarray(render(CYCLE)).reshape(-1, 3).sum(1).tolist()).most_common(1)[0][0] == 765
