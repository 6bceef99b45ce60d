"""Tables 3, 4 and 9: training on all environments, on a random choice, on what AES or a baseline selected; with HDC."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aes.files import save_csv
from experiments.aes_studies import Study, command, mean_values, signed
from experiments.report import relative_gain
from experiments.store import Artefact, Base, Store, Trained
from experiments.studies import Table, beside, cell, interval

POOL, RANDOM, AES = (
    "all",
    "random",
    "aes",
)  # sets that are no single file: the pool, and one random set a seed


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    name: str
    trained_on: str | None  # a set; None: the base, as it is
    hdc: bool = False
    split: str = AES  # the set whose environments are ID
    prompts_each: int | None = None  # the budget is so many prompts per environment

    def envs(self, study: Study, seed: int) -> tuple[str, ...]:
        return () if self.trained_on is None else members(study, self.trained_on, seed)

    def policy(self, study: Study, seed: int) -> Base | Trained:
        if self.trained_on is None:
            return study.base
        envs = self.envs(study, seed)
        budget = None if self.prompts_each is None else self.prompts_each * len(envs)
        return study.trained(envs, seed, self.hdc, budget)

    def splits(self, study: Study, seed: int) -> dict[str, tuple[str, ...]]:
        return {"ID": members(study, self.split, seed), "OOD": study.held_out}


def members(study: Study, name: str, seed: int) -> tuple[str, ...]:
    """The environments of a set."""
    if name == POOL:
        return study.pool()
    return study.selection(f"random_{seed}" if name == RANDOM else name)


BASE = Row("Base Model", None)
TABLE3 = {  # ID-ST, ID-MT, Rel., OOD-ST, OOD-MT, Rel. of Qwen3-VL-4B
    Row("Base Model", None, split=RANDOM): (15.7, 13.1, 0.0, 13.8, 9.5, 0.0),
    BASE: (13.1, 11.9, 0.0, 13.8, 9.5, 0.0),
    Row("All Envs.", POOL): (25.4, 19.8, 80.1, 17.6, 8.3, 7.5),
    Row("Random-K", RANDOM, split=RANDOM): (32.2, 21.3, 83.8, 17.9, 7.1, 2.2),
    Row("Random-K + HDC", RANDOM, hdc=True, split=RANDOM): (37.3, 29.4, 131.0, 18.7, 9.0, 15.1),
    Row("AES", AES): (37.7, 25.4, 150.6, 21.0, 12.2, 40.3),
    Row("AES + HDC", AES, hdc=True): (45.0, 36.2, 223.9, 22.1, 16.8, 68.5),
}
TABLE4 = {  # OOD-ST, OOD-MT, Rel.
    BASE: (13.8, 9.5, 0.0),
    Row("Random-K", RANDOM, split=RANDOM): (17.9, 7.1, 2.2),
    Row("AES w/o Redund.", "aes_without_redundancy"): (18.6, 11.0, 25.3),
    Row("AES w/o Conflict", "aes_without_conflict"): (18.5, 6.8, 2.8),
    Row("AES", AES): (21.0, 12.2, 40.3),
}
TABLE9 = {
    BASE: (13.8, 9.5, 0.0),
    Row("Description Embedding", "description"): (16.3, 8.3, 2.8),
    Row("Code Embedding", "code"): (18.6, 9.9, 19.5),
    Row("AES", AES): (21.0, 12.2, 40.3),
}
COUNTS = {  # environments trained on in the paper
    "All Envs.": 170, "Random-K": 30, "Random-K + HDC": 30, "AES w/o Redund.": 41, "AES w/o Conflict": 34,
    "Description Embedding": 30, "Code Embedding": 30, "AES": 30, "AES + HDC": 30,
}  # fmt: skip


def runs(study: Study, row: Row) -> Iterator[tuple[int, Base | Trained]]:
    """A row's policy for each seed; the base on its one set of ID environments only once."""
    once = row.trained_on is None and row.split != RANDOM
    for seed in study.seeds[:1] if once else study.seeds:
        yield seed, row.policy(study, seed)


def rows_needed(study: Study, rows: Sequence[Row], splits: Sequence[str] = ("ID", "OOD")) -> list[Artefact]:
    return [
        score
        for row in rows
        for seed, policy in runs(study, row)
        for split in splits
        for score in study.scores(policy, row.splits(study, seed)[split]).values()
    ]


def needs(study: Study) -> list[Artefact]:
    return [
        *rows_needed(study, list(TABLE3)),
        *rows_needed(study, [*TABLE4, *TABLE9], ("OOD",)),
    ]


# ---- numbers ----


def values(store: Store, study: Study, row: Row, split: str) -> list[dict[str, float]]:
    """Mean scores of single- (ST) and multi-turn (MT) environments, one a seed, or one that is the same for all."""
    scores = [study.scores(policy, row.splits(study, seed)[split]) for seed, policy in runs(study, row)]
    return [mean_values(store, s) for s in (scores if any(s != scores[0] for s in scores) else scores[:1])]


def relative(store: Store, study: Study, row: Row, split: str) -> list[float]:
    """Per seed the paper's Rel. in percent, over the base on the same environments; nan where the base has 0."""
    base = values(store, study, Row("", None, split=row.split), split)
    mine = values(store, study, row, split)
    return [relative_gain(list(m.values()), [b[k] for k in m]) for m, b in zip(mine, base * len(mine))]


def split_cells(store: Store, study: Study, row: Row, split: str, paper: Sequence[float]) -> list[str]:
    """ST, MT and Rel. with their intervals, the paper's in parentheses."""
    mine = values(store, study, row, split)
    cells = []
    for kind, printed in zip(("ST", "MT"), paper):
        found = [m[kind] for m in mine if kind in m]  # a random set can be without multi-turn environments
        cells.append(beside(cell(*interval(found)), printed) if found else "-")
    rel = "0.0" if row.trained_on is None else signed(relative(store, study, row, split))
    return [*cells, beside(rel, paper[2])]


def count_cell(study: Study, row: Row) -> str:
    if row.trained_on is None:
        return "-"
    sizes = sorted({len(row.envs(study, seed)) for seed in study.seeds})
    return f"{' to '.join(map(str, sizes))} ({COUNTS[row.name]})"


def explain(study: Study, budget: str) -> str:
    return (
        f"Scores at H4 and eval level in percent, {study.episodes} episodes per environment: success (ST), normalised "
        f"return (MT); mean over {len(study.seeds)} seeds with 95% intervals (Student's t). All start from one base; "
        f"{budget}. Rel.: mean of the relative gains of ST and MT over the base on the same environments. In "
        f"parentheses the paper, Qwen3-VL-4B. OOD: {', '.join(study.held_out)}. {study.made}"
    )


def save(store: Store, study: Study, folder: Path) -> str:
    random = "ID is what is trained on for Random-K (one set a seed), and what AES selected for all others."
    budget = f"{study.prompts} prompts are generated in every run"
    three = Table(
        "Table 3: environment selection and curriculum.",
        ["Method", "# Envs.", "ID-Split", "ID-ST", "ID-MT", "ID-Rel.", "OOD-ST", "OOD-MT", "OOD-Rel."],
        [
            [
                row.name, count_cell(study, row), {AES: "AES", RANDOM: "Random"}[row.split],
                *split_cells(store, study, row, "ID", paper[:3]), *split_cells(store, study, row, "OOD", paper[3:]),
            ]
            for row, paper in TABLE3.items()
        ],
        f"{random} {explain(study, budget)}",
    )  # fmt: skip
    tables = {"table3": three}
    for name, title, wanted in (
        ("table4", "Table 4: ablations of AES", TABLE4),
        ("table9", "Table 9: selection by embeddings of descriptions and of code", TABLE9),
    ):
        tables[name] = Table(
            f"{title}.",
            ["Method", "# Envs.", "OOD-ST", "OOD-MT", "Rel."],
            [
                [row.name, count_cell(study, row), *split_cells(store, study, row, "OOD", paper)]
                for row, paper in wanted.items()
            ],
            explain(study, budget),
        )
    for name, table in tables.items():
        table.save(folder, name)
    save_values(store, study, [*TABLE3, *TABLE4, *TABLE9], folder / "table3_environments.csv")
    return "\n".join(table.markdown() for table in tables.values())


def save_values(store: Store, study: Study, rows: Sequence[Row], file: Path) -> None:
    """Every evaluated environment by itself, as far as it was evaluated."""
    lines = []
    for row in dict.fromkeys(rows):
        for seed, policy in runs(study, row):
            for split, envs in row.splits(study, seed).items():
                for env, score in study.scores(policy, envs).items():
                    if store.has(score):
                        played = store.episodes(score)
                        lines.append([
                            row.name, row.split, seed, split, env, f"{played.value.mean():.4f}",
                            f"{np.mean(played.success):.4f}",
                        ])  # fmt: skip
    columns = ["method", "ID split", "seed", "split", "environment", "value", "success"]
    save_csv(file, columns, lines)


if __name__ == "__main__":
    from experiments import table3

    command(table3=table3)
