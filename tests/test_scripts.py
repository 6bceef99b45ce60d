"""The scripts run and write what they promise, on one environment."""

import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pytest

ROOT = Path(__file__).parent.parent


def run(script, *arguments):
    command = [sys.executable, ROOT / "scripts" / script, "--envs", "frozen_lake", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)


@pytest.mark.slow
def test_gallery(tmp_path):
    run("gallery.py", "--out", tmp_path, "--instances", 2, "--resolution", 64)
    sheet = matplotlib.image.imread(tmp_path / "frozen_lake.png")
    assert sheet.shape[1] == 12 + 2 * (64 + 12) + 640 and sheet.std() > 0.05


@pytest.mark.slow
def test_bench(tmp_path):
    run("bench.py", "--out", tmp_path / "bench.md", "--quick")
    table = (tmp_path / "bench.md").read_text()
    assert "jax " in table and "Python " in table
    (row,) = [line for line in table.splitlines() if line.startswith("| frozen_lake ")]
    assert "met" in row and row.count("|") == table.splitlines()[3].count("|")
