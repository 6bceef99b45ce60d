"""ACCEL: parents, children and their edits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curriculum.accel import ACCEL

TARGETS = [3, 2, 0, 1]
CONFIG = ACCEL(capacity=10, editable=(0, 1, 3), max_edits=2, replay_prob=0.6, fill=0.5)


def identity(request):
    return list(
        zip(
            request.env.tolist(),
            request.level.tolist(),
            request.seed.tolist(),
            request.edits.tolist(),
            strict=True,
        )
    )


def parents_of(request, state):
    """In plain Python: slots of replayed rows that still hold them, may be edited and have room, in slot order."""
    found = set()
    for (env, level, seed, edits), slot in zip(identity(request), request.stage.tolist(), strict=True):
        stored = state.instances
        here = slot >= 0 and (int(stored.env[slot]), int(stored.level[slot]), int(stored.seed[slot])) == (
            env,
            level,
            seed,
        )
        if here and stored.edits[slot].tolist() == edits and env in CONFIG.editable and edits[-1] == 0:
            found.add(slot)
    return sorted(found)


def test_children_of_replayed_parents():
    state, parents = CONFIG.init(TARGETS), []
    rng = np.random.default_rng(0)
    kinds = {"new": 0, "replay": 0, "children": 0}
    depths = set()
    for key in jax.random.split(jax.random.key(2), 90):
        request = jax.device_get(CONFIG.sample(key, state, 6))
        if parents:
            kinds["children"] += 1
            assert (request.stage == -1).all()
            for i, (env, level, seed, edits) in enumerate(identity(request)):
                slot = parents[i % len(parents)]
                before = state.instances.edits[slot].tolist()
                place = before.index(0)
                assert edits[:place] == before[:place] and edits[place] > 0 and not any(edits[place + 1 :])
                stored = state.instances
                assert (env, level, seed) == tuple(
                    int(x[slot]) for x in (stored.env, stored.level, stored.seed)
                )
                depths.add(place + 1)
            assert len(set(map(str, identity(request)))) == 6  # each child has an edit of its own
        elif (request.stage >= 0).any():
            kinds["replay"] += 1
            assert (request.stage >= 0).all()
        else:
            kinds["new"] += 1
            assert not request.edits.any()
        assert request.edits.shape == (6, 2) and request.edits.dtype == np.uint32
        success = np.float32(rng.integers(0, 17, 6)) / np.float32(16)
        trained = CONFIG.trains(state, request, success, success)
        np.testing.assert_array_equal(trained, request.stage >= 0)  # never on new ones or children
        state, _ = CONFIG.update(state, request, jnp.asarray(success), jnp.asarray(success))
        state = jax.device_get(state)
        parents = parents_of(request, state)
        assert np.flatnonzero(state.parents).tolist() == parents
    assert min(kinds.values()) >= 8 and depths == {1, 2}
    assert (state.instances.edits[:, 1] > 0).any() and state.size == 10


def test_no_child_of_what_cannot_be_edited():
    config = ACCEL(capacity=4, editable=(), replay_prob=1.0, fill=0.5)
    state = config.init([1, 1])
    for key in jax.random.split(jax.random.key(0), 4):
        request = config.sample(key, state, 4)
        success = jnp.full((4,), 0.5, jnp.float32)
        state, _ = config.update(state, request, success, success)
        assert not state.parents.any() and not request.edits.any()
    assert (request.stage >= 0).all()


def test_invalid_settings():
    with pytest.raises(ValueError, match="which environments are editable"):
        ACCEL().init([1, 1])
    with pytest.raises(ValueError, match=r"^max_edits must be"):
        ACCEL(editable=(0,), max_edits=0)
    with pytest.raises(ValueError, match=r"^editable must be"):
        ACCEL(editable=(-1,))
    with pytest.raises(ValueError, match=r"^editable must be indices below 2"):
        ACCEL(editable=(0, 2)).init([1, 1])
