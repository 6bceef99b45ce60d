"""Ability-aware environment selection: `python -m aes.select --help` (Section 3.2).

Greedy: Gain(e | S) = coverage * NewCoverage - redundancy * Redundancy - conflict * Conflict, until every core ability of
the candidates is covered. What the paper leaves open:

- While a core ability is uncovered, only environments that cover one are candidates. Else one with much soft coverage
  could be taken for ever, or every gain be negative with core abilities still open.
- Ties: more new core abilities, then less redundancy, then the first environment.
- An ability can be core in one environment and soft in another. `covered_by="core"`: it is covered once an environment
  where it is core is chosen; until then an environment where it is soft covers it at the weight of soft, and the
  difference stays to be gained. `covered_by="any"`: the formula to the letter, with C(S) a set of abilities; the weight
  is that of core if it is core anywhere.
- `coverage_norm="raw"`: NewCoverage is a sum of weights, several at first, beside penalties of at most 1;
  "fraction_of_total": its share of all there is to cover, beside which the penalties decide.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array
from tyro.conf import Positional

from aes import formats
from aes.formats import FormatError, Matrix, Pick, Profiles, Selection

PAD = 32
UNIT = 1_000_000  # gains are whole numbers of 1 / UNIT: equal gains are equal on every backend

CoverageNorm = Literal["raw", "fraction_of_total"]
CoveredBy = Literal["core", "any"]


@dataclass(frozen=True)
class Settings:
    coverage: float = 1.0
    """lambda_1, of NewCoverage, >= 0."""
    redundancy: float = 1.0
    """lambda_2, of Redundancy, >= 0."""
    conflict: float = 1.0
    """lambda_3, of Conflict, >= 0; with 0 no conflict matrix is needed."""
    soft: float = 0.3
    """Weight of a soft ability in NewCoverage, [0, 1]; a core ability has 1."""
    coverage_norm: CoverageNorm = "raw"
    covered_by: CoveredBy = "core"
    max_envs: int | None = None
    """Stop at so many environments, covered or not."""

    def __post_init__(self):
        for name, high in (("coverage", 100.0), ("redundancy", 100.0), ("conflict", 100.0), ("soft", 1.0)):
            if not 0 <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be in [0, {high:g}], got {getattr(self, name)}")
        for name, known in (("coverage_norm", CoverageNorm), ("covered_by", CoveredBy)):
            if getattr(self, name) not in get_args(known):
                raise ValueError(f"{name} must be one of {get_args(known)}, got {getattr(self, name)!r}")
        if self.max_envs is not None and self.max_envs < 1:
            raise ValueError(f"max_envs must be positive, got {self.max_envs}")


@struct.dataclass
class Problem:
    """What a greedy selection looks at; whole numbers of 1 / UNIT, the lambdas are in them."""

    weight: np.ndarray  # i32[E, A] coverage of an ability by an environment
    core: np.ndarray  # bool[E, A] whether that covers it for good
    similar: np.ndarray  # i32[E, E]
    conflict: np.ndarray  # i32[E, E]


@struct.dataclass
class Steps:
    """The K steps of a selection."""

    env: Array  # i32[K]
    coverage: Array  # i32[K]
    redundancy: Array  # i32[K]
    conflict: Array  # i32[K]


def problem(
    core: np.ndarray, soft: np.ndarray, similarity: np.ndarray, cosine: np.ndarray | None, settings: Settings
) -> Problem:
    """From bool[E, A] core and soft, similarity f[E, E] and gradient cosines f[E, E].

    Raises:
        ValueError: shapes differ, an ability is core and soft, or no cosines though conflict counts.
    """
    envs, abilities = core.shape
    if soft.shape != core.shape or (core & soft).any():
        raise ValueError("core and soft must be distinct abilities of the same environments")
    if cosine is None and settings.conflict:
        raise ValueError("conflict counts, but there are no gradient cosines")
    cosine = np.zeros((envs, envs)) if cosine is None else cosine
    if similarity.shape != (envs, envs) or cosine.shape != (envs, envs):
        raise ValueError(f"{envs} environments, but matrices {similarity.shape} and {cosine.shape}")
    if settings.covered_by == "any":
        core = (core | soft) & core.any(axis=0)
        soft = soft & ~core
    weight = np.where(core, 1.0, np.where(soft, settings.soft, 0.0))
    total = weight.max(axis=0, initial=0.0).sum()
    scale = settings.coverage / (max(total, 1e-9) if settings.coverage_norm == "fraction_of_total" else 1.0)
    whole = np.round(weight * scale * UNIT)
    if whole.sum(axis=1).max(initial=0.0) > 1e9:
        raise ValueError(f"coverage={settings.coverage} is too large for {abilities} abilities")
    return Problem(
        weight=whole.astype(np.int32),
        core=core,
        similar=np.round(settings.redundancy * similarity * UNIT).astype(np.int32),
        conflict=np.round(settings.conflict * np.maximum(-cosine, 0.0) * UNIT).astype(np.int32),
    )


def greedy(p: Problem) -> Steps:
    """The selection of all that it takes, numpy arrays i32[K]."""
    # Padded to a few sizes, each compiled once; an environment without core abilities is never a candidate.
    envs, abilities = (-size % PAD for size in p.core.shape)
    wide, square = ((0, envs), (0, abilities)), ((0, envs), (0, envs))
    steps = _greedy(
        Problem(
            weight=np.pad(p.weight, wide),
            core=np.pad(p.core, wide),
            similar=np.pad(p.similar, square),
            conflict=np.pad(p.conflict, square),
        )
    )
    steps = jax.tree.map(np.asarray, steps)
    return jax.tree.map(lambda x: x[: int((steps.env >= 0).sum())], steps)


@jax.jit
def _greedy(p: Problem) -> Steps:
    num_envs, num_abilities = p.weight.shape
    never = jnp.int32(jnp.iinfo(jnp.int32).min)

    def keep_largest(allowed: Array, score: Array) -> Array:
        return allowed & (score == jnp.max(jnp.where(allowed, score, never)))

    def step(state, _):
        chosen, covered, done, redundancy, conflict = state
        new = jnp.sum(jnp.maximum(p.weight - covered[None], 0), axis=1, dtype=jnp.int32)
        new_core = jnp.sum(p.core & ~done[None], axis=1, dtype=jnp.int32)
        allowed = ~chosen & (new_core > 0)
        found = jnp.any(allowed)
        best = keep_largest(allowed, new - redundancy - conflict)
        best = keep_largest(keep_largest(best, new_core), -redundancy)
        env = jnp.argmax(best).astype(jnp.int32)
        out = Steps(jnp.where(found, env, -1), new[env], redundancy[env], conflict[env])
        # Over an empty set both penalties are 0; over one environment they can be negative.
        first = ~jnp.any(chosen)
        after = (
            chosen.at[env].set(True),
            jnp.maximum(covered, p.weight[env]),
            done | p.core[env],
            jnp.where(first, p.similar[env], jnp.maximum(redundancy, p.similar[env])),
            jnp.where(first, p.conflict[env], jnp.maximum(conflict, p.conflict[env])),
        )
        return jax.tree.map(partial(jnp.where, found), after, state), out

    start = (
        jnp.zeros(num_envs, jnp.bool_), jnp.zeros(num_abilities, jnp.int32), jnp.zeros(num_abilities, jnp.bool_),
        jnp.zeros(num_envs, jnp.int32), jnp.zeros(num_envs, jnp.int32),
    )  # fmt: skip
    return jax.lax.scan(step, start, length=num_envs)[1]


def select(
    profiles: Profiles,
    similarity: Matrix,
    cosine: Matrix | None,
    settings: Settings = Settings(),
    exclude: tuple[str, ...] = (),
    method: str = "aes",
    made: dict[str, Any] | None = None,
) -> Selection:
    """The chosen environments, each with the terms of its gain and what it is for.

    Args:
        exclude: environments that are not candidates: those held out. Their core abilities need no covering.
    Raises:
        ValueError: an unknown name in `exclude`, no candidate, or a matrix that lacks one.
    """
    envs = profiles.without(exclude)
    rows = [profiles.envs[e] for e in envs]
    abilities = sorted({a for row in rows for a in (*row.core, *row.soft)})
    core = np.asarray([[a in row.core for a in abilities] for row in rows], bool).reshape(len(rows), -1)
    soft = np.asarray([[a in row.soft for a in abilities] for row in rows], bool).reshape(len(rows), -1)
    similar, cosines = similarity.of(envs), None if cosine is None else cosine.of(envs)
    p = problem(core, soft, similar, cosines, settings)
    steps = greedy(p)

    picks, chosen, done = [], [], np.zeros(len(abilities), bool)
    seen = np.zeros(len(abilities), bool)
    wanted = p.core.any(axis=0)
    names = np.asarray(abilities, object)
    for i, env in enumerate(steps.env[: settings.max_envs].tolist()):
        terms = {name: int(getattr(steps, name)[i]) / UNIT for name in ("coverage", "redundancy", "conflict")}
        reason = {"gain": round(terms["coverage"] - terms["redundancy"] - terms["conflict"], 6), **terms}
        if chosen:
            nearest = chosen[int(np.argmax(similar[env, chosen]))]
            reason |= {"most_like": envs[nearest], "similarity": float(similar[env, nearest])}
            if cosines is not None:
                against = chosen[int(np.argmin(cosines[env, chosen]))]
                reason |= {"least_cosine_with": envs[against], "cosine": float(cosines[env, against])}
        if cosine is not None and envs[env] in cosine.low_signal:
            reason["low_signal"] = True
        reason["new_core"] = names[p.core[env] & ~done].tolist()
        reason["new_soft"] = names[(core | soft)[env] & ~p.core[env] & ~seen].tolist()
        done, seen = done | p.core[env], seen | core[env] | soft[env]
        reason |= {"core_covered": int((done & wanted).sum()), "core_total": int(wanted.sum())}
        chosen.append(env)
        picks.append(Pick(envs[env], reason))
    left = names[wanted & ~done].tolist()
    end = f"max_envs reached; not covered: {', '.join(left)}" if left else "every core ability is covered"
    return Selection(method, tuple(picks), end, made or {})


ABLATIONS: Mapping[str, dict[str, float]] = {
    "aes": {},
    "aes_without_redundancy": {"redundancy": 0.0},
    "aes_without_conflict": {"conflict": 0.0},
}


def main(
    folder: Positional[Path],
    settings: Settings = Settings(),
    exclude: tuple[str, ...] = (),
    ablations: bool = False,
    force: bool = False,
) -> None:
    """profiles.json, similarity.json, conflict.json -> selections/aes.json.

    Args:
        folder: of the run.
        settings: of the gain.
        exclude: environments that are held out.
        ablations: also select without redundancy and without conflict (Table 4).
        force: also if the files are up to date.
    """
    profiles = Profiles.load(folder / "profiles.json")
    similarity = Matrix.load(folder / "similarity.json", "profile")
    for method, changes in ABLATIONS.items() if ablations else [("aes", {})]:
        mine = dataclasses.replace(settings, **changes)
        file = folder / "conflict.json" if mine.conflict else None
        if file is not None and not file.exists():
            raise FormatError(
                f"{file} does not exist: `python -m aes.conflict` writes it; --conflict 0 selects without"
            )
        out = folder / "selections" / f"{method}.json"
        head = formats.made(
            "select", dataclasses.asdict(mine) | {"exclude": sorted(exclude)}, profiles=folder / "profiles.json",
            similarity=folder / "similarity.json", conflict=file,
        )  # fmt: skip
        if not force and formats.up_to_date(out, head):
            print(f"{out} is up to date")
            continue
        cosine = None if file is None else Matrix.load(file, "conflict")
        selection = select(profiles, similarity, cosine, mine, exclude, method, head)
        selection.save(out)
        print(f"{method}: {len(selection.picks)} environments; {selection.end}")


if __name__ == "__main__":
    formats.command(main, __doc__)
