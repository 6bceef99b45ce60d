"""A run's folder: refused when taken, resumed only with the same config, cut back to its checkpoint."""

import dataclasses
import json

import pytest

from experiments.configs import nano, tiny
from experiments.run import Run


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path / "a" / "run", tiny())


def test_config_is_stored(run):
    stored = json.loads(run.path("config.json").read_text())
    assert (
        stored["kind"] == "Experiment"
        and stored["curriculum"]["kind"] == "HDC"
        and stored["grpo"]["epochs"] == 1
    )
    assert run.path("checkpoints").is_dir()


def test_an_existing_run_is_refused(run):
    with pytest.raises(FileExistsError, match="--resume"):
        Run(run.directory, tiny())
    Run(run.directory, tiny(), resume=True)


@pytest.mark.parametrize(
    "other, named",
    [
        (tiny(group_size=8), "group_size was 4, is 8"),
        (tiny(cloning=dataclasses.replace(tiny().cloning, steps=16)), "cloning.steps was 32, is 16"),
        (
            tiny(grpo=dataclasses.replace(tiny().grpo, learning_rate=0.5)),
            "grpo.learning_rate was 0.0001, is 0.5",
        ),
        (tiny(envs=("frozen_lake",)), "envs was"),
        (tiny(curriculum=dataclasses.replace(tiny().curriculum, window=3)), "curriculum.window was 1, is 3"),
        (nano(), "model.size was tiny, is nano"),
    ],
)
def test_another_config_is_refused_by_name(run, other, named):
    before = run.path("config.json").read_text()
    with pytest.raises(ValueError, match="another config") as error:
        Run(run.directory, other, resume=True)
    assert named in str(error.value)
    assert run.path("config.json").read_text() == before


def test_resume_of_nothing_starts(tmp_path):
    assert Run(tmp_path / "new", tiny(), resume=True).path("config.json").exists()


def test_results_are_stored_once(run):
    assert run.stored("eval_base") is None
    run.store("eval_base", {"x": [1.5, 2]})
    assert Run(run.directory, tiny(), resume=True).stored("eval_base") == {"x": [1.5, 2]}


def test_rows(run):
    assert run.rows("train") == []
    run.append("train", {"update": 1, "loss": 0.123456789, "name": "a, b"})
    run.append("train", {"loss": float("nan"), "name": "", "update": 2})  # columns in another order
    assert run.rows("train") == [
        {"update": "1", "loss": "0.123457", "name": "a, b"}, {"update": "2", "loss": "nan", "name": ""},
    ]  # fmt: skip
    with pytest.raises(ValueError, match="extra"):
        run.append("train", {"update": 3, "loss": 0.0, "name": "", "extra": 1})


def test_cut_keeps_what_a_checkpoint_has_seen(run):
    for update in range(1, 6):
        run.append("train", {"update": update, "name": 'a, "b"'})
    whole = run.path("train.csv").read_bytes()
    run.cut("train", "update", 9)
    assert run.path("train.csv").read_bytes() == whole
    run.cut("train", "update", 3)
    assert [row["update"] for row in run.rows("train")] == ["1", "2", "3"]
    for update in (4, 5):
        run.append("train", {"update": update, "name": 'a, "b"'})
    assert run.path("train.csv").read_bytes() == whole
    run.cut("train", "update", 0)
    assert run.rows("train") == [] and not run.path("train.csv").exists()
    run.cut("train", "update", 0)


def test_cut_drops_rows_that_a_kill_cut_short(run):
    for update in (1, 2):
        run.append("train", {"update": update, "loss": 0.5})
    with run.path("train.csv").open("a") as f:
        f.write("1")  # the first character of "12,0.5"
    run.cut("train", "update", 2)
    assert [row["update"] for row in run.rows("train")] == ["1", "2"]
    run.path("empty.csv").touch()
    run.cut("empty", "update", 2)
    run.append("empty", {"update": 1})
    assert len(run.rows("empty")) == 1
