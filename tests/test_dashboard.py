"""The dashboard of a made-up run: its panels hold the CSV's values, its page loads nothing, a browser shows it."""

import importlib.util
import re
import shutil
import sys

import numpy as np
import pytest
import tyro
from plotly.offline import get_plotlyjs

from experiments import dashboard, train, wandb_workspace
from experiments.configs import tiny
from experiments.run import Run

ENVS = ("frozen_lake", "tictactoe_qa", "door_key")
UPDATES = 30
BATCH = 8
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def frontier(e: int, update: int) -> tuple[int, int, float]:
    """Harness, level and success that the made-up run has for one environment after one update."""
    stage = update * (e + 1) // 6
    success = float("nan") if update % 7 == e else round(0.2 + 0.02 * update + 0.05 * e, 3)
    return min(stage // 3, 4), stage % 3 if stage < 15 else 2, success


def write_rows(run: Run, name: str, updates=range(1, UPDATES + 1)) -> None:
    for update in updates:
        progress = {"update": update, "prompts": update * BATCH}
        run.append(
            name, progress | {"success": update / 100, "live_groups": update / 50, "accepted_groups": 0.75}
        )
        for e, env_id in enumerate(ENVS):
            harness, level, success = frontier(e, update) if name == "train" else (4, 2, 0.25)
            run.append(f"{name}_curriculum", progress | {
                "env": env_id, "harness": harness, "level": level, "mastered": int(harness == 4 and update > 25),
                "frontier_success": success, "drawn": (update + e) % 4, "success": success,
            })  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("runs") / "made_up", tiny(envs=("frozen_lake",)))
    write_rows(run, "train")
    write_rows(run, "control")
    return run


@pytest.fixture(scope="module")
def page(run):
    tyro.cli(dashboard.main, args=[str(run.directory)])
    return run.path("dashboard.html")


def expected(field: int) -> np.ndarray:
    return np.asarray(
        [[frontier(e, u)[field] for u in range(1, UPDATES + 1)] for e in range(len(ENVS))], float
    )


def test_a_trace_holds_the_rows(run):
    trained, control = dashboard.load(run.directory)
    assert (trained.name, control.name) == ("train", "control") and trained.envs == ENVS
    np.testing.assert_array_equal(trained.harness, expected(0))
    np.testing.assert_array_equal(trained.level, expected(1))
    np.testing.assert_array_equal(trained.frontier_success, expected(2))
    np.testing.assert_array_equal(trained.prompts, np.arange(1, UPDATES + 1) * BATCH)
    assert (control.harness == 4).all() and trained.mastered.any() and not trained.mastered[:, :25].any()


def test_the_heat_maps_hold_the_values(run):
    trace = dashboard.load(run.directory)[0]
    for draw, field in ((dashboard.harness_map, 0), (dashboard.level_map, 1), (dashboard.success_map, 2)):
        figure = draw(trace)
        (cells,) = figure.data
        np.testing.assert_array_equal(cells.z, expected(field))
        # One more edge than cells: the cell of an update reaches over its prompts.
        assert cells.x == tuple(range(0, (UPDATES + 1) * BATCH, BATCH)) and cells.y == ENVS
        assert figure.layout.xaxis.title.text == "prompts seen"
        assert figure.layout.yaxis.title.text == "environment"
        np.testing.assert_array_equal(cells.customdata[..., 2], expected(0))
        texts = [[text.split(",")[0] for text in row] for row in cells.text]
        assert texts == [["unknown" if np.isnan(s) else f"{s:.0%}" for s in row] for row in expected(2)]


def test_colour_scales_are_discrete(run):
    trace = dashboard.load(run.directory)[0]
    for draw, labels in ((dashboard.harness_map, 5), (dashboard.level_map, 3)):
        (cells,) = draw(trace).data
        assert (cells.zmin, cells.zmax, len(cells.colorbar.tickvals)) == (-0.5, labels - 0.5, labels)
        edges = [edge for edge, _ in cells.colorscale]
        colors = [color for _, color in cells.colorscale]
        assert colors[::2] == colors[1::2] and len(set(colors)) == labels
        np.testing.assert_allclose(np.asarray(edges[1:-1:2]) * labels, range(1, labels))
    assert dashboard.harness_map(trace).data[0].colorbar.ticktext == ("H0", "H1", "H2", "H3", "H4")


def test_the_lines_hold_the_values(run):
    trace = dashboard.load(run.directory)[0]
    *lines, mean = dashboard.success_lines(trace).data
    assert tuple(line.name for line in lines) == ENVS
    np.testing.assert_array_equal([line.y for line in lines], expected(2))
    np.testing.assert_allclose(mean.y, np.nanmean(expected(2), axis=0))
    *shares, mastered = dashboard.occupancy(trace).data
    np.testing.assert_allclose(sum(s.y for s in shares), 1.0)
    for h, share in enumerate(shares):
        assert share.name == f"H{h}"
        np.testing.assert_allclose(share.y, (expected(0) == h).mean(axis=0))
    assert mastered.name == "mastered" and mastered.y[24] == 0 < mastered.y[-1]
    each, smooth, accepted, _ = dashboard.groups(trace).data
    np.testing.assert_allclose(each.y, np.arange(1, UPDATES + 1) / 50)
    assert smooth.y[-1] == pytest.approx(25.5 / 50) and set(accepted.y) == {0.75}


def test_success_and_accepted_groups_may_be_unknown(tmp_path):
    run = Run(tmp_path, tiny())
    run.append("train", {"update": 1, "prompts": 2, "success": 0.0, "live_groups": 0.0})
    run.append("train_curriculum", {
        "update": 1, "prompts": 2, "env": "frozen_lake", "harness": 0, "level": 0, "mastered": 0,
        "frontier_success": float("nan"), "drawn": 0, "success": float("nan"),
    })  # fmt: skip
    dashboard.main(tmp_path)
    (trace,) = dashboard.load(tmp_path)
    assert np.isnan(dashboard.success_lines(trace).data[-1].y).all()
    assert dashboard.success_map(trace).data[0].text == (["unknown"],)
    assert [line.name for line in dashboard.groups(trace).data] == ["live, each update", "live, mean of 10"]
    assert "<nav></nav>" in (tmp_path / "dashboard.html").read_text()


def test_a_long_run_is_thinned(run, monkeypatch):
    monkeypatch.setattr(dashboard, "CELLS", 4 * len(ENVS))
    (cells,) = dashboard.harness_map(dashboard.load(run.directory)[0]).data
    assert len(cells.x) == 5 and cells.x[-1] == UPDATES * BATCH
    kept = np.asarray(cells.x[1:]) // BATCH - 1
    np.testing.assert_array_equal(cells.z, expected(0)[:, kept])


def test_a_run_that_is_being_written(tmp_path):
    run = Run(tmp_path, tiny())
    write_rows(run, "train", range(1, 4))
    whole = {name: run.path(f"{name}.csv").read_bytes() for name in ("train", "train_curriculum")}
    write_rows(run, "train", range(4, 5))
    later = {name: run.path(f"{name}.csv").read_bytes() for name in whole}
    for name in whole:  # cut anywhere in the rows of update 4
        other = "train_curriculum" if name == "train" else "train"
        run.path(f"{other}.csv").write_bytes(later[other])
        for end in range(len(whole[name]), len(later[name]) - 1):
            run.path(f"{name}.csv").write_bytes(later[name][:end])
            (trace,) = dashboard.load(tmp_path)
            assert trace.update.tolist() == [1, 2, 3] and trace.harness.shape == (3, 3)


def test_the_page_is_self_contained(page):
    text = page.read_text()
    script = get_plotlyjs()
    assert text.count(script) == 1
    rest = text.replace(script, "")
    assert not re.search(
        r"https?:|//[\w.]+\.\w+/|<script[^>]+src|<link[^>]+href=\"(?!data:)|@import|url\(", rest
    )
    for env_id in ENVS:
        assert env_id in rest
    for name in ("train", "control"):
        assert rest.count(f'data-name="{name}"') == 2
        for draw in dashboard.PANELS:
            assert f'id="{name}-{draw.__name__}"' in rest


# ---- folders without a run ----


def fails(script, *arguments) -> str:
    with pytest.raises(SystemExit) as error:
        tyro.cli(script.main, args=[*map(str, arguments)])
    assert isinstance(error.value.code, str)
    return error.value.code


def test_folders_without_a_run_are_said(tmp_path):
    for folder in ("runs/quickstart", "runs/seeds/seed0", "runs/seeds/seed1"):
        Run(tmp_path / folder, tiny())
    (tmp_path / "runs/notes").mkdir()
    for script in (dashboard, wandb_workspace):
        said = fails(script, tmp_path / "runs/quikstart")
        assert "does not exist. Did you mean 'quickstart'?" in said
        assert "Runs beside it: quickstart, seeds" in fails(script, tmp_path / "runs/notes")
        assert "those in it are seed0, seed1" in fails(script, tmp_path / "runs/seeds")
        assert "not finished its first update" in fails(script, tmp_path / "runs/quickstart")
        assert "does not exist." in fails(script, tmp_path / "nowhere/at/all")
    assert not list(tmp_path.rglob("*.html"))


# ---- in a browser ----


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no browser: install Chromium, so that chromium is on the PATH")
    switches = (
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
    )
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(
            executable_path=CHROMIUM, args=[*switches, "--disable-sync", "--no-first-run"]
        )
        yield browser
        browser.close()


def test_in_a_browser(browser, page):
    tab = browser.new_page(viewport={"width": 1300, "height": 900})
    tab.set_default_timeout(120_000)
    errors, requests = [], []
    tab.on(
        "console",
        lambda message: errors.append(message.text) if message.type in ("error", "warning") else None,
    )
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(page.as_uri())

    def hover(plot, e, update):
        box = tab.locator(f"#{plot} .nsewdrag").bounding_box()
        tab.mouse.move(box["x"] + 2, box["y"] - 20)
        x, y = (update - 0.5) / UPDATES * box["width"], (e + 0.5) / len(ENVS) * box["height"]
        tab.mouse.move(box["x"] + x, box["y"] + y)
        label = tab.locator(f"#{plot} .hoverlayer .hovertext")
        label.wait_for()
        return label.text_content()

    for e, update in ((0, 20), (2, 13), (1, 29)):
        tab.locator("#train-harness_map").scroll_into_view_if_needed()
        harness, level, success = frontier(e, update)
        shown = hover("train-harness_map", e, update)
        for part in (
            ENVS[e],
            f"{update * BATCH} prompts",
            f"update {update}",
            f"harness H{harness}",
            f"level {level}",
        ):
            assert part in shown
        assert ("unknown" if np.isnan(success) else f"{success:.0%}") in shown

    # Zooming one panel zooms the others; the other policy's panels fill the page as the first's did.
    tab.evaluate("Plotly.relayout('train-groups', {'xaxis.range': [40, 80]})")
    tab.wait_for_function("document.getElementById('train-level_map').layout.xaxis.range[1] === 80")
    width = tab.locator("#train-harness_map .main-svg").first.bounding_box()["width"]
    tab.get_by_role("button", name="control", exact=True).click()
    assert tab.locator("#train-harness_map").is_hidden()
    assert tab.locator("#control-harness_map .main-svg").first.bounding_box()["width"] == width > 900
    tab.locator("#control-level_map").scroll_into_view_if_needed()
    assert "harness H4, scale level 2" in hover("control-level_map", 0, 15)
    assert not errors and requests == [page.as_uri()]
    tab.close()


# ---- wandb ----


def test_the_workspace_shows_what_training_logs(run):
    pytest.importorskip("wandb_workspaces", reason="the package wandb-workspaces is not installed")
    logged = {}
    for name in ("train", "control"):
        logged |= train.frontiers(run.rows(f"{name}_curriculum")[-len(ENVS) :], name)
        logged |= {f"{name}/{column}": value for column, value in run.rows(name)[-1].items()}
    assert [logged[f"curriculum/at_H{h}"] * 3 for h in range(5)] == [
        pytest.approx((expected(0)[:, -1] == h).sum()) for h in range(5)
    ]

    made = wandb_workspace.workspace("me", "jaxenv", "made_up", {"train": ENVS, "control": ENVS})
    spec = made._to_model().model_dump(by_alias=True)["spec"]["section"]
    assert spec["settings"]["xAxis"] == "prompts" and spec["runSets"][0]["search"]["query"] == "made_up"
    sections = spec["panelBankConfig"]["sections"]
    assert [section["name"] for section in sections] == ["Curriculum: train", "Curriculum: control"]
    for section, first in zip(sections, ("curriculum/at_H0", "control_curriculum/at_H0")):
        panels = [panel["config"] for panel in section["panels"]]
        titles = [title for title, _ in dashboard.PANELS.values()]
        assert {p["chartTitle"] for p in panels} == set(titles) - {dashboard.PANELS[dashboard.success_map][0]}
        assert panels[0]["metrics"][0] == first and panels[0]["plotType"] == "stacked-area"
        for panel in panels:
            assert panel["xAxis"] == "prompts" and set(panel["metrics"]) <= set(logged)


def test_no_workspace_without_wandb_workspaces_or_offline(run, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    made = []
    monkeypatch.setattr(wandb_workspace, "workspace", lambda *a: made.append(a))
    if importlib.util.find_spec("wandb_workspaces") is not None:
        said = fails(wandb_workspace, run.directory)
        assert "nothing done" in said and "WANDB_MODE is offline" in said
    monkeypatch.setitem(sys.modules, "wandb_workspaces", None)
    assert "pip install wandb-workspaces" in fails(wandb_workspace, run.directory)
    assert not made
