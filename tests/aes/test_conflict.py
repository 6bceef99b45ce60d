"""Cosines of environments: known ones are found, silence is flagged, a stage goes on where it stopped."""

import dataclasses

import jax
import numpy as np
import pytest
import small

from aes import conflict
from aes.conflict import Settings
from aes.formats import FormatError, Matrix
from agents.rollout import collect

FEW = Settings(batches=6, prompts=4, rollouts=8, level=0, resolution=64, sketch=2048)


def noisy(direction, batches, noise, rng):
    """Batches around one direction: each has `noise` of another, unrelated one of its own."""
    size = len(direction)
    return direction + noise * rng.normal(size=(batches, size)) * np.linalg.norm(direction) / np.sqrt(size)


@pytest.fixture(scope="module")
def known():
    """Five environments: a, a again, against a, unrelated to all, and one with two batches of ten."""
    rng = np.random.default_rng(0)
    a, other = rng.normal(size=(2, 4096))
    rows = np.stack([noisy(x, 10, 1.0, rng) for x in (a, a, -a, other, a)]).astype(np.float32)
    rows *= rng.uniform(0.1, 10, size=(5, 10, 1)).astype(np.float32)  # lengths do not matter
    rows[4, 2:] = 0
    return rows


def test_known_cosines_are_found(known):
    found = conflict.conflict(known, needed=3, bootstraps=200)
    # A direction with as much noise has cosine 1/2 with its like; means of ten have 10/11.
    np.testing.assert_allclose(found.reliability[:4], 0.5, atol=0.05)
    assert found.cosine[0, 1] == pytest.approx(10 / 11, abs=0.03)
    assert found.cosine[0, 2] == pytest.approx(-10 / 11, abs=0.03)
    assert abs(found.cosine[0, 3]) < 0.1
    assert found.corrected[0, 1] == pytest.approx(1, abs=0.1) and found.pairwise[0, 2] == pytest.approx(
        -0.5, abs=0.05
    )
    np.testing.assert_allclose(found.cosine, found.cosine.T, atol=1e-12)
    assert (np.diag(found.cosine) == 1).all() and (found.low <= found.high).all()
    assert found.high[0, 2] < 0 < found.low[0, 1]
    # A resample holds fewer distinct batches, so an interval lies nearer to 0 than the cosine of all.
    assert found.low[0, 3] < 0 < found.high[0, 3]


def test_an_environment_without_gradients_is_flagged_and_says_nothing(known):
    found = conflict.conflict(known, needed=3, bootstraps=20)
    assert found.live.tolist() == [10, 10, 10, 10, 2]
    assert found.low_signal.tolist() == [False] * 4 + [True]
    assert (
        (found.cosine[4, :4] == 0).all() and (found.low[4, :4] == 0).all() and (found.high[:4, 4] == 0).all()
    )
    none = conflict.conflict(np.zeros((2, 4, 16), np.float32), needed=2, bootstraps=20)
    assert (
        none.low_signal.all()
        and none.cosine.tolist() == [[1, 0], [0, 1]]
        and np.isnan(none.reliability).all()
    )


def test_polarisation():
    values = np.asarray([[1, 0.5, -0.5], [0.5, 1, 0.0], [-0.5, 0.0, 1]])
    found = conflict.polarisation(values)
    assert found["mean size"] == pytest.approx(1 / 3) and found["negative"] == pytest.approx(1 / 3)
    assert (found["smallest"], found["largest"]) == (-0.5, 0.5)


def played(seed, reward):
    """Sketches of an environment whose instances are those of a question game, and whose reward is of the reply alone."""
    held, settings = small.setup(), dataclasses.replace(FEW, seed=seed)
    rng = np.random.default_rng(seed)
    talker = small.Scripted(lambda prompt, k: f"<answer>{'ABC'[rng.integers(3)]}</answer>")
    wanted = conflict.request(small.ENVS.index("tictactoe_qa"), 0, settings)
    rollouts = collect(held.mixed, talker, held.writer, wanted, FEW.rollouts, jax.random.key(seed))
    rollouts = dataclasses.replace(
        rollouts, ret=np.asarray([reward(r) for r in rollouts.replies], np.float32)
    )
    shapes = dataclasses.replace(held.config.shapes, replies=(8,))
    todo = conflict.units(rollouts, settings, shapes, held.policy.config.pad)
    return conflict.sketches(held.policy, held.params, todo, settings, 3, jax.random.key(0))


def test_the_same_task_agrees_and_its_negative_conflicts():
    coin = np.random.default_rng(0)
    tasks = (
        lambda reply: "A" in reply,
        lambda reply: "A" in reply,
        lambda reply: -("A" in reply),
        lambda reply: coin.integers(2),
    )
    found = conflict.conflict(
        np.stack([played(1000 * i, task) for i, task in enumerate(tasks)]), FEW.needed, bootstraps=200
    )
    assert not found.low_signal.any()
    assert (found.reliability[:3] > 0.5).all() and abs(found.reliability[3]) < 0.3
    assert found.pairwise[0, 1] == pytest.approx(found.reliability[:2].mean(), abs=0.1)
    assert found.low[0, 1] > 0.8 and found.high[0, 2] < -0.8 and found.high[1, 2] < -0.8
    assert found.low[0, 3] < 0 < found.high[0, 3]


def stage(folder, envs=("tictactoe_qa",), settings=FEW):
    held = small.setup()
    return conflict.compute(
        folder, envs, held.policy, held.params, held.writer, small.SHAPES, settings, at_once=2
    )


def test_a_stage_goes_on_where_it_stopped(tmp_path, monkeypatch):
    found = stage(tmp_path)
    # A policy from random numbers never answers: there is no gradient, and the files say so.
    assert found.low_signal.all()
    matrix = Matrix.load(tmp_path / "conflict.json", "conflict")
    assert matrix.envs == ("tictactoe_qa",) and matrix.low_signal == ("tictactoe_qa",)
    rows = (tmp_path / "conflict_environments.csv").read_text().splitlines()
    assert rows[1].startswith("tictactoe_qa,0,,1,0.0000")
    played = []
    real = conflict.collect
    monkeypatch.setattr(
        conflict, "collect", lambda mixed, *args: played.append(mixed.ids) or real(mixed, *args)
    )
    stage(tmp_path, ("tictactoe_qa", "rotate_matrix"))
    assert played == [["rotate_matrix"]]
    assert Matrix.load(tmp_path / "conflict.json", "conflict").envs == ("tictactoe_qa", "rotate_matrix")
    assert len((tmp_path / "conflict_pairs.csv").read_text().splitlines()) == 2
    with pytest.raises(FormatError, match="other settings"):
        stage(tmp_path, settings=dataclasses.replace(FEW, prompts=5))


@pytest.mark.parametrize(
    "field, value", [("batches", 1), ("rollouts", 1), ("sketch", 0), ("harness", 5), ("lora", -1)]
)
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(FEW, **{field: value})


def test_plan_counts():
    text = conflict.plan(("tictactoe_qa", "rotate_matrix"), Settings(), 24)
    assert "| 2 | 200 | 3,200 | 3,200 | 76,800 | 20 |" in text
