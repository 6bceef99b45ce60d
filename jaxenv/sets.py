"""Named sets of environments: `jaxenv.sets.AES30`, `jaxenv.sets.MIXED6`."""

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
