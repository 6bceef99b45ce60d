"""Compare curricula on a simulated learner, in minutes on a CPU: `python -m experiments.simulate_curricula`.

Prints Markdown tables: all curricula at equal generated and at equal trained prompts; how the comparison depends on how
far skill carries over between harnesses; HDC's settings; how fast HDC itself is. What is put into the learner and what
a table can therefore show is in `curriculum/simulate.py`.
"""

import dataclasses
import math
import time
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from curriculum.accel import ACCEL
from curriculum.adcl import ADCL
from curriculum.base import Curriculum
from curriculum.dapo import DAPO
from curriculum.harness_only import HarnessOnly
from curriculum.hdc import HDC
from curriculum.none import NoCurriculum
from curriculum.plr import PLR
from curriculum.plr_robust import RobustPLR
from curriculum.rlve import RLVE
from curriculum.scale_only import ScaleOnly
from curriculum.simulate import Learner, Match, Outcome, run
from curriculum.vcrl import VCRL
from experiments.report import Z95

Table = Literal["compare", "transfer", "settings", "speed"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Of all tables; the defaults are the paper's budget."""

    prompts: int = 7680  # per run
    envs: int = 30
    batch: int = 32  # prompts per update; the paper does not give it
    group_size: int = 16
    seeds: int = 16  # each draws its own environments and rollouts
    learner: Learner = Learner()

    def __post_init__(self):
        for name in ("prompts", "envs", "batch", "group_size", "seeds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def targets(self) -> np.ndarray:
        """i32[E] as in Table 8: one environment in ten without scale, the others with a target of 2, 3 or 4."""
        return np.asarray([0 if e % 10 == 0 else 2 + e % 3 for e in range(self.envs)], np.int32)


def curricula(envs: int) -> dict[str, Curriculum]:
    """All of the package, with their defaults."""
    return {
        "none, target": NoCurriculum(base_scale="target"),
        "none, uniform": NoCurriculum(base_scale="uniform"),
        "scale only": ScaleOnly(),
        "harness only": HarnessOnly(),
        "HDC": HDC(),
        "HDC, lower bound": HDC(promote_on="lower"),
        "RLVE": RLVE(),
        "VCRL": VCRL(),
        "DAPO around none, uniform": DAPO(inner=NoCurriculum(base_scale="uniform")),
        "DAPO around HDC": DAPO(inner=HDC()),
        "PLR": PLR(),
        "robust PLR": RobustPLR(),
        "ACCEL, all editable": ACCEL(editable=tuple(range(envs))),
        "ADCL": ADCL(),
    }


def simulate(config: Curriculum, settings: Settings, match: Match = "prompts") -> Outcome:
    """All seeds of one curriculum: an `Outcome` of arrays with one entry per seed."""
    # A run matched by trained prompts may generate up to four times as many; some then never reach the budget.
    updates = math.ceil(settings.prompts / settings.batch) * (4 if match == "trained" else 1)
    once = partial(
        run,
        config=config,
        updates=updates,
        batch=settings.batch,
        group_size=settings.group_size,
        budget=settings.prompts,
        match=match,
    )
    keys = jax.random.split(jax.random.key(0), settings.seeds)
    start, targets = config.init(settings.targets), jnp.asarray(settings.targets)
    return jax.device_get(jax.vmap(once, (0, None, None, None))(keys, start, targets, settings.learner))


def percent(values: np.ndarray) -> str:
    """Mean over seeds with the half width of its 95% interval."""
    width = Z95 * values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{100 * values.mean():.1f} ± {100 * width:.1f}"


def cells(out: Outcome) -> list[str]:
    """A row of `HEAD`."""
    climbs = out.promotions.sum() > 0
    return [
        percent(out.reached) if out.moved.any() else "-",
        percent(out.mastered) if climbs else "-",
        percent(out.after),
        f"{100 * out.live.mean():.0f}",
        f"{out.prompts.mean():.0f}",
        f"{out.trained.mean():.0f}",
        f"{100 * out.early.sum() / out.promotions.sum():.0f}" if climbs else "-",
    ]


HEAD = [
    "reach H4",
    "mastered",
    "success at H4, target",
    "live groups",
    "generated",
    "trained",
    "climbs without mastery",
]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def compare(settings: Settings, match: Match) -> str:
    """Every curriculum, at equal generated or equal trained prompts."""
    rows, before = [], None
    for name, config in curricula(settings.envs).items():
        out = simulate(config, settings, match)
        before = out.before
        rows.append([name, *cells(out)])
    rows.insert(0, ["before training", "-", "-", percent(before), "-", "0", "0", "-"])
    return markdown(["curriculum", *HEAD], rows)


def transfer(settings: Settings) -> str:
    """Success at H4 and the target, depending on how far skill carries over between harness levels."""
    chosen = {
        "none, uniform": NoCurriculum(base_scale="uniform"),
        "scale only": ScaleOnly(),
        "harness only": HarnessOnly(),
        "HDC": HDC(),
        "HDC, lower bound": HDC(promote_on="lower"),
    }
    rows = []
    for share in (0.0, 0.3, 0.5, 0.7, 0.9, 1.0):
        learner = dataclasses.replace(settings.learner, transfer=share)
        moved = dataclasses.replace(settings, learner=learner)
        rows.append([f"{share:g}", *(percent(simulate(config, moved).after) for config in chosen.values())])
    return markdown(["transfer", *chosen], rows)


def variants() -> dict[str, HDC]:
    """HDC with one setting changed at a time, and a few combinations."""
    out = {"default": HDC()}
    for tau in (0.5, 0.6, 0.9):
        out[f"tau {tau:g}"] = HDC(tau_scale=tau, tau_harness=tau)
    for window in (0, 3, 100):
        out[f"window {window}"] = HDC(window=window)
    for prompts in (1, 2, 8, 12, 16):
        out[f"min_prompts {prompts}"] = HDC(min_prompts=prompts)
    for p_cur in (0.5, 0.9, 1.0):
        out[f"p_cur {p_cur:g}"] = HDC(p_cur=p_cur)
    out["count any_harness"] = HDC(count="any_harness")
    out["reset_to lower"] = HDC(reset_to="lower")
    out["RLVE's: window 3, tau 0.9, min_prompts 8, >="] = HDC(
        window=3, tau_scale=0.9, tau_harness=0.9, min_prompts=8, compare=">="
    )
    for confidence in (0.7, 0.8, 0.9):
        out[f"lower bound, confidence {confidence:g}"] = HDC(promote_on="lower", confidence=confidence)
    out["lower bound, confidence 0.9, patience 1, min_prompts 12"] = HDC(
        promote_on="lower", patience=1, min_prompts=12
    )
    out["lower bound, confidence 0.8, tau 0.5"] = HDC(
        promote_on="lower", confidence=0.8, tau_scale=0.5, tau_harness=0.5
    )
    return out


def sweep(settings: Settings) -> str:
    """HDC's settings at equal generated prompts, and the batch size."""
    rows = [[name, *cells(simulate(config, settings))] for name, config in variants().items()]
    for batch in (8, 128):
        rows.append([f"batch {batch}", *cells(simulate(HDC(), dataclasses.replace(settings, batch=batch)))])
    return markdown(["HDC with", *HEAD], rows)


@partial(jax.jit, static_argnames=("config", "batch", "steps"))
def drive(key: jax.Array, state, config: Curriculum, batch: int, steps: int):
    """The state after `steps` of sample and update, with made-up success of 9/16 to 16/16."""

    def step(state, key):
        request = config.sample(key, state, batch)
        success = (request.seed % 8 + 9).astype(jnp.float32) / 16
        return config.update(state, request, success, success)[0], None

    return jax.lax.scan(step, state, jax.random.split(key, steps))[0]


def speed(steps: int = 100_000, envs: int = 200, batch: int = 32) -> str:
    """Process time of `sample` + `update` of HDC, without compilation."""
    config = HDC()
    state = config.init(np.full(envs, 3, np.int32))
    run = drive.lower(jax.random.key(0), state, config, batch, steps).compile()
    wall, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(run(jax.random.key(0), state))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return (
        f"{steps:,} steps of sample + update, {envs} environments, {batch} prompts each: "
        f"{cpu:.1f} s of CPU time, {wall:.1f} s of wall time"
    )


def main(
    tables: tuple[Table, ...] = ("compare", "transfer", "settings", "speed"), settings: Settings = Settings()
) -> None:
    """Print tables.

    Args:
        tables: which ones.
        settings: of the simulation.
    """
    makers = {
        "compare": (
            ("All curricula, equal generated prompts", lambda: compare(settings, "prompts")),
            ("All curricula, equal trained prompts", lambda: compare(settings, "trained")),
        ),
        "transfer": (("Success at H4 and the target, by transfer", lambda: transfer(settings)),),
        "settings": (("HDC's settings", lambda: sweep(settings)),),
        "speed": (("Speed", speed),),
    }
    print(f"Percentages are means over {settings.seeds} seeds, ± the half width of their 95% interval.")
    for table in tables:
        for title, make in makers[table]:
            print(f"\n{title}\n\n{make()}", flush=True)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
