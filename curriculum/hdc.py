"""Hierarchical Difficulty Curriculum: scale progression inside, harness weakening outside.

"Beyond Simply Environment Scaling" (arXiv 2608.03571), Section 4 and Algorithm 1. What the paper leaves open
follows RLVE's implementation, on which its inner curriculum is built (Appendix D.3).
"""

import math
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from curriculum.base import (
    HARDEST,
    MAX_GROUPS,
    NUM_HARNESS,
    UNIT,
    Curriculum,
    Request,
    check_choice,
    check_groups,
    check_int,
    check_real,
    check_targets,
    mean_success,
    pick,
    squares_by_env,
    sum_by_env,
)

# Success and thresholds are rounded to whole units, so a mean that equals a threshold on paper may be off by
# just over one unit. Means this close to a threshold (2 units, 7.6e-6) are taken as equal to it.
TOLERANCE = 2

Axes = Literal["both", "scale", "harness"]
PromoteOn = Literal["mean", "lower"]
ResetTo = Literal["zero", "lower"]
Count = Literal["frontier", "any_harness"]
Compare = Literal[">", ">="]


@struct.dataclass
class State:
    """Progress of E environments: the paper's (r_e, l_e, u_e); l_e = max(0, u_e - window) is not stored."""

    r: Array  # i32[E] harness frontier, 0..4
    u: Array  # i32[E] scale frontier, 0..target
    target: Array  # i32[E] hardest scale level, 0 without scale
    stage: Array  # i32[E] promotions since init; the tag that requests carry
    count: Array  # i32[E] groups in the current window
    total: Array  # i32[E] their summed success, in units of 1 / UNIT
    squares: Array  # i32[E] their summed squared success, in units of 1 / UNIT; 0 unless promote_on="lower"
    mastered: Array  # bool[E] passed tau_harness at (r, u) = (4, target)
    prompts: Array  # i32[E] finished groups since init, of any harness, level and stage


@dataclass(frozen=True, kw_only=True)
class HDC(Curriculum):
    """Settings of HDC. The defaults fit the paper's budget of 256 prompts per environment.

    Algorithm 1's l_e = 0: any `window` at least as large as the targets.

    An update promotes an environment at most once, and a harness step needs a window collected at the target
    level: lines 13 and 15 of Algorithm 1 never fire on the same p_e, which would skip the hardest level.
    There is no demotion. At (r, u) = (4, target) a passed check only sets `mastered`; sampling goes on.

    promote_on="lower" asks more than the paper. Rollouts of one group share the instance and succeed or fail
    together, so a group is one observation, however many rollouts it has: at true success 0.5 with all-or-nothing
    groups, a mean over 4 groups passes 0.75 in 6% of the checks, and checks repeat until one passes. The lower
    bound is mean - z * standard error of group means, over the window and one imaginary group of success 0.
    The imaginary group keeps the bound from collapsing where all groups agree: n groups of success 1 have bound
    (n - z) / (n + 1), close to the exact binomial one, where the plain formula has 1. So at confidence 0.9 no
    window below 9 groups passes 0.75; for groups whose rollouts are independent that is cautious. A window whose
    mean passes and whose bound does not is undecided: it keeps growing, up to `patience` times min_prompts, and is
    emptied as soon as its mean fails.
    """

    axes: Axes = "both"
    """What moves (Table 5). "scale": always harness 4. "harness": always the target level."""
    p_cur: float = 0.7
    """Probability of the frontier harness, (0, 1]; the rest goes to easier ones (Section 4.1)."""
    alpha: float = 1.0
    """Decay of the easier harnesses, [0, inf): weight exp(-alpha * (r - h))."""
    window: int = 1
    """The paper's Delta d, >= 0: levels are drawn from max(0, u - window)..u, both included."""
    tau_scale: float = 0.75
    """Mean success that moves the scale frontier, [0, 1] (below 1 with compare=">")."""
    tau_harness: float = 0.75
    """Mean success at the target level that moves the harness frontier, [0, 1] (below 1 with compare=">")."""
    min_prompts: int = 4
    """Groups per check. The window is emptied after every check, passed or not (but see `promote_on`)."""
    promote_on: PromoteOn = "mean"
    """What must pass a threshold: the window's mean (Algorithm 1), or also its lower confidence bound."""
    confidence: float = 0.9
    """One-sided level of the lower bound, [0.5, 0.999]."""
    patience: int = 8
    """promote_on="lower": how many times min_prompts an undecided window may grow to; 1: it is emptied at once."""
    reset_to: ResetTo = "zero"
    """Where u restarts after a harness step: level 0, or the lower end of the window at the target."""
    count: Count = "frontier"
    """Which harnesses count as performance: the frontier's, or all that are drawn (inflates the mean)."""
    compare: Compare = ">"
    """How a mean passes a threshold: strictly above it (Algorithm 1) or at least equal (RLVE)."""
    mastered_weight: float = 1.0
    """Weight of a mastered environment in the draw of environments, (0, 1]; others have 1."""

    def __post_init__(self) -> None:
        """Raises ValueError for a setting out of range."""
        check_choice("axes", self.axes, get_args(Axes))
        check_choice("promote_on", self.promote_on, get_args(PromoteOn))
        check_choice("reset_to", self.reset_to, get_args(ResetTo))
        check_choice("count", self.count, get_args(Count))
        check_choice("compare", self.compare, get_args(Compare))
        check_real("p_cur", self.p_cur, 0.0, 1.0, open_low=True)
        check_real("mastered_weight", self.mastered_weight, 0.0, 1.0, open_low=True)
        check_real("alpha", self.alpha, 0.0, math.inf)
        check_real("confidence", self.confidence, 0.5, 0.999)
        check_int("patience", self.patience, 1, MAX_GROUPS)
        # No mean is strictly above 1, no lower bound reaches it: the curriculum would be frozen unnoticed.
        highest = 0.9999 if self.compare == ">" or self.promote_on == "lower" else 1.0
        check_real("tau_scale", self.tau_scale, 0.0, highest)
        check_real("tau_harness", self.tau_harness, 0.0, highest)
        check_int("window", self.window, 0, np.iinfo(np.int32).max)
        check_int("min_prompts", self.min_prompts, 1, MAX_GROUPS // 2)
        if self._longest > MAX_GROUPS // 2:
            limit = MAX_GROUPS // 2 // self.min_prompts
            raise ValueError(f"patience must be at most {limit} at these min_prompts, got {self.patience}")

    @property
    def _longest(self) -> int:
        """Groups that no window outgrows before an update."""
        return self.min_prompts * (self.patience if self.promote_on == "lower" else 1)

    def init(self, targets: Any) -> State:
        """State of E environments at harness 0 and level 0, or at the end of an axis that does not move.

        See `Curriculum.init`.
        """
        target = check_targets(targets)
        zeros = partial(jnp.zeros, target.shape)
        return State(
            r=jnp.full(target.shape, HARDEST if self.axes == "scale" else 0, jnp.int32),
            u=jnp.asarray(target) if self.axes == "harness" else zeros(jnp.int32),
            target=jnp.asarray(target),
            stage=zeros(jnp.int32),
            count=zeros(jnp.int32),
            total=zeros(jnp.int32),
            squares=zeros(jnp.int32),
            mastered=zeros(jnp.bool_),
            prompts=zeros(jnp.int32),
        )

    def harness_table(self) -> np.ndarray:
        """f64[5, 5]: row r is D_e(h | r) of Section 4.1; D_e(0 | 0) = 1, which the paper leaves undefined.

        With axes="scale" easier harnesses are never drawn.
        """
        h = np.arange(NUM_HARNESS)
        table = np.eye(NUM_HARNESS)
        if self.axes == "scale":
            return table
        for r in range(1, NUM_HARNESS):
            # A softmax over h < r, largest logit (h = r - 1) subtracted: a steep alpha cannot give 0 / 0.
            weight = np.where(h < r, np.exp(-self.alpha * np.maximum(r - 1 - h, 0)), 0.0)
            table[r] = self.p_cur * table[r] + (1.0 - self.p_cur) * weight / weight.sum()
        return table

    @partial(jax.jit, static_argnames=("self", "batch"))
    def sample(self, key: Array, state: State, batch: int) -> Request:
        """Algorithm 1, lines 6-9: environment, harness, level and seed of `batch` prompts."""
        k_draw, k_seed = jax.random.split(key)
        draw_env, draw_harness, draw_level = jax.random.uniform(k_draw, (3, batch), jnp.float32)
        env = self._pick_env(draw_env, state)
        r, u = state.r[env], state.u[env]
        # Inverse distribution function: the harness is the number of bounds passed. Bounds at h >= r round to
        # exactly 1 in f32 and are never passed, so h <= r.
        bounds = np.cumsum(self.harness_table(), axis=1)[:, :-1].astype(np.float32)
        harness = jnp.sum(draw_harness[:, None] >= jnp.asarray(bounds)[r], axis=1, dtype=jnp.int32)
        lower = self._lower(u)
        level = lower + pick(draw_level, u - lower + 1)
        seed = jax.random.bits(k_seed, (batch,), jnp.uint32)
        return Request(env=env, harness=harness, level=level, seed=seed, stage=state.stage[env])

    @partial(jax.jit, static_argnames=("self",))
    def update(
        self, state: State, request: Request, success: Array, reward: Array
    ) -> tuple[State, dict[str, Array]]:
        """Algorithm 1, lines 11-17; see `Curriculum.update`. The reward is not used.

        Only groups at the frontier (level u, harness r, current stage) count as performance. Groups drawn
        before the last promotion are of an older stage and ignored, so late results are harmless.

        Returns:
            The state, and per environment: harness i32 and level i32 (the frontier after the update),
            frontier_success f32 (mean over the window, before it is emptied by a check; nan without groups),
            scale_promoted bool, harness_promoted bool, mastered bool, prompts i32, trained i32.
        """
        check_groups(request, success, reward, MAX_GROUPS - self._longest)
        env = request.env
        counts = (request.stage == state.stage[env]) & (request.level == state.u[env])
        if self.count == "frontier":
            counts = counts & (request.harness == state.r[env])
        finished, fresh, gained = sum_by_env(request, success, counts, state.r.shape[0])
        count, total, squares = state.count + fresh, state.total + gained, state.squares
        at_target = state.u == state.target
        passed = self._passes_here(total, count, at_target)
        closed = checked = count >= self.min_prompts
        if self.promote_on == "lower":
            squares = squares + squares_by_env(request, success, counts, state.r.shape[0])
            sure = self._passes_here(total - self._margin(total, squares, count), count + 1, at_target)
            closed = checked & (sure | ~passed | (count >= self._longest))
            passed = passed & sure
        scale_promoted = checked & passed & ~at_target
        harness_passed = checked & passed & at_target
        hardest = state.r == HARDEST
        harness_promoted = harness_passed & ~hardest
        to_lower = self.reset_to == "lower" or self.axes == "harness"
        restart = self._lower(state.target) if to_lower else jnp.zeros_like(state.u)

        state = state.replace(
            r=state.r + harness_promoted.astype(jnp.int32),
            u=jnp.where(harness_promoted, restart, state.u + scale_promoted.astype(jnp.int32)),
            stage=state.stage + (scale_promoted | harness_promoted).astype(jnp.int32),
            count=jnp.where(closed, 0, count),
            total=jnp.where(closed, 0, total),
            squares=jnp.where(closed, 0, squares),
            mastered=state.mastered | (harness_passed & hardest),
            prompts=state.prompts + finished,
        )
        metrics = {
            "harness": state.r,
            "level": state.u,
            "frontier_success": mean_success(total, count),
            "scale_promoted": scale_promoted,
            "harness_promoted": harness_promoted,
            "mastered": state.mastered,
            "prompts": state.prompts,
            "trained": state.prompts,
        }
        return state, metrics

    def _pick_env(self, draw: Array, state: State) -> Array:
        num_envs = state.r.shape[0]
        if self.mastered_weight == 1.0:
            return pick(draw, num_envs)
        bounds = jnp.cumsum(jnp.where(state.mastered, jnp.float32(self.mastered_weight), jnp.float32(1.0)))
        env = jnp.searchsorted(bounds, draw * bounds[-1], side="right").astype(jnp.int32)
        return jnp.minimum(env, num_envs - 1)  # rounding may carry a draw to the last bound itself

    def _lower(self, level: Array) -> Array:
        return level if self.axes == "harness" else jnp.maximum(level - self.window, 0)

    def _passes_here(self, total: Array, count: Array, at_target: Array) -> Array:
        """bool[E] whether total / count passes the threshold of the axis that is next to move."""
        scale = self._passes(total, count, self.tau_scale)
        return jnp.where(at_target, self._passes(total, count, self.tau_harness), scale)

    def _margin(self, total: Array, squares: Array, count: Array) -> Array:
        """i32[E] units by which `total` exceeds its lower bound over N = count + 1 groups, one of success 0.

        N * z * standard error of the mean = z * sqrt((N * sum of squares - sum ** 2) / (N - 1)), in whole units
        upwards. The imaginary group keeps the difference at or above the sum of squares: nothing cancels.
        """
        n = jnp.maximum(count, 1).astype(jnp.float32)
        total, squares = total.astype(jnp.float32) / UNIT, squares.astype(jnp.float32) / UNIT
        spread = jnp.sqrt(jnp.maximum((n + 1.0) * squares - total * total, 0.0) / n)
        return jnp.ceil(NormalDist().inv_cdf(self.confidence) * UNIT * spread).astype(jnp.int32)

    def _passes(self, total: Array, count: Array, threshold: float) -> Array:
        """bool[E] total / count > threshold (or >=) in whole units: the same on every backend."""
        above = total - count * round(threshold * UNIT)
        slack = TOLERANCE * count
        return above > slack if self.compare == ">" else above >= -slack


CURRICULUM = HDC
