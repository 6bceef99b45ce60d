"""Profile vectors and similarities by hand."""

import math

import numpy as np
import pytest

from aes import profile
from aes.embed import Bag
from aes.formats import FormatError, Matrix, Profile, Profiles
from aes.profile import Settings, similarity, vectors

A = Profile(10, {"see": 1.0}, {"say": 0.5}, {("see", "say"): 0.4}, {})
B = Profile(10, {"see": 0.8, "say": 0.6}, {}, {("say", "see"): 1.0}, {"run": 0.05})
EMPTY = Profile(10, {}, {}, {}, {"run": 0.05})
PROFILES = Profiles({"a": A, "b": B, "c": EMPTY}, {"stage": "merge"})


def test_similarity_by_hand():
    values = similarity(PROFILES, Bag()).values
    # a: see 1, say 0.3 * 0.5, "see then say" 0.3 * 0.4; b: see 0.8, say 0.6, "say then see" 0.3.
    expected = (1 * 0.8 + 0.15 * 0.6) / math.sqrt(1 + 0.15**2 + 0.12**2) / math.sqrt(0.8**2 + 0.6**2 + 0.3**2)
    np.testing.assert_allclose(values[0, 1], expected)
    np.testing.assert_allclose(np.diag(values), [1, 1, 0], atol=1e-12)
    assert not values[2].any()


def test_weights_can_be_set():
    only_edges = similarity(PROFILES, Bag(), Settings(core=0, soft=0, edges=1)).values
    assert only_edges[0, 1] == 0 and only_edges[0, 0] == pytest.approx(1)
    with pytest.raises(ValueError, match="all 0"):
        Settings(core=0, soft=0, edges=0)
    with pytest.raises(ValueError, match="soft must not be negative"):
        Settings(soft=-1)


def test_centering_spreads_vectors_that_are_all_alike():
    """Texts whose vectors share a large common part."""

    def embed(texts):
        rows = np.hstack([np.full((len(texts), 1), 3.0), np.eye(len(texts))])
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    alike = similarity(PROFILES, embed).values[0, 1]
    apart = similarity(PROFILES, embed, Settings(center=True)).values[0, 1]
    assert alike > 0.95 and apart < 0.9
    # By hand: a sum of weights w over phi = (3, e_i) / sqrt(10), the mean of all four phi subtracted.
    texts = ["say", "say then see", "see", "see then say"]
    weights = np.asarray([[0.15, 0, 1, 0.12], [0.6, 0.3, 0.8, 0]])
    phi = embed(texts) - embed(texts).mean(axis=0)
    a, b = weights @ phi
    assert apart == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_order_of_environments_does_not_matter():
    turned = Profiles(dict(reversed(PROFILES.envs.items())), {})
    first, second = vectors(PROFILES, Bag()), vectors(turned, Bag())
    np.testing.assert_allclose(first, second[::-1], atol=1e-15)


def test_the_stage(tmp_path, capsys):
    with pytest.raises(FormatError, match=r"aes\.merge"):
        profile.main(tmp_path)
    PROFILES.save(tmp_path / "profiles.json")
    profile.main(tmp_path)
    assert "3 environments, bag; similarity of two environments" in capsys.readouterr().out
    matrix = Matrix.load(tmp_path / "similarity.json", "profile")
    np.testing.assert_allclose(matrix.values, similarity(PROFILES, Bag()).values, atol=1e-6)
    profile.main(tmp_path)
    assert "up to date" in capsys.readouterr().out
    profile.main(tmp_path, Settings(embedder="words"))
    assert "3 environments, words" in capsys.readouterr().out
