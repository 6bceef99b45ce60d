"""Finding environments by name: ids are file stems under `jaxenv/envs`, plus what users register."""

import copy
import importlib
import importlib.util
import operator
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from jaxenv.core import Env, check, near

_ROOT = Path(__file__).parent / "envs"
_registered: dict[str, Env] = {}
on_register: list[Callable[[str], None]] = []  # called with every id that `register` adds (for adapters)


def ids() -> list[str]:
    """All environment ids in alphabetical order, without importing any."""
    return sorted({p.stem for p in _ROOT.glob("*/*.py") if p.stem != "__init__"} | set(_registered))


@cache
def _load(env_id: str) -> Env:
    (path,) = _ROOT.glob(f"*/{env_id}.py")
    env = importlib.import_module(f"jaxenv.envs.{path.parent.name}.{env_id}").ENV
    env.id = env_id
    check(env)
    return env


def register(path_or_env: str | Path | Env, env_id: str | None = None) -> str:
    """Make a user's environment available to `make` without a fork; returns its id.

    Args:
        path_or_env: a Python file with an instance `ENV` (see docs/template_env.py), or an `Env` instance.
        env_id: default: the file stem, or the instance's `id`.
    Raises:
        ValueError: no id, one that is taken or no identifier, no `ENV`, or a declaration that
            `core.check` refuses.
    """
    path = None if isinstance(path_or_env, Env) else Path(path_or_env)
    if path is not None and not path.is_file():
        raise ValueError(f"no environment file at {path}")
    name = env_id or (path_or_env.id if path is None else path.stem)
    if not name:
        raise ValueError("an environment instance needs an id: set env.id or pass env_id")
    if not name.isidentifier():
        raise ValueError(f"environment id {name!r} is not a snake_case name: pass another as env_id")
    if name in ids():
        raise ValueError(f"environment id {name!r} is taken")
    env = path_or_env if path is None else _execute(path, f"jaxenv_user_{name}")
    env.id = name
    check(env)
    _registered[name] = env
    for call in on_register:
        call(name)
    return name


def _execute(path: Path, module_name: str) -> Env:
    spec = importlib.util.spec_from_file_location(module_name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses with postponed annotations look their module up
    try:
        spec.loader.exec_module(module)
        if not isinstance(getattr(module, "ENV", None), Env):
            raise ValueError(f"{path} defines no ENV that is an instance of jaxenv.Env")
    except BaseException:
        del sys.modules[module_name]
        raise
    return module.ENV


def make(env_id: str, resolution: int = 256, **settings) -> Env:
    """One environment that draws pictures of `resolution` px.

    Levels that are not legible at that resolution are left off (`env.num_levels` says how many remain, and
    `eval_level` is at most the last of them). The same arguments give the same object, so that compiled
    functions are shared.

    Args:
        env_id: one of `ids()`.
        resolution: side of the picture in pixels, a multiple of 8.
        settings: values for the attributes in `env.settings`, e.g. `slip=0.33`.
    Raises:
        ValueError: unknown id or setting, or a resolution at which no level is legible.
        TypeError: a resolution that is no integer, or an unhashable setting.
    """
    return _make(env_id, operator.index(resolution), tuple(sorted(settings.items())))


@cache
def _make(env_id: str, resolution: int, settings: tuple) -> Env:
    if env_id not in ids():
        raise ValueError(f"unknown environment {env_id!r}.{near(env_id, ids())}")
    env = copy.copy(_registered[env_id] if env_id in _registered else _load(env_id))
    if resolution % 8 or not 8 <= resolution <= 2048:
        raise ValueError(f"resolution {resolution} is not a multiple of 8 in 8..2048")
    legible = 0
    while legible < env.num_levels and env.min_resolution[legible] <= resolution:
        legible += 1
    if legible == 0:
        raise ValueError(
            f"{env_id} is not legible at {resolution} px: it needs at least {env.min_resolution[0]} px"
        )
    env.levels = {name: ranges[:legible] for name, ranges in env.levels.items()}
    env.min_resolution = env.min_resolution[:legible]
    env.eval_level = min(env.eval_level, legible - 1)
    env.resolution = resolution
    for name, value in settings:
        if name not in env.settings:
            known = list(env.settings)
            raise ValueError(f"{env_id} has no setting {name!r}; it has {known}.{near(name, known)}")
        setattr(env, name, value)
    check(env)
    return env
