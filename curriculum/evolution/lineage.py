"""Lineages on disk: every candidate with its parent, plan, edits, verdict and hash; rejected ones with their reason.

`lineage.jsonl` is only ever added to, so that a killed run goes on where it was; the tasks of accepted generations
lie beside it as folders `g00`, `g01`, ...
"""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from aes.files import append_lines, read_lines
from curriculum.evolution.difficulty import difficulty
from curriculum.evolution.pipeline import Genome
from curriculum.evolution.task import Task, load, write


@dataclass(frozen=True)
class Candidate:
    """One try at a generation. `verdict`: what decided it."""

    generation: int
    attempt: int  # of this generation, counted over directions, plans and repairs
    parent: str | None  # hash; None: a seed
    direction: str  # empty: a seed
    effort: str
    key: str
    nodes: tuple[str, ...]
    edits: tuple[str, ...]
    task_hash: str | None  # None: rejected before it was made
    verdict: (
        str  # "accepted", "plan" (rejected in review), "unsound" (by execution), "none" (no plan was found)
    )
    reasons: tuple[str, ...] = ()

    @property
    def genome(self) -> Genome:
        return Genome(self.key, self.nodes)


class Lineage:
    """One lineage's folder."""

    def __init__(self, folder: Path):
        self.folder, self.file = folder, folder / "lineage.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        self.candidates = [_candidate(row) for row in read_lines(self.file)]

    @property
    def accepted(self) -> list[Candidate]:
        """The generations, in order."""
        return [candidate for candidate in self.candidates if candidate.verdict == "accepted"]

    def tried(self, generation: int) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.generation == generation]

    def add(self, candidate: Candidate, task: Task | None = None) -> None:
        """Keep a candidate; an accepted one with its task, whose folder is whole before the line is written."""
        if candidate.verdict == "accepted":
            if task is None or task.hash != candidate.task_hash:
                raise ValueError("an accepted candidate comes with its task")
            if candidate.generation != len(self.accepted):
                raise ValueError(f"generation {len(self.accepted)} comes next, not {candidate.generation}")
            target = self.task_folder(candidate.generation)
            for left in (target, target.with_suffix(".part")):  # by a killed run
                if left.exists():
                    shutil.rmtree(left)
            write(task, target.with_suffix(".part"))
            target.with_suffix(".part").rename(target)
        row = asdict(candidate)
        if candidate.task_hash is not None:
            row["difficulty"] = asdict(difficulty(candidate.genome))
        append_lines(self.file, [row])
        self.candidates.append(candidate)

    def task_folder(self, generation: int) -> Path:
        return self.folder / f"g{generation:02d}"

    def task(self, generation: int) -> Task:
        """Raises ValueError: the folder does not hold what was accepted."""
        task = load(self.task_folder(generation))
        wanted = self.accepted[generation].task_hash
        if task.hash != wanted:
            raise ValueError(
                f"{self.task_folder(generation)} was changed: its hash is {task.hash}, accepted was {wanted}"
            )
        return task


def _candidate(row: dict) -> Candidate:
    row = {key: value for key, value in row.items() if key != "difficulty"}
    return Candidate(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    )
