"""How alike environments are: `python -m aes.profile --help` (Section 3.2, Appendix C.3).

The vector of a profile is the sum of its embedded abilities and transitions: weight = frequency for core abilities, 0.3
times the frequency for soft ones and for transitions ("read map then plan path"). Similarity is the cosine.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tyro.conf import Positional

from aes import formats
from aes.embed import Embedder, embedder, unit
from aes.formats import Matrix, Profiles


@dataclass(frozen=True)
class Settings:
    embedder: str = "bag"
    """What compares abilities: bag, words, minilm, or the folder of a sentence model (aes/embed.py)."""
    core: float = 1.0
    """Weight of core abilities, times their frequency."""
    soft: float = 0.3
    """Weight of soft abilities."""
    edges: float = 0.3
    """Weight of transitions."""
    center: bool = False
    """Subtract the mean vector of all abilities and transitions first: sums of sentence vectors are all alike."""

    def __post_init__(self):
        for name in ("core", "soft", "edges"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not (self.core or self.soft or self.edges):
            raise ValueError("core, soft and edges are all 0")


def vectors(profiles: Profiles, embed: Embedder, settings: Settings = Settings()) -> np.ndarray:
    """f64[E, D]: one row per environment, of length 1, or 0 where nothing in the profile weighs."""
    weighted = [
        [(a, settings.core * f) for a, f in p.core.items()]
        + [(a, settings.soft * f) for a, f in p.soft.items()]
        + [(f"{a} then {b}", settings.edges * f) for (a, b), f in p.edges.items()]
        for p in profiles.envs.values()
    ]
    texts = sorted({text for row in weighted for text, _ in row})
    column = {text: i for i, text in enumerate(texts)}
    weights = np.zeros((len(weighted), len(texts)))
    for row, entries in zip(weights, weighted):
        for text, weight in entries:
            row[column[text]] += weight
    phi = embed(texts)
    if settings.center:
        phi = phi - phi.mean(axis=0)
    return unit(weights @ phi)


def similarity(
    profiles: Profiles, embed: Embedder, settings: Settings = Settings(), made: dict[str, Any] | None = None
) -> Matrix:
    """Cosines of all pairs; those of an empty profile are 0. `embed` is the one that `settings` name."""
    rows = vectors(profiles, embed, settings)
    return Matrix(tuple(profiles.envs), np.clip(rows @ rows.T, -1.0, 1.0), made or {})


def spread(values: np.ndarray) -> str:
    """How much a matrix tells apart: quantiles off its diagonal."""
    pairs = values[np.triu_indices(len(values), 1)]
    if not len(pairs):
        return "one environment"
    low, middle, high = np.quantile(pairs, [0.05, 0.5, 0.95])
    return f"similarity of two environments: 5% {low:.2f}, median {middle:.2f}, 95% {high:.2f}, std {pairs.std():.2f}"


def main(folder: Positional[Path], settings: Settings = Settings(), force: bool = False) -> None:
    """profiles.json -> similarity.json.

    Args:
        folder: of the run.
        settings: of the vectors.
        force: also if the file is up to date.
    """
    source, out = folder / "profiles.json", folder / "similarity.json"
    profiles = Profiles.load(source)
    embed = embedder(settings.embedder)
    head = formats.made("profile", dataclasses.asdict(settings) | {"embedder": embed.name}, profiles=source)
    if not force and formats.up_to_date(out, head):
        print(f"{out} is up to date")
        return
    matrix = similarity(profiles, embed, settings, head)
    matrix.save(out)
    print(f"{len(matrix.envs)} environments, {embed.name}; {spread(matrix.values)}")


if __name__ == "__main__":
    formats.command(main, __doc__)
