"""HDC without its inner curriculum: harness weakening at full scale ("Harness-only" in Table 5)."""

from dataclasses import dataclass

from curriculum.hdc import HDC, Axes


@dataclass(frozen=True, kw_only=True)
class HarnessOnly(HDC):
    """HDC whose scale frontier is the target from the start. The paper does not give the scale: the target."""

    axes: Axes = "harness"


CURRICULUM = HarnessOnly
