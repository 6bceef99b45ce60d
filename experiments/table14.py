"""Table 14: HDC against other curricula, with PLR and DAPO that the paper lacks, on equally many generated prompts."""

from pathlib import Path

from experiments.methods import compare, methods_needed
from experiments.store import Artefact, Store
from experiments.studies import Study, command

PAPER = {
    "base": None,
    "no curriculum": (37.7, 25.4, 21.0, 12.2),
    "RLVE": (39.9, 28.2, 21.2, 13.7),
    "VCRL": (42.5, 30.3, 21.6, 12.8),
    "PLR": None,
    "DAPO": None,
    "HDC": (45.0, 36.2, 22.1, 16.8),
}


def needs(study: Study) -> list[Artefact]:
    return methods_needed(study, PAPER)


def save(store: Store, study: Study, folder: Path) -> str:
    return compare(store, study, PAPER, "Table 14: curricula", folder, "table14")


if __name__ == "__main__":
    from experiments import table14

    command(table14=table14)
