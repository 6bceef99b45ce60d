"""The named sets hold what the paper's tables list."""

import jaxenv
from jaxenv.sets import AES30, MIXED6


def test_sets_are_of_known_environments():
    assert len(set(AES30)) == 30 and len(set(MIXED6)) == 6
    assert set(AES30) | set(MIXED6) <= set(jaxenv.ids())
    assert jaxenv.sets.AES30 is AES30


def test_how_many_are_single_turn():
    single = [e for e in AES30 if jaxenv.make(e, 1024).horizon == 1]
    assert len(single) == 21  # the others play: 9 interactive ones
    assert all(jaxenv.make(e, 1024).horizon == 1 for e in MIXED6)
