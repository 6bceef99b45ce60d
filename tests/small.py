"""What the tests of the learner share: a tiny policy over a few environments, built once."""

import dataclasses
from functools import cache

import jax
import numpy as np

from agents.policy import Policy, Samples, Shapes
from agents.prompts import Prompt
from curriculum.base import Request
from experiments.configs import Experiment, tiny
from experiments.setup import Setup, build

ENVS = ("frozen_lake", "tictactoe_qa", "rotate_matrix")  # the first is multi-turn, the others single-turn
SHAPES = Shapes(buckets=(100, 200), replies=(3, 6), rows=4, samples=4)


def config(**changes) -> Experiment:
    return tiny(**{"envs": ENVS, "shapes": SHAPES, **changes})


@cache
def setup() -> Setup:
    return build(config())


def request(env, level=None, harness=None, seed=None) -> Request:
    """One row per entry of `env`; levels 0, harness 4 and distinct seeds where not given."""
    env = np.asarray(env, np.int32)
    full = lambda x: np.full(len(env), x, np.int32)  # noqa: E731
    level = full(0) if level is None else np.asarray(level, np.int32)
    harness = full(4) if harness is None else np.asarray(harness, np.int32)
    seed = np.arange(len(env)) if seed is None else np.asarray(seed)
    return Request(env=env, harness=harness, level=level, seed=seed.astype(np.uint32), stage=full(0))


def prompts(count: int = 6) -> list[Prompt]:
    """Prompts with pictures of two length buckets: environments in turn, every other one with all of the harness."""
    held = setup()
    rows = request(np.arange(count) % len(ENVS), harness=np.where(np.arange(count) % 2, 0, 4))
    groups = held.mixed.start(rows.env, rows.level, jax.vmap(jax.random.key)(rows.seed))
    shown = np.asarray([[h == 0] * 4 for h in rows.harness])
    texts, pictures = held.mixed.prompts(groups, shown), held.mixed.render(groups)
    return [held.writer(t, p, int(e)) for t, p, e in zip(texts, pictures, rows.env)]


class Scripted:
    """A generator that writes given texts: `reply(prompt, k)` is the k-th of one call's replies to a prompt."""

    version = ""

    def __init__(self, reply, length: int = 40, at_once: int = 1):
        self.reply, self.length, self.at_once = reply, length, at_once
        self.calls: list[tuple[list[Prompt], list[int]]] = []

    def generate(self, prompts, counts, key):
        self.calls.append((list(prompts), list(counts)))
        out = []
        for prompt, count in zip(prompts, counts):
            tokens = np.full((count, self.length), setup().policy.config.pad, np.int32)
            mask = np.zeros((count, self.length), bool)
            for k in range(count):
                ids = setup().writer.tokenizer.answer(self.reply(prompt, k))
                tokens[k, : len(ids)], mask[k, : len(ids)] = ids, True
            out.append(Samples(tokens, np.where(mask, np.float32(-1), np.float32(0)), mask))
        return out


@cache
def narrow() -> Policy:
    """The tiny policy with most of the vocabulary banned: replies of few tokens that often end by themselves."""
    policy = setup().policy
    allowed = {policy.config.eos, *range(10, 16)}
    return dataclasses.replace(policy, banned=tuple(sorted(set(range(policy.config.text.vocab)) - allowed)))
