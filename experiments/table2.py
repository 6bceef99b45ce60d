"""Table 2: which single harness helps a base policy, on selected and held-out environments."""

from pathlib import Path

import numpy as np

from experiments import report
from experiments.report import pyplot
from experiments.store import Artefact, Score, Store
from experiments.studies import Study, Table, beside, cell, command
from jaxenv import harness

HARNESSES = {
    "None": None,
    "Text Obs.": "text_obs",
    "Text State": "text_state",
    "Text Hint": "hint",
    "Rule": "rule",
}
PAPER = {  # selected ST and MT, held-out ST and MT
    "None": (13.1, 11.9, 13.8, 9.5),
    "Text Obs.": (28.2, 18.7, 30.6, 17.1),
    "Text State": (30.5, 20.3, 32.9, 21.4),
    "Text Hint": (20.7, 15.1, 24.6, 13.6),
    "Rule": (18.8, 16.5, 20.8, 15.7),
}
COLUMNS = ("ID-ST", "ID-MT", "OOD-ST", "OOD-MT")


def scores(study: Study, part: str | None) -> dict[str, Score]:
    shown = tuple(map(bool, harness.only(part))) if part else (False,) * 4
    return study.scores(study.base, shown=shown)


def needs(study: Study) -> list[Artefact]:
    return [s for part in HARNESSES.values() for s in scores(study, part).values()]


def save(store: Store, study: Study, folder: Path) -> str:
    columns, rows, bars = study.columns, [], {}
    for name, part in HARNESSES.items():
        mine, row = scores(study, part), [name]
        for column, envs in columns.items():
            # One base policy: the interval is that of the mean over environments, from independent episodes.
            values = [store.episodes(mine[e]).value for e in envs]
            mean = float(np.mean([v.mean() for v in values]))
            half = report.Z95 * np.sqrt(sum(v.var(ddof=1) / len(v) for v in values)) / len(values)
            bars.setdefault(column, []).append((mean, half))
            row.append(beside(cell(mean, half), PAPER[name][COLUMNS.index(column)]))
        rows.append(row)
    table = Table(
        "Table 2: score of the base policy with one harness part at a time, in percent. In parentheses: the paper, "
        "Qwen3-VL-4B on its own environments.",
        ["Harness", *columns],
        rows,
        f"95% intervals over {study.episodes} episodes per environment; one base policy.",
    )
    table.save(folder, "table2")
    _draw(bars, folder / "table2.png")
    return table.markdown()


def _draw(bars: dict[str, list[tuple[float, float]]], file: Path) -> None:
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7, 3.2))
    width = 0.8 / len(HARNESSES)
    for k, name in enumerate(HARNESSES):
        x = np.arange(len(bars)) + (k - 2) * width
        mean, half = (100 * np.asarray([b[k][i] for b in bars.values()]) for i in range(2))
        axis.bar(x, mean, width, yerr=half, label=name, capsize=2)
    axis.set_xticks(range(len(bars)), list(bars))
    axis.set_ylabel("score, %")
    axis.legend(fontsize=8, ncols=5, frameon=False)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    from experiments import table2

    command(table2=table2)
