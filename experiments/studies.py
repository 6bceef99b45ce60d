"""What the tables and figures about curricula share: one base, sets of environments, budgets, methods."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import scipy.stats
import tyro
from tqdm import tqdm

from agents.cloning import Config as Cloning
from agents.grpo import Config as GRPO
from agents.policy import Shapes
from curriculum.base import Curriculum
from curriculum.dapo import DAPO
from curriculum.harness_only import HarnessOnly
from curriculum.hdc import HDC
from curriculum.none import NoCurriculum
from curriculum.plr import PLR
from curriculum.rlve import RLVE
from curriculum.scale_only import ScaleOnly
from curriculum.vcrl import VCRL
from experiments.configs import Model
from experiments.run import compilation_cache, write
from experiments.store import Artefact, Base, Gradients, Score, Store, Trained, plan, single_turn
from jaxenv.sets import AES30


@dataclass(frozen=True)
class Study:
    """Every method starts from one base and generates the same number of prompts."""

    base: Base
    train: tuple[str, ...]  # ID: selected environments
    held_out: tuple[str, ...]  # OOD: never trained on by GRPO
    hdc: HDC
    grpo: GRPO
    batch: int
    prompts: int  # generated per run: the budget that is matched
    seeds: tuple[int, ...] = (0, 1, 2)
    group_size: int = 16
    episodes: int = 100  # per environment and policy

    def __post_init__(self):
        both = set(self.train) & set(self.held_out)
        if both:
            raise ValueError(f"{sorted(both)} cannot be trained on and held out")

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The paper's columns: ID-ST, ID-MT, OOD-ST, OOD-MT; those without environments are left out."""
        found = {}
        for split, envs in (("ID", self.train), ("OOD", self.held_out)):
            for kind, single in (("ST", True), ("MT", False)):
                chosen = tuple(e for e in envs if single_turn(e) == single)
                if chosen:
                    found[f"{split}-{kind}"] = chosen
        return found

    def curricula(self) -> dict[str, Curriculum]:
        """All methods by name. HDC's settings are those of the study, its single axes share them."""
        shared = {f.name: getattr(self.hdc, f.name) for f in dataclasses.fields(HDC) if f.name != "axes"}
        plain = NoCurriculum(base_scale="uniform")
        return {
            "no curriculum": plain,
            "scale only": ScaleOnly(**shared),
            "harness only": HarnessOnly(**shared),
            "HDC": self.hdc,
            "RLVE": RLVE(),
            "VCRL": VCRL(group_size=self.group_size),
            "PLR": PLR(capacity=256),
            "DAPO": DAPO(inner=plain),
        }

    def trained(self, method: str, seed: int, envs: Sequence[str] | None = None) -> Trained:
        return Trained(
            self.base, tuple(envs or self.train), self.curricula()[method], self.grpo, self.batch, self.prompts,
            self.group_size, seed,
        )  # fmt: skip

    def scores(self, policy: Base | Trained, **changes) -> dict[str, Score]:
        """One score per environment, ID and OOD."""
        return {e: Score(policy, e, episodes=self.episodes, **changes) for e in (*self.train, *self.held_out)}


def nano(**changes) -> Study:
    """About 0.4 M parameters on two CPU cores: four environments to train on, four held out, all of them cloned."""
    train = ("frozen_lake", "door_key", "mini_sudoku", "tictactoe_qa")
    held_out = ("lava_gap", "rush_hour", "math_path", "klo_blocks")
    base = Base(
        envs=(*train, *held_out),
        model=Model(resolution=64),
        shapes=Shapes(buckets=(96, 160, 256), replies=(8, 24)),
        cloning=Cloning(
            steps=1600,
            harness=(0.1, 0.1, 0.1, 0.1, 0.6),
            shares=(0.19, 0.1, 0.32, 0.07, 0.08, 0.08, 0.08, 0.08),
            probe_every=12,
            probe_from=900,
        ),
    )
    return dataclasses.replace(
        Study(
            base, train, held_out, HDC(p_cur=0.8, min_prompts=12, tau_scale=0.5, tau_harness=0.5),
            GRPO(learning_rate=3e-4, advantage="step"), batch=16, prompts=640,
        ),
        **changes,
    )  # fmt: skip


def qwen3_vl_4b(**changes) -> Study:
    """The paper's setting: Qwen3-VL-4B-Instruct from a local checkpoint, 30 environments, 256 prompts each."""
    held_out = ("addition_table", "rectangle_count", "rotate_matrix", "spiral_matrix", "tictactoe_qa")
    base = Base(
        envs=AES30,
        model=Model(path=Path("checkpoints/Qwen3-VL-4B-Instruct"), resolution=256),
        shapes=Shapes(buckets=(512, 1024, 2048), replies=(512, 2048)),
        cloning=Cloning(steps=0),
    )
    return dataclasses.replace(
        Study(
            base, AES30, held_out, HDC(), GRPO(learning_rate=1e-6, advantage="step"), batch=32,
            prompts=256 * len(AES30),
        ),
        **changes,
    )  # fmt: skip


def tiny(**changes) -> Study:
    """Seconds, for tests: everything runs, nothing is learnt."""
    train, held_out = ("frozen_lake", "tictactoe_qa"), ("lava_gap", "rotate_matrix")
    base = Base(
        envs=(*train, *held_out),
        model=Model("tiny", resolution=64),
        shapes=Shapes(buckets=(256,), replies=(8,), rows=4, samples=4),
        cloning=Cloning(steps=16, rows=4),
    )
    return dataclasses.replace(
        Study(
            base, train, held_out, HDC(min_prompts=1, tau_scale=0.0, tau_harness=0.0), GRPO(advantage="step"),
            batch=2, prompts=4, seeds=(0, 1), group_size=4, episodes=4,
        ),
        **changes,
    )  # fmt: skip


PRESETS = {"nano": nano, "qwen3-vl-4b": qwen3_vl_4b, "tiny": tiny}
PresetName = Literal["nano", "qwen3-vl-4b", "tiny"]


# ---- numbers ----


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean over seeds and half width of its 95% interval (Student's t); nan for one seed."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return float(values.mean()), math.nan
    t = scipy.stats.t.ppf(0.975, len(values) - 1)
    return float(values.mean()), float(t * values.std(ddof=1) / math.sqrt(len(values)))


def column_means(store: Store, study: Study, policy: Base | Trained, **changes) -> dict[str, float]:
    """Mean value per column of the paper: success of single-turn, normalised return of multi-turn environments."""
    scores = study.scores(policy, **changes)
    return {
        column: float(np.mean([store.episodes(scores[e]).value.mean() for e in envs]))
        for column, envs in study.columns.items()
    }


def cell(mean: float, half: float) -> str:
    """A share in percent with its half width, where there is one."""
    return f"{100 * mean:.1f}" if math.isnan(half) else f"{100 * mean:.1f} ± {100 * half:.1f}"


# ---- output ----


@dataclass(frozen=True)
class Table:
    """Rows of text under heads; written as Markdown and CSV."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: str = ""

    def markdown(self) -> str:
        lines = ["| " + " | ".join(row) + " |" for row in (self.heads, ["---"] * len(self.heads), *self.rows)]
        return f"{self.title}\n\n" + "\n".join(lines) + (f"\n\n{self.notes}" if self.notes else "") + "\n"

    def save(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / f"{name}.md", self.markdown())
        quoted = [[f'"{c}"' if "," in c else c for c in row] for row in (self.heads, *self.rows)]
        write(folder / f"{name}.csv", "\n".join(",".join(row) for row in quoted) + "\n")


def beside(ours: str, paper: float | None) -> str:
    """A cell with the paper's number in parentheses, where it has one."""
    return ours if paper is None else f"{ours} ({paper:.1f})"


# ---- running ----


class Result(Protocol):
    """A module that makes one table or figure."""

    def needs(self, study: Study) -> list[Artefact]:
        """Everything in the store that it reads."""

    def save(self, store: Store, study: Study, folder: Path) -> str:
        """Writes it as Markdown, CSV and PNG, from a store that has all it needs; gives the Markdown."""


# Seconds a unit, where the store has nothing of the kind to go by.
GUESS = {Base: 420.0, Trained: 0.5, Score: 8.0, Gradients: 60.0}
LABELS = {
    Base: "base policies",
    Trained: "training runs",
    Score: "evaluations",
    Gradients: "sets of gradients",
}


def units(artefact: Artefact) -> int:
    """What its time grows with: prompts of a training run, environments of gradients."""
    if isinstance(artefact, Trained):
        return artefact.prompts
    return len(artefact.envs) if isinstance(artefact, Gradients) else 1


def expected_seconds(store: Store, wanted: Sequence[Artefact]) -> dict[Artefact, float]:
    """For every missing artefact: what the store took for its kind, in the mean over units."""
    mean = {}
    for kind, guess in GUESS.items():
        known = [a for a in wanted if type(a) is kind and store.has(a)]
        total = sum(units(a) for a in known)
        mean[kind] = sum(store.seconds(a) for a in known) / total if known else guess
    return {a: mean[type(a)] * units(a) for a in wanted if not store.has(a)}


def describe_plan(store: Store, results: Mapping[str, Sequence[Artefact]]) -> str:
    """What the results need, what they share, what is missing, and about how long that takes."""
    wanted = plan(a for needed in results.values() for a in needed)
    missing = expected_seconds(store, wanted)
    uses = Counter(a for needed in results.values() for a in set(plan(needed)))
    lines = []
    for kind, label in LABELS.items():
        mine = [a for a in wanted if type(a) is kind]
        if kind is Gradients and not mine:
            continue
        shared, todo = sum(uses[a] > 1 for a in mine), sum(a in missing for a in mine)
        lines.append(f"{len(mine)} {label}, {shared} of them shared between results; {todo} missing")
    return "\n".join([*lines, f"about {sum(missing.values()) / 60:.0f} minutes to run"])


def produce(
    results: Mapping[str, Result],
    preset: PresetName = "nano",
    runs: Path = Path("runs"),
    plan_only: bool = False,
) -> None:
    """Make what is missing in the store, then write the results.

    Args:
        preset: which study.
        runs: holds the store and one folder of results per preset.
        plan_only: print what would be run, and stop.
    """
    carry_out(results, PRESETS[preset](), Store(runs / "store"), runs / "results" / preset, plan_only)


def carry_out(results: Mapping[str, Result], study: Any, store: Store, folder: Path, plan_only: bool) -> None:
    """Say what the results of a study need, make what is missing, write the results into `folder`."""
    needed = {name: result.needs(study) for name, result in results.items()}
    print(describe_plan(store, needed))
    if plan_only:
        return
    compilation_cache()
    wanted = plan(a for artefacts in needed.values() for a in artefacts)
    missing = expected_seconds(store, wanted)
    with tqdm(total=round(sum(missing.values())), desc=folder.name, unit="s", unit_scale=True) as bar:
        for artefact, seconds in missing.items():
            bar.set_postfix_str(type(artefact).__name__.lower())
            store.make(artefact)
            bar.update(round(seconds))
    for result in results.values():
        print(f"\n{result.save(store, study, folder)}", flush=True)


def command(**results: Result) -> None:
    """The command line of one or several results."""
    said = "\n\n".join(dict.fromkeys(result.__doc__ or "" for result in results.values()))
    tyro.cli(partial(produce, results), description=said)
