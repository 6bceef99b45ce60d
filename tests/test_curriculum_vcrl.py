"""VCRL: the published variance, and a plain-Python twin of filter and bank."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curriculum.base import UNIT, Request
from curriculum.vcrl import VCRL

TARGETS = [3, 2, 0, 1]
CONFIG = VCRL(capacity=12, early_steps=8, kappa=0.7)


def kept(kappa, size):
    """Numbers of successes k of `size` whose p reaches kappa."""
    config = VCRL(group_size=size)
    p = np.asarray(config.variance(jnp.arange(size + 1, dtype=jnp.float32) / size))
    return np.flatnonzero(p >= kappa - 1e-6).tolist()


def test_variance_by_hand():
    for size in (5, 6, 16, 17):
        k = np.arange(size + 1)
        unbiased = k * (size - k) / (size * (size - 1))  # the sample variance of k ones and size - k zeros
        largest = (size + 1) / (4 * size) if size % 2 else size / (4 * (size - 1))
        p = VCRL(group_size=size).variance(jnp.asarray(k, jnp.float32) / size)
        np.testing.assert_allclose(p, unbiased / largest, rtol=1e-5, atol=1e-6)
    p = VCRL(group_size=16).variance(jnp.asarray([0, 1 / 16, 1 / 4, 1 / 2, 1], jnp.float32))
    np.testing.assert_allclose(p, [0, 60 / 256, 192 / 256, 1, 0])
    assert kept(0.3, 16) == list(range(2, 15))
    assert kept(0.8, 16) == list(range(5, 12))


def test_kappa_changes_after_the_early_steps():
    config = VCRL(capacity=4, early_steps=2)
    state = config.init([0])
    request = config.sample(jax.random.key(0), state, 4)
    success = jnp.asarray([1, 2, 4, 5], jnp.float32) / 16
    for expected in ([0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]):
        np.testing.assert_array_equal(config.trains(state, request, success, success), expected)
        state, _ = config.update(state, request, success, success)


class Twin:
    """The bank as a list of slots, each None or [instance, priority, replays]."""

    def __init__(self, config):
        self.config = config
        self.slots = [None] * config.capacity
        self.steps = 0
        self.replaced = self.retired = self.stale = 0

    def kappa(self):
        return self.config.kappa_early if self.steps < self.config.early_steps else self.config.kappa

    def best(self, count):
        filled = [i for i, entry in enumerate(self.slots) if entry]
        return sorted(filled, key=lambda i: (-self.slots[i][1], i))[:count]

    def update(self, groups):
        kappa = self.kappa()
        for instance, slot, p in groups:
            if slot >= 0:
                entry = self.slots[slot]
                if entry is None or entry[0] != instance:
                    self.stale += 1
                    continue
                entry[1] += int(np.round(np.float32(1 - self.config.momentum) * np.float32(p - entry[1])))
                entry[2] += 1
                if entry[2] >= self.config.max_replays:
                    self.slots[slot] = None
                    self.retired += 1
            elif p >= (kappa - 1e-6) * UNIT:
                lowest = min(range(len(self.slots)), key=lambda i: self.slots[i][1] if self.slots[i] else -1)
                if self.slots[lowest] is None or p > self.slots[lowest][1]:
                    self.replaced += self.slots[lowest] is not None
                    self.slots[lowest] = [instance, p, 0]
        self.steps += 1


def instances(request):
    return list(zip(request.env.tolist(), request.level.tolist(), request.seed.tolist(), strict=True))


def test_agrees_with_the_twin():
    """Each update gets new rows and replays, some of them after the bank has moved on."""
    twin, state = Twin(CONFIG), CONFIG.init(TARGETS)
    rng = np.random.default_rng(0)
    late: deque = deque()
    for key in jax.random.split(jax.random.key(1), 60):
        new = jax.device_get(CONFIG.sample(key, state, 8))
        replay = jax.device_get(CONFIG.refill(key, state, 8))
        best = twin.best(8)
        assert replay.stage.tolist() == best + [-1] * (8 - len(best))
        assert (replay.env == -1).tolist() == [i >= len(best) for i in range(8)]
        assert instances(replay)[: len(best)] == [twin.slots[i][0] for i in best]
        late.append(replay)
        if len(late) > 2:
            replay = late[rng.integers(len(late) - 1)]
        if len(late) > 3:
            late.popleft()
        rows = jax.tree.map(lambda *x: np.concatenate(x), new, replay)
        wins = rng.integers(0, 17, 16)
        success = np.float32(wins) / np.float32(16)
        p = np.asarray(CONFIG.variance(jnp.asarray(success)))
        trained = np.asarray(CONFIG.trains(state, rows, success, success))
        np.testing.assert_array_equal(trained, (p >= twin.kappa() - 1e-6) & (rows.env >= 0))
        units = np.round(p * UNIT).astype(int).tolist()
        groups = zip(instances(rows), rows.stage.tolist(), units, strict=True)
        twin.update([g for g in groups if g[0][0] >= 0])
        state, metrics = CONFIG.update(state, rows, jnp.asarray(success), jnp.asarray(success))
        np.testing.assert_array_equal(state.priority, [entry[1] if entry else -1 for entry in twin.slots])
        for i, entry in enumerate(twin.slots):
            if entry:
                stored = (int(state.env[i]), int(state.level[i]), int(state.seed[i]))
                assert stored == entry[0] and int(state.replays[i]) == entry[2]
        assert metrics["stored"].sum() == sum(entry is not None for entry in twin.slots)
    assert twin.replaced > 5 and twin.retired > 5 and twin.stale > 5


def test_an_empty_bank_refills_with_nothing():
    request = CONFIG.refill(jax.random.key(0), CONFIG.init(TARGETS), 8)
    assert isinstance(request, Request) and (request.env == -1).all() and (request.stage == -1).all()
    with pytest.raises(ValueError, match="must be at most capacity"):
        CONFIG.refill(jax.random.key(0), CONFIG.init(TARGETS), 13)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("group_size", 1),
        ("base_scale", "hard"),
        ("kappa", 1.1),
        ("kappa_early", -0.1),
        ("momentum", float("nan")),
        ("early_steps", -1),
        ("max_replays", 0),
        ("capacity", 0),
    ],
)
def test_invalid_settings(field, value):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        VCRL(**{field: value})
