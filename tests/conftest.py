"""Strict JAX for all tests: no silent rank or dtype promotion, warnings are errors, compiled programs are kept on disk."""

import gc
import os
from pathlib import Path

os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_SILENT", "true")
os.environ.setdefault("MPLBACKEND", "agg")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".jax_cache"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


@pytest.hookimpl(wrapper=True)  # its first part runs before pytest-xdist reads the groups
def pytest_collection_modifyitems(config, items):
    # What shares compiled programs runs in one process: a file, or one environment of the tour over all of them.
    for item in items:
        env_id = getattr(item, "callspec", None) and item.callspec.params.get("env_id")
        toured = item.path.name in ("test_every_env.py", "test_tokenizer.py") and env_id
        item.add_marker(pytest.mark.xdist_group(f"every_env {env_id}" if toured else item.path.name))
    yield
    if not config.getoption("--slow"):
        slow = [item for item in items if "slow" in item.keywords]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if "slow" not in item.keywords]


# Every compiled CPU program takes some 14 memory mappings, and Linux allows a process 65,530: beyond them jaxlib
# crashes. Programs are dropped in time, between groups of tests that share them.
MAPS, MOST_MAPS = Path("/proc/self/maps"), 40_000


def _group(item) -> str | None:
    return item.get_closest_marker("xdist_group").args[0] if item else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    if MAPS.exists() and _group(item) != _group(nextitem):
        with MAPS.open("rb") as lines:
            if sum(1 for _ in lines) > MOST_MAPS:
                jax.clear_caches()
                gc.collect()
