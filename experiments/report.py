"""Tables and pictures of a run: base against trained, the paper's relative gain, the curriculum's staircase."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from agents.rollout import Rollouts
from experiments.run import Run, write

if TYPE_CHECKING:
    from experiments.evaluate import Scores

Z95 = 1.959964


def interval(values: np.ndarray) -> tuple[float, float]:
    """Mean and half width of its 95% interval (normal approximation) of independent episodes."""
    values = np.asarray(values, np.float64)
    return float(values.mean()), float(Z95 * values.std(ddof=1) / math.sqrt(len(values)))


def relative_gain(trained: Sequence[float], base: Sequence[float]) -> float:
    """The paper's Rel. in percent: the mean of trained/base - 1 over its columns (single-turn, multi-turn).

    This gives the printed Rel. of Tables 3, 4 and 9, with one exception that looks like swapped digits (8B Random-K
    + HDC on ID environments: 134.3, printed 143.4). Table 5's does not follow from its rows (10.9, 17.0, 26.2
    against the printed 11.5, 18.1, 27.7). NaN where a base is 0.
    """
    if any(b == 0 for b in base):
        return math.nan
    return 100.0 * float(np.mean([t / b - 1.0 for t, b in zip(trained, base)]))


def means(scores: "Scores", held_out: bool = False) -> dict[str, float]:
    """Mean value over single-turn (ST) and multi-turn (MT) environments; a kind without environments is left out."""
    out = {}
    for kind, single in (("ST", True), ("MT", False)):
        chosen = [
            e for e in scores.value if scores.single_turn[e] == single and scores.held_out[e] == held_out
        ]
        if chosen:
            out[kind] = float(np.mean([scores.value[e].mean() for e in chosen]))
    return out


def pooled_gain(base: "Scores", trained: "Scores", held_out: bool = False) -> tuple[float, float]:
    """Mean gain over environments, with the half width of its 95% interval; episodes are paired by instance."""
    chosen = [e for e in base.value if base.held_out[e] == held_out]
    gains = [trained.value[e] - base.value[e] for e in chosen]
    variance = sum(g.var(ddof=1) / len(g) for g in gains) / len(gains) ** 2
    return float(np.mean([g.mean() for g in gains])), Z95 * math.sqrt(variance)


def comparison(run: Run, base: "Scores", others: "Mapping[str, Scores]") -> str:
    """The Markdown table of a run, also written to table.md and eval.csv: base against one or more trained policies."""
    names = list(others)
    lines = [
        "| environment | kind | base | " + " | ".join(f"{n} | gain" for n in names) + " |",
        "|---|---|---|" + "---|---|" * len(names),
    ]
    run.path("eval.csv").unlink(missing_ok=True)
    for env_id in base.value:
        kind = ("ST" if base.single_turn[env_id] else "MT") + (" held out" if base.held_out[env_id] else "")
        cells = [env_id, kind, cell(*interval(base.value[env_id]))]
        for name in names:
            values = others[name].value[env_id]
            cells += [cell(*interval(values)), cell(*interval(values - base.value[env_id]), signed=True)]
        lines.append("| " + " | ".join(cells) + " |")
        for name, scores in {"base": base, **others}.items():
            mean, half = interval(scores.value[env_id])
            run.append("eval", {
                "policy": name, "env": env_id, "kind": kind, "episodes": len(scores.value[env_id]), "mean": mean,
                "half_width": half, "success": float(scores.success[env_id].mean()), "invalid": scores.invalid[env_id],
            })  # fmt: skip
    for held_out in sorted(set(base.held_out.values())):
        label = "held out" if held_out else "pooled"
        start = means(base, held_out)
        cells = [f"**{label}**", "", ", ".join(f"{k} {100 * v:.1f}" for k, v in start.items())]
        for name in names:
            end = means(others[name], held_out)
            rel = relative_gain([end[k] for k in start], list(start.values()))
            relative = "" if math.isnan(rel) else f", Rel. {rel:+.1f}%"
            cells += [
                ", ".join(f"{k} {100 * v:.1f}" for k, v in end.items()) + relative,
                "**" + cell(*pooled_gain(base, others[name], held_out), signed=True) + "**",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    table = "\n".join(lines)
    write(run.path("table.md"), table + "\n")
    return table


def cell(mean: float, half: float, signed: bool = False) -> str:
    """A share and its half width in percent."""
    return f"{100 * mean:{'+' if signed else ''}.1f} ± {100 * half:.1f}"


# ---- pictures ----


def curves(run: Run, name: str) -> None:
    """The paper's Figure 9 for every environment: recent success, harness levels as bands, the scale as a staircase."""
    plt = pyplot()
    rows = run.rows(f"{name}_curriculum")
    ids = list(dict.fromkeys(r["env"] for r in rows))
    figure, axes = plt.subplots(len(ids), 1, figsize=(9, 2.4 * len(ids)), squeeze=False, sharex=True)
    shades = plt.get_cmap("Blues")(np.linspace(0.08, 0.5, 5))
    for ax, env_id in zip(axes[:, 0], ids):
        mine = [r for r in rows if r["env"] == env_id]
        x = np.asarray([int(r["prompts"]) for r in mine])
        harness = np.asarray([int(r["harness"]) for r in mine])
        level = np.asarray([int(r["level"]) for r in mine])
        success = np.asarray([float(r["success"]) for r in mine])
        edges = np.flatnonzero(np.diff(harness, prepend=-1))
        for low, high in zip(edges, [*edges[1:], len(x) - 1]):
            ax.axvspan(x[low], x[high], color=shades[harness[low]], lw=0)
            ax.text(x[low], 1.03, f"H{harness[low]}", fontsize=8, transform=ax.get_xaxis_transform())
        ax.plot(x, recent(success, 10), color="tab:red", lw=1.6, label="recent success")
        ax.set_ylim(0, 1)
        ax.set_ylabel("success")
        stairs = ax.twinx()
        stairs.step(x, level, where="post", color="black", lw=1.0, label="scale level")
        stairs.set_ylim(-0.2, max(level.max(), 1) + 0.6)
        stairs.set_yticks(range(int(level.max()) + 1))
        stairs.set_ylabel("level")
        ax.set_title(env_id, fontsize=10, loc="left", pad=16)
    axes[-1, 0].set_xlabel("prompts seen")
    handles = [axes[0, 0].get_lines()[0], stairs.get_lines()[0]]
    axes[0, 0].legend(
        handles=handles, labels=["recent success", "scale level"], fontsize=8, loc="lower right"
    )
    figure.tight_layout()
    figure.savefig(run.path(f"{name}_curve.png"), dpi=120)
    plt.close(figure)


def recent(values: np.ndarray, window: int) -> np.ndarray:
    """Mean of the last `window` values that are not NaN, at every place; NaN before the first."""
    out = np.full(len(values), np.nan)
    for i in range(len(values)):
        seen = values[: i + 1]
        seen = seen[~np.isnan(seen)][-window:]
        if len(seen):
            out[i] = seen.mean()
    return out


def rollout_sheet(run: Run, rollouts: Sequence[Rollouts], name: str, count: int = 8) -> None:
    """A picture of sampled turns: image, prompt, reply and reward."""
    plt = pyplot()
    picked = [(r, m) for r in rollouts for m in _telling(r, max(1, count // len(rollouts)))]
    figure, axes = plt.subplots(
        len(picked), 2, figsize=(11, 2.2 * len(picked)), width_ratios=(1, 4), squeeze=False
    )
    for (left, right), (r, m) in zip(axes, picked):
        picture = r.prompts[r.prompt[m]].picture
        if picture is not None:
            left.imshow(picture, interpolation="nearest")
        left.axis("off")
        right.axis("off")
        text = f"{r.prompt_texts[r.prompt[m]]}\n\nreply: {r.replies[m]!r}   reward: {r.reward[m]:.2f}   " + (
            "valid" if r.valid[m] else "invalid"
        )
        right.text(0, 1, text, va="top", fontsize=7, family="monospace", wrap=True, transform=right.transAxes)
    figure.tight_layout()
    figure.savefig(run.path(f"{name}.png"), dpi=110)
    plt.close(figure)


def _telling(rollouts: Rollouts, count: int) -> list[int]:
    """Some turns, half of them rewarded where there are such."""
    rewarded, others = np.flatnonzero(rollouts.reward > 0), np.flatnonzero(rollouts.reward <= 0)
    half = min(len(rewarded), max(1, count // 2) if len(others) else count)
    spread = lambda rows, n: rows[np.linspace(0, len(rows) - 1, n, dtype=int)].tolist() if n else []  # noqa: E731
    return spread(rewarded, half) + spread(others, min(len(others), count - half))


def sample_table(rollouts: Rollouts, count: int):
    """A wandb table of sampled turns with their pictures."""
    import wandb

    table = wandb.Table(columns=["picture", "prompt", "reply", "reward", "valid"])
    for m in _telling(rollouts, count):
        prompt = rollouts.prompts[rollouts.prompt[m]]
        picture = None if prompt.picture is None else wandb.Image(prompt.picture)
        table.add_data(
            picture, rollouts.prompt_texts[rollouts.prompt[m]], rollouts.replies[m], float(rollouts.reward[m]),
            bool(rollouts.valid[m]),
        )  # fmt: skip
    return table


def pyplot():
    """Matplotlib without a display."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt
