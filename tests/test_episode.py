"""The clock, the absorbing end and the two ways to end, on a tiny environment whose numbers are known."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from jax import Array

from jaxenv import episode, text
from jaxenv.codec import UNREADABLE, Ints
from jaxenv.core import Env, outcome


@struct.dataclass
class State:
    total: Array  # i32[] sum of the legal actions
    limit: Array  # i32[]


class Adding(Env[State]):
    """Add 0 .. 5 to a total: 10 ends the episode with 0.5, above 10 with nothing; every legal action earns
    0.2.
    """

    category, source = "tests", ("tests",)
    horizon = 6
    question, rules = "Add.", "Add."
    answer = Ints(2, 0, 5, "two numbers", (1, 2))

    def reset(self, key, scale):
        return State(jnp.int32(0), jnp.int32(self.horizon))

    def limit(self, state):
        return state.limit

    def progress(self, state):
        return state.total.astype(jnp.float32) / 16

    def step(self, key, state, action):
        total = state.total + action[0] + action[1]
        legal = (action >= 0).all() & (action <= 5).all()
        reward = jnp.where(total == 10, 0.5, 0.0) + 0.2
        return state.replace(total=total), outcome(reward, total >= 10, legal)

    def text_question(self, state):
        return text.lit(self.question)


ENV = Adding()
KEY = np.asarray([0, 0], np.uint32)


@partial(jax.jit, static_argnames="start_limit")
def play(actions, start_limit=6):
    """All episodes after each of actions i32[T, 2], from an episode with a limit."""
    first = episode.begin(ENV, State(jnp.int32(0), jnp.int32(start_limit)))
    step = lambda e, a: (episode.advance(ENV, KEY, e, a),) * 2  # noqa: E731
    return first, jax.lax.scan(step, first, actions)[1]


def actions(*values):
    return np.asarray([[v, 0] for v in values], np.int32)


def near(value):
    return pytest.approx(value, abs=1e-6)


def test_start():
    first, _ = play(actions(1))
    assert (int(first.t), int(first.limit), float(first.ret), float(first.reward)) == (0, 6, 0, 0)
    assert not (first.done | first.terminated | first.truncated) and first.valid and not first.success
    started = episode.start(ENV, jax.random.key(0), jnp.int32(0))
    jax.tree.map(np.testing.assert_array_equal, started, first)


def test_the_limit_is_at_most_the_horizon():
    assert int(play(actions(1), start_limit=50)[0].limit) == ENV.horizon
    assert int(play(actions(1), start_limit=2)[0].limit) == 2


def test_termination_by_the_rules():
    _, seen = play(actions(5, 5, 5))
    assert seen.t.tolist() == [1, 2, 2]
    assert seen.terminated.tolist() == [False, True, True] == seen.done.tolist()
    assert not seen.truncated.any()
    assert seen.reward.tolist() == near([0.2, 0.7, 0.0])
    assert seen.ret.tolist() == near([0.2, 0.9, 0.9])  # no progress is paid at a termination
    assert not seen.success.any()


def test_truncation_pays_progress_once():
    _, seen = play(actions(2, 2, 2, 2, 2), start_limit=3)
    assert seen.t.tolist() == [1, 2, 3, 3, 3]
    assert seen.truncated.tolist() == [False, False, True, True, True] == seen.done.tolist()
    assert not seen.terminated.any()
    assert seen.reward.tolist() == near([0.2, 0.2, 0.2 + 6 / 16, 0, 0])
    assert seen.ret.tolist() == near([0.2, 0.4, 0.6 + 6 / 16, 0.6 + 6 / 16, 0.6 + 6 / 16])


def test_termination_on_the_last_action_is_no_truncation():
    _, seen = play(actions(5, 5), start_limit=2)
    assert seen.terminated[1] and not seen.truncated[1]
    assert float(seen.reward[1]) == near(0.7)


@pytest.mark.parametrize(
    "bad", [[7, 0], [-1, 0], [0, 6], [2**31 - 1, 1], [UNREADABLE, UNREADABLE], [UNREADABLE, 3]]
)
def test_invalid_actions_change_nothing_but_the_clock(bad):
    _, seen = play(np.asarray([[3, 1], bad, [3, 3]], np.int32))
    assert seen.valid.tolist() == [True, False, True]
    assert seen.state.total.tolist() == [4, 4, 10]
    assert seen.t.tolist() == [1, 2, 3]
    assert seen.reward.tolist() == near([0.2, 0, 0.7])
    assert seen.terminated.tolist() == [False, False, True]


def test_an_invalid_action_can_be_the_last():
    _, seen = play(actions(4, 9), start_limit=2)
    assert seen.truncated[1] and not seen.terminated[1] and not seen.valid[1]
    assert float(seen.reward[1]) == near(4 / 16)


def test_an_ended_episode_absorbs():
    _, seen = play(actions(5, 5, 1, 9, UNREADABLE))
    last = jax.tree.map(lambda x: x[1], seen)
    for k in (2, 3, 4):
        after = jax.tree.map(lambda x, k=k: x[k], seen)
        jax.tree.map(np.testing.assert_array_equal, after, last.replace(reward=after.reward))
        assert float(after.reward) == 0


@pytest.mark.parametrize("values", [(0,) * 6, (1, 0, 1, 0, 1, 0), (2, 2, 2, 2, 1, 1), (1, 1, 1, 1, 1, 5)])
def test_the_return_never_exceeds_one(values):
    _, seen = play(actions(*values))
    assert (seen.ret <= 1).all() and (np.diff(seen.ret) >= 0).all()
    np.testing.assert_allclose(np.cumsum(seen.reward), seen.ret, atol=1e-6)
    assert float(seen.ret[-1]) == 1 and bool(seen.success[-1])  # 6 x 0.2 is cut


def test_batches_jit_and_eager_agree():
    rng = np.random.default_rng(0)
    moves = rng.integers(-1, 7, (16, 6, 2)).astype(np.int32)
    _, together = jax.vmap(play)(moves)
    for k in range(3):
        alone = play(moves[k])[1]
        jax.tree.map(lambda a, b, k=k: np.testing.assert_array_equal(a, b[k]), alone, together)
    with jax.disable_jit():
        e = episode.begin(ENV, State(jnp.int32(0), jnp.int32(6)))
        for t in range(6):
            e = episode.advance(ENV, KEY, e, moves[0, t])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[0, -1]), e, together)
