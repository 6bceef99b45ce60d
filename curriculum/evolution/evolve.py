"""Evolve lineages of terminal tasks: `python -m curriculum.evolution.evolve OUT --lineages 4 --generations 15`.

Each generation starts from the last accepted task. Loop A: a plan is proposed along one direction and reviewed, until
it is accepted or the plan budget is spent. Loop B: the task is made and verified by execution (oracle passes twice,
no-op fails, no fault in its files), and repaired until it passes or the repair budget is spent. Where either fails
another direction is tried; a lineage ends when all three fail. Nothing depends on a policy's rollouts.
"""

import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from aes.files import alone
from curriculum.evolution.engine import DIRECTIONS, Effort, Engine, Offline, Plan
from curriculum.evolution.lineage import Candidate, Lineage
from curriculum.evolution.pipeline import Genome, draw
from curriculum.evolution.rollout import Settings
from curriculum.evolution.sandbox import SandboxError, SandboxUnavailable
from curriculum.evolution.verify import verify


@dataclass(frozen=True)
class Config:
    out: Annotated[Path, tyro.conf.Positional]  # folder; a rerun goes on where it was
    lineages: int = 1
    generations: int = 15  # beyond the seed
    effort: Effort = "high"
    plans: int = 3  # tries at a plan, for each direction
    repairs: int = 5  # repairs of one task
    seed_steps: int = 2  # steps of the seed task
    seed: int = 0
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self):
        for name in ("lineages", "plans", "seed_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.generations < 0 or self.repairs < 0:
            raise ValueError("generations and repairs must not be negative")


def plant(lineage: Lineage, key: str, config: Config, engine: Engine) -> None:
    """The seed, if there is none yet. Raises RuntimeError: no sound seed was found."""
    if lineage.accepted:
        return
    for attempt in range(len(lineage.tried(0)), 1 + config.repairs):
        genome = draw(f"{key}/{attempt}", config.seed_steps)
        plan = Plan("length", config.effort, genome, ())
        if _settle(lineage, plan, None, attempt, config, engine, seed=True):
            return
    raise RuntimeError(f"{lineage.folder}: no sound seed in {1 + config.repairs} tries")


def grow(lineage: Lineage, key: str, config: Config, engine: Engine) -> bool:
    """One more generation. False: all directions failed, the lineage ends.

    Every candidate is drawn from the number of its attempt alone: after a kill the same ones follow.
    """
    parent = lineage.accepted[-1]
    generation = parent.generation + 1
    order = random.Random(f"{key}/{generation}/order").sample(DIRECTIONS, len(DIRECTIONS))
    attempt, seen = 0, lineage.tried(generation)

    def known() -> Candidate | None:
        return seen[attempt] if attempt < len(seen) else None

    for direction in order:
        for number in range(config.plans):
            rng = random.Random(f"{key}/{generation}/{direction}/{number}")
            plan = engine.propose(parent.genome, direction, config.effort, rng)
            objections = (
                ("no edit along this direction fits",) if plan is None else engine.review(parent.genome, plan)
            )
            if objections:
                if known() is None:
                    genome, changed = (plan.genome, plan.edits) if plan else (parent.genome, ())
                    lineage.add(
                        _candidate(
                            generation,
                            attempt,
                            parent,
                            direction,
                            config,
                            genome,
                            changed,
                            "plan" if plan else "none",
                            objections,
                        )
                    )
                attempt += 1
                if plan is None:
                    break
                continue
            for repair in range(config.repairs + 1):
                if known() is None and _settle(lineage, plan, parent, attempt, config, engine):
                    return True
                attempt += 1
                tried = lineage.tried(generation)[attempt - 1]
                plan = engine.repair(plan, tried, repair + 1)
                if plan is None:
                    break
            break  # a plan that passed review but not execution: another direction
    return False


def _settle(
    lineage,
    plan: Plan,
    parent: Candidate | None,
    attempt: int,
    config: Config,
    engine: Engine,
    seed: bool = False,
) -> bool:
    """Make, verify and keep a candidate. Raises SandboxError: the sandbox failed, which decides nothing."""
    task = engine.make(plan)
    verdict = verify(task, config.settings)
    if verdict.verdict == "unknown":
        raise SandboxError("; ".join(verdict.reasons))
    good = verdict.verdict == "sound"
    generation = 0 if parent is None else parent.generation + 1
    direction = "" if seed else plan.direction
    word = "accepted" if good else "unsound"
    row = _candidate(
        generation,
        attempt,
        parent,
        direction,
        config,
        plan.genome,
        plan.edits,
        word,
        verdict.reasons,
        task.hash,
    )
    lineage.add(row, task if good else None)
    return good


def _candidate(
    generation: int,
    attempt: int,
    parent: Candidate | None,
    direction: str,
    config: Config,
    genome: Genome,
    changed: tuple[str, ...],
    verdict: str,
    reasons: tuple[str, ...],
    task_hash: str | None = None,
) -> Candidate:
    before = parent.task_hash if parent else None
    effort = config.effort if direction else ""
    return Candidate(
        generation,
        attempt,
        before,
        direction,
        effort,
        genome.key,
        genome.nodes,
        changed,
        task_hash,
        verdict,
        reasons,
    )


def evolve(config: Config, engine: Engine | None = None) -> list[Lineage]:
    """All lineages. Raises SandboxUnavailable, SandboxError; what was found so far stays."""
    engine = engine or Offline()
    done = []
    with alone(config.out, "evolve"):
        for number in range(config.lineages):
            key, lineage = f"{config.seed}/{number}", Lineage(config.out / f"lineage{number:03d}")
            plant(lineage, key, config, engine)
            while len(lineage.accepted) <= config.generations and grow(lineage, key, config, engine):
                last = lineage.accepted[-1]
                print(
                    f"{lineage.folder.name} generation {last.generation}: {last.direction}, {'; '.join(last.edits)}",
                    flush=True,
                )
            done.append(lineage)
    return done


def main(config: Config) -> int:
    try:
        lineages = evolve(config)
    except (SandboxUnavailable, SandboxError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for lineage in lineages:
        kept, tried = len(lineage.accepted) - 1, len(lineage.candidates)
        print(f"{lineage.folder}: {kept} generations beyond the seed, {tried} candidates")
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Config, description=__doc__)))
