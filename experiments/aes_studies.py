"""What the tables and figures about environment sets share: bases, the pool and what was selected from it, budgets.

Sets come from a folder of AES (docs/aes.md): the pool is every environment that has a profile there and is not held
out, selections are its `selections/*.json`. So everything here works for any pool.
"""

import dataclasses
import datetime
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tyro

from aes import pool as surface
from aes.baselines import random_k
from aes.conflict import Settings as Conflict
from aes.formats import FormatError, Profiles, Selection
from agents.cloning import Config as Cloning
from agents.grpo import Config as GRPO
from agents.policy import Shapes
from curriculum.base import Curriculum
from curriculum.hdc import HDC
from curriculum.none import NoCurriculum
from experiments.configs import Model
from experiments.store import Base, Gradients, Score, Store, Trained, single_turn
from experiments.studies import PresetName, Result, carry_out, interval
from jaxenv import sets
from jaxenv.harness import Modality

PICTURE, SYMBOLIC = "picture", "symbolic"
GRADIENT_SEED = 3_000_000  # of the first instance gradients are taken on: neither trained nor evaluated on


@dataclass(frozen=True)
class Study:
    """All runs start from one base per set of environments and modality, and generate equally many prompts."""

    base: Base  # of runs on the pool
    six: Mapping[Modality, Base]  # of runs on `mixed`, in either modality
    mixed: tuple[str, ...]  # environments of the transfer matrices, all single-turn
    held_out: tuple[str, ...]  # OOD: GRPO never trains on them
    hdc: HDC
    grpo: GRPO
    batch: int
    prompts: int  # generated per run: the fixed budget
    each: int  # prompts per environment, where the budget grows with the set
    sizes: tuple[int, ...]  # of nested sets; the pool itself is the last
    gradients: Conflict  # of one seed and modality
    seeds: tuple[int, ...] = (0, 1, 2)
    group_size: int = 16
    episodes: int = 100  # per environment and policy
    folder: Path = Path("runs/aes")  # of AES
    made: str = ""  # when and by which command: stands under every table

    def __post_init__(self):
        both = sorted(set(self.mixed) & set(self.held_out))
        if both:
            raise ValueError(f"{', '.join(both)} cannot be trained on and held out")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds must be distinct and not empty, got {self.seeds}")
        interactive = [e for e in self.mixed if not single_turn(e)]
        if interactive:
            raise ValueError(f"transfer matrices hold accuracies; {', '.join(interactive)} is multi-turn")
        for name in ("prompts", "each"):
            if getattr(self, name) < self.batch:
                raise ValueError(f"{name} ({getattr(self, name)}) must be at least one batch ({self.batch})")
        drawable("the held-out environments", self.held_out, self.resolution)

    @property
    def resolution(self) -> int:
        return self.base.model.resolution

    # ---- sets ----

    def pool(self) -> tuple[str, ...]:
        """All environments to train on, in alphabetical order.

        Raises:
            FormatError: no profiles, or none but of held-out environments.
            ValueError: environments that cannot be drawn at the study's resolution.
        """
        file = self.folder / "profiles.json"
        envs = tuple(sorted(set(Profiles.load(file).envs) - set(self.held_out)))
        if not envs:
            raise FormatError(f"{file} has only environments that are held out")
        return drawable(f"the pool of {file}", envs, self.resolution)

    def selection(self, name: str) -> tuple[str, ...]:
        """The environments of `selections/NAME.json`, in alphabetical order: a run is of a set, whoever chose it.

        Raises:
            FormatError: no such selection, or one that holds what is held out or not in the pool.
            ValueError: environments that cannot be drawn at the study's resolution.
        """
        file = self.folder / "selections" / f"{name}.json"
        stage = "select" if name.startswith("aes") else "baselines"
        again = f"python -m aes.{stage} {self.folder}" + (" --ablations" if stage == "select" else "")
        again += f" --exclude {' '.join(self.held_out)}"
        if not file.is_file():
            raise FormatError(f"{file} does not exist: `{again}` writes it")
        envs = Selection.load(file).envs
        seen = sorted(set(envs) & set(self.held_out))
        if seen:
            raise FormatError(f"{file} selects {', '.join(seen)}, held out here: `{again}` selects without")
        strange = sorted(set(envs) - set(Profiles.load(self.folder / "profiles.json").envs))
        if strange or not envs:
            raise FormatError(f"{file} selects {', '.join(strange) or 'nothing'}: `{again}` selects anew")
        return drawable(str(file), tuple(sorted(envs)), self.resolution)

    def nested(self, seed: int) -> dict[int, tuple[str, ...]]:
        """Sets of growing size, evenly over the categories; each holds the smaller ones, the last is the pool."""
        envs = self.pool()
        order = [p.env for p in random_k(surface.categories(envs), len(envs), seed)]
        sizes = [s for s in self.sizes if s < len(envs)]
        return {s: tuple(sorted(order[:s])) for s in (*sizes, len(envs))}

    # ---- artefacts ----

    def trained(
        self,
        envs: Sequence[str],
        seed: int,
        hdc: bool = False,
        prompts: int | None = None,
        base: Base | None = None,
    ) -> Trained:
        curriculum: Curriculum = self.hdc if hdc else NoCurriculum(base_scale="uniform")
        return Trained(
            base or self.base, tuple(envs), curriculum, self.grpo, self.batch, prompts or self.prompts,
            self.group_size, seed,
        )  # fmt: skip

    def scores(self, policy: Base | Trained, envs: Sequence[str]) -> dict[str, Score]:
        return {e: Score(policy, e, episodes=self.episodes) for e in envs}

    def gradients_of(self, modality: Modality, index: int) -> Gradients:
        """Of the base of the transfer matrices; the index-th seed's instances are its own."""
        count = self.gradients.batches * self.gradients.prompts
        settings = dataclasses.replace(
            self.gradients, seed=GRADIENT_SEED + index * count, resolution=self.resolution, modality=modality
        )
        return Gradients(self.six[modality], self.transfer(), settings)

    def transfer(self) -> tuple[str, ...]:
        """The environments of the transfer matrices. Raises ValueError if one cannot be drawn."""
        return drawable("the environments of the transfer matrices", self.mixed, self.resolution)


def drawable(what: str, envs: Sequence[str], resolution: int) -> tuple[str, ...]:
    """`envs` as they are. Raises ValueError: names those that are not legible at so many pixels."""
    need = {e: sets.least_resolution(e) for e in envs}
    small = [f"{e} needs {px}" for e, px in need.items() if px > resolution]
    if small:
        raise ValueError(
            f"{what} cannot all be drawn at {resolution} px: {', '.join(small)}; "
            f"--resolution {max(need.values())} draws all of them"
        )
    return tuple(envs)


# ---- presets ----


def nano(resolution: int = 64) -> Study:
    """About 0.4 M parameters on two CPU cores; the base has seen demonstrations of everything that can be drawn."""
    picture = (resolution // 8) ** 2  # tokens
    lengths = (96, 160, 288, 608)  # of texts: H4 has at most 240 tokens, H0 some 590
    replies = (8, 24, 96)

    def base(envs: Sequence[str], modality: Modality, cloning: Cloning) -> Base:
        tokens = picture if modality == PICTURE else 0
        shapes = Shapes(buckets=tuple(tokens + n for n in lengths), replies=replies)
        return Base(tuple(envs), Model(resolution=resolution, modality=modality), shapes, cloning)

    mostly_bare = (0.1, 0.1, 0.1, 0.1, 0.6)
    wide = Cloning(steps=4000, harness=mostly_bare, probe_every=50, probe_from=1600, probe_episodes=32)
    narrow = Cloning(steps=1600, harness=mostly_bare, probe_every=12, probe_from=800)
    return Study(
        base=base(sets.legible(resolution), PICTURE, wide),
        six={m: base(sets.MIXED6, m, narrow) for m in (PICTURE, SYMBOLIC)},
        mixed=sets.MIXED6,
        held_out=sets.OOD8,
        hdc=HDC(p_cur=0.8, min_prompts=12, tau_scale=0.5, tau_harness=0.5),
        grpo=GRPO(learning_rate=3e-4, advantage="step"),
        batch=16,
        prompts=768,
        each=256,
        sizes=(3, 6, 9, 12, 15),
        gradients=Conflict(advantage="step"),
    )


def qwen3_vl_4b(resolution: int = 256) -> Study:
    """The paper's setting: Qwen3-VL-4B-Instruct from a local checkpoint, 7,680 prompts a run."""

    def base(envs: Sequence[str], modality: Modality) -> Base:
        return Base(
            envs=tuple(envs),
            model=Model(
                path=Path("checkpoints/Qwen3-VL-4B-Instruct"), resolution=resolution, modality=modality
            ),
            shapes=Shapes(buckets=(512, 1024, 2048), replies=(512, 2048)),
            cloning=Cloning(steps=0),
        )

    return Study(
        base=base(sets.legible(resolution), PICTURE),
        six={m: base(sets.MIXED6, m) for m in (PICTURE, SYMBOLIC)},
        mixed=sets.MIXED6,
        held_out=sets.OOD8,
        hdc=HDC(),
        grpo=GRPO(learning_rate=1e-6, advantage="step"),
        batch=32,
        prompts=7680,
        each=256,
        sizes=(20, 40, 60, 80, 100, 120, 140, 160),
        gradients=Conflict(advantage="step", lora=16),
    )


def tiny(resolution: int = 64) -> Study:
    """Seconds, for tests: everything runs, nothing is learnt, not even by the base."""
    mixed = ("rotate_matrix", "tictactoe_qa")

    def base(envs: Sequence[str], modality: Modality) -> Base:
        return Base(
            envs=tuple(envs),
            model=Model("tiny", resolution=resolution, modality=modality),
            shapes=Shapes(buckets=(256,), replies=(8,), rows=4, samples=4),
            cloning=Cloning(steps=0),
        )

    return Study(
        base=base(mixed, PICTURE),
        six={m: base(mixed, m) for m in (PICTURE, SYMBOLIC)},
        mixed=mixed,
        held_out=("spiral_matrix",),
        hdc=HDC(min_prompts=1, tau_scale=0.0, tau_harness=0.0),
        grpo=GRPO(advantage="step"),
        batch=2,
        prompts=2,
        each=2,
        sizes=(1, 2),
        gradients=Conflict(batches=2, prompts=2, rollouts=4, sketch=256, advantage="step"),
        seeds=(0, 1),
        group_size=4,
        episodes=4,
    )


PRESETS = {"nano": nano, "qwen3-vl-4b": qwen3_vl_4b, "tiny": tiny}


# ---- numbers ----


def mean_values(store: Store, scores: Mapping[str, Score]) -> dict[str, float]:
    """ST: mean success of the single-turn environments, MT: mean normalised return of the others, where there are."""
    out = {}
    for kind, single in (("ST", True), ("MT", False)):
        chosen = [s for e, s in scores.items() if single_turn(e) == single]
        if chosen:
            out[kind] = float(np.mean([store.episodes(s).value.mean() for s in chosen]))
    return out


def success(store: Store, scores: Mapping[str, Score]) -> float:
    """Mean success rate over environments."""
    return float(np.mean([store.episodes(s).success.mean() for s in scores.values()]))


def signed(values: Sequence[float]) -> str:
    """A difference with its interval over seeds, where there are several; "-" where one is not defined."""
    mean, half = interval(values)
    if math.isnan(mean):
        return "-"
    return f"{mean:+.1f}" + ("" if math.isnan(half) else f" ± {half:.1f}")


# ---- running ----


def produce(
    results: Mapping[str, Result],
    preset: PresetName = "nano",
    aes: Path = Path("runs/aes"),
    resolution: int | None = None,
    prompts: int | None = None,
    seeds: tuple[int, ...] | None = None,
    held_out: tuple[str, ...] | None = None,
    runs: Path = Path("runs"),
    out: Path | None = None,
    plan_only: bool = False,
) -> None:
    """Make what is missing in the store, then write the results.

    Args:
        preset: which study.
        aes: folder of AES, with profiles.json and selections/.
        resolution: of the pictures in pixels, in place of the preset's.
        prompts: the fixed budget of a run, in place of the preset's.
        seeds: of the runs and of Random-K, in place of the preset's.
        held_out: OOD environments, in place of the preset's.
        runs: holds the store.
        out: where results go; default: results/PRESET in `runs`.
        plan_only: print what would be run, and stop.
    """
    try:
        study = PRESETS[preset](*([] if resolution is None else [resolution]))
        given = {"prompts": prompts, "seeds": seeds, "held_out": held_out}
        changes = {name: value for name, value in given.items() if value is not None}
        study = dataclasses.replace(study, folder=aes, made=made(), **changes)
        for result in results.values():
            result.needs(study)  # reads the selections: what is wrong with them is said before anything runs
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None
    carry_out(results, study, Store(runs / "store"), out or runs / "results" / preset, plan_only)


def made() -> str:
    """Date and command of this process."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = f"python -m {spec.name}" if spec else Path(sys.argv[0]).name
    return f"Made {datetime.date.today()} by `{' '.join([program, *map(shlex.quote, sys.argv[1:])])}`."


def command(**results: Result) -> None:
    """The command line of one or several results."""
    said = "\n\n".join(dict.fromkeys(result.__doc__ or "" for result in results.values()))
    try:
        tyro.cli(partial(produce, results), description=said)
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; run it again to continue") from None
