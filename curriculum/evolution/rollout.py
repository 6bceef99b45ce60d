"""Rollouts: build a task's environment in a sandbox, let an agent try it, grade what it left.

Every result has a status. A reward stands only beside `ok` and `agent_timeout`: where the sandbox, the tests or the
agent's endpoint failed there is none, and never a zero.
"""

import json
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from curriculum.evolution.agents import Agent, AgentFailed, OutOfTime, OutOfTurns, Turns
from curriculum.evolution.sandbox import Sandbox, SandboxError, Stats
from curriculum.evolution.task import Copy, Task

Status = Literal["ok", "agent_timeout", "agent_error", "verifier_error", "sandbox_error"]
PASS = 1 - 1e-6  # rewards from here on count as solved


@dataclass(frozen=True)
class Settings:
    """How agents are run."""

    turns: int = 100
    command_sec: float = 60.0  # of one command
    base: Path = Path("/")  # root of the system whose /usr the sandbox shows

    def __post_init__(self):
        if self.turns < 1:
            raise ValueError(f"turns must be at least 1, not {self.turns}")
        if not self.command_sec > 0:
            raise ValueError(f"command_sec must be above 0, not {self.command_sec}")


STANDARD = Settings()


@dataclass(frozen=True)
class Result:
    """What came of one rollout."""

    task: str
    task_hash: str
    rollout: int
    status: Status
    reward: float | None
    error: str | None
    turns: int
    wall_sec: float  # building and grading included
    stats: Stats
    test_output: str = ""
    log: list[dict] = field(default_factory=list)  # commands and their outputs

    @property
    def solved(self) -> bool:
        return self.reward is not None and self.reward >= PASS

    def json(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Summary:
    """Of several rollouts of one task."""

    rollouts: int
    graded: int  # with a reward
    pass_rate: float | None  # of the graded ones; None: there are none
    mean_reward: float | None
    mean_turns: float | None  # of the graded ones
    statuses: dict[str, int]


def rollout(task: Task, agent: Agent, settings: Settings = STANDARD, number: int = 0) -> Result:
    """One try.

    Raises:
        SandboxUnavailable: sandboxes cannot work on this machine.
    """
    started, turns, box = time.monotonic(), None, None
    status, reward, error, said = "ok", None, None, ""
    try:
        box = Sandbox(task.limits, settings.base, task.agent.user)
        build(box, task, settings.base)
        turns = Turns(box, task, settings.turns, settings.command_sec, task.agent.timeout_sec)
        try:
            agent(turns, number)
        except OutOfTurns:
            pass
        except OutOfTime:
            status = "agent_timeout"
        graded = box.grade(task.part("tests"), task.verifier.timeout_sec, task.workdir, grader_env(task))
        said, reward = graded.output, graded.reward
        if graded.error is not None:
            status, error = "verifier_error", graded.error
    except AgentFailed as failed:
        status, error = "agent_error", str(failed)
    except SandboxError as failed:
        status, error = "sandbox_error", str(failed)
    finally:
        if box is not None:
            box.close()
    return Result(
        task.info.name,
        task.hash,
        number,
        status,
        reward,
        error,
        turns.count if turns else 0,
        round(time.monotonic() - started, 3),
        box.stats if box is not None else Stats(),
        said,
        turns.log if turns else [],
    )


def grader_env(task: Task) -> dict[str, str]:
    return {**task.build.env, **task.environment.env, **task.verifier.env}


def build(box: Sandbox, task: Task, base: Path) -> None:
    """Do what the Dockerfile says.

    Raises:
        SandboxError: a package is missing in the base system, or a step failed.
    """
    plan = task.build
    for package in plan.packages:
        info = base / "var/lib/dpkg/info"
        if not any(
            (info / f"{package}{suffix}").exists() for suffix in (".list", ":amd64.list", ":arm64.list")
        ):
            raise SandboxError(
                f"the base system {base} lacks the package {package}: apt-get install {package}"
            )
    deadline = time.monotonic() + task.environment.build_timeout_sec
    for step in plan.steps:
        if isinstance(step, Copy):
            box.put(step.files)
            continue
        left = max(0.1, deadline - time.monotonic())
        done = box.exec(
            f"mkdir -p {step.workdir} && cd {step.workdir} && {step.command}", left, "/", step.env
        )
        if done.rc != 0 or done.lost:
            why = "took too long" if done.timed_out else done.lost or f"ended with {done.rc}"
            raise SandboxError(f"environment/Dockerfile: {step.command[:80]!r} {why}: {done.output[-400:]}")
    box.exec(f"mkdir -p {task.workdir}", cwd="/")
    box.stop()


def rollouts(
    task: Task,
    agent: Agent,
    n: int = 8,
    workers: int = 1,
    settings: Settings = STANDARD,
    numbers: Sequence[int] | None = None,
) -> list[Result]:
    """`n` tries (or those with these numbers), `workers` at a time, in order."""
    wanted = range(n) if numbers is None else numbers
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda number: rollout(task, agent, settings, number), wanted))


def summarise(results: Sequence[Result]) -> Summary:
    """Pass rate and mean turns, over the rollouts that have a reward."""
    graded = [result for result in results if result.reward is not None]
    statuses: dict[str, int] = {}
    for result in results:
        statuses[result.status] = statuses.get(result.status, 0) + 1

    def mean(values) -> float | None:
        return statistics.fmean(values) if graded else None

    return Summary(
        len(results),
        len(graded),
        mean(result.solved for result in graded),
        mean(result.reward for result in graded),
        mean(result.turns for result in graded),
        statuses,
    )


def as_json(results: Sequence[Result]) -> str:
    """Results and summary as one document."""
    document = {"summary": asdict(summarise(results)), "rollouts": [result.json() for result in results]}
    return json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"
