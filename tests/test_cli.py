"""The scripts from the command line: one in a process of its own, the others through their parsers."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

from experiments.configs import CLI

ROOT = Path(__file__).parent.parent
SMALL = ("tiny", "--prompts", "4", "--evaluation.episodes", "2", "--checkpoint-every", "1")
SMALL += ("--cloning.steps", "16", "--cloning.rows", "2", "--envs", "frozen_lake", "tictactoe_qa")


@pytest.fixture
def run(capfd, monkeypatch):
    """Runs a script with arguments and gives what it printed; `fails`: whether it must end with an error."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("COLUMNS", "200")

    def call(script, *arguments, fails=False):
        main = importlib.import_module(f"experiments.{script}").main
        capfd.readouterr()
        code = None
        try:
            tyro.cli(main, args=[*map(str, arguments)], config=CLI)
        except SystemExit as end:
            code = end.code
        said = "".join(capfd.readouterr()) + (code if isinstance(code, str) else "")
        assert (code not in (None, 0)) == fails, said[-3000:]
        return said

    return call


def test_a_process_of_its_own(tmp_path):
    environment = os.environ | {"WANDB_MODE": "disabled", "COLUMNS": "200"}
    command = [sys.executable, "-m", "experiments.evaluate", "--policy", "oracle", *SMALL]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr[-3000:]
    assert re.search(r"\| frozen_lake \| MT \| 100\.0 ± 0\.0 \|", process.stdout)


@pytest.mark.parametrize("script", ["train", "evaluate", "quickstart"])
def test_help(run, script):
    shown = run(script, "tiny", "--help")
    for flag in ("--envs", "--grpo.learning-rate", "--shapes.buckets", "--evaluation.episodes"):
        assert flag in shown


def test_unknown_flags_and_impossible_values_are_refused(run):
    assert "learning-rat" in run("train", "tiny", "--grpo.learning-rat", "1", fails=True)
    assert "group_size must be at least 2" in run("evaluate", "tiny", "--group-size", "1", fails=True)


def test_quickstart_trains_and_its_checkpoint_can_be_evaluated(run, tmp_path):
    said = run("quickstart", "--run-dir", tmp_path, "--control", *SMALL)
    assert "| environment | kind | base | HDC | gain | no curriculum | gain |" in said
    for name in ("config.json", "train.csv", "control.csv", "cloning.csv", "eval.csv", "table.md", "eval_base.json",
                 "eval_trained.json", "eval_control.json", "train_curve.png", "rollouts.png"):  # fmt: skip
        assert (tmp_path / name).stat().st_size > 0
    assert json.loads((tmp_path / "config.json").read_text())["prompts"] == 4
    table = run("evaluate", "--policy", "checkpoint", "--run-dir", tmp_path, *SMALL)
    rows = re.findall(r"^\| (\w+) \| (ST|MT) \| ", table, re.MULTILINE)
    assert rows == [("frozen_lake", "MT"), ("tictactoe_qa", "ST")]
    # The same episodes as at the end of the run, sampled by the same parameters with the same keys.
    stored = json.loads((tmp_path / "eval_trained.json").read_text())["success"]
    for env_id, wins in stored.items():
        assert f"| {env_id} | " in table and f"| {100 * sum(wins) / len(wins):.1f} ± " in table
    assert "holds a run already" in run("quickstart", "--run-dir", tmp_path, *SMALL, fails=True)


def test_train_from_scratch(run, tmp_path):
    said = run("train", "--run-dir", tmp_path, *SMALL, "--cloning.steps", "0", "--envs", "frozen_lake")
    assert "| frozen_lake | MT | " in said and not (tmp_path / "cloning.csv").exists()


def test_missing_checkpoints_are_said(run, tmp_path):
    assert "needs --run-dir" in run("evaluate", "--policy", "checkpoint", *SMALL, fails=True)
    said = run("evaluate", "--policy", "checkpoint", "--run-dir", tmp_path / "none", *SMALL, fails=True)
    assert "no checkpoints" in said and not (tmp_path / "none").exists()
