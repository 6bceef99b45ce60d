"""Figure 9: HDC on Frozen Lake alone, recent success with harness levels as bands and the scale as a staircase."""

import shutil
from itertools import pairwise
from pathlib import Path

from experiments import report
from experiments.store import Artefact, Store, Trained
from experiments.studies import Study, command

ENV = "frozen_lake"


def policy(study: Study) -> Trained:
    return study.trained("HDC", study.seeds[0], (ENV,))


def needs(study: Study) -> list[Artefact]:
    return [policy(study)]


def save(store: Store, study: Study, folder: Path) -> str:
    run = store.run(policy(study))
    report.curves(run, "train")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(run.path("train_curve.png"), folder / "figure9.png")
    rows = run.rows("train_curriculum")
    shutil.copy(run.path("train_curriculum.csv"), folder / "figure9.csv")
    climbs = [
        f"H{now['harness']} level {now['level']} at {now['prompts']}"
        for was, now in pairwise(rows)
        if (was["harness"], was["level"]) != (now["harness"], now["level"])
    ]
    text = (
        f"Figure 9: HDC on {ENV} alone, {rows[-1]['prompts']} prompts, seed {study.seeds[0]}. Frontier (prompts seen): "
        f"{', '.join(climbs) or 'never moved'}.\n"
    )
    (folder / "figure9.md").write_text(text)
    return text


if __name__ == "__main__":
    from experiments import figure9

    command(figure9=figure9)
