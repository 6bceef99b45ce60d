"""Train a policy by GRPO on any environments under any curriculum: `python -m experiments.train nano --run-dir runs/x`."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from tqdm import tqdm

from agents import cloning, grpo
from agents.checkpoint import Checkpoints
from agents.policy import Params
from agents.rollout import Rollouts, collect, join, keep
from agents.serving.client import ServingError
from agents.serving.weights import ExportFailed
from curriculum.base import Request, rows
from experiments import report
from experiments.configs import CLI, DEFAULT, Evaluation, Preset
from experiments.evaluate import evaluate, evaluate_policy, policy_player
from experiments.run import Run
from experiments.setup import Setup, build, serving
from jaxenv import harness

_STATISTICS = ("entropy", "ratio", "highest_ratio", "clipped_low", "clipped_high", "kl_old", "kl_reference",
               "mismatch", *grpo.MISMATCH, "grad_norm", "loss")  # fmt: skip


def clone(setup: Setup, run: Run) -> Params:
    """Behaviour cloning (`config.cloning`), resumed from its newest checkpoint; gives the base policy's parameters."""
    config, settings = setup.config, setup.config.cloning
    checkpoints = Checkpoints(run.path("checkpoints/clone"))
    key = jax.random.fold_in(jax.random.key(config.seed), 1)
    shares = settings.split([0.0] * len(setup.mixed.ids))
    state = {"params": setup.params, "optimizer": settings.optimizer().init(setup.params), "shares": shares}
    start = 0
    if checkpoints.latest is not None:
        start = checkpoints.latest
        state = checkpoints.restore(state)
    run.cut("cloning", "step", start)
    run.cut("cloning_probes", "step", start - 1)  # the probe at `start` is made again
    params, optimizer, shares = state["params"], state["optimizer"], np.asarray(state["shares"])
    # The compiled step donates its parameters: the caller's stay untouched.
    params = jax.tree.map(jnp.copy, params)
    with tqdm(total=settings.steps, initial=start, desc="behaviour cloning", unit="step") as bar:
        for first in range(start, settings.steps, cloning.BLOCK):
            if settings.probes(first):
                shares = settings.split(probe(setup, run, params, first))
            batches = cloning.block(
                setup.mixed,
                setup.writer,
                setup.targets,
                jax.random.fold_in(key, first),
                settings,
                shares,
                config.shapes,
                setup.policy.config.pad,
            )
            losses = []
            for batch in batches[: settings.steps - first]:
                params, optimizer, loss = cloning.step(setup.policy, settings, params, optimizer, *batch)
                losses.append(float(loss))
                bar.update()
            done = first + len(losses)
            bar.set_postfix(loss=f"{np.mean(losses):.3f}")
            run.append("cloning", {"step": done, "loss": float(np.mean(losses))})
            run.log({"cloning/step": done, "cloning/loss": float(np.mean(losses))})
            last = done >= settings.steps
            if last or (first // cloning.BLOCK + 1) % config.checkpoint_every == 0:
                checkpoints.save(done, {"params": params, "optimizer": optimizer, "shares": shares})
    checkpoints.close()
    return params


PROBE_SEED = 2_000_000  # of the first probed instance: none of them is evaluated later


def probe(setup: Setup, run: Run, params: Params, step: int) -> list[float]:
    """Mean score of every environment at H4 and its eval level, from a few episodes."""
    settings = Evaluation(setup.config.cloning.probe_episodes, PROBE_SEED)
    play = policy_player(setup, params, settings.temperature)
    scores = evaluate(setup.mixed, play, settings, held_out=False, label=None)
    values = {e: float(v.mean()) for e, v in scores.value.items()}
    run.append("cloning_probes", {"step": step, **values})
    run.log({"cloning/step": step} | {f"cloning/{e}/score": v for e, v in values.items()})
    return list(values.values())


@dataclass
class Progress:
    """Everything that training changes; all of it is in the checkpoint."""

    learner: grpo.Learner
    curriculum: object
    update: int = 0
    generated: int = 0  # prompts, those among them that the curriculum refused
    trained: int = 0  # prompts whose group had an advantage

    def tree(self) -> dict:
        learner = {"optimizer": self.learner.optimizer_state, "reference": self.learner.reference}
        counters = {name: np.int64(getattr(self, name)) for name in ("update", "generated", "trained")}
        return {"params": self.learner.params, **learner, "curriculum": self.curriculum, "counters": counters}

    @staticmethod
    def of(tree: dict) -> "Progress":
        learner = grpo.Learner(tree["params"], tree["optimizer"], tree["reference"])
        counters = tree["counters"]
        return Progress(learner, tree["curriculum"], **{name: int(n) for name, n in counters.items()})


@dataclass
class Batch:
    """The groups generated for one update: B groups, in requests padded to R rows (see `Request`)."""

    request: Request
    success: np.ndarray  # f32[R], nan in padding
    reward: np.ndarray  # f32[R]
    rollouts: Rollouts
    env: np.ndarray  # i32[B]
    trains: np.ndarray  # bool[B] groups that the curriculum takes a gradient on


def generate(setup: Setup, params: Params, state, key: jax.Array, most: int) -> Batch:
    """Rollouts of what the curriculum samples; then of its refills, in place of groups that it refuses.

    At most `most` prompts, a batch or more, are generated in all.
    """
    config, curriculum, generator = setup.config, setup.curriculum, setup.generator(params)
    k_sample, k_play = jax.random.split(key)
    request = curriculum.sample(k_sample, state, config.batch)
    parts: list[Batch] = []
    missing, room = config.batch, most
    for refill in range(curriculum.refills + 1):
        if refill:
            request = curriculum.refill(jax.random.fold_in(k_sample, refill), state, config.batch)
            spare = jnp.arange(config.batch) >= min(missing, room)
            request = request.replace(env=jnp.where(spare, -1, request.env))
        env = np.asarray(request.env)
        real = np.flatnonzero(env >= 0)
        if not len(real):
            break
        k_part = jax.random.fold_in(k_play, refill) if refill else k_play
        played = collect(setup.mixed, generator, setup.writer, rows(request, real), config.group_size, k_part)
        success, reward = (np.full(config.batch, np.nan, np.float32) for _ in range(2))
        success[real], reward[real] = per_group(played, played.success), per_group(played, played.ret)
        trains = np.asarray(curriculum.trains(state, request, success, reward))[real]
        parts.append(Batch(request, success, reward, played, env[real], trains))
        missing, room = missing - int(trains.sum()), room - len(real)
        if min(missing, room) <= 0:
            break
    return Batch(
        request=jax.tree.map(lambda *x: jnp.concatenate(x), *(part.request for part in parts)),
        rollouts=join([part.rollouts for part in parts]),
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("success", "reward", "env", "trains")
        },
    )


def reinforce(setup: Setup, run: Run, base: Params, name: str = "train") -> Params:
    """GRPO under the curriculum from the base policy, resumed from its newest checkpoint; gives the trained parameters."""
    config = setup.config
    checkpoints = Checkpoints(run.path(f"checkpoints/{name}"))
    progress = Progress(
        grpo.init(config.grpo, jax.tree.map(jnp.copy, base)), setup.curriculum.init(setup.targets)
    )
    if checkpoints.latest is not None:
        progress = Progress.of(checkpoints.restore(progress.tree()))
    for lines in (name, f"{name}_curriculum"):
        run.cut(lines, "update", progress.update)
    key = jax.random.fold_in(jax.random.key(config.seed), 2)
    ids = setup.mixed.ids
    spent = lambda: progress.update * config.batch if config.budget == "updates" else progress.generated  # noqa: E731
    with tqdm(total=config.updates * config.batch, initial=spent(), desc=name, unit="prompt") as bar:
        while spent() + config.batch <= config.prompts:
            began = time.perf_counter()
            before = spent()
            k_update = jax.random.fold_in(key, progress.update)
            most = config.prompts - before if config.budget == "generated" else sys.maxsize
            batch = generate(setup, progress.learner.params, progress.curriculum, k_update, most)
            rollouts = batch.rollouts
            progress.curriculum, state = setup.curriculum.update(
                progress.curriculum, batch.request, batch.success, batch.reward
            )
            metrics = {"live_groups": 0.0}
            if batch.trains.any():
                progress.learner, metrics = grpo.update(
                    setup.policy, config.grpo, progress.learner, keep(rollouts, batch.trains), config.shapes
                )
            progress.update += 1
            progress.generated += len(batch.env)
            progress.trained += round(metrics["live_groups"] * int(batch.trains.sum()))
            row = {
                "update": progress.update,
                "prompts": progress.generated,
                "trained_prompts": progress.trained,
                "rollouts": progress.generated * config.group_size,
                "success": float(rollouts.success.mean()),
                "return": float(rollouts.ret.mean()),
                "invalid": float(1.0 - rollouts.valid.mean()),
                "turns": float(rollouts.length.mean()),
                "reply_tokens": float(rollouts.mask.sum(axis=1).mean()),
                "unique_prompts": len(rollouts.prompts),
                "accepted_groups": float(batch.trains.mean()),
                "live_groups": metrics["live_groups"],
                **{k: metrics.get(k, float("nan")) for k in _STATISTICS},
                "seconds": time.perf_counter() - began,
            }
            row["samples_per_second"] = len(rollouts.replies) / row["seconds"]
            run.append(name, row)
            _log_curriculum(run, name, ids, row, batch, state)
            _log(run, name, row, batch, ids, config.group_size)
            bar.update(spent() - before)
            bar.set_postfix(success=f"{row['success']:.2f}", live=f"{row['live_groups']:.2f}")
            if progress.update % config.checkpoint_every == 0 or spent() + config.batch > config.prompts:
                checkpoints.save(progress.update, progress.tree())
    checkpoints.close()
    return progress.learner.params


def per_group(rollouts: Rollouts, values: np.ndarray) -> np.ndarray:
    """f32[B]: the mean of one value per episode over each group."""
    sums = np.bincount(rollouts.group, values.astype(np.float64))
    return (sums / np.bincount(rollouts.group)).astype(np.float32)


def _log_curriculum(run: Run, name: str, ids, progress: dict, batch: Batch, state) -> None:
    """One row per environment and update: where its frontier is and what this batch's prompts at it gave."""
    state = {k: np.asarray(v) for k, v in state.items()}
    env = np.asarray(batch.request.env)
    for e, env_id in enumerate(ids):
        mine = env == e
        row = {
            "update": progress["update"],
            "prompts": progress["prompts"],
            "env": env_id,
            "harness": int(state["harness"][e]),
            "level": int(state["level"][e]),
            "mastered": int(state["mastered"][e]) if "mastered" in state else 0,
            "frontier_success": float(state["frontier_success"][e]),
            "drawn": int(mine.sum()),
            "success": float(batch.success[mine].mean()) if mine.any() else float("nan"),
        }
        run.append(f"{name}_curriculum", row)


def _log(run: Run, name: str, row: dict, batch: Batch, ids, group_size: int) -> None:
    rollouts = batch.rollouts
    metrics = {f"{name}/{k}": v for k, v in row.items() if k != "prompts"} | {"prompts": row["prompts"]}
    for e in np.unique(batch.env):
        mine = np.repeat(batch.env == e, group_size)
        metrics[f"{name}/{ids[e]}/success"] = float(rollouts.success[mine].mean())
        metrics[f"{name}/{ids[e]}/return"] = float(rollouts.ret[mine].mean())
    metrics |= frontiers(run.rows(f"{name}_curriculum")[-len(ids) :], name)
    if row["update"] % 25 == 1:
        metrics[f"{name}/samples"] = report.sample_table(rollouts, 6)
    run.log(metrics)


def frontiers(lines: list[dict[str, str]], name: str) -> dict[str, float]:
    """For wandb: every environment's frontier, and the share of environments at each harness level."""
    prefix = "curriculum" if name == "train" else f"{name}_curriculum"
    fields = {"harness": "harness", "level": "level", "success": "frontier_success"}
    metrics = {f"{prefix}/{line['env']}/{k}": float(line[v]) for line in lines for k, v in fields.items()}
    for level in range(len(harness.LEVELS)):
        share = np.mean([int(line["harness"]) == level for line in lines])
        metrics[f"{prefix}/at_H{level}"] = float(share)
    return metrics


def main(experiment: Preset = DEFAULT, run_dir: Path = Path("runs/train"), resume: bool = False) -> None:
    """Clone if the preset says so, evaluate, train, evaluate again.

    Args:
        experiment: a preset, with flags for everything in it.
        run_dir: where the run goes.
        resume: continue the run in `run_dir`.
    """
    try:
        run = Run(run_dir, experiment, resume)
    except (FileExistsError, ValueError) as error:
        sys.exit(f"train: {error}")
    try:
        with serving(build(experiment), run.path("serving")) as setup:
            base = clone(setup, run) if experiment.cloning.steps else setup.params
            before = evaluate_policy(setup, run, base, "base")
            trained = reinforce(setup, run, base)
            after = evaluate_policy(setup, run, trained, "trained", experiment.prompts)
        print(report.comparison(run, before, {"trained": after}))
        report.curves(run, "train")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; add --resume to continue")
    except (ServingError, ExportFailed) as error:
        sys.exit(f"train: {error}\nadd --resume to continue")
    finally:
        run.close()


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, config=CLI)
