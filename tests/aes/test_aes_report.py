"""t-SNE against its definition, the tables by hand, and all stages from annotations to the report."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from aes import baselines, formats, merge, profile, report, select
from aes.formats import Annotation, FormatError, Matrix, Pick, Profile, Profiles, Segment, Selection
from aes.tsne import affinities, tsne


def squared(points):
    return np.sum((points[:, None] - points[None]) ** 2, axis=-1)


def divergence(p, y):
    """KL(P || Q) of the definition."""
    near = 1 / (1 + squared(y))
    np.fill_diagonal(near, 0)
    q = near / near.sum()
    return sum(a * np.log(a / b) for a, b in zip(p.ravel(), q.ravel()) if a > 1e-12)


def test_affinities_have_the_perplexity():
    rng = np.random.default_rng(0)
    p = affinities(squared(rng.normal(size=(40, 5)) * 3), 7.0)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(-np.sum(p * np.log(p + 1e-300), axis=1)), 7.0, rtol=1e-6)
    assert not np.diag(p).any()


def test_tsne_keeps_clusters_together():
    rng = np.random.default_rng(0)
    of = np.repeat(np.arange(3), 12)
    d = squared(rng.normal(size=(36, 8)) * 0.3 + rng.normal(size=(3, 8))[of] * 3)
    y = tsne(d, perplexity=8, steps=400)
    np.testing.assert_array_equal(y, tsne(d, perplexity=8, steps=400))
    near = squared(y) + np.diag(np.full(36, np.inf))
    assert (of[near.argmin(axis=1)] == of).all()
    p = affinities(d, 8.0)
    p = (p + p.T) / 72
    assert divergence(p, y) < 0.5 * divergence(p, rng.normal(size=(36, 2)) * y.std())
    assert all(y[of == k].std(axis=0).max() < 0.2 * y.std() for k in range(3))


def test_tsne_of_few_and_of_equal_points():
    assert tsne(np.zeros((2, 2))).shape == (2, 2)
    assert np.isfinite(tsne(np.zeros((8, 8)), steps=50)).all()


def test_coverage_and_comparison_by_hand():
    envs = {
        "a": Profile(1, {"x": 1.0}, {"y": 1.0}, {}, {}), "b": Profile(1, {"y": 1.0}, {}, {}, {}),
        "c": Profile(1, {"x": 1.0, "z": 1.0}, {}, {}, {}),
    }  # fmt: skip
    profiles = Profiles(envs, {})
    s = Selection("mine", (Pick("a", {}), Pick("c", {})), "", {})
    assert report.coverage(profiles, s, ["a", "b", "c"]) == ([1, 2], 3)
    assert report.coverage(profiles, s, ["a", "b"]) == ([1, 1], 2)
    similar = Matrix(("a", "b", "c"), np.asarray([[1, 0.5, 0.25], [0.5, 1, 0], [0.25, 0, 1]]), {})
    columns, (row,) = report.compare(profiles, similar, similar, [s], ["a", "b", "c"])
    assert row == ["mine", 2, "2 of 3", "0.250", "0.250", "0 of 1", "0.250", ""] and len(columns) == len(row)
    one = Selection("aes", (Pick("a", {}),), "", {})
    assert report.compare(profiles, similar, None, [one], ["a"])[1] == [["aes", 1, "1 of 1", "", "", 30]]
    assert report.markdown(["a|b"], [[1]]) == "| a\\|b |\n| --- |\n| 1 |\n"


ENVS = ("frozen_lake", "peg_jump", "rotate_matrix", "spiral_matrix", "mini_sudoku", "tents_qa", "hue_qa")


def pipeline(folder):
    """Made-up annotations; each environment has two abilities of its own neighbourhood and one of all."""
    rows = []
    for e, env in enumerate(ENVS):
        for i in range(4):
            labels = [f"count kind {e % 4}", f"locate kind {e}", "plan path"][: 3 - (i == 3)]
            segments = tuple(Segment(t, t, label) for t, label in enumerate(labels))
            rows.append(Annotation(env, "base", i // 2, i, (*segments, Segment(3, 3, "", ("write answer",)))))
    formats.write_annotations(folder / "annotations.jsonl", rows)
    rng = np.random.default_rng(0)
    cosine = np.triu(rng.uniform(-0.5, 0.9, (len(ENVS),) * 2), 1)
    Matrix(ENVS, cosine + cosine.T + np.eye(len(ENVS)), {"stage": "conflict"}).save(folder / "conflict.json")
    merge.main(folder)
    profile.main(folder)
    select.main(folder, exclude=("hue_qa",), ablations=True)
    baselines.main(folder, exclude=("hue_qa",))
    report.main(folder)


def test_the_whole_pipeline(tmp_path, capsys):
    pipeline(tmp_path)
    out = tmp_path / "report"
    text = (out / "report.md").read_text()
    chosen = Selection.load(tmp_path / "selections" / "aes.json").envs
    assert "hue_qa" not in chosen and "Every core ability is covered." in text
    assert all(f"| {i} | {e} |" in text for i, e in enumerate(chosen, 1))
    for method in ("aes_without_redundancy", "aes_without_conflict", "random_0", "description", "code"):
        assert f"| {method} | " in text
    with (out / "coverage.csv").open() as f:
        rows = [r for r in csv.DictReader(f) if r["selection"] == "aes"]
    assert rows[-1]["core abilities covered"] == rows[-1]["of"]
    with (out / "profiles.csv").open() as f:
        assert [r["environment"] for r in csv.DictReader(f) if r["selected"] == "1"] == sorted(chosen)
    for name in ("coverage", "profiles"):
        assert matplotlib.image.imread(out / f"{name}.png").std() > 0.05
    before = {f.name: f.read_bytes() for f in out.glob("*.csv")}
    pipeline(tmp_path)  # nothing to do but the report
    assert before == {f.name: f.read_bytes() for f in out.glob("*.csv")}
    assert capsys.readouterr().out.count("up to date") == 10


def test_selections_of_another_pool_are_refused(tmp_path):
    profiles = Profiles({"a": Profile(1, {"x": 1.0}, {}, {}, {})}, {})
    profiles.save(tmp_path / "profiles.json")
    Matrix(("a",), np.eye(1), {}).save(tmp_path / "similarity.json")
    with pytest.raises(FormatError, match=r"aes\.select"):
        report.main(tmp_path)
    Selection("aes", (Pick("b", {}),), "", {}).save(tmp_path / "selections" / "aes.json")
    with pytest.raises(FormatError, match="without a profile: b"):
        report.main(tmp_path)


@pytest.mark.parametrize("stage", ["merge", "profile", "select", "baselines", "report"])
def test_command_lines(stage, tmp_path, monkeypatch, capsys):
    module = {"merge": merge, "profile": profile, "select": select, "baselines": baselines, "report": report}[
        stage
    ]
    monkeypatch.setattr(sys, "argv", [stage, "--help"])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as end:
        formats.command(module.main, module.__doc__)
    assert end.value.code == 0 and "PATH" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [stage, str(tmp_path)])
    with pytest.raises(SystemExit, match=r"error: .* does not exist: `python -m aes\.\w+` writes it"):
        formats.command(module.main, module.__doc__)


@pytest.mark.slow
def test_a_process_of_its_own(tmp_path):
    (tmp_path / "annotations.jsonl").write_text(json.dumps({"env": "a"}))
    command = [sys.executable, "-m", "aes.merge", str(tmp_path)]
    process = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600
    )
    assert process.returncode == 1 and "annotations.jsonl:1: no 'policy'" in process.stderr
