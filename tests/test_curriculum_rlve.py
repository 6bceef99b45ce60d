"""RLVE's rule in plain Python, as its code has it, against the preset of HDC."""

import random
from fractions import Fraction

import jax
import jax.numpy as jnp

from curriculum.rlve import RLVE


class Twin:
    """Difficulty d and counters per environment, over rollouts; a rollout is right or wrong."""

    def __init__(self, targets, group_size):
        self.targets, self.group_size = targets, group_size
        self.d = [0] * len(targets)
        self.right = [0] * len(targets)
        self.seen = [0] * len(targets)

    def levels(self, e):
        return range(max(0, self.d[e] - 3), self.d[e] + 1)

    def update(self, groups):
        for e, level, wins in groups:
            if level == self.d[e]:
                self.right[e] += wins
                self.seen[e] += self.group_size
        for e, target in enumerate(self.targets):
            if self.seen[e] >= 8 * self.group_size:
                if Fraction(self.right[e], self.seen[e]) >= Fraction(9, 10):
                    self.d[e] = min(self.d[e] + 1, target)  # RLVE has no limit
                self.right[e] = self.seen[e] = 0


def test_agrees_with_rlve():
    targets, size = [6, 2, 0, 5], 10  # groups of ten reach 0.9 exactly
    config, twin, rng = RLVE(), Twin(targets, size), random.Random(0)
    state = config.init(targets)
    drawn = [set() for _ in targets]
    for key in jax.random.split(jax.random.key(0), 250):
        request = jax.device_get(config.sample(key, state, 24))
        assert (request.harness == 4).all()
        rows = list(zip(request.env.tolist(), request.level.tolist(), strict=True))
        assert all(level in twin.levels(e) for e, level in rows)
        for e, level in rows:
            drawn[e].add((twin.d[e], level))
        chance = rng.choice([0.5, 0.9, 0.95])
        wins = [sum(rng.random() < chance for _ in range(size)) for _ in rows]
        twin.update([(*row, k) for row, k in zip(rows, wins, strict=True)])
        success = jnp.asarray(wins, jnp.float32) / size
        state, metrics = config.update(state, request, success, success)
        assert state.u.tolist() == twin.d and metrics["harness"].tolist() == [4] * 4
        open_ended = [e for e, target in enumerate(targets) if twin.d[e] < target]
        assert [int(state.count[e]) * size for e in open_ended] == [twin.seen[e] for e in open_ended]
    assert twin.d[:3] == [6, 2, 0] and {(5, level) for level in (2, 3, 4, 5)} <= drawn[0]


def test_promotion_by_hand():
    config = RLVE()
    # 0.9 of 8 * 16 rollouts is 115.2
    for wins, climbs in (
        ([16] * 8, True),
        ([16] * 7 + [3], False),
        ([16] * 7 + [4], True),
        ([14] * 8, False),
    ):
        state = config.init([3])
        request = config.sample(jax.random.key(0), state, 8)  # one environment at level 0
        success = jnp.asarray(wins, jnp.float32) / 16
        state, _ = config.update(state, request, success, success)
        assert bool(state.u[0]) == climbs and int(state.count[0]) == 0
