"""Configs are checked when they are built, hash, and describe themselves as JSON."""

import dataclasses
import json
from pathlib import Path

import pytest

from agents.cloning import Config as Cloning
from curriculum.none import NoCurriculum
from experiments import configs
from experiments.configs import PRESETS, Evaluation, Experiment, as_dict, nano, tiny
from experiments.setup import build


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name):
    preset = PRESETS[name]
    assert isinstance(preset, Experiment) and preset == dataclasses.replace(preset)
    assert hash(preset) == hash(dataclasses.replace(preset))
    assert preset.updates >= 1 and preset.prompts >= preset.batch
    described = as_dict(preset)
    assert json.loads(json.dumps(described)) == described
    assert set(described) == {"kind", *(f.name for f in dataclasses.fields(Experiment))}


def test_a_preset_builds():
    held = build(tiny())
    assert held.mixed.ids == list(tiny().envs)
    assert held.targets.tolist() == [b.env.eval_level for b in held.mixed.batches]
    assert held.generator(held.params).temperature == tiny().grpo.temperature
    assert held.evaluator(held.params, 0.0).temperature == 0.0


def test_nested_kinds_tell_curricula_apart():
    assert as_dict(nano())["curriculum"]["kind"] == "HDC"
    plain = nano(curriculum=NoCurriculum(base_scale="uniform"))
    assert as_dict(plain)["curriculum"] == {"kind": "NoCurriculum", "base_scale": "uniform"}
    path = dataclasses.replace(nano().model, path=Path("/a/b"))
    assert as_dict(nano(model=path))["model"]["path"] == "/a/b"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"envs": ()}, "envs must be distinct and not empty"),
        ({"envs": ("frozen_lake", "frozen_lake")}, "envs must be distinct"),
        ({"envs": ("frozen_lak",)}, "frozen_lake"),
        ({"group_size": 1}, "group_size must be at least 2"),
        ({"group_size": 0}, "group_size must be"),
        ({"batch": 0}, "batch must be positive"),
        ({"cloning": Cloning(shares=(1.0,))}, "cloning.shares has 1 entries for 2 envs"),
        ({"checkpoint_every": 0}, "checkpoint_every must be positive"),
        ({"prompts": 1}, r"prompts \(1\) must be at least one batch"),
        ({"model": configs.Model("tiny", resolution=8)}, "legible"),
        ({"model": configs.Model("tiny", resolution=60)}, "60"),
        ({"evaluation": Evaluation(ood=("frozen_lake",))}, "cannot be trained on and held out"),
        ({"evaluation": Evaluation(ood=("nowhere",))}, "nowhere"),
    ],
)
def test_impossible_experiments_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"episodes": 1}, "evaluation.episodes must be at least 2"),
        ({"temperature": -1.0}, "evaluation.temperature"),
    ],
)
def test_impossible_evaluations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Evaluation(**changes)
