"""What AES is compared with: `python -m aes.baselines --help` (Sections 5.1 and E.5).

- random: K environments, evenly over the categories. Sets of one seed are nested: a larger K adds to a smaller one.
- description, code: greedy k-center on the cosine distance of embedded descriptions or key code: first the environment
  nearest to the center of all, then always the one farthest from those chosen.

The paper embeds with bge-m3; the default here is tf-idf over word stems, which needs no weights.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from tyro.conf import Positional

from aes import formats, pool
from aes.embed import embedder, unit
from aes.formats import FormatError, Pick, Profiles, Selection

Method = Literal["random", "description", "code"]


@dataclass(frozen=True)
class Settings:
    methods: tuple[Method, ...] = get_args(Method)
    k: int | None = None
    """Environments to select; as many as selections/aes.json has, if not given."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Of random, one set each."""
    embedder: str = "tfidf"
    """For descriptions and code: tfidf, words, minilm, or the folder of a sentence model (aes/embed.py)."""

    def __post_init__(self):
        if self.k is not None and self.k < 1:
            raise ValueError(f"k must be positive, got {self.k}")
        if self.embedder == "bag":
            raise ValueError("bag finds no two texts alike: use tfidf")


def random_k(categories: Mapping[str, str], k: int, seed: int) -> list[Pick]:
    """K environments: one of each category in turn, those that run out left out.

    The order is that of a hash of seed and name: it depends neither on the order of `categories` nor on what else is in
    the pool.
    """
    _check(k, len(categories))
    by_category = defaultdict(list)
    for env in sorted(categories, key=lambda e: _hash(seed, e)):
        by_category[categories[env]].append(env)
    rounds = sorted(
        (turn, _hash(seed, f"category {category}"), env)
        for category, envs in by_category.items()
        for turn, env in enumerate(envs)
    )
    return [Pick(env, {"category": categories[env]}) for _, _, env in rounds[:k]]


def _hash(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed} {name}".encode()).hexdigest()


def k_center(envs: Sequence[str], vectors: np.ndarray, k: int) -> list[Pick]:
    """Greedy k-center on cosine distance; `vectors` f[N, D] are unit rows. The first environment wins ties."""
    _check(k, len(envs))
    # Rounded, so that ties are the same on every machine.
    to_center = np.round(1.0 - vectors @ unit(vectors.mean(axis=0)), 9)
    first = int(np.argmin(to_center))
    picks = [Pick(envs[first], {"distance_to_center": float(to_center[first])})]
    nearest = np.round(1.0 - vectors @ vectors[first], 9)
    chosen = [first]
    while len(chosen) < k:
        nearest[chosen] = -np.inf
        env = int(np.argmax(nearest))
        picks.append(Pick(envs[env], {"distance": float(nearest[env])}))
        chosen.append(env)
        nearest = np.minimum(nearest, np.round(1.0 - vectors @ vectors[env], 9))
    return picks


def _check(k: int, total: int) -> None:
    if not 1 <= k <= total:
        raise ValueError(f"k must be in 1..{total}, the number of candidates; got {k}")


def main(
    folder: Positional[Path],
    settings: Settings = Settings(),
    exclude: tuple[str, ...] = (),
    categories: Path | None = None,
    force: bool = False,
) -> None:
    """The environments of profiles.json -> selections/random_SEED.json, description.json, code.json.

    Args:
        folder: of the run.
        settings: of the baselines.
        exclude: environments that are held out.
        categories: a JSON object, environment -> category, for environments that jaxenv does not know.
        force: also if the files are up to date.
    """
    envs = Profiles.load(folder / "profiles.json").without(exclude)
    k = settings.k
    if k is None:
        if not (folder / "selections" / "aes.json").exists():
            raise FormatError(
                f"{folder}/selections/aes.json does not exist: run `python -m aes.select`, or give --k"
            )
        k = len(Selection.load(folder / "selections" / "aes.json").picks)
    for method in settings.methods:
        if method == "random":
            category = pool.categories(envs, categories)
            for seed in settings.seeds:
                head = _head(method, k, category, seed=seed)
                _save(folder, f"random_{seed}", head, force, lambda s=seed, c=category: random_k(c, k, s))
        else:
            texts = {e: (pool.description if method == "description" else pool.code)(e) for e in envs}
            embed = embedder(settings.embedder)
            head = _head(method, k, texts, embedder=embed.name)
            _save(
                folder, method, head, force, lambda t=texts, f=embed: k_center(envs, f(list(t.values())), k)
            )


def _head(method: str, k: int, read: Mapping[str, str], **settings: Any) -> dict[str, Any]:
    """`read`: what the method knows of each environment; it stands in the file as a hash."""
    seen = hashlib.sha256(repr(list(read.items())).encode()).hexdigest()[:16]
    return formats.made("baselines", {"method": method, "k": k, **settings}) | {"inputs": {"pool": seen}}


def _save(folder: Path, name: str, head: dict[str, Any], force: bool, picks) -> None:
    out = folder / "selections" / f"{name}.json"
    if not force and formats.up_to_date(out, head):
        print(f"{out} is up to date")
        return
    selection = Selection(name, tuple(picks()), f"{head['settings']['k']} environments", head)
    selection.save(out)
    print(f"{name}: {', '.join(selection.envs)}")


if __name__ == "__main__":
    formats.command(main, __doc__)
