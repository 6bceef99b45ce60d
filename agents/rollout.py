"""Rollouts: groups of episodes played by the policy, one prompt per turn, equal prompts computed once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from agents.policy import Generator
from agents.prompts import Prompt, PromptWriter
from agents.tokenizer import Tokenizer
from curriculum.base import Request
from jaxenv import MixedBatch, harness


@dataclass
class Rollouts:
    """All turns of a batch of episodes. M turns, N episodes, B groups, T tokens of the longest reply.

    A turn's `prompt` indexes `prompts`: turns of equal state under equal harness share one.
    """

    prompts: list[Prompt]
    prompt_texts: list[str]
    # one entry per turn
    episode: np.ndarray  # i32[M]
    prompt: np.ndarray  # i32[M]
    tokens: np.ndarray  # i32[M, T]
    log_probs: np.ndarray  # f32[M, T]
    mask: np.ndarray  # bool[M, T]
    replies: list[str]
    valid: np.ndarray  # bool[M]
    reward: np.ndarray  # f32[M]
    # one entry per episode
    group: np.ndarray  # i32[N]
    ret: np.ndarray  # f32[N]
    success: np.ndarray  # bool[N]
    length: np.ndarray  # i32[N] turns
    version: str = ""  # of the weights that wrote every reply


class StaleSamples(RuntimeError):
    """A reply by other weights than the learner asked for."""


@dataclass
class _Log:
    """Turns as they happen."""

    prompts: list[Prompt] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    index: dict[bytes, int] = field(default_factory=dict)


def instance_keys(seeds: np.ndarray) -> Array:
    """One instance key per seed: every episode of a group gets the same one."""
    return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))


def keep(rollouts: Rollouts, groups: np.ndarray) -> Rollouts:
    """The rollouts of some groups (bool[B]), renumbered in their order; prompts stay, used or not."""
    if groups.all():
        return rollouts
    episodes = groups[rollouts.group]
    turns = episodes[rollouts.episode]
    number = lambda kept: np.cumsum(kept, dtype=np.int32) - 1  # noqa: E731
    per_turn = ("prompt", "tokens", "log_probs", "mask", "valid", "reward")
    return Rollouts(
        rollouts.prompts,
        rollouts.prompt_texts,
        episode=number(episodes)[rollouts.episode[turns]],
        **{name: getattr(rollouts, name)[turns] for name in per_turn},
        replies=[reply for reply, kept in zip(rollouts.replies, turns) if kept],
        group=number(groups)[rollouts.group[episodes]],
        **{name: getattr(rollouts, name)[episodes] for name in ("ret", "success", "length")},
        version=rollouts.version,
    )


def join(parts: Sequence[Rollouts]) -> Rollouts:
    """Batches of rollouts as one, in order. Raises StaleSamples if different weights wrote them."""
    if len(parts) == 1:
        return parts[0]
    versions = {part.version for part in parts}
    if len(versions) > 1:
        raise StaleSamples(f"rollouts by different weights cannot be one batch: {sorted(versions)}")

    def joined(name: str, sizes: Sequence[int] = ()) -> np.ndarray:
        """One field; indices move by the sizes of the parts before."""
        offsets = np.cumsum([0, *sizes[:-1]]) if sizes else [0] * len(parts)
        arrays = [getattr(part, name) for part in parts]
        return np.concatenate([a + o if sizes else a for a, o in zip(arrays, offsets)]).astype(
            arrays[0].dtype
        )

    return Rollouts(
        prompts=[p for part in parts for p in part.prompts],
        prompt_texts=[t for part in parts for t in part.prompt_texts],
        episode=joined("episode", [len(part.ret) for part in parts]),
        prompt=joined("prompt", [len(part.prompts) for part in parts]),
        **{name: joined(name) for name in ("tokens", "log_probs", "mask", "valid", "reward")},
        replies=[reply for part in parts for reply in part.replies],
        group=joined("group", [int(part.group.max()) + 1 for part in parts]),
        **{name: joined(name) for name in ("ret", "success", "length")},
        version=parts[0].version,
    )


def collect(
    mixed: MixedBatch,
    generator: Generator,
    writer: PromptWriter,
    request: Request,
    group_size: int,
    key: Array,
    shown: np.ndarray | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> Rollouts:
    """Play `group_size` episodes of every requested prompt to their end.

    The prompt of a turn is the state alone, without history, so turns in equal states under equal harness are one
    prompt, generated together.

    Args:
        request: B rows; row i becomes the group i of `group_size` episodes of one instance.
        shown: harness parts bool[B, 4]; default: those of `request.harness`.
        progress: called with the number of episodes finished since the last call.
    Raises:
        StaleSamples: a reply was written by other weights than the generator's.
    """
    env, level, seed = (
        np.repeat(np.asarray(x), group_size) for x in (request.env, request.level, request.seed)
    )
    if shown is None:
        shown = harness.LEVELS[np.asarray(request.harness)]
    shown = np.repeat(np.asarray(shown), group_size, axis=0)
    count = len(env)
    edits = np.repeat(np.asarray(request.edits), group_size, axis=0)
    groups = mixed.start(env, level, instance_keys(seed), edits)
    log = _Log()
    turns: dict[str, list] = {name: [] for name in ("episode", "prompt", "sample", "valid", "reward")}
    replies: list[str] = []
    pool: dict[int, list[tuple]] = {}  # replies to each prompt that nobody has used yet
    done = np.zeros(count, bool)
    turn = 0
    while not done.all():
        k_turn = jax.random.fold_in(key, turn)
        active = np.flatnonzero(~done)
        prompt_of = _look(mixed, groups, active, env, shown, writer, log)
        asked, where = np.unique(prompt_of, return_inverse=True)
        _fill(pool, asked, np.bincount(where), generator, log.prompts, jax.random.fold_in(k_turn, 0))
        texts = ["<answer></answer>"] * count
        for row, p in zip(active, prompt_of):
            one = pool[p].pop()
            turns["sample"].append(one)
            texts[row] = read_reply(writer.tokenizer, one[0], one[2])
            replies.append(texts[row])
        groups = mixed.step(jax.random.split(jax.random.fold_in(k_turn, 1), count), groups, texts)
        turns["episode"].append(active)
        turns["prompt"].append(prompt_of)
        turns["valid"].append(mixed.field(groups, "valid")[active])
        turns["reward"].append(mixed.field(groups, "reward")[active])
        finished = mixed.field(groups, "done")
        progress(int((finished & ~done).sum()))
        done = finished
        turn += 1
    tokens, log_probs, mask = (np.stack(part) for part in zip(*turns["sample"]))
    ret = mixed.field(groups, "ret")
    return Rollouts(
        log.prompts, log.texts,
        np.concatenate(turns["episode"]).astype(np.int32), np.concatenate(turns["prompt"]).astype(np.int32),
        tokens, log_probs, mask, replies, np.concatenate(turns["valid"]), np.concatenate(turns["reward"]),
        np.repeat(np.arange(len(np.asarray(request.env)), dtype=np.int32), group_size), ret,
        mixed.field(groups, "success"), mixed.field(groups, "t"), generator.version,
    )  # fmt: skip


def _fill(
    pool: dict[int, list[tuple]],
    asked: np.ndarray,
    wanted: np.ndarray,
    generator: Generator,
    prompts: list[Prompt],
    key: Array,
) -> None:
    """See to it that every asked prompt has as many unused replies as are wanted.

    Replies to one prompt are independent draws of one policy, so those that a batch yields beyond the wanted ones
    serve later turns in the same state.
    """
    short = [(p, n - len(pool.get(p, ()))) for p, n in zip(asked.tolist(), wanted.tolist())]
    short = [(p, -(-n // generator.at_once) * generator.at_once) for p, n in short if n > 0]
    if not short:
        return
    samples = generator.generate([prompts[p] for p, _ in short], [n for _, n in short], key)
    asked_for = generator.version
    for (p, n), s in zip(short, samples, strict=True):
        if len(s.tokens) != n:
            raise ValueError(f"{n} replies to a prompt were asked for, {len(s.tokens)} came")
        if (s.versions or ("",) * n) != (asked_for,) * n:
            raise StaleSamples(f"replies by the weights {asked_for!r} were asked for, got {s.versions}")
        pool.setdefault(p, []).extend(zip(s.tokens[::-1], s.log_probs[::-1], s.mask[::-1]))


def read_reply(tokenizer: Tokenizer, tokens: np.ndarray, mask: np.ndarray) -> str:
    """The text of one sampled reply."""
    return tokenizer.decode(tokens[mask])


def _look(mixed: MixedBatch, groups, active, env, shown, writer: PromptWriter, log: _Log) -> np.ndarray:
    """The index of each active episode's prompt; prompts not seen before are drawn, written and logged."""
    identities = mixed.identities(groups)
    keys = [identities[row] + shown[row].tobytes() for row in active]
    fresh: dict[bytes, int] = {}
    for row, k in zip(active, keys):
        if k not in log.index and k not in fresh:
            fresh[k] = row
    if fresh:
        rows = np.asarray(list(fresh.values()))
        some = mixed.select(groups, rows)
        texts = mixed.prompts(some, shown[rows])
        pictures = mixed.render(some) if mixed.modality == "picture" else [None] * len(rows)
        for k, row, text, picture in zip(fresh, rows, texts, pictures):
            log.index[k] = len(log.prompts)
            log.prompts.append(writer(text, picture, int(env[row])))
            log.texts.append(text)
    return np.asarray([log.index[k] for k in keys])
