"""A run that is killed at any point and resumed ends bit for bit where an uninterrupted one does."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from agents import cloning, rollout
from agents.checkpoint import Checkpoints
from experiments import quickstart, train
from experiments.configs import Evaluation, Experiment, tiny
from experiments.run import Run
from experiments.setup import build

ROOT = Path(__file__).parent.parent
TIMING = {"seconds", "samples_per_second"}
FILES = ("cloning", "cloning_probes", "train", "train_curriculum", "eval")


def experiment() -> Experiment:
    """Two blocks of cloning and four updates, one environment of each kind, a checkpoint at every second update."""
    base = tiny()
    return dataclasses.replace(
        base,
        envs=("frozen_lake", "tictactoe_qa"),
        cloning=dataclasses.replace(base.cloning, steps=20, rows=2, probe_every=1, probe_episodes=2),
        grpo=dataclasses.replace(base.grpo, kl=0.01, learning_rate=1e-3),
        shapes=dataclasses.replace(base.shapes, rows=2, samples=2, buckets=(256,)),
        group_size=4,
        batch=2,
        prompts=8,
        checkpoint_every=1,
        evaluation=Evaluation(episodes=2),
    )


def tame():
    """Let every reply be one of four moves, whatever a model that has learnt nothing writes: some groups are live."""
    moves = ("up", "down", "left", "right")
    rollout.read_reply = lambda tokenizer, tokens, mask: (
        f"<answer>{moves[int(tokens[mask].sum()) % 4]}</answer>"
    )


# What a killed process does: `train.main` with a trap. The trap is set off by the n-th event of its kind.
DRIVER = """
import os, signal, sys
sys.path[:0] = [{root!r}, {tests!r}]
import jax
jax.config.update("jax_compilation_cache_dir", {cache!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
from agents import cloning, grpo
from experiments import train
from test_resume import experiment, tame


tame()
event, left = {event!r}, {count}

def strike():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def trap(module, name):
    original = getattr(module, name)
    def caught(*args, **kwargs):
        strike()
        return original(*args, **kwargs)
    setattr(module, name, caught)

def rename(name, args):
    # orbax writes a checkpoint into a temporary directory and renames it when it is whole.
    if name == "os.rename" and "checkpoint-tmp" in str(args[0]) and "/train/" in str(args[0]):
        strike()

if event == "checkpoint":
    sys.addaudithook(rename)
else:
    trap(*{{"cloning": (cloning, "step"), "update": (grpo, "update")}}[event])
train.main(experiment(), __import__("pathlib").Path({directory!r}), resume=True)
"""


def interrupted(directory, event, count):
    """A process that dies at the `count`-th event; gives it when it has ended."""
    code = DRIVER.format(
        root=str(ROOT), tests=str(ROOT / "tests"), cache=jax.config.jax_compilation_cache_dir, event=event, count=count,
        directory=str(directory),
    )  # fmt: skip
    environment = {**os.environ, "WANDB_MODE": "disabled", "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=1200
    )


def finish(directory, monkeypatch):
    """Run what is left in this process."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setattr(rollout, "read_reply", rollout.read_reply)  # put back when the test is over
    tame()
    train.main(experiment(), directory, resume=True)
    checkpoints = Checkpoints(directory / "checkpoints/train")
    setup = build(experiment())
    progress = train.Progress(
        train.grpo.init(experiment().grpo, setup.params), experiment().curriculum.init(setup.targets)
    )
    tree = checkpoints.restore(progress.tree())
    checkpoints.close()
    files = {}
    for name in FILES:
        rows = Run(directory, experiment(), resume=True).rows(name)
        files[name] = [{k: v for k, v in row.items() if k not in TIMING} for row in rows]
    return tree, files


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The uninterrupted run."""
    with pytest.MonkeyPatch.context() as patch:
        return finish(tmp_path_factory.mktemp("whole") / "run", patch)


def test_a_run_writes_every_row_once(whole):
    tree, files = whole
    assert [row["step"] for row in files["cloning"]] == ["16", "20"]
    assert [row["step"] for row in files["cloning_probes"]] == ["16"]
    assert [row["update"] for row in files["train"]] == ["1", "2", "3", "4"]
    assert [(row["update"], row["env"]) for row in files["train_curriculum"]] == [
        (str(u), e) for u in (1, 2, 3, 4) for e in ("frozen_lake", "tictactoe_qa")
    ]
    assert len(files["eval"]) == 4
    assert int(tree["counters"]["update"]) == 4
    assert any(float(row["turns"]) > 1 for row in files["train"])
    assert any(float(row["live_groups"]) > 0 for row in files["train"])


def test_killed_again_and_again_it_ends_the_same(whole, tmp_path, monkeypatch):
    directory = tmp_path / "run"
    checkpoints = directory / "checkpoints"

    def steps(name):
        return sorted(int(p.name) for p in (checkpoints / name).iterdir() if p.name.isdigit())

    # In the second block of cloning, after the first one's checkpoint.
    assert interrupted(directory, "cloning", 18).returncode == -signal.SIGKILL
    assert steps("clone") == [16]
    # After the third update's rollouts, with two updates behind it.
    assert interrupted(directory, "update", 3).returncode == -signal.SIGKILL
    assert steps("clone") == [16, 20] and steps("train") == [1, 2]
    # While the checkpoint of the third update is written: it is not there, its CSV row is.
    assert interrupted(directory, "checkpoint", 1).returncode == -signal.SIGKILL
    assert steps("train") == [1, 2]
    assert any("checkpoint-tmp" in p.name for p in (checkpoints / "train").iterdir())
    assert [row["update"] for row in Run(directory, experiment(), resume=True).rows("train")] == [
        "1",
        "2",
        "3",
    ]

    tree, files = finish(directory, monkeypatch)
    assert files == whole[1]
    for (path, a), (_, b) in zip(*map(jax.tree_util.tree_leaves_with_path, (tree, whole[0])), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), jax.tree_util.keystr(path)
    # Once more changes nothing: everything is read back.
    table = (directory / "table.md").read_text()
    again, files = finish(directory, monkeypatch)
    assert files == whole[1] and (directory / "table.md").read_text() == table
    jax.tree.map(np.testing.assert_array_equal, again["params"], tree["params"])


def test_what_stands_in_the_way_of_a_run_is_said_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    Run(tmp_path / "run", experiment())
    with pytest.raises(SystemExit, match=r"train: .*holds a run already.*--resume"):
        train.main(experiment(), tmp_path / "run")
    changed = dataclasses.replace(experiment(), seed=5)
    with pytest.raises(SystemExit, match=r"train: .*another config: seed was 0, is 5"):
        train.main(changed, tmp_path / "run", resume=True)


@pytest.mark.parametrize("script", [train, quickstart])
def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, script):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setattr(cloning, "step", interrupt)
    with pytest.raises(SystemExit, match="interrupted; add --resume to continue"):
        script.main(experiment(), tmp_path / "run")
