"""The named sets hold what the paper's tables list."""

from collections import Counter

import pytest

import jaxenv
from jaxenv.sets import AES30, MIXED6, OOD8, candidates, least_resolution, legible


def test_sets_are_of_known_environments():
    assert len(set(AES30)) == 30 and len(set(MIXED6)) == 6
    assert set(AES30) | set(MIXED6) <= set(jaxenv.ids())
    assert jaxenv.sets.AES30 is AES30


def test_how_many_are_single_turn():
    single = [e for e in AES30 if jaxenv.make(e, 1024).horizon == 1]
    assert len(single) == 21  # the others play: 9 interactive ones
    assert all(jaxenv.make(e, 1024).horizon == 1 for e in MIXED6)


def test_held_out_environments_are_stratified_and_never_candidates():
    assert len(set(OOD8)) == 8 and set(OOD8) <= set(jaxenv.ids())
    assert set(candidates()) == set(jaxenv.ids()) - set(OOD8) and not set(candidates()) & set(OOD8)
    assert set(MIXED6) <= set(candidates())  # they are trained on, for Tables 1, 11 and 12
    held = Counter(jaxenv.make(e, 2048).category for e in OOD8)
    left = Counter(jaxenv.make(e, 2048).category for e in candidates())
    assert set(held.values()) == {1} and all(left[category] >= 2 for category in held)
    assert set(left) == {jaxenv.make(e, 2048).category for e in jaxenv.ids()}


def test_held_out_environments_are_of_both_kinds_and_small():
    interactive = [e for e in OOD8 if jaxenv.make(e, 2048).horizon > 1]
    assert interactive == ["rush_hour", "lava_gap"]
    assert set(OOD8) <= set(legible(64)) and set(MIXED6) <= set(legible(64))


def test_unknown_environments_cannot_be_held_out():
    with pytest.raises(ValueError, match="atlantis"):
        candidates(("lava_gap", "atlantis"))


def test_legible_environments_are_those_that_can_be_made():
    for resolution in (40, 64):
        found = legible(resolution)
        for e in jaxenv.ids():
            assert (e in found) == (least_resolution(e) <= resolution)
            if e in found:
                assert jaxenv.make(e, resolution).num_levels > 0
            else:
                with pytest.raises(ValueError, match="not legible"):
                    jaxenv.make(e, resolution)
    assert legible(2048) == tuple(jaxenv.ids())
