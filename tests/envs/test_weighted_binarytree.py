"""Weighted binary tree: every tree by enumeration, ties, near misses, the recursion's corner cases."""

import re
from collections import Counter
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenv import codec, episode, make
from jaxenv.envs.graphs.weighted_binarytree import N, State

KEYS = 1000
ENV = make("weighted_binarytree", 96)
LEVELS = range(ENV.num_levels)
ADVANCE = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))
SOLVE = jax.jit(ENV.solve)


@cache
def sample(level):
    """KEYS states of a level, their answers and observations."""
    return jax.tree.map(
        np.asarray, _sample(jax.random.split(jax.random.key(level), KEYS), jnp.full(KEYS, level))
    )


@jax.jit
@jax.vmap
def _sample(key, level):
    state = ENV.init(key, level)
    return state, ENV.solve(state), ENV.text_obs(state)


@cache
def trees(low, high):
    """All trees on the nodes low .. high - 1 as (root, left, right), None for no node."""
    if low == high:
        return (None,)
    return tuple((r, a, b) for r in range(low, high) for a in trees(low, r) for b in trees(r + 1, high))


def count(tree, values):
    """What a tree counts, read off the question."""
    if tree is None:
        return 1
    root, left, right = tree
    return values[root] + (
        0 if left is None and right is None else count(left, values) * count(right, values)
    )


def preorder(tree):
    return [] if tree is None else [tree[0], *preorder(tree[1]), *preorder(tree[2])]


def greatest(values):
    """The greatest count by recursion over intervals, in Python integers."""

    @cache
    def best(low, high):
        if high - low < 2:
            return values[low] if high > low else 1
        return max(best(low, r) * best(r + 1, high) + values[r] for r in range(low, high))

    return best(0, len(values))


def rebuilt(order, low, high):
    """The tree with a preorder (consumed) and the inorder low .. high - 1; None if there is none."""
    if low == high:
        return None
    root = order.pop(0)
    if not low <= root < high:
        raise ValueError("no such tree")
    left = rebuilt(order, low, root)
    return root, left, rebuilt(order, root + 1, high)


def state(*values):
    return State(jnp.asarray(values + (0,) * (N - len(values)), jnp.int32), jnp.int32(len(values)))


def padded(orders):
    return np.asarray([list(o) + [-1] * (N - len(o)) for o in orders], np.int32)


def results(s, orders):
    """Reward and validity of each of several answers to one state."""
    many = jax.tree.map(lambda x: jnp.stack([x] * len(orders)), s)
    end = ADVANCE(many, padded(orders))
    return np.asarray(end.ret).tolist(), np.asarray(end.valid).tolist()


@pytest.mark.parametrize("level", (0, 1))
def test_all_trees_of_the_best_count_and_no_others_are_right(level):
    """Every preorder of every instance; 250 instances."""
    states, _, _ = sample(level)
    rows, orders, wanted = [], [], []
    for k in range(250):
        values = states.value[k, : states.n[k]].tolist()
        counts = {tuple(preorder(t)): count(t, values) for t in trees(0, len(values))}
        for order, reached in counts.items():
            rows.append(k)
            orders.append(order)
            wanted.append(reached == max(counts.values()))
    chunk = 4096
    for i in range(0, len(rows), chunk):
        part = slice(i, i + chunk)
        fill = chunk - len(rows[part])
        index = np.asarray(rows[part] + [0] * fill)
        end = ADVANCE(
            jax.tree.map(lambda x, index=index: x[index], states), padded(orders[part] + [()] * fill)
        )
        np.testing.assert_array_equal(
            np.asarray(end.ret)[: chunk - fill], np.asarray(wanted[part], np.float32)
        )
        assert np.asarray(end.valid)[: chunk - fill].all()


@pytest.mark.parametrize("level", LEVELS)
def test_the_observation_alone_gives_the_answer(level):
    """The answer's tree, rebuilt by hand, counts what a plain recursion over the text's scores finds."""
    states, answers, observations = sample(level)
    for k in range(200):
        shown = bytes(b for b in observations[k] if b).decode()
        pairs = re.findall(r"(\d+): (\d+)", shown)
        assert [int(node) for node, _ in pairs] == list(range(states.n[k]))
        values = [int(v) for _, v in pairs]
        order = [int(v) for v in answers[k] if v >= 0]
        tree = rebuilt(list(order), 0, len(values))
        assert preorder(tree) == order and len(order) == len(values)
        assert count(tree, values) == greatest(values)


@pytest.mark.parametrize(
    ("values", "right"),
    (
        ((3, 1, 3), ["102"]),  # 3 * 3 + 1 = 10, a chain counts 7
        ((1, 4, 4), ["012", "021", "210", "201"]),  # 1 * 4 + 4 = 8 < 1 + (4 + 4), in any chain
        ((2, 4, 2), ["012", "021", "102", "210", "201"]),  # 2 * 2 + 4 = 2 + 4 + 2: every tree
        ((2, 3, 3, 4), ["2013", "2103"]),  # (2 + 3) * 4 + 3 = 23; 2 * (3 + 4) + 3 = 17
        ((5, 1, 2, 1, 5), ["10324", "31024"]),  # 5 * (2 * 5 + 1) + 1 = 56, from either side
    ),
)
def test_hand_set(values, right):
    s = state(*values)
    orders = [preorder(t) for t in trees(0, len(values))]
    rewards, valid = results(s, orders)
    assert all(valid)
    assert {"".join(map(str, o)) for o, r in zip(orders, rewards) if r == 1} == set(right)
    assert set(rewards) <= {0.0, 1.0}
    assert "".join(str(v) for v in np.asarray(SOLVE(s)) if v >= 0) in right


def test_a_leaf_has_no_sides():
    """Had it two missing sides that count 1 * 1, another tree would be best."""
    values = (1, 3, 2)
    with_one = lambda t: values[t[0]] + (with_one(t[1]) if t[1] else 1) * (with_one(t[2]) if t[2] else 1)  # noqa: E731
    middle, chain = (1, (0, None, None), (2, None, None)), (0, None, (1, None, (2, None, None)))
    assert with_one(middle) > with_one(chain)  # that reading has another answer
    assert count(middle, values) == 5 and count(chain, values) == 6
    assert results(state(*values), [preorder(middle), preorder(chain)])[0] == [0.0, 1.0]


def test_malformed_answers_are_invalid():
    s = state(3, 1, 3)
    bad = [
        [1, 0],
        [1, 0, 2, 3],
        [1, 0, 0],
        [1, 1, 2],
        [1, 2, 0, -1],
        [0, 1, 3],
        [1, -1, 0, 2],
        [2, 2, 2],
        [1],
    ]
    bad[4] = [1, 2, 0]  # a permutation, but no preorder over the inorder 0, 1, 2
    rewards, valid = results(s, bad)
    assert rewards == [0.0] * len(bad) and not any(valid)
    for reply, read in (("1 0 2", [1, 0, 2]), ("[1, 0, 2]", [1, 0, 2]), ("1,0,2", [1, 0, 2])):
        assert codec.read(ENV.answer, f"<answer>{reply}</answer>")[:4].tolist() == [*read, -1]
    for reply in ("102", "1 0 12", "one", "1 0 -2"):
        assert codec.read(ENV.answer, f"<answer>{reply}</answer>")[0] == codec.UNREADABLE


def test_the_largest_count_does_not_overflow():
    """All scores 20: 144,664,420 with 12 nodes, found by hand-coded integers too."""
    values = [20] * N
    assert greatest(tuple(values)) == 144_664_420
    order = [int(v) for v in np.asarray(SOLVE(state(*values)))]
    assert count(rebuilt(list(order), 0, N), values) == 144_664_420
    assert results(state(*values), [order])[0] == [1.0]


@pytest.mark.parametrize("level", LEVELS)
def test_balance_diversity_and_parameters(level):
    """No tree is best often, not even given the number of nodes; levels hold what they say."""
    states, answers, _ = sample(level)
    (low, high), (_, highest) = ENV.levels["n"][level], ENV.levels["max_score"][level]
    assert set(states.n) == set(range(low, high + 1))
    present = np.arange(N) < states.n[:, None]
    assert (states.value[~present] == 0).all() and (states.value[present] >= 1).all()
    assert states.value.max() == highest
    constants = [order for order, _ in Counter(map(tuple, answers.tolist())).most_common(12)]
    if level == 0:
        constants = padded([preorder(t) for n in range(low, high + 1) for t in trees(0, n)]).tolist()
    for order in constants:
        end = ADVANCE(jax.tree.map(jnp.asarray, states), np.tile(np.asarray(order, np.int32), (KEYS, 1)))
        n = sum(v >= 0 for v in order)
        earned = np.asarray(end.ret)
        assert earned.mean() <= 0.55 and earned[states.n == n].mean() <= 0.62
    distinct = len({v.tobytes() for v in states.value})
    assert distinct >= (250 if level == 0 else 990)


def test_levels_are_monotone_and_contain_the_papers_setting():
    sizes = [sample(level)[0].n.mean() for level in LEVELS]
    assert sizes == sorted(sizes) and len(sizes) >= 4
    assert ENV.levels["n"][ENV.eval_level][1] == 12 and ENV.levels["max_score"][ENV.eval_level][1] == 20


def test_the_picture_holds_the_scores_and_no_tree():
    """It changes in the cards whose score changes and nowhere else, and is the same whenever it is painted."""
    render = jax.jit(ENV.render)
    a, b = state(3, 1, 3, 7, 9), state(3, 1, 3, 12, 9)
    pa, pb = (np.asarray(render(s)) for s in (a, b))
    changed = np.argwhere((pa != pb).any(-1))
    side = 24  # tiles of a board of four columns at 96 px; the score of node 3 is the fourth tile of row two
    assert len(changed) and (changed[:, 0] // side == 1).all() and (changed[:, 1] // side == 3).all()
    np.testing.assert_array_equal(np.asarray(render(a)), pa)
