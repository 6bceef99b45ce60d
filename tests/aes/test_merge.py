"""Labels to abilities and profiles, by hand and on random labels."""

import json
from collections import Counter

import numpy as np
import pytest

from aes import formats, merge
from aes.embed import Words
from aes.formats import Abilities, Annotation, FormatError, Profiles, Segment
from aes.merge import Overrides, Settings, cluster, common, normal, verb_class


def trajectory(env, number, *labels, success=None):
    """Segments "core" or "core/soft/soft", one per step."""
    segments = []
    for t, text in enumerate(labels):
        core, *soft = text.split("/")
        segments.append(Segment(t, t, core, tuple(soft)))
    return Annotation(env, "base", 0, number, tuple(segments), success)


def test_verbs():
    for name, verbs in merge.VERBS.items():
        for verb in verbs.split():
            assert common(f"{verb} the thing") == f"{name} the thing", verb
    assert common("Identifying_the exit") == "identify the exit" and common("finds map") == "locate map"
    assert verb_class("Identifying the exit") == verb_class("reads map") == verb_class("spot it") == "read"
    assert (
        verb_class("pick up key")
        == verb_class("grab key")
        != verb_class("pick a move")
        == verb_class("choose")
    )
    assert verb_class("juggle balls") == verb_class("juggling") != verb_class("reading balls")
    assert verb_class("write answer") in merge.META


def test_synonyms_join_and_other_verbs_stay_apart():
    counts = Counter({"locate the goal cell": 5, "find the goal cell": 2, "locating goal cells": 1, "find goal": 1,
                      "plan path to the goal cell": 3, "locate the key cell": 1})  # fmt: skip
    same = ["find the goal cell", "locate the goal cell", "locating goal cells"]
    apart = {label: [label] for label in ("locate the key cell", "plan path to the goal cell")}
    # "find goal" shares 2 of 3 stems, cosine 0.816; "locate the key cell" has 0.667.
    assert cluster(counts, Words(), 0.7) == {"locate the goal cell": ["find goal", *same], **apart}
    assert cluster(counts, Words(), 0.9) == {
        "locate the goal cell": same,
        "find goal": ["find goal"],
        **apart,
    }


PAPER = """
explore_unseen_area extract_grid_or_matrix_state extract_graph_or_relation_state manipulate_object
solve_index_mapping_or_traversal solve_constraint_satisfaction solve_grid_propagation
generate_legal_actions simulate_rule_based_dynamics update_belief_from_feedback
infer_visual_transformation_rule solve_graph_matching solve_combinatorial_counting
solve_state_transformation verify_goal_or_terminal_state solve_path_planning
solve_adversarial_search model_transition_or_operation_rule verify_solution_constraints
"""  # Appendix F's examples of good labels


def test_the_labels_of_the_paper_stay_apart():
    labels = PAPER.split()
    found = cluster(Counter(map(normal, labels)), Words(), Settings().similarity)
    assert list(found) == sorted(map(normal, labels))
    more = cluster(
        Counter(map(normal, [*labels, "Extracting grid state", "verify-solution-constraint"])), Words(), 0.6
    )
    assert len(more) == len(labels)


def test_average_linkage_by_hand():
    """Cosines: a-b 0.8, b-c 0.8, a-c 0.28: joined to (a, b), c is at mean 0.54."""
    angle = {"read a": 0.0, "read b": np.arccos(0.8), "read c": 2 * np.arccos(0.8)}
    embed = lambda texts: np.asarray([[np.cos(angle[t]), np.sin(angle[t])] for t in texts])  # noqa: E731
    counts = dict.fromkeys(angle, 1)
    assert cluster(counts, embed, 0.55) == {"read a": ["read a", "read b"], "read c": ["read c"]}
    assert cluster(counts, embed, 0.54) == {"read a": ["read a", "read b", "read c"]}


@pytest.mark.parametrize("seed", range(20))
def test_every_label_ends_in_exactly_one_ability(seed):
    rng = np.random.default_rng(seed)
    verbs, nouns = ["find", "locate", "plan", "the"], ["goal", "key", "cell", "of"]
    labels = {" ".join([rng.choice(verbs), *rng.choice(nouns, rng.integers(0, 4))]) for _ in range(30)}
    counts = {label: int(rng.integers(1, 5)) for label in labels}
    chosen = sorted(labels)
    fixed = {"x y": chosen[:2], chosen[2]: chosen[2:4], "gone": ["no such label"]}
    found = cluster(counts, Words(), float(rng.uniform(0, 1)), fixed)
    assert sorted(label for members in found.values() for label in members) == chosen
    assert found["x y"] == chosen[:2] and found[chosen[2]] == chosen[2:4] and "gone" not in found
    for name, members in found.items():
        if name not in fixed:
            assert name in members and len({verb_class(label) for label in members}) == 1


def test_profile_by_hand():
    rows = [
        trajectory("a", 0, "read map", "plan path", "move on/keep calm", "write answer", success=True),
        trajectory("a", 1, "read map", "read map", "plan path", "write answer", success=True),
        trajectory("a", 2, "read map/plan path", "juggle", "move on", "/write answer", success=False),
        *(trajectory("a", 3 + i, "read map", "write answer", success=False) for i in range(17)),
    ]
    same = {normal(label): normal(label) for label in merge.label_counts(rows)}
    p = merge.profile(rows, same)
    assert p.trajectories == 20
    # "plan path": in both successes, core in 2 of the 3 segments that name it. "move on": in one of two successes.
    assert p.core == {"read map": 1.0, "plan path": 0.15, "move on": 0.1}
    assert p.soft == {"write answer": 1.0}
    assert p.dropped == {"juggle": 0.05, "keep calm": 0.05}
    assert p.edges == {
        ("read map", "write answer"): 0.85, ("plan path", "move on"): 0.05, ("plan path", "write answer"): 0.05,
        ("move on", "write answer"): 0.1, ("read map", "plan path"): 0.1, ("read map", "move on"): 0.05,
    }  # fmt: skip
    # Without successes all trajectories count; what a person says counts more.
    unknown = [Annotation(r.env, r.policy, r.instance, r.trajectory, r.segments) for r in rows]
    assert merge.profile(unknown, same).core == {"read map": 1.0}
    decided = Overrides(core=frozenset({"write answer"}), soft=frozenset({"read map"}))
    assert set(merge.profile(rows, same, overrides=decided).core) == {"write answer", "plan path", "move on"}


def test_four_of_forty_is_ten_percent():
    for total, count in ((40, 4), (30, 3), (70, 7)):
        rows = [trajectory("a", i, "read map", *(["plan path"] if i < count else [])) for i in range(total)]
        same = {label: label for label in ("read map", "plan path")}
        assert not merge.profile(rows, same).dropped
        assert merge.profile([*rows[1:], trajectory("a", 99, "read map")], same).dropped == {
            "plan path": (count - 1) / total
        }


def test_environments_are_not_told_apart_by_name():
    rows = [trajectory(env, i, "read map", *(["plan path"] * (env == "b"))) for env in "ab" for i in range(4)]
    renamed = [
        trajectory({"a": "z", "b": "c"}[r.env], r.trajectory, *(s.core for s in r.segments)) for r in rows
    ]
    first, second = merge.merge(rows, Words())[1].envs, merge.merge(renamed, Words())[1].envs
    assert (first["a"], first["b"]) == (second["z"], second["c"])


def test_overrides_are_checked(tmp_path):
    file = tmp_path / "overrides.json"
    for data, message in (
        ({"abilities": {"x": ["a"], "y": ["A"]}}, "'a' is in 'x' and in 'y'"),
        ({"core": ["x_y"], "soft": ["x y"]}, "are core and soft"),
        ({"cores": []}, "cores"),
    ):
        file.write_text(json.dumps(data))
        with pytest.raises(FormatError, match=message):
            Overrides.load(file)
    file.write_text(json.dumps({"abilities": {"x": ["a"], "y": ["x"], "z": ["b"]}}))
    assert Overrides.load(file).abilities == {"x": ["a"], "y": ["x", "y"], "z": ["b", "z"]}


def test_settings_are_checked():
    with pytest.raises(ValueError, match="min_frequency"):
        Settings(min_frequency=1.5)
    with pytest.raises(ValueError, match="bag"):
        Settings(embedder="bag")


def test_the_stage(tmp_path, capsys):
    rows = [trajectory(env, i, "read map", "find route") for env in "ab" for i in range(2)]
    rows.append(trajectory("c", 0, "write answer"))
    formats.write_annotations(tmp_path / "annotations.jsonl", rows)
    (tmp_path / "overrides.json").write_text(
        '{"abilities": {"plan path": ["find route"], "fly": ["fly high"]}}'
    )
    merge.main(tmp_path)
    said = capsys.readouterr().out
    assert (
        "5 trajectories of 3 environments (success of 0 known): 3 labels are 3 abilities, 2 of them core"
        in said
    )
    assert "not used: 'fly high'" in said and "no core ability: c" in said
    assert Abilities.load(tmp_path / "abilities.json").members["plan path"] == ["find route"]
    assert Profiles.load(tmp_path / "profiles.json").envs["a"].edges == {("read map", "plan path"): 1.0}
    before = (tmp_path / "profiles.json").read_bytes()
    merge.main(tmp_path)
    assert "up to date" in capsys.readouterr().out
    merge.main(tmp_path, force=True)
    assert (tmp_path / "profiles.json").read_bytes() == before
    # Successes come from the trajectories, all of them or none.
    lines = [
        {"env": r.env, "policy": r.policy, "instance": 0, "trajectory": r.trajectory, "success": True}
        for r in rows
    ]
    file = tmp_path / "trajectories.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    merge.main(tmp_path)
    assert "success of 5 known" in capsys.readouterr().out
    file.write_text(json.dumps(lines[0]) + "\n")
    with pytest.raises(FormatError, match="4 are missing"):
        merge.main(tmp_path)
