"""Faults of a task that show without running it.

Source: the criteria of `harbor lint` and `harbor check` that can be decided from the files alone.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from curriculum.evolution.task import Copy, Task

NETWORK = re.compile(
    r"\b(curl|wget|pip3? install|apt(-get)? (install|update)|npm install|uvx?|git clone (https?|git|ssh)\b|nc -)"
)
CHANCE = re.compile(r"\$RANDOM|\bshuf\b|\bdate\b(?! -d)|\buuidgen\b|/dev/u?random")
REWARDS = ("reward.txt", "reward.json")


@dataclass(frozen=True)
class Finding:
    """`error`: the task must not be used. `warning`: look at it."""

    level: Literal["error", "warning"]
    rule: str
    where: str  # file
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.where}: {self.message} [{self.rule}]"


def lint(task: Task) -> list[Finding]:
    """All findings, errors first."""
    found = [finding for rule in RULES for finding in rule(task)]
    return sorted(found, key=lambda finding: (finding.level, finding.where, finding.rule))


def oracle(task: Task) -> Iterator[Finding]:
    if "solution/solve.sh" not in task.files:
        yield Finding(
            "error", "oracle", "solution/solve.sh", "missing: nothing shows that the task can be solved"
        )


def reward(task: Task) -> Iterator[Finding]:
    text = task.files["tests/test.sh"].data.decode(errors="replace")
    named = [name for name in REWARDS if name in text]
    if not named:
        yield Finding("error", "reward", "tests/test.sh", f"names no reward file ({' or '.join(REWARDS)})")
    if len(named) > 1:
        yield Finding(
            "error", "reward", "tests/test.sh", "names both reward files: which one counts differs by runner"
        )


def leaks(task: Task) -> Iterator[Finding]:
    """Tests or the solution within the agent's reach."""
    hidden = {file.data: name for name, file in task.files.items() if not name.startswith("environment/")}
    for name, file in task.part("environment").items():
        if len(file.data) >= 32 and file.data in hidden:
            other = hidden[file.data]  # tests may keep a copy of the input, which the agent may have changed
            level = "error" if other.startswith("solution/") else "warning"
            yield Finding(level, "leak", f"environment/{name}", f"is a copy of {other}")
    for step in task.build.steps:
        for path in step.files if isinstance(step, Copy) else ():
            if re.search(r"(^|/)(tests?/test\.sh|solution/|solve\.sh$)", path):
                yield Finding(
                    "error", "leak", "environment/Dockerfile", f"puts {path} where the agent sees it"
                )
    for word in ("/tests", "/solution", "reward.txt", "reward.json"):
        if word in task.instruction:
            yield Finding(
                "error", "leak", "instruction.md", f"speaks of {word}, which the agent must not rely on"
            )


def copied_answer(task: Task) -> Iterator[Finding]:
    """A solution that holds the answer instead of working it out."""
    answers = {f.data for name, f in task.part("tests").items() if name != "test.sh" and len(f.data) >= 32}
    for name, file in task.part("solution").items():
        if file.data in answers:
            yield Finding(
                "error", "copied-answer", f"solution/{name}", "is a file that the tests compare with"
            )


def network(task: Task) -> Iterator[Finding]:
    for part in ("tests", "solution"):
        for name, file in task.part(part).items():
            match = NETWORK.search(_code(file.data)) if name.endswith((".sh", ".py")) else None
            if match:
                yield Finding("error", "network", f"{part}/{name}", f"{match[0]!r}: there is no network")


def chance(task: Task) -> Iterator[Finding]:
    for name, file in task.part("tests").items():
        match = CHANCE.search(_code(file.data)) if name.endswith((".sh", ".py")) else None
        if match:
            yield Finding(
                "warning", "chance", f"tests/{name}", f"{match[0]!r}: may say different things each time"
            )


def syntax(task: Task) -> Iterator[Finding]:
    for name, file in task.files.items():
        if name.startswith("environment/"):  # broken scripts may be what a task is about
            continue
        if name.endswith(".sh"):
            said = subprocess.run(["bash", "-n"], input=file.data, capture_output=True, check=False)
            if said.returncode:
                yield Finding("error", "syntax", name, said.stderr.decode(errors="replace").strip()[:200])
        elif name.endswith(".py"):
            try:
                compile(file.data, name, "exec")
            except (SyntaxError, ValueError) as error:
                yield Finding("error", "syntax", name, str(error))


def image(task: Task) -> Iterator[Finding]:
    if (":" not in task.build.image and "@" not in task.build.image) or task.build.image.endswith(":latest"):
        yield Finding(
            "warning", "image", "environment/Dockerfile", f"FROM {task.build.image}: name a version"
        )


def unnamed(task: Task) -> Iterator[Finding]:
    """Files that tests look at but of which the agent cannot know."""
    given = {path for step in task.build.steps if isinstance(step, Copy) for path in step.files}
    base = task.workdir.rstrip("/")
    for name, file in task.part("tests").items():
        if not name.endswith((".sh", ".py")):
            continue
        for path in sorted(set(re.findall(re.escape(base) + r"/[\w./-]*\w", _code(file.data)))):
            short = path.removeprefix(base + "/")
            known = path in task.instruction or short in task.instruction
            if not known and not any(p == path or p.startswith(path + "/") for p in given):
                yield Finding(
                    "warning", "unnamed", f"tests/{name}", f"{path}: the instruction does not name it"
                )


def _code(data: bytes) -> str:
    """Without whole-line comments."""
    return "\n".join(
        line for line in data.decode(errors="replace").splitlines() if not line.lstrip().startswith("#")
    )


RULES = (oracle, reward, leaks, copied_answer, network, chance, syntax, image, unnamed)
