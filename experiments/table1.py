"""Tables 1, 11 and 12: one environment's training tested in the others, and all six together, as text and as pictures."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from aes.files import save_csv
from experiments.aes_studies import PICTURE, SYMBOLIC, Study, command, signed, success
from experiments.report import pyplot
from experiments.store import Artefact, Base, Store, Trained
from experiments.studies import Table, beside, cell, interval
from jaxenv.harness import Modality
from jaxenv.sets import MIXED6

BASE, MIXED = "Base Model", "mixed"
SIX = MIXED6
PAPER = {  # accuracies in the order of SIX
    SYMBOLIC: {
        BASE: (16.5, 55.2, 11.0, 72.5, 76.2, 47.6),
        "addition_table": (37.5, 59.3, 18.5, 79.5, 83.2, 48.1),
        "mini_sudoku": (24.6, 82.1, 19.3, 81.3, 80.1, 45.3),
        "rectangle_count": (17.6, 55.0, 61.0, 77.1, 79.6, 42.1),
        "rotate_matrix": (21.5, 56.0, 21.0, 92.0, 93.0, 43.5),
        "spiral_matrix": (22.1, 56.7, 19.8, 92.8, 93.7, 42.1),
        "tictactoe_qa": (18.8, 54.5, 13.5, 75.7, 82.2, 55.8),
        MIXED: (36.1, 80.2, 60.0, 93.3, 94.9, 52.6),
    },
    PICTURE: {
        BASE: (7.8, 41.7, 6.5, 25.0, 18.8, 32.8),
        "addition_table": (27.8, 49.2, 17.0, 26.0, 20.0, 34.0),
        "mini_sudoku": (12.5, 72.9, 16.7, 27.1, 21.1, 35.1),
        "rectangle_count": (6.5, 40.0, 56.0, 24.5, 19.2, 33.2),
        "rotate_matrix": (9.3, 43.5, 19.5, 45.0, 45.8, 31.7),
        "spiral_matrix": (9.5, 43.0, 20.5, 47.3, 43.5, 31.0),
        "tictactoe_qa": (8.1, 41.0, 5.3, 22.1, 17.0, 45.1),
        MIXED: (26.1, 59.1, 51.5, 42.5, 40.8, 39.3),
    },
}
TABLE1 = {SYMBOLIC: (70.4, 69.5, -1.3), PICTURE: (48.4, 43.2, -10.7)}  # single, mixed, drop in percent
NAMES = {SYMBOLIC: "table11", PICTURE: "table12"}
SETTINGS = {SYMBOLIC: "Text-symbolic", PICTURE: "Multimodal"}


def policies(study: Study, modality: Modality) -> dict[str, list[Base | Trained]]:
    """By what they were trained on, one a seed; the base is the same in all."""
    base, envs = study.six[modality], study.transfer()
    train = {**{e: (e,) for e in envs}, MIXED: envs}
    runs = {name: [study.trained(on, s, base=base) for s in study.seeds] for name, on in train.items()}
    return {BASE: [base], **runs}


def needs(study: Study) -> list[Artefact]:
    return [
        score
        for modality in SETTINGS
        for seeds in policies(study, modality).values()
        for policy in seeds
        for score in study.scores(policy, study.transfer()).values()
    ]


def matrix(store: Store, study: Study, modality: Modality) -> dict[str, np.ndarray]:
    """f64[seeds, E] accuracies by what was trained on; the base has one seed."""
    return {
        name: np.asarray([
            [success(store, {e: score}) for e, score in study.scores(policy, study.transfer()).items()]
            for policy in seeds
        ])
        for name, seeds in policies(study, modality).items()
    }  # fmt: skip


def diagonal(found: Mapping[str, np.ndarray], envs: Sequence[str]) -> np.ndarray:
    """f64[seeds, E]: every environment after training on it alone."""
    return np.stack([found[e][:, i] for i, e in enumerate(envs)], axis=1)


def drops(single: np.ndarray, mixed: np.ndarray) -> list[float]:
    """Per seed the paper's drop in percent, from accuracies f64[seeds, E]; nan where nothing was learnt alone."""
    return [100 * (m / s - 1) if s else math.nan for s, m in zip(single.mean(axis=1), mixed.mean(axis=1))]


def printed(modality: Modality, name: str, env: str) -> float | None:
    """What the paper prints, of environments that it has."""
    row = PAPER[modality].get(name)
    return row[SIX.index(env)] if row and env in SIX else None


def save(store: Store, study: Study, folder: Path) -> str:
    envs = study.transfer()
    found = {modality: matrix(store, study, modality) for modality in SETTINGS}
    for_paper = envs == SIX
    seeds = f"mean over {len(study.seeds)} seeds with 95% intervals (Student's t)"
    rows = []
    for modality, setting in SETTINGS.items():
        single, mixed = diagonal(found[modality], envs), found[modality][MIXED]
        cells = [
            cell(*interval(single.mean(axis=1))), cell(*interval(mixed.mean(axis=1))), signed(drops(single, mixed)),
        ]  # fmt: skip
        paper = TABLE1[modality] if for_paper else (None,) * 3
        rows.append([setting, *map(beside, cells, paper)])
    one = Table(
        "Table 1: training on one environment, and on all of them together. Accuracy in percent.",
        ["Setting", "Avg. Single", "Avg. Mixed", "Drop, %"],
        rows,
        f"{', '.join(envs)}; {study.prompts} prompts in every run; {seeds}; one base for each setting. Drop: Avg. Mixed "
        f"against Avg. Single, relative. In parentheses the paper, Qwen3-VL-4B. {study.made}",
    )
    one.save(folder, "table1")
    texts = [one.markdown()]
    for modality in NAMES:
        texts.append(_save_matrix(study, modality, found[modality], folder, seeds))
    _save_values(study, found, folder / "table1_seeds.csv")
    _draw(envs, found, folder / "table1.png")
    return "\n".join(texts)


def _save_matrix(
    study: Study, modality: Modality, found: Mapping[str, np.ndarray], folder: Path, seeds: str
) -> str:
    envs, name = study.transfer(), NAMES[modality]
    rows = []
    for trained, values in found.items():
        label = f"mixed{len(envs)}" if trained == MIXED else trained
        cells = [
            beside(cell(*interval(values[:, i])), printed(modality, trained, e)) for i, e in enumerate(envs)
        ]
        rows.append([label, *cells])
    change = 100 * (found[MIXED] - diagonal(found, envs))
    last = []
    for i, e in enumerate(envs):
        alone, together = printed(modality, e, e), printed(modality, MIXED, e)
        paper = None if alone is None or together is None else f"{together - alone:+.1f}"
        last.append(signed(change[:, i]) + ("" if paper is None else f" ({paper})"))
    rows.append(["Δ", *last])
    table = Table(
        f"Table {name.removeprefix('table')}: transfer, {SETTINGS[modality].lower()}. A row is what was trained on, a "
        "column where it was tested; accuracy in percent.",
        ["Train env.", *envs],
        rows,
        f"Δ: mixed training against training on the environment alone, in points, paired by seed. {study.prompts} prompts "
        f"in every run, {study.episodes} episodes per environment at H4 and eval level; {seeds}. In parentheses the paper, "
        f"Qwen3-VL-4B. {study.made}",
    )
    table.save(folder, name)
    return table.markdown()


def _save_values(study: Study, found: Mapping[Modality, Mapping[str, np.ndarray]], file: Path) -> None:
    columns = ["setting", "trained on", "evaluated in", "seed", "accuracy", "change over the base"]
    rows = [
        [modality, trained, env, seed, f"{values[k, i]:.4f}", f"{values[k, i] - matrices[BASE][0, i]:.4f}"]
        for modality, matrices in found.items()
        for trained, values in matrices.items()
        for k, seed in enumerate(study.seeds[: len(values)])
        for i, env in enumerate(study.transfer())
    ]
    save_csv(file, columns, rows)


def _draw(envs: Sequence[str], found: Mapping[Modality, Mapping[str, np.ndarray]], file: Path) -> None:
    """Changes over the base, in points."""
    plt = pyplot()
    figure, axes = plt.subplots(
        1, 2, figsize=(4.2 + 1.3 * len(envs), 1.8 + 0.5 * len(envs)), sharey=True, layout="constrained"
    )
    labels = [*envs, f"mixed{len(envs)}"]
    changes = {
        m: 100 * np.stack([f[name].mean(axis=0) - f[BASE][0] for name in (*envs, MIXED)])
        for m, f in found.items()
    }
    size = max(1.0, *(np.abs(c).max() for c in changes.values()))
    for axis, (modality, change) in zip(axes, changes.items()):
        shown = axis.imshow(change, cmap="RdBu", vmin=-size, vmax=size, aspect="auto")
        for (i, j), value in np.ndenumerate(change):
            axis.text(
                j,
                i,
                f"{value:+.1f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if abs(value) > 0.6 * size else "black",
            )
        axis.set_xticks(range(len(envs)), envs, rotation=30, ha="right", fontsize=8)
        axis.set_yticks(range(len(labels)), labels, fontsize=8)
        axis.set_title(SETTINGS[modality], fontsize=10)
        axis.set_xlabel("tested in", fontsize=9)
    axes[0].set_ylabel("trained on", fontsize=9)
    figure.colorbar(shown, ax=axes, label="change over the base, points")
    figure.savefig(file, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    from experiments import table1

    command(table1=table1)
