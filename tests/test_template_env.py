"""The template in docs: registers, plays and passes the checks that every environment passes."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tour import look

import jaxenv
from jaxenv import harness, text
from jaxenv.core import SUCCESS

TEMPLATE = Path(__file__).parent.parent / "docs" / "template_env.py"
KEYS = 24


@pytest.fixture(scope="module")
def env():
    env_id = jaxenv.register(TEMPLATE, "count_dots_of_the_template")
    assert env_id in jaxenv.ids()
    return jaxenv.make(env_id, resolution=64)


@pytest.fixture(scope="module")
def seen(env):
    level = np.repeat(np.arange(env.num_levels, dtype=np.int32), KEYS)
    keys = jax.random.split(jax.random.key(0), len(level))
    traces = []

    @jax.jit
    @jax.vmap
    def run(key, level):
        traces.append(None)
        return look(env, key, level)

    out = jax.tree.map(np.asarray, run(keys, level))
    assert len(traces) == 1
    return out | {"level": level}


def test_tour(env, seen):
    assert (seen["end"].ret >= SUCCESS).all() and seen["end"].terminated.all()
    assert not (seen["noop"].ret > 0).any()
    assert seen["picture"].shape[1:] == (64, 64, 3) and seen["picture"].dtype == np.uint8
    assert seen["action"].shape[1:] == (env.answer.size,)
    jax.tree.map(
        np.testing.assert_array_equal, seen["end"].replace(reward=0), seen["after_end"].replace(reward=0)
    )
    for prompts in seen["prompts"][::7]:
        h0, *rest, h4 = text.decode(prompts)[:5]
        assert all(p.endswith(env.answer.instruction) and "\n\n\n" not in p for p in (h0, *rest, h4))
        assert h4 == f"{env.question}\n{env.answer.instruction}"
        assert f"Rules: {env.rules}" in h0 and "Hint: " in h0 and "State: " in h0 and "Observation:\n" in h0


def test_answers_are_right_and_balanced(env, seen):
    for i, prompt in enumerate(text.decode(seen["prompts"][:, 0])):
        board = prompt.split(". empty\n")[1].split(env.answer.instruction)[0]
        assert board.count("R") == seen["action"][i, 0]
    for level in range(env.num_levels):
        counts = np.bincount(seen["action"][seen["level"] == level, 0])
        assert counts.max() <= KEYS * 0.55


def test_play_by_text(env):
    batch = jaxenv.EnvBatch(env)
    episodes = batch.start(jax.random.split(jax.random.key(1), 3), jnp.full(3, env.eval_level))
    (right, other, _) = batch.format(batch.solve(episodes))
    wrong = batch.format(batch.solve(episodes) + 1)[1]
    end = batch.step(jax.random.split(jax.random.key(2), 3), episodes, batch.parse([right, wrong, "no idea"]))
    assert np.asarray(end.ret).tolist() == [1, 0, 0]
    assert np.asarray(end.valid).tolist() == [True, True, False]
    assert np.asarray(end.terminated).tolist() == [True, True, False] and np.asarray(end.truncated)[2]
    assert other in (f"<answer>{n}</answer>" for n in range(65))
    prompts = batch.prompts(episodes, harness.flags(jnp.int32(3)))
    assert all("Rules: " in p and "Hint: " not in p for p in prompts)
