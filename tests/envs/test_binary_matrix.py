"""Binary matrix: scipy, breadth first search and Reasoning Gym as references, no answer that is a copy."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reasoning_gym.algorithmic.binary_matrix import BinaryMatrixConfig, BinaryMatrixDataset
from scipy.ndimage import distance_transform_cdt

import jaxenv
from jaxenv import codec, episode, sprites
from jaxenv.codec import BLANK
from jaxenv.envs.algorithmic.binary_matrix import N, State

ENV = jaxenv.make("binary_matrix", 80)
KEYS = jax.random.split(jax.random.key(0), 1000)
grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))

solve = jax.jit(jax.vmap(ENV.solve))


@jax.jit
@jax.vmap
def look(key, level):
    s = ENV.init(key, level)
    return s, ENV.solve(s), ENV.text_obs(s), ENV.text_state(s)


@pytest.fixture(scope="module")
def seen():
    """Per level: 1000 instances."""
    return [jax.tree.map(np.asarray, look(KEYS, jnp.full(1000, level))) for level in range(ENV.num_levels)]


def search(zeros) -> np.ndarray:
    """Breadth first search from all zeros."""
    size = len(zeros)
    distance = {(r, c): 0 for r in range(size) for c in range(size) if zeros[r][c]}
    queue = list(distance)
    for r, c in queue:
        for cell in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
            if min(cell) >= 0 and max(cell) < size and cell not in distance:
                distance[cell] = distance[r, c] + 1
                queue.append(cell)
    return np.asarray([[distance[r, c] for c in range(size)] for r in range(size)])


def state(rows) -> State:
    """A batch of one hand-set matrix of zeros and ones."""
    zeros = np.zeros((1, N, N), bool)
    zeros[0, : len(rows), : len(rows)] = np.asarray(rows) == 0
    return State(jnp.asarray(zeros), jnp.full(1, len(rows), jnp.int32))


def graded(s: State, reply: str):
    return grade(s, jnp.asarray(codec.read(ENV.answer, f"<answer>{reply}</answer>"))[None])


def shown(matrix) -> str:
    return "\n".join(" ".join(map(str, row)) for row in np.asarray(matrix))


@pytest.mark.parametrize("level", range(6))
def test_references_agree(seen, level):
    states, answers, _, _ = seen[level]
    (low, high), (percent, _) = ENV.levels["size"][level], ENV.levels["percent"][level]
    assert set(states.size) == set(range(low, high + 1))
    shares, farthest = [], []
    for i, n in enumerate(states.size):
        zeros, expected = states.zeros[i, :n, :n], np.full((N, N), BLANK)
        assert zeros.any() and not states.zeros[i, n:].any() and not states.zeros[i, :, n:].any()
        expected[:n, :n] = search(zeros)
        np.testing.assert_array_equal(expected[:n, :n], distance_transform_cdt(~zeros, "taxicab"))
        np.testing.assert_array_equal(answers[i].reshape(N, N), expected)
        shares.append(zeros.mean())
        farthest.append(expected.max())
    assert min(farthest) >= 2  # never a copy of the matrix
    # The share of zeros is the one asked for, less the zeros that were taken away in small matrices.
    assert percent - (9 if level == 0 else 4) < 100 * np.mean(shares) < percent + 4
    assert np.mean(farthest) > (2, 2.1, 2.4, 2.7, 3.2, 4)[level]


def test_levels(seen):
    """Larger and with fewer zeros from level to level; Table 8 (5 to 8 a side) is evaluated."""
    sizes, percents = ENV.levels["size"], ENV.levels["percent"]
    assert list(sizes) == sorted(sizes) and list(percents) == sorted(percents, reverse=True)
    assert sizes[ENV.eval_level] == (5, 8) and percents[ENV.eval_level] == (25, 25)
    means = [np.where(answers == BLANK, 0, answers).sum(axis=1).mean() for _, answers, _, _ in seen]
    assert means == sorted(means)


@pytest.mark.parametrize("level", range(6))
def test_no_shortcut_pays(seen, level):
    states, answers, _, _ = seen[level]
    distinct = {(z.tobytes(), n) for z, n in zip(states.zeros, states.size)}
    assert len(distinct) >= (600 if level == 0 else 990)
    row, col = np.mgrid[:N, :N]
    inside = np.maximum(row, col)[None] < states.size[:, None, None]
    copy = np.where(inside, ~states.zeros, BLANK).reshape(1000, -1)
    for policy in (copy, *(np.where(inside, k, BLANK).reshape(1000, -1) for k in (0, 1, 2))):
        end = grade(states, policy.astype(np.int32))
        assert np.asarray(end.valid).all() and not np.asarray(end.ret).any()
    _, counts = np.unique(answers, axis=0, return_counts=True)
    assert counts.max() <= 40


def test_the_smallest_space():
    """The docstring's numbers: matrices with a zero and a cell that is two or more steps from all zeros."""
    counts = []
    for size in (3, 4):
        bits = np.arange(1, 1 << size * size)[:, None] >> np.arange(size * size) & 1
        zeros = np.pad(bits.reshape(-1, size, size).astype(bool), ((0, 0), (1, 1), (1, 1)))
        near = zeros[:, 1:-1, 1:-1] | zeros[:, 2:, 1:-1] | zeros[:, :-2, 1:-1]
        near |= zeros[:, 1:-1, 2:] | zeros[:, 1:-1, :-2]
        counts.append(int((~near.all(axis=(1, 2))).sum()))
    assert f"{counts[0]} instances of 3 x 3 and {counts[1]:,} of 4 x 4" in ENV.__doc__


@pytest.mark.parametrize("level", [1, 3, 5])
def test_parity_with_reasoning_gym(seen, level):
    (low, high), (percent, _) = ENV.levels["size"][level], ENV.levels["percent"][level]
    config = BinaryMatrixConfig(min_n=low, max_n=high, p_zero=percent / 100, seed=3, size=100)
    data = BinaryMatrixDataset(config)
    entries = [data[i] for i in range(100)]
    batch = jax.tree.map(lambda *x: jnp.concatenate(x), *[state(e["metadata"]["matrix"]) for e in entries])
    replies = np.stack([codec.read(ENV.answer, f"<answer>{e['answer']}</answer>") for e in entries])
    assert (np.asarray(grade(batch, replies).ret) == 1).all()
    states, answers, _, _ = seen[level]
    for i, n in enumerate(states.size[:200]):
        matrix = (~states.zeros[i, :n, :n]).astype(int).tolist()
        entry = {"answer": data._matrix_to_str(data._get_distances(matrix))}
        assert data.score_answer(ENV.answer.format(answers[i]), entry) == 1.0


@pytest.mark.parametrize(
    "matrix, expected",
    [
        ([[0, 1, 1], [1, 1, 1], [1, 1, 1]], "0 1 2\n1 2 3\n2 3 4"),
        ([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]], "3 2 1 0\n2 3 2 1\n1 2 3 2\n0 1 2 3"),
        ([[1, 0, 1], [1, 1, 1], [1, 1, 0]], "1 0 1\n2 1 1\n2 1 0"),
    ],
)
def test_hand_set_matrices(matrix, expected):
    s = state(matrix)
    assert ENV.answer.format(np.asarray(solve(s))[0]) == expected
    assert graded(s, expected).ret[0] == 1


def test_the_farthest_distance_is_readable():
    """One zero in a corner of the largest matrix: distances up to 18."""
    matrix = np.ones((N, N), int)
    matrix[0, 0] = 0
    expected = shown(np.add.outer(np.arange(N), np.arange(N)))
    assert expected.endswith(" 18") and graded(state(matrix), expected).ret[0] == 1


def test_layout_is_lenient_but_shape_and_numbers_count():
    s = state([[0, 1, 1], [1, 1, 1], [1, 1, 1]])
    for good in (
        "0 1 2\n1 2 3\n2 3 4",
        "0 1 2\n1 2 3\n2 3 4\n",  # upstream: wrong
        "[[0, 1, 2], [1, 2, 3], [2, 3, 4]]",  # upstream: 0.1, after evaluating the reply as Python
        "| 0 | 1 | 2 |\n| 1 | 2 | 3 |\n| 2 | 3 | 4 |",
    ):
        assert graded(s, good).ret[0] == 1, good
    for bad in ("0 1 2\n1 2 3\n2 3 3", "0 1 1\n1 1 1\n1 1 1", "0 1 1\n1 1 2\n1 2 2", "0 1 2\n1 1 2\n2 2 2"):
        end = graded(s, bad)
        assert end.ret[0] == 0 and end.valid[0], bad
    for bad in (
        "0 1 2\n1 2 3",
        "0 1 2 3\n1 2 3 4\n2 3 4 5",
        "0 1 2 1 2 3 2 3 4",
        "[0]*3",
        "0 1 2\n1 2 x\n2 3 4",
    ):
        end = graded(s, bad)
        assert end.ret[0] == 0 and not end.valid[0], bad


@pytest.mark.parametrize("level", [0, 3, 5])
def test_texts(seen, level):
    states, answers, boards, facts = seen[level]
    for i, n in enumerate(states.size[:60]):
        o, f = (bytes(b for b in t[i] if b).decode() for t in (boards, facts))
        zeros = [[word == "0" for word in line.split()] for line in o.splitlines()]
        assert shown(search(zeros)) == ENV.answer.format(answers[i])
        places = [f"({r}, {c})" for r, c in product(range(n), repeat=2) if zeros[r][c]]
        assert f == f"{n} rows, {n} columns; zeros at (row, column) {', '.join(places)}"


def test_digits_are_crisp_at_every_smallest_picture():
    for level, size in enumerate(ENV.min_resolution):
        env, n = jaxenv.make("binary_matrix", size), ENV.levels["size"][level][1]
        matrix = np.ones((n, n), int)
        matrix[0, 0] = 0
        picture = np.asarray(jax.jit(jax.vmap(env.render))(state(matrix)))[0]
        for digit, ink in enumerate(((18, 104, 40), (250, 250, 250))):
            tile = picture[:7, 1 + 8 * digit : 6 + 8 * digit]
            np.testing.assert_array_equal((tile == ink).all(axis=-1), sprites.glyph(str(digit)))
