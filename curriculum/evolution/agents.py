"""Agents that try a task: the oracle, none at all, a fixed list of commands, and a chat model.

An agent is called with a `Turns`, through which it runs commands; it returns when it is done.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from aes.llm import Chat, Endpoint, OverBudget, Refused, Store, Unanswered
from curriculum.evolution.sandbox import Executed, Sandbox
from curriculum.evolution.task import Task

SYSTEM = """You solve a task in a Linux terminal. There is no network.
Each of your replies runs exactly one command: end it with one block

```bash
the command (it may have several lines)
```

You are shown its output and exit status, and then reply again. Each command starts in {workdir}; files and
background processes stay, shell variables do not. When the task is done, reply with the block

```bash
exit
```
You have {turns} replies and {seconds:.0f} seconds."""
NO_COMMAND = "There was no ```bash block in that reply, so nothing was run. Reply with exactly one."
BLOCK = re.compile(r"```(?:bash|sh|shell)[ \t]*\n(.*?)```", re.DOTALL)
SILENT_TURNS = 3  # replies without a command, one after the other, that end a rollout


class OutOfTime(Exception):
    """The agent's time is over."""


class OutOfTurns(Exception):
    """The agent's turns are over."""


class AgentFailed(Exception):
    """The agent could not act, for reasons that say nothing about the task (an endpoint is down)."""


class Turns:
    """One agent's commands in one sandbox, within turns and time."""

    def __init__(
        self,
        box: Sandbox,
        task: Task,
        most: int,
        command_sec: float,
        seconds: float,
        file: Callable | None = None,
    ):
        self.task, self.most, self.seconds = task, most, seconds
        self.count, self.log = 0, []
        self._box, self._command_sec, self._file = box, command_sec, file
        self._deadline = time.monotonic() + seconds
        self.env = {**task.build.env, **task.environment.env}

    @property
    def left(self) -> float:
        """Seconds until the agent's time is over."""
        return self._deadline - time.monotonic()

    def turn(self) -> None:
        """Count a turn. Raises OutOfTurns, OutOfTime."""
        if self.left <= 0:
            raise OutOfTime
        if self.count >= self.most:
            raise OutOfTurns
        self.count += 1

    def run(self, command: str, said: str | None = None) -> Executed:
        """Run a command, its time cut to what is left. `said`: the reply it stood in, for the record."""
        if self.left <= 0:
            raise OutOfTime
        try:
            done = self._box.exec(command, min(self._command_sec, self.left), self.task.workdir, self.env)
        except ValueError as error:  # too long, or with zero bytes
            done = Executed(str(error), None)
        row = {
            "command": command,
            "output": done.output,
            "rc": done.rc,
            "timed_out": done.timed_out,
            "lost": done.lost,
        }
        self.log.append(row if said is None else {"said": said, **row})
        return done


class Agent(Protocol):
    def __call__(self, turns: Turns, rollout: int) -> None:
        """Try the task. `rollout`: which of several tries this is."""


@dataclass(frozen=True)
class Oracle:
    """Runs the task's solution/solve.sh: the answer to whether the task can be solved."""

    def __call__(self, turns: Turns, rollout: int) -> None:
        files = {f"/solution/{name}": file for name, file in turns.task.part("solution").items()}
        if "/solution/solve.sh" not in files:
            raise AgentFailed("the task has no solution/solve.sh")
        turns._box.put(files)
        turns.env = {**turns.env, **turns.task.solution.env}
        turns.turn()
        turns._command_sec = turns.left
        turns.run("bash /solution/solve.sh; status=$?; rm -rf /solution/*; exit $status")


@dataclass(frozen=True)
class NoOp:
    """Does nothing: its reward must be 0."""

    def __call__(self, turns: Turns, rollout: int) -> None:
        return


@dataclass(frozen=True)
class Scripted:
    """Runs these commands, one a turn."""

    commands: Sequence[str]

    def __call__(self, turns: Turns, rollout: int) -> None:
        for command in self.commands:
            turns.turn()
            turns.run(command)


@dataclass(frozen=True)
class ChatAgent:
    """A chat model at an OpenAI-compatible endpoint: one bash command a turn.

    Answers are stored in `store` by the hash of their request, so that a repeated run asks nothing twice; each
    rollout's requests carry its own seed.
    """

    endpoint: Endpoint
    store: Path
    seed: int = 0
    budget: int | None = None  # tokens, those of earlier runs included
    kept_turns: int = 40  # the latest turns that the model still sees
    _chats: list = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self):
        end = replace(self.endpoint, structured="none")
        self._chats.append(Chat(end, Store(self.store), self.budget))

    def __call__(self, turns: Turns, rollout: int) -> None:
        chat = self._chats[0]
        system = SYSTEM.format(workdir=turns.task.workdir, turns=turns.most, seconds=turns.seconds)
        head = [{"role": "system", "content": system}, {"role": "user", "content": turns.task.instruction}]
        past: list[dict] = []
        silent = 0
        while silent < SILENT_TURNS:
            turns.turn()
            body = {
                **chat.request(head + past[-2 * self.kept_turns :], {}),
                "seed": self.seed * 100_003 + rollout,
            }
            try:
                said = chat.ask(body).text
            except (Unanswered, OverBudget, Refused) as error:
                raise AgentFailed(f"{type(error).__name__}: {error}") from error
            blocks = BLOCK.findall(said)
            if blocks and blocks[-1].strip() == "exit":
                turns.log.append({"said": said, "command": "exit"})
                return
            if blocks:
                silent, shown = 0, show(turns.run(blocks[-1], said))
            else:
                silent, shown = silent + 1, NO_COMMAND
                turns.log.append({"said": said, "command": None})
            past += [{"role": "assistant", "content": said}, {"role": "user", "content": shown}]


def show(done: Executed) -> str:
    """What a model is told about its command."""
    if done.lost is not None:
        end = f"[the shell was restarted, background processes are gone: {done.lost}]"
    elif done.timed_out:
        end = "[ended: it took too long]"
    else:
        end = f"[exit status {done.rc}]" if done.rc is not None else "[not run]"
    return f"{done.output}{'' if done.output.endswith(chr(10)) or not done.output else chr(10)}{end}"
