"""Evaluation: anchors, the same instances for everyone, the oracle at 100%."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from jax import Array
from small import ENVS, SHAPES, narrow, setup

from agents.policy import JaxGenerator
from agents.rollout import Rollouts, instance_keys
from curriculum.base import NUM_HARNESS
from experiments import evaluate as module
from experiments.configs import Evaluation
from experiments.evaluate import Scores, evaluate, merge, policy_player, scripted_player, table
from experiments.run import Run
from jaxenv import MixedBatch, text
from jaxenv.codec import Choice
from jaxenv.core import Env, outcome

SETTINGS = Evaluation(episodes=48, seed=77)


@pytest.fixture(scope="module")
def scripted():
    """Scores of the three scripted policies, and the seeds that each was asked to play."""
    return {
        kind: evaluate(setup().mixed, scripted_player(kind), SETTINGS, held_out=False, label=kind)
        for kind in ("oracle", "random", "idle")
    }


def test_oracle_is_perfect_and_idle_earns_nothing(scripted):
    for env_id in ENVS:
        oracle, idle = scripted["oracle"], scripted["idle"]
        assert (oracle.success[env_id] == 1).all() and (oracle.value[env_id] > 1 - 1e-5).all()
        assert (idle.success[env_id] == 0).all() and (idle.value[env_id] == 0).all()
        assert oracle.invalid[env_id] == 0.0 and idle.invalid[env_id] == 1.0
        assert oracle.success[env_id].shape == (SETTINGS.episodes,)


def test_random_play_is_in_between(scripted):
    random = scripted["random"]
    assert 0 < random.value["frozen_lake"].mean() < 0.7
    assert 0 < random.value["tictactoe_qa"].mean() < 0.9
    assert all(random.success[e].mean() < 0.9 and 0 <= random.invalid[e] <= 1 for e in ENVS)
    # Single-turn environments are scored by success, multi-turn ones by return.
    assert random.single_turn == {"frozen_lake": False, "tictactoe_qa": True, "rotate_matrix": True}
    np.testing.assert_array_equal(random.value["tictactoe_qa"], random.success["tictactoe_qa"])
    assert (random.value["frozen_lake"] >= random.success["frozen_lake"]).all()


def test_scores_survive_storing(scripted):
    again = Scores.of(scripted["random"].as_dict())
    for kind in ("success", "value"):
        for e in ENVS:
            np.testing.assert_allclose(
                getattr(again, kind)[e], getattr(scripted["random"], kind)[e], rtol=1e-6
            )
    assert again.held_out == dict.fromkeys(ENVS, False) and again.invalid == scripted["random"].invalid


def test_merge(scripted):
    held = dataclasses.replace(scripted["idle"], held_out=dict.fromkeys(ENVS, True))
    one = Scores(*({"other": getattr(held, f.name)["frozen_lake"]} for f in dataclasses.fields(Scores)))
    both = merge([scripted["random"], one])
    assert (
        list(both.value) == [*ENVS, "other"] and both.held_out["other"] and not both.held_out["frozen_lake"]
    )
    lines = table(both).splitlines()
    assert len(lines) == 6 and lines[5].startswith("| other | MT held out | 0.0 ± 0.0 |")


def test_requests_are_at_h4_and_the_evaluation_level():
    asked = []

    def play(mixed, wanted, key, progress):
        asked.append((wanted, jax.random.key_data(key)))
        n = len(wanted.seed)
        progress(n)
        return np.zeros(n, bool), np.zeros(n, np.float32), 0.0

    settings = Evaluation(episodes=module.CHUNK + 20, seed=5)
    runs = []
    for _ in range(2):
        asked.clear()
        evaluate(setup().mixed, play, settings, held_out=False, label="")
        runs.append(list(asked))
    for (a, ka), (b, kb) in zip(*runs):
        jax.tree.map(np.testing.assert_array_equal, (a, ka), (b, kb))
    assert len(runs[0]) == 2 * len(ENVS)
    for index, batch in enumerate(setup().mixed.batches):
        mine = [w for w, _ in runs[0] if w.env[0] == index]
        seeds = np.concatenate([w.seed for w in mine])
        np.testing.assert_array_equal(seeds, np.arange(module.CHUNK + 20) + 5)
        for w in mine:
            assert (w.harness == NUM_HARNESS - 1).all() and (w.level == batch.env.eval_level).all()
            assert (w.env == index).all() and w.seed.dtype == np.uint32


def test_every_policy_sees_the_same_instances(monkeypatch):
    """The first pictures of scripted play and of the policy's are those of the seeds."""
    mixed = MixedBatch(["frozen_lake"], 64)
    settings = Evaluation(episodes=6, seed=9)
    env = mixed.batches[0].env
    groups = mixed.start(np.zeros(6, int), np.full(6, env.eval_level), instance_keys(np.arange(6) + 9))
    want = mixed.identities(groups)
    started = []
    start = MixedBatch.start

    def watch(self, *arguments):
        made = start(self, *arguments)
        started.append(self.identities(made))
        return made

    monkeypatch.setattr(MixedBatch, "start", watch)
    held, kept = setup(), []
    monkeypatch.setattr(
        type(held), "evaluator",
        lambda self, params, temperature: JaxGenerator(
            narrow(), params, dataclasses.replace(SHAPES, buckets=(200,), replies=(3,)), temperature
        ),
    )  # fmt: skip
    player = policy_player(held, held.params, 1.0, kept)
    for one in (player, scripted_player("oracle"), scripted_player("random")):
        evaluate(mixed, one, settings, held_out=False, label="")
    assert started == [want] * 3
    (rollouts,) = kept
    assert isinstance(rollouts, Rollouts) and len(rollouts.ret) == 6
    first = rollouts.prompt[[list(rollouts.episode).index(e) for e in range(6)]]
    for p, picture in zip(first, mixed.render(groups)):
        np.testing.assert_array_equal(rollouts.prompts[p].picture, picture)


# ---- normalised return ----


@struct.dataclass
class Coin:
    face: Array  # i32[]


class Guess(Env[Coin]):
    """Chance decides: naming the face earns 0.9, the other 0.3, "quit" nothing."""

    id = "guess_of_the_tests"
    category, source = "tests", ("tests",)
    horizon = 2
    question, rules = "Which face?", "It ends at once."
    answer = Choice(("heads", "tails", "quit"))
    solvable = False
    min_resolution = (8,)

    def reset(self, key, scale):
        return Coin(jax.random.randint(key, (), 0, 2, jnp.int32))

    def step(self, key, state, action):
        right = action[0] == state.face
        return state, outcome(jnp.where(right, 0.9, jnp.where(action[0] == 2, 0.0, 0.3)), True)

    def solve(self, state):
        return state.face[None]

    def render(self, state):
        return jnp.full((self.resolution, self.resolution, 3), 99, jnp.uint8)

    def text_obs(self, state):
        return text.num(state.face, 1)

    text_state = text_hint = text_obs


def test_chance_is_anchored_at_random_play_and_the_oracle():
    env = Guess()
    env.resolution = 64
    mixed = MixedBatch([env])
    settings = Evaluation(episodes=300, seed=3)
    low, high = (module.anchor(mixed, 0, settings, kind) for kind in ("random", "oracle"))
    assert high == pytest.approx(0.9) and low == pytest.approx(0.4, abs=0.06)
    results = {
        kind: evaluate(mixed, scripted_player(kind), settings, False, kind).value[env.id].mean()
        for kind in ("oracle", "random", "idle")
    }
    assert results["oracle"] == pytest.approx(1.0, abs=1e-5) and results["random"] == pytest.approx(
        0.0, abs=0.2
    )
    assert results["idle"] == pytest.approx(-low / (high - low), abs=1e-5)
    assert not np.isclose(results["random"], low)
    # Where the oracle always wins, returns stay as they are.
    returns = np.asarray([0.25, 1.0], np.float32)
    np.testing.assert_array_equal(module.normalise(setup().mixed, 0, settings, returns), returns)


def test_unknown_scripts_are_refused():
    with pytest.raises(ValueError, match="oracle, random or idle"):
        scripted_player("perfect")


def test_results_are_stored_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    held = dataclasses.replace(
        setup(),
        config=dataclasses.replace(
            setup().config, evaluation=Evaluation(episodes=4, ood=("tree_to_traversal",))
        ),
    )
    run = Run(tmp_path, held.config)
    monkeypatch.setattr(module, "policy_player", lambda *a: scripted_player("oracle"))
    first = module.evaluate_policy(held, run, held.params, "base")
    assert list(first.value) == [*ENVS, "tree_to_traversal"] and first.held_out["tree_to_traversal"]
    monkeypatch.setattr(module, "policy_player", lambda *a: pytest.fail("played again"))
    again = module.evaluate_policy(held, run, held.params, "base")
    assert again.as_dict() == first.as_dict()
    run.close()
