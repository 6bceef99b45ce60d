"""Baselines: even over categories, nested, k-center by brute force; what descriptions and code hold."""

import json
from collections import Counter

import numpy as np
import pytest

from aes import baselines, pool
from aes.baselines import Settings, k_center, random_k
from aes.embed import unit
from aes.formats import FormatError, Profile, Profiles, Selection

CATEGORIES = {f"{c}{i}": c for c, n in (("a", 10), ("b", 2), ("c", 5), ("d", 1)) for i in range(n)}


def names(picks):
    return [p.env for p in picks]


def test_random_k_is_even_over_categories():
    for seed in range(20):
        for k in (1, 4, 7, 12, 18):
            chosen = names(random_k(CATEGORIES, k, seed))
            assert len(set(chosen)) == k
            count = Counter(CATEGORIES[e] for e in chosen)
            left = [count[c] for c, n in Counter(CATEGORIES.values()).items() if count[c] < n]
            # Whatever has environments left has at most one fewer than the largest.
            assert all(n >= max(count.values()) - 1 for n in left)


def test_random_k_is_nested_and_depends_on_the_seed_alone():
    turned = dict(reversed(CATEGORIES.items()))
    for seed in range(5):
        order = names(random_k(CATEGORIES, 18, seed))
        assert names(random_k(turned, 18, seed)) == order
        assert all(names(random_k(CATEGORIES, k, seed)) == order[:k] for k in range(1, 18))
        without = {e: c for e, c in CATEGORIES.items() if e != order[-1]}
        assert [e for e in names(random_k(without, 17, seed)) if e[0] == "a"] == [
            e for e in order[:-1] if e[0] == "a"
        ]
    first = Counter(random_k(CATEGORIES, 1, seed)[0].env for seed in range(300))
    assert len(first) == 18 and all(
        50 <= sum(n for e, n in first.items() if e[0] == c) <= 100 for c in "abcd"
    )


def test_k_center_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(50):
        vectors = unit(rng.normal(size=(9, 3)) + 0.5)
        envs = [f"e{i}" for i in range(9)]
        distance = 1 - vectors @ vectors.T
        mean = vectors.mean(axis=0) / np.linalg.norm(vectors.mean(axis=0))
        chosen = [min(range(9), key=lambda i: 1 - vectors[i] @ mean)]
        while len(chosen) < 5:
            rest = [i for i in range(9) if i not in chosen]
            chosen.append(max(rest, key=lambda i: min(distance[i, j] for j in chosen)))
        picks = k_center(envs, vectors, 5)
        assert names(picks) == [envs[i] for i in chosen]
        assert picks[-1].reason["distance"] == pytest.approx(
            min(distance[chosen[-1], j] for j in chosen[:-1])
        )


def test_k_center_takes_equal_environments_once_and_last():
    vectors = np.asarray([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert names(k_center("abcd", vectors, 4)) == ["a", "d", "b", "c"]
    for k in (0, 5):
        with pytest.raises(ValueError, match=r"k must be in 1\.\.4"):
            k_center("abcd", vectors, k)


def test_what_descriptions_and_code_hold():
    text = pool.description("rotate_matrix")
    env = pool.env("rotate_matrix")
    assert env.question in text and env.rules in text and env.answer.instruction in text
    code = pool.code("rotate_matrix")
    assert "def reset" in code and "def step" in code
    assert not any(x in code for x in ("def render", "def text_obs", '"""', "import ", "question", "# "))
    source = (
        '"""Doc."""\nimport os\nclass A:\n    """Doc."""\n    rules = "x"\n    def render(self): return 1\n'
    )
    assert pool.key_code(source) == "class A:\n    pass"


def test_categories(tmp_path):
    assert pool.categories(["rotate_matrix", "frozen_lake"]) == {
        "rotate_matrix": "algorithmic",
        "frozen_lake": "games",
    }
    with pytest.raises(FormatError, match="unknown environment"):
        pool.categories(["no_such"])
    (tmp_path / "c.json").write_text('{"mine": "own"}')
    assert pool.categories(["mine"], tmp_path / "c.json") == {"mine": "own"}
    with pytest.raises(FormatError, match="no category for yours"):
        pool.categories(["mine", "yours"], tmp_path / "c.json")


def test_the_stage(tmp_path, capsys):
    empty = Profile(1, {}, {}, {}, {})
    envs = ("frozen_lake", "peg_jump", "rotate_matrix", "spiral_matrix", "addition_table")
    Profiles(dict.fromkeys(envs, empty), {}).save(tmp_path / "profiles.json")
    with pytest.raises(FormatError, match="or give --k"):
        baselines.main(tmp_path)
    baselines.main(tmp_path, Settings(k=2, seeds=(0,)), exclude=("addition_table",))
    capsys.readouterr()
    made = {
        m: Selection.load(tmp_path / "selections" / f"{m}.json") for m in ("random_0", "description", "code")
    }
    for s in made.values():
        assert len(s.envs) == 2 and "addition_table" not in s.envs
    assert {p.reason["category"] for p in made["random_0"].picks} == {"games", "algorithmic"}
    assert made["code"].made["settings"] == {"method": "code", "k": 2, "embedder": "tfidf"}
    baselines.main(tmp_path, Settings(k=2, seeds=(0,)), exclude=("addition_table",))
    assert capsys.readouterr().out.count("up to date") == 3
    (tmp_path / "c.json").write_text(json.dumps(dict.fromkeys(envs, "one")))
    baselines.main(tmp_path, Settings(("random",), k=2, seeds=(0,)), categories=tmp_path / "c.json")
    assert "up to date" not in capsys.readouterr().out
