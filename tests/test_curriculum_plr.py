"""PLR: jaxued's rules in plain Python, and its weights by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curriculum.plr import PLR
from curriculum.plr_robust import RobustPLR

TARGETS = [3, 2, 0, 1]


def test_rank_weights_by_hand():
    config = PLR(capacity=5, temperature=1.0)
    score = jnp.asarray([0.1, 0.25, 0.2, 0.0, -jnp.inf], jnp.float32)
    weights = config.score_weights(score, jnp.int32(4))  # ranks 3, 1, 2, 4
    np.testing.assert_allclose(weights, np.array([1 / 3, 1, 1 / 2, 1 / 4, 0]) / (25 / 12), rtol=1e-6)
    steep = PLR(capacity=5, temperature=0.5).score_weights(score, jnp.int32(4))
    np.testing.assert_allclose(steep, np.array([1 / 9, 1, 1 / 4, 1 / 16, 0]) / (205 / 144), rtol=1e-6)
    ties = config.score_weights(jnp.zeros(5, jnp.float32), jnp.int32(5))  # by slot
    np.testing.assert_allclose(ties, 1 / np.arange(1, 6) / (137 / 60), rtol=1e-6)
    best = PLR(capacity=5, prioritization="top_k", top_k=2).score_weights(score, jnp.int32(4))
    np.testing.assert_allclose(
        best, np.exp([-np.inf, 0.25, 0.2, -np.inf, -np.inf]) / np.exp([0.25, 0.2]).sum()
    )
    assert not config.score_weights(score, jnp.int32(0)).any()


def test_staleness_weights_by_hand():
    config = PLR(capacity=4, staleness=0.3, temperature=1.0)
    stale = config.staleness_weights(jnp.asarray([7, 10, 4, 0], jnp.int32), jnp.int32(3), jnp.int32(10))
    np.testing.assert_allclose(stale, [3 / 9, 0, 6 / 9, 0], rtol=1e-6)
    fresh = config.staleness_weights(jnp.full((4,), 10, jnp.int32), jnp.int32(3), jnp.int32(10))
    np.testing.assert_allclose(fresh, [1 / 3] * 3 + [0], rtol=1e-6)
    by_score = jnp.asarray([0.5, 0.3, 0.2, 0.0], jnp.float32)
    both = config.weights(by_score, jnp.asarray([7, 10, 4, 0], jnp.int32), jnp.int32(3), jnp.int32(10))
    np.testing.assert_allclose(
        both, 0.7 * np.array([0.5, 0.3, 0.2, 0]) + 0.3 * np.array([1, 0, 2, 0]) / 3, rtol=1e-6
    )


class Twin:
    """The level sampler: lists that grow to the capacity."""

    def __init__(self, config):
        self.config = config
        self.instances, self.scores, self.stamps = [], [], []
        self.count = 0
        self.refused = self.replaced = self.stale = 0

    def weights(self):
        n, rho = len(self.scores), self.config.staleness
        order = sorted(range(n), key=lambda i: (-self.scores[i], i))
        rank = np.empty(n)
        rank[order] = np.arange(1, n + 1)
        if self.config.prioritization == "rank":
            by_score = (1 / rank) ** (1 / self.config.temperature)
        else:
            by_score = np.where(rank <= self.config.top_k, np.exp(self.scores), 0)
        age = np.array([self.count - stamp for stamp in self.stamps], float)
        age = age if age.sum() else np.ones(n)
        return (1 - rho) * by_score / by_score.sum() + rho * age / age.sum()

    def update(self, groups):
        for instance, slot, score in groups:
            if slot >= 0:
                if slot >= len(self.instances) or self.instances[slot] != instance:
                    self.stale += 1
                    continue
                self.write(slot, instance, score)
            elif instance in self.instances:
                self.write(self.instances.index(instance), instance, score)
            elif len(self.instances) < self.config.capacity:
                self.instances.append(None), self.scores.append(None), self.stamps.append(None)
                self.write(len(self.instances) - 1, instance, score)
            else:
                least = int(np.argmin(self.weights()))
                if score > self.scores[least]:
                    self.replaced += 1
                    self.write(least, instance, score)
                else:
                    self.refused += 1
                    self.count += 1

    def write(self, slot, instance, score):
        self.count += 1
        self.instances[slot], self.scores[slot], self.stamps[slot] = instance, score, self.count


def agrees(state, twin):
    n = len(twin.instances)
    assert int(state.size) == n and int(state.groups) == twin.count
    stored = zip(*(np.asarray(x)[:n].tolist() for x in jax.tree.leaves(state.instances)), strict=True)
    assert list(stored) == twin.instances
    np.testing.assert_array_equal(state.score[:n], np.float32(twin.scores))
    np.testing.assert_array_equal(state.timestamp[:n], twin.stamps)


SETTINGS = {
    "rank": PLR(capacity=12, replay_prob=0.5, fill=0.5, temperature=0.7),
    "top_k": RobustPLR(capacity=12, replay_prob=0.5, fill=0.5, prioritization="top_k", staleness=0.1),
}


@pytest.mark.parametrize("config", SETTINGS.values(), ids=SETTINGS)
def test_agrees_with_the_twin(config):
    twin, state = Twin(config), config.init(TARGETS)
    rng = np.random.default_rng(0)
    replays, earlier = 0, []
    for key in jax.random.split(jax.random.key(1), 80):
        request = jax.device_get(config.sample(key, state, 6))
        replayed = request.stage >= 0
        assert replayed.all() or not replayed.any()  # a batch is one or the other
        instances = list(
            zip(request.env.tolist(), request.level.tolist(), request.seed.tolist(), strict=True)
        )
        if replayed.any():
            replays += 1
            assert len(twin.instances) >= 6
            assert instances == [twin.instances[slot] for slot in request.stage]
        elif rng.random() < 0.2:  # the same instance twice in a batch: the second one re-scores
            request = jax.tree.map(lambda x: np.concatenate([x[:5], x[:1]]), request)
            instances = instances[:5] + instances[:1]
        if earlier and rng.random() < 0.3:  # a batch that comes back late
            request, instances = earlier.pop(0)
        elif rng.random() < 0.2:
            earlier.append((request, instances))
            continue
        success = np.float32(rng.integers(0, 17, 6)) / np.float32(16)
        expected = np.full(6, True) if not config.robust else request.stage >= 0
        np.testing.assert_array_equal(config.trains(state, request, success, success), expected)
        scores = success * (np.float32(1) - success)
        twin.update(list(zip(instances, request.stage.tolist(), scores, strict=True)))
        state, metrics = config.update(state, request, jnp.asarray(success), jnp.asarray(success))
        agrees(state, twin)
        assert metrics["stored"].sum() == len(twin.instances)
    assert replays > 20 and twin.replaced > 10 and twin.refused > 10 and twin.stale > 3
    np.testing.assert_allclose(
        config.weights(
            config.score_weights(state.score, state.size), state.timestamp, state.size, state.groups
        ),
        twin.weights(),
        rtol=1e-5,
    )


def test_replays_follow_the_weights_and_avoid_what_was_just_drawn():
    config = PLR(capacity=4, replay_prob=1.0, fill=1.0, temperature=1.0, staleness=0.5)
    state = config.init([0])
    request = config.sample(jax.random.key(0), state, 4)
    success = jnp.asarray([0.5, 0.25, 0.125, 0.0], jnp.float32)
    state, _ = config.update(state, request, success, success)  # ages 3, 2, 1, 0
    keys = jax.random.split(jax.random.key(1), 4000)
    slots = np.asarray(jax.vmap(lambda key: config.sample(key, state, 2).stage)(keys))
    ranks = np.array([1, 1 / 2, 1 / 3, 1 / 4]) / (25 / 12)
    first = 0.5 * ranks + 0.5 * np.array([3, 2, 1, 0]) / 6
    np.testing.assert_allclose(np.bincount(slots[:, 0], minlength=4) / 4000, first, atol=0.03)
    # After slot 0 was drawn its age is 0 and the others are one older.
    second = 0.5 * ranks + 0.5 * np.array([0, 3, 2, 1]) / 6
    after = slots[slots[:, 0] == 0, 1]
    np.testing.assert_allclose(np.bincount(after, minlength=4) / len(after), second, atol=0.03)


def test_nothing_is_replayed_before_the_buffer_is_filled():
    config = PLR(capacity=8, replay_prob=1.0, fill=0.5)
    state = config.init([0])
    for stored in (0, 3):
        assert int(state.size) == stored
        assert (config.sample(jax.random.key(stored), state, 3).stage == -1).all()
        request = config.sample(jax.random.key(stored), state, 3)
        success = jnp.full((3,), 0.5, jnp.float32)
        state, _ = config.update(state, request, success, success)
    assert (config.sample(jax.random.key(9), state, 3).stage >= 0).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base_scale", "hard"),
        ("capacity", 0),
        ("replay_prob", 1.5),
        ("fill", 0.0),
        ("staleness", -0.1),
        ("prioritization", "topk"),
        ("temperature", 0.0),
        ("top_k", 0),
        ("top_k", 2000),
    ],
)
def test_invalid_settings(field, value):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        PLR(**{field: value})
