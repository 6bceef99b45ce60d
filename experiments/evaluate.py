"""Evaluate a checkpoint, an endpoint, the oracle, a random or an idle policy: `python -m experiments.evaluate --help`.

Always at H4 and each environment's `eval_level` (paper Appendix B): success for single-turn environments, normalised
return for multi-turn ones.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jax
import numpy as np
import tyro
from tqdm import tqdm

from aes.llm import Endpoint
from agents.policy import Params
from agents.rollout import Rollouts, collect, instance_keys
from curriculum.base import HARDEST, Request
from experiments import report
from experiments.configs import CLI, DEFAULT, Evaluation, Preset
from experiments.endpoint import Stopped, endpoint_player
from experiments.run import Run
from experiments.setup import Setup, build, load_params, serving
from jaxenv import MixedBatch, codec, harness

ENDPOINT = Endpoint(temperature=1.0, structured="none")  # free text: an answer is read as a policy's
CHUNK = 256  # episodes of one environment played at a time


@dataclass(frozen=True)
class Scores:
    """One policy's episodes: per environment id, f32[episodes] of each kind, in the order of the instances."""

    success: dict[str, np.ndarray]
    value: dict[str, np.ndarray]  # success (single-turn) or normalised return (multi-turn)
    single_turn: dict[str, bool]
    held_out: dict[str, bool]
    invalid: dict[str, float]  # share of invalid actions

    def as_dict(self) -> dict:
        listed = {k: {e: v.tolist() for e, v in getattr(self, k).items()} for k in ("success", "value")}
        return {**listed, "single_turn": self.single_turn, "held_out": self.held_out, "invalid": self.invalid}

    @staticmethod
    def of(stored: dict) -> "Scores":
        arrays = {
            k: {e: np.asarray(v, np.float32) for e, v in stored[k].items()} for k in ("success", "value")
        }
        return Scores(
            **arrays,
            single_turn=stored["single_turn"],
            held_out=stored["held_out"],
            invalid=stored["invalid"],
        )


Player = Callable[
    [MixedBatch, Request, jax.Array, Callable[[int], object]], tuple[np.ndarray, np.ndarray, float]
]
"""Plays a request's episodes: returns success bool[B], return f32[B], share of invalid actions."""


def request(env: int, level: int, seeds: np.ndarray) -> Request:
    """Instances of one environment at H4."""
    full = lambda x: np.full(len(seeds), x, np.int32)  # noqa: E731
    return Request(env=full(env), harness=full(HARDEST), level=full(level), seed=seeds, stage=full(0))


def policy_player(
    setup: Setup,
    params: Params,
    temperature: float,
    keep: list[Rollouts] | None = None,
    shown: Sequence[bool] = harness.LEVELS[HARDEST],
) -> Player:
    """The policy at a sampling temperature (0: greedy), with the harness parts that are `shown`.

    `keep` receives the rollouts.
    """
    generator = setup.evaluator(params, temperature)

    def play(mixed, wanted, key, progress):
        parts = np.tile(np.asarray(shown, bool), (len(np.asarray(wanted.env)), 1))
        rollouts = collect(mixed, generator, setup.writer, wanted, 1, key, parts, progress)
        if keep is not None:
            keep.append(rollouts)
        return rollouts.success, rollouts.ret, float(1 - rollouts.valid.mean())

    return play


def scripted_player(kind: str) -> Player:
    """`oracle`: the environment's own `solve`; `random`: uniformly random well-formed answers; `idle`: no answer."""
    if kind not in ("oracle", "random", "idle"):
        raise ValueError(f"a scripted policy is oracle, random or idle, not {kind!r}")

    def play(mixed, wanted, key, progress):
        groups = mixed.start(wanted.env, wanted.level, instance_keys(wanted.seed))
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        codecs = [mixed.batches[e].env.answer for e in np.asarray(wanted.env)]
        done = np.zeros(len(codecs), bool)
        turn, invalid, actions = 0, 0, 0
        while not done.all():
            if kind == "oracle":
                replies = mixed.solve(groups)
            elif kind == "random":
                replies = [codec.write(c, c.random(rng)) for c in codecs]
            else:
                replies = [""] * len(codecs)
            keys = jax.random.split(jax.random.fold_in(key, turn), len(codecs))
            groups = mixed.step(keys, groups, replies)
            invalid += int((~mixed.field(groups, "valid") & ~done).sum())
            actions += int((~done).sum())
            finished = mixed.field(groups, "done")
            progress(int((finished & ~done).sum()))
            done, turn = finished, turn + 1
        return mixed.field(groups, "success"), mixed.field(groups, "ret"), invalid / actions

    return play


def evaluate(
    mixed: MixedBatch, play: Player, settings: Evaluation, held_out: bool, label: str | None
) -> Scores:
    """Every environment of a mixed batch at its `eval_level`, on the same instances for every policy.

    `label` names the progress bar; None: no bar.
    """
    success, value, single, invalid = {}, {}, {}, {}
    total = settings.episodes * len(mixed.batches)
    with tqdm(total=total, desc=f"evaluate {label}", unit="episode", disable=label is None) as bar:
        for index, batch in enumerate(mixed.batches):
            env = batch.env
            parts = []
            for low in range(0, settings.episodes, CHUNK):
                seeds = np.arange(low, min(low + CHUNK, settings.episodes)) + settings.seed
                wanted = request(index, env.eval_level, seeds.astype(np.uint32))
                parts.append(
                    play(mixed, wanted, jax.random.fold_in(jax.random.key(settings.seed), low), bar.update)
                )
            wins, returns = (np.concatenate([p[k] for p in parts]).astype(np.float32) for k in (0, 1))
            success[env.id], single[env.id] = wins, env.horizon == 1
            value[env.id] = wins if env.horizon == 1 else normalise(mixed, index, settings, returns)
            invalid[env.id] = float(np.mean([p[2] for p in parts]))
    return Scores(success, value, single, dict.fromkeys(success, held_out), invalid)


def normalise(mixed: MixedBatch, index: int, settings: Evaluation, returns: np.ndarray) -> np.ndarray:
    """Returns in [0, 1] as they are; against chance or an opponent, 0 is random play and 1 what `solve` reaches."""
    env = mixed.batches[index].env
    if env.solvable:
        return returns
    low, high = (anchor(mixed, index, settings, kind) for kind in ("random", "oracle"))
    return (returns - low) / (high - low)


def anchor(mixed: MixedBatch, index: int, settings: Evaluation, kind: str) -> float:
    """Mean return of a scripted policy on the evaluation's instances (at most 512 of them)."""
    seeds = (np.arange(min(settings.episodes, 512)) + settings.seed).astype(np.uint32)
    wanted = request(index, mixed.batches[index].env.eval_level, seeds)
    _, returns, _ = scripted_player(kind)(mixed, wanted, jax.random.key(settings.seed), lambda done: None)
    return float(returns.mean())


def merge(scores: list[Scores]) -> Scores:
    """Scores of disjoint sets of environments as one."""
    fields = ("success", "value", "single_turn", "held_out", "invalid")
    return Scores(*({k: v for s in scores for k, v in getattr(s, name).items()} for name in fields))


def evaluate_policy(
    setup: Setup, run: Run, params: Params, name: str, prompts: int = 0, keep: list[Rollouts] | None = None
) -> Scores:
    """Evaluate parameters once per run and name: on a resumed run the stored scores are read back."""
    stored = run.stored(f"eval_{name}")
    if stored is not None:
        return Scores.of(stored)
    settings = setup.config.evaluation
    play = policy_player(setup, params, settings.temperature, keep)
    parts = [evaluate(setup.mixed, play, settings, held_out=False, label=name)]
    if settings.ood:
        model = setup.config.model
        parts.append(
            evaluate(
                MixedBatch(settings.ood, model.resolution, model.modality),
                play,
                settings,
                True,
                f"{name} ood",
            )
        )
    scores = merge(parts)
    run.store(f"eval_{name}", scores.as_dict())
    run.log({f"eval/{name}/{e}": float(v.mean()) for e, v in scores.value.items()} | {"prompts": prompts})
    return scores


def main(
    experiment: Preset = DEFAULT,
    policy: Literal["checkpoint", "endpoint", "oracle", "random", "idle"] = "oracle",
    run_dir: Path | None = None,
    stage: str = "train",
    endpoint: Endpoint = ENDPOINT,
    answers: Path = Path("runs/endpoint"),
    most_tokens: int | None = None,
) -> None:
    """Print a policy's scores per environment, with 95% intervals.

    Args:
        experiment: a preset with flags; its `envs` are evaluated as ID, its `evaluation.ood` as OOD environments.
        policy: whose play is evaluated.
        run_dir: with `checkpoint`: the run folder whose newest checkpoint is taken; its config must be `experiment`'s.
        stage: with `checkpoint`: which checkpoints of the run, `train` or `clone`.
        endpoint: with `endpoint`: the model that is asked; its own `temperature` counts.
        answers: with `endpoint`: the folder that keeps its answers; the same command goes on where it stopped.
        most_tokens: with `endpoint`: tokens that may be spent in all; None: no limit.
    """
    with contextlib.ExitStack() as stack:
        try:
            _main(stack, experiment, policy, run_dir, stage, endpoint, answers, most_tokens)
        except Stopped as error:
            raise SystemExit(f"{error}\nanswers are kept in {answers}: the same command goes on") from None


def _main(stack, experiment, policy, run_dir, stage, endpoint, answers, most_tokens) -> None:
    model, settings = experiment.model, experiment.evaluation
    if policy == "checkpoint":
        if run_dir is None:
            raise SystemExit("--policy checkpoint needs --run-dir")
        setup = stack.enter_context(serving(build(experiment), run_dir / "serving"))
        try:
            params = load_params(setup, run_dir / "checkpoints" / stage)
        except FileNotFoundError as error:
            raise SystemExit(str(error)) from None
        player = policy_player(setup, params, settings.temperature)
    elif policy == "endpoint":
        try:
            player = stack.enter_context(endpoint_player(endpoint, answers, most_tokens))
        except (RuntimeError, ValueError) as error:
            raise SystemExit(str(error)) from None
    else:
        player = scripted_player(policy)
    for env_set, held_out in ((experiment.envs, False), (settings.ood, True)):
        if env_set:
            mixed = MixedBatch(env_set, model.resolution, model.modality)
            print(table(evaluate(mixed, player, settings, held_out, policy)))
    if policy == "endpoint":
        print(f"{player.counts['replies']:,} replies, {player.counts['cut_off']:,} of them cut off at "
              f"{endpoint.max_tokens} tokens; {player.chat.budget.spent:,} tokens in all")  # fmt: skip


def table(scores: Scores) -> str:
    """A Markdown table of one policy's scores."""
    lines = ["| environment | kind | success | value | invalid |", "|---|---|---|---|---|"]
    for e in scores.value:
        kind = ("ST" if scores.single_turn[e] else "MT") + (" held out" if scores.held_out[e] else "")
        cells = [report.cell(*report.interval(v[e])) for v in (scores.success, scores.value)]
        lines.append(f"| {e} | {kind} | {cells[0]} | {cells[1]} | {100 * scores.invalid[e]:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, config=CLI)
