"""Terminal tasks in Harbor's directory format: task.toml, instruction.md, environment/, solution/, tests/.

Read strictly: a field that is unknown, of the wrong type, out of range, or that asks for what our sandbox does not
give (another network, several steps, a ready-made image) is an error that names it.
Source: the task format of Harbor 0.26, schema version 1.4.
"""

import hashlib
import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from curriculum.evolution.inside import WRITABLE
from curriculum.evolution.sandbox import File, Limits

PARTS = ("environment", "solution", "tests")
LARGEST = 32 << 20  # bytes of all files of a task
SCHEMAS = ("1.0", "1.1", "1.2", "1.3", "1.4")


class TaskError(ValueError):
    """A task that does not follow the format; the message names the file and the field."""


@dataclass(frozen=True)
class TaskInfo:
    """[task]"""

    name: str
    description: str = ""
    authors: tuple[dict, ...] = ()
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True)
class Environment:
    """[environment]"""

    cpus: int = 1
    memory_mb: int = 2048
    storage_mb: int = 1024
    build_timeout_sec: float = 300.0
    network_mode: str = "no-network"
    workdir: str = ""  # empty: the Dockerfile's
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Agent:
    """[agent]"""

    timeout_sec: float = 600.0
    user: str = "root"


@dataclass(frozen=True)
class Verifier:
    """[verifier]"""

    timeout_sec: float = 120.0
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Solution:
    """[solution]"""

    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Copy:
    """Files that a Dockerfile copies, by their absolute path."""

    files: dict[str, File]


@dataclass(frozen=True)
class Run:
    """A command that a Dockerfile runs."""

    command: str
    workdir: str
    env: dict[str, str]


@dataclass(frozen=True)
class Build:
    """What a Dockerfile says, as far as the sandbox follows it."""

    image: (
        str  # FROM: what a container engine would start with; the sandbox shows its own base system instead
    )
    packages: tuple[str, ...]  # that the base system must have
    steps: tuple[Copy | Run, ...]
    workdir: str
    env: dict[str, str]


@dataclass(frozen=True)
class Task:
    """One task. `files`: by their path below the task's folder, those of environment/, solution/ and tests/."""

    info: TaskInfo
    instruction: str
    files: dict[str, File]
    environment: Environment = Environment()
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    solution: Solution = Solution()
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        check(self)

    def part(self, name: str) -> dict[str, File]:
        """The files of "environment", "solution" or "tests", by their path below it."""
        return {
            path.removeprefix(name + "/"): file
            for path, file in self.files.items()
            if path.startswith(name + "/")
        }

    @property
    def build(self) -> Build:
        """The Dockerfile, read."""
        return read_dockerfile(self.part("environment"))

    @property
    def workdir(self) -> str:
        return self.environment.workdir or self.build.workdir

    @property
    def limits(self) -> Limits:
        return Limits(
            cpus=self.environment.cpus,
            memory_mb=self.environment.memory_mb,
            storage_mb=self.environment.storage_mb,
            cpu_sec=max(1, int(self.agent.timeout_sec * self.environment.cpus)),
        )

    @property
    def hash(self) -> str:
        """SHA-256 of everything a task says: equal for equal tasks, wherever they lie."""
        digest = hashlib.sha256(toml(self).encode() + b"\0" + self.instruction.encode())
        for path, file in sorted(self.files.items()):
            digest.update(f"\0{path}\0{file.mode & 0o111:o}\0{len(file.data)}\0".encode() + file.data)
        return digest.hexdigest()


SECTIONS = {
    "task": TaskInfo,
    "environment": Environment,
    "agent": Agent,
    "verifier": Verifier,
    "solution": Solution,
}
# Fields of the format that ask for what the sandbox has not; their one harmless value, if there is one.
REFUSED: dict[str, Any] = {
    "environment.docker_image": None,
    "environment.allow_internet": False,
    "environment.healthcheck": None,
    "environment.gpus": 0,
    "environment.mcp_servers": [],
    "verifier.environment_mode": "shared",
    "artifacts": [],
    "steps": [],
}


def load(folder: Path) -> Task:
    """Read a task.

    Raises:
        TaskError: the folder is no task we can run; the message names the file and the field.
    """
    texts = {}
    for name in ("task.toml", "instruction.md"):
        try:
            texts[name] = (folder / name).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TaskError(f"{folder}: {name} cannot be read: {error}") from None
    try:
        table = tomllib.loads(texts["task.toml"])
    except tomllib.TOMLDecodeError as error:
        raise TaskError(f"{folder}: task.toml is no TOML: {error}") from None
    known = {"task.toml", "instruction.md", "README.md", *PARTS}
    for entry in sorted(folder.iterdir()):
        if entry.name not in known:
            raise TaskError(
                f"{folder}: {entry.name} does not belong to a task (known: {', '.join(sorted(known))})"
            )
    files, total = {}, 0
    for path in sorted(path for part in PARTS for path in (folder / part).rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise TaskError(f"{folder}: {name} is a link; make links in the Dockerfile (RUN ln -s)")
        if path.is_file():
            total += path.stat().st_size
            if total > LARGEST:
                raise TaskError(f"{folder}: the files have more than {LARGEST:,} bytes")
            files[name] = File(path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
        elif not path.is_dir():
            raise TaskError(f"{folder}: {name} is neither a file nor a folder")
    try:
        return parse(table, texts["instruction.md"], files)
    except TaskError as error:
        raise TaskError(f"{folder}: {error}") from None


def parse(table: Mapping[str, Any], instruction: str, files: Mapping[str, File]) -> Task:
    """A task from what task.toml holds and the files beside it."""
    table = {name: dict(value) if isinstance(value, dict) else value for name, value in table.items()}
    for path, harmless in REFUSED.items():
        section, _, name = path.rpartition(".")
        holder = table.get(section, {}) if section else table
        if isinstance(holder, dict) and name in holder:
            if harmless is None or holder[name] != harmless:
                raise TaskError(
                    f"task.toml: {path} = {holder[name]!r} asks for what the sandbox does not offer"
                )
            del holder[name]
    version = table.pop("schema_version", "1.4")
    if version not in SCHEMAS:
        raise TaskError(f"task.toml: schema_version must be one of {', '.join(SCHEMAS)}, not {version!r}")
    metadata = table.pop("metadata", {})
    if not isinstance(metadata, dict):
        raise TaskError("task.toml: metadata must be a table")
    parts: dict[str, Any] = {}
    for name, value in table.items():
        if name not in SECTIONS:
            raise TaskError(
                f"task.toml: {name} is unknown (known: {', '.join((*SECTIONS, 'metadata', 'schema_version'))})"
            )
        if not isinstance(value, dict):
            raise TaskError(f"task.toml: {name} must be a table, not {value!r}")
        parts["info" if name == "task" else name] = _section(name, value)
    if "info" not in parts:
        raise TaskError("task.toml: task.name is missing")
    return Task(instruction=instruction, files=dict(files), metadata=metadata, **parts)


def _section(name: str, values: Mapping[str, Any]):
    kind = SECTIONS[name]
    known = {item.name: item for item in fields(kind)}
    taken = {}
    for key, value in values.items():
        where = f"task.toml: {name}.{key}"
        if key not in known:
            raise TaskError(f"{where} is unknown (known: {', '.join(known)})")
        wanted = known[key].type
        if (wanted is str and isinstance(value, str)) or (
            wanted is int and isinstance(value, int) and not isinstance(value, bool)
        ):
            taken[key] = value
        elif wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
            taken[key] = float(value)
        elif (
            wanted == dict[str, str]
            and isinstance(value, dict)
            and all(isinstance(v, str) for v in value.values())
        ):
            taken[key] = dict(value)
        elif (
            wanted == tuple[str, ...] and isinstance(value, list) and all(isinstance(v, str) for v in value)
        ) or (
            wanted == tuple[dict, ...] and isinstance(value, list) and all(isinstance(v, dict) for v in value)
        ):
            taken[key] = tuple(value)
        else:
            raise TaskError(f"{where} must be {_words(wanted)}, not {value!r}")
    if name == "task" and "name" not in taken:
        raise TaskError("task.toml: task.name is missing")
    return kind(**taken)


def _words(kind) -> str:
    words = {str: "text", int: "a whole number", float: "a number", dict[str, str]: "a table of texts"}
    return words.get(kind, "a list of texts" if kind == tuple[str, ...] else "a list of tables")


def check(task: Task) -> None:
    """Ranges, and files that every task has.

    Raises:
        TaskError: the message names the field.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}", task.info.name):
        raise TaskError(f"task.toml: task.name must be letters, digits and . _ / -, not {task.info.name!r}")
    if not task.instruction.strip():
        raise TaskError("instruction.md is empty")
    for name in ("tests/test.sh", "environment/Dockerfile"):
        if name not in task.files:
            raise TaskError(f"{name} is missing")
    for path in task.files:
        pure = PurePosixPath(path)
        if (
            pure.is_absolute()
            or ".." in pure.parts
            or str(pure) != path
            or pure.parts[0] not in PARTS
            or len(pure.parts) < 2
        ):
            raise TaskError(f"{path}: files lie below {', '.join(PARTS)}")
    if task.environment.network_mode != "no-network":
        mode = task.environment.network_mode
        raise TaskError(
            f"task.toml: environment.network_mode must be 'no-network': there is none, not {mode!r}"
        )
    if task.agent.user not in ("root", "agent"):
        raise TaskError(f"task.toml: agent.user must be 'root' or 'agent', not {task.agent.user!r}")
    for name in ("agent", "verifier"):
        seconds = getattr(task, name).timeout_sec
        if not 0 < seconds <= 86_400:
            raise TaskError(f"task.toml: {name}.timeout_sec must be between 0 and 86400, not {seconds:g}")
    if not 0 < task.environment.build_timeout_sec <= 86_400:
        raise TaskError("task.toml: environment.build_timeout_sec must be between 0 and 86400")
    try:
        _ = task.limits
    except ValueError as error:
        raise TaskError(f"task.toml: environment.{str(error).removeprefix('limits.')}") from None
    for section in ("environment", "verifier", "solution"):
        for key, value in getattr(task, section).env.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key) or "\0" in value:
                raise TaskError(f"task.toml: {section}.env.{key} is no environment variable")
    if not task.workdir.startswith("/") or task.workdir.split("/")[1] not in WRITABLE:
        raise TaskError(
            f"environment.workdir must lie below one of {', '.join(WRITABLE)}, not {task.workdir!r}"
        )


def read_dockerfile(files: Mapping[str, File]) -> Build:
    """The part of the Dockerfile language that tasks need: FROM, RUN, COPY, WORKDIR, ENV.

    `RUN apt-get install` names packages that the base system must have; every other RUN is run in the sandbox.

    Raises:
        TaskError: the message names the line.
    """
    image, packages, steps, workdir, env = "", [], [], "/", {}
    lines = files["Dockerfile"].data.decode(errors="replace").replace("\\\n", " ").splitlines()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        word, _, rest = text.partition(" ")
        where, rest = f"environment/Dockerfile: {text[:60]!r} (instruction {number})", rest.strip()
        if word == "FROM":
            if image or not re.fullmatch(r"\S+", rest):
                raise TaskError(f"{where}: one FROM with one image")
            image = rest
        elif word == "WORKDIR":
            workdir = _absolute(workdir, rest, where)
        elif word == "ENV":
            for pair in _words_of(rest, where):
                key, equals, value = pair.partition("=")
                if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                    raise TaskError(f"{where}: ENV NAME=value")
                env[key] = value
        elif word == "COPY":
            steps.append(Copy(_copied(files, _words_of(rest, where), workdir, where)))
        elif word == "RUN":
            if rest.startswith("["):
                raise TaskError(f"{where}: RUN takes a shell command")
            if rest.startswith("apt-get"):
                packages += _packages(rest, where)
            else:
                steps.append(Run(rest, workdir, dict(env)))
        else:
            raise TaskError(f"{where}: only FROM, RUN, COPY, WORKDIR and ENV are understood")
    if not image:
        raise TaskError("environment/Dockerfile: FROM is missing")
    return Build(image, tuple(packages), tuple(steps), workdir, env)


def _words_of(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise TaskError(f"{where}: {error}") from None


def _absolute(workdir: str, path: str, where: str) -> str:
    pure = PurePosixPath(workdir, path)
    if not path or ".." in pure.parts:
        raise TaskError(f"{where}: a path without ..")
    return str(pure)


def _copied(files: Mapping[str, File], words: list[str], workdir: str, where: str) -> dict[str, File]:
    if len(words) != 2 or words[0].startswith("-"):
        raise TaskError(f"{where}: COPY SOURCE DESTINATION, no flags")
    source, target = words[0].removeprefix("./").rstrip("/"), _absolute(workdir, words[1], where)
    if target.split("/")[1] not in WRITABLE:
        raise TaskError(f"{where}: copies go below one of {', '.join(WRITABLE)}")
    if source in files:
        name = "/" + PurePosixPath(source).name if words[1].endswith("/") else ""
        return {target + name: files[source]}
    below = "" if source in (".", "") else source + "/"
    found = {
        f"{target}/{p.removeprefix(below)}": f
        for p, f in files.items()
        if p.startswith(below) and p != "Dockerfile"
    }
    if not found:
        raise TaskError(f"{where}: environment/{source} is missing")
    return found


def _packages(text: str, where: str) -> list[str]:
    found = []
    for command in text.split("&&"):
        words = command.split()
        if words[:2] == ["apt-get", "install"]:
            found += [word.partition("=")[0] for word in words[2:] if not word.startswith("-")]
        elif words[:2] != ["apt-get", "update"] and words[:2] != ["rm", "-rf"]:
            raise TaskError(f"{where}: apt-get update, apt-get install and rm -rf stand alone")
    return found


def write(task: Task, folder: Path) -> None:
    """Write a task's folder, which must not exist. `load` gives back the same task."""
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(toml(task), encoding="utf-8", newline="")
    (folder / "instruction.md").write_text(task.instruction, encoding="utf-8", newline="")
    for name, file in task.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)


def toml(task: Task) -> str:
    """What task.toml says; fields at their default are left out."""
    lines = [f'schema_version = "{SCHEMAS[-1]}"']
    for name, kind in SECTIONS.items():
        part = task.info if name == "task" else getattr(task, name)
        kinds = {item.name: item.type for item in fields(kind)}
        default = {} if kind is TaskInfo else vars(kind())
        given = {key: float(value) if kinds[key] is float else value for key, value in vars(part).items()}
        values = {key: value for key, value in given.items() if key not in default or value != default[key]}
        if kind is TaskInfo:
            values = {key: value for key, value in values.items() if value}
        if values:
            lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in values.items())]
    if task.metadata:
        lines += [
            "",
            "[metadata]",
            *(f"{_key(key)} = {_value(value)}" for key, value in sorted(task.metadata.items())),
        ]
    return "\n".join(lines) + "\n"


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else json.dumps(text)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TaskError(f"task.toml cannot hold {value!r}")
