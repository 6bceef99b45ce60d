"""The quickstart for several seeds, with the control: `python -m experiments.seeds`.

Prints one table: per seed the base policy, HDC and the equal-prompt run without curriculum, with the pooled gain at H4
and its 95% interval over paired episodes. Runs that are finished are only read; --resume continues a stopped one.
"""

import dataclasses
import json
from pathlib import Path

import jax
import tyro

from experiments import report
from experiments.configs import CLI, DEFAULT, Preset
from experiments.evaluate import Scores
from experiments.quickstart import quickstart
from experiments.run import Run, compilation_cache

POLICIES = {"trained": "HDC", "control": "no curriculum"}


def row(folder: Path, seed: int) -> str:
    """One line of the table, from the stored evaluations of a finished run."""
    stored = {name: json.loads((folder / f"eval_{name}.json").read_text()) for name in ("base", *POLICIES)}
    base = Scores.of(stored["base"])
    cells = [str(seed), ", ".join(f"{100 * v.mean():.1f}" for v in base.value.values())]
    for name in POLICIES:
        scores = Scores.of(stored[name])
        start, end = report.means(base), report.means(scores)
        rel = report.relative_gain([end[k] for k in start], list(start.values()))
        cells += [
            ", ".join(f"{100 * v.mean():.1f}" for v in scores.value.values()),
            report.cell(*report.pooled_gain(base, scores), signed=True),
            f"{rel:+.1f}%",
        ]
    return "| " + " | ".join(cells) + " |"


def main(
    experiment: Preset = DEFAULT,
    run_dir: Path = Path("runs/seeds"),
    seeds: tuple[int, ...] = (0, 1, 2),
    resume: bool = False,
) -> None:
    """Run and tabulate.

    Args:
        experiment: a preset, with flags for everything in it.
        run_dir: holds one run folder per seed.
        seeds: replace the preset's seed.
        resume: continue stopped runs in `run_dir`.
    """
    compilation_cache()
    for control in (False, True):  # all of HDC first; the second round finds the first one's results stored
        for seed in seeds:
            config = dataclasses.replace(experiment, seed=seed)
            run = Run(run_dir / f"seed{seed}", config, resume or control)
            print(quickstart(config, run, control), flush=True)
            run.close()
            jax.clear_caches()
    lines = [row(run_dir / f"seed{seed}", seed) for seed in seeds]
    ids = ", ".join(experiment.envs)
    heads = " | ".join(f"{name}: scores | pooled gain | Rel." for name in POLICIES.values())
    print(
        f"\nScores in percent: {ids}\n\n| seed | base | {heads} |\n|---|---|" + "---|---|---|" * len(POLICIES)
    )
    print("\n".join(lines))


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, config=CLI)
