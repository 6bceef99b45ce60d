"""From a config to the objects that a run works with."""

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from agents import hf, policy, qwen3vl
from agents.checkpoint import Checkpoints
from agents.policy import Generator, JaxGenerator, Params, Policy
from agents.prompts import PromptWriter, image_tokens
from agents.serving.fleet import Fleet, open_fleet, served
from agents.tokenizer import Tokenizer
from curriculum.accel import ACCEL
from curriculum.base import Curriculum
from experiments.configs import Experiment
from jaxenv import MixedBatch


@dataclass(frozen=True)
class Setup:
    """Environments, tokeniser and policy of one experiment."""

    config: Experiment
    mixed: MixedBatch  # the training environments, in the order of config.envs
    writer: PromptWriter
    policy: Policy
    params: Params  # where training starts
    targets: np.ndarray  # i32[E]: hardest level of the curriculum, each environment's eval_level
    fleet: Fleet | None = None  # the servers of `generator="vllm"`, within `serving`

    @property
    def curriculum(self) -> Curriculum:
        """The config's curriculum; ACCEL is told which environments can be edited."""
        curriculum = self.config.curriculum
        if isinstance(curriculum, ACCEL) and curriculum.editable is None:
            editable = tuple(i for i, b in enumerate(self.mixed.batches) if b.env.editable)
            return dataclasses.replace(curriculum, editable=editable)
        return curriculum

    def generator(self, params: Params) -> Generator:
        """The generator for training: in this process, or servers that hold these parameters when this returns."""
        if self.config.generator == "vllm":
            return self._served(params, self.config.grpo.temperature)
        return JaxGenerator(self.policy, params, self.config.shapes, self.config.grpo.temperature)

    def evaluator(self, params: Params, temperature: float) -> Generator:
        """The generator for evaluation, where every instance is played once: more prompts, fewer replies a batch."""
        shapes = self.config.shapes
        if self.config.generator == "vllm":
            return self._served(params, temperature)
        wide = dataclasses.replace(
            shapes, rows=shapes.rows * max(1, shapes.samples // 2), samples=min(2, shapes.samples)
        )
        return JaxGenerator(self.policy, params, wide, temperature)

    def _served(self, params: Params, temperature: float) -> Generator:
        if self.fleet is None:
            raise RuntimeError("generator 'vllm' needs its servers: work within `experiments.setup.serving`")
        return served(self.fleet, params, self.config.shapes.replies[-1], temperature)


@contextlib.contextmanager
def serving(setup: Setup, folder: Path) -> Iterator[Setup]:
    """The setup with the servers that its config asks for, whose files are in `folder`; stopped at the end."""
    config = setup.config
    if config.generator == "jax":
        yield setup
        return
    fleet = open_fleet(config.serving, setup.policy, folder, config.model.resolution, config.model.path)
    try:
        yield dataclasses.replace(setup, fleet=fleet)
    finally:
        fleet.close()


def build(config: Experiment) -> Setup:
    mixed = MixedBatch(config.envs, config.model.resolution, config.model.modality)
    key = jax.random.fold_in(jax.random.key(config.seed), 0)
    if config.model.path is not None:
        tokenizer = Tokenizer(config.model.path / "tokenizer.json")
        model_config, model = hf.load_pretrained(config.model.path)
        held, params = policy.hold(model_config, model, _unused(tokenizer))
    else:
        tokenizer = Tokenizer()
        held, params = policy.create(fresh(config, tokenizer), key, _unused(tokenizer))
    vision = held.config.vision
    per_picture = image_tokens(config.model.resolution, vision.patch, vision.merge)
    targets = np.asarray([b.env.eval_level for b in mixed.batches], np.int32)
    return Setup(config, mixed, PromptWriter(tokenizer, per_picture), held, params, targets)


def load_params(setup: Setup, folder: Path) -> Params:
    """The parameters in a run's newest checkpoint. Raises FileNotFoundError if the folder holds none."""
    if not folder.is_dir():
        raise FileNotFoundError(f"no checkpoints in {folder}")
    checkpoints = Checkpoints(folder)
    try:
        return checkpoints.restore({"params": setup.params}, part=True)["params"]
    finally:
        checkpoints.close()


def fresh(config: Experiment, tokenizer: Tokenizer) -> qwen3vl.Config:
    """A small Qwen3-VL over the shipped vocabulary: 8-pixel patches, one token each, so that patches match cells."""
    ids = {
        "image_token": tokenizer.id("<|image_pad|>"),
        "vision_start": tokenizer.id("<|vision_start|>"),
        "vision_end": tokenizer.id("<|vision_end|>"),
        "pad": tokenizer.pad,
        "eos": tokenizer.eos,
    }
    model = qwen3vl.nano(tokenizer.vocab, positions=image_tokens(config.model.resolution, 8, 1), **ids)
    if config.model.size == "tiny":
        text = dataclasses.replace(
            model.text, hidden=16, mlp=32, layers=2, heads=1, head_dim=8, mrope_section=(2, 1, 1)
        )
        vision = dataclasses.replace(model.vision, depth=1, hidden=16, mlp=32, heads=1)
        model = dataclasses.replace(model, text=text, vision=vision)
    return model


def _unused(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Special tokens that no reply needs."""
    return (tokenizer.id("<|im_start|>"), tokenizer.pad)
