"""Tasks as typed pipelines of skill nodes: every node brings its instruction, its solution and its tests.

A `Genome` (a key and the names of nodes) is a task: `compose` makes the same one from it every time. What is wanted
is worked out here by the reference, in Python; the solution works it out again in the sandbox, from the files.
"""

import difflib
import functools
import hashlib
import importlib
import json
import pkgutil
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from curriculum.evolution import skills
from curriculum.evolution.artifacts import Archive, Artifact, Log, Table, Tree
from curriculum.evolution.sandbox import File
from curriculum.evolution.task import Agent, Environment, Task, TaskInfo, Verifier

HERE = Path(__file__).parent
IMAGE = "python:3.11-bookworm"

INTRO = """Work in `/app`. The steps build on each other; each names the files it reads and the ones it writes.
Folders for results exist. Leave the files that steps read as they are, unless a step says otherwise.

CSV and TSV files have a header line and fields separated by one comma or one tab, quoted only where necessary; JSON
Lines files have one object a line, JSON files one list of objects, numbers as numbers, keys in the order of the
columns. Keep the order of rows unless a step says otherwise. All text is UTF-8, lines end in a newline.
"""
SOLVE = """#!/bin/bash
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=$here LC_ALL=C.UTF-8
cd /app
"""
TEST = """#!/bin/bash
python3 -I /tests/check.py
status=$?
if [ $status = 0 ]; then
  echo 1 > /logs/verifier/reward.txt
elif [ $status = 10 ]; then
  echo 0 > /logs/verifier/reward.txt
else
  exit $status
fi
"""
TOOLS = '''"""Reads and writes tables by the suffix of their file."""

import csv
import json


def read(path):
    kind = path.rpartition(".")[2]
    with open(path, encoding="utf-8", newline="") as file:
        if kind in ("csv", "tsv"):
            return list(csv.DictReader(file, delimiter="," if kind == "csv" else "\\t"))
        return [json.loads(line) for line in file] if kind == "jsonl" else json.load(file)


def write(path, names, rows, numbers=()):
    kind = path.rpartition(".")[2]
    rows = [{name: int(row[name]) if name in numbers else row[name] for name in names} for row in rows]
    with open(path, "w", encoding="utf-8", newline="") as file:
        if kind in ("csv", "tsv"):
            out = csv.DictWriter(file, names, delimiter="," if kind == "csv" else "\\t", lineterminator="\\n")
            out.writeheader()
            out.writerows(rows)
        elif kind == "jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False) + "\\n" for row in rows)
        else:
            json.dump(rows, file, ensure_ascii=False)
'''


@dataclass(frozen=True)
class Step:
    """What one node adds to a task."""

    artifact: Artifact  # what it makes, as the reference works it out
    text: str = ""  # instruction; empty: nothing is to be done, the artifact is given
    solve: str = ""  # bash
    test: str = ""  # Python over the functions of `check`, on top of comparing the artifact
    fixture: dict[str, File] = field(default_factory=dict)  # by absolute path
    setup: tuple[str, ...] = ()  # commands that build the environment, after the fixture is there
    hidden: dict[str, File] = field(default_factory=dict)  # by path below /tests


@dataclass(frozen=True)
class Place:
    """Where a step works."""

    number: int  # of the step, from 1
    name: str  # of the node

    def out(self, suffix: str) -> str:
        return f"/app/out/{self.number:02d}_{self.name}{suffix}"

    def data(self, name: str) -> str:
        """A fixture's path."""
        return f"/app/data{self.number}/{name}"


class Node(Protocol):
    """One skill. Nodes that take nothing start a pipeline."""

    takes: type | None
    gives: type
    skill: str  # what one must be able to do, in the words of the shell
    packages: tuple[str, ...]  # Debian packages that the environment and the solution use

    def accepts(self, given: Artifact) -> bool: ...

    def step(self, rng: random.Random, place: Place, given: Artifact | None) -> Step: ...


class Source:
    """Base of nodes that start a pipeline."""

    takes = None
    packages: tuple[str, ...] = ()
    works = True  # False: what it gives is there from the start

    def accepts(self, given) -> bool:
        return False


class Transform:
    """Base of nodes that take any artifact of their type."""

    packages: tuple[str, ...] = ()

    def accepts(self, given) -> bool:
        return isinstance(given, self.takes)


@dataclass(frozen=True)
class Genome:
    """A task in short."""

    key: str
    nodes: tuple[str, ...]

    def __post_init__(self):
        if not self.nodes:
            raise ValueError("a pipeline has at least one node")
        for name in self.nodes:
            node(name)


@functools.cache
def names() -> tuple[str, ...]:
    """All nodes, by file name, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(skills.__path__)))


def node(name: str) -> Node:
    """Raises ValueError: there is no such node; near ones are suggested."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.5)
        raise ValueError(
            f"unknown skill node {name!r}; did you mean {' or '.join(near) or 'one of ' + ', '.join(names())}?"
        )
    return importlib.import_module(f"curriculum.evolution.skills.{name}").NODE


def steps(genome: Genome) -> list[Step]:
    """The pipeline, worked out.

    Raises:
        ValueError: a node cannot take what the one before it gives.
    """
    done: list[Step] = []
    for number in range(1, len(genome.nodes) + 1):
        done.append(_step(genome.key, genome.nodes[:number], done[-1].artifact if done else None))
    return done


def _step(key: str, nodes: tuple[str, ...], given: Artifact | None) -> Step:
    """What the last of these nodes makes of what the others gave."""
    name, number = nodes[-1], len(nodes)
    if not follows(name, given):
        raise ValueError(f"{name} (step {number}) cannot take what comes before it: {describe(given)}")
    # The key alone decides, and the number of a step does not: a node keeps its choices when others are inserted.
    rng = random.Random(f"{key}/{name}/{nodes.count(name)}")
    return node(name).step(rng, Place(number, name), given)


def describe(artifact: Artifact | None) -> str:
    return "nothing" if artifact is None else f"{type(artifact).__name__} {artifact.path}"


def compose(genome: Genome) -> Task:
    """The task of a genome: the same one every time.

    Raises:
        ValueError: the nodes do not fit each other, or there is nothing to do.
    """
    made = steps(genome)
    if not any(step.text for step in made):
        raise ValueError(f"{genome.nodes}: nothing is to be done")
    environment: dict[str, File] = {}
    dockerfile = [f"FROM {IMAGE}"]
    packages = sorted({package for name in genome.nodes for package in node(name).packages})
    if packages:
        dockerfile.append(
            f"RUN apt-get update && apt-get install -y --no-install-recommends {' '.join(packages)}"
        )
    dockerfile.append("WORKDIR /app")
    commands, fragments, listed, wants = [SOLVE], [], [], {}
    tests = {"tests/test.sh": File(TEST.encode(), 0o755)}
    copied = {}
    for number, (name, step) in enumerate(zip(genome.nodes, made), 1):
        for path, file in step.fixture.items():
            copied[path] = file
        if not step.text:
            continue
        listed.append(f"{len(listed) + 1}. {step.text.strip()}")
        commands.append(f"# {name}\n{step.solve.strip()}\n")
        wants[str(number)] = want(step.artifact)
        extra = "".join(f"    {line}\n" for line in step.test.strip().splitlines())
        fragments.append(f"def step_{number}():\n    same({number})\n{extra}")
        for path, file in step.hidden.items():
            tests[f"tests/{number}/{path}"] = file
    for path, file in copied.items():
        environment[f"environment/files{path.removeprefix('/app')}"] = file
    if copied:
        dockerfile.append("COPY files/ /app/")
    dockerfile.append("RUN mkdir -p /app/out")
    dockerfile += [f"RUN {command}" for step in made for command in step.setup]
    environment["environment/Dockerfile"] = File(("\n".join(dockerfile) + "\n").encode())
    numbers = [number for number, step in enumerate(made, 1) if step.text]
    main = f"main([{', '.join(f'({n}, step_{n})' for n in numbers)}])\n"
    check = (HERE / "check.py").read_text(encoding="utf-8") + "\n\n" + "\n\n".join(fragments) + "\n\n" + main
    tests["tests/check.py"] = File(check.encode())
    tests["tests/want.json"] = File(json.dumps(wants, ensure_ascii=False).encode())
    solution = {
        "solution/solve.sh": File("\n".join(commands).encode(), 0o755),
        "solution/tools.py": File(TOOLS.encode()),
    }
    digest = hashlib.sha256(repr(genome).encode()).hexdigest()[:10]
    return Task(
        TaskInfo(f"jaxenv/pipeline-{digest}", f"A pipeline of {len(listed)} steps", keywords=genome.nodes),
        INTRO + "\n" + "\n".join(listed) + "\n",
        environment | solution | tests,
        Environment(memory_mb=512, storage_mb=256),
        Agent(timeout_sec=600, user="agent"),
        Verifier(timeout_sec=60),
        metadata={"key": genome.key, "nodes": list(genome.nodes)},
    )


def want(artifact: Artifact) -> dict:
    """What the tests compare with."""
    base = {"kind": type(artifact).__name__, "path": artifact.path}
    if isinstance(artifact, Table):
        return {**base, "names": artifact.names, "rows": artifact.rows}
    if isinstance(artifact, Log):
        return {**base, "lines": artifact.lines}
    files = {
        name: (hashlib.sha256(file.data).hexdigest(), file.mode) for name, file in artifact.files.items()
    }
    return {**base, "files": files, "modes": isinstance(artifact, Tree) and artifact.modes}


def draw(key: str, length: int, allowed: Callable[[str], bool] = lambda name: True) -> Genome:
    """A random pipeline with `length` steps to do, the same for the same key.

    Raises:
        ValueError: no pipeline of this length was found in 200 tries.
    """
    rng = random.Random(f"draw/{key}/{length}")
    pool = [name for name in names() if allowed(name)]
    for _ in range(200):
        chosen: tuple[str, ...] = ()
        given, to_do = None, 0
        while to_do < length:
            fits = [name for name in pool if name not in chosen[-2:] and follows(name, given)]
            if not fits:
                break
            chosen = (*chosen, rng.choice(fits))
            step = _step(key, chosen, given)
            given, to_do = step.artifact, to_do + bool(step.text)
        else:
            return Genome(key, chosen)
    raise ValueError(f"no pipeline of {length} steps from {len(pool)} nodes")


def follows(name: str, given: Artifact | None) -> bool:
    one = node(name)
    return one.takes is None if given is None else one.accepts(given)


__all__ = [
    "Archive",
    "Genome",
    "Node",
    "Place",
    "Source",
    "Step",
    "Transform",
    "compose",
    "draw",
    "names",
    "node",
    "steps",
]
