"""Selection against the formulas of Section 3.2 by brute force, its ties, its end, its ablations."""

from fractions import Fraction

import numpy as np
import pytest

from aes import select
from aes.formats import FormatError, Matrix, Pick, Profile, Profiles, Selection
from aes.select import Settings, greedy, problem

E, A = 12, 10


def instance(rng, exact):
    """Abilities and matrices; `exact`: of few values, so that ties are frequent."""
    kind = rng.choice(3, (E, A), p=(0.6, 0.25, 0.15))
    draw = (
        (lambda: rng.integers(-4, 5, (E, E)) / 4) if exact else (lambda: rng.uniform(-1, 1, (E, E)).round(6))
    )
    similar, cosine = (np.triu(draw(), 1) for _ in range(2))
    return kind == 2, kind == 1, similar + similar.T + np.eye(E), cosine + cosine.T + np.eye(E)


def brute_force(core, soft, similar, cosine, s: Settings):
    """The chosen environments and their gains, set by set, in exact arithmetic."""
    whole = lambda x: Fraction(float(x)).limit_denominator(10**6)  # noqa: E731
    core_of = [{a for a in range(A) if core[e, a]} for e in range(E)]
    all_of = [{a for a in range(A) if core[e, a] or soft[e, a]} for e in range(E)]
    wanted = set().union(*core_of)
    share = whole(s.soft)

    def covered(chosen, a):
        """How much of the ability a set covers."""
        if s.covered_by == "any":
            return (1 if a in wanted else share) * any(a in all_of[e] for e in chosen)
        return max((1 if a in core_of[e] else share if a in all_of[e] else 0 for e in chosen), default=0)

    def open_core(chosen):
        sets = core_of if s.covered_by == "core" else all_of
        return wanted - set().union(*(sets[e] for e in chosen), set())

    total = sum(covered(range(E), a) for a in range(A)) if s.coverage_norm == "fraction_of_total" else 1
    chosen, gains = [], []
    while open_core(chosen) and len(chosen) < (s.max_envs or E):
        best = None
        for e in set(range(E)) - set(chosen):
            new = sum(covered([*chosen, e], a) - covered(chosen, a) for a in range(A))
            redundancy = max((whole(similar[e, f]) for f in chosen), default=Fraction(0))
            conflict = max((max(Fraction(0), -whole(cosine[e, f])) for f in chosen), default=Fraction(0))
            gain = (
                whole(s.coverage) * new / total
                - whole(s.redundancy) * redundancy
                - whole(s.conflict) * conflict
            )
            new_core = len(open_core(chosen)) - len(open_core([*chosen, e]))
            rank = (gain, new_core, -whole(s.redundancy) * redundancy, -e)
            if new_core and (best is None or rank > best):
                best = rank
        gains.append(best[0])
        chosen.append(-best[3])
    return chosen, gains


CASES = [
    Settings(), Settings(covered_by="any"), Settings(redundancy=0.0), Settings(conflict=0.0), Settings(soft=0.0),
    Settings(coverage=0.5, redundancy=2.0, conflict=4.0), Settings(coverage=0.0), Settings(soft=0.5, max_envs=3),
    Settings(coverage_norm="fraction_of_total"), Settings(coverage_norm="fraction_of_total", covered_by="any"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_brute_force_agrees(number):
    settings = CASES[number]
    rng = np.random.default_rng(number)
    ties = settings.coverage_norm == "raw"  # a share of the total is rounded: ties need whole numbers
    lengths = set()
    for _ in range(25):
        core, soft, similar, cosine = instance(rng, exact=ties)
        steps = greedy(problem(core, soft, similar, cosine, settings))
        found = steps.env[: settings.max_envs].tolist()
        chosen, gains = brute_force(core, soft, similar, cosine, settings)
        assert found == chosen
        gain = (steps.coverage - steps.redundancy - steps.conflict)[: len(chosen)] / select.UNIT
        np.testing.assert_allclose(gain, [float(g) for g in gains], atol=0 if ties else 2e-5)
        lengths.add(len(chosen))
    assert len(lengths) > 1 or settings.max_envs == 3


def test_one_trace_for_all_settings():
    rng = np.random.default_rng(0)
    before = select._greedy._cache_size()
    for settings in CASES:
        greedy(problem(*instance(rng, False), settings))
    assert select._greedy._cache_size() - before <= 1


# ---- by hand ----


def profiles(**envs):
    """Abilities as letters, core in capitals."""
    return Profiles(
        {
            env: Profile(
                10,
                {x.lower(): 1.0 for x in text if x.isupper()},
                {x: 0.5 for x in text if x.islower()},
                {},
                {},
            )
            for env, text in envs.items()
        },
        {},
    )


def matrix(pool, **pairs):
    """Identity but for pairs such as ab=0.5."""
    envs = tuple(pool.envs)
    values = np.eye(len(envs))
    for pair, value in pairs.items():
        i, j = (envs.index(e) for e in pair)
        values[i, j] = values[j, i] = value
    return Matrix(envs, values, {"stage": "test"})


def chosen(pool, similar=None, cosine=None, settings=None, **more):
    return select.select(
        pool, similar or matrix(pool), cosine or matrix(pool), settings or Settings(), **more
    )


def test_gain_by_hand():
    pool = profiles(a="ABCx", b="CDy", c="DE", d="xyz")
    s = chosen(pool, matrix(pool, ab=0.5, ac=0.9, bc=0.1), matrix(pool, ab=-0.25, ac=0.7, bc=-0.5))
    assert s.envs == ("a", "c") and s.end == "every core ability is covered"
    first, second = (p.reason for p in s.picks)
    assert first == {
        "gain": 3.3, "coverage": 3.3, "redundancy": 0.0, "conflict": 0.0, "new_core": ["a", "b", "c"],
        "new_soft": ["x"], "core_covered": 3, "core_total": 5,
    }  # fmt: skip
    # b: 1.3 - 0.5 - 0.25 = 0.55; c: 2 - 0.9 - 0 = 1.1
    assert second == {
        "gain": 1.1, "coverage": 2.0, "redundancy": 0.9, "conflict": 0.0, "most_like": "a", "similarity": 0.9,
        "least_cosine_with": "a", "cosine": 0.7, "new_core": ["d", "e"], "new_soft": [], "core_covered": 5,
        "core_total": 5,
    }  # fmt: skip


def test_conflict_and_redundancy_change_the_choice():
    pool = profiles(a="ABC", b="DE", c="DE")
    assert chosen(pool).envs == ("a", "b")
    assert chosen(pool, similar=matrix(pool, ab=0.5)).envs == ("a", "c")
    assert chosen(pool, cosine=matrix(pool, ab=-0.5)).envs == ("a", "c")
    assert chosen(pool, cosine=matrix(pool, ab=0.5)).envs == ("a", "b")  # harmony earns nothing
    both = {"similar": matrix(pool, ab=0.5), "cosine": matrix(pool, ac=-0.25)}
    assert chosen(pool, **both).envs == ("a", "c")
    assert chosen(pool, **both, settings=Settings(redundancy=0.0)).envs == ("a", "b")


def test_soft_coverage_alone_never_holds_up_the_end():
    """d would gain most in every step, and e's gain is negative; only b and e bring core abilities."""
    pool = profiles(a="ABC", b="D", d="pqrstuvw", e="E")
    s = chosen(pool, similar=matrix(pool, ae=1.0, ab=0.9), cosine=matrix(pool, ae=-1.0))
    assert s.envs == ("a", "b", "e") and s.picks[2].reason["gain"] == -1.0


def test_what_covers_an_ability_that_is_soft_here_and_core_there():
    pool = profiles(a="ABc", b="C")
    graded = chosen(pool)
    assert graded.envs == ("a", "b") and graded.picks[1].reason["coverage"] == 0.7
    letter = chosen(pool, settings=Settings(covered_by="any"))
    assert letter.envs == ("a",) and letter.picks[0].reason["coverage"] == 3.0
    assert letter.picks[0].reason["new_core"] == ["a", "b", "c"]


def test_ties():
    # Equal gain: one core ability and two soft ones against two core ones.
    pool = profiles(a="Apq", b="BC")
    assert chosen(pool, settings=Settings(soft=0.5)).envs[0] == "b"
    # Equal gain and core: 1.5 - 0.5 of redundancy against 1.0 without.
    pool = profiles(a="ABC", b="Dp", c="E")
    tied = chosen(pool, similar=matrix(pool, ab=0.5), settings=Settings(soft=0.5))
    assert tied.envs == ("a", "c", "b")
    assert chosen(profiles(z="A", y="A", x="A")).envs == ("z",)  # the first of the pool


def test_a_fraction_of_the_total_lets_penalties_decide():
    pool = profiles(a="ABCDEF", b="GHI", c="G", d="HI")
    similar = matrix(pool, ab=0.8)
    assert chosen(pool, similar=similar).envs == ("a", "b")
    fraction = chosen(pool, similar=similar, settings=Settings(coverage_norm="fraction_of_total"))
    assert fraction.envs == ("a", "d", "c") and fraction.picks[0].reason["coverage"] == pytest.approx(
        6 / 9, abs=1e-5
    )


def test_limits_and_held_out_environments():
    pool = profiles(a="ABC", b="D", c="E", d="x")
    s = chosen(pool, settings=Settings(max_envs=2))
    assert s.envs == ("a", "b") and s.end == "max_envs reached; not covered: e"
    s = chosen(pool, exclude=("a",))
    assert s.envs == ("b", "c") and s.picks[0].reason["core_total"] == 2
    assert chosen(pool, exclude=("a", "b", "c")).envs == ()
    with pytest.raises(ValueError, match="without a profile: q"):
        chosen(pool, exclude=("q",))
    with pytest.raises(ValueError, match="no candidates"):
        chosen(pool, exclude=("a", "b", "c", "d"))


def test_bad_settings_are_refused():
    for changes, message in (
        ({"soft": 1.5}, "soft must be in"), ({"redundancy": -1.0}, "redundancy"), ({"max_envs": 0}, "max_envs"),
        ({"coverage_norm": "half"}, "coverage_norm"), ({"covered_by": "soft"}, "covered_by"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            Settings(**changes)
    pool = profiles(a="A", b="B")
    with pytest.raises(ValueError, match="no gradient cosines"):
        select.select(pool, matrix(pool), None)
    with pytest.raises(ValueError, match="matrix has no b"):
        select.select(pool, matrix(profiles(a="A")), None, Settings(conflict=0.0))


def test_the_stage(tmp_path, capsys):
    pool = profiles(a="ABC", b="DE", c="DE")
    pool.save(tmp_path / "profiles.json")
    matrix(pool, ab=0.5).save(tmp_path / "similarity.json")
    with pytest.raises(FormatError, match="--conflict 0 selects without"):
        select.main(tmp_path)
    select.main(tmp_path, Settings(conflict=0.0))
    assert "aes: 2 environments; every core ability is covered" in capsys.readouterr().out
    cosines = matrix(pool, ac=-0.75)
    Matrix(cosines.envs, cosines.values, {}, ("b",)).save(tmp_path / "conflict.json")
    select.main(tmp_path, ablations=True)
    capsys.readouterr()
    loaded = {m: Selection.load(tmp_path / "selections" / f"{m}.json") for m in select.ABLATIONS}
    assert loaded["aes"].envs == loaded["aes_without_redundancy"].envs == ("a", "b")
    assert loaded["aes_without_conflict"].envs == ("a", "c")
    assert loaded["aes"].picks[1].reason["low_signal"] and isinstance(loaded["aes"].picks[0], Pick)
    select.main(tmp_path, ablations=True)
    assert capsys.readouterr().out.count("up to date") == 3
