"""Nested sets of growing size, at a fixed budget (Figure 3) or with so many prompts per environment (Figure 7).

A seed has its own order of environments. Its smallest set is ID for all its sets, as in the paper.
"""

from pathlib import Path

import numpy as np

from aes.files import save_csv
from experiments.aes_studies import Study, signed, success
from experiments.report import pyplot
from experiments.store import Artefact, Base, Score, Store, Trained
from experiments.studies import Table, cell, interval

SPLITS = ("ID", "OOD")


def policies(study: Study, seed: int, each: int | None) -> dict[int, Base | Trained]:
    """By number of environments; 0 is the base. `each`: prompts per environment, None: the fixed budget."""
    found: dict[int, Base | Trained] = {0: study.base}
    for size, envs in study.nested(seed).items():
        found[size] = study.trained(envs, seed, prompts=None if each is None else each * size)
    return found


def splits(study: Study, seed: int) -> dict[str, tuple[str, ...]]:
    smallest = next(iter(study.nested(seed).values()))
    return dict(zip(SPLITS, (smallest, study.held_out)))


def scores(study: Study, seed: int, policy: Base | Trained) -> dict[str, dict[str, Score]]:
    return {split: study.scores(policy, envs) for split, envs in splits(study, seed).items()}


def needs(study: Study, each: int | None) -> list[Artefact]:
    return [
        score
        for seed in study.seeds
        for policy in policies(study, seed, each).values()
        for found in scores(study, seed, policy).values()
        for score in found.values()
    ]


def save(
    store: Store, study: Study, folder: Path, name: str, title: str, each: int | None, paper: str
) -> str:
    """Markdown, CSV and picture; `paper`: what it prints of this figure."""
    found = {split: {} for split in SPLITS}  # split -> size -> one success rate a seed
    lines = []
    for seed in study.seeds:
        for size, policy in policies(study, seed, each).items():
            for split, wanted in scores(study, seed, policy).items():
                if size == 0 and split == "OOD" and seed != study.seeds[0]:
                    continue  # the same for all seeds
                rate = success(store, wanted)
                found[split].setdefault(size, []).append(rate)
                lines.append([split, size, seed, _prompts(study, size, each), f"{rate:.4f}"])
    save_csv(folder / f"{name}_seeds.csv", ["split", "environments", "seed", "prompts", "success"], lines)
    rows = []
    for size in found["ID"]:
        prompts = _prompts(study, size, each)
        share = f"{prompts / size:.0f}" if size else "-"
        row = [str(size) if size else "base", str(prompts) if size else "-", share]
        for split in SPLITS:
            rates, base = found[split][size], found[split][0]
            row += [
                cell(*interval(rates)),
                signed(100 * np.subtract(rates, base if len(base) == len(rates) else base * len(rates)))
                if size
                else "-",
            ]
        rows.append(row)
    smallest = min(s for s in found["ID"] if s)
    table = Table(
        f"{title}. Success rates at H4 and eval level in percent.",
        ["# Envs.", "prompts", "per environment", "ID", "ID gain", "OOD", "OOD gain"],
        rows,
        f"Sets are nested and drawn evenly over the categories; every seed has its own order, and its smallest set "
        f"({smallest}) is ID. Gain: over the base, in points, paired by seed. Mean over {len(study.seeds)} seeds with 95% "
        f"intervals (Student's t). {paper} {study.made}",
    )
    table.save(folder, name)
    _draw(found, title, folder / f"{name}.png")
    return table.markdown()


def _prompts(study: Study, size: int, each: int | None) -> int:
    return 0 if not size else study.prompts if each is None else each * size


def _draw(found: dict[str, dict[int, list[float]]], title: str, file: Path) -> None:
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for color, (split, by_size) in zip(("tab:blue", "tab:orange"), found.items()):
        sizes = np.asarray([s for s in by_size if s])
        rates = 100 * np.asarray([by_size[s] for s in sizes.tolist()])  # [size, seed]
        half = [interval(row)[1] for row in rates]
        axis.errorbar(
            sizes,
            rates.mean(axis=1),
            yerr=np.nan_to_num(half),
            marker="o",
            capsize=3,
            color=color,
            label=split,
        )
        axis.plot(sizes, rates, ".", ms=4, color=color, alpha=0.4)  # every seed is a dot
        base = 100 * np.mean(by_size[0])
        axis.axhline(base, ls=":", lw=1, color=color, label=f"{split}, base")
    axis.set_xticks(sizes)
    axis.set_xlabel("environments trained on")
    axis.set_ylabel("success, %")
    axis.set_ylim(bottom=0)
    axis.set_title(title, fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, frameon=False, ncols=2)
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)
