"""Policies and evaluations addressed by what they are: a table asks for them by config, what is missing is made.

`store.get(Score(...))` gives the stored episodes, or trains the policy first, which clones its base first. Every
artefact has its own folder, named by a hash of its config and of `VERSION`; a killed run is continued.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import jaxenv
from aes import conflict
from aes.formats import made
from agents.cloning import Config as Cloning
from agents.grpo import Config as GRPO
from agents.policy import Params, Shapes
from experiments.configs import AnyCurriculum, Evaluation, Experiment, Model, as_dict
from experiments.evaluate import evaluate, policy_player
from experiments.run import Run, write
from experiments.setup import Setup, build, load_params
from experiments.train import clone, reinforce
from jaxenv import MixedBatch

VERSION = 1  # of the code: raise it when a change changes results
HELD = 2  # policies in memory at a time: one that is trained, and its base; a large one fills a machine


@dataclass(frozen=True)
class Base:
    """A policy before any reinforcement: cloned from oracles, or a checkpoint as it is (`cloning.steps` 0)."""

    envs: tuple[str, ...]
    model: Model
    shapes: Shapes
    cloning: Cloning
    seed: int = 0

    @property
    def experiment(self) -> Experiment:
        return Experiment(
            envs=self.envs, model=self.model, shapes=self.shapes, cloning=self.cloning, seed=self.seed
        )


@dataclass(frozen=True)
class Trained:
    """A policy trained by GRPO from a base."""

    base: Base
    envs: tuple[str, ...]
    curriculum: AnyCurriculum
    grpo: GRPO
    batch: int
    prompts: int
    group_size: int = 16
    seed: int = 0

    @property
    def experiment(self) -> Experiment:
        return Experiment(
            envs=self.envs, model=self.base.model, shapes=self.base.shapes, curriculum=self.curriculum, grpo=self.grpo,
            batch=self.batch, prompts=self.prompts, group_size=self.group_size, seed=self.seed,
        )  # fmt: skip


Policy = Base | Trained


@dataclass(frozen=True)
class Score:
    """One policy's episodes in one environment, at its eval level, with the harness parts that are `shown`."""

    policy: Policy
    env: str
    shown: tuple[bool, bool, bool, bool] = (False,) * 4  # text_obs, text_state, hint, rule; none is H4
    episodes: int = 100
    first: int = 1_000_000  # seed of the first instance: training draws its seeds at random from 2**32
    temperature: float = 1.0


@dataclass(frozen=True)
class Gradients:
    """GRPO gradients of one policy in environments, sketched, at the resolution and in the modality of its model."""

    policy: Policy
    envs: tuple[str, ...]
    settings: conflict.Settings

    def __post_init__(self):
        model = self.policy.experiment.model
        mine = (self.settings.resolution, self.settings.modality)
        if mine != (model.resolution, model.modality):
            raise ValueError(f"gradients at {mine} of a policy at {(model.resolution, model.modality)}")


Artefact = Base | Trained | Score | Gradients


class Episodes(NamedTuple):
    """What a score is made of, per episode in the order of instances."""

    success: np.ndarray  # bool[N]
    value: np.ndarray  # f32[N] success (single-turn) or normalised return (multi-turn)


def needs(artefact: Artefact) -> Iterator[Artefact]:
    """The artefact and all it is made from, what comes first first."""
    if isinstance(artefact, Score | Gradients):
        yield from needs(artefact.policy)
    elif isinstance(artefact, Trained):
        yield from needs(artefact.base)
    yield artefact


def plan(artefacts: Iterable[Artefact]) -> list[Artefact]:
    """All that is needed, each once, in an order in which it can be made."""
    found = dict.fromkeys(part for artefact in artefacts for part in needs(artefact))
    rank = {Base: 0, Trained: 1, Score: 2, Gradients: 3}
    return sorted(found, key=lambda a: rank[type(a)])


@cache
def name(artefact: Artefact) -> str:
    """`kind/hash`: equal for equal configs, under the same code version and JAX release."""
    release = ".".join(jax.__version__.split(".")[:2])
    text = json.dumps([VERSION, release, as_dict(artefact)], sort_keys=True)
    return f"{type(artefact).__name__.lower()}/{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class Store:
    """Artefacts under one folder."""

    def __init__(self, root: Path):
        self.root = Path(root)
        self._setups: dict[Experiment, Setup] = {}

    def path(self, artefact: Artefact) -> Path:
        return self.root / name(artefact)

    def has(self, artefact: Artefact) -> bool:
        return (self.path(artefact) / "done.json").exists()

    def seconds(self, artefact: Artefact) -> float:
        """How long it took to make, of one that exists; a run that was continued counts from its last start."""
        return json.loads((self.path(artefact) / "done.json").read_text())["seconds"]

    def make(self, artefact: Artefact) -> None:
        """See to it that it exists, and before it all it needs."""
        for part in needs(artefact):
            if self.has(part):
                continue
            began = time.perf_counter()
            if isinstance(part, Score):
                self._play(part)
            elif isinstance(part, Gradients):
                self._differentiate(part)
            else:
                self._train(part)
            write(self.path(part) / "done.json", json.dumps({"seconds": time.perf_counter() - began}))

    def params(self, policy: Policy) -> Params:
        """The parameters of a policy, made if missing."""
        self.make(policy)
        setup = self.setup(policy.experiment)
        if isinstance(policy, Base) and not policy.cloning.steps:
            return setup.params
        stage = "clone" if isinstance(policy, Base) else "train"
        return load_params(setup, self.path(policy) / "checkpoints" / stage)

    def episodes(self, score: Score) -> Episodes:
        """The episodes of a score, made if missing."""
        self.make(score)
        stored = np.load(self.path(score) / "episodes.npz")
        return Episodes(stored["success"], stored["value"])

    def cosines(self, gradients: Gradients) -> conflict.Conflict:
        """What gradients say about the environments, in their order; made if missing."""
        self.make(gradients)
        files = [self.path(gradients) / "gradients" / f"{e}.npz" for e in gradients.envs]
        return conflict.conflict(np.stack([np.load(f)["sketch"] for f in files]), gradients.settings.needed)

    def run(self, policy: Policy) -> Run:
        """The run folder of a policy, to read its curves."""
        return Run(self.path(policy), policy.experiment, resume=True)

    def setup(self, experiment: Experiment) -> Setup:
        found = self._setups.pop(experiment, None)
        if found is None:
            while len(self._setups) >= HELD:
                del self._setups[next(iter(self._setups))]  # asked for longest ago
            found = build(experiment)
        self._setups[experiment] = found
        return found

    def _train(self, policy: Policy) -> None:
        setup, run = self.setup(policy.experiment), self.run(policy)
        try:
            if isinstance(policy, Trained):
                reinforce(setup, run, self.params(policy.base))
            elif policy.cloning.steps:
                clone(setup, run)
        finally:
            run.close()

    def _play(self, score: Score) -> None:
        setup = self.setup(score.policy.experiment)
        model = setup.config.model
        player = policy_player(setup, self.params(score.policy), score.temperature, shown=score.shown)
        settings = Evaluation(score.episodes, score.first, score.temperature)
        mixed = MixedBatch([score.env], model.resolution, model.modality)
        scores = evaluate(mixed, player, settings, held_out=False, label=score.env)
        self.path(score).mkdir(parents=True, exist_ok=True)
        write(self.path(score) / "config.json", json.dumps(as_dict(score), indent=1))
        np.savez(
            self.path(score) / "episodes.npz",
            success=scores.success[score.env].astype(bool),
            value=scores.value[score.env],
        )

    def _differentiate(self, gradients: Gradients) -> None:
        policy, settings = gradients.policy, gradients.settings
        setup, params = self.setup(policy.experiment), self.params(policy)
        head = made("conflict", as_dict(gradients))
        conflict.compute(
            self.path(gradients), gradients.envs, setup.policy, params, setup.writer, setup.config.shapes, settings,
            head=head, progress=True,
        )  # fmt: skip


def single_turn(env_id: str) -> bool:
    """Whether an environment's score is a success rate (ST) or a return (MT)."""
    return jaxenv.make(env_id, 1024).horizon == 1
