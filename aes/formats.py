"""The files between the stages of AES, each checked when it is read.

| file of the run folder | written by    | holds                                             |
|------------------------|---------------|---------------------------------------------------|
| annotations.jsonl      | annotate      | one `Annotation` a line                           |
| abilities.json         | merge         | `Abilities`: which labels mean the same           |
| profiles.json          | merge         | `Profiles`: abilities, transitions, frequencies   |
| similarity.json        | profile       | `Matrix`: profile similarity                      |
| conflict.json          | conflict      | `Matrix`: cosine of gradient directions           |
| selections/NAME.json   | select, baselines | `Selection`: environments with their reasons  |

Every JSON file but the annotations begins with `made`: stage, settings and the hashes of what was read. A stage whose
file says the same has nothing to do (`up_to_date`), so that a pipeline is rerun by running all of it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from aes.files import write_whole

WRITERS = {"annotations": "annotate", "profiles": "merge", "similarity": "profile", "conflict": "conflict"}


class FormatError(ValueError):
    """A file that is not what its stage should have written; the message names file and place."""


# ---- annotations ----


@dataclass(frozen=True)
class Segment:
    """A stretch of a trajectory with one function."""

    start: int  # first step
    end: int  # last step; several segments may lie within one step
    core: str  # verb phrase of what it does for the task; "" where it does only what `soft` says
    soft: tuple[str, ...] = ()  # what else it does, such as formatting

    @property
    def own(self) -> str:
        """The label that stands for the segment in transitions."""
        return self.core or self.soft[0]


@dataclass(frozen=True)
class Annotation:
    """One trajectory in segments, in the order of time."""

    env: str
    policy: str  # who acted
    instance: int
    trajectory: int
    segments: tuple[Segment, ...]
    success: bool | None = None  # None: not known

    @property
    def key(self) -> tuple[str, str, int, int]:
        return (self.env, self.policy, self.instance, self.trajectory)


def annotation(row: Any) -> Annotation:
    """From a JSON value; keys that it does not know are not read.

    Raises:
        ValueError: what is missing or wrong.
    """
    need = {"env": str, "policy": str, "instance": int, "trajectory": int, "segments": list}
    _check_keys(row, need)
    success = row.get("success")
    if not (success is None or isinstance(success, bool)):
        raise ValueError(f"success must be true, false or null, got {success!r}")
    segments = []
    for i, s in enumerate(row["segments"]):
        try:
            _check_keys(s, {"start": int, "end": int})
            core, soft = s.get("core") or "", s.get("soft") or []
            if not isinstance(core, str) or not isinstance(soft, list):
                raise ValueError("core must be a string and soft a list of strings")
            if not all(isinstance(label, str) for label in soft):
                raise ValueError(f"soft labels must be strings, got {soft}")
            for label in (core, *soft) if core.strip() else soft:
                if not any(c.isalpha() for c in label):
                    raise ValueError(f"{label!r} is no label")
            if not core.strip() and not soft:
                raise ValueError("neither a core nor a soft label")
            if not 0 <= s["start"] <= s["end"]:
                raise ValueError(f"start {s['start']} and end {s['end']} are no span of steps")
            if segments and s["start"] < segments[-1].start:
                raise ValueError(f"starts at step {s['start']}, before segment {i - 1}")
        except ValueError as error:
            raise ValueError(f"segment {i}: {error}") from None
        segments.append(Segment(s["start"], s["end"], core.strip(), tuple(label.strip() for label in soft)))
    return Annotation(row["env"], row["policy"], row["instance"], row["trajectory"], tuple(segments), success)


def read_annotations(file: Path) -> list[Annotation]:
    """All of a file, in its order.

    Raises:
        FormatError: a bad line, or the same trajectory twice.
    """
    out, seen = [], {}
    with _open(file, "annotate") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = annotation(json.loads(line))
                if row.key in seen:
                    raise ValueError(f"trajectory {row.key} again, first on line {seen[row.key]}")
            except ValueError as error:
                raise FormatError(f"{file}:{number}: {error}") from None
            seen[row.key] = number
            out.append(row)
    if not out:
        raise FormatError(f"{file}: no annotations")
    return out


def write_annotations(file: Path, rows: Sequence[Annotation]) -> None:
    write_whole(file, "".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in rows))


# ---- abilities and profiles ----


@dataclass(frozen=True)
class Abilities:
    """Which labels mean the same: every label is a member of exactly one ability."""

    members: dict[str, list[str]]  # ability -> labels
    unused: list[str]  # labels of the override file that no annotation uses
    made: dict[str, Any]

    def save(self, file: Path) -> None:
        data = {"made": self.made, "abilities": self.members, "unused": self.unused}
        write_whole(file, dumps(data))

    @staticmethod
    def load(file: Path) -> "Abilities":
        data = load(file, "merge", {"made": dict, "abilities": dict, "unused": list})
        return Abilities(data["abilities"], data["unused"], data["made"])


@dataclass(frozen=True)
class Profile:
    """The meta-ability profile of an environment (Section 3.1): frequencies are shares of its trajectories."""

    trajectories: int
    core: dict[str, float]
    soft: dict[str, float]
    edges: dict[tuple[str, str], float]  # a segment of the first ability, then one of the second
    dropped: dict[str, float]  # too rare


@dataclass(frozen=True)
class Profiles:
    envs: dict[str, Profile]
    made: dict[str, Any]

    def without(self, held_out: Sequence[str]) -> list[str]:
        """The other environments, candidates of a selection.

        Raises:
            ValueError: a held-out environment has no profile, or none is left.
        """
        unknown = sorted(set(held_out) - set(self.envs))
        if unknown:
            raise ValueError(f"held-out environments without a profile: {', '.join(unknown)}")
        envs = [e for e in self.envs if e not in held_out]
        if not envs:
            raise ValueError("no candidates")
        return envs

    def save(self, file: Path) -> None:
        envs = {
            env: {
                "trajectories": p.trajectories, "core": p.core, "soft": p.soft,
                "edges": [[a, b, f] for (a, b), f in p.edges.items()], "dropped": p.dropped,
            }
            for env, p in self.envs.items()
        }  # fmt: skip
        write_whole(file, dumps({"made": self.made, "envs": envs}))

    @staticmethod
    def load(file: Path) -> "Profiles":
        data = load(file, "merge", {"made": dict, "envs": dict})
        envs = {}
        for env, row in data["envs"].items():
            try:
                _check_keys(
                    row, {"trajectories": int, "core": dict, "soft": dict, "edges": list, "dropped": dict}
                )
                both = sorted(set(row["core"]) & set(row["soft"]))
                if both:
                    raise ValueError(f"{both} are core and soft")
                frequencies = [*row["core"].values(), *row["soft"].values(), *(e[2] for e in row["edges"])]
                if not all(0 < f <= 1 for f in frequencies):
                    raise ValueError("a frequency is outside (0, 1]")
                edges = {(a, b): f for a, b, f in row["edges"]}
            except (ValueError, TypeError, IndexError) as error:
                raise FormatError(f"{file}: {env}: {error}") from None
            envs[env] = Profile(row["trajectories"], row["core"], row["soft"], edges, row["dropped"])
        if not envs:
            raise FormatError(f"{file}: no environments")
        return Profiles(envs, data["made"])


# ---- matrices and selections ----


@dataclass(frozen=True)
class Matrix:
    """A symmetric matrix over environments."""

    envs: tuple[str, ...]
    values: np.ndarray  # f64[E, E], in [-1, 1]
    made: dict[str, Any]
    low_signal: tuple[str, ...] = ()  # environments whose row says little: too few non-zero gradients

    def save(self, file: Path) -> None:
        # Rounded, so that what a later stage reads is the same wherever it was computed.
        values = np.round(np.asarray(self.values, np.float64), 6) + 0.0
        data = {"made": self.made, "envs": list(self.envs), "low_signal": list(self.low_signal)}
        write_whole(file, dumps({**data, "values": values.tolist()}))

    @staticmethod
    def load(file: Path, stage: str) -> "Matrix":
        data = load(file, stage, {"made": dict, "envs": list, "values": list})
        envs = tuple(data["envs"])
        try:
            values = np.asarray(data["values"], np.float64)
        except (ValueError, TypeError):
            raise FormatError(f"{file}: values are no matrix of numbers") from None
        if values.shape != (len(envs), len(envs)) or len(set(envs)) != len(envs):
            raise FormatError(f"{file}: {len(envs)} environments, but a matrix {values.shape}")
        if not (np.abs(values) <= 1 + 1e-6).all() or np.abs(values - values.T).max() > 1e-5:
            raise FormatError(f"{file}: not symmetric, or a value outside [-1, 1]")
        return Matrix(envs, values, data["made"], tuple(data.get("low_signal", ())))

    def of(self, envs: Sequence[str]) -> np.ndarray:
        """f64[N, N]: rows and columns of `envs`.

        Raises:
            ValueError: environments that it does not have.
        """
        missing = sorted(set(envs) - set(self.envs))
        if missing:
            raise ValueError(f"the {self.made.get('stage', '')} matrix has no {', '.join(missing)}")
        rows = [self.envs.index(e) for e in envs]
        return self.values[np.ix_(rows, rows)]


@dataclass(frozen=True)
class Pick:
    """One step of a selection."""

    env: str
    reason: dict[str, Any]  # why this one: the terms of its gain, its distance, its category


@dataclass(frozen=True)
class Selection:
    """Environments in the order in which a method chose them."""

    method: str
    picks: tuple[Pick, ...]
    end: str  # why it stopped
    made: dict[str, Any]

    @property
    def envs(self) -> tuple[str, ...]:
        return tuple(p.env for p in self.picks)

    def save(self, file: Path) -> None:
        picks = [{"step": i, "env": p.env, **p.reason} for i, p in enumerate(self.picks, 1)]
        data = {"made": self.made, "method": self.method, "envs": list(self.envs), "end": self.end}
        write_whole(file, dumps({**data, "picks": picks}))

    @staticmethod
    def load(file: Path) -> "Selection":
        need = {"made": dict, "method": str, "envs": list, "end": str, "picks": list}
        data = load(file, "select", need)
        picks = tuple(
            Pick(p["env"], {k: v for k, v in p.items() if k not in ("step", "env")}) for p in data["picks"]
        )
        if [p.env for p in picks] != data["envs"]:
            raise FormatError(f"{file}: envs and picks differ")
        return Selection(data["method"], picks, data["end"], data["made"])


# ---- files ----


def digest(file: Path) -> str:
    """Hash of a file's content."""
    with Path(file).open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]


def made(stage: str, settings: Mapping[str, Any], **inputs: Path | None) -> dict[str, Any]:
    """The head of an output file. Where the inputs lie does not matter, what they hold does.

    Raises:
        FormatError: an input does not exist.
    """
    hashes = {}
    for name, file in inputs.items():
        if file is not None:
            if not Path(file).is_file():
                hint = f": `python -m aes.{WRITERS[name]}` writes it" if name in WRITERS else f" ({name})"
                raise FormatError(f"{file} does not exist{hint}")
            hashes[name] = digest(file)
    return {"stage": stage, "settings": dict(settings), "inputs": hashes}


def up_to_date(file: Path, head: Mapping[str, Any]) -> bool:
    """Whether `file` was made from the same inputs with the same settings."""
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(data, dict) and data.get("made") == json.loads(json.dumps(head))


def load(file: Path, stage: str, need: Mapping[str, type]) -> dict[str, Any]:
    """A JSON object with at least these keys.

    Raises:
        FormatError: no such file (says which stage writes it), no JSON, or a key is missing or of another type.
    """
    with _open(file, stage) as f:
        try:
            data = json.load(f)
            _check_keys(data, need)
        except ValueError as error:
            raise FormatError(f"{file}: {error}") from None
    return data


def dumps(value: Any) -> str:
    """JSON that people read: whatever fits on a line stays on one, and so does a list of numbers."""
    return _lines(value, 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    line = json.dumps(value, ensure_ascii=False)
    numbers = isinstance(value, list) and all(isinstance(v, int | float) for v in value)
    if not isinstance(value, dict | list) or numbers or (depth and len(line) + depth <= 110):
        return line
    if isinstance(value, dict):
        items = [
            f"{json.dumps(str(k), ensure_ascii=False)}: {_lines(v, depth + 1)}" for k, v in value.items()
        ]
    else:
        items = [_lines(v, depth + 1) for v in value]
    inner = ",\n".join(" " * (depth + 1) + item for item in items)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}\n{' ' * depth}{closing}"


def _open(file: Path, stage: str):
    if not Path(file).is_file():
        raise FormatError(f"{file} does not exist: `python -m aes.{stage}` writes it")
    return Path(file).open(encoding="utf-8")


def _check_keys(row: Any, need: Mapping[str, type]) -> None:
    if not isinstance(row, dict):
        raise ValueError(f"not an object: {str(row)[:60]!r}")
    for name, kind in need.items():
        if name not in row:
            raise ValueError(f"no {name!r}")
        if not isinstance(row[name], kind) or (kind is int and isinstance(row[name], bool)):
            raise ValueError(f"{name} must be {kind.__name__}, got {row[name]!r:.60}")


def command(main, description: str | None) -> None:
    """Run `main` from the command line; what is wrong with a file or a setting is one line, not a traceback."""
    try:
        tyro.cli(main, description=description, config=(tyro.conf.OmitArgPrefixes,))
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None
