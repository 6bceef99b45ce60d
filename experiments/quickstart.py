"""From nothing to an agent that learns, on a laptop CPU: `python -m experiments.quickstart`.

1. clones the oracles of a few environments into a nano Qwen3-VL until it is a weak base policy,
2. evaluates it at H4 and each environment's eval level,
3. trains it by GRPO under HDC (and, with --control, once more without curriculum on as many prompts),
4. evaluates again and prints base against trained with 95% intervals and the paper's relative gain,
5. leaves a run folder with config, CSV files, tables, wandb run, checkpoints, sampled rollouts and training curves.

Stopped at any point, it continues exactly with --resume.
"""

import dataclasses
import sys
from pathlib import Path

import tyro

from agents.policy import parameter_count
from agents.rollout import Rollouts
from curriculum.none import NoCurriculum
from experiments import report
from experiments.configs import CLI, DEFAULT, Experiment, Preset
from experiments.evaluate import evaluate_policy
from experiments.run import Run, compilation_cache
from experiments.setup import build
from experiments.train import clone, reinforce


def quickstart(experiment: Experiment, run: Run, control: bool) -> str:
    """All steps; gives the Markdown table."""
    setup = build(experiment)
    print(
        f"policy: Qwen3-VL, {parameter_count(setup.params):,} parameters; environments: {', '.join(setup.mixed.ids)}"
    )
    base = clone(setup, run) if experiment.cloning.steps else setup.params
    before = evaluate_policy(setup, run, base, "base")
    print("base policy: " + ", ".join(f"{e} {100 * v.mean():.1f}%" for e, v in before.value.items()))
    trained = reinforce(setup, run, base)
    kept: list[Rollouts] = []
    results = {"HDC": evaluate_policy(setup, run, trained, "trained", experiment.prompts, kept)}
    if kept:  # a resumed run that was evaluated before has drawn its picture already
        report.rollout_sheet(run, kept[:: max(1, len(kept) // 4)], "rollouts")
    report.curves(run, "train")
    if control:
        plain = dataclasses.replace(
            setup, config=dataclasses.replace(experiment, curriculum=NoCurriculum(base_scale="uniform"))
        )
        params = reinforce(plain, run, base, "control")
        results["no curriculum"] = evaluate_policy(plain, run, params, "control", experiment.prompts)
    return report.comparison(run, before, results)


def main(
    experiment: Preset = DEFAULT,
    run_dir: Path = Path("runs/quickstart"),
    resume: bool = False,
    control: bool = False,
) -> None:
    """Run the quickstart.

    Args:
        experiment: a preset, with flags for everything in it.
        run_dir: where the run goes.
        resume: continue the run in `run_dir` where it was stopped.
        control: also train from the same base without curriculum, on as many prompts.
    """
    try:
        run = Run(run_dir, experiment, resume)
    except (FileExistsError, ValueError) as error:
        sys.exit(f"quickstart: {error}")
    compilation_cache()
    try:
        table = quickstart(experiment, run, control)
    except KeyboardInterrupt:
        run.close()
        sys.exit("\ninterrupted; add --resume to continue")
    run.close()
    print(f"\n{table}\n\neverything is in {run.directory}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, config=CLI)
