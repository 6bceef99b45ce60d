"""Curricula: which environment, harness and level to generate next, and how results move the frontier.

Every module of this package is one curriculum named by its file, except `base`, `simulate` and those that start
with an underscore. It offers its config class as `CURRICULUM`; adding a file is all it takes to add a curriculum.
"""

import difflib
import importlib
import pkgutil
from typing import Any

from curriculum.base import Curriculum, EditedRequest, Request

__all__ = ["Curriculum", "EditedRequest", "Request", "make", "names"]

_TOOLS = {"base", "simulate"}


def names() -> tuple[str, ...]:
    """Names that `make` accepts, sorted. Nothing is imported to find them."""
    modules = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return tuple(sorted(name for name in modules if name not in _TOOLS and not name.startswith("_")))


def make(name: str, **settings: Any) -> Curriculum:
    """Builds the curriculum `name`; `settings` are the fields of its config class.

    Raises:
        ValueError: no curriculum has this name (near ones are suggested), or a setting is out of range.
        TypeError: the curriculum has no such setting, or needs one that is not given.
    """
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known)}"
        raise ValueError(f"unknown curriculum {name!r}; {hint}")
    return importlib.import_module(f"curriculum.{name}").CURRICULUM(**settings)
