"""Rotate matrix: numpy and Reasoning Gym as references, no copy tasks, answers by shape and digits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reasoning_gym.algorithmic.rotate_matrix import RotateMatrixConfig, RotateMatrixDataset

import jaxenv
from jaxenv import codec, episode, sprites
from jaxenv.codec import BLANK
from jaxenv.envs.algorithmic.rotate_matrix import N, State

ENV = jaxenv.make("rotate_matrix", 80)
KEYS = jax.random.split(jax.random.key(0), 1000)
look = jax.jit(jax.vmap(lambda k, lv: (s := ENV.init(k, lv), ENV.solve(s)), in_axes=(0, None)))
grade = jax.jit(jax.vmap(lambda s, a: episode.advance(ENV, jax.random.key(0), episode.begin(ENV, s), a)))


def state(rows, turns) -> State:
    """A batch of one hand-set matrix; the cells beyond it hold digits that must not matter."""
    cells = np.full((1, N, N), 7, np.int32)
    cells[0, : len(rows), : len(rows)] = rows
    return State(jnp.asarray(cells), jnp.full(1, len(rows), jnp.int32), jnp.full(1, turns, jnp.int32))


def reward(s: State, reply: str) -> float:
    return float(grade(s, jnp.asarray(codec.read(ENV.answer, reply))[None]).ret[0])


def shown(matrix) -> str:
    return "\n".join(" ".join(map(str, row)) for row in np.asarray(matrix))


@pytest.mark.parametrize("level", range(6))
def test_numpy_agrees_and_no_copy_task(level):
    states, answers = jax.tree.map(np.asarray, look(KEYS, jnp.int32(level)))
    low, high = ENV.levels["size"][level]
    assert set(states.size) == set(range(low, high + 1))
    distinct, copies = set(), np.full((len(KEYS), N, N), BLANK, np.int32)
    for i in range(len(KEYS)):
        n, turns = states.size[i], states.turns[i]
        matrix = states.cells[i, :n, :n]
        expected = np.full((N, N), BLANK)
        expected[:n, :n] = np.rot90(matrix, -turns)
        np.testing.assert_array_equal(answers[i].reshape(N, N), expected)
        assert turns % 4 and not np.array_equal(matrix, expected[:n, :n])
        copies[i, :n, :n] = matrix
        distinct.add((matrix.tobytes(), turns))
    assert len(distinct) >= (990 if level else 950)  # the smallest level has 30,000 instances
    # Neither the matrix as shown nor one fixed answer earns anything to speak of.
    assert not np.asarray(grade(states, copies.reshape(len(KEYS), -1)).ret).any()
    _, counts = np.unique(answers, axis=0, return_counts=True)
    assert counts.max() <= 10
    quarters = np.bincount(states.turns % 4, minlength=4) / len(KEYS)
    assert quarters[0] == 0 and (np.abs(quarters[1:] - 1 / 3) < 0.06).all()
    digits = np.bincount(answers[answers != BLANK], minlength=10)
    assert digits.min() > 0.8 * digits.max()


@pytest.mark.parametrize("level", [0, 2, 5])
def test_parity_with_reasoning_gym(level):
    low, high = ENV.levels["size"][level]
    data = RotateMatrixDataset(RotateMatrixConfig(min_n=low, max_n=high, seed=3, size=100))
    entries = [data[i] for i in range(100)]
    boards = [state(e["metadata"]["matrix"], e["metadata"]["num_rotations"]) for e in entries]
    batch = jax.tree.map(lambda *x: jnp.concatenate(x), *boards)
    replies = np.stack([codec.read(ENV.answer, f"<answer>{e['answer']}</answer>") for e in entries])
    assert (np.asarray(grade(batch, replies).ret) == 1).all()
    for answer, e in zip(np.asarray(jax.jit(jax.vmap(ENV.solve))(batch)), entries):
        assert data.score_answer(ENV.answer.format(answer), e) == 1.0


@pytest.mark.parametrize(
    "matrix, turns, expected",
    [
        ([[1, 2], [3, 4]], 1, [[3, 1], [4, 2]]),
        ([[1, 2], [3, 4]], 10, [[4, 3], [2, 1]]),
        ([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 3, [[3, 6, 9], [2, 5, 8], [1, 4, 7]]),
        ([[0, 1, 0], [0, 0, 2], [0, 0, 0]], 5, [[0, 0, 0], [0, 0, 1], [0, 2, 0]]),
    ],
)
def test_hand_set_matrices(matrix, turns, expected):
    s = state(matrix, turns)
    answer = np.asarray(jax.vmap(ENV.solve)(s))[0].reshape(N, N)
    np.testing.assert_array_equal(answer[: len(matrix), : len(matrix)], expected)
    assert reward(s, f"<answer>{shown(expected)}</answer>") == 1.0


def test_layout_is_lenient_but_shape_and_digits_count():
    s = state([[1, 2], [3, 4]], 1)
    for good in ("3 1\n4 2", "31\n42", "3, 1\n4, 2", "[[3, 1], [4, 2]]", "\n 3  1 \n 4  2\n"):
        assert reward(s, f"<answer>{good}</answer>") == 1.0, good
    # Upstream paid padded answers that contain the right one; here they are wrong.
    for bad in (
        "3 1\n4 2\n4 2",
        "3 1 0\n4 2 0",
        "3 1",
        "3 1 4 2",
        "3 1\n2 4",
        "2 4\n1 3",
        "1 2\n3 4",
        "3 1\n4 2 x",
    ):
        assert reward(s, f"<answer>{bad}</answer>") == 0.0, bad
    wrong_shape = grade(s, jnp.asarray(codec.read(ENV.answer, "<answer>3 1 0\n4 2 0</answer>"))[None])
    wrong_digit = grade(s, jnp.asarray(codec.read(ENV.answer, "<answer>3 1\n4 3</answer>"))[None])
    assert not wrong_shape.valid[0] and wrong_digit.valid[0]


def test_symmetric_draws_are_changed():
    """A smallest matrix shows the same after a half turn in 1 of 100 draws; none of these may be asked."""
    keys = jax.random.split(jax.random.key(5), 5000)
    drawn = jax.jit(jax.vmap(lambda k: ENV.reset(k, {"size": 2, "quarters": 2, "full": 0}).cells[:2, :2]))(
        keys
    )
    drawn = np.asarray(drawn)
    assert not (drawn == drawn[:, ::-1, ::-1]).all(axis=(1, 2)).any()


def test_the_angle_is_in_the_question_and_the_matrix_in_the_symbolic_copy():
    s = jax.tree.map(lambda x: x[0], state([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 11))
    question, obs, facts = (
        bytes(b for b in np.asarray(t) if b).decode()
        for t in (ENV.text_question(s), ENV.text_obs(s), ENV.text_state(s))
    )
    assert "clockwise by 990 degrees" in question
    assert obs == "1 2 3\n4 5 6\n7 8 9\n"
    assert facts == "3 rows, 3 columns, 990 degrees; without full turns 270 degrees"


def test_every_digit_is_crisp_at_every_smallest_picture():
    """At 8-px tiles the ten sprites are ten different 5 x 7 glyphs in two colours plus the line."""
    for level, size in enumerate(ENV.min_resolution):
        env, n = jaxenv.make("rotate_matrix", size), ENV.levels["size"][level][1]
        cells = np.zeros((10, N, N), np.int32)
        cells[:, 0, 0] = np.arange(10)
        batch = State(jnp.asarray(cells), jnp.full(10, n, jnp.int32), jnp.full(10, 1, jnp.int32))
        tiles = np.asarray(jax.jit(jax.vmap(env.render))(batch))[:, :8, :8]
        assert len({t.tobytes() for t in tiles}) == 10
        for digit, tile in enumerate(tiles):
            ink = (tile[:7, 1:6] == (32, 30, 70)).all(axis=-1)
            np.testing.assert_array_equal(ink, sprites.glyph(str(digit)))
