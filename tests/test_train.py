"""GRPO under every curriculum: what is generated, what is trained on, what is counted."""

import dataclasses

import jax
import numpy as np
import pytest
from small import Scripted, request

from agents import rollout
from agents.rollout import collect, join, keep
from curriculum.accel import ACCEL
from curriculum.adcl import ADCL
from curriculum.dapo import DAPO
from curriculum.hdc import HDC
from curriculum.none import NoCurriculum
from curriculum.plr import PLR
from curriculum.plr_robust import RobustPLR
from curriculum.rlve import RLVE
from curriculum.vcrl import VCRL
from experiments import train
from experiments.configs import tiny
from experiments.run import Run
from experiments.setup import build

MOVES = ("up", "down", "left", "right")
CURRICULA = {
    "none": NoCurriculum(base_scale="uniform"),
    "rlve": RLVE(),
    "dapo": DAPO(inner=NoCurriculum(base_scale="uniform"), refills=2),
    "vcrl": VCRL(group_size=4, kappa_early=0.5),
    "plr": PLR(capacity=4, fill=0.25),
    "plr_robust": RobustPLR(capacity=4, fill=0.25, replay_prob=1.0),
    "accel": ACCEL(capacity=4, fill=0.25, replay_prob=1.0, max_edits=2),
    "adcl": ADCL(pool=4, batches=2),
}


@pytest.fixture(autouse=True)
def tame(monkeypatch):
    """Let every reply be one of four moves, whatever a model that has learnt nothing writes: some groups are live."""
    monkeypatch.setattr(
        rollout,
        "read_reply",
        lambda tokenizer, tokens, mask: f"<answer>{MOVES[int(tokens[mask].sum()) % 4]}</answer>",
    )


def experiment(curriculum, **changes):
    base = tiny()
    return dataclasses.replace(
        base,
        envs=("frozen_lake", "tictactoe_qa"),
        cloning=dataclasses.replace(base.cloning, steps=0),
        shapes=dataclasses.replace(base.shapes, rows=2, samples=2, buckets=(256,)),
        curriculum=curriculum,
        **{"prompts": 8, **changes},
    )


@pytest.mark.parametrize("name", CURRICULA)
def test_every_curriculum_trains(name, tmp_path):
    config = experiment(CURRICULA[name])
    setup = build(config)
    run = Run(tmp_path / "run", config, resume=False)
    train.reinforce(setup, run, setup.params)
    rows = run.rows("train")
    run.close()
    generated = [int(r["prompts"]) for r in rows]
    assert generated == sorted(generated) and 0 < generated[-1] <= 8
    assert all(int(r["rollouts"]) == 4 * int(r["prompts"]) for r in rows)
    assert all(int(r["trained_prompts"]) <= int(r["prompts"]) for r in rows)
    most = config.batch * (1 + config.curriculum.refills)
    assert (np.diff([0, *generated]) <= most).all() and (np.diff([0, *generated]) >= config.batch).all()
    if name in ("none", "rlve"):
        assert all(float(r["accepted_groups"]) == 1.0 for r in rows)


def test_refused_groups_are_replaced_and_leave_no_gradient():
    """Always `up`: no group is live, so DAPO refills to its bound and refuses everything."""
    setup = build(experiment(CURRICULA["dapo"]))
    state = setup.curriculum.init(setup.targets)
    up = Scripted(lambda prompt, k: "up")
    setup_up = dataclasses.replace(setup)
    object.__setattr__(setup_up, "generator", lambda params: up)
    batch = train.generate(setup_up, setup.params, state, jax.random.key(0), most=99)
    assert len(batch.env) == 2 * 3 and not batch.trains.any()
    assert batch.success.shape == (6,) and np.isfinite(batch.success).all()
    few = train.generate(setup_up, setup.params, state, jax.random.key(0), most=3)
    assert len(few.env) == 3 and few.success.shape == (4,) and np.isnan(few.success).sum() == 1
    with_padding, _ = setup.curriculum.update(state, batch.request, batch.success, batch.reward)
    assert int(with_padding.prompts.sum()) == 6 and int(with_padding.trained.sum()) == 0


def test_budget_counts_generated_prompts_or_updates(tmp_path):
    """With two rounds of refills an update may generate three batches: `updates` takes as many steps regardless."""
    counts = {}
    for budget in ("generated", "updates"):
        config = experiment(CURRICULA["dapo"], budget=budget, prompts=6)
        setup = build(config)
        run = Run(tmp_path / budget, config, resume=False)
        train.reinforce(setup, run, setup.params)
        counts[budget] = [(int(r["update"]), int(r["prompts"])) for r in run.rows("train")]
        run.close()
    assert counts["updates"][-1][0] == 3 and counts["updates"][-1][1] >= 6
    assert counts["generated"][-1][1] <= counts["updates"][-1][1]
    assert counts["generated"] == counts["updates"][: len(counts["generated"])]


def test_keep_and_join_are_inverse():
    setup = build(experiment(HDC()))
    rows = request([0, 1, 0], level=[0, 0, 1], seed=[3, 4, 5])
    generator = Scripted(lambda prompt, k: MOVES[k % 4])
    whole = collect(setup.mixed, generator, setup.writer, rows, 4, jax.random.key(0))
    kept = keep(whole, np.asarray([True, False, True]))
    lake = whole.group != 1
    assert kept.group.tolist() == [0] * 4 + [1] * 4
    np.testing.assert_array_equal(kept.ret, whole.ret[lake])
    turns = lake[whole.episode]
    np.testing.assert_array_equal(kept.prompt, whole.prompt[turns])
    np.testing.assert_array_equal(np.bincount(kept.episode), whole.length[lake])
    assert kept.replies == [r for r, t in zip(whole.replies, turns) if t]
    assert keep(whole, np.ones(3, bool)) is whole

    parts = [keep(whole, np.arange(3) == g) for g in range(3)]
    again = join(parts)
    assert again.group.tolist() == whole.group.tolist()
    np.testing.assert_array_equal(again.ret, whole.ret)
    order = np.argsort(whole.group[whole.episode], kind="stable")
    np.testing.assert_array_equal(again.episode, whole.episode[order])
    prompts = [again.prompts[p].ids.tobytes() for p in again.prompt]
    assert prompts == [whole.prompts[p].ids.tobytes() for p in whole.prompt[order]]
    np.testing.assert_array_equal(again.tokens, whole.tokens[order])


def test_a_curriculum_for_other_groups_is_refused():
    with pytest.raises(ValueError, match=r"curriculum\.group_size"):
        experiment(VCRL(group_size=8))
