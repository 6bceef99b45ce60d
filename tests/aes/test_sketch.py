"""Sketches stand for gradients: inner products within their stated error, side by side as one by one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from aes import sketch
from agents import grpo

SIZE = 8192
CONFIG = grpo.Config()


@pytest.fixture(scope="module")
def chunks():
    """Four chunks of 4 prompts with 4 random replies and random advantages, stacked; and their tokens."""
    held, rng = small.setup(), np.random.default_rng(0)
    short = [p for p in small.prompts(16) if len(p.ids) <= small.SHAPES.buckets[0]]
    made = []
    for low in range(0, 16, 4):
        mask = np.ones((16, 3), bool)
        advantage = rng.normal(size=16).astype(np.float32)
        pairs = grpo.Pairs(
            prompt=np.repeat(np.arange(4), 4), tokens=rng.integers(10, 90, (16, 3)), mask=mask,
            sampler=np.zeros((16, 3), np.float32), gain=np.maximum(advantage, 0), loss=np.minimum(advantage, 0),
            count=np.ones(16, np.float32), gains=(advantage > 0).astype(np.float32),
            losses=(advantage < 0).astype(np.float32), live=np.ones(4, bool), total_tokens=48.0,
        )  # fmt: skip
        some = [short[(low + k) % len(short)] for k in range(4)]
        made += grpo.chunks(some, pairs, small.SHAPES, held.policy.config.pad)
    assert len(made) == 4
    return jax.tree.map(lambda *x: np.stack(x), *made), np.full(4, 48.0, np.float32)


@pytest.fixture(scope="module")
def exact(chunks):
    """The gradients themselves, one after the other: trees with a first axis of 4."""
    held = small.setup()

    def one(chunk, count):
        return jax.grad(lambda p: grpo.objective(held.policy, CONFIG, p, chunk, jnp.bool_(True), count)[0])(
            held.params
        )

    return jax.jit(lambda chunks, counts: jax.lax.map(lambda x: one(*x), (chunks, counts)))(*chunks)


def cosines(rows):
    rows = np.asarray(rows, np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def test_a_sketch_is_linear_and_belongs_to_its_key():
    tree = {"a": jax.random.normal(jax.random.key(0), (30, 7)), "b": jnp.arange(5.0)}
    other = jax.tree.map(lambda x: x[::-1] * 2, tree)
    make = partial(sketch.sketch, key=jax.random.key(3), size=64)
    both = jax.tree.map(lambda x, y: x - 3 * y, tree, other)
    np.testing.assert_allclose(make(both), make(tree) - 3 * make(other), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jax.jit(make)(tree), make(tree), rtol=1e-6, atol=1e-6)
    assert not np.allclose(make(tree), sketch.sketch(tree, jax.random.key(4), 64))
    assert make(tree).shape == (64,)


def test_inner_products_are_right_on_average():
    x, y = (jax.random.normal(jax.random.key(i), (500,)) for i in (0, 1))
    inner = jax.jit(jax.vmap(lambda k: sketch.sketch(x, k, 32) @ sketch.sketch(y, k, 32)))
    products = inner(jax.random.split(jax.random.key(2), 2000))
    spread = float(jnp.linalg.norm(x) * jnp.linalg.norm(y) / np.sqrt(32))
    assert abs(float(products.mean()) - float(x @ y)) < 4 * spread / np.sqrt(2000)
    assert 0.8 * spread < float(products.std()) < 1.25 * spread


def test_cosines_of_sketches_are_those_of_gradients(chunks, exact):
    held, key = small.setup(), jax.random.key(0)
    made = sketch.gradients(held.policy, CONFIG, held.params, *chunks, key, SIZE)
    # Side by side they are what they are one by one.
    alone = [sketch.sketch(jax.tree.map(lambda x, row=row: x[row], exact), key, SIZE) for row in range(4)]
    np.testing.assert_allclose(made, np.stack(alone), rtol=1e-3, atol=1e-4 * float(jnp.abs(made).max()))
    flat = np.concatenate([np.asarray(x).reshape(4, -1) for x in jax.tree.leaves(exact)], axis=1)
    assert np.abs(cosines(made) - cosines(flat)).max() < 4 / np.sqrt(SIZE)
    np.testing.assert_allclose(
        np.linalg.norm(made, axis=1), np.linalg.norm(flat, axis=1), rtol=4 / np.sqrt(SIZE)
    )


def test_fresh_adapters_change_nothing_and_see_the_kernels_gradients(chunks, exact):
    held, rank, key = small.setup(), 3, jax.random.key(5)
    second = sketch.adapters(held.params, rank)
    assert len(second) > 10 and all("kernel" in name for name in second)
    for old, new in zip(
        jax.tree.leaves(held.params), jax.tree.leaves(sketch.adapt(held.params, second, key))
    ):
        np.testing.assert_array_equal(old, new)
    # The gradient of a second factor is the first factor's transpose times the kernel's gradient.
    top = {n: jnp.eye(rank, x.shape[1], dtype=jnp.float32) for n, x in second.items()}
    moved = dict(sketch._named(sketch.adapt(held.params, top, key)))
    kernels, whole = dict(sketch._named(held.params)), dict(sketch._named(exact))
    first = {n: (moved[n] - kernels[n])[:, :rank] for n in second}
    expected = [sketch.sketch({n: first[n].T @ whole[n][row] for n in second}, key, SIZE) for row in range(4)]
    made = sketch.gradients(held.policy, CONFIG, held.params, *chunks, key, SIZE, rank)
    np.testing.assert_allclose(made, np.stack(expected), rtol=1e-3, atol=1e-4 * float(jnp.abs(made).max()))
