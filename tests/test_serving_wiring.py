"""`--generator vllm` end to end against a fake server, and the statistics of what servers and learner disagree on."""

import dataclasses
import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from agents import grpo
from experiments import train
from experiments.configs import Evaluation, tiny
from experiments.run import Run
from experiments.setup import build, serving

FAKE = Path(__file__).with_name("fake_server.py")


@pytest.fixture
def executable(tmp_path):
    file = tmp_path / "vllm"
    file.write_text(
        f'#!/bin/sh\necho start >> "{tmp_path}/starts"\nexec "{sys.executable}" -I "{FAKE}" "$@"\n'
    )
    file.chmod(0o755)
    return file


def experiment(executable, **changes):
    base = tiny(envs=("tictactoe_qa",), evaluation=Evaluation(episodes=2))
    servers = dataclasses.replace(base.serving, executable=str(executable), dtype="float32", backoff=0.01)
    return dataclasses.replace(
        base, cloning=dataclasses.replace(base.cloning, steps=0), generator="vllm", serving=servers, prompts=4, **changes
    )  # fmt: skip


def test_training_through_a_server(executable, tmp_path, monkeypatch):
    """Every update's replies are by that update's weights, and the server has them when it is asked."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    config, seen = experiment(executable), []
    collect = train.collect

    def watch(mixed, generator, *arguments):
        rollouts = collect(mixed, generator, *arguments)
        file = generator.fleet.folder / "model.safetensors"
        served = generator.fleet.servers[0].client.version()
        seen.append(((rollouts.version, generator.version, served), load_file(file)))
        assert len(rollouts.replies) == 8 and rollouts.mask.any(axis=1).all()
        return rollouts

    def update(policy, config, learner, rollouts, shapes):
        moved = jax.tree.map(lambda p: p + np.float32(0.5), learner.params)
        return grpo.Learner(moved, learner.optimizer_state, learner.reference), {"live_groups": 1.0}

    monkeypatch.setattr(train, "collect", watch)
    monkeypatch.setattr(grpo, "update", update)
    run = Run(tmp_path / "run", config)
    with serving(build(config), run.path("serving")) as setup:
        train.reinforce(setup, run, setup.params)
        assert setup.fleet.counts["restarts"] == 0
    rows = run.rows("train")
    run.close()
    assert len(rows) == 2 and (tmp_path / "starts").read_text().split() == ["start"]
    (first, before), (second, after) = seen
    assert len(set(first)) == len(set(second)) == 1 and first != second
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_allclose(after[name], before[name] + np.float32(0.5), rtol=1e-6)
    assert not any(server.launcher.running for server in setup.fleet.servers)


def test_without_its_servers_it_does_not_fall_back(executable):
    held = build(experiment(executable))
    for make in (lambda: held.generator(held.params), lambda: held.evaluator(held.params, 0.0)):
        with pytest.raises(RuntimeError, match="needs its servers"):
            make()


def test_servers_must_hold_the_prompts(executable):
    small = dataclasses.replace(experiment(executable).serving, max_length=100)
    with pytest.raises(
        ValueError, match=r"serving\.max_length must hold a prompt and its reply: at least 168"
    ):
        dataclasses.replace(experiment(executable), serving=small)


def test_a_run_resumes_with_other_servers_and_from_before_there_were_any(tmp_path, executable):
    config = experiment(executable)
    Run(tmp_path / "a", config)
    moved = dataclasses.replace(config, serving=dataclasses.replace(config.serving, urls=("http://x",)))
    run = Run(tmp_path / "a", moved, resume=True)
    assert json.loads(run.path("config.json").read_text())["serving"]["urls"] == ["http://x"]
    old = Run(tmp_path / "b", tiny()).path("config.json")
    stored = json.loads(old.read_text())
    del stored["generator"], stored["serving"]
    old.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match="generator was jax, is vllm"):
        Run(tmp_path / "b", tiny(generator="vllm"), resume=True)
    Run(tmp_path / "b", tiny(), resume=True)


def test_mismatch_counts_tokens_as_often_as_they_occur():
    rng = np.random.default_rng(0)
    drift = rng.normal(0, 0.1, 400).astype(np.float32)
    count = rng.integers(1, 5, 400).astype(np.float32)
    found = grpo.mismatch(drift, count)
    ratio = np.sort(np.exp(np.repeat(drift.astype(np.float64), count.astype(int))))
    assert set(found) == set(grpo.MISMATCH)
    assert found["mismatch_outside"] == pytest.approx(np.mean((ratio < 0.9) | (ratio > 1.1)))
    for name, q in grpo.QUANTILES.items():
        assert found[name] == pytest.approx(np.quantile(ratio, q, method="inverted_cdf"))
    same = grpo.mismatch(np.zeros(3, np.float32), np.ones(3, np.float32))
    assert same == {"mismatch_p01": 1.0, "mismatch_p50": 1.0, "mismatch_p99": 1.0, "mismatch_outside": 0.0}
