"""Figure 7 and Table 10: growing sets, and all environments against AES, where every environment adds its own prompts."""

from pathlib import Path

from experiments import scaling
from experiments.aes_studies import Study, command
from experiments.report import relative_gain
from experiments.store import Artefact, Store
from experiments.studies import Table
from experiments.table3 import (
    AES,
    BASE,
    POOL,
    Row,
    count_cell,
    explain,
    rows_needed,
    save_values,
    split_cells,
)

PAPER = {  # ID-ST, ID-MT, OOD-ST, OOD-MT
    "Base Model": (13.1, 11.9, 13.8, 9.5),
    "All Envs.": (33.1, 20.6, 20.5, 9.8),
    "AES": (37.7, 25.4, 21.0, 12.2),
}
FIGURE7 = "The paper: ID 66.3 at 40 environments, 42.1 at 160; OOD 36.4 at 60, 23.6 at 160; 256 prompts each."


def rows(study: Study) -> list[Row]:
    return [
        BASE,
        Row("All Envs.", POOL, prompts_each=study.each),
        Row("AES", AES, prompts_each=study.each),
    ]


def needs(study: Study) -> list[Artefact]:
    return [*rows_needed(study, rows(study)), *scaling.needs(study, study.each)]


def save(store: Store, study: Study, folder: Path) -> str:
    lines = []
    for row in rows(study):
        parts = []
        for split, part in (("ID", slice(0, 2)), ("OOD", slice(2, 4))):
            printed, base = PAPER[row.name][part], PAPER[BASE.name][part]
            parts += split_cells(store, study, row, split, (*printed, relative_gain(printed, base)))
        budget = str(row.policy(study, study.seeds[0]).prompts) if row.trained_on else "-"
        lines.append([row.name, count_cell(study, row), budget, *parts])
    table = Table(
        f"Table 10: {study.each} prompts per environment.",
        ["Method", "# Envs.", "prompts", "ID-ST", "ID-MT", "ID-Rel.", "OOD-ST", "OOD-MT", "OOD-Rel."],
        lines,
        explain(study, f"every environment that is trained on adds {study.each} prompts")
        + " The paper's Rel. is computed from its scores.",
    )
    table.save(folder, "table10")
    save_values(store, study, rows(study), folder / "table10_environments.csv")
    title = f"Figure 7: growing sets, {study.each} prompts per environment"
    figure = scaling.save(store, study, folder, "figure7", title, study.each, FIGURE7)
    return f"{table.markdown()}\n{figure}"


if __name__ == "__main__":
    from experiments import table10

    command(table10=table10)
