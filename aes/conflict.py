"""Gradient conflicts between environments: `python -m aes.conflict --help` (Sections 2.2 and 3.2, Appendix B.2).

GRPO gradients of one policy, without training it: 10 batches an environment, each of 10 prompts with 16 rollouts. The
cosine of two environments is that of their mean directions: every batch's gradient has length 1, or 0 where no group had
both better and worse rollouts. Only sketches of gradients are kept (aes/sketch.py).

Writes, into the folder of the run or wherever --out says:

- `gradients/<environment>.npz`: the sketches of its batches. A stopped run goes on where it stopped.
- `conflict.json`: cosines, and the environments whose gradients say too little; their cosines are 0.
- `conflict_pairs.csv`: each pair's cosine with its 95% bootstrap interval over batches, and two other readings of it.
- `conflict_environments.csv`: batches with a gradient, and their reliability: the mean cosine of two of them.
"""

import dataclasses
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import numpy as np
import tyro
from jax import Array
from tqdm import tqdm
from tyro.conf import Positional

import jaxenv
from aes import collect as collecting
from aes import formats
from aes.files import alone, save_csv, write_whole
from aes.formats import FormatError, Matrix, Profiles
from aes.sketch import gradients
from agents import grpo
from agents.policy import JaxGenerator, Params, Policy, Shapes
from agents.prompts import PromptWriter
from agents.rollout import Rollouts, collect, keep
from curriculum.base import Request
from jaxenv import MixedBatch
from jaxenv.harness import LEVELS, Modality

BOOTSTRAPS = 1000


@dataclass(frozen=True)
class Settings:
    batches: int = 10  # per environment
    prompts: int = 10  # per batch
    rollouts: int = 16  # per prompt
    seed: int = 3_000_000  # of the first instance; the next ones count up
    level: int | None = None  # None: each environment's eval_level
    harness: int = 4  # 0 (all four helping texts) .. 4 (none)
    resolution: int = 256  # of the pictures, in pixels
    modality: Modality = "picture"
    temperature: float = 1.0
    advantage: Literal["trajectory", "step"] = "trajectory"
    lora: int = 0  # rank of adapters at every linear layer; 0: gradients of all parameters
    sketch: int = 8192  # numbers that are kept of a gradient
    signal: float = 0.3  # share of batches that must have a gradient

    def __post_init__(self):
        for name in ("prompts", "sketch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("batches", "rollouts"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, got {getattr(self, name)}")
        if not 0 <= self.harness < len(LEVELS):
            raise ValueError(f"harness must be 0..{len(LEVELS) - 1}, got {self.harness}")
        if self.lora < 0:
            raise ValueError(f"lora must not be negative, got {self.lora}")
        if not 0 < self.signal <= 1:
            raise ValueError(f"signal must be in (0, 1], got {self.signal}")
        _ = self.grpo  # raises for an impossible temperature or advantage

    @property
    def grpo(self) -> grpo.Config:
        return grpo.Config(temperature=self.temperature, advantage=self.advantage)

    @property
    def needed(self) -> int:
        """Batches with a gradient, below which an environment's cosines are noise."""
        return max(2, math.ceil(self.signal * self.batches))


# ---- rollouts and gradients ----


@dataclass(frozen=True)
class Unit:
    """What the gradient of one batch is made from."""

    chunks: list[grpo.Chunk]  # none without a live group
    tokens: float  # in live groups


def units(rollouts: Rollouts, settings: Settings, shapes: Shapes, pad: int) -> list[Unit]:
    """The batches of one environment's rollouts, whose groups stand in the order of batches."""
    groups = np.arange(settings.batches * settings.prompts) // settings.prompts
    out = []
    for batch in range(settings.batches):
        mine = keep(rollouts, groups == batch)
        pairs = grpo.pairs(mine, grpo.advantages(mine, settings.grpo))
        chunks = grpo.chunks(mine.prompts, pairs, shapes, pad) if pairs.live.any() else []
        out.append(Unit(chunks, max(pairs.total_tokens, 1.0)))
    return out


def sketches(
    policy: Policy, params: Params, wanted: Sequence[Unit], settings: Settings, at_once: int, key: Array
) -> np.ndarray:
    """f32[units, sketch]: the gradient of each, `at_once` chunks of equal shape side by side."""
    todo = [(chunk, place) for place, unit in enumerate(wanted) for chunk in unit.chunks]
    shape = lambda item: (item[0].prompts.tokens.shape, item[0].tokens.shape)  # noqa: E731
    todo.sort(key=shape)
    out = np.zeros((len(wanted), settings.sketch), np.float32)
    while todo:
        some = [item for item in todo[:at_once] if shape(item) == shape(todo[0])]
        todo = todo[len(some) :]
        # One size, one compile: what is missing repeats the last chunk, and is not added.
        chunks, places = zip(*some, *[some[-1]] * (at_once - len(some)))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *chunks)
        tokens = np.asarray([wanted[p].tokens for p in places], np.float32)
        made = gradients(policy, settings.grpo, params, stacked, tokens, key, settings.sketch, settings.lora)
        np.add.at(out, np.asarray(places[: len(some)]), np.asarray(made)[: len(some)])
    return out


def request(index: int, level: int, settings: Settings) -> Request:
    """All prompts of one environment, batch after batch."""
    count = settings.batches * settings.prompts
    full = lambda x: np.full(count, x, np.int32)  # noqa: E731
    seeds = (settings.seed + np.arange(count)).astype(np.uint32)
    return Request(
        env=full(index), harness=full(settings.harness), level=full(level), seed=seeds, stage=full(0)
    )


# ---- what gradients say ----


@dataclass(frozen=True)
class Conflict:
    """E environments."""

    cosine: np.ndarray  # f64[E, E] of mean directions; 0 where the signal is low
    low: np.ndarray  # f64[E, E] 2.5% of its bootstrap
    high: np.ndarray  # f64[E, E] 97.5%
    pairwise: np.ndarray  # f64[E, E] mean cosine of a batch of one and a batch of the other
    reliability: np.ndarray  # f64[E] mean cosine of two batches of the environment; nan with fewer than two
    live: np.ndarray  # i64[E] batches that have a gradient
    low_signal: np.ndarray  # bool[E]

    @property
    def corrected(self) -> np.ndarray:
        """f64[E, E]: cosines without the noise of batches. A diagnostic: it can leave [-1, 1], nan if unreliable."""
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.sqrt(np.outer(self.reliability, self.reliability))
            return np.where(scale > 0, self.pairwise / scale, np.nan)


def conflict(sketched: np.ndarray, needed: int, seed: int = 0, bootstraps: int = BOOTSTRAPS) -> Conflict:
    """From the sketched gradients f32[E, B, k] of B batches of each environment; `needed` as in `Settings`."""
    envs, batches, size = sketched.shape
    length = np.linalg.norm(sketched, axis=-1, keepdims=True)
    live = length[..., 0] > 0
    directions = np.divide(sketched, length, out=np.zeros_like(sketched, np.float64), where=length > 0)
    flat = directions.reshape(envs * batches, size)
    gram = (flat @ flat.T).reshape(envs, batches, envs, batches)
    count = live.sum(axis=1)
    low_signal = count < needed

    def cosines(weights: np.ndarray) -> np.ndarray:
        """Of the directions' means with weights f64[E, B]."""
        inner = np.einsum("eb,ebfc->efc", weights, gram, optimize=True)
        inner = np.einsum("efc,fc->ef", inner, weights, optimize=True)
        scale = np.sqrt(np.maximum(np.diag(inner), 0))
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(np.outer(scale, scale) > 0, inner / np.outer(scale, scale), 0.0)
        value[low_signal] = value[:, low_signal] = 0.0
        np.fill_diagonal(value, 1.0)
        return np.clip(value, -1.0, 1.0)

    rng = np.random.default_rng(seed)
    drawn = np.stack(
        [cosines(rng.multinomial(batches, np.full(batches, 1 / batches), envs)) for _ in range(bootstraps)]
    )
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    sums = gram.sum(axis=(1, 3))
    with np.errstate(invalid="ignore", divide="ignore"):
        pairwise = np.where(np.outer(count, count) > 0, sums / np.outer(count, count), 0.0)
        reliability = np.where(count > 1, (np.diag(sums) - count) / (count * (count - 1)), np.nan)
    return Conflict(cosines(np.ones((envs, batches))), low, high, pairwise, reliability, count, low_signal)


def polarisation(values: np.ndarray) -> dict[str, float]:
    """How far cosines of pairs (off the diagonal) spread: standard deviation, mean size, extremes, share below 0; empty for one."""
    pairs = values[np.triu_indices(len(values), 1)]
    if not len(pairs):
        return {}
    return {
        "std": float(pairs.std()),
        "mean size": float(np.abs(pairs).mean()),
        "smallest": float(pairs.min()),
        "largest": float(pairs.max()),
        "negative": float((pairs < 0).mean()),
    }


# ---- the stage ----


def compute(
    out: Path,
    envs: Sequence[str],
    policy: Policy,
    params: Params,
    writer: PromptWriter,
    shapes: Shapes,
    settings: Settings = Settings(),
    at_once: int = 4,
    head: dict[str, Any] | None = None,
    progress: bool = False,
) -> Conflict:
    """All that is missing in `out`, and the files there; `head` says what it was made from.

    Args:
        at_once: gradients side by side; more needs more memory, and fills a larger machine.
    Raises:
        FormatError: `out` holds gradients of another policy or of other settings.
        RuntimeError: another process works in `out`.
    """
    head = head or formats.made("conflict", dataclasses.asdict(settings))
    folder = out / "gradients"
    key = jax.random.key(settings.seed)
    with alone(folder, "conflict"):
        _check(folder, head)
        generator = JaxGenerator(policy, params, shapes, settings.temperature)
        with tqdm(total=len(envs), unit="environment", disable=not progress) as bar:
            for env in envs:
                bar.set_description(env)
                file = folder / f"{env}.npz"
                if not file.exists():
                    mixed = MixedBatch([env], settings.resolution, settings.modality)
                    level = mixed.batches[0].env.eval_level if settings.level is None else settings.level
                    k_env = jax.random.fold_in(key, collecting.number(env))
                    played = collect(
                        mixed, generator, writer, request(0, level, settings), settings.rollouts, k_env
                    )
                    todo = units(played, settings, shapes, policy.config.pad)
                    made = sketches(policy, params, todo, settings, at_once, key)
                    _save(file, sketch=made, success=played.success.mean(), ret=played.ret.mean())
                bar.update()
        stored = [np.load(folder / f"{env}.npz") for env in envs]
        found = conflict(np.stack([s["sketch"] for s in stored]), settings.needed)
        _write(out, envs, found, stored, head)
    return found


def _check(folder: Path, head: dict[str, Any]) -> None:
    file = folder / "made.json"
    if not file.exists():
        write_whole(file, formats.dumps({"made": head}))
    elif not formats.up_to_date(file, head):
        raise FormatError(f"{folder} holds gradients of another policy or of other settings: see {file}")


def _save(file: Path, **arrays: Any) -> None:
    content = io.BytesIO()
    np.savez(content, **arrays)
    aside = file.with_suffix(".part")
    aside.write_bytes(content.getvalue())
    aside.replace(file)


def _write(
    out: Path, envs: Sequence[str], found: Conflict, stored: Sequence[Any], head: dict[str, Any]
) -> None:
    low_signal = tuple(e for e, low in zip(envs, found.low_signal) if low)
    Matrix(tuple(envs), found.cosine, head, low_signal).save(out / "conflict.json")
    digits = lambda x: "" if np.isnan(x) else f"{x:.4f}"  # noqa: E731
    columns = [
        "environment",
        "other",
        "cosine",
        "low",
        "high",
        "mean of pairs of batches",
        "corrected for noise",
    ]
    fields = (found.cosine, found.low, found.high, found.pairwise, found.corrected)
    rows = [
        [envs[i], envs[j], *(digits(field[i, j]) for field in fields)]
        for i, j in zip(*np.triu_indices(len(envs), 1))
    ]
    save_csv(out / "conflict_pairs.csv", columns, rows)
    columns = ["environment", "batches with a gradient", "reliability", "low signal", "success", "return"]
    rows = [
        [env, int(found.live[i]), digits(found.reliability[i]), int(found.low_signal[i]),
         digits(s["success"]), digits(s["ret"])]
        for i, (env, s) in enumerate(zip(envs, stored))
    ]  # fmt: skip
    save_csv(out / "conflict_environments.csv", columns, rows)


def plan(envs: Sequence[str], settings: Settings, reply_tokens: int) -> str:
    """What it would cost, as a Markdown table."""
    most = sum(jaxenv.make(e, settings.resolution).horizon for e in envs)
    prompts = settings.batches * settings.prompts
    rollouts = prompts * settings.rollouts
    return (
        "| environments | prompts | rollouts | turns at most | reply tokens at most | gradients |\n"
        "|---|---|---|---|---|---|\n"
        f"| {len(envs)} | {len(envs) * prompts:,} | {len(envs) * rollouts:,} | {most * rollouts:,} | "
        f"{most * rollouts * reply_tokens:,} | {len(envs) * settings.batches:,} |\n\n"
        "A turn's prompt is read once, however many rollouts come by, and a gradient reads it once more, forwards and "
        "back. The time of the first environment, on the progress bar, tells that of all."
    )


def main(
    folder: Positional[Path],
    policy: Path,
    envs: tuple[str, ...] = (),
    settings: tyro.conf.OmitArgPrefixes[Settings] = Settings(),
    out: Path | None = None,
    at_once: int = 4,
    reply_tokens: int = 24,
    plan_only: Annotated[bool, tyro.conf.arg(name="plan")] = False,
) -> None:
    """Gradients -> conflict.json.

    Args:
        folder: of the run.
        policy: a model's folder in the Hugging Face layout (`python -m experiments.export` writes one).
        envs: ids of environments; none: those of profiles.json.
        out: where to write; default: the folder.
        at_once: gradients side by side.
        reply_tokens: longest reply.
        plan_only: print what it would cost and do nothing.
    """
    ids = envs or tuple(Profiles.load(folder / "profiles.json").envs)
    print(plan(ids, settings, reply_tokens))
    if plan_only:
        return
    out = out or folder
    weights = {f"policy_{i}": file for i, file in enumerate(sorted(policy.glob("*.safetensors")))}
    head = formats.made("conflict", dataclasses.asdict(settings) | {"reply_tokens": reply_tokens}, **weights)
    held, params, writer = collecting.load_policy(policy, settings.resolution)
    shapes = collecting.shapes(reply_tokens)
    found = compute(out, ids, held, params, writer, shapes, settings, at_once, head, progress=True)
    significant = int((found.high[np.triu_indices(len(ids), 1)] < 0).sum())
    print(
        f"{out}/conflict.json: {polarisation(found.cosine)}; {significant} pairs below 0 with 95% confidence"
    )
    if found.low_signal.any():
        print(f"low signal: {', '.join(e for e, low in zip(ids, found.low_signal) if low)}")


if __name__ == "__main__":
    formats.command(main, __doc__)
