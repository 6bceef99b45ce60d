"""Let an agent try a task: `python -m curriculum.evolution.run TASKDIR --agent oracle`.

Prints one line a rollout, then pass rate and mean turns; `--out FILE` gets everything as JSON. The exit status is 1
where a rollout has no reward, 2 where the task or the machine does not allow any.
"""

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from aes.files import append_lines, read_lines, write_whole
from aes.llm import Endpoint
from curriculum.evolution.agents import Agent, ChatAgent, NoOp, Oracle, Scripted
from curriculum.evolution.lint import lint
from curriculum.evolution.rollout import Result, Settings, as_json, rollouts, summarise
from curriculum.evolution.sandbox import SandboxUnavailable, Stats
from curriculum.evolution.task import Task, TaskError, load


@dataclass(frozen=True)
class Config:
    task: Annotated[Path, tyro.conf.Positional]  # the task's folder
    agent: Literal["oracle", "noop", "scripted", "chat"] = "oracle"
    commands: tuple[str, ...] = ()  # of the scripted agent, one a turn
    n: int = 1  # rollouts; 8 for a pass rate
    workers: int = 1  # rollouts at a time
    out: Path | None = (
        None  # JSON file of all results; FILE.lines keeps each as it comes, and a rerun goes on there
    )
    settings: Settings = field(default_factory=Settings)
    endpoint: Endpoint = field(default_factory=Endpoint)  # of the chat agent
    seed: int = 0  # of the chat agent's requests
    budget: int | None = None  # tokens the chat agent may spend
    store: Path = Path("answers.jsonl")  # the chat model's answers

    def __post_init__(self):
        if self.n < 1 or self.workers < 1:
            raise ValueError("n and workers must be at least 1")
        if self.commands and self.agent != "scripted":
            raise ValueError("commands are for the scripted agent")


def make(config: Config) -> Agent:
    if config.agent == "chat":
        return ChatAgent(config.endpoint, config.store, config.seed, config.budget)
    return {"oracle": Oracle(), "noop": NoOp(), "scripted": Scripted(config.commands)}[config.agent]


def run(config: Config, task: Task) -> list[Result]:
    """All rollouts; those that an earlier, killed run finished are taken from its lines."""
    agent, done = make(config), {}
    lines = config.out.with_name(config.out.name + ".lines") if config.out else None
    doing = {"task": task.hash, "config": _identity(config)}
    if lines is not None:
        for row in read_lines(lines):
            if row["doing"] == doing and row["result"]["reward"] is not None:
                stats = Stats(**{**row["result"]["stats"], "events": tuple(row["result"]["stats"]["events"])})
                done[row["result"]["rollout"]] = Result(**{**row["result"], "stats": stats})
    left = [number for number in range(config.n) if number not in done]
    for start in range(0, len(left), config.workers):
        some = left[start : start + config.workers]
        for result in rollouts(task, agent, workers=config.workers, settings=config.settings, numbers=some):
            done[result.rollout] = result
            if lines is not None:
                lines.parent.mkdir(parents=True, exist_ok=True)
                append_lines(lines, [{"doing": doing, "result": result.json()}])
            print(_line(result), flush=True)
    return [done[number] for number in sorted(done)]


def _identity(config: Config) -> dict:
    kept = ("agent", "commands", "settings", "endpoint", "seed")
    text = {key: str(value) for key, value in asdict(config).items() if key in kept}
    return text


def _line(result: Result) -> str:
    reward = "-" if result.reward is None else f"{result.reward:g}"
    memory = result.stats.peak_memory_mb
    end = f"  {result.error}" if result.error else ""
    return f"{result.rollout}: {result.status}  reward {reward}  {result.turns} turns  {result.wall_sec:.1f} s  {memory:.0f} MiB{end}"


def main(config: Config) -> int:
    try:
        task = load(config.task)
        for finding in lint(task):
            print(finding, file=sys.stderr)
        results = run(config, task)
    except (TaskError, SandboxUnavailable, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    summary = summarise(results)
    if summary.graded:
        print(
            f"pass rate {summary.pass_rate:.3f} of {summary.graded} graded, {summary.mean_turns:.1f} turns on average"
        )
    if config.out is not None:
        write_whole(config.out, as_json(results))
    return 0 if summary.graded == len(results) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Config, description=__doc__)))
