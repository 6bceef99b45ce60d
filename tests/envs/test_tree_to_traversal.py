"""Tree to traversal: textbook recursion, rebuilding the tree from two lists, shapes, labels, layout."""

import json
import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenv
from jaxenv import codec, episode, text
from jaxenv.envs.cognition.tree_to_traversal import N, State
from jaxenv.gen.trees import binary_tree
from jaxenv.solve.trees import places

KEYS = 1000
ENV = jaxenv.make("tree_to_traversal", 128)
LEVELS = range(ENV.num_levels)


@cache
def instances(level):
    """KEYS states of one level, their answers, reading places and observations, as numpy."""
    return jax.tree.map(
        np.asarray, _instances(jax.random.split(jax.random.key(level), KEYS), jnp.full(KEYS, level))
    )


@jax.jit
@jax.vmap
def _instances(key, level):
    state = ENV.init(key, level)
    observation, _ = text.close(ENV.text_obs(state))
    return state, ENV.solve(state), places(state.left, state.right, state.label > 0), observation


def recursive(label, left, right, root=0):
    """The three lists by textbook recursion."""
    pre, inorder, post = [], [], []

    def visit(node):
        if node >= 0:
            pre.append(int(label[node]))
            visit(left[node])
            inorder.append(int(label[node]))
            visit(right[node])
            post.append(int(label[node]))

    visit(root)
    return {"preorder": pre, "inorder": inorder, "postorder": post}


def rebuild(pre, inorder):
    """{label: (left, right)} of the only tree with these two traversals."""
    children = {}

    def grow(pre, inorder):
        if not pre:
            return None
        cut = inorder.index(pre[0])
        children[pre[0]] = grow(pre[1 : cut + 1], inorder[:cut]), grow(pre[cut + 1 :], inorder[cut + 1 :])
        return pre[0]

    grow(pre, inorder)
    return children


def children_of(label, left, right):
    """{label: (left, right)} of the arrays of a state."""
    name = lambda node: int(label[node]) if node >= 0 else None  # noqa: E731
    return {int(label[i]): (name(left[i]), name(right[i])) for i in range(N) if label[i]}


def parse(observation):
    """{label: (left, right)} and the root, from the symbolic observation."""
    lines = bytes(observation[observation != 0]).decode().splitlines()[1:]
    rows = [re.fullmatch(r"(\d+): (\d+|-), (\d+|-)", line).groups() for line in lines]
    name = lambda word: None if word == "-" else int(word)  # noqa: E731
    return {int(node): (name(left), name(right)) for node, left, right in rows}, int(rows[0][0])


def earned(state, lists):
    reply = f"<answer>{json.dumps(lists)}</answer>"
    action = jnp.asarray(codec.read(ENV.answer, reply))
    return float(episode.advance(ENV, jax.random.key(0), episode.begin(ENV, state), action).ret)


def tree(label, left, right):
    """A state from lists of labels and children (-1 = none); node 0 need not be the root."""
    pad = lambda x, fill: jnp.asarray(x + [fill] * (N - len(x)), jnp.int32)  # noqa: E731
    return State(pad(label, 0), pad(left, -1), pad(right, -1))


@pytest.mark.parametrize("level", LEVELS)
def test_traversals_agree_with_recursion_and_determine_the_tree(level):
    state, answer, _, _ = instances(level)
    for i in range(300):
        label, left, right = state.label[i], state.left[i], state.right[i]
        expected = recursive(label, left, right)
        assert json.loads(ENV.answer.format(answer[i])) == expected
        assert rebuild(expected["preorder"], expected["inorder"]) == children_of(label, left, right)


@pytest.mark.parametrize("level", LEVELS)
def test_the_observation_alone_gives_the_answer(level):
    _, answer, _, observation = instances(level)
    for i in range(100):
        children, root = parse(observation[i])
        left = {node: pair[0] for node, pair in children.items()}
        right = {node: pair[1] for node, pair in children.items()}
        named = {node: node for node in children}
        left, right = ({n: -1 if c is None else c for n, c in side.items()} for side in (left, right))
        assert recursive(named, left, right, root) == json.loads(ENV.answer.format(answer[i]))


def test_hand_set_trees():
    #       8
    #     3   10
    #    1 6     14
    search = tree([8, 3, 10, 1, 6, 14], [1, 3, -1, -1, -1, -1], [2, 4, 5, -1, -1, -1])
    right = {
        "preorder": [8, 3, 1, 6, 10, 14],
        "inorder": [1, 3, 6, 8, 10, 14],
        "postorder": [1, 6, 3, 14, 10, 8],
    }
    assert earned(search, right) == 1
    # A zigzag 5 -> right 9 -> left 7 -> right 2, numbered from the bottom.
    zigzag = tree([2, 7, 9, 5], [-1, -1, 1, -1], [-1, 0, -1, 2])
    lists = {"preorder": [5, 9, 7, 2], "inorder": [5, 7, 2, 9], "postorder": [2, 7, 9, 5]}
    assert earned(zigzag, lists) == 1
    # Near misses: lists exchanged, a slant read on the wrong side, a list too short, keys too many or few.
    assert earned(search, right | {"inorder": right["postorder"]}) == 0
    assert earned(zigzag, lists | {"inorder": [2, 7, 9, 5]}) == 0
    assert earned(search, right | {"postorder": right["postorder"][:-1]}) == 0
    assert earned(search, right | {"levelorder": [8]}) == 0
    assert earned(search, {k: right[k] for k in ("preorder", "inorder")}) == 0


def test_full_and_degenerate_trees():
    full = tree(list(range(1, 16)), [1, 3, 5, 7, 9, 11, 13] + [-1] * 8, [2, 4, 6, 8, 10, 12, 14] + [-1] * 8)
    expected = recursive(np.asarray(full.label), np.asarray(full.left), np.asarray(full.right))
    assert json.loads(ENV.answer.format(ENV.solve(full))) == expected
    chain = tree(list(range(1, 17)), [*range(1, 16), -1], [-1] * 16)
    at = places(chain.left, chain.right, chain.label > 0)
    assert at.depth.tolist() == at.preorder.tolist() == list(range(16))
    assert at.inorder.tolist() == at.postorder.tolist() == list(range(16))[::-1]


@pytest.mark.parametrize("level", LEVELS)
def test_sizes_heights_labels_and_diversity(level):
    state, answer, at, _ = instances(level)
    present = state.label > 0
    count = present.sum(axis=1)
    low, high = ENV.levels["nodes"][level]
    assert set(count) == set(range(low, high + 1))
    rows = np.where(present, at.depth, -1).max(axis=1) + 1
    assert rows.max() <= ENV.levels["height"][level][1] and len(set(rows)) >= 2
    ordered = np.sort(np.where(present, state.label, np.arange(-N, 0)), axis=1)
    assert (np.diff(ordered, axis=1) > 0).all() and state.label.max() <= 99  # distinct
    assert len({a.tobytes() for a in answer}) >= 990
    for side in (state.left, state.right):  # both kinds of slant are common, and no child is counted twice
        only = present & (side >= 0) & ((state.left < 0) | (state.right < 0))
        assert only.any(axis=1).mean() > 0.3
    child = np.concatenate([state.left, state.right], axis=1)
    assert all(np.array_equal(np.sort(c[c >= 0]), np.arange(1, n)) for c, n in zip(child, count))


def test_shapes_are_those_of_random_search_trees():
    """Without the bound on the height: 4 nodes, 24 insertion orders, each shape as often as they give it."""
    draw = jax.jit(jax.vmap(lambda k: binary_tree(k, 4, jnp.int32(4), jnp.int32(4))))
    left, right = map(np.asarray, draw(jax.random.split(jax.random.key(1), 6000)))
    shapes, seen = np.unique(np.concatenate([left, right], axis=1), axis=0, return_counts=True)
    assert len(shapes) == 14
    share = np.sort(seen / seen.sum() * 24)
    np.testing.assert_allclose(share, [1] * 8 + [2] * 2 + [3] * 4, atol=0.25)


@pytest.mark.parametrize("nodes, height", [(7, 3), (15, 4), (16, 5), (1, 1)])
def test_the_tightest_heights_are_met(nodes, height):
    draw = jax.jit(jax.vmap(lambda k: binary_tree(k, 16, jnp.int32(nodes), jnp.int32(height))))
    left, right = draw(jax.random.split(jax.random.key(2), 50))
    at = jax.jit(jax.vmap(lambda l, r: places(l, r, jnp.arange(16) < nodes)))(left, right)
    depth = np.asarray(at.depth)[:, :nodes]
    assert depth.max() + 1 == height
    assert (np.sort(np.asarray(at.inorder)[:, :nodes], axis=1) == np.arange(nodes)).all()


@pytest.mark.parametrize("level", LEVELS)
def test_no_nodes_overlap_or_swap_sides(level):
    """Upstream's pitfalls: cousins overlap or swap sides, outer nodes fall off the canvas."""
    for size in (ENV.min_resolution[level], 224, 256, 448):
        env = jaxenv.make("tree_to_traversal", size)
        state, _, _, _ = instances(level)
        state = jax.tree.map(lambda x: x[:200], state)
        centre, radius = jax.jit(jax.vmap(env.layout, out_axes=(0, None)))(state)
        centre, present = np.asarray(centre), state.label > 0
        apart = np.hypot(*np.moveaxis(centre[:, :, None] - centre[:, None], -1, 0))
        pair = present[:, :, None] & present[:, None] & ~np.eye(N, dtype=bool)
        assert apart[pair].min() >= 2 * radius + 1
        inside = centre[present]
        assert inside.min() >= radius and inside.max() <= size - 1 - radius
        for side, sign in ((state.left, -1), (state.right, 1)):
            there = np.take_along_axis(centre, np.maximum(side, 0)[..., None], axis=1)
            step = (there - centre)[side >= 0]
            assert (sign * step[:, 1] >= 7).all() and (step[:, 0] >= 2 * radius + 1).all()
