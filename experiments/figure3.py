"""Figure 3: does training on more environments help, at a fixed number of prompts?"""

from pathlib import Path

from experiments import scaling
from experiments.aes_studies import Study, command
from experiments.store import Artefact, Store


def needs(study: Study) -> list[Artefact]:
    return scaling.needs(study, None)


def save(store: Store, study: Study, folder: Path) -> str:
    title = f"Figure 3: growing sets, {study.prompts} prompts in all"
    return scaling.save(
        store, study, folder, "figure3", title, None, "The paper prints no numbers of its figure."
    )


if __name__ == "__main__":
    from experiments import figure3

    command(figure3=figure3)
