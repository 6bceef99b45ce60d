"""The curriculum's panels as a saved wandb workspace: `python -m experiments.wandb_workspace runs/quickstart --entity me`.

The panels of `experiments.dashboard` over what `experiments.train` logs. wandb has no heat maps over prompts: there, the
frontier is one line per environment. Needs the package wandb-workspaces, a login and the network.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import tyro

from curriculum.base import HARDEST, NUM_HARNESS
from experiments.dashboard import PANELS, groups, harness_map, level_map, load, occupancy, success_lines


def prefix(name: str) -> str:
    """What the curriculum metrics of a trained policy (`train`, `control`) begin with."""
    return "curriculum" if name == "train" else f"{name}_curriculum"


def workspace(entity: str, project: str, run: str, policies: dict[str, Sequence[str]]):
    """A `wandb_workspaces` Workspace with one section per trained policy; nothing is sent.

    Args:
        entity: user or team that owns the project.
        run: name of the run that is shown at first.
        policies: the environment ids of every trained policy.
    """
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws

    def line(panel, y: list[str], title_y: str, top: float | None, **more):
        axes = dict(x="prompts", title_x="prompts seen", title_y=title_y, range_y=(0, top))
        return wr.LinePlot(title=PANELS[panel][0], y=y, **axes, **more)

    sections = []
    for name, envs in policies.items():
        stages = [f"{prefix(name)}/at_H{h}" for h in range(NUM_HARNESS)]
        shares = [f"{name}/live_groups", f"{name}/accepted_groups"]
        harness, level, success = (
            [f"{prefix(name)}/{e}/{field}" for e in envs] for field in ("harness", "level", "success")
        )
        panels = [
            line(occupancy, stages, "share of environments", 1, plot_type="stacked-area"),
            line(groups, shares, "share of groups", 1),
            line(harness_map, harness, "harness level", HARDEST),
            line(level_map, level, "scale level", None),
            line(success_lines, success, "success at the frontier", 1),
        ]
        layout = ws.SectionLayoutSettings(columns=2, rows=3)
        sections.append(
            ws.Section(name=f"Curriculum: {name}", panels=panels, is_open=True, layout_settings=layout)
        )
    return ws.Workspace(
        entity=entity,
        project=project,
        name="Curriculum",
        sections=sections,
        settings=ws.WorkspaceSettings(x_axis="prompts"),
        runset_settings=ws.RunsetSettings(query=run),
    )


def main(run_dir: tyro.conf.Positional[Path], entity: str = "") -> None:
    """Save the workspace in the run's wandb project and print its address.

    Args:
        run_dir: a run's folder.
        entity: user or team that owns the project; by default the one of the login.
    """
    try:
        policies = {trace.name: trace.envs for trace in load(run_dir)}
    except FileNotFoundError as error:
        raise SystemExit(f"wandb_workspace: {error}") from None
    try:
        import wandb
        import wandb_workspaces.workspaces  # noqa: F401
    except ImportError as error:
        raise SystemExit(f"wandb_workspace: {error}; pip install wandb-workspaces") from None
    mode = os.environ.get("WANDB_MODE") or "online"
    if mode != "online" or not wandb.login(prompt=False):
        why = f"WANDB_MODE is {mode}" if mode != "online" else "there is no wandb login"
        raise SystemExit(f"wandb_workspace: nothing done: a workspace lives on wandb's server, and {why}")
    project = json.loads((run_dir / "config.json").read_text())["project"]
    try:
        entity = entity or wandb.Api().default_entity
        print(workspace(entity, project, run_dir.resolve().name, policies).save().url)
    except wandb.Error as error:
        raise SystemExit(f"wandb_workspace: nothing done: {error}") from None


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
