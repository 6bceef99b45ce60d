"""The run store and the tables of the study: what is there is reused, what is missing is made, numbers are right."""

import csv
import dataclasses

import numpy as np
import pytest

from experiments import errors, figure9, methods, store, studies, study, table2, table5, table14
from experiments.report import relative_gain
from experiments.store import Base, Score, Store, Trained, name, needs, plan


def small() -> studies.Study:
    return studies.tiny()


def test_equal_configs_have_one_name_and_others_another():
    one, again = small().trained("HDC", 0), small().trained("HDC", 0)
    assert name(one) == name(again) and name(one).startswith("trained/")
    others = [
        small().trained("HDC", 1),
        small().trained("RLVE", 0),
        small().trained("HDC", 0, ("frozen_lake",)),
        dataclasses.replace(one, prompts=6),
        dataclasses.replace(one, base=dataclasses.replace(one.base, seed=1)),
    ]
    assert len({name(a) for a in (one, *others)}) == 1 + len(others)


def test_names_change_with_the_code_version(monkeypatch):
    before = store.name.__wrapped__(small().base)
    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)
    assert store.name.__wrapped__(small().base) != before


def test_what_a_score_needs_comes_first():
    policy = small().trained("HDC", 0)
    score = Score(policy, "frozen_lake")
    assert list(needs(score)) == [policy.base, policy, score]
    assert plan([score, Score(policy, "tictactoe_qa"), score]) == [
        policy.base, policy, score, Score(policy, "tictactoe_qa"),
    ]  # fmt: skip


def test_tables_share_runs():
    s = small()
    five, fourteen = plan(table5.needs(s)), plan(table14.needs(s))
    shared = set(five) & set(fourteen)
    trained = {a for a in shared if isinstance(a, Trained)}
    assert trained == {s.trained(m, seed) for m in ("no curriculum", "HDC") for seed in s.seeds}
    assert sum(isinstance(a, Base) for a in plan([*five, *fourteen])) == 1


def test_the_plan_counts_what_is_missing(tmp_path):
    s = small()
    said = studies.describe_plan(Store(tmp_path), {"table5": table5.needs(s), "table14": table14.needs(s)})
    # 8 methods with 2 seeds, 2 of them in both; a base; 17 policies in 4 environments.
    assert "1 base policies, 1 of them shared between results; 1 missing" in said
    assert "16 training runs, 4 of them shared between results; 16 missing" in said
    assert "68 evaluations, 20 of them shared between results; 68 missing" in said


def test_every_preset_asks_for_consistent_runs():
    for preset, make in studies.PRESETS.items():
        s = make()
        for result in study.RESULTS.values():
            for artefact in plan(result.needs(s)):
                if preset != "qwen3-vl-4b" and not isinstance(artefact, Score):
                    assert artefact.experiment.seed in (0, *s.seeds)
                if isinstance(artefact, Score):
                    assert artefact.env in (*s.train, *s.held_out)


def test_errors_are_classified_by_what_makes_them_disappear():
    plain = np.asarray([1, 0, 0, 0, 0], bool)
    observed = np.asarray([0, 1, 1, 0, 0], bool)
    ruled = np.asarray([0, 1, 0, 1, 0], bool)
    assert errors.classify(plain, observed, ruled).tolist() == [2, 1, 1]
    assert errors.classify(plain, observed, ruled).sum() == (~plain).sum()


def test_intervals_are_students():
    mean, half = studies.interval([0.1, 0.2, 0.3])
    assert mean == pytest.approx(0.2) and half == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)
    assert np.isnan(studies.interval([0.5])[1])


def test_the_papers_gains_are_computed_from_its_rows():
    paper = table5.PAPER
    gains = [relative_gain(paper[m], paper["no curriculum"]) for m in ("scale only", "harness only", "HDC")]
    np.testing.assert_allclose(gains, [10.9, 17.0, 26.2], atol=0.06)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The tiny study without table 14's many curricula, run once: its folder, and what training took place."""
    runs = tmp_path_factory.mktemp("runs")
    results = {"table2": table2, "table5": table5, "figure9": figure9}
    studies.produce(results, "tiny", runs)
    return runs, results


@pytest.mark.slow
def test_results_are_written(done):
    runs, _ = done
    folder = runs / "results" / "tiny"
    made = {"table2.md", "table2.csv", "table2.png", "table5.md", "table5.csv", "table5.png", "figure9.md",
            "figure9.csv", "figure9.png"}  # fmt: skip
    assert {f.name for f in folder.iterdir()} == made
    with (folder / "table5.csv").open(newline="") as file:
        rows = {row["Method"]: row for row in csv.DictReader(file)}
    s = small()
    assert list(rows) == list(table5.PAPER)
    assert all(row["generated"] == str(s.prompts) for m, row in rows.items() if m != "base")
    found = Store(runs / "store")
    want = [methods.column_means(found, s, s.trained("HDC", seed))["ID-MT"] for seed in s.seeds]
    assert rows["HDC"]["ID-MT"] == f"{studies.cell(*studies.interval(want))} ({table5.PAPER['HDC'][1]})"
    assert rows["base"]["ID-ST"].endswith("(13.1)")


@pytest.mark.slow
def test_what_is_stored_is_not_made_again(done, monkeypatch, capsys):
    runs, results = done
    for made in ("_train", "_play"):
        monkeypatch.setattr(Store, made, lambda self, artefact: pytest.fail(f"{artefact} was made again"))
    studies.produce(results, "tiny", runs)
    assert "0 missing\nabout 0 minutes to run" in capsys.readouterr().out


@pytest.mark.slow
def test_scores_are_of_the_policy_asked_for(done):
    """The same instances under the same parameters: the stored episodes are those of a fresh evaluation."""
    runs, _ = done
    found, s = Store(runs / "store"), small()
    score = s.scores(s.trained("HDC", 0))["frozen_lake"]
    stored = found.episodes(score)
    assert stored.success.shape == stored.value.shape == (s.episodes,)
    elsewhere = Store(runs / "again")
    for artefact in needs(score):  # all but the score itself
        if artefact is not score:
            elsewhere.path(artefact).parent.mkdir(parents=True, exist_ok=True)
            elsewhere.path(artefact).symlink_to(found.path(artefact))
    np.testing.assert_array_equal(elsewhere.episodes(score).value, stored.value)


def test_plan_only_runs_nothing(tmp_path, capsys):
    studies.produce({"table2": table2}, "tiny", tmp_path, plan_only=True)
    assert "1 missing" in capsys.readouterr().out and not (tmp_path / "store").exists()
