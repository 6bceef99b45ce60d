"""HDC without its outer curriculum: scale progression at harness 4 ("Scale-only" in Table 5)."""

from dataclasses import dataclass

from curriculum.hdc import HDC, Axes


@dataclass(frozen=True, kw_only=True)
class ScaleOnly(HDC):
    """HDC whose harness frontier is 4 from the start; no easier harness is ever shown."""

    axes: Axes = "scale"


CURRICULUM = ScaleOnly
