"""Finding, making and registering environments, and the errors that help."""

import subprocess
import sys

import numpy as np
import pytest

import jaxenv
from jaxenv import core, registry


@pytest.fixture
def forget():
    """Whatever a test registers is gone after it."""
    yield
    for name in [n for n in registry._registered if n.startswith("user_")]:
        del registry._registered[name]


def lake(**attributes):
    """An environment instance of one's own, with other attributes."""
    env = type("UserLake", (type(jaxenv.make("frozen_lake")),), {})()
    for name, value in attributes.items():
        setattr(env, name, value)
    return env


def test_ids():
    ids = jaxenv.ids()
    assert "frozen_lake" in ids and ids == sorted(set(ids)) and all(i.isidentifier() for i in ids)


def test_listing_imports_no_environment():
    code = (
        "import sys, jaxenv; jaxenv.ids(); jaxenv.make('frozen_lake')\n"
        "loaded = [m for m in sys.modules if m.startswith('jaxenv.envs.') and m.count('.') == 3]\n"
        "assert loaded == ['jaxenv.envs.games.frozen_lake'], loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    "name, meant",
    [("frozenlake", "frozen_lake"), ("FrozenLake", "frozen_lake"), ("frozen_lakes", "frozen_lake")],
)
def test_unknown_ids_suggest_near_ones(name, meant):
    with pytest.raises(ValueError, match=f"unknown environment '{name}'.*Did you mean .*'{meant}'"):
        jaxenv.make(name)


def test_unknown_ids_without_a_near_one():
    with pytest.raises(ValueError) as error:
        jaxenv.make("qqqqzzzz")
    assert "Did you mean" not in str(error.value)
    for odd in ("", "../core", "games/frozen_lake", "*", "__init__"):
        with pytest.raises(ValueError, match="unknown environment"):
            jaxenv.make(odd)


def test_the_same_arguments_give_the_same_object():
    assert (
        jaxenv.make("frozen_lake")
        is jaxenv.make("frozen_lake", 256)
        is jaxenv.make("frozen_lake", resolution=np.int64(256))
    )
    slippery = jaxenv.make("frozen_lake", 64, slip=0.5)
    assert slippery is jaxenv.make("frozen_lake", resolution=64, slip=0.5)
    assert slippery is not jaxenv.make("frozen_lake", 64) and slippery is not jaxenv.make(
        "frozen_lake", 64, slip=0.2
    )
    assert slippery.slip == 0.5 and jaxenv.make("frozen_lake", 64).slip == 0
    assert type(jaxenv.make("frozen_lake", np.int64(72)).resolution) is int


def test_levels_that_are_not_legible_are_left_off():
    whole = jaxenv.make("frozen_lake", 64)
    assert whole.num_levels == 7 and whole.eval_level == 2
    small = jaxenv.make("frozen_lake", 40)
    assert small.num_levels == 4 and small.levels["size"] == whole.levels["size"][:4]
    assert small.min_resolution == (32, 32, 32, 40) and jaxenv.make("frozen_lake", 64).num_levels == 7


@pytest.mark.parametrize(
    "resolution, words",
    [
        (24, "at least 32 px"),
        (8, "at least 32"),
        (60, "multiple of 8"),
        (0, "multiple of 8"),
        (-64, "multiple"),
        (4096, "8..2048"),
    ],
)
def test_impossible_resolutions(resolution, words):
    with pytest.raises(ValueError, match=words):
        jaxenv.make("frozen_lake", resolution)


def test_a_resolution_is_an_integer():
    with pytest.raises(TypeError):
        jaxenv.make("frozen_lake", 64.0)
    with pytest.raises(TypeError, match="unhashable"):
        jaxenv.make("frozen_lake", 64, slip=[0.1])


def test_settings_errors():
    with pytest.raises(ValueError, match=r"no setting 'slipp'.*Did you mean 'slip'"):
        jaxenv.make("frozen_lake", slipp=0.1)
    for attribute in ("horizon", "levels", "id"):
        with pytest.raises(ValueError, match="no setting"):
            jaxenv.make("frozen_lake", **{attribute: 1})


def test_register_an_instance(forget):
    mine = lake(id="user_lake")
    assert jaxenv.register(mine) == "user_lake" and "user_lake" in jaxenv.ids()
    made = jaxenv.make("user_lake", 64)
    assert made.id == "user_lake" and made.resolution == 64 and mine.resolution == 256
    assert jaxenv.register(lake(), "user_other") == "user_other"
    with pytest.raises(ValueError, match=r"Did you mean .*'user_lake'"):
        jaxenv.make("user_lak")


def test_register_a_file(tmp_path, forget):
    path = tmp_path / "user_file.py"
    path.write_text(
        "from __future__ import annotations\n"
        "from flax import struct\n"
        "from jax import Array\n"
        "import jaxenv\n"
        "@struct.dataclass\n"
        "class State:\n"
        "    x: Array\n"
        "class Mine(type(jaxenv.make('frozen_lake'))):\n"
        "    horizon = 9\n"
        "ENV = Mine()\n"
    )
    assert jaxenv.register(str(path)) == "user_file"
    assert jaxenv.make("user_file", 64).horizon == 9
    with pytest.raises(ValueError, match="'user_file' is taken"):
        jaxenv.register(path)
    assert jaxenv.register(path, "user_again") == "user_again"


def test_register_errors(tmp_path, forget):
    with pytest.raises(ValueError, match="no environment file"):
        jaxenv.register(tmp_path / "nothing.py")
    with pytest.raises(ValueError, match="needs an id"):
        jaxenv.register(lake(id=""))
    with pytest.raises(ValueError, match="taken"):
        jaxenv.register(lake(id="frozen_lake"))
    with pytest.raises(ValueError, match="snake_case"):
        jaxenv.register(lake(), "my lake")
    path = tmp_path / "user_wrong.py"
    path.write_text("ENV = 3\n")
    with pytest.raises(ValueError, match="defines no ENV"):
        jaxenv.register(path)
    path.write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        jaxenv.register(path)
    assert not any("user_wrong" in m for m in sys.modules)
    for attributes, words in [
        ({"question": ""}, "'question' is missing"),
        ({"levels": {"size": ((3, 3),), "holes": ((1, 1), (2, 2))}}, "different numbers of levels"),
        ({"levels": {"size": ((3, 2),)}}, "empty range"),
        ({"min_resolution": (32,)}, "1 entries for 7 levels"),
        ({"eval_level": 7}, "eval_level 7 is not in"),
        ({"horizon": 0}, "not positive"),
    ]:
        with pytest.raises(ValueError, match=words):
            jaxenv.register(lake(**attributes), "user_refused")
    assert "user_refused" not in jaxenv.ids()


def test_near():
    assert core.near("slipp", ["step", "slip", "q"]) == " Did you mean 'slip'?"
    assert core.near("slep", []) == ""
