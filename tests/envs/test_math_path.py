"""Math path: all simple paths by enumeration, networkx, revisits and borders, detours, greedy baselines."""

import re
from collections import Counter
from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from jaxenv import codec, episode, make
from jaxenv.envs.puzzles.math_path import LENGTH, LETTERS, N, State

KEYS = 1000
ENV = make("math_path", 48)
LEVELS = range(ENV.num_levels)
STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
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


def parse(question, observation):
    """Grid, start, goal and target from the two texts."""
    where, *rows = decode(observation).splitlines()
    start, goal = ((int(r), int(c)) for r, c in re.findall(r"\((\d), (\d)\)", where))
    grid = {(r, c): int(d) for r, row in enumerate(rows) for c, d in enumerate(row.split())}
    return grid, start, goal, int(re.search(r"add up to (\d+)\.", decode(question))[1])


@cache
def simple_paths(size, start, goal):
    """All paths between two cells as (letters, cells), by networkx."""
    graph = nx.grid_2d_graph(size, size)
    letter = {step: name for name, step in STEPS.items()}
    paths = nx.all_simple_paths(graph, start, goal)
    return [("".join(letter[b[0] - a[0], b[1] - a[1]] for a, b in pairwise(p)), p) for p in paths]


def search(grid, start, goal, target):
    """Some path with the right sum by depth-first search, as letters."""

    def go(at, seen, rest, way):
        rest -= grid[at]
        if at == goal or rest <= 0:
            return way if at == goal and rest == 0 else None
        for name, (dr, dc) in STEPS.items():
            to = at[0] + dr, at[1] + dc
            if to in grid and to not in seen:
                found = go(to, seen | {to}, rest, way + name)
                if found is not None:
                    return found
        return None

    return go(start, {start}, target, "")


def state(rows, start, goal, target):
    digit = np.ones((N, N), np.int32)
    digit[: len(rows), : len(rows)] = [[int(d) for d in row] for row in rows]
    number = lambda cell: jnp.int32(cell[0] * N + cell[1])  # noqa: E731
    way = jnp.full(LENGTH, codec.BLANK)
    return State(
        jnp.asarray(digit.reshape(-1)),
        jnp.int32(len(rows)),
        number(start),
        number(goal),
        jnp.int32(target),
        way,
    )


def padded(ways):
    return np.asarray([[LETTERS.index(x) for x in w] + [-1] * (LENGTH - len(w)) for w in ways], np.int32)


def earned(s, ways):
    """Return and validity of several paths for one state."""
    end = ADVANCE(jax.tree.map(lambda x: jnp.stack([x] * len(ways)), s), padded(ways))
    return np.asarray(end.ret).tolist(), np.asarray(end.valid).tolist()


@pytest.mark.parametrize("level", (0, 1, 2))
def test_exactly_the_paths_with_the_sum_are_right(level):
    """Every simple path of 200 instances of 3 x 3, of 40 of 4 x 4, against plain sums."""
    _, _, ret, question, observation, _ = sample(level)
    assert (ret == 1).all()
    states = sample(level)[0]
    rows, ways, wanted = [], [], []
    for i in range(200 if level < 2 else 40):
        grid, start, goal, target = parse(question[i], observation[i])
        paths = simple_paths(3 if level < 2 else 4, start, goal)
        rows += [i] * len(paths)
        ways += [w for w, _ in paths]
        wanted += [sum(grid[c] for c in p) == target for _, p in paths]
    chunk = 4096
    for k in range(0, len(rows), chunk):
        part = slice(k, k + chunk)
        fill = chunk - len(rows[part])
        index = np.asarray(rows[part] + [0] * fill)
        end = ADVANCE(
            jax.tree.map(lambda x, index=index: x[index], states), padded(ways[part] + ["U"] * fill)
        )
        ok = np.asarray(end.ret)[: chunk - fill] == 1
        np.testing.assert_array_equal(ok, wanted[part])
        assert np.asarray(end.valid)[: chunk - fill].all()


@pytest.mark.parametrize("level", LEVELS)
def test_the_texts_alone_give_the_answer(level):
    states, _, ret, question, observation, facts = sample(level)
    assert (ret == 1).all()
    count = 60
    ways = []
    for i in range(count):
        grid, start, goal, target = parse(question[i], observation[i])
        assert len(grid) == ENV.levels["size"][level][0] ** 2
        ways.append(search(grid, start, goal, target))
        between = target - grid[start] - grid[goal]
        apart = abs(start[0] - goal[0]) + abs(start[1] - goal[1])
        assert f"must add up to {between}; moves of the shortest way: {apart}, other" in decode(facts[i])
    end = ADVANCE(jax.tree.map(lambda x: jnp.asarray(x[:count]), states), padded(ways))
    assert (np.asarray(end.ret) == 1).all()


def test_hand_set():
    #  1 2 3      S upper left, G in the middle; around the corner 1 2 3 6 5 or 1 4 7 8 5
    #  4 5 6
    #  7 8 9
    s = state(("123", "456", "789"), (0, 0), (1, 1), 17)
    assert earned(s, ["RRDL"]) == ([1.0], [True])
    assert earned(s, ["DDRU", "RD", "DR", "RRDDLU"]) == ([0.0] * 4, [True] * 4)
    assert earned(s.replace(target=jnp.int32(25)), ["DDRU", "RRDL"]) == ([1.0, 0.0], [True] * 2)
    # Two different paths with one sum are both right.
    equal = state(("11", "11"), (0, 0), (1, 1), 3)
    assert earned(equal, ["RD", "DR", "R"]) == ([1.0, 1.0, 0.0], [True] * 3)


def test_the_digits_of_s_and_g_count():
    s = state(("123", "456", "789"), (0, 0), (0, 2), 6)
    assert earned(s, ["RR"])[0] == [1.0]
    for without in (2, 3, 5):  # neither, G alone or S alone would have to count
        assert earned(s.replace(target=jnp.int32(without)), ["RR"])[0] == [0.0]


def test_leaving_the_board_and_visiting_twice_are_invalid():
    """Also where the sum would be right: 1 + 2 + 1 + 2 + 3 = 9 by going back and forth."""
    s = state(("123", "456", "789"), (0, 0), (0, 2), 9)
    bad = ["RLRR", "UDRR", "LRRR", "RDDDU", "RRRL", "DUDU"]
    assert earned(s, bad) == ([0.0] * len(bad), [False] * len(bad))
    assert earned(s.replace(target=jnp.int32(6)), ["RRDU"]) == ([0.0], [False])  # leaves G and comes back
    holes = np.full((2, LENGTH), codec.BLANK, np.int32)
    holes[0, [0, 2]] = 3  # a gap
    holes[1, :2] = 3, 4  # no such move
    end = ADVANCE(jax.tree.map(lambda x: jnp.stack([x] * 2), s.replace(target=jnp.int32(6))), holes)
    assert not np.asarray(end.valid).any() and not np.asarray(end.ret).any()


def test_replies():
    for reply in ("RRDL", "r r d l", "R, R, D, L", '["R","R","D","L"]'):
        np.testing.assert_array_equal(
            codec.read(ENV.answer, f"<answer>{reply}</answer>"), padded(["RRDL"])[0]
        )
    for reply in ("", "RIGHT", "(0,1)", "U" * (LENGTH + 1)):
        assert codec.read(ENV.answer, f"<answer>{reply}</answer>")[0] == codec.UNREADABLE


@pytest.mark.parametrize("level", LEVELS)
def test_balance_diversity_and_parameters(level):
    """No constant path, no shortest one and not the cheapest one is right often."""
    states, action, _, question, observation, _ = sample(level)
    (size, _), (_, highest), (low, high) = (ENV.levels[k][level] for k in ("size", "highest", "cells"))
    assert (states.size == size).all()
    assert set((action >= 0).sum(axis=1) + 1) == set(range(low, high + 1))
    inside = np.arange(N)[:, None] < size
    digits = states.digit.reshape(-1, N, N)[:, (inside & inside.T)]
    assert digits.min() == 1 and digits.max() == highest
    for way, _ in Counter(map(tuple, action.tolist())).most_common(5):
        end = ADVANCE(states, np.tile(np.asarray(way, np.int32), (KEYS, 1)))
        assert np.asarray(end.ret).mean() <= 0.15
    shown = {q.tobytes() + o.tobytes() for q, o in zip(question, observation)}
    assert len(shown) >= 990
    direct, cheapest, count = 0, 0, 150
    for i in range(count):
        grid, start, goal, target = parse(question[i], observation[i])
        graph = nx.grid_2d_graph(size, size).to_directed()
        for u, v in graph.edges:
            graph.edges[u, v]["cost"] = grid[v]
        shortest = nx.shortest_path(graph, start, goal)
        direct += sum(grid[c] for c in shortest) == target
        cheapest += nx.shortest_path_length(graph, start, goal, "cost") + grid[start] == target
    assert direct <= 0.25 * count and cheapest <= 0.25 * count


def test_levels_are_monotone_and_contain_the_papers_setting():
    cells = [((sample(level)[1] >= 0).sum(axis=1) + 1).mean() for level in LEVELS]
    assert cells == sorted(cells) and len(cells) >= 4
    assert ENV.levels["size"][ENV.eval_level] == (4, 4)


def test_the_picture_marks_s_and_g_alone():
    """At the smallest picture: a green, a red and otherwise pale cells, the way nowhere."""
    s = state(("123", "456", "789"), (0, 0), (2, 1), 9)
    picture = np.asarray(jax.jit(make("math_path", 24).render)(s)).astype(int)
    corner = picture[::8, ::8]  # the upper left pixels of the cells
    np.testing.assert_array_equal(corner[0, 0], (120, 208, 120))
    np.testing.assert_array_equal(corner[2, 1], (240, 124, 112))
    plain = [(r, c) for r in range(3) for c in range(3) if (r, c) not in ((0, 0), (2, 1))]
    assert all((corner[cell] == (247, 246, 240)).all() for cell in plain)
    other = s.replace(way=s.way.at[:2].set(1))
    np.testing.assert_array_equal(picture, jax.jit(make("math_path", 24).render)(other))
