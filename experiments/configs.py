"""What an experiment is made of: frozen dataclasses, checked when they are built; presets are Python values."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

import jaxenv
from agents.cloning import Config as Cloning
from agents.grpo import Config as GRPO
from agents.policy import Shapes
from agents.serving.fleet import Config as Serving
from curriculum.accel import ACCEL
from curriculum.adcl import ADCL
from curriculum.dapo import DAPO
from curriculum.harness_only import HarnessOnly
from curriculum.hdc import HDC
from curriculum.none import NoCurriculum
from curriculum.plr import PLR
from curriculum.plr_robust import RobustPLR
from curriculum.rlve import RLVE
from curriculum.scale_only import ScaleOnly
from curriculum.vcrl import VCRL
from jaxenv import harness

AnyCurriculum = (
    HDC | ScaleOnly | HarnessOnly | NoCurriculum | RLVE | VCRL | DAPO | PLR | RobustPLR | ACCEL | ADCL
)


@dataclass(frozen=True)
class Model:
    """Which policy, and the pictures it sees."""

    size: Literal["nano", "tiny"] = "nano"  # a fresh model; `tiny` is for tests
    path: Path | None = None  # a directory in the Hugging Face layout instead, with its tokenizer.json
    resolution: int = 64  # of the pictures, in pixels
    modality: harness.Modality = "picture"


@dataclass(frozen=True)
class Evaluation:
    """Always at H4, at each environment's `eval_level`."""

    episodes: int = 512  # per environment
    seed: int = 1_000_000  # of the first instance; the next ones count up
    temperature: float = 1.0  # 0: greedy
    ood: tuple[str, ...] = ()  # environments that are evaluated but never trained on

    def __post_init__(self):
        if self.episodes < 2:
            raise ValueError(f"evaluation.episodes must be at least 2, got {self.episodes}")
        if self.temperature < 0:
            raise ValueError(f"evaluation.temperature must not be negative, got {self.temperature}")


@dataclass(frozen=True)
class Experiment:
    """One training run."""

    envs: tuple[str, ...] = ("frozen_lake",)
    model: Model = Model()
    shapes: Shapes = Shapes(buckets=(96, 160), replies=(8, 24))
    cloning: Cloning = Cloning(steps=0)
    curriculum: AnyCurriculum = HDC()
    grpo: GRPO = GRPO()
    generator: Literal["jax", "vllm"] = (
        "jax"  # what writes replies: this process, or servers that get the weights
    )
    serving: Serving = Serving()  # the servers of `vllm`
    group_size: int = 16  # rollouts per prompt
    batch: int = 8  # prompts per update
    prompts: int = 960  # in all; what they count is `budget`
    budget: Literal["generated", "updates"] = (
        "generated"  # "updates": a batch of prompts each, refills are free
    )
    evaluation: Evaluation = Evaluation()
    seed: int = 0
    checkpoint_every: int = 10  # updates (and as many blocks of cloning steps)
    project: str = "jaxenv"  # of the wandb run

    def __post_init__(self):
        if not self.envs or len(set(self.envs)) != len(self.envs):
            raise ValueError(f"envs must be distinct and not empty, got {self.envs}")
        for env_id in (*self.envs, *self.evaluation.ood):
            jaxenv.make(env_id, self.model.resolution)  # raises for unknown ids and impossible resolutions
        both = set(self.envs) & set(self.evaluation.ood)
        if both:
            raise ValueError(f"{sorted(both)} cannot be trained on and held out")
        for name in ("group_size", "batch", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.cloning.shares and len(self.cloning.shares) != len(self.envs):
            raise ValueError(
                f"cloning.shares has {len(self.cloning.shares)} entries for {len(self.envs)} envs"
            )
        if self.group_size < 2:
            raise ValueError("group_size must be at least 2: a group of one has no advantage")
        assumed = getattr(self.curriculum, "group_size", self.group_size)
        if assumed != self.group_size:
            raise ValueError(
                f"curriculum.group_size ({assumed}) must be the experiment's group_size ({self.group_size})"
            )
        longest = max(self.shapes.buckets) + max(self.shapes.replies)
        if self.generator == "vllm" and self.serving.max_length < longest:
            raise ValueError(f"serving.max_length must hold a prompt and its reply: at least {longest}")
        if self.prompts < self.batch:
            raise ValueError(f"prompts ({self.prompts}) must be at least one batch ({self.batch})")

    @property
    def updates(self) -> int:
        return self.prompts // self.batch


def nano(**changes) -> Experiment:
    """A model of about 0.4 M parameters that starts from cloned oracles and trains on a laptop CPU."""
    return dataclasses.replace(
        Experiment(
            envs=("frozen_lake", "door_key", "mini_sudoku", "tictactoe_qa"),
            model=Model(resolution=56),
            shapes=Shapes(buckets=(88, 148, 220), replies=(8, 24)),
            cloning=Cloning(
                steps=1100,
                harness=(0.1, 0.1, 0.1, 0.1, 0.6),
                shares=(0.28, 0.14, 0.48, 0.1),
                probe_every=12,
                probe_from=700,
            ),
            curriculum=HDC(p_cur=0.8, min_prompts=12, tau_scale=0.5, tau_harness=0.5),
            grpo=GRPO(learning_rate=3e-4, advantage="step"),
            batch=16,
            prompts=880,
        ),
        **changes,
    )


def tiny(**changes) -> Experiment:
    """Seconds, for tests: everything runs, nothing is learnt."""
    return dataclasses.replace(
        Experiment(
            envs=("frozen_lake", "tictactoe_qa"),
            model=Model("tiny"),
            shapes=Shapes(buckets=(160,), replies=(8,), rows=4, samples=4),
            cloning=Cloning(steps=32, rows=8),
            curriculum=HDC(min_prompts=1, tau_scale=0.0, tau_harness=0.0),
            grpo=GRPO(advantage="step"),
            group_size=4,
            batch=2,
            prompts=12,
            evaluation=Evaluation(episodes=8),
            checkpoint_every=2,
        ),
        **changes,
    )


PRESETS = {"nano": nano(), "tiny": tiny()}
DEFAULT = PRESETS["nano"]


# On the command line: `PRESET --flag value`, nested fields as `--grpo.learning-rate`.
Preset = tyro.extras.subcommand_type_from_defaults(PRESETS)
CLI = (tyro.conf.ConsolidateSubcommandArgs, tyro.conf.OmitSubcommandPrefixes)


def as_dict(config) -> dict:
    """A config as plain JSON values, nested configs with the name of their class."""
    if dataclasses.is_dataclass(config):
        fields = {f.name: as_dict(getattr(config, f.name)) for f in dataclasses.fields(config)}
        return {"kind": type(config).__name__, **fields}
    if isinstance(config, tuple):
        return [as_dict(c) for c in config]
    return str(config) if isinstance(config, Path) else config
