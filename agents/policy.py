"""The policy as compiled functions: sampling a group per prompt and scoring given answers, prompt read once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from agents import qwen3vl
from agents.prompts import Prompt, PromptBatch, bucket, pack

Params = Any  # nnx.State of the model's parameters
_NEVER = -1e9  # logit of a banned token: probability 0 in float32, finite gradient


@dataclass(frozen=True)
class Policy:
    """A model without its parameters: hashable, a static argument of compiled functions."""

    config: qwen3vl.Config
    graph: Any  # nnx.GraphDef
    banned: tuple[int, ...]  # ids that are never sampled and have no probability in scores either

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Every call of a compiled function asks, and a graph takes a millisecond.
        return hash((self.config, self.graph, self.banned))

    def model(self, params: Params) -> qwen3vl.Qwen3VL:
        return nnx.merge(self.graph, params)


def create(config: qwen3vl.Config, key: Array, banned: Sequence[int] = ()) -> tuple[Policy, Params]:
    """A freshly initialised model. Picture tokens are always banned; `banned` adds more (unused special tokens)."""
    params = _initialise(config, key)
    abstract = nnx.eval_shape(lambda: qwen3vl.Qwen3VL(config, rngs=nnx.Rngs(params=0)))
    return _policy(config, nnx.graphdef(abstract), banned), params


@partial(jax.jit, static_argnames="config")
def _initialise(config: qwen3vl.Config, key: Array) -> Params:
    # One compiled program: initialising eagerly would compile every shape by itself.
    return nnx.state(qwen3vl.Qwen3VL(config, rngs=nnx.Rngs(params=key)))


def hold(config: qwen3vl.Config, model: qwen3vl.Qwen3VL, banned: Sequence[int] = ()) -> tuple[Policy, Params]:
    """The policy and the parameters of a model that exists."""
    graph, params = nnx.split(model)
    return _policy(config, graph, banned), params


def _policy(config: qwen3vl.Config, graph, banned: Sequence[int]) -> Policy:
    never = {config.image_token, config.vision_start, config.vision_end, config.video_token, *banned} - {None}
    if config.eos in never:
        raise ValueError("the token that ends a reply cannot be banned")
    return Policy(config, graph, tuple(sorted(never)))


def parameter_count(params: Params) -> int:
    return sum(x.size for x in jax.tree.leaves(params))


def _prefill(policy: Policy, model: qwen3vl.Qwen3VL, prompts: PromptBatch) -> qwen3vl.Prefix:
    if prompts.pictures is None:
        return model.prefill(prompts.tokens, prompts.lengths, None, None)
    patch = policy.config.vision.patch
    grid = (prompts.pictures.shape[-3] // patch, prompts.pictures.shape[-2] // patch)
    return model.prefill(
        prompts.tokens, prompts.lengths, qwen3vl.patchify(prompts.pictures, policy.config), grid
    )


def _logits(policy: Policy, model: qwen3vl.Qwen3VL, hidden: Array, temperature: Array) -> Array:
    """f32[..., vocab] logits at the sampling temperature; banned tokens have no probability."""
    logits = model.logits(hidden)
    allowed = np.ones(policy.config.text.vocab, bool)
    allowed[list(policy.banned)] = False
    logits = jnp.where(allowed.reshape((1,) * (logits.ndim - 1) + (-1,)), logits, _NEVER)
    # Greedy sampling (temperature 0) is scored at temperature 1.
    return logits / jnp.where(temperature > 0, temperature, 1.0)


def _log_prob(logits: Array, tokens: Array) -> Array:
    """f32[...] of i32[...] tokens. Its gradient is more than twice as fast as that of a gathered log_softmax."""
    chosen = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
    return chosen - jax.nn.logsumexp(logits, axis=-1)


def _draw(logits: Array, uniform: Array) -> Array:
    """i32[...] tokens with the probabilities of logits f32[..., vocab], by uniform numbers f32[...] in [0, 1).

    The first token whose cumulative probability exceeds the number. One random number a token: a Gumbel number for
    every entry of the vocabulary is what a step on a CPU would spend much of its time on.
    """
    weights = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    reached = jnp.cumsum(weights, axis=-1)
    total = reached[..., -1:]
    wanted = jnp.minimum(uniform[..., None] * total, jnp.nextafter(total, jnp.float32(0.0)))
    return jnp.argmax(reached > wanted, axis=-1)


@partial(jax.jit, static_argnames=("policy", "samples", "max_new"))
def sample(
    policy: Policy,
    params: Params,
    prompts: PromptBatch,
    key: Array,
    temperature: Array,
    samples: int,
    max_new: int,
) -> tuple[Array, Array, Array]:
    """Sample `samples` replies of at most `max_new` tokens per prompt, the prompt's keys and values shared.

    Args:
        temperature: f32[]; 0 takes the most probable token.
    Returns:
        tokens i32[B, S, T], log-probs f32[B, S, T] of what was sampled, mask bool[B, S, T] of what was sampled
        (the token that ends the reply included; padding beyond).
    """
    model = policy.model(params)
    prefix = _prefill(policy, model, prompts)
    rows = prompts.tokens.shape[0]
    shape = (rows, samples, max_new)
    hidden = jnp.broadcast_to(prefix.hidden[:, None, :], (rows, samples, prefix.hidden.shape[-1]))
    cache = qwen3vl.empty_cache(policy.config, rows, samples, max_new)
    start = (
        jnp.int32(0), hidden, cache, jnp.full(shape, policy.config.pad, jnp.int32), jnp.zeros(shape, jnp.float32),
        jnp.zeros(shape, bool), jnp.zeros((rows, samples), bool),
    )  # fmt: skip

    def running(carry):
        t, *_, ended = carry
        return (t < max_new) & ~jnp.all(ended)

    def step(carry):
        t, hidden, cache, tokens, log_probs, mask, ended = carry
        logits = _logits(policy, model, hidden, temperature)
        drawn = _draw(logits, jax.random.uniform(jax.random.fold_in(key, t), logits.shape[:-1], jnp.float32))
        token = jnp.where(temperature > 0, drawn, jnp.argmax(logits, axis=-1)).astype(jnp.int32)
        token = jnp.where(ended, policy.config.pad, token)
        log_prob = _log_prob(logits, token)
        tokens = tokens.at[:, :, t].set(token)
        log_probs = log_probs.at[:, :, t].set(jnp.where(ended, 0.0, log_prob))
        mask = mask.at[:, :, t].set(~ended)
        ended = ended | (token == policy.config.eos)
        # The last token's successor is never needed, but a branch here would cost more than it saves.
        hidden, cache = model.extend(prefix, cache, token[..., None], t)
        return t + 1, hidden[:, :, 0], cache, tokens, log_probs, mask, ended

    _, _, _, tokens, log_probs, mask, _ = jax.lax.while_loop(running, step, start)
    return tokens, log_probs, mask


def score(
    policy: Policy, params: Params, prompts: PromptBatch, tokens: Array, temperature: Array
) -> tuple[Array, Array]:
    """Log-probs f32[B, S, T] of given answers i32[B, S, T] and the entropies f32[B, S, T] at their places.

    The log-probs are differentiable; the prompt is read once for its S answers. Values beyond an answer's end mean nothing.
    """
    model = policy.model(params)
    prefix = _prefill(policy, model, prompts)
    rows, samples, length = tokens.shape
    first = jnp.broadcast_to(prefix.hidden[:, None, None, :], (rows, samples, 1, prefix.hidden.shape[-1]))
    if length > 1:
        cache = qwen3vl.empty_cache(policy.config, rows, samples, length - 1)
        rest, _ = model.extend(prefix, cache, tokens[:, :, :-1], 0)
        first = jnp.concatenate([first, rest], axis=2)
    logits = _logits(policy, model, first, temperature)
    log_probs = jax.nn.log_softmax(
        jax.lax.stop_gradient(logits), axis=-1
    )  # entropy is a statistic, not an objective
    return _log_prob(logits, tokens), -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


@dataclass(frozen=True)
class Samples:
    """n replies to one prompt. The mask is True on sampled tokens only, the one that ends the reply included."""

    tokens: np.ndarray  # i32[n, T]
    log_probs: np.ndarray  # f32[n, T]
    mask: np.ndarray  # bool[n, T]
    # Of the weights that wrote each reply; empty: the generator holds one version only.
    versions: tuple[str, ...] = ()


class Generator(Protocol):
    """What writes replies: in-process here; a server behind the same call elsewhere."""

    at_once: int  # replies to one prompt that cost about as much as one
    version: str  # of the weights that it was asked to use; "" in this process

    def generate(self, prompts: Sequence[Prompt], counts: Sequence[int], key: Array) -> list[Samples]:
        """`counts[i]` replies to prompt i, deterministic by key where the generator is."""


@dataclass(frozen=True)
class Shapes:
    """Static shapes of compiled batches: every further prompt or reply length costs one more compile."""

    buckets: tuple[int, ...]  # prompt lengths; longer prompts take multiples of the last
    replies: tuple[int, ...]  # reply lengths; no reply is longer than the last
    rows: int = 16  # prompts of one batch
    samples: int = 8  # replies per prompt and batch

    def __post_init__(self):
        for name in ("buckets", "replies"):
            sizes = getattr(self, name)
            if not sizes or list(sizes) != sorted(set(sizes)) or sizes[0] < 1:
                raise ValueError(f"shapes.{name} must be increasing positive lengths, got {sizes}")
        for name in ("rows", "samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"shapes.{name} must be positive, got {getattr(self, name)}")


class JaxGenerator:
    """Replies sampled in this process. `params` is replaced after each update."""

    version = ""

    def __init__(self, policy: Policy, params: Params, shapes: Shapes, temperature: float = 1.0):
        self.policy, self.params, self.shapes, self.temperature = policy, params, shapes, temperature
        self.at_once = shapes.samples

    def generate(self, prompts: Sequence[Prompt], counts: Sequence[int], key: Array) -> list[Samples]:
        shapes = self.shapes
        if len(counts) != len(prompts) or min(counts, default=1) < 1:
            raise ValueError(f"{len(prompts)} prompts need as many counts of at least 1, got {list(counts)}")
        # One row for every `samples` replies of a prompt; alike prompts side by side, so that a batch ends together.
        rows = [i for i, count in enumerate(counts) for _ in range(-(-count // shapes.samples))]
        lengths = [bucket(len(p.ids), shapes.buckets) for p in prompts]
        rows.sort(key=lambda i: (lengths[i], prompts[i].kind, i))
        pieces: list[list[tuple]] = [[] for _ in prompts]
        number = 0
        while rows:
            length = lengths[rows[0]]
            chunk = [i for i in rows[: shapes.rows] if lengths[i] == length]
            rows = rows[len(chunk) :]
            # Late in long episodes a turn asks for one or two prompts: a narrow batch costs a third of a full one.
            quarter = -(-shapes.rows // 4)
            size = quarter if len(chunk) <= quarter else shapes.rows
            batch = pack([prompts[i] for i in chunk], size, length, self.policy.config.pad)
            out = sample(
                self.policy, self.params, batch, jax.random.fold_in(key, number), np.float32(self.temperature),
                shapes.samples, shapes.replies[-1],
            )  # fmt: skip
            tokens, log_probs, mask = (np.asarray(x) for x in out)
            for row, i in enumerate(chunk):
                pieces[i].append((tokens[row], log_probs[row], mask[row]))
            number += 1
        return [
            Samples(*(np.concatenate(parts)[:count] for parts in zip(*piece)))
            for piece, count in zip(pieces, counts)
        ]
