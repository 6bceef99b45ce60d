"""Table 5: the two axes of HDC, alone and together, from one base on equally many generated prompts."""

from pathlib import Path

from experiments.methods import compare, methods_needed
from experiments.store import Artefact, Store
from experiments.studies import Study, command

PAPER = {
    "base": (13.1, 11.9, 13.8, 9.5),
    "no curriculum": (37.7, 25.4, 21.0, 12.2),
    "scale only": (40.7, 29.8, 21.6, 14.1),
    "harness only": (41.9, 33.1, 21.2, 15.3),
    "HDC": (45.0, 36.2, 22.1, 16.8),
}


def needs(study: Study) -> list[Artefact]:
    return methods_needed(study, PAPER)


def save(store: Store, study: Study, folder: Path) -> str:
    return compare(store, study, PAPER, "Table 5: ablations of HDC", folder, "table5")


if __name__ == "__main__":
    from experiments import table5

    command(table5=table5)
