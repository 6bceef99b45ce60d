"""Verifies a task by running it: the oracle passes twice, doing nothing fails, no fault shows in its files."""

from dataclasses import asdict, dataclass
from typing import Literal

from curriculum.evolution.agents import NoOp, Oracle
from curriculum.evolution.lint import lint
from curriculum.evolution.rollout import STANDARD, Result, Settings, rollout
from curriculum.evolution.task import Task


@dataclass(frozen=True)
class Verdict:
    """What was found. `unknown`: the sandbox failed, which says nothing about the task."""

    verdict: Literal["sound", "unsound", "unknown"]
    reasons: tuple[str, ...]
    task_hash: str
    oracle_sec: float | None = None  # of the first run

    def json(self) -> dict:
        return asdict(self)


def verify(task: Task, settings: Settings = STANDARD) -> Verdict:
    """Lint first; then the oracle, twice; then nothing.

    Raises:
        SandboxUnavailable: sandboxes cannot work on this machine.
    """
    faults = tuple(str(finding) for finding in lint(task) if finding.level == "error")
    if faults:
        return Verdict("unsound", faults, task.hash)
    first = rollout(task, Oracle(), settings)
    for number, result in enumerate((first, None), 1):
        result = result or rollout(task, Oracle(), settings)
        if result.status == "sandbox_error":
            return Verdict("unknown", (result.error,), task.hash)
        if not result.solved:
            return Verdict("unsound", (f"oracle run {number}: {_why(result)}",), task.hash)
    nothing = rollout(task, NoOp(), settings)
    if nothing.status == "sandbox_error":
        return Verdict("unknown", (nothing.error,), task.hash)
    if nothing.reward is None:
        return Verdict("unsound", (f"no-op: {_why(nothing)}",), task.hash)
    if nothing.reward > 0:
        return Verdict("unsound", (f"no-op: doing nothing earns {nothing.reward:g}",), task.hash)
    return Verdict("sound", (), task.hash, first.wall_sec)


def _why(result: Result) -> str:
    said = result.log[-1]["output"].strip()[-300:] if result.log else ""
    parts = [
        f"{result.status}, reward {result.reward}",
        result.error,
        said,
        result.test_output.strip()[-300:],
    ]
    return "; ".join(part for part in parts if part)
