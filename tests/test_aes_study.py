"""The tables and figures about environment sets: sets are read and checked, runs shared, numbers and files right."""

import csv
import dataclasses
import re
import sys
from pathlib import Path

import jax
import matplotlib.image
import numpy as np
import pytest

from aes import collect
from aes.baselines import random_k
from aes.conflict import Conflict
from aes.formats import FormatError, Pick, Profile, Profiles, Selection
from aes.pool import categories
from experiments import (
    aes_base,
    aes_studies,
    aes_study,
    figure3,
    figure4,
    scaling,
    store,
    table1,
    table3,
    table10,
)
from experiments.aes_studies import PICTURE, SYMBOLIC, Study, drawable
from experiments.report import relative_gain
from experiments.store import Base, Episodes, Gradients, Score, Store, Trained, plan
from experiments.studies import describe_plan
from jaxenv.sets import OOD8

SELECTIONS = ("aes", "aes_without_redundancy", "aes_without_conflict", "description", "code")


def write_aes(folder: Path, pool, selections) -> Path:
    """A folder of AES with what the studies read of it."""
    profile = Profile(1, {"plan": 1.0}, {}, {}, {})
    Profiles(dict.fromkeys(pool, profile), {}).save(folder / "profiles.json")
    for name, envs in selections.items():
        Selection(name, tuple(Pick(e, {}) for e in envs), "all", {}).save(
            folder / "selections" / f"{name}.json"
        )
    return folder


POOL = (
    "door_key",
    "frozen_lake",
    "klo_blocks",
    "mini_sudoku",
    "rotate_matrix",
    "spiral_matrix",
    "tictactoe_qa",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """The nano study on a pool of seven; nothing of it is run."""
    chosen = {
        **dict.fromkeys(SELECTIONS, ("frozen_lake", "rotate_matrix")),
        **{f"random_{s}": ("door_key", "tictactoe_qa") for s in (0, 1)},
        "random_2": ("frozen_lake", "rotate_matrix"),
    }
    folder = write_aes(tmp_path_factory.mktemp("aes"), (*POOL, *OOD8), chosen)
    return dataclasses.replace(aes_studies.nano(), folder=folder, made="Made by a test.", sizes=(2, 4, 9))


# ---- the paper's numbers ----


def test_the_papers_table_1_follows_from_its_tables_11_and_12():
    for modality, (single, mixed, drop) in table1.TABLE1.items():
        rows = {name: np.asarray(row)[None] for name, row in table1.PAPER[modality].items()}
        diagonal = table1.diagonal(rows, table1.SIX)
        assert diagonal.mean() == pytest.approx(single, abs=0.06)
        assert rows[table1.MIXED].mean() == pytest.approx(mixed, abs=0.06)
        assert table1.drops(diagonal, rows[table1.MIXED]) == [pytest.approx(drop, abs=0.15)]


def test_the_papers_gains_follow_from_its_scores():
    for paper, width in ((table3.TABLE3, 6), (table3.TABLE4, 3), (table3.TABLE9, 3)):
        for row, printed in paper.items():
            base = paper[dataclasses.replace(row, name="Base Model", trained_on=None, hdc=False)
                         if width == 6 else table3.BASE]  # fmt: skip
            for at in range(0, width, 3):
                gain = relative_gain(printed[at : at + 2], base[at : at + 2])
                assert gain == pytest.approx(printed[at + 2], abs=0.11), row


# ---- sets ----


def test_nested_sets_grow_to_the_pool_and_are_random_k(study):
    assert study.pool() == POOL
    for seed in study.seeds:
        sets = study.nested(seed)
        assert list(sets) == [2, 4, 7] and sets[7] == POOL
        assert set(sets[2]) < set(sets[4]) < set(sets[7])
        assert set(sets[4]) == {p.env for p in random_k(categories(POOL), 4, seed)}
    assert len({study.nested(seed)[2] for seed in study.seeds}) > 1


def test_selections_are_checked(study, tmp_path):
    write_aes(
        tmp_path, POOL, {"aes": ("lava_gap", "door_key"), "code": ("door_key", "othello"), "description": ()}
    )
    mine = dataclasses.replace(study, folder=tmp_path)
    with pytest.raises(
        FormatError, match=r"selects lava_gap, held out here: `python -m aes.select .* --exclude "
    ):
        mine.selection("aes")
    with pytest.raises(FormatError, match=r"selects othello: `python -m aes.baselines"):
        mine.selection("code")
    with pytest.raises(FormatError, match=r"selects nothing"):
        mine.selection("description")
    with pytest.raises(FormatError, match=r"random_0.json does not exist: `python -m aes.baselines"):
        mine.selection("random_0")
    with pytest.raises(FormatError, match=r"aes.merge"):
        dataclasses.replace(study, folder=tmp_path / "nowhere").pool()
    write_aes(tmp_path, OOD8, {})
    with pytest.raises(FormatError, match=r"held out"):
        mine.pool()


def test_what_cannot_be_drawn_is_named(study, tmp_path):
    write_aes(tmp_path, (*POOL, "circuit_logic", "arc_1d"), {"aes": ("door_key", "arc_1d")})
    mine = dataclasses.replace(study, folder=tmp_path)
    with pytest.raises(
        ValueError, match=r"at 64 px: circuit_logic needs 128, arc_1d needs 96; --resolution 128"
    ):
        drawable("these", ("circuit_logic", "door_key", "arc_1d"), 64)
    with pytest.raises(ValueError, match=r"profiles.json cannot all be drawn at 64 px: arc_1d needs 96"):
        mine.pool()
    with pytest.raises(ValueError, match=r"aes.json cannot all be drawn"):
        mine.selection("aes")
    with pytest.raises(
        ValueError, match=r"held-out environments .* weighted_binarytree needs 64; --resolution 64"
    ):
        aes_studies.nano(56)
    with pytest.raises(ValueError, match=r"transfer matrices .* circuit_logic needs 128"):
        dataclasses.replace(study, mixed=("circuit_logic", "mini_sudoku")).transfer()
    larger = dataclasses.replace(aes_studies.nano(128), folder=tmp_path)
    assert larger.selection("aes") == ("arc_1d", "door_key") and "circuit_logic" in larger.base.envs
    assert {b.model.resolution for b in (larger.base, *larger.six.values())} == {128}


def test_impossible_studies_are_refused(study):
    with pytest.raises(ValueError, match=r"mini_sudoku cannot be trained on and held out"):
        dataclasses.replace(study, held_out=("mini_sudoku",))
    with pytest.raises(ValueError, match=r"frozen_lake is multi-turn"):
        dataclasses.replace(study, mixed=("frozen_lake", "mini_sudoku"))
    with pytest.raises(ValueError, match=r"each .8. must be at least one batch"):
        dataclasses.replace(study, each=8)
    with pytest.raises(ValueError, match=r"distinct"):
        dataclasses.replace(study, seeds=(1, 1))
    with pytest.raises(SystemExit, match=r"error: .*profiles.json does not exist"):
        aes_studies.produce({"figure3": figure3}, "tiny", aes=Path("nowhere"), plan_only=True)
    with pytest.raises(ValueError, match=r"gradients at"):
        Gradients(study.base, ("mini_sudoku",), dataclasses.replace(study.gradients, resolution=32))


# ---- runs ----


def trained(artefacts) -> set[Trained]:
    return {a for a in plan(artefacts) if isinstance(a, Trained)}


def test_runs_are_shared(study):
    all_envs = {study.trained(POOL, s) for s in study.seeds}
    assert all_envs == trained(figure3.needs(study)) & trained(table3.needs(study))
    aes = ("frozen_lake", "rotate_matrix")
    # What a random draw and AES have in common is trained once; every ablation selects as AES does here.
    runs = trained(table3.needs(study))
    assert len(runs) == 3 + 2 * (3 + 2) and {study.trained(aes, s, hdc=True) for s in study.seeds} < runs
    paper = dataclasses.replace(study, prompts=2 * study.each)
    assert {paper.trained(aes, s) for s in paper.seeds} <= trained(table3.needs(paper)) & trained(
        table10.needs(paper)
    )
    assert {a.prompts for a in trained(table10.needs(study))} == {2 * 256, 4 * 256, 7 * 256}
    said = describe_plan(Store(Path("nowhere")), {n: r.needs(study) for n, r in aes_study.RESULTS.items()})
    assert "3 base policies" in said and "6 sets of gradients" in said


def test_runs_are_of_one_set_base_and_budget(study):
    for preset, make in aes_studies.PRESETS.items():
        s = dataclasses.replace(make(), folder=study.folder)
        if preset == "tiny":
            s = dataclasses.replace(s, held_out=("lava_gap", *OOD8[:2]), seeds=(0, 1))
        for result in aes_study.RESULTS.values():
            for artefact in plan(result.needs(s)):
                if isinstance(artefact, Trained):
                    assert artefact.experiment.prompts == artefact.prompts
                    assert not set(artefact.envs) & set(s.held_out)
                    assert artefact.base in (s.base, *s.six.values())
                elif isinstance(artefact, Base):
                    assert artefact.experiment.model == artefact.model


def test_gradients_of_all_seeds_are_of_other_instances(study):
    count = study.gradients.batches * study.gradients.prompts
    seeds = [study.gradients_of(PICTURE, k).settings.seed for k in range(3)]
    assert np.diff(seeds).tolist() == [count, count]
    assert study.gradients_of(SYMBOLIC, 0).policy.model.modality == "symbolic"


# ---- numbers by hand ----


class Known(Store):
    """A store in which everything is known: the base has 20, a run what `score` says, in percent."""

    def __init__(self, score, cosine=None):
        super().__init__(Path("nowhere"))
        self.score, self.cosine = score, cosine

    def has(self, artefact):
        return True

    def episodes(self, score: Score) -> Episodes:
        rate = 20 if isinstance(score.policy, Base) else self.score(score.policy, score.env)
        won = np.arange(100) < rate
        return Episodes(
            won,
            won.astype(np.float32) * (0.5 if score.env in ("frozen_lake", "lava_gap", "rush_hour") else 1),
        )

    def cosines(self, gradients: Gradients) -> Conflict:
        return self.cosine(gradients)


def read(file: Path) -> dict[str, dict[str, str]]:
    """Rows of a CSV by their first column; of two with one name the last."""
    with file.open(newline="") as opened:
        return {next(iter(row.values())): row for row in csv.DictReader(opened)}


def test_table_3_by_hand(study, tmp_path):
    aes = ("frozen_lake", "rotate_matrix")

    def score(policy: Trained, env: str) -> float:
        return (40 if policy.envs == aes else 30) + policy.seed + (env in study.held_out) * -10

    said = table3.save(Known(score), study, tmp_path)
    assert "Made by a test." in said and "Table 9" in said
    rows = read(tmp_path / "table3.csv")
    assert list(rows) == list(dict.fromkeys(row.name for row in table3.TABLE3))
    mine = rows["AES"]
    assert mine["# Envs."] == "2 (30)" and mine["ID-Split"] == "AES"
    assert mine["ID-ST"] == "41.0 ± 2.5 (37.7)"  # 40, 41, 42: t is 4.303
    assert mine["ID-MT"] == "20.5 ± 1.2 (25.4)"  # of a return of one half
    assert mine["ID-Rel."] == "+105.0 ± 12.4 (150.6)"  # 100, 105, 110 over 20 and over 10
    assert mine["OOD-ST"] == "31.0 ± 2.5 (21.0)" and mine["OOD-Rel."] == "+55.0 ± 12.4 (40.3)"
    assert rows["Base Model"]["ID-ST"] == "20.0 (13.1)" and rows["Base Model"]["OOD-Rel."] == "0.0 (0.0)"
    # The random set of seed 2 is what AES selected.
    assert rows["Random-K"]["ID-ST"] == "34.3 ± 16.5 (32.2)"  # 30, 31, 42
    assert rows["All Envs."]["# Envs."] == "7 (170)" and rows["All Envs."]["ID-ST"].startswith("31.0 ±")
    assert read(tmp_path / "table4.csv")["AES w/o Conflict"]["Rel."] == "+55.0 ± 12.4 (2.8)"
    assert read(tmp_path / "table9.csv")["Code Embedding"]["OOD-ST"] == "31.0 ± 2.5 (18.6)"
    with (tmp_path / "table3_environments.csv").open(newline="") as file:
        lines = [
            r
            for r in csv.DictReader(file)
            if r["method"] == "AES" and r["seed"] == "1" and r["split"] == "ID"
        ]
    assert [(r["environment"], r["value"], r["success"]) for r in lines] == [
        ("frozen_lake", "0.2050", "0.4100"), ("rotate_matrix", "0.4100", "0.4100"),
    ]  # fmt: skip


def test_table_1_by_hand(study, tmp_path):
    def score(policy: Trained, env: str) -> float:
        alone = 60 + policy.seed if policy.envs == (env,) else 20
        if len(policy.envs) == 1:
            return alone
        return 48 if policy.base.model.modality == "picture" else 60

    table1.save(Known(score), study, tmp_path)
    rows = read(tmp_path / "table1.csv")
    assert rows["Text-symbolic"]["Avg. Single"] == "61.0 ± 2.5 (70.4)"
    assert rows["Multimodal"]["Avg. Mixed"] == "48.0 ± 0.0 (43.2)"
    drops = 100 * (48 / np.asarray([60, 61, 62]) - 1)
    assert (
        rows["Multimodal"]["Drop, %"]
        == f"{drops.mean():+.1f} ± {4.30265 * drops.std(ddof=1) / 3**0.5:.1f} (-10.7)"
    )
    twelve = read(tmp_path / "table12.csv")
    assert list(twelve) == ["Base Model", *table1.SIX, "mixed6", "Δ"]
    assert twelve["mini_sudoku"]["mini_sudoku"] == "61.0 ± 2.5 (72.9)"
    assert twelve["mini_sudoku"]["tictactoe_qa"] == "20.0 ± 0.0 (35.1)"
    assert twelve["Δ"]["mini_sudoku"] == "-13.0 ± 2.5 (-13.8)"
    assert matplotlib.image.imread(tmp_path / "table1.png").std() > 0


def test_growing_sets_by_hand(study, tmp_path):
    def score(policy: Trained, env: str) -> float:
        return 25 + 2 * len(policy.envs) + policy.seed - (5 if env in study.held_out else 0)

    said = scaling.save(Known(score), study, tmp_path, "figure7", "Figure 7", 256, table10.FIGURE7)
    assert "66.3 at 40" in said
    rows = read(tmp_path / "figure7.csv")
    assert list(rows) == ["base", "2", "4", "7"] and rows["base"]["OOD"] == "20.0"
    assert rows["4"] == {
        "# Envs.": "4", "prompts": "1024", "per environment": "256", "ID": "34.0 ± 2.5", "ID gain": "+14.0 ± 2.5",
        "OOD": "29.0 ± 2.5", "OOD gain": "+9.0 ± 2.5",
    }  # fmt: skip
    figure3.save(Known(score), study, tmp_path)
    assert read(tmp_path / "figure3.csv")["4"]["per environment"] == "192"  # 768 among 4


def test_figure_4_by_hand(study, tmp_path):
    """Pictures: one pair at -0.5, all others 0; text: all at 0.2; the last environment is silent in one seed."""

    def cosine(gradients: Gradients) -> Conflict:
        values = np.full((6, 6), 0.2) if gradients.settings.modality == "symbolic" else np.zeros((6, 6))
        if gradients.settings.modality == "picture":
            values[0, 1] = values[1, 0] = -0.5
        low = np.zeros(6, bool)
        low[5] = gradients.settings.seed == aes_studies.GRADIENT_SEED
        values[low] = values[:, low] = 0
        np.fill_diagonal(values, 1)
        nothing = np.zeros(6)
        return Conflict(values, values - 0.1, values + 0.1, values, nothing, nothing, low)

    said = figure4.save(Known(None, cosine), study, tmp_path)
    assert "Left out: tictactoe_qa" in said
    rows = read(tmp_path / "figure4.csv")
    assert (
        rows["negative"]["Text-symbolic"] == "0.000 ± 0.000"
        and rows["negative"]["Multimodal"] == "0.100 ± 0.000"
    )
    assert rows["surely negative"]["difference"] == "+0.100 ± 0.000"  # one of ten pairs
    assert rows["mean size"]["difference"] == "-0.150 ± 0.000" and rows["smallest"]["Multimodal"].startswith(
        "-0.500"
    )
    assert len((tmp_path / "figure4_pairs.csv").read_text().splitlines()) == 1 + 2 * 3 * 15
    assert matplotlib.image.imread(tmp_path / "figure4.png").std() > 0


# ---- all of it, on two environments ----


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The tiny study of one seed, run once."""
    runs = tmp_path_factory.mktemp("runs")
    one, other = "rotate_matrix", "tictactoe_qa"
    chosen = {
        **dict.fromkeys(SELECTIONS, (one,)),
        "aes_without_redundancy": (one, other),
        "random_0": (other,),
    }
    folder = write_aes(runs / "aes", (one, other, "spiral_matrix"), chosen)
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # small policies need no building anew, and nobody reads the curves
        patch.setattr(store, "HELD", 100)
        patch.setenv("WANDB_MODE", "disabled")
        aes_studies.produce(aes_study.RESULTS, "tiny", folder, seeds=(0,), runs=runs)
    return runs


@pytest.mark.slow
def test_results_are_written(done):
    folder = done / "results" / "tiny"
    tables = {f"table{n}" for n in (1, 3, 4, 9, 10, 11, 12)} | {f"figure{n}" for n in (3, 4, 7)}
    pictures = {"figure3.png", "figure4.png", "figure7.png", "table1.png"}
    values = {"figure3_seeds.csv", "figure7_seeds.csv", "figure4_pairs.csv", "table1_seeds.csv",
              "table3_environments.csv", "table10_environments.csv"}  # fmt: skip
    made = {f"{t}{end}" for t in tables for end in (".md", ".csv")} | pictures | values
    assert {f.name for f in folder.iterdir()} == made
    assert all("Made 20" in (folder / f"{t}.md").read_text() for t in tables)
    s = dataclasses.replace(aes_studies.tiny(), seeds=(0,), folder=done / "aes")
    found = Store(done / "store")
    score = found.episodes(s.scores(s.trained(("rotate_matrix",), 0), ("rotate_matrix",))["rotate_matrix"])
    assert score.value.shape == (s.episodes,)
    want = f"{100 * score.value.mean():.1f}"
    assert read(folder / "table3.csv")["AES"]["ID-ST"] == f"{want} (37.7)"
    assert read(folder / "table12.csv")["rotate_matrix"]["rotate_matrix"] == f"{want} (45.0)"
    assert found.cosines(s.gradients_of(SYMBOLIC, 0)).cosine.shape == (2, 2)


@pytest.mark.slow
def test_what_is_stored_is_not_made_again(done, monkeypatch, capsys):
    for made in ("_train", "_play", "_differentiate"):
        monkeypatch.setattr(Store, made, lambda self, artefact: pytest.fail(f"{artefact} was made again"))
    for name, result in aes_study.RESULTS.items():  # each is complete by itself
        aes_studies.produce(
            {name: result}, "tiny", done / "aes", seeds=(0,), runs=done, out=done / "again" / name
        )
        assert "0 missing\nabout 0 minutes to run" in capsys.readouterr().out
        assert any((done / "again" / name).glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["tiny", "nano"])
def test_every_script_says_its_plan_alone(done, preset, monkeypatch, capsys, tmp_path):
    options = [
        "--preset",
        preset,
        "--aes",
        str(done / "aes"),
        "--runs",
        str(tmp_path),
        "--seeds",
        "0",
        "--plan-only",
    ]
    scripts = {name: {name: result} for name, result in aes_study.RESULTS.items()} | {
        "aes_study": aes_study.RESULTS
    }
    counts = {}
    for name, results in scripts.items():
        monkeypatch.setattr(sys, "argv", [name, *options])
        aes_studies.command(**results)
        said = capsys.readouterr().out
        counts[name] = int(re.search(r"(\d+) training runs", said)[1])
        assert "minutes to run" in said
    assert counts["figure4"] == 0 and max(counts.values()) == counts["aes_study"] < sum(counts.values()) / 2
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_base_can_be_exported(done, tmp_path, capsys):
    aes_base.main("tiny", tmp_path / "base", runs=done)
    assert "rotate_matrix tictactoe_qa" in capsys.readouterr().out
    _, params, _ = collect.load_policy(tmp_path / "base", 64)
    want = Store(done / "store").params(aes_studies.tiny().base)
    for mine, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    with pytest.raises(SystemExit, match=r"model folder already"):
        aes_base.main("qwen3-vl-4b", tmp_path / "none", runs=done)
