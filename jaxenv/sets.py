"""Named sets of environments: `jaxenv.sets.AES30`, `jaxenv.sets.MIXED6`, `jaxenv.sets.OOD8`."""

from collections.abc import Sequence

from jaxenv.registry import ids, make

LARGEST = 2048  # px: every level of every environment is legible

AES30 = (
    "door_key", "tents_qa", "peg_jump", "arc_1d", "lava_gap", "minimum_spanning_tree_counting", "othello",
    "frozen_lake", "multi_room", "mini_sudoku", "tree_even_partitioning", "sum_triangle_area",
    "matchstick_equation", "knight_swap", "texas_holdem", "hue_qa", "circuit_logic", "weighted_binarytree",
    "nine_puzzle", "math_path", "minimum_chromatic_number", "tree_to_traversal", "chess_ranger_qa", "klo_blocks",
    "rush_hour", "largest_island", "grid_local_minimum_counting", "binary_matrix", "ultra_tictactoe_qa",
    "ska_rock_garden",
)  # fmt: skip
"""The thirty environments that AES selected from the pool of 200 (paper Table 6), in its order."""

MIXED6 = (
    "addition_table", "mini_sudoku", "rectangle_count", "rotate_matrix", "spiral_matrix", "tictactoe_qa",
)  # fmt: skip
"""The six environments of the paper's Tables 11 and 12."""

OOD8 = (
    "binary_matrix", "hue_qa", "rush_hour", "largest_island", "weighted_binarytree", "tents_qa", "math_path", "lava_gap",
)  # fmt: skip
"""Held out from all training: one environment of each category that has three or more, until the pool holds 200."""


def candidates(held_out: Sequence[str] = OOD8) -> tuple[str, ...]:
    """All environments that may be trained on: those that are not held out, in alphabetical order.

    Raises:
        ValueError: unknown environments in `held_out`.
    """
    unknown = sorted(set(held_out) - set(ids()))
    if unknown:
        raise ValueError(f"unknown environments are held out: {', '.join(unknown)}")
    return tuple(e for e in ids() if e not in held_out)


def least_resolution(env_id: str) -> int:
    """The smallest side in pixels at which a level of the environment is legible."""
    return make(env_id, LARGEST).min_resolution[0]


def legible(resolution: int) -> tuple[str, ...]:
    """The environments with a level that is legible at so many pixels, in alphabetical order."""
    return tuple(e for e in ids() if least_resolution(e) <= resolution)
