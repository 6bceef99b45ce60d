"""A run's curriculum as one HTML file with interactive plots: `python -m experiments.dashboard runs/quickstart`.

Works on a finished run and on one that is still training. The file needs nothing else: no server, no network.
"""

import csv
import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np
import plotly.graph_objects as go
import tyro
from plotly.colors import qualitative, sample_colorscale
from plotly.offline import get_plotlyjs

from curriculum.base import HARDEST, NUM_HARNESS
from experiments.report import recent
from experiments.run import write
from jaxenv.core import near

HARNESS = [f"H{h}" for h in range(NUM_HARNESS)]
HARNESS_COLORS = ["#e3eef9", "#aacfe5", "#5ba3cf", "#2171b5", "#08306b"]
CELLS = 60_000  # of one heat map, at most: longer runs show evenly spaced updates
WINDOW = 10  # updates, of the smoothed lines and the summary


@dataclass(frozen=True)
class Trace:
    """The curriculum of one trained policy: E environments over T updates, oldest first."""

    name: str  # of its CSV files: `train`, or `control`
    envs: tuple[str, ...]
    update: np.ndarray  # i64[T]
    prompts: np.ndarray  # i64[T] generated up to and with the update
    success: np.ndarray  # f64[T] of the update's rollouts
    live: np.ndarray  # f64[T] share of groups with an advantage, among the accepted ones
    accepted: (
        np.ndarray
    )  # f64[T] share of groups that the curriculum took a gradient on, nan in runs without it
    harness: np.ndarray  # i64[E, T] the frontier after the update
    level: np.ndarray  # i64[E, T]
    frontier_success: np.ndarray  # f64[E, T], nan where unknown
    mastered: np.ndarray  # bool[E, T]
    drawn: np.ndarray  # i64[E, T] groups in the update

    def thinned(self) -> "Trace":
        """At most `CELLS` values of every [E, T] field: evenly spaced updates, with the last one."""
        count = max(2, CELLS // len(self.envs))
        if len(self.update) <= count:
            return self
        kept = np.linspace(len(self.update) / count, len(self.update), count).astype(int) - 1
        arrays = {k: v[..., kept] for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return Trace(self.name, self.envs, **arrays)


# ---- reading a run folder ----


def load(directory: Path) -> list[Trace]:
    """All trained policies of a run folder, `train` first.

    Raises:
        FileNotFoundError: no run there, or one that has not trained yet; says what is there instead.
    """
    files = sorted(
        directory.glob("*_curriculum.csv"), key=lambda f: (f.name != "train_curriculum.csv", f.name)
    )
    names = [file.stem.removesuffix("_curriculum") for file in files]
    traces = [t for t in (_trace(directory, name) for name in names) if len(t.update)]
    if not traces:
        raise FileNotFoundError(_missing(directory))
    return traces


def _trace(directory: Path, name: str) -> Trace:
    progress = {int(row["update"]): row for row in _rows(directory / f"{name}.csv")}
    table: dict[int, dict[str, dict]] = {}
    for row in _rows(directory / f"{name}_curriculum.csv"):
        table.setdefault(int(row["update"]), {})[row["env"]] = row
    envs = tuple(next(iter(table.values()), ()))
    # The update that is being written now has no row of some environments yet.
    updates = [u for u in sorted(table) if u in progress and len(table[u]) == len(envs)]

    def over_updates(field, kind=np.float64):
        return np.asarray([progress[u].get(field, "nan") for u in updates], np.float64).astype(kind)

    def over_both(field, kind=np.float64):
        values = [[table[u][e][field] for u in updates] for e in envs]
        return np.asarray(values, np.float64).reshape(len(envs), len(updates)).astype(kind)

    return Trace(
        name,
        envs,
        update=np.asarray(updates, np.int64),
        prompts=over_updates("prompts", np.int64),
        success=over_updates("success"),
        live=over_updates("live_groups"),
        accepted=over_updates("accepted_groups"),
        harness=over_both("harness", np.int64),
        level=over_both("level", np.int64),
        frontier_success=over_both("frontier_success"),
        mastered=over_both("mastered", bool),
        drawn=over_both("drawn", np.int64),
    )


def _rows(file: Path) -> list[dict[str, str]]:
    """The complete lines of a CSV that may be written to at this moment."""
    text = file.read_text() if file.exists() else ""
    return list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))


def _missing(directory: Path) -> str:
    """Why there is nothing to show in a folder, and what may be meant."""
    if (directory / "config.json").exists():
        return f"the run in {directory} has not finished its first update of training yet"
    inside = _runs_in(directory)
    if inside:
        return f"{directory} holds no run itself; those in it are {', '.join(inside)}"
    what = "holds no run" if directory.is_dir() else "does not exist"
    beside = _runs_in(directory.parent)
    hint = near(directory.name, beside) or (f" Runs beside it: {', '.join(beside)}" if beside else "")
    return f"{directory} {what}.{hint}"


def _runs_in(directory: Path) -> list[str]:
    """Names of the folders in a folder that are runs or hold runs."""
    files = [*directory.glob("*/config.json"), *directory.glob("*/*/config.json")]
    return sorted({file.relative_to(directory).parts[0] for file in files})


# ---- panels ----


def harness_map(trace: Trace) -> go.Figure:
    """Harness level of every environment's frontier over prompts."""
    bar = dict(title_text="harness level", tickvals=list(range(NUM_HARNESS)), ticktext=HARNESS)
    return _heat_map(trace, "harness", (-0.5, HARDEST + 0.5), _steps(HARNESS_COLORS), bar)


def level_map(trace: Trace) -> go.Figure:
    """Scale level of every environment's frontier over prompts."""
    count = int(trace.level.max()) + 1
    colors = sample_colorscale("YlGn", np.linspace(0.08, 1, count).tolist() if count > 1 else [0.5])
    bar = dict(title_text="scale level", tickvals=list(range(0, count, -(-count // 12))))
    return _heat_map(trace, "level", (-0.5, count - 0.5), _steps(colors), bar)


def success_map(trace: Trace) -> go.Figure:
    """Success at every environment's frontier over prompts; empty where it is unknown."""
    bar = dict(title_text="success", tickformat=".0%", tickvals=[0, 0.25, 0.5, 0.75, 1])
    return _heat_map(trace, "frontier_success", (0, 1), "RdYlBu", bar)


def _heat_map(trace: Trace, field: str, limits: tuple[float, float], scale, bar: dict) -> go.Figure:
    trace = trace.thinned()
    shape = trace.harness.shape
    # What the pointer shows, of every cell of every map: the whole stage of the environment.
    numbers = [np.broadcast_to(trace.prompts, shape), np.broadcast_to(trace.update, shape), trace.harness,
               trace.level, trace.drawn]  # fmt: skip
    texts = [
        ["unknown" if np.isnan(s) else f"{s:.0%}" + ", mastered" * bool(m) for s, m in zip(*row)]
        for row in zip(trace.frontier_success, trace.mastered)
    ]
    height = max(150, (26 if shape[0] <= 30 else 16) * shape[0])
    bar = dict(len=min(height, 340), lenmode="pixels", y=1, yanchor="top", ypad=0, title_side="right", **bar)
    cells = go.Heatmap(
        # A cell reaches from the prompts before its update to those after it.
        x=[0, *trace.prompts.tolist()],
        y=list(trace.envs),
        z=getattr(trace, field),
        customdata=np.stack(numbers, axis=-1).astype(np.int32),
        text=texts,
        hovertemplate="<b>%{y}</b><br>%{customdata[0]:,} prompts, update %{customdata[1]}<br>harness H%{customdata[2]}, "
        "scale level %{customdata[3]}<br>success at the frontier: %{text}<br>groups in this update: %{customdata[4]}"
        "<extra></extra>",
        zmin=limits[0],
        zmax=limits[1],
        colorscale=scale,
        ygap=2 if shape[0] <= 60 else 0,
        colorbar=dict(thickness=14, outlinewidth=0, **bar),
    )
    figure = go.Figure(cells)
    figure.update_layout(**_layout(height), plot_bgcolor="#ddd", margin_r=110)
    figure.update_xaxes(
        title="prompts seen", showgrid=False, tickformat=",d", range=[0, int(trace.prompts[-1])]
    )
    figure.update_yaxes(
        title="environment", type="category", autorange="reversed", dtick=1, showgrid=False, automargin=True
    )
    return figure


def success_lines(trace: Trace) -> go.Figure:
    """Success at the frontier as one line per environment, and the mean over those where it is known."""
    trace = trace.thinned()
    figure = go.Figure()
    hover = "%{y:.0%} after %{x:,} prompts"
    for e, env_id in enumerate(trace.envs):
        color, dash = qualitative.D3[e % 10], ("solid", "dot", "dash")[e // 10 % 3]
        figure.add_scatter(
            x=trace.prompts, y=trace.frontier_success[e], name=env_id, mode="lines", hovertemplate=hover,
            connectgaps=True, line=dict(color=color, width=1.3, dash=dash), opacity=0.7,
            visible=True if len(trace.envs) <= 20 else "legendonly",
        )  # fmt: skip
    known = ~np.isnan(trace.frontier_success)
    total = np.where(known, trace.frontier_success, 0.0).sum(axis=0)
    mean = np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)
    figure.add_scatter(
        x=trace.prompts, y=mean, name="<b>mean</b>", mode="lines", hovertemplate=hover,
        line=dict(color="black", width=2.5), legendrank=1,
    )  # fmt: skip
    figure.update_layout(**_layout(330))
    figure.update_layout(legend=dict(orientation="v", x=1.01, yanchor="top"))  # it may be long, and scrolls
    _share_axes(figure, trace, "success at the frontier")
    return figure


def occupancy(trace: Trace) -> go.Figure:
    """Share of the environments whose frontier is at each harness level, stacked, and of those that are mastered."""
    figure = go.Figure()
    for h, color in enumerate(HARNESS_COLORS):
        count = (trace.harness == h).sum(axis=0)
        figure.add_scatter(
            x=trace.prompts, y=count / len(trace.envs), name=HARNESS[h], stackgroup="harness", customdata=count,
            line=dict(width=0, color=color, shape="vh"), fillcolor=color,
            hovertemplate=f"%{{customdata}} of {len(trace.envs)} environments",
        )  # fmt: skip
    if trace.mastered.any():
        figure.add_scatter(
            x=trace.prompts, y=trace.mastered.mean(axis=0), name="mastered", mode="lines",
            line=dict(color="#e6550d", width=2, dash="dot", shape="vh"), hovertemplate="%{y:.0%}",
        )  # fmt: skip
    figure.update_layout(**_layout(300), hovermode="x unified")
    _share_axes(figure, trace, "share of environments")
    return figure


def groups(trace: Trace) -> go.Figure:
    """Live and accepted groups: every update faintly, the mean of the last ones as a line."""
    figure = go.Figure()
    for name, values, color in (("live", trace.live, "#2171b5"), ("accepted", trace.accepted, "#e6550d")):
        if np.isnan(values).all():
            continue
        figure.add_scatter(
            x=trace.prompts, y=values, name=f"{name}, each update", mode="markers", hovertemplate="%{y:.0%}",
            marker=dict(color=color, size=3, opacity=0.35),
        )  # fmt: skip
        figure.add_scatter(
            x=trace.prompts, y=recent(values, WINDOW), name=f"{name}, mean of {WINDOW}", mode="lines",
            line=dict(color=color, width=2), hovertemplate="%{y:.0%}",
        )  # fmt: skip
    figure.update_layout(**_layout(300), hovermode="x unified")
    _share_axes(figure, trace, "share of groups")
    return figure


def _layout(height: int) -> dict:
    """What all panels share; `height` is that of the plot itself, in pixels."""
    margin = dict(l=64, r=24, t=30, b=52)
    return dict(
        template="plotly_white", height=height + margin["t"] + margin["b"], margin=margin,
        font=dict(family="system-ui, sans-serif", size=12), hoverlabel=dict(align="left"),
        legend=dict(traceorder="normal", orientation="h", x=0, y=1, yanchor="bottom"),
    )  # fmt: skip


def _share_axes(figure: go.Figure, trace: Trace, title: str) -> None:
    figure.update_xaxes(title="prompts seen", tickformat=",d", range=[0, int(trace.prompts[-1])])
    figure.update_yaxes(title=title, tickformat=".0%", range=[-0.01, 1.01])


def _steps(colors: Sequence[str]) -> list[tuple[float, str]]:
    """A colour scale of equal steps, one per integer."""
    n = len(colors)
    return [(edge / n, color) for i, color in enumerate(colors) for edge in (i, i + 1)]


PANELS = {
    occupancy: ("Stages", "Share of the environments whose frontier is at each harness level."),
    groups: ("Live groups", "Share of the accepted groups whose rollouts differ in reward, so that there is something to "
             "learn; and share of all groups that the curriculum accepted."),
    harness_map: ("Frontier: harness level", "H0 shows all four helping texts, every level takes one away, H4 shows only "
                  "the task and its picture."),
    level_map: ("Frontier: scale level", "Size of the instances, from 0 to each environment's target. Under HDC it starts "
                "again whenever the harness level rises."),
    success_map: ("Success at the frontier", "Mean over the groups that count at the frontier; grey where there are none "
                  "yet."),
    success_lines: ("Success at the frontier, by environment", "Click a name to hide or show its line, double-click to "
                    "see it alone."),
}  # fmt: skip
TOOLBAR = {"displaylogo": False, "responsive": True, "showSendToCloud": False, "plotlyServerURL": ""}
NARROW = (occupancy, groups)  # two fit beside each other


# ---- the page ----


def page(directory: Path, traces: Sequence[Trace]) -> str:
    """The whole file."""
    stored = directory / "config.json"
    config = json.loads(stored.read_text()) if stored.exists() else {}
    title = html.escape(directory.resolve().name)
    several = len(traces) > 1
    return Template(PAGE).substitute(
        title=title,
        plotly=get_plotlyjs(),
        about=html.escape(_about(config)),
        tabs="".join(
            f'<button data-name="{html.escape(t.name)}">{html.escape(t.name)}</button>' for t in traces
        )
        if several
        else "",
        sections="\n".join(_section(t) for t in traces),
    )


def _about(config: dict) -> str:
    """One line about the run."""
    curriculum = (config.get("curriculum") or {}).get("kind")
    parts = [
        f"{curriculum} curriculum in train" if curriculum else "",
        f"{config['batch']} prompts per update" if "batch" in config else "",
        f"{config['group_size']} rollouts per prompt" if "group_size" in config else "",
        f"seed {config['seed']}" if "seed" in config else "",
    ]
    return " · ".join(p for p in parts if p)


def _section(trace: Trace) -> str:
    panels = []
    for draw, (title, caption) in PANELS.items():
        plot = draw(trace).to_html(
            full_html=False,
            include_plotlyjs=False,
            div_id=f"{trace.name}-{draw.__name__}",
            config=TOOLBAR,
        )
        kind = "panel narrow" if draw in NARROW else "panel"
        panels.append(f'<div class="{kind}"><h2>{title}</h2><p>{caption}</p>{plot}</div>')
    return f'<section data-name="{html.escape(trace.name)}">{_summary(trace)}{"".join(panels)}</section>'


def _summary(trace: Trace) -> str:
    """Where the run stands, in a few numbers."""
    last = slice(-WINDOW, None)
    numbers = {
        "environments": f"{len(trace.envs)}",
        "updates": f"{trace.update[-1]:,}",
        "prompts": f"{trace.prompts[-1]:,}",
        f"at H{HARDEST}": f"{(trace.harness[:, -1] == HARDEST).sum()} of {len(trace.envs)}",
        "mastered": f"{trace.mastered[:, -1].sum()} of {len(trace.envs)}",
        f"success, last {WINDOW} updates": f"{trace.success[last].mean():.0%}",
        f"live groups, last {WINDOW} updates": f"{trace.live[last].mean():.0%}",
    }
    return (
        '<dl class="summary">'
        + "".join(f"<div><dd>{v}</dd><dt>{k}</dt></div>" for k, v in numbers.items())
        + "</dl>"
    )


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$title: curriculum</title>
<link rel="icon" href="data:,">
<style>
body { font-family: system-ui, sans-serif; color: #222; background: #fafafa; margin: 0 auto; padding: 20px 24px; max-width: 1500px; }
h1 { font-size: 22px; margin: 0; }
h2 { font-size: 15px; margin: 0; }
p { color: #666; font-size: 13px; margin: 2px 0 4px; }
nav { margin: 12px 0 0; }
nav button { font: inherit; border: 1px solid #ccc; background: white; border-radius: 6px; padding: 4px 14px; margin-right: 6px; cursor: pointer; }
nav button.chosen { background: #08306b; border-color: #08306b; color: white; }
section { display: grid; grid-template-columns: 1fr 1fr; gap: 16px; margin-top: 14px; }
section[hidden] { display: none; }
.panel { grid-column: 1 / -1; background: white; border: 1px solid #e4e4e4; border-radius: 8px; padding: 14px 16px 4px; min-width: 0; }
.narrow { grid-column: auto; }
@media (max-width: 1000px) { .narrow { grid-column: 1 / -1; } }
.summary { grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: 10px; margin: 0; }
.summary div { background: white; border: 1px solid #e4e4e4; border-radius: 8px; padding: 8px 14px; }
.summary dd { font-size: 18px; font-weight: 600; margin: 0; }
.summary dt { font-size: 12px; color: #666; }
</style>
<script>$plotly</script>
</head>
<body>
<h1>$title</h1>
<p>$about</p>
<nav>$tabs</nav>
$sections
<script>
const sections = [...document.querySelectorAll("section")], buttons = [...document.querySelectorAll("nav button")];
function show(name) {
  for (const s of sections) s.hidden = s.dataset.name !== name;
  for (const b of buttons) b.classList.toggle("chosen", b.dataset.name === name);
  for (const plot of document.querySelectorAll("section:not([hidden]) .js-plotly-plot")) Plotly.Plots.resize(plot);
}
for (const b of buttons) b.onclick = () => show(b.dataset.name);
show(sections[0].dataset.name);

// Zooming into one panel's prompts zooms all panels of the section.
let following = false;
for (const section of sections) {
  const plots = [...section.querySelectorAll(".js-plotly-plot")];
  for (const plot of plots) plot.on("plotly_relayout", async (change) => {
    if (following || !Object.keys(change).some((key) => key.startsWith("xaxis"))) return;
    following = true;
    const range = [...plot.layout.xaxis.range];
    await Promise.all(plots.filter((p) => p !== plot).map((p) => Plotly.relayout(p, {"xaxis.range": range})));
    following = false;
  });
}
</script>
</body>
</html>
"""


def main(run_dir: tyro.conf.Positional[Path]) -> None:
    """Write RUN_DIR/dashboard.html.

    Args:
        run_dir: a run's folder; the run may still be training.
    """
    try:
        traces = load(run_dir)
    except FileNotFoundError as error:
        raise SystemExit(f"dashboard: {error}") from None
    file = run_dir / "dashboard.html"
    write(file, page(run_dir, traces))
    print(f"{file}: {', '.join(f'{t.name}, {len(t.update)} updates' for t in traces)}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
