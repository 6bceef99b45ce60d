"""The offline engine: proposes and repairs harder pipelines without a language model.

Directions. scenario: another, rarer source, what follows stays as far as it fits. skill: nodes become rarer ones of
the same type. length: nodes are put in. Effort bounds where: low one place, high one contiguous span, max anywhere.
Source: section 4 of the paper.
"""

import difflib
import random
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol

from curriculum.evolution.difficulty import difficulty, rarity
from curriculum.evolution.pipeline import Genome, compose, names, node, steps
from curriculum.evolution.task import Task
from curriculum.evolution.verify import Verdict

Direction = Literal["scenario", "skill", "length"]
Effort = Literal["low", "high", "max"]
DIRECTIONS: tuple[Direction, ...] = ("scenario", "skill", "length")
SPAN = 3  # nodes of a contiguous span, at most
DRAWS = 400  # random edits that are tried for one plan


@dataclass(frozen=True)
class Plan:
    """A child, before it is made: which edits turn the parent's sequence into its own."""

    direction: Direction
    effort: Effort
    genome: Genome
    edits: tuple[str, ...]  # such as "1: orders_csv -> git_recover", "3: + add_week"


class Engine(Protocol):
    """Who proposes, reviews, makes and repairs children. The offline engine, or one that asks a model."""

    def propose(
        self, parent: Genome, direction: Direction, effort: Effort, rng: random.Random
    ) -> Plan | None:
        """None: nothing along this direction."""

    def review(self, parent: Genome, plan: Plan) -> tuple[str, ...]:
        """Objections; none: the plan is accepted."""

    def make(self, plan: Plan) -> Task: ...

    def repair(self, plan: Plan, verdict: Verdict, attempt: int) -> Plan | None:
        """A changed plan after a verdict; None: it cannot be repaired."""


@dataclass(frozen=True)
class Offline:
    """The engine of skill nodes. `longest`: steps of a pipeline, at most."""

    longest: int = 24
    longest_instruction: int = 16_000  # characters

    def propose(self, parent, direction, effort, rng):
        for _ in range(DRAWS):
            nodes = {"scenario": self._scenario, "skill": self._skill, "length": self._length}[direction](
                list(parent.nodes), effort, rng
            )
            if nodes is None:
                return None
            repeats = any(name in nodes[max(0, at - 2) : at] for at, name in enumerate(nodes))
            typed = all(node(one).gives is node(two).takes for one, two in pairwise(nodes))
            if repeats or not typed or tuple(nodes) == parent.nodes:
                continue
            child = replace(parent, nodes=tuple(nodes))
            try:
                steps(child)
            except ValueError:
                continue
            return Plan(direction, effort, child, edits(parent.nodes, child.nodes))
        return None

    def review(self, parent, plan):
        objections = []
        before, after = difficulty(parent), difficulty(plan.genome)
        grown = {
            "scenario": after.scenario > before.scenario,
            "skill": after.skill > before.skill,
            "length": after.length > before.length,
        }[plan.direction]
        if not grown:
            objections.append(f"{plan.direction} does not grow: {before} to {after}")
        if after.total <= before.total:
            objections.append(f"no harder than its parent: {before.total:.2f} to {after.total:.2f}")
        if after.length > self.longest:
            objections.append(f"{after.length} steps, {self.longest} at most")
        for one, two in pairwise(plan.genome.nodes):
            if one == two:
                objections.append(f"{one} twice in a row teaches nothing new")
        if not objections and len(compose(plan.genome).instruction) > self.longest_instruction:
            objections.append(f"the instruction has more than {self.longest_instruction:,} characters")
        return tuple(objections)

    def make(self, plan):
        return compose(plan.genome)

    def repair(self, plan, verdict, attempt):
        """Other fixtures: what failed by composition may hold with them."""
        child = replace(plan.genome, key=f"{plan.genome.key.partition('~')[0]}~{attempt}")
        try:
            steps(child)
        except ValueError:
            return None
        return replace(plan, genome=child, edits=(*plan.edits, f"key: {child.key}"))

    def _scenario(self, nodes, effort, rng):
        gives = node(nodes[0]).gives
        old = node(nodes[0])
        peers = [n for n in names() if node(n).takes is None and node(n).gives is gives]
        rarer = [n for n in peers if rarity(n) > rarity(nodes[0]) and node(n).works >= old.works]
        if not rarer:
            return None
        span = {"low": 0, "high": min(SPAN, len(nodes) - 1), "max": len(nodes) - 1}[effort]
        new = [rng.choice(rarer), *nodes[1:]]
        for place in (
            rng.sample(range(1, len(nodes)), rng.randint(0, span)) if effort == "max" else range(1, 1 + span)
        ):
            if rng.random() < 0.5:
                new[place] = self._peer(new[place], rng, rarer=False)
        return new

    def _skill(self, nodes, effort, rng):
        if len(nodes) < 2:
            return None
        new = list(nodes)
        for place in self._places(len(nodes), effort, rng):
            new[place] = self._peer(new[place], rng, rarer=True)
        return new

    def _length(self, nodes, effort, rng):
        new = list(nodes)
        pool = [n for n in names() if node(n).takes is not None]
        if effort == "max":
            for _ in range(rng.randint(1, 4)):
                new.insert(rng.randint(1, len(new)), rng.choice(pool))
            return new
        place = rng.randint(1, len(new))
        new[place:place] = [rng.choice(pool) for _ in range(1 if effort == "low" else rng.randint(2, SPAN))]
        return new

    def _places(self, count, effort, rng):
        if effort == "low":
            return [rng.randrange(1, count)]
        if effort == "high":
            start = rng.randrange(1, count)
            return range(start, min(count, start + rng.randint(1, SPAN)))
        return rng.sample(range(1, count), rng.randint(1, count - 1))

    def _peer(self, name, rng, rarer):
        """Another node between the same types."""
        one = node(name)
        peers = [
            n for n in names() if node(n).takes is one.takes and node(n).gives is one.gives and n != name
        ]
        peers = [n for n in peers if not rarer or rarity(n) > rarity(name)]
        return rng.choice(peers) if peers else name


def edits(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """What changed, place by place of the child."""
    found = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "insert":
            found += [f"{place + 1}: + {after[place]}" for place in range(c, d)]
        elif kind == "delete":
            found += [f"{c + 1}: - {name}" for name in before[a:b]]
        elif kind == "replace":
            found.append(f"{c + 1}: {' '.join(before[a:b])} -> {' '.join(after[c:d])}")
    return tuple(found)
