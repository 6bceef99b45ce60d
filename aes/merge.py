"""Labels to meta-abilities, and a profile of every environment: `python -m aes.merge --help` (Section 3.1, Appendix C.2).

Two labels mean the same only if their leading verbs are of one class and average linkage over their embeddings joins
them: a similar noun is not a similar ability ("locate the goal cell", "plan a path to the goal"). Before embedding, the
verb makes way for a common one (`VERBS`), so that "find the exit" is "locate the exit" to any embedder. What that gets wrong is corrected in an override file, whose layout is that of abilities.json:

    {"abilities": {"plan path": ["find route", "plan path"], "read clue": ["read clue"]},
     "core": ["plan path"], "soft": ["write answer"]}

puts "find route" and "plan path" into one ability and keeps "read clue" alone; all parts may be left out. A label that
is the name of an ability belongs to it. `core` and `soft` fix the class of an ability in all environments.
"""

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist
from tyro.conf import Positional

from aes import formats
from aes.embed import Embedder, embedder, stem
from aes.formats import Abilities, Annotation, FormatError, Profile, Profiles

# Common verbs and what they stand for. Any other verb stands for itself.
VERBS = {
    "read": "read extract observe perceive parse transcribe interpret see view",
    "identify": "identify recognize recognise detect determine",
    "locate": "locate find spot pinpoint",
    "count": "count enumerate tally number",
    "compute": "compute calculate add sum multiply divide evaluate aggregate measure total",
    "compare": "compare rank order sort contrast match",
    "infer": "infer deduce derive conclude induce hypothesize guess",
    "plan": "plan devise schedule route outline",
    "explore": "explore scan inspect survey probe",
    "search": "search backtrack branch try",
    "simulate": "simulate predict anticipate forecast project",
    "verify": "verify check confirm validate test recheck ensure review",
    "choose": "choose select pick decide prefer",
    "generate": "generate list propose",
    "move": "move navigate go walk step turn follow traverse approach",
    "manipulate": "manipulate grab take drop push pull toggle open close unlock place put rotate slide",
    "solve": "solve apply propagate resolve satisfy",
    "update": "update revise correct adjust retry recover repair undo",
    "optimize": "optimize optimise maximize maximise minimize minimise",
    "track": "track remember maintain recall record",
    "report": "report format write state output answer submit give present summarize restate explain announce",
}
_COMMON = {stem(verb): name for name, verbs in VERBS.items() for verb in verbs.split()}
# A class is the common verb, but for those that differ too little to keep labels apart.
_CLASS = {"identify": "read", "locate": "read"}
META = frozenset({stem("report")})  # never core: what every task asks for


@dataclass(frozen=True)
class Settings:
    embedder: str = "words"
    """What compares labels: words, minilm, or the folder of a sentence model (aes/embed.py)."""
    similarity: float = 0.7
    """Mean cosine at which average linkage still joins labels, [0, 1]; 0.7 suits words, 0.6 a sentence model."""
    min_frequency: float = 0.1
    """Share of an environment's trajectories below which an ability is noise, [0, 1]."""
    core_frequency: float = 0.5
    """Share of the successful trajectories (of all, if none is known to be) from which an ability can be core, [0, 1]."""

    def __post_init__(self):
        for name in ("similarity", "min_frequency", "core_frequency"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if self.embedder == "bag":
            raise ValueError("bag finds no two labels alike: use words")


@dataclass(frozen=True)
class Overrides:
    """What a person decided."""

    abilities: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    core: frozenset[str] = frozenset()
    soft: frozenset[str] = frozenset()

    @staticmethod
    def load(file: Path) -> "Overrides":
        """Raises FormatError for a label in two places, or an ability that is both core and soft."""
        data = formats.load(file, "merge", {})
        unknown = sorted(set(data) - {"abilities", "core", "soft", "made", "unused"})
        if unknown:
            raise FormatError(f"{file}: {unknown} are none of abilities, core, soft")
        seen: dict[str, str] = {}
        abilities = {
            normal(name): [normal(m) for m in members] for name, members in data.get("abilities", {}).items()
        }
        for name, members in abilities.items():
            for label in members:
                if seen.setdefault(label, name) != name:
                    raise FormatError(f"{file}: {label!r} is in {seen[label]!r} and in {name!r}")
        for name, members in abilities.items():
            if name not in seen:  # a label that is the name of an ability belongs to it
                members.append(name)
        core, soft = (frozenset(map(normal, data.get(part, ()))) for part in ("core", "soft"))
        if core & soft:
            raise FormatError(f"{file}: {sorted(core & soft)} are core and soft")
        return Overrides(abilities, core, soft)


def normal(label: str) -> str:
    """The spelling in which labels are compared: "Plan_Path" is "plan path"."""
    return " ".join(label.replace("_", " ").replace("-", " ").lower().split()).rstrip(".")


def common(label: str) -> str:
    """The label with a common leading verb, whatever the verb's form: "Finding the exit" is "locate the exit"."""
    first, *rest = normal(label).split()
    verb = "manipulate" if first == "pick" and rest[:1] == ["up"] else _COMMON.get(stem(first), first)
    return " ".join([verb, *rest])


def verb_class(label: str) -> str:
    """Labels of different classes are never joined."""
    first = common(label).split()[0]
    return _CLASS.get(first, stem(first))


def cluster(
    counts: Mapping[str, int],
    embed: Embedder,
    similarity: float,
    fixed: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, list[str]]:
    """Meta-abilities: name -> labels, every label of `counts` in exactly one.

    Args:
        counts: how often each label is used; the most used one names its ability (the alphabet decides ties).
        fixed: abilities that a person made; their labels take part in no other.
    """
    fixed = fixed or {}
    out = {name: sorted(set(labels) & set(counts)) for name, labels in fixed.items()}
    out = {name: labels for name, labels in out.items() if labels}
    taken = {label for labels in out.values() for label in labels}
    by_class = defaultdict(list)
    for label in sorted(set(counts) - taken):
        by_class[verb_class(label)].append(label)
    labels = [label for group in by_class.values() for label in group]
    vectors = dict(zip(labels, embed([common(label) for label in labels]))) if labels else {}
    for group in by_class.values():
        number = np.ones(1, int)
        if len(group) > 1:
            # Rounded, so that equal distances are equal on every machine. A zero vector is like nothing.
            rows = np.asarray([vectors[label] for label in group])
            distance = np.round(1.0 - np.clip(1.0 - pdist(rows, "sqeuclidean") / 2.0, -1.0, 1.0), 9)
            empty = ~rows.any(axis=1)
            first, second = np.triu_indices(len(group), 1)
            distance[empty[first] | empty[second]] = 1.0
            number = fcluster(linkage(distance, "average"), 1.0 - similarity + 1e-9, "distance")
        joined = defaultdict(list)
        for label, n in zip(group, number):
            joined[n].append(label)
        for members in joined.values():
            out[min(members, key=lambda label: (-counts[label], label))] = members
    return dict(sorted(out.items()))


def label_counts(annotations: Sequence[Annotation]) -> Counter[str]:
    return Counter(normal(label) for a in annotations for s in a.segments for label in _labels(s))


def _labels(segment: formats.Segment) -> tuple[str, ...]:
    return ((segment.core,) if segment.core else ()) + segment.soft


def profile(
    annotations: Sequence[Annotation],
    ability_of: Mapping[str, str],
    settings: Settings = Settings(),
    overrides: Overrides = Overrides(),
) -> Profile:
    """The profile of the environment that all `annotations` are of.

    Frequency: share of trajectories in which the ability appears at least once; a transition likewise, between
    different abilities of consecutive segments (each stands for its core label) once the rare ones are left out.
    Core: named as core in at least half of the segments that name it at all, found in `core_frequency` of the
    successful trajectories, and more than the reporting of an answer.
    """
    total = len(annotations)
    present = [{ability_of[normal(label)] for s in a.segments for label in _labels(s)} for a in annotations]
    count = Counter(ability for abilities in present for ability in abilities)
    # Whole numbers: 4 of 40 must not fall below 10% by rounding.
    kept = {a for a, n in count.items() if n >= settings.min_frequency * total - 1e-9}
    successes = [p for p, a in zip(present, annotations) if a.success] or present
    stable = Counter(ability for abilities in successes for ability in abilities)
    named, named_core = Counter(), Counter()
    for s in (s for a in annotations for s in a.segments):
        core = ability_of[normal(s.core)] if s.core else None
        named.update({ability_of[normal(label)] for label in _labels(s)})
        named_core.update({core} if core else ())

    def is_core(ability: str) -> bool:
        if ability in overrides.core or ability in overrides.soft:
            return ability in overrides.core
        often = stable[ability] >= settings.core_frequency * len(successes) - 1e-9
        return 2 * named_core[ability] >= named[ability] and often and verb_class(ability) not in META

    edges = Counter()
    for a in annotations:
        sequence = [ability_of[normal(s.own)] for s in a.segments]
        edges.update({(a, b) for a, b in pairwise(x for x in sequence if x in kept) if a != b})
    frequency = {a: n / total for a, n in sorted(count.items(), key=lambda item: (-item[1], item[0]))}
    return Profile(
        trajectories=total,
        core={a: f for a, f in frequency.items() if a in kept and is_core(a)},
        soft={a: f for a, f in frequency.items() if a in kept and not is_core(a)},
        edges={e: n / total for e, n in sorted(edges.items(), key=lambda item: (-item[1], item[0]))},
        dropped={a: f for a, f in frequency.items() if a not in kept},
    )


def with_success(annotations: Sequence[Annotation], trajectories: Path) -> list[Annotation]:
    """`annotations`, told from the file of `aes.collect` which trajectories succeeded.

    Raises:
        FormatError: a trajectory is not in the file.
    """
    success = {}
    with trajectories.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                key = (row["env"], row["policy"], row["instance"], row["trajectory"])
                success[key] = bool(row["success"])
            except (ValueError, KeyError, TypeError) as error:
                raise FormatError(f"{trajectories}:{number}: {error!r}") from None
    missing = [a.key for a in annotations if a.success is None and a.key not in success]
    if missing:
        raise FormatError(f"{trajectories} has no trajectory {missing[0]} ({len(missing)} are missing)")
    return [
        a if a.success is not None else dataclasses.replace(a, success=success[a.key]) for a in annotations
    ]


def merge(
    annotations: Sequence[Annotation],
    embed: Embedder,
    settings: Settings = Settings(),
    overrides: Overrides = Overrides(),
    made: dict[str, Any] | None = None,
) -> tuple[Abilities, Profiles]:
    """Meta-abilities over all annotations, and the profile of each environment.

    `embed` is the one that `settings` name.
    """
    counts = label_counts(annotations)
    abilities = cluster(counts, embed, settings.similarity, overrides.abilities)
    ability_of = {label: name for name, members in abilities.items() for label in members}
    by_env = defaultdict(list)
    for a in annotations:
        by_env[a.env].append(a)
    profiles = {env: profile(rows, ability_of, settings, overrides) for env, rows in sorted(by_env.items())}
    given = {label for labels in overrides.abilities.values() for label in labels}
    unused = sorted((given - set(counts)) | ((overrides.core | overrides.soft) - set(abilities)))
    return Abilities(abilities, unused, made or {}), Profiles(profiles, made or {})


def main(
    folder: Positional[Path],
    overrides: Path | None = None,
    settings: Settings = Settings(),
    force: bool = False,
) -> None:
    """annotations.jsonl -> abilities.json and profiles.json.

    Args:
        folder: of the run. Which trajectories succeeded is read from its trajectories.jsonl, if it is there.
        overrides: a JSON file of corrections; overrides.json of the folder, if it is there.
        settings: of merging.
        force: also if the files are up to date.
    """
    source, trajectories = folder / "annotations.jsonl", folder / "trajectories.jsonl"
    if overrides is None and (folder / "overrides.json").exists():
        overrides = folder / "overrides.json"
    trajectories = trajectories if trajectories.exists() else None
    embed = embedder(settings.embedder)
    named = dataclasses.asdict(settings) | {"embedder": embed.name}
    head = formats.made("merge", named, annotations=source, overrides=overrides, trajectories=trajectories)
    outputs = (folder / "abilities.json", folder / "profiles.json")
    if not force and all(formats.up_to_date(file, head) for file in outputs):
        print(f"{outputs[1]} is up to date")
        return
    annotations = formats.read_annotations(source)
    if trajectories:
        annotations = with_success(annotations, trajectories)
    decided = Overrides.load(overrides) if overrides else Overrides()
    abilities, profiles = merge(annotations, embed, settings, decided, head)
    abilities.save(outputs[0])
    profiles.save(outputs[1])
    core = {a for p in profiles.envs.values() for a in p.core}
    known = sum(a.success is not None for a in annotations)
    print(
        f"{len(annotations)} trajectories of {len(profiles.envs)} environments (success of {known} known): "
        f"{sum(map(len, abilities.members.values()))} labels are {len(abilities.members)} abilities, "
        f"{len(core)} of them core somewhere"
    )
    for label in abilities.unused:
        print(f"not used: {label!r} of {overrides}")
    for env in (e for e, p in profiles.envs.items() if not p.core):
        print(f"no core ability: {env} can not be selected")


if __name__ == "__main__":
    formats.command(main, __doc__)
