"""RLVE's adaptive difficulty at harness 4 (Zeng et al., 2025; `slime/ray/rollout_data_source.py` of its code)."""

from dataclasses import dataclass

from curriculum.hdc import HDC, Axes, Compare


@dataclass(frozen=True, kw_only=True)
class RLVE(HDC):
    """RLVE's rule: levels uniform over the last four; at least 8 groups of the hardest; a mean of at least 0.9.

    The window is emptied after every check; the difficulty rises by at most one per update and never falls.
    Two differences: the difficulty ends at the target, RLVE's has no limit, and there a passed check only marks the
    environment as mastered; groups drawn before the last rise are ignored, as in all of HDC, where RLVE compares the
    difficulty alone (the same thing here, since it never returns to a level).
    """

    axes: Axes = "scale"
    window: int = 3
    tau_scale: float = 0.9
    tau_harness: float = 0.9
    min_prompts: int = 8
    compare: Compare = ">="


CURRICULUM = RLVE
