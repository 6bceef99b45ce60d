"""One contact sheet per environment: `python scripts/gallery.py --envs frozen_lake` (all without `--envs`).

Rows are the easiest, the evaluated and the hardest level; beside the pictures stands the whole prompt of the
first one, with all helping texts, and the oracle's reply to it. A page, index.html, shows all sheets of the directory
with each environment's question, rules, answer format and levels.
"""

import html
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
    out: Path = Path("docs/gallery")
    """Directory of the sheets, <env_id>.png, and of index.html."""
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


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>jaxenv: environments</title>
<style>
body {{ font: 15px/1.45 sans-serif; max-width: 1900px; margin: 2em auto; padding: 0 1em; color: #222 }}
nav a {{ margin-right: 1em; white-space: nowrap }}
table {{ border-collapse: collapse; margin: .6em 0 }}
th, td {{ border: 1px solid #ccc; padding: .15em .6em; text-align: right }}
th:first-child {{ text-align: left }}
.evaluated {{ background: #e8f0e4 }}
dt {{ font-weight: bold }}
dd {{ white-space: pre-line }}
img {{ max-width: 100%; border: 1px solid #ddd }}
</style>
<h1>jaxenv: {count} environments</h1>
<p>Sheets show the easiest, the evaluated and the hardest level, with all harness texts and the oracle's reply to the
first picture of each row. <code>make gallery</code> draws them.</p>
<nav>{links}</nav>
{sections}
</html>
"""


def section(env: jaxenv.Env) -> str:
    """One environment on the page."""
    # One compiled program: eagerly, a generator would compile every operation by itself.
    asked = jax.jit(lambda key: env.text_question(env.init(key, jnp.int32(env.eval_level))))(
        jax.random.key(0)
    )
    question = bytes(b for b in np.asarray(asked) if b).decode()
    head = "".join(
        f"<th{' class=evaluated' if k == env.eval_level else ''}>{k}</th>" for k in range(env.num_levels)
    )
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        + "".join(f"<td>{low}" + (f" to {high}" if high > low else "") + "</td>" for low, high in ranges)
        + "</tr>"
        for name, ranges in env.levels.items()
    )
    turns = "one turn" if env.horizon == 1 else f"up to {env.horizon} turns"
    facts = {
        "Question": question,
        "Rules": env.rules,
        "Answer": env.answer.instruction,
        "Source": ", ".join(env.source),
    }
    listed = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in facts.items())
    levels = f"<table><tr><th>level</th>{head}</tr>{rows}</table>" if env.levels else "<p>One level.</p>"
    return (
        f'<section id="{env.id}"><h2>{env.id}</h2><p>{env.category}, {turns}</p><dl>{listed}</dl>{levels}'
        f'<img src="{env.id}.png" alt="{env.id}: sampled instances" loading="lazy"></section>'
    )


def index(directory: Path) -> str:
    """The page over all sheets in a directory."""
    ids = [i for i in jaxenv.ids() if (directory / f"{i}.png").exists()]
    sections = "\n".join(section(jaxenv.make(i, 2048)) for i in ids)
    links = " ".join(f'<a href="#{i}">{i}</a>' for i in ids)
    return PAGE.format(count=len(ids), links=links, sections=sections)


def main(config: Config) -> None:
    config.out.mkdir(parents=True, exist_ok=True)
    for env_id in tqdm(config.envs or jaxenv.ids()):
        needed = max(jaxenv.make(env_id, 2048).min_resolution)
        env = jaxenv.make(env_id, max(config.resolution, -(-needed // 8) * 8))
        figure = sheet(env, config.instances, config.seed)
        figure.savefig(config.out / f"{env_id}.png", dpi=DPI, pil_kwargs={"optimize": True})
        plt.close(figure)
    (config.out / "index.html").write_text(index(config.out))


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
