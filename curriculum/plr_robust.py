"""Robust PLR (PLR-perp): new instances are scored, gradients come from replayed ones (Jiang et al., 2021b)."""

from dataclasses import dataclass

from curriculum.plr import PLR


@dataclass(frozen=True, kw_only=True)
class RobustPLR(PLR):
    """PLR without gradients on new instances. Their rollouts are generated and count as such."""

    robust: bool = True


CURRICULUM = RobustPLR
