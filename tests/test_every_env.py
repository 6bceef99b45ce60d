"""What must hold for every environment, over all ids and all levels."""

import json
import random
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tour import KEYS, SHOWN, glance, golden, tour

import jaxenv
from jaxenv import EnvBatch, codec, episode
from jaxenv.core import SUCCESS

GOLDENS = Path(__file__).parent / "golden" / "every_env.json"
every_env = pytest.mark.parametrize("env_id", jaxenv.ids())


@every_env
def test_oracle_earns_full_reward(env_id):
    t = tour(env_id)
    if t.env.solvable:
        assert (t.seen["end"].ret >= SUCCESS).all()
        assert t.seen["end"].terminated.all()


@every_env
def test_useless_policies_do_not_earn_full_reward(env_id):
    t = tour(env_id)
    assert not (t.seen["noop"].ret >= SUCCESS).any()
    assert not t.seen["noop"].terminated.any() and t.seen["noop"].truncated.all()
    # One instance's answer given to another of the same level: right only as often as chance allows.
    if t.env.horizon > 1:
        return
    for level in range(t.env.num_levels):
        rows = t.level == level
        shifted = np.roll(t.seen["action"][rows], 1, axis=0)
        states = jax.tree.map(lambda x, rows=rows: x[rows], t.seen["start"])
        earned = np.asarray(EnvBatch(t.env).step(t.keys[rows], states, shifted).ret) >= SUCCESS
        assert earned.mean() <= 0.8, f"level {level}: another instance's answer is right too often"


@every_env
def test_one_trace_for_all_levels(env_id):
    assert tour(env_id).traces == 1


@every_env
def test_dtypes_and_shapes(env_id):
    t = tour(env_id)
    size = t.env.resolution
    assert t.seen["picture"].dtype == np.uint8 and t.seen["picture"].shape[1:] == (size, size, 3)
    assert t.seen["action"].dtype == np.int32 and t.seen["action"].shape[1:] == (t.env.answer.size,)
    for name in ("text_obs", "text_state", "text_hint", "question", "prompts"):
        assert t.seen[name].dtype == np.uint8
    start = jax.eval_shape(lambda k: episode.start(t.env, k, jnp.int32(0)), t.keys[0])
    moved = jax.eval_shape(
        lambda k, e, a: episode.advance(t.env, k, e, a), t.keys[0], start, t.seen["action"][0]
    )
    describe = lambda tree: [(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(tree)]  # noqa: E731
    assert describe(start) == describe(moved)
    assert not any(weak for _, _, weak in describe(start))


@every_env
def test_jit_equals_vmap(env_id):
    t = tour(env_id)
    i = len(t.level) - 1  # the hardest level
    alone = jax.jit(partial(glance, t.env))(t.keys[i], t.level[i])
    for name, value in alone.items():
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.asarray(a), b[i]), value, t.seen[name])


@pytest.mark.slow  # every primitive is compiled alone
@every_env
def test_jit_equals_eager(env_id):
    t = tour(env_id)
    i = len(t.level) - 1
    with jax.disable_jit():
        state = t.env.init(t.keys[i], jnp.int32(t.level[i]))
        picture, action = t.env.render(state), t.env.solve(state)
    np.testing.assert_array_equal(np.asarray(picture), t.seen["picture"][i])
    np.testing.assert_array_equal(np.asarray(action), t.seen["action"][i])


@every_env
def test_terminal_states_absorb(env_id):
    t = tour(env_id)
    end, after = t.seen["end"], t.seen["after_end"]
    if t.env.solvable:
        assert end.done.all()
    rows = end.done
    assert (after.reward[rows] == 0).all()
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(a[rows], b[rows]),
        end.replace(reward=end.t),
        after.replace(reward=after.t),
    )


@every_env
def test_the_oracle_stays_readable_after_the_end(env_id):
    """Batches ask it about finished episodes too."""
    t = tour(env_id)
    if t.env.horizon > 1:
        rows = np.linspace(0, len(t.level) - 1, KEYS, dtype=int)
        end = jax.tree.map(lambda x: x[rows], t.seen["end"])
        for action in np.asarray(EnvBatch(t.env).solve(end)):
            assert codec.read(t.env.answer, codec.write(t.env.answer, action))[0] != codec.UNREADABLE


@every_env
def test_keys_decide(env_id):
    t = tour(env_id)
    some = slice(-KEYS, None)
    again = EnvBatch(t.env).start(t.keys[some], t.level[some])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.asarray(a), b[some]), again, t.seen["start"])
    prompts = t.seen["prompts"][:, 0]
    for level in range(1, t.env.num_levels):
        rows = np.flatnonzero(t.level == level)
        both = {p.tobytes() + x.tobytes() for p, x in zip(prompts[rows], t.seen["picture"][rows])}
        assert len(both) >= KEYS * 0.7, f"level {level}: {len(both)} distinct instances from {KEYS} keys"


@every_env
def test_pictures_show_something_and_change_with_the_state(env_id):
    t = tour(env_id)
    pictures = t.seen["picture"].reshape(len(t.level), -1)
    assert (pictures.max(axis=1) > pictures.min(axis=1)).all()
    if t.env.horizon > 1:
        assert (t.seen["picture_after"] != t.seen["picture"]).any(axis=(1, 2, 3)).mean() > 0.9


@every_env
def test_texts(env_id):
    t = tour(env_id)
    prompts = t.seen["prompts"]
    instruction = t.env.answer.instruction
    marks = ("Observation:\n", "State: ", "Hint: ", "Rules: ")
    for i in range(0, len(t.level), 7):
        shown = [jaxenv.text.decode(prompts[i, h][None])[0] for h in range(len(SHOWN))]
        for part in range(4):
            assert [m in shown[5 + part] for m in marks] == [m == marks[part] for m in marks]
        shown = shown[:5]
        for h, p in enumerate(shown):
            assert p.isascii() and p.endswith(instruction) and "\n\n\n" not in p and "  \n" not in p
            assert ("Observation:\n" in p) == (h <= 0)
            assert ("State: " in p) == (h <= 1)
            assert ("Hint: " in p) == (h <= 2)
            assert ("Rules: " in p) == (h <= 3)
            assert (prompts[i, h] != 0).sum() == len(p)  # no hole inside
        assert len(shown[0]) > len(shown[1]) > len(shown[2]) > len(shown[3]) > len(shown[4])
        question = bytes(b for b in t.seen["question"][i] if b).decode()
        assert all(p.startswith(question) for p in shown)
        obs = bytes(b for b in t.seen["text_obs"][i] if b).decode()
        symbolic = jaxenv.text.decode(t.seen["symbolic"][i][None])[0]
        assert obs in symbolic and obs in shown[0] and obs not in shown[4]


@every_env
def test_hints_do_not_give_the_answer(env_id):
    """The hint may depend on the question, never on the answer: same hint for different answers."""
    t = tour(env_id)
    for level in range(t.env.num_levels):
        rows = np.flatnonzero(t.level == level)
        answers = {a.tobytes() for a in t.seen["action"][rows]}
        hints = {h.tobytes() for h in t.seen["text_hint"][rows]}
        assert len(hints) <= max(1, len(answers) // 2) or len(answers) == 1


@every_env
def test_codec_round_trip(env_id):
    t = tour(env_id)
    for action in t.seen["action"]:
        reply = codec.write(t.env.answer, action)
        np.testing.assert_array_equal(codec.read(t.env.answer, reply), action)
        np.testing.assert_array_equal(
            codec.read(t.env.answer, "Let me think. <answer>?</answer> So: " + reply), action
        )


@every_env
def test_codec_survives_random_bytes(env_id):
    answer = jaxenv.make(env_id, 1024).answer
    rng = random.Random(0)
    good = codec.write(answer, tour(env_id).seen["action"][0])
    for k in range(10_000):
        junk = bytes(rng.randrange(256) for _ in range(rng.randrange(40))).decode("latin-1")
        if k % 3 == 0:  # a good answer, damaged
            cut = rng.randrange(len(good))
            junk = good[:cut] + junk[: rng.randrange(4)] + good[cut + rng.randrange(3) :]
        elif k % 3 == 1:
            junk = f"<answer>{junk}</answer>"
        action = codec.read(answer, junk)
        assert action.shape == (answer.size,) and action.dtype == np.int32


@every_env
def test_any_action_is_survived(env_id):
    """Any i32 values: nothing breaks, and the picture, texts and oracle of what follows exist."""
    t = tour(env_id)
    rng = np.random.default_rng(0)
    rows = np.linspace(0, len(t.level) - 1, KEYS, dtype=int)  # as many as elsewhere: compiled once
    start = jax.tree.map(lambda x: x[rows], t.seen["start"])
    for low, high in ((-3, 12), (-(2**31), 2**31 - 1)):
        actions = rng.integers(low, high, (len(rows), t.env.answer.size)).astype(np.int32)
        moved = EnvBatch(t.env).step(t.keys[rows], start, actions)
        assert ((np.asarray(moved.reward) >= 0) & (np.asarray(moved.reward) <= 1)).all()
        assert (np.asarray(moved.t) == 1).all()


@every_env
def test_goldens(env_id):
    """One picture, prompt and answer per environment; `make goldens` rewrites them, a reviewed act."""
    assert json.loads(GOLDENS.read_text())[env_id] == golden(tour(env_id))


@every_env
def test_resolutions(env_id):
    smallest = min(jaxenv.make(env_id, 1024).min_resolution)
    with pytest.raises(ValueError, match="legible"):
        jaxenv.make(env_id, smallest - 8)
    for size in (smallest, 224, 256, 512):
        env = jaxenv.make(env_id, size)
        draw = lambda level, env=env: env.render(env.init(jax.random.key(1), level))  # noqa: E731
        assert jax.eval_shape(draw, jnp.int32(0)).shape == (size, size, 3)
        if size == smallest:
            for level in {0, env.num_levels - 1}:
                picture = np.asarray(jax.jit(draw)(jnp.int32(level)))
                assert picture.max() > picture.min()
