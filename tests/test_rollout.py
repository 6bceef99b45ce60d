"""Rollouts: one prompt per state, groups of one instance, turns in time order, replies that reach their episode."""

import dataclasses
import re

import jax
import numpy as np
import pytest
from small import SHAPES, Scripted, narrow, request, setup

from agents import rollout
from agents.policy import JaxGenerator
from agents.rollout import collect, instance_keys, read_reply
from jaxenv import MixedBatch, codec, harness

LAKE, TICTACTOE, ROTATE = range(3)
G = 4


def play(generator, rows, group_size=G, key=0, **options):
    return collect(setup().mixed, generator, setup().writer, rows, group_size, jax.random.key(key), **options)


def oracle_replies(rows):
    """The oracle's reply to every prompt text that its own play comes across."""
    mixed = setup().mixed
    groups = mixed.start(np.asarray(rows.env), np.asarray(rows.level), instance_keys(np.asarray(rows.seed)))
    known = {}
    while True:
        replies = mixed.solve(groups)
        for text, picture, reply in zip(
            mixed.prompts(groups, harness.LEVELS[np.asarray(rows.harness)]), mixed.render(groups), replies
        ):
            known[setup().writer(text, None).ids.tobytes() + picture.tobytes()] = reply
        if mixed.field(groups, "done").all():
            return known
        groups = mixed.step(jax.random.split(jax.random.key(0), len(replies)), groups, replies)


def name_of(prompt):
    image = setup().policy.config.image_token
    start, end = setup().policy.config.vision_start, setup().policy.config.vision_end
    return prompt.ids[~np.isin(prompt.ids, [start, image, end])].tobytes() + prompt.picture.tobytes()


@pytest.fixture(scope="module")
def sampled():
    """A mixed batch played by the policy with a small vocabulary: mostly nonsense, so episodes run to their clock."""
    generator = JaxGenerator(
        narrow(), setup().params, dataclasses.replace(SHAPES, buckets=(200,), replies=(3,))
    )
    rows = request(
        [LAKE, ROTATE, TICTACTOE, LAKE, LAKE],
        level=[0, 1, 0, 1, 1],
        harness=[4, 4, 0, 3, 1],
        seed=[5, 6, 7, 8, 8],
    )
    return rows, play(generator, rows)


def test_shapes_and_order(sampled):
    rows, r = sampled
    turns, episodes = len(r.replies), len(rows.env) * G
    assert r.tokens.shape == r.mask.shape == r.log_probs.shape == (turns, 3)
    assert r.tokens.dtype == np.int32 and r.log_probs.dtype == np.float32 and r.mask.dtype == bool
    assert r.episode.shape == r.prompt.shape == r.valid.shape == r.reward.shape == (turns,)
    assert r.ret.shape == r.success.shape == r.length.shape == (episodes,)
    np.testing.assert_array_equal(r.group, np.repeat(np.arange(5), G))
    np.testing.assert_array_equal(np.bincount(r.episode, minlength=episodes), r.length)
    # Turns in time order: the n-th turn of every episode comes before the (n + 1)-th of any.
    seen = np.zeros(episodes, int)
    clock = []
    for e in r.episode:
        clock.append(seen[e])
        seen[e] += 1
    assert clock == sorted(clock) and max(clock) > 3
    single = np.isin(np.asarray(rows.env)[r.group], [ROTATE, TICTACTOE])
    assert (r.length[single] == 1).all() and (r.length[~single] > 1).all()
    assert len(r.prompts) == len(r.prompt_texts) == r.prompt.max() + 1
    for p, text in zip(r.prompts, r.prompt_texts):
        np.testing.assert_array_equal(p.ids, setup().writer(text, p.picture).ids)


def test_rewards_sum_to_returns(sampled):
    _, r = sampled
    np.testing.assert_allclose(np.bincount(r.episode, r.reward), r.ret, atol=1e-6)
    np.testing.assert_array_equal(r.success, r.ret >= 1 - 1e-6)
    assert not r.valid.any()  # what a random model writes over six letters


def test_replies_are_what_was_sampled(sampled):
    _, r = sampled
    assert r.replies == [read_reply(setup().writer.tokenizer, t, m) for t, m in zip(r.tokens, r.mask)]
    eos = narrow().config.eos
    assert ((r.tokens == eos) & r.mask).any()


def test_a_group_shares_its_instance(sampled):
    rows, r = sampled
    first = {}
    for e, p in zip(r.episode, r.prompt):
        first.setdefault(e, p)
    for g in range(len(rows.env)):
        assert len({first[e] for e in np.flatnonzero(r.group == g)}) == 1
    # Groups 3 and 4 are the same instance under another harness: other prompts, the same picture.
    a, b = (r.prompts[first[g * G]] for g in (3, 4))
    np.testing.assert_array_equal(a.picture, b.picture)
    assert first[3 * G] != first[4 * G]


def test_equal_states_are_one_prompt_and_nothing_else_is(sampled, monkeypatch):
    rows, r = sampled
    # Invalid moves leave the lake as it is: one prompt serves all turns of a group.
    assert len(r.prompts) == 5
    right = oracle_replies(rows)

    def reply(prompt, k):
        """Every other reply is the oracle's, the others walk about."""
        return right.get(name_of(prompt), "<answer>up</answer>") if k % 2 else "<answer>down</answer>"

    counted = Scripted(reply)
    shared = play(counted, rows)
    asked = {p.ids.tobytes() + p.picture.tobytes() for p in shared.prompts}
    assert len(asked) == len(shared.prompts) < len(shared.replies)
    assert sum(sum(counts) for _, counts in counted.calls) == len(shared.replies)

    # With every row an identity of its own no two turns share; each has the prompt that it had before.
    calls = iter(range(10**9))
    monkeypatch.setattr(
        MixedBatch, "identities", lambda self, groups: [b"%d" % next(calls) for g in groups for _ in g.rows]
    )
    replayed = {}
    for e, text in zip(shared.episode, shared.replies):
        replayed.setdefault(int(e), []).append(text)

    class Replay(Scripted):
        """Answers row by row with what the episode said before; one prompt per active episode, in their order."""

        def generate(self, prompts, counts, key):
            assert all(c == 1 for c in counts) and len(prompts) == len(self.active())
            texts = [replayed[e][self.turn] for e in self.active()]
            self.turn += 1
            queue = iter(texts)
            self.reply = lambda prompt, k: next(queue)
            return super().generate(prompts, counts, key)

        def active(self):
            return [e for e in sorted(replayed) if len(replayed[e]) > self.turn]

    apart = Replay(None)
    apart.turn = 0
    r2 = play(apart, rows)
    assert len(r2.prompts) == len(r2.replies)
    np.testing.assert_array_equal(r2.episode, shared.episode)
    assert r2.replies == shared.replies
    for m in range(len(r2.replies)):
        one, other = r2.prompts[r2.prompt[m]], shared.prompts[shared.prompt[m]]
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.picture, other.picture)
        assert one.kind == other.kind
    for name in ("reward", "valid", "ret", "success", "length", "group"):
        np.testing.assert_array_equal(getattr(r2, name), getattr(shared, name))


def test_oracle_replies_succeed_everywhere():
    rows = request([LAKE, TICTACTOE, ROTATE, LAKE], level=[0, 0, 0, 2], harness=[0, 4, 2, 4])
    right = oracle_replies(rows)
    done = []
    r = play(Scripted(lambda prompt, k: f"I think. {right[name_of(prompt)]}"), rows, 3, progress=done.append)
    assert r.success.all() and r.valid.all() and (r.ret >= 1 - 1e-6).all()
    assert sum(done) == 12 and len(set(r.length.tolist())) > 1  # episodes of several lengths in one batch
    # All members of a group do the same, so each turn of a group is one prompt.
    assert len(r.prompts) == r.length[::3].sum()


def test_turns_of_one_prompt_take_different_samples():
    """The k-th episode before a prompt gets the k-th reply: half of the group wins."""
    rows = request([TICTACTOE])
    (right,) = oracle_replies(rows).values()
    wrong = next(
        t for t in (codec.write(setup().mixed.batches[1].env.answer, setup().mixed.batches[1].env.answer.random(np.random.default_rng(k)))
                    for k in range(99)) if t != right
    )  # fmt: skip
    r = play(Scripted(lambda prompt, k: right if k % 2 else wrong), rows, 6)
    np.testing.assert_array_equal(r.success, [False, True] * 3)
    np.testing.assert_array_equal(r.ret, r.reward)
    r = play(Scripted(lambda prompt, k: "up" if k % 2 else right), rows, 6)
    np.testing.assert_array_equal(r.valid, [True, False] * 3)


def test_spare_replies_serve_later_turns_once():
    """Invalid moves leave the lake as it is: the eight replies of one call serve two episodes for four turns."""
    written = iter(range(10**6))
    generator = Scripted(lambda prompt, k: str(next(written)), at_once=8)
    r = play(generator, request([LAKE]), 2)
    turns = r.length[0]
    assert len(r.prompts) == 1 and turns > 4 and (r.length == turns).all() and not r.valid.any()
    assert [counts for _, counts in generator.calls] == [[8]] * -(-2 * turns // 8)
    assert [int(t) for t in r.replies] == list(range(2 * turns))


def test_harness_parts_per_row():
    rows = request([LAKE] * 5, harness=range(5), seed=[3] * 5)
    r = play(Scripted(lambda prompt, k: "none"), rows, 2)
    texts = [r.prompt_texts[r.prompt[2 * g]] for g in range(5)]
    for h, text in enumerate(texts):
        shown = [bool(re.search(mark, text)) for mark in ("Observation:", "State: ", "Hint: ", "Rules: ")]
        assert shown == [h <= 0, h <= 1, h <= 2, h <= 3]
    only = np.stack([harness.only("hint")] * 5)
    r = play(Scripted(lambda prompt, k: "none"), rows, 2, shown=only)
    assert len(r.prompts) == 1 and "Hint: " in r.prompt_texts[0] and "Rules: " not in r.prompt_texts[0]


def test_same_key_same_rollouts(sampled):
    rows, r = sampled
    generator = JaxGenerator(
        narrow(), setup().params, dataclasses.replace(SHAPES, buckets=(200,), replies=(3,))
    )
    again = play(generator, rows)
    np.testing.assert_array_equal(again.tokens, r.tokens)
    other = play(generator, rows, key=1)
    assert other.tokens.shape != r.tokens.shape or (other.tokens != r.tokens).any()


def test_symbolic_modality_has_no_pictures():
    mixed = MixedBatch(["frozen_lake"], 64, "symbolic")
    r = collect(mixed, Scripted(lambda p, k: ""), setup().writer, request([0]), 2, jax.random.key(0))
    assert r.prompts[0].picture is None and "Observation:" in r.prompt_texts[0]
    assert setup().policy.config.image_token not in r.prompts[0].ids


def test_instance_keys_are_those_of_the_seeds():
    keys = instance_keys(np.asarray([0, 7, 2**32 - 1], np.uint32))
    np.testing.assert_array_equal(jax.random.key_data(keys[1]), jax.random.key_data(jax.random.key(7)))
    assert rollout.instance_keys(np.asarray([3])).shape == (1,)
