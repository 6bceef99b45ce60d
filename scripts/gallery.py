"""One contact sheet per environment: `python scripts/gallery.py --envs frozen_lake` (all without `--envs`).

Rows are the easiest, the evaluated and the hardest level; beside the pictures stands the whole prompt of the
first one, with all helping texts, and the oracle's reply to it.
"""

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent.parent))

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

import jaxenv
from jaxenv import harness

GAP, LINE, COLUMN, TITLE = 12, 13, 640, 28  # pixels: between things, per text line, text column, row title
CHARACTERS = 100  # per line of the text column
DPI = 100


@dataclass(frozen=True)
class Config:
    envs: tuple[str, ...] = ()
    """Environment ids; none means all."""
    out: Path = Path("gallery")
    """Directory of the sheets, <env_id>.png."""
    resolution: int = 256
    """Side of a picture in pixels; more where the hardest level needs it."""
    instances: int = 4
    """Pictures per level."""
    seed: int = 0


def sheet(env: jaxenv.Env, instances: int, seed: int):
    """A matplotlib figure at exactly one screen pixel per picture pixel."""
    batch, side = jaxenv.EnvBatch(env), env.resolution
    rows = []
    for level in sorted({0, env.eval_level, env.num_levels - 1}):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), level), instances)
        episodes = batch.start(keys, jnp.full(instances, level, jnp.int32))
        (prompt, *_), (reply, *_) = (
            batch.prompts(episodes, harness.LEVELS[0]),
            batch.format(batch.solve(episodes)),
        )
        lines = [
            w for line in f"{prompt}\n\n{reply}".split("\n") for w in textwrap.wrap(line, CHARACTERS) or [""]
        ]
        rows.append((level, np.asarray(batch.render(episodes)), lines))
    heights = [max(side, LINE * len(lines)) + TITLE + GAP for *_, lines in rows]
    width, height = GAP + instances * (side + GAP) + COLUMN, sum(heights) + GAP
    figure = plt.figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
    top = height - GAP
    for (level, pictures, lines), row in zip(rows, heights):
        scale = ", ".join(f"{name} {low}" + (f"-{high}" if high > low else "") for name, (low, high) in (
            (name, ranges[level]) for name, ranges in env.levels.items()))  # fmt: skip
        mark = " (evaluated)" if level == env.eval_level else ""
        title = f"{env.id}, level {level} of 0..{env.num_levels - 1}{mark}: {scale}"
        figure.text(GAP / width, top / height, title, va="top", fontsize=9, weight="bold")
        for k, picture in enumerate(pictures):
            figure.figimage(picture, GAP + k * (side + GAP), top - TITLE - side, origin="upper")
        x = (GAP + instances * (side + GAP)) / width
        for k, line in enumerate(lines):
            y = (top - TITLE - k * LINE) / height
            # "$" would start a formula
            figure.text(x, y, line.replace("$", r"\$"), va="top", fontsize=7, family="monospace")
        top -= row
    return figure


def main(config: Config) -> None:
    config.out.mkdir(parents=True, exist_ok=True)
    for env_id in tqdm(config.envs or jaxenv.ids()):
        needed = max(jaxenv.make(env_id, 2048).min_resolution)
        env = jaxenv.make(env_id, max(config.resolution, -(-needed // 8) * 8))
        figure = sheet(env, config.instances, config.seed)
        figure.savefig(config.out / f"{env_id}.png", dpi=DPI)
        plt.close(figure)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
