"""The Gymnasium and gymnax faces of the environments."""

import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import jaxenv
from jaxenv import codec, text
from jaxenv.adapters.gymnasium import GymnasiumEnv, gymnasium_id
from jaxenv.adapters.gymnax import EnvParams, GymnaxEnv

LAKE = "jaxenv/FrozenLake-v0"


@pytest.mark.parametrize("env_id", jaxenv.ids())
def test_gymnasium_checks_every_env(env_id):
    size = jaxenv.make(env_id, 1024).min_resolution[0]
    env = gymnasium.make(gymnasium_id(env_id), level=0, harness=0, resolution=-(-size // 8) * 8)
    check_env(env.unwrapped)


def test_gymnasium_ids_are_distinct():
    assert gymnasium_id("frozen_lake") == LAKE
    assert len({gymnasium_id(i) for i in jaxenv.ids()}) == len(jaxenv.ids())
    assert {gymnasium_id(i) for i in jaxenv.ids()} <= set(gymnasium.registry)


def test_gymnasium_finds_the_module_by_itself_and_jaxenv_does_not_load_gymnasium():
    code = (
        "import sys, jaxenv; assert 'gymnasium' not in sys.modules\n"
        "import gymnasium\n"
        f"env = gymnasium.make('jaxenv.adapters.gymnasium:{LAKE}', resolution=64, slip=0.5)\n"
        "assert env.unwrapped.env.slip == 0.5"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_gymnasium_learns_of_later_registrations():
    class Named(type(jaxenv.make("frozen_lake"))):
        pass

    jaxenv.register(Named(), "lake_of_this_test")
    env = gymnasium.make("jaxenv/LakeOfThisTest-v0", resolution=64)
    assert env.unwrapped.env.id == "lake_of_this_test"


def test_gymnasium_seeds():
    env = gymnasium.make(LAKE, resolution=64, harness=0)
    first, _ = env.reset(seed=5)
    second, _ = env.reset()
    again, _ = env.reset(seed=5)
    np.testing.assert_array_equal(first["image"], again["image"])
    assert first["text"] == again["text"] != second["text"] == env.reset()[0]["text"]
    assert env.reset(seed=6)[0]["text"] != first["text"]


def play(env, seed):
    """The oracle's episode through the text interface."""
    observation, info = env.reset(seed=seed)
    seen, total, ended = [(observation, info)], 0.0, False
    solve = jax.jit(env.unwrapped.env.solve)
    while not ended:
        reply = codec.write(env.unwrapped.env.answer, solve(env.unwrapped._episode.state))
        observation, reward, terminated, truncated, info = env.step(f"I think so. {reply}")
        assert env.observation_space.contains(observation) and env.action_space.contains(reply)
        seen.append((observation, info))
        total, ended = total + reward, terminated or truncated
    return seen, total, terminated


def test_gymnasium_oracle_succeeds():
    env = gymnasium.make(LAKE, resolution=64, level=4, render_mode="rgb_array")
    seen, total, terminated = play(env, 1)
    assert total == pytest.approx(1) and terminated
    infos = [info for _, info in seen]
    assert [info["t"] for info in infos] == list(range(len(seen)))
    assert [info["success"] for info in infos] == [False] * (len(seen) - 1) + [True]
    assert all(info["valid"] and info["level"] == 4 for info in infos)
    picture = env.render()
    np.testing.assert_array_equal(picture, seen[-1][0]["image"])
    picture[:] = 0
    assert seen[-1][0]["image"].any() and env.render().any()


def test_gymnasium_truncation_and_invalid_actions():
    env = gymnasium.make(LAKE, resolution=64, level=1)
    env.reset(seed=0)
    limit = int(env.unwrapped._episode.limit)
    for t in range(limit):
        _, reward, terminated, truncated, info = env.step("hm")
        assert (reward, terminated, info["valid"]) == (0.0, False, False) and truncated == (t == limit - 1)


def test_gymnasium_single_turn_ends_by_termination():
    env = gymnasium.make("jaxenv/RotateMatrix-v0", modality="symbolic")
    env.reset(seed=0)
    assert env.step("no answer")[1:4] == (0.0, True, False)


def test_gymnasium_symbolic():
    env = gymnasium.make(LAKE, resolution=64, modality="symbolic", render_mode="rgb_array")
    observation, _ = env.reset(seed=2)
    assert set(observation) == {"text"} and "P you, G goal" in observation["text"]
    assert "Rules: " not in observation["text"] and env.render().shape == (64, 64, 3)


def test_gymnasium_levels():
    env = gymnasium.make(LAKE, resolution=64)
    assert env.reset(seed=0)[1]["level"] == jaxenv.make("frozen_lake").eval_level
    assert env.reset(seed=0, options={"level": 0})[1]["level"] == 0
    for bad in ({"level": 7}, {"level": -1}):
        with pytest.raises(ValueError, match="levels 0"):
            env.reset(options=bad)
        with pytest.raises(ValueError, match="levels 0"):
            GymnasiumEnv("frozen_lake", **bad)
    for bad in ({"harness": 5}, {"modality": "sound"}, {"render_mode": "human"}, {"resolution": 8}):
        with pytest.raises(ValueError):
            GymnasiumEnv("frozen_lake", **bad)
    with pytest.raises(gymnasium.error.ResetNeeded):
        GymnasiumEnv("frozen_lake", resolution=64).step("<answer>up</answer>")


def test_gymnasium_compiles_once_for_all_instances_and_levels():
    from jaxenv.adapters import gymnasium as adapter

    def one(level, harness):
        env = gymnasium.make(LAKE, resolution=64, level=level, harness=harness)
        env.reset(seed=0)
        env.step("<answer>up</answer>")
        return [f._cache_size() for f in (adapter._start, adapter._advance, adapter._observe)]

    sizes = one(0, 0)
    assert one(1, 4) == sizes and one(6, 2) == sizes


@pytest.fixture(scope="module")
def lake():
    return jaxenv.make("frozen_lake", 64)


def test_gymnax_is_the_episode(lake):
    env = GymnaxEnv(lake, level=3, harness=1)
    key = jax.random.key(0)
    obs, state = jax.jit(env.reset)(key)
    expected = jax.jit(lambda k: jaxenv.episode.start(lake, k, jnp.int32(3)))(key)
    jax.tree.map(np.testing.assert_array_equal, state, expected)
    np.testing.assert_array_equal(obs["picture"], jax.jit(lake.render)(state.state))
    (prompt,) = text.decode(obs["prompt"][None])
    assert "State: " in prompt and "Observation:" not in prompt
    shapes = env.observation_shape
    assert shapes["picture"].shape == (64, 64, 3) and shapes["prompt"].shape == obs["prompt"].shape
    step, solve = jax.jit(env.step), jax.jit(lake.solve)
    while not state.done:
        assert env.action_shape == env.parse("<answer>up</answer>").shape
        action = env.parse(env.format(solve(state.state)))
        obs, state, reward, done, info = step(key, state, action)
        assert bool(done) == bool(state.done) and float(reward) == float(state.reward)
    assert (
        info["success"] and info["terminated"] and not info["truncated"] and "final_observation" not in info
    )
    _, after, reward, done, _ = step(key, state, action)
    assert done and reward == 0 and int(after.t) == int(state.t)


def test_gymnax_vmaps_over_levels_and_harnesses(lake):
    env = GymnaxEnv(lake, observe="prompt")
    params = EnvParams(level=jnp.arange(5), harness=jnp.arange(5))
    keys = jax.random.split(jax.random.key(1), 5)
    obs, state = jax.jit(jax.vmap(env.reset))(keys, params)
    assert ["Rules: " in p for p in text.decode(obs)] == [True] * 4 + [False]
    assert np.asarray(state.state.size).tolist() == [3, 4, 4, 5, 6]
    assert GymnaxEnv(lake, observe="picture").observation_shape.shape == (64, 64, 3)


def test_gymnax_auto_reset(lake):
    env = GymnaxEnv(lake, observe="picture", auto_reset=True)
    _, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(2), 8))

    @jax.jit
    @jax.vmap
    def step(key, state):
        action = lake.solve(state.state)
        plain = jaxenv.episode.advance(lake, jax.random.split(key)[0], state, action)
        return (plain, lake.render(plain.state)), env.step(key, state, action)

    ends = np.zeros(8, int)
    for t in range(20):
        (plain, last), (obs, state, reward, done, info) = step(
            jax.random.split(jax.random.key(100 + t), 8), state
        )
        np.testing.assert_array_equal(reward, plain.reward)
        np.testing.assert_array_equal(done, plain.done)
        np.testing.assert_array_equal(info["final_observation"], last)
        np.testing.assert_array_equal(info["success"], done)
        assert not state.done.any()
        np.testing.assert_array_equal(state.t == 0, done)
        same = (np.asarray(obs) == np.asarray(last)).all(axis=(1, 2, 3))
        np.testing.assert_array_equal(same, ~np.asarray(done))
        ends += np.asarray(done)
    assert (ends >= 1).all()


def test_gymnax_refuses():
    for bad in ({"level": 7}, {"harness": -1}, {"observe": "sound"}, {"resolution": 8}):
        with pytest.raises(ValueError):
            GymnaxEnv("frozen_lake", **bad)
