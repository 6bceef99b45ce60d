"""How hard a pipeline is, without any model: steps, rarity of the scenario, rarity of the skills.

Frequencies are counted over pipelines that `draw` makes, with add-one smoothing: this pool is the reference
distribution. Source: section 3 of the paper (turns, scenario novelty, skill rarity), in small.
"""

import functools
import math
from collections import Counter
from dataclasses import dataclass

from curriculum.evolution.pipeline import Genome, draw, names, node, steps

POOL = 120  # pipelines of the reference distribution, of 1 to 6 steps


@dataclass(frozen=True)
class Difficulty:
    length: int  # steps to do
    scenario: float  # -log of the source's frequency, nats
    skill: float  # sum of -log of the other nodes' frequencies among those that could stand there, nats

    @property
    def total(self) -> float:
        return self.length + self.scenario + self.skill


@functools.cache
def _counts() -> tuple[Counter, Counter]:
    sources: Counter[str] = Counter()
    skills: Counter[str] = Counter()
    for i in range(POOL):
        first, *rest = draw(f"reference/{i}", 1 + i % 6).nodes
        sources[first] += 1
        skills.update(rest)
    return sources, skills


def rarity(name: str) -> float:
    """-log of a node's smoothed frequency among the nodes that take the same type, nats."""
    takes = node(name).takes
    counts = _counts()[0 if takes is None else 1]
    peers = [other for other in names() if node(other).takes is takes]
    total = sum(counts[other] for other in peers)
    return math.log((total + len(peers)) / (counts[name] + 1))


def difficulty(genome: Genome) -> Difficulty:
    """Raises ValueError: the nodes do not fit each other."""
    length = sum(bool(step.text) for step in steps(genome))
    return Difficulty(length, rarity(genome.nodes[0]), sum(map(rarity, genome.nodes[1:])))
