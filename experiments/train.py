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
from agents.rollout import Rollouts, collect
from curriculum.base import Request
from experiments import report
from experiments.configs import CLI, DEFAULT, Evaluation, Preset
from experiments.evaluate import evaluate, evaluate_policy, policy_player
from experiments.run import Run
from experiments.setup import Setup, build
from jaxenv import harness

_STATISTICS = ("entropy", "ratio", "highest_ratio", "clipped_low", "clipped_high", "kl_old", "kl_reference",
               "mismatch", "grad_norm", "loss")  # fmt: skip


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
    trained: int = 0  # prompts whose group had an advantage

    def tree(self) -> dict:
        learner = {"optimizer": self.learner.optimizer_state, "reference": self.learner.reference}
        counters = {"update": np.int64(self.update), "trained": np.int64(self.trained)}
        return {"params": self.learner.params, **learner, "curriculum": self.curriculum, "counters": counters}

    @staticmethod
    def of(tree: dict) -> "Progress":
        learner = grpo.Learner(tree["params"], tree["optimizer"], tree["reference"])
        counters = tree["counters"]
        return Progress(learner, tree["curriculum"], int(counters["update"]), int(counters["trained"]))


def reinforce(setup: Setup, run: Run, base: Params, name: str = "train") -> Params:
    """GRPO under the curriculum from the base policy, resumed from its newest checkpoint; gives the trained parameters."""
    config = setup.config
    checkpoints = Checkpoints(run.path(f"checkpoints/{name}"))
    progress = Progress(
        grpo.init(config.grpo, jax.tree.map(jnp.copy, base)), config.curriculum.init(setup.targets)
    )
    if checkpoints.latest is not None:
        progress = Progress.of(checkpoints.restore(progress.tree()))
    for rows in (name, f"{name}_curriculum"):
        run.cut(rows, "update", progress.update)
    key = jax.random.fold_in(jax.random.key(config.seed), 2)
    ids = setup.mixed.ids
    with tqdm(
        total=config.updates * config.batch, initial=progress.update * config.batch, desc=name, unit="prompt"
    ) as bar:
        while progress.update < config.updates:
            began = time.perf_counter()
            k_sample, k_play = jax.random.split(jax.random.fold_in(key, progress.update))
            request = config.curriculum.sample(k_sample, progress.curriculum, config.batch)
            rollouts = collect(
                setup.mixed,
                setup.generator(progress.learner.params),
                setup.writer,
                request,
                config.group_size,
                k_play,
            )
            success, reward = per_group(rollouts, rollouts.success), per_group(rollouts, rollouts.ret)
            progress.curriculum, state = config.curriculum.update(
                progress.curriculum, request, success, reward
            )
            progress.learner, metrics = grpo.update(
                setup.policy, config.grpo, progress.learner, rollouts, config.shapes
            )
            progress.update += 1
            progress.trained += round(metrics["live_groups"] * config.batch)
            row = {
                "update": progress.update,
                "prompts": progress.update * config.batch,
                "trained_prompts": progress.trained,
                "rollouts": progress.update * config.batch * config.group_size,
                "success": float(rollouts.success.mean()),
                "return": float(rollouts.ret.mean()),
                "invalid": float(1.0 - rollouts.valid.mean()),
                "turns": float(rollouts.length.mean()),
                "reply_tokens": float(rollouts.mask.sum(axis=1).mean()),
                "unique_prompts": len(rollouts.prompts),
                "live_groups": metrics["live_groups"],
                **{k: metrics.get(k, float("nan")) for k in _STATISTICS},
                "seconds": time.perf_counter() - began,
            }
            row["samples_per_second"] = len(rollouts.replies) / row["seconds"]
            run.append(name, row)
            _log_curriculum(run, name, ids, row["prompts"], request, success, state)
            _log(run, name, row, rollouts, request, ids, config.group_size)
            bar.update(config.batch)
            bar.set_postfix(success=f"{row['success']:.2f}", live=f"{row['live_groups']:.2f}")
            if progress.update % config.checkpoint_every == 0 or progress.update == config.updates:
                checkpoints.save(progress.update, progress.tree())
    checkpoints.close()
    return progress.learner.params


def per_group(rollouts: Rollouts, values: np.ndarray) -> np.ndarray:
    """f32[B]: the mean of one value per episode over each group."""
    sums = np.bincount(rollouts.group, values.astype(np.float64))
    return (sums / np.bincount(rollouts.group)).astype(np.float32)


def _log_curriculum(
    run: Run, name: str, ids, prompts: int, request: Request, success: np.ndarray, state
) -> None:
    """One row per environment and update: where its frontier is and what this batch's prompts at it gave."""
    state = {k: np.asarray(v) for k, v in state.items()}
    env = np.asarray(request.env)
    for e, env_id in enumerate(ids):
        mine = env == e
        row = {
            "update": prompts // len(env),
            "prompts": prompts,
            "env": env_id,
            "harness": int(state["harness"][e]),
            "level": int(state["level"][e]),
            "mastered": int(state["mastered"][e]) if "mastered" in state else 0,
            "frontier_success": float(state["frontier_success"][e]),
            "drawn": int(mine.sum()),
            "success": float(success[mine].mean()) if mine.any() else float("nan"),
        }
        run.append(f"{name}_curriculum", row)


def _log(run: Run, name: str, row: dict, rollouts: Rollouts, request: Request, ids, group_size: int) -> None:
    metrics = {f"{name}/{k}": v for k, v in row.items() if k != "prompts"} | {"prompts": row["prompts"]}
    for e in np.unique(np.asarray(request.env)):
        mine = np.repeat(np.asarray(request.env) == e, group_size)
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
        setup = build(experiment)
        base = clone(setup, run) if experiment.cloning.steps else setup.params
        before = evaluate_policy(setup, run, base, "base")
        trained = reinforce(setup, run, base)
        after = evaluate_policy(setup, run, trained, "trained", experiment.prompts)
        print(report.comparison(run, before, {"trained": after}))
        report.curves(run, "train")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; add --resume to continue")
    finally:
        run.close()


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, config=CLI)
