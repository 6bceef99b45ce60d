"""ADCL: a plain-Python twin of rating, sorting and training, and its order by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curriculum.adcl import ADCL


class Twin:
    """Phases in plain Python."""

    def __init__(self, pool, batches):
        self.pool, self.size = pool, pool // batches
        self.batches = batches
        self.order = list(range(pool))
        self.estimate = {}
        self.phase, self.done = 0, set()

    def segment(self):
        if self.phase == 0:
            return slice(0, self.pool)
        start = self.phase // 2 % self.batches * self.size
        return slice(start, start + self.size)

    def next(self, count):
        mine = self.order[self.segment()]
        queue = [i for i in mine if i not in self.done] + [i for i in mine if i in self.done]
        return [queue[i % len(queue)] for i in range(count)]

    def update(self, groups):
        results = {}
        for phase, index, success in groups:
            if phase == self.phase:
                results.setdefault(index, []).append(success)
        self.done |= set(results)
        rating = self.phase % 2 == 0
        if rating:
            self.estimate |= {i: sum(r) / len(r) for i, r in results.items()}
        mine = self.order[self.segment()]
        if set(mine) <= self.done:
            if rating:
                self.order[self.segment()] = sorted(mine, key=lambda i: (-self.estimate[i], i))
            self.phase, self.done = self.phase + 1, set()


@pytest.mark.parametrize("batch", [5, 8])
def test_agrees_with_the_twin(batch):
    config = ADCL(pool=18, batches=3, pool_seed=1)
    state, twin = config.init([2, 0, 3]), Twin(18, 3)
    rng = np.random.default_rng(batch)
    pool = list(zip(state.env.tolist(), state.level.tolist(), state.seed.tolist(), strict=True))
    assert len(set(pool)) == 18
    late = None
    for step, key in enumerate(jax.random.split(jax.random.key(0), 60)):
        request = jax.device_get(config.sample(key, state, batch))
        index = (request.stage % 18).tolist()
        assert index == twin.next(batch) and (request.stage // 18 == twin.phase).all()
        rows = zip(request.env.tolist(), request.level.tolist(), request.seed.tolist(), strict=True)
        assert list(rows) == [pool[i] for i in index]
        if step % 9 == 8 and late is not None:  # results of an earlier phase
            request = late
        elif step % 9 == 0:
            late = request
        success = np.float32(rng.integers(0, 5, batch)) / np.float32(4)  # many ties
        success[rng.random(batch) < 0.1] = np.nan
        now = request.stage // 18 == twin.phase
        np.testing.assert_array_equal(
            config.trains(state, request, success, success),
            now & np.isfinite(success) & (twin.phase % 2 == 1),
        )
        groups = zip(
            (request.stage // 18).tolist(), (request.stage % 18).tolist(), success.tolist(), strict=True
        )
        twin.update([group for group in groups if np.isfinite(group[2])])
        state, _ = config.update(state, request, jnp.asarray(success), jnp.asarray(success))
        assert int(state.phase) == twin.phase and state.order.tolist() == twin.order
        assert set(np.flatnonzero(state.done)) == twin.done
    assert twin.phase > 8  # beyond the first pass


def test_order_by_hand():
    config = ADCL(pool=6, batches=2)
    state = config.init([1])

    def give(state, results):
        """Answers each row by its index in the pool."""
        request = config.sample(jax.random.key(0), state, 6 if int(state.phase) == 0 else 3)
        index = (request.stage % 6).tolist()
        success = jnp.asarray([results[i] for i in index], jnp.float32)
        return (
            index,
            config.trains(state, request, success, success).any(),
            config.update(state, request, success, success)[0],
        )

    first = {0: 0.25, 1: 1.0, 2: 0.0, 3: 0.75, 4: 0.25, 5: 0.5}
    index, trains, state = give(state, first)
    assert index == [0, 1, 2, 3, 4, 5] and not trains
    assert state.order.tolist() == [1, 3, 5, 0, 4, 2]  # easy to hard
    index, trains, state = give(state, dict.fromkeys(range(6), 0.5))
    assert index == [1, 3, 5] and trains
    # Only the next batch is rated again: what was the hardest has become the easiest.
    index, trains, state = give(state, {0: 0.5, 4: 0.25, 2: 1.0})
    assert index == [0, 4, 2] and not trains
    assert state.order.tolist() == [1, 3, 5, 2, 0, 4]
    index, trains, state = give(state, dict.fromkeys(range(6), 0.5))
    assert index == [2, 0, 4] and trains
    index, trains, state = give(state, {1: 0.1, 3: 0.2, 5: 0.3})  # a next pass
    assert not trains and state.order.tolist() == [5, 3, 1, 2, 0, 4]


@pytest.mark.parametrize(
    ("field", "value"),
    [("base_scale", "hard"), ("pool", 0), ("batches", 0), ("batches", 4096), ("pool_seed", -1)],
)
def test_invalid_settings(field, value):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        ADCL(**{field: value})


def test_batches_divide_the_pool():
    with pytest.raises(ValueError, match=r"^batches must divide pool"):
        ADCL(pool=10, batches=3)
