"""Checkpoints come back bit for bit, and what does not fit or is not whole is refused or left out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from agents.checkpoint import Checkpoints
from curriculum.hdc import HDC


@struct.dataclass
class Learner:
    params: dict
    reference: dict | None


def tree(seed=0):
    rng = np.random.default_rng(seed)
    params = {
        "w": jnp.asarray(rng.normal(size=(3, 4)), jnp.float32),
        "half": jnp.asarray(rng.normal(size=5), jnp.bfloat16),
    }
    return {
        "params": params,
        "learner": Learner(params, None),
        "key": jax.random.key(seed),
        "keys": jax.random.split(jax.random.key(seed, impl="rbg"), 3),
        "curriculum": HDC().init(np.asarray([2, 0, 5])),
        "update": np.int64(seed + 2**40),
        "flag": np.asarray([True, False]),
    }


def equal(a, b):
    for (path, x), (_, y) in zip(*map(jax.tree_util.tree_leaves_with_path, (a, b)), strict=True):
        name = jax.tree_util.keystr(path)
        assert (
            x.dtype == y.dtype and x.shape == y.shape and isinstance(x, jax.Array) == isinstance(y, jax.Array)
        ), name
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), name


@pytest.fixture
def checkpoints(tmp_path):
    made = Checkpoints(tmp_path / "checkpoints")
    yield made
    made.close()


def test_round_trip(checkpoints):
    assert checkpoints.latest is None
    checkpoints.save(3, tree(0))
    checkpoints.save(5, tree(1))
    assert checkpoints.latest == 5
    equal(checkpoints.restore(tree(7)), tree(1))
    equal(checkpoints.restore(tree(7), step=3), tree(0))
    restored = checkpoints.restore(tree(7))
    assert jax.random.key_impl(restored["keys"]) == jax.random.key_impl(tree()["keys"])
    np.testing.assert_array_equal(
        jax.random.key_data(jax.random.split(restored["key"])),
        jax.random.key_data(jax.random.split(jax.random.key(1))),
    )
    assert int(restored["update"]) == 1 + 2**40


def test_the_newest_are_kept_across_processes(tmp_path):
    first = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        first.save(step, {"w": jnp.full(2, step)})
    first.close()
    again = Checkpoints(tmp_path, keep=2)
    assert again.latest == 3
    assert sorted(int(p.name) for p in tmp_path.iterdir() if p.name.isdigit()) == [2, 3]
    np.testing.assert_array_equal(again.restore({"w": jnp.zeros(2, jnp.int32)}, 2)["w"], [2, 2])
    again.save(4, {"w": jnp.full(2, 4)})
    assert again.latest == 4
    again.close()


def test_saving_a_step_that_exists_is_an_error(checkpoints):
    checkpoints.save(3, {"w": jnp.zeros(2)})
    with pytest.raises(ValueError, match="3"):
        checkpoints.save(3, {"w": jnp.ones(2)})
    np.testing.assert_array_equal(checkpoints.restore({"w": jnp.ones(2)})["w"], [0, 0])


def test_what_does_not_fit_is_refused(checkpoints):
    with pytest.raises(FileNotFoundError):
        checkpoints.restore({"w": jnp.zeros(2)})
    checkpoints.save(1, {"w": jnp.zeros((2, 3)), "b": jnp.zeros(1)})
    with pytest.raises(ValueError, match=r"missing.*'c'"):
        checkpoints.restore({"w": jnp.zeros((2, 3)), "b": jnp.zeros(1), "c": jnp.zeros(1)})
    with pytest.raises(ValueError, match=r"unknown.*'b'"):
        checkpoints.restore({"w": jnp.zeros((2, 3))})
    for other in (jnp.zeros((3, 2)), jnp.zeros((2, 3), jnp.int32), jnp.zeros((2, 3), jnp.bfloat16)):
        with pytest.raises(ValueError, match=r"'w'.* is float32\(2, 3\), not"):
            checkpoints.restore({"w": other, "b": jnp.zeros(1)})


def test_a_part_can_be_restored(checkpoints):
    checkpoints.save(1, tree(4))
    part = checkpoints.restore({"params": tree()["params"]}, part=True)
    equal(part, {"params": tree(4)["params"]})
    with pytest.raises(ValueError, match="missing"):
        checkpoints.restore({"params": {**tree()["params"], "more": jnp.zeros(1)}}, part=True)


def test_half_written_checkpoints_are_left_out(tmp_path):
    first = Checkpoints(tmp_path)
    first.save(2, {"w": jnp.zeros(2)})
    first.close()
    torn = tmp_path / "4.orbax-checkpoint-tmp-17"
    torn.mkdir()
    (torn / "default").mkdir()
    (torn / "default" / "manifest.ocdbt").write_bytes(b"\0" * 7)
    again = Checkpoints(tmp_path)
    assert again.latest == 2
    np.testing.assert_array_equal(again.restore({"w": jnp.ones(2)})["w"], [0, 0])
    again.save(4, {"w": jnp.full(2, 4.0)})
    assert again.latest == 4
    again.close()
