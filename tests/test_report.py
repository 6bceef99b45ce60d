"""The numbers of a report by hand and against the paper's printed ones; its tables and pictures on made-up runs."""

import math

import matplotlib.image
import numpy as np
import pytest
from small import prompts

from agents.rollout import Rollouts
from experiments import report
from experiments.configs import tiny
from experiments.evaluate import Scores
from experiments.run import Run

# Table 3 (8B Random-K + HDC is printed as 143.4, which its columns give with two digits swapped): model, ID split, method, ID-ST, ID-MT, ID-Rel., OOD-ST, OOD-MT, OOD-Rel., MathVision, MMMU, MMStar, Rel.
TABLE_3 = """
4B Random Base     15.7 13.1   0.0 13.8  9.5  0.0 52.3 66.0 62.7 0.0
4B AES    Base     13.1 11.9   0.0 13.8  9.5  0.0 52.3 66.0 62.7 0.0
4B Random Random   32.2 21.3  83.8 17.9  7.1  2.2 52.6 66.7 62.0 0.2
4B Random +HDC     37.3 29.4 131.0 18.7  9.0 15.1 52.0 65.6 63.9 0.2
4B AES    AES      37.7 25.4 150.6 21.0 12.2 40.3 53.0 67.9 62.3 1.2
4B AES    AES+HDC  45.0 36.2 223.9 22.1 16.8 68.5 53.3 67.2 63.1 1.5
8B Random Base     17.6 14.8   0.0 16.3 11.2  0.0 54.6 69.1 64.0 0.0
8B AES    Base     16.0 13.3   0.0 16.3 11.2  0.0 54.6 69.1 64.0 0.0
8B Random Random   34.7 25.9  86.1 20.8  9.5  6.2 54.3 69.9 64.4 0.4
8B Random +HDC     43.0 33.2 134.3 22.3 10.3 14.4 55.6 68.8 64.7 0.8
8B AES    AES      41.0 30.9 144.3 23.2 17.0 47.1 54.0 69.2 65.0 0.2
8B AES    AES+HDC  49.9 40.1 206.7 26.5 20.7 73.7 54.9 70.1 63.5 0.4
"""
ROWS_3 = [(*line.split()[:3], *map(float, line.split()[3:])) for line in TABLE_3.strip().splitlines()]
# All Envs. has another set of ID environments, whose base is not printed; its OOD and general columns:
ALL_ENVS = [("4B", 17.6, 8.3, 7.5, 51.6, 66.1, 63.6, 0.1), ("8B", 19.6, 12.5, 15.9, 55.3, 68.6, 65.3, 0.9)]


@pytest.mark.parametrize("row", ROWS_3, ids=lambda r: "-".join(r[:3]))
def test_relative_gain_is_that_of_table_3(row):
    (base,) = [r for r in ROWS_3 if r[:3] == (*row[:2], "Base")]
    for columns, printed in ((slice(3, 5), row[5]), (slice(6, 8), row[8]), (slice(9, 12), row[12])):
        assert report.relative_gain(row[columns], base[columns]) == pytest.approx(printed, abs=0.06)


@pytest.mark.parametrize("row", ALL_ENVS, ids=lambda r: r[0])
def test_relative_gain_of_all_environments(row):
    base = next(r for r in ROWS_3 if r[0] == row[0] and r[2] == "Base")
    assert report.relative_gain(row[1:3], base[6:8]) == pytest.approx(row[3], abs=0.06)
    assert report.relative_gain(row[4:7], base[9:12]) == pytest.approx(row[7], abs=0.06)


@pytest.mark.parametrize(
    "st, mt, printed",
    [(17.9, 7.1, 2.2), (18.6, 11.0, 25.3), (18.5, 6.8, 2.8), (21.0, 12.2, 40.3),  # Table 4
     (16.3, 8.3, 2.8), (18.6, 9.9, 19.5)],  # Table 9
)  # fmt: skip
def test_relative_gain_is_that_of_tables_4_and_9(st, mt, printed):
    assert report.relative_gain((st, mt), (13.8, 9.5)) == pytest.approx(printed, abs=0.06)


@pytest.mark.parametrize(
    "row, documented, printed",
    [
        ((40.7, 29.8, 21.6, 14.1), 10.9, 11.5),
        ((41.9, 33.1, 21.2, 15.3), 17.0, 18.1),
        ((45.0, 36.2, 22.1, 16.8), 26.2, 27.7),
    ],
)
def test_table_5_does_not_follow_from_its_rows(row, documented, printed):
    got = report.relative_gain(row, (37.7, 25.4, 21.0, 12.2))
    assert got == pytest.approx(documented, abs=0.06) and abs(got - printed) > 0.5


def test_no_relative_gain_over_nothing():
    assert math.isnan(report.relative_gain((0.5, 0.5), (0.5, 0.0)))


def test_interval():
    mean, half = report.interval(np.asarray([1, 0, 1, 0], np.float32))
    assert mean == 0.5 and half == pytest.approx(1.959964 * math.sqrt(1 / 3) / 2)
    assert report.interval(np.ones(5)) == (1.0, 0.0)
    assert report.cell(0.5, 0.123) == "50.0 ± 12.3" and report.cell(0.02, 0.01, signed=True) == "+2.0 ± 1.0"


def scores(**values):
    """Scores of environments `st_...` (single-turn), `mt_...` and `ood_...` (held out, single-turn)."""
    arrays = {e: np.asarray(v, np.float32) for e, v in values.items()}
    return Scores(
        success={e: (v >= 1).astype(np.float32) for e, v in arrays.items()},
        value=arrays,
        single_turn={e: not e.startswith("mt") for e in arrays},
        held_out={e: e.startswith("ood") for e in arrays},
        invalid=dict.fromkeys(arrays, 0.25),
    )


BASE = scores(st_a=[1, 0, 0, 0], st_b=[1, 1, 0, 0], mt_c=[0.5, 0, 0, 0.5], ood_d=[0, 0, 0, 1])
AFTER = scores(st_a=[1, 1, 0, 0], st_b=[1, 1, 1, 0], mt_c=[1, 0.5, 0, 0.5], ood_d=[0, 0, 0, 1])


def test_means_and_pooled_gain_by_hand():
    assert report.means(BASE) == {"ST": 0.375, "MT": 0.25} and report.means(BASE, held_out=True) == {
        "ST": 0.25
    }
    gain, half = report.pooled_gain(BASE, AFTER)
    # Paired differences: (0, 1, 0, 0), (0, 0, 1, 0), (.5, .5, 0, 0): means 1/4 each, variances 1/4, 1/4, 1/12.
    assert gain == pytest.approx(0.25)
    assert half == pytest.approx(1.959964 * math.sqrt((0.25 / 4 + 0.25 / 4 + (1 / 12) / 4) / 9))
    assert report.pooled_gain(BASE, AFTER, held_out=True) == (0.0, 0.0)


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path / "run", tiny())


def test_comparison(run):
    for _ in range(2):  # made twice: nothing is doubled
        table = report.comparison(run, BASE, {"HDC": AFTER, "none": BASE})
    assert run.path("table.md").read_text() == table + "\n"
    lines = [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()]
    assert len({len(line) for line in lines}) == 1
    assert lines[0] == ["environment", "kind", "base", "HDC", "gain", "none", "gain"]
    assert [line[:2] for line in lines[2:6]] == [
        ["st_a", "ST"],
        ["st_b", "ST"],
        ["mt_c", "MT"],
        ["ood_d", "ST held out"],
    ]
    assert (
        lines[2][2].startswith("25.0 ± ")
        and lines[2][4].startswith("+25.0 ± ")
        and lines[2][6] == "+0.0 ± 0.0"
    )
    pooled, held = lines[6], lines[7]
    assert pooled[:3] == ["**pooled**", "", "ST 37.5, MT 25.0"]
    # ST 37.5 -> 62.5, MT 25 -> 50: (66.7 + 100) / 2.
    assert pooled[3] == "ST 62.5, MT 50.0, Rel. +83.3%" and pooled[4].startswith("**+25.0 ± ")
    assert held[0] == "**held out**" and held[3] == "ST 25.0, Rel. +0.0%"
    rows = run.rows("eval")
    assert len(rows) == 4 * 3 and {r["policy"] for r in rows} == {"base", "HDC", "none"}
    (row,) = [r for r in rows if r["policy"] == "HDC" and r["env"] == "mt_c"]
    assert row == {
        "policy": "HDC", "env": "mt_c", "kind": "MT", "episodes": "4", "mean": "0.5",
        "half_width": f"{report.interval(AFTER.value['mt_c'])[1]:.6g}", "success": "0.25", "invalid": "0.25",
    }  # fmt: skip


def test_recent_skips_what_is_missing():
    values = np.asarray([np.nan, 1.0, np.nan, 0.0, 0.0, np.nan])
    np.testing.assert_allclose(report.recent(values, 2), [np.nan, 1, 1, 0.5, 0, 0])
    assert np.isnan(report.recent(np.full(3, np.nan), 2)).all()


@pytest.mark.parametrize("updates", [1, 40])
def test_curves(run, updates):
    rng = np.random.default_rng(0)
    for update in range(1, updates + 1):
        for k, env_id in enumerate(("frozen_lake", "never_drawn")):
            run.append("train_curriculum", {
                "update": update, "prompts": 8 * update, "env": env_id, "harness": min(4, update // 9) * (1 - k),
                "level": update % 9 // 3 * (1 - k), "mastered": 0, "frontier_success": rng.random(),
                "drawn": 4, "success": rng.random() if update % 3 and not k else float("nan"),
            })  # fmt: skip
    report.curves(run, "train")
    picture = matplotlib.image.imread(run.path("train_curve.png"))
    assert picture.shape[0] > 300 and picture[..., :3].std() > 0.05


def test_pictures_of_rollouts(run):
    held = prompts(3)
    n = 3
    r = Rollouts(
        prompts=held, prompt_texts=["one\ntwo", "$x$ & <b>", "three"], episode=np.arange(n), prompt=np.arange(n),
        tokens=np.zeros((n, 2), np.int32), log_probs=np.zeros((n, 2)), mask=np.ones((n, 2), bool),
        replies=["<answer>up</answer>", "$\\frac{", ""], valid=np.asarray([True, False, False]),
        reward=np.asarray([1.0, 0.0, 0.0]), group=np.arange(n), ret=np.zeros(n), success=np.zeros(n, bool),
        length=np.ones(n, np.int32),
    )  # fmt: skip
    report.rollout_sheet(run, [r], "rollouts", count=3)
    picture = matplotlib.image.imread(run.path("rollouts.png"))
    assert picture[..., :3].std() > 0.05
