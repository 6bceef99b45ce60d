"""What the surface of an environment says about it: category, description, code."""

import ast
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import jaxenv
from aes.formats import FormatError
from jaxenv import Env

LARGEST = 2048  # px: every level of every environment is legible


def env(env_id: str) -> Env:
    """Raises ValueError for an environment that jaxenv does not know."""
    return jaxenv.make(env_id, LARGEST)


def categories(envs: Sequence[str], file: Path | None = None) -> dict[str, str]:
    """The category of each environment, from jaxenv or from a JSON object.

    Raises:
        FormatError: the file lacks one, or jaxenv does not know one.
    """
    if file is None:
        try:
            return {e: env(e).category for e in envs}
        except ValueError as error:
            raise FormatError(f"{error} Give categories as a JSON file, environment -> category.") from None
    given = json.loads(Path(file).read_text(encoding="utf-8"))
    missing = [e for e in envs if not isinstance(given, dict) or not isinstance(given.get(e), str)]
    if missing:
        raise FormatError(f"{file} has no category for {', '.join(missing)}")
    return {e: given[e] for e in envs}


def description(env_id: str) -> str:
    """Task, rules and answer format, as they stand in prompts."""
    e = env(env_id)
    return f"{e.question}\n{e.rules}\n{e.answer.instruction}"


def code(env_id: str) -> str:
    """The key code of an environment's file: how instances are made, stepped, judged and solved."""
    return key_code(inspect.getsource(sys.modules[type(env(env_id)).__module__]))


def key_code(source: str) -> str:
    """A module without comments, docstrings, imports, descriptions, pictures and texts."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [n for n in node.body if not _surface(n)] or [ast.Pass()]
    return ast.unparse(tree)


def _surface(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name.lstrip("_").startswith(("render", "text", "hint", "paint", "draw"))
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {t.id for t in targets if isinstance(t, ast.Name)}
        return bool(names & {"question", "rules", "source", "category"})
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, ast.Import | ast.ImportFrom)
