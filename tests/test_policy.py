"""Sampling and scoring agree, padding and packing do not show, and replies come back to their prompts."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import SHAPES, narrow, prompts, setup

from agents import policy as policy_module
from agents.policy import JaxGenerator, Shapes, hold, parameter_count, sample, score
from agents.prompts import Prompt, PromptWriter, bucket, image_tokens, pack

SAMPLES, LENGTH = 4, 6
scored = jax.jit(score, static_argnums=0)


def batch_of(length, with_picture=True, rows=4):
    """A batch of one length bucket (100 or 200), with or without pictures."""
    held = setup()
    some = [p for p in prompts(12) if bucket(len(p.ids), SHAPES.buckets) == length][:rows]
    assert len({len(p.ids) for p in some}) > 1
    if not with_picture:
        image = held.policy.config.image_token
        some = [Prompt(p.ids[p.ids != image], None) for p in some]
    return pack(some, rows, length, held.policy.config.pad)


def draw(batch, seed=0, temperature=1.0, policy=None):
    out = sample(
        policy or narrow(),
        setup().params,
        batch,
        jax.random.key(seed),
        np.float32(temperature),
        SAMPLES,
        LENGTH,
    )
    return tuple(np.asarray(x) for x in out)


@pytest.mark.parametrize("with_picture", [True, False])
@pytest.mark.parametrize("length", [100, 200])
def test_log_probs_of_samples_equal_teacher_forced_scores(length, with_picture):
    batch = batch_of(length, with_picture)
    for temperature in (1.0, 0.7):
        tokens, log_probs, mask = draw(batch, 3, temperature)
        assert mask.any() and not mask.all()
        forced, entropy = scored(narrow(), setup().params, batch, tokens, np.float32(temperature))
        np.testing.assert_allclose(log_probs[mask], np.asarray(forced)[mask], atol=1e-4)
        assert (np.asarray(entropy) >= 0).all() and (np.asarray(entropy) <= np.log(7) + 1e-5).all()
    cold = scored(narrow(), setup().params, batch, tokens, np.float32(0.7))[0]
    warm = scored(narrow(), setup().params, batch, tokens, np.float32(1.0))[0]
    assert np.abs(np.asarray(cold - warm))[mask].max() > 1e-3


def test_mask_ends_with_the_token_that_ends_the_reply():
    tokens, log_probs, mask = draw(batch_of(100), 1)
    eos, pad = narrow().config.eos, narrow().config.pad
    ended = 0
    for row, logs, seen in zip(
        tokens.reshape(-1, LENGTH), log_probs.reshape(-1, LENGTH), mask.reshape(-1, LENGTH)
    ):
        places = np.flatnonzero(row == eos)
        count = places[0] + 1 if len(places) else LENGTH
        ended += len(places)
        np.testing.assert_array_equal(seen, np.arange(LENGTH) < count)
        assert (row[count:] == pad).all() and (logs[count:] == 0).all() and (logs[:count] < 0).all()
    assert 0 < ended < mask.shape[0] * SAMPLES


def test_greedy_is_deterministic_and_the_argmax_of_a_plain_forward():
    batch = batch_of(100)
    tokens, log_probs, mask = draw(batch, 1, 0.0)
    again = draw(batch, 2, 0.0)
    np.testing.assert_array_equal(tokens, again[0])
    assert (tokens == tokens[:, :1]).all()  # every sample of a prompt
    forced, _ = scored(narrow(), setup().params, batch, tokens, np.float32(0.0))
    np.testing.assert_allclose(log_probs[mask], np.asarray(forced)[mask], atol=1e-4)
    whole = np.concatenate([np.asarray(batch.tokens), np.zeros_like(batch.tokens[:, :LENGTH])], axis=1)
    for row, n, reply in zip(whole, batch.lengths, tokens[:, 0]):
        row[n : n + LENGTH] = reply
    logits = np.asarray(
        plain_logits(narrow(), setup().params, whole, batch.lengths + LENGTH, batch.pictures)
    ).copy()
    logits[:, :, list(narrow().banned)] = -np.inf
    for row, n, reply, seen in zip(logits, batch.lengths, tokens[:, 0], mask[:, 0]):
        np.testing.assert_array_equal(row[n - 1 : n - 1 + LENGTH].argmax(axis=1)[seen], reply[seen])


@partial(jax.jit, static_argnums=0)
def plain_logits(policy, params, tokens, lengths, pictures):
    model = policy.model(params)
    grid = (pictures.shape[2] // 8, pictures.shape[3] // 8)
    return model.logits(
        model.forward(tokens, lengths, policy_module.qwen3vl.patchify(pictures, policy.config), grid)
    )


def test_banned_tokens_are_never_sampled_and_have_no_probability():
    held = setup()
    config = held.policy.config
    assert {config.image_token, config.vision_start, config.vision_end, config.pad} <= set(held.policy.banned)
    tokens, _, mask = draw(batch_of(100), 5)
    assert not np.isin(tokens[mask], narrow().banned).any()
    assert len(np.unique(tokens[mask])) > 3
    # All probability at a place is on the allowed tokens, and none on a banned one.
    batch = batch_of(100)
    allowed = sorted(set(range(config.text.vocab)) - set(narrow().banned))
    total = 0.0
    for token in [*allowed, *narrow().banned[:3]]:
        tokens = np.full((4, SAMPLES, LENGTH), token, np.int32)
        p = np.exp(np.asarray(scored(narrow(), held.params, batch, tokens, np.float32(1))[0])[:, 0, 0])
        total = total + p
        assert (p > 0).all() if token in allowed else (p == 0).all()
    np.testing.assert_allclose(total, 1.0, atol=1e-5)


def test_drawn_tokens_follow_the_softmax_and_never_have_probability_zero():
    probability = np.asarray([0.0, 0.5, 0.0, 0.2, 0.3, 0.0], np.float32)
    logits = jnp.where(probability > 0, jnp.log(probability), policy_module._NEVER) + 3.0
    # Evenly spaced numbers hit every token in proportion to its probability; then the ends of [0, 1).
    uniform = (jnp.arange(10_000, dtype=jnp.float32) + 0.5) / 10_000
    drawn = policy_module._draw(jnp.tile(logits, (10_000, 1)), uniform)
    np.testing.assert_allclose(np.bincount(drawn, minlength=6) / 10_000, probability, atol=2e-4)
    ends = jnp.asarray([0.0, np.nextafter(np.float32(1), np.float32(0))])
    assert policy_module._draw(jnp.tile(logits, (2, 1)), ends).tolist() == [1, 4]
    many = jax.random.normal(jax.random.key(0), (512, 3000)) * 4
    last = policy_module._draw(many, jnp.full(512, ends[1]))
    assert (last > 2900).all()  # rounding of a long sum never wraps round to the first token


def test_the_ending_token_cannot_be_banned():
    held = setup()
    with pytest.raises(ValueError, match="ends a reply"):
        hold(held.policy.config, held.policy.model(held.params), [held.policy.config.eos])


def test_hold_takes_a_model_that_exists():
    held = setup()
    again, params = hold(held.policy.config, held.policy.model(held.params), held.policy.banned)
    assert again.banned == held.policy.banned and parameter_count(params) == parameter_count(held.params)
    jax.tree.map(np.testing.assert_array_equal, params, held.params)


@partial(jax.jit, static_argnums=0)
def weighted(policy, params, batch, tokens, weight):
    """A weighted sum of log-probs and its gradient."""

    def value(params):
        return (score(policy, params, batch, tokens, jnp.float32(1.0))[0] * weight).sum()

    return jax.value_and_grad(value)(params)


def test_shared_prefix_equals_separate_prompts_in_value_and_gradient():
    batch = batch_of(100)
    tokens, _, mask = draw(batch, 7)
    weight = np.random.default_rng(0).normal(size=mask.shape).astype(np.float32) * mask
    params = setup().params
    value, grads = weighted(narrow(), params, batch, tokens, weight)
    alone = [weighted(narrow(), params, batch, tokens[:, [s]], weight[:, [s]]) for s in range(SAMPLES)]
    np.testing.assert_allclose(value, sum(v for v, _ in alone), rtol=1e-5)
    summed = jax.tree.map(lambda *g: sum(g), *(g for _, g in alone))
    for got, want in zip(jax.tree.leaves(grads), jax.tree.leaves(summed)):
        np.testing.assert_allclose(got, want, atol=1e-5 * (1 + np.abs(want).max()))
    assert any(np.abs(g).max() > 1e-3 for g in jax.tree.leaves(grads))


def test_rows_and_bucket_do_not_change_results():
    held = setup()
    some = [p for p in prompts(12) if len(p.ids) <= 100][:2]
    pad = held.policy.config.pad
    results = []
    for rows, length in ((4, 100), (4, 200)):
        batch = pack(some, rows, length, pad)
        tokens, log_probs, mask = draw(batch, 11)
        results.append((tokens[:2], log_probs[:2], mask[:2]))
        forced, _ = scored(narrow(), held.params, batch, tokens, np.float32(1))
        np.testing.assert_allclose(np.asarray(forced)[:2][mask[:2]], log_probs[:2][mask[:2]], atol=1e-5)
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-5)
    # What stands in the missing rows is irrelevant: they repeat the last prompt.
    full = pack([*some, *prompts(12)[4:6]], 4, 200, pad)
    np.testing.assert_allclose(draw(full, 11)[1][:2], results[1][1], atol=1e-5)


# ---- generator ----


@pytest.fixture(scope="module")
def generator():
    return JaxGenerator(narrow(), setup().params, dataclasses.replace(SHAPES, replies=(LENGTH,)))


COUNTS = [1, 4, 5, 9, 3, 2, 8]


def check(samples, some, counts):
    """Every reply has the log-probs of its own prompt."""
    for one, prompt, count in zip(samples, some, counts):
        assert one.tokens.shape == one.log_probs.shape == one.mask.shape == (count, LENGTH)
        batch = pack([prompt], 4, bucket(len(prompt.ids), SHAPES.buckets), narrow().config.pad)
        for low in range(0, count, SAMPLES):
            rows = np.minimum(np.arange(low, low + SAMPLES), count - 1)
            tokens = np.broadcast_to(one.tokens[rows], (4, SAMPLES, LENGTH))
            forced = np.asarray(scored(narrow(), setup().params, batch, tokens, np.float32(1))[0])[0]
            np.testing.assert_allclose(forced[one.mask[rows]], one.log_probs[rows][one.mask[rows]], atol=1e-4)


def test_generator_gives_each_prompt_its_number_of_replies(generator):
    some = prompts(len(COUNTS))
    assert len({bucket(len(p.ids), SHAPES.buckets) for p in some}) == 2
    samples = generator.generate(some, COUNTS, jax.random.key(0))
    check(samples, some, COUNTS)
    again = generator.generate(some, COUNTS, jax.random.key(0))
    for a, b in zip(samples, again):
        jax.tree.map(np.testing.assert_array_equal, (a.tokens, a.log_probs), (b.tokens, b.log_probs))
    other = generator.generate(some, COUNTS, jax.random.key(1))
    assert any((a.tokens != b.tokens).any() for a, b in zip(samples, other))


def test_generator_takes_prompts_in_any_order(generator):
    some = prompts(len(COUNTS))
    order = np.random.default_rng(0).permutation(len(some))
    counts = [COUNTS[i] for i in order]
    check(
        generator.generate([some[i] for i in order], counts, jax.random.key(2)),
        [some[i] for i in order],
        counts,
    )
    greedy = JaxGenerator(narrow(), setup().params, generator.shapes, temperature=0.0)
    straight = greedy.generate(some, COUNTS, jax.random.key(0))
    shuffled = greedy.generate([some[i] for i in order], counts, jax.random.key(5))
    for k, i in enumerate(order):
        np.testing.assert_array_equal(shuffled[k].tokens, straight[i].tokens)


def test_a_narrow_batch_draws_what_a_full_one_draws(generator):
    """One prompt alone, in a batch of a quarter of the rows, and as the first of a full batch."""
    some = prompts(7)
    alike = [
        p for p in some if bucket(len(p.ids), SHAPES.buckets) == bucket(len(some[0].ids), SHAPES.buckets)
    ]
    assert len(alike) > SHAPES.rows // 4
    (alone,) = generator.generate(alike[:1], [SAMPLES], jax.random.key(3))
    among = generator.generate(alike, [SAMPLES] * len(alike), jax.random.key(3))
    first = sorted(range(len(alike)), key=lambda i: (alike[i].kind, i))[0]
    assert first == 0
    np.testing.assert_array_equal(alone.tokens, among[0].tokens)
    np.testing.assert_allclose(alone.log_probs, among[0].log_probs, atol=1e-5)


def test_samples_follow_the_probabilities(generator):
    prompt, count = prompts(1)[0], 1600
    (one,) = generator.generate([prompt], [count], jax.random.key(9))
    first, where = np.unique(one.tokens[:, 0], return_index=True)
    for token, index in zip(first, where):
        p, n = np.exp(one.log_probs[index, 0]), (one.tokens[:, 0] == token).sum()
        assert abs(n / count - p) < 4.5 * np.sqrt(p * (1 - p) / count)
    assert len(first) == 7


def test_generator_refuses_what_it_cannot_do(generator):
    some = prompts(2)
    for counts in ([1], [1, 0], [1, 2, 3]):
        with pytest.raises(ValueError, match="counts of at least 1"):
            generator.generate(some, counts, jax.random.key(0))
    assert generator.generate([], [], jax.random.key(0)) == []
    mixed = [some[0], Prompt(some[0].ids, None)]
    with pytest.raises(ValueError, match="with and without a picture"):
        generator.generate(mixed, [1, 1], jax.random.key(0))


@pytest.mark.parametrize(
    "field, value",
    [
        ("buckets", ()),
        ("buckets", (8, 8)),
        ("replies", (4, 2)),
        ("replies", (0,)),
        ("rows", 0),
        ("samples", 0),
    ],
)
def test_impossible_shapes_are_refused(field, value):
    with pytest.raises(ValueError, match=f"shapes.{field}"):
        Shapes(**{"buckets": (8,), "replies": (4,), field: value})


# ---- prompts ----


def test_bucket():
    assert [bucket(n, (8, 16)) for n in (1, 8, 9, 16, 17, 33)] == [8, 8, 16, 16, 32, 48]


def test_image_tokens():
    assert image_tokens(64, 8, 1) == 64 and image_tokens(256, 16, 2) == 64
    with pytest.raises(ValueError, match="100 px"):
        image_tokens(100, 8, 2)


def test_prompt_writer_keeps_prompts_with_and_without_picture_apart():
    writer = PromptWriter(setup().writer.tokenizer, 4)
    picture = np.zeros((16, 16, 3), np.uint8)
    with_picture, without, again = (
        writer("Name it.", picture),
        writer("Name it.", None),
        writer("Name it.", picture, 3),
    )
    assert len(with_picture.ids) == len(without.ids) + 6
    np.testing.assert_array_equal(again.ids, with_picture.ids)
    assert again.kind == 3
