"""Methods side by side: mean scores over seeds per column of the paper, and the paired difference to no curriculum."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.report import pyplot, relative_gain
from experiments.store import Artefact, Base, Store, Trained
from experiments.studies import Study, Table, beside, cell, column_means, interval

COLUMNS = ("ID-ST", "ID-MT", "OOD-ST", "OOD-MT")
REFERENCE = "no curriculum"
Paper = Mapping[str, tuple[float, ...] | None]


def policies(study: Study, method: str) -> list[Base | Trained]:
    """One per seed; the base is the same in all."""
    return [study.base] if method == "base" else [study.trained(method, seed) for seed in study.seeds]


def methods_needed(study: Study, paper: Paper) -> list[Artefact]:
    return [s for m in paper for p in policies(study, m) for s in study.scores(p).values()]


def compare(store: Store, study: Study, paper: Paper, title: str, folder: Path, name: str) -> str:
    """The table of the methods that are the keys of `paper`, with its numbers in parentheses."""
    columns = list(study.columns)
    found = {m: [column_means(store, study, p) for p in policies(study, m)] for m in paper}
    rows = []
    for method, seeds in found.items():
        printed = paper[method] or (None,) * len(COLUMNS)
        cells = [beside(cell(*interval([s[c] for s in seeds])), printed[COLUMNS.index(c)]) for c in columns]
        gains, rel = ["-"], ["-"]
        if method not in ("base", REFERENCE):
            pairs = list(zip(seeds, found[REFERENCE]))
            mean, half = interval([np.mean([s[c] - r[c] for c in columns]) for s, r in pairs])
            gains = [f"{100 * mean:+.1f} ± {100 * half:.1f}"]
            ours = relative_gain(
                *([np.mean([s[c] for s in g]) for c in columns] for g in (seeds, found[REFERENCE]))
            )
            reference = paper[REFERENCE]
            theirs = relative_gain(paper[method], reference) if paper[method] and reference else None
            rel = [beside(f"{ours:.1f}", theirs)]
        runs = [store.run(p).rows("train")[-1] for p in policies(study, method) if isinstance(p, Trained)]
        counts = [
            f"{np.mean([float(r[k]) for r in runs]):.0f}" if runs else "-"
            for k in ("prompts", "trained_prompts", "rollouts")
        ]
        rows.append([method, *cells, *gains, *rel, *counts])
    heads = ["Method", *columns, "gain", "Rel.", "generated", "trained", "rollouts"]
    table = Table(
        f"{title}. Scores at H4 and eval level in percent; in parentheses the paper, Qwen3-VL-4B.",
        heads,
        rows,
        f"Mean over {len(study.seeds)} seeds with 95% intervals (Student's t). All start from one base; the number of "
        f"generated prompts is matched ({study.prompts}). gain: mean over the columns against no curriculum, paired by "
        "seed. Rel.: the paper's relative gain over no curriculum, in its column computed from its printed scores.",
    )
    table.save(folder, name)
    _draw(found, columns, folder / f"{name}.png")
    return table.markdown()


def _draw(found: Mapping[str, list[dict[str, float]]], columns: list[str], file: Path) -> None:
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(8, 3.4))
    width = 0.8 / len(found)
    for k, (method, seeds) in enumerate(found.items()):
        x = np.arange(len(columns)) + (k - (len(found) - 1) / 2) * width
        values = 100 * np.asarray([[s[c] for c in columns] for s in seeds])
        axis.bar(x, values.mean(axis=0), width, label=method, alpha=0.75)
        for one in values:  # every seed is a dot
            axis.plot(x, one, "k.", ms=3)
    axis.set_xticks(range(len(columns)), columns)
    axis.set_ylabel("score, %")
    axis.legend(fontsize=8, ncols=4, frameon=False)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
