"""Lineages grow harder, keep what was rejected, and go on after a kill."""

import dataclasses
import itertools
import json
import random

import pytest

from curriculum.evolution import evolve as module
from curriculum.evolution.difficulty import difficulty, rarity
from curriculum.evolution.engine import DIRECTIONS, Offline, Plan, edits
from curriculum.evolution.evolve import Config, evolve
from curriculum.evolution.lineage import Lineage
from curriculum.evolution.pipeline import Genome, compose, names, node, steps
from curriculum.evolution.sandbox import SandboxError
from curriculum.evolution.verify import Verdict

PARENT = Genome("e1", ("orders_csv", "filter_rows", "convert_format", "group_sum"))


@pytest.fixture
def judged(monkeypatch):
    """Verification without a sandbox: every third task is unsound, or what `judged.says` answers."""

    class Judge:
        says = staticmethod(lambda task, count: "unsound" if count % 3 == 0 else "sound")
        count = 0

        def __call__(self, task, settings):
            self.count += 1
            word = self.says(task, self.count)
            return Verdict(word, () if word == "sound" else (f"said {word}",), task.hash)

    judge = Judge()
    monkeypatch.setattr(module, "verify", judge)
    return judge


def candidates(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "lineage000/lineage.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("effort", ["low", "high", "max"])
def test_plans_stay_within_their_effort_and_fit(direction, effort):
    found = 0
    for i in range(6):
        plan = Offline().propose(PARENT, direction, effort, random.Random(i))
        if plan is None:
            continue
        found += 1
        steps(plan.genome)
        old, new = PARENT.nodes, plan.genome.nodes
        assert new != old and plan.edits == edits(old, new)
        changed = [i for i, pair in enumerate(zip(old, new)) if pair[0] != pair[1]]
        if direction == "length":
            assert len(new) > len(old) and (effort != "low" or len(new) == len(old) + 1)
            if effort == "high":  # one contiguous span
                gap = len(new) - len(old)
                assert any(new[:at] + new[at + gap :] == old for at in range(1, len(old) + 1))
        elif direction == "scenario":
            assert len(new) == len(old) and changed[0] == 0 and rarity(new[0]) > rarity(old[0])
            assert node(new[0]).gives is node(old[0]).gives and (effort != "low" or changed == [0])
        else:
            assert (
                len(new) == len(old)
                and 0 not in changed
                and all(rarity(new[i]) > rarity(old[i]) for i in changed)
            )
            assert (effort != "low" or len(changed) == 1) and (
                effort != "high" or changed[-1] - changed[0] < 3
            )
    assert found


def test_review_objects_to_what_is_no_harder():
    twice = Genome("e1", ("orders_csv", "filter_rows", "convert_format", "convert_format", "group_sum"))
    assert any("twice" in text for text in Offline().review(PARENT, Plan("length", "low", twice, ())))
    same = Offline().review(PARENT, Plan("skill", "low", PARENT, ()))
    assert any("skill does not grow" in text for text in same) and any("no harder" in text for text in same)
    assert any(
        "2 at most" in text for text in Offline(longest=2).review(PARENT, Plan("length", "low", twice, ()))
    )
    assert any(
        "characters" in t
        for t in Offline(longest_instruction=10).review(
            PARENT, Plan("length", "low", Genome("e1", (*PARENT.nodes, "convert_format")), ())
        )
    )


def test_rarity_is_a_distribution_among_nodes_of_one_type():
    for takes in {node(name).takes for name in names()}:
        total = sum(2.718281828459045 ** -rarity(name) for name in names() if node(name).takes is takes)
        assert abs(total - 1) < 1e-9
    assert difficulty(PARENT).length == 3 and difficulty(PARENT).scenario == rarity("orders_csv")


def test_lineages_grow_and_keep_what_was_rejected(judged, tmp_path):
    (lineage,) = evolve(Config(tmp_path, generations=5))
    kept = lineage.accepted
    assert [candidate.generation for candidate in kept] == list(range(len(kept))) and len(kept) >= 4
    for parent, child in itertools.pairwise(kept):
        assert (
            child.parent == parent.task_hash
            and child.direction in DIRECTIONS
            and child.effort == "high"
            and child.edits
        )
        assert difficulty(child.genome).total > difficulty(parent.genome).total
        assert lineage.task(child.generation).hash == compose(child.genome).hash == child.task_hash
    rejected = [candidate for candidate in lineage.candidates if candidate.verdict != "accepted"]
    assert rejected and all(candidate.reasons for candidate in rejected)
    assert {"unsound"} <= {candidate.verdict for candidate in rejected}


def test_a_killed_run_goes_on_as_if_nothing_had_been(judged, tmp_path):
    judged.says = lambda task, count: "unsound" if task.hash[0] in "01234567" else "sound"
    evolve(Config(tmp_path / "whole", generations=4))

    def die(task, count):
        if count % 3 == 0:
            raise KeyboardInterrupt
        return "unsound" if task.hash[0] in "01234567" else "sound"

    judged.says = die
    for _ in range(60):
        try:
            evolve(Config(tmp_path / "killed", generations=4))
            break
        except KeyboardInterrupt:
            with (tmp_path / "killed/lineage000/lineage.jsonl").open("a") as file:
                file.write('{"generation": 1, "torn')
    assert candidates(tmp_path / "killed") == candidates(tmp_path / "whole")


def test_a_failing_sandbox_rejects_nothing(judged, tmp_path):
    judged.says = lambda task, count: "unknown" if count == 2 else "sound"
    with pytest.raises(SandboxError, match="said unknown"):
        evolve(Config(tmp_path, generations=1))
    assert [row["verdict"] for row in candidates(tmp_path) if row["task_hash"]] == ["accepted"]
    assert module.main(Config(tmp_path, generations=1)) == 0


def test_a_lineage_ends_when_all_directions_fail(judged, tmp_path):
    judged.says = lambda task, count: "sound" if count == 1 else "unsound"
    config = Config(tmp_path, generations=3, repairs=1)
    (lineage,) = evolve(config)
    assert len(lineage.accepted) == 1
    tried = lineage.tried(1)
    assert {candidate.direction for candidate in tried} == set(DIRECTIONS)
    assert [candidate.attempt for candidate in tried] == list(range(len(tried)))
    before = len(tried)
    (again,) = evolve(config)
    assert len(again.tried(1)) == before  # nothing is tried twice
    judged.says = lambda task, count: "unsound"
    with pytest.raises(RuntimeError, match="no sound seed in 2 tries"):
        evolve(dataclasses.replace(config, out=tmp_path / "x"))


def test_a_changed_task_is_noticed(judged, tmp_path):
    (lineage,) = evolve(Config(tmp_path, generations=1))
    (lineage.task_folder(1) / "instruction.md").write_text("Something else.\n")
    with pytest.raises(ValueError, match="was changed"):
        Lineage(lineage.folder).task(1)


def test_settings_are_checked(tmp_path):
    with pytest.raises(ValueError, match="lineages must be at least 1"):
        Config(tmp_path, lineages=0)
    with pytest.raises(ValueError, match="negative"):
        Config(tmp_path, generations=-1)


@pytest.mark.usefixtures("sandboxed")
def test_two_generations_by_execution(tmp_path):
    (lineage,) = evolve(Config(tmp_path, generations=2, seed_steps=1))
    assert len(lineage.accepted) == 3 and lineage.task(2).info.name.startswith("jaxenv/pipeline-")
