"""Labels of atomic abilities: those an annotator should prefer, and the rules every label must obey.

A good label names a way of solving that would serve in many environments, as a verb phrase of two to six words. One
that says only that the agent thought (perception, reasoning) is too coarse; one that names the things of one
environment is too fine.
"""

import re
from collections.abc import Iterable

# Labels that the paper's Appendix F gives as good ones; the explanations are ours.
PAPER = {
    "explore_unseen_area": "go or look where nothing is known yet",
    "extract_grid_or_matrix_state": "read the contents of cells, rows and columns",
    "extract_graph_or_relation_state": "read which things are joined or related, and how",
    "solve_index_mapping_or_traversal": "map positions to other positions, or visit them in a prescribed order",
    "manipulate_object": "pick up, drop, open, toggle, push or otherwise change a thing",
    "solve_constraint_satisfaction": "choose values so that all conditions hold together",
    "solve_grid_propagation": "spread values or membership from cell to neighbouring cell",
    "simulate_rule_based_dynamics": "work out what the state becomes when given rules are applied, step by step",
    "generate_legal_actions": "find out which actions are allowed here",
    "update_belief_from_feedback": "change one's mind, or the next action, because of what came back",
    "infer_visual_transformation_rule": "find the rule behind examples",
    "solve_combinatorial_counting": "count things or ways without missing or repeating one",
    "solve_graph_matching": "pair or assign things",
    "solve_state_transformation": "bring a given state into a wanted one by permitted operations",
    "verify_goal_or_terminal_state": "see that the goal is reached or the episode is over",
    "solve_adversarial_search": "choose with an opponent's replies in mind",
    "model_transition_or_operation_rule": "work out what an action or operation does",
    "solve_path_planning": "choose a way to a place and follow it",
    "verify_solution_constraints": "check a partial or whole solution against the conditions",
}
# More in the same spirit, for what the list above has no word for.
MORE = {
    "extract_sequence_state": "read elements of a line or list in order",
    "extract_geometric_layout": "read positions, outlines and extents of shapes",
    "extract_scene_state": "read what is where in a picture of no regular layout",
    "compare_visual_attributes": "tell or order things by colour, size or shade",
    "interpret_visual_question": "read a question out of the picture and find what it is about",
    "evaluate_logic_expression": "work out truth values or bits through operators",
    "compute_arithmetic_value": "add, multiply or otherwise compute numbers",
    "measure_geometric_quantity": "work out distances, areas or perimeters",
    "optimise_objective_value": "find the best of many permitted choices",
    "partition_into_groups": "split things into groups with a wanted property",
    "recover_from_wrong_path": "go back, or drop a failed assumption, and try otherwise",
}
# What goes along with abilities: never the purpose of a segment of its own in the offline annotator.
AUXILIARY = {
    "format_final_answer": "write the answer in the wanted form",
    "meet_blocked_action": "act without effect",
    "repeat_failed_action": "do again what has just failed",
    "act_without_progress": "act with effect, but towards nothing",
    "attempt_target_operation": "try what the task asks for without getting it right",
}
LABELS = PAPER | MORE | AUXILIARY


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERBS = _words(
    """
    adapt add adjust aggregate align allocate analyse analyze apply approach assemble assign attempt avoid backtrack
    balance bound build calculate carry check choose classify collect combine compare complete compose compute confirm
    connect construct convert coordinate correct count cover decode decompose deduce derive detect determine
    discriminate distinguish divide eliminate encode enforce enumerate estimate evaluate exclude execute exploit
    explore extend extract filter find follow format generate group handle identify imagine infer integrate interpret
    isolate iterate judge label link list locate manage manipulate map mark match maximise maximize measure meet merge
    minimise minimize model monitor move navigate normalise normalize open optimise optimize order organise organize
    parse partition perform pick place predict propagate prune pull push rank read recall recognise recognize recombine record
    recover reconstruct refine reflect register repeat replan represent resolve restore retain retrieve retry reverse
    revise rotate scan search segment select separate sequence simulate solve sort specify split store substitute
    summarise summarize switch test trace track transcribe transform translate traverse try undo update use validate
    verify visit weigh write act answer plan reason understand decide perceive remember think observe
    """
)  # fmt: skip

# Words that say nothing about how a task is solved. A label made of these alone is too coarse.
COARSE_WORDS = _words(
    """
    perception perceptual reasoning planning understanding decision decisions making memory thinking cognition
    cognitive knowledge intelligence analysis problem problems task tasks puzzle puzzles game games question questions
    environment step steps solution solutions answer answers action actions move moves strategy strategic general
    visual spatial logical logic abstract multi basic complex correct next best image picture input output information
    situation state states scene observation observations attention comprehension skill skills ability abilities
    common sense the a an of for in on to and or with about its it
    """
)

# Words of particular games, things and persons, and colours: no way of solving needs them.
SPECIFIC_WORDS = _words(
    """
    sudoku othello reversi chess knight knights bishop rook queen pawn poker holdem blackjack tictactoe nim minesweeper
    sokoban tetris checkers battleship mastermind hanoi wordle kakuro nonogram futoshiki tents lava lake frozen maze
    labyrinth spiral arrow arrows automaton automata conway tmaze alice bob carol dave matchstick matchsticks peg pegs
    tent rocks car cars vehicle vehicles truck key keys door doors disc discs
    red green blue yellow orange purple pink brown grey gray black white cyan magenta
    """
)

# Words of environments' ids that are words of ways of solving as well.
_GENERAL = _words(
    """
    addition angle area array binary color colour component connected coloring colouring comparison convex count
    counting cycle distance edge equation even expression flow geometry graph grid grouping hull index interval largest
    length line linear local logic longest map matching math matrix max maximum mean min minimum motion network node
    number numbers object order packing pair path pattern perimeter permutation pick place point points polygon
    position prefix product puzzle quadratic range rectangle reflection rotate rotation route row rule scheduling search
    sequence set shape shift shortest similarity smallest sort sorting spanning subset sum swap symbolic symmetry table
    topological transform transformation traversal tree triangle value vertex weighted cut cover subsequence substring
    string game games to in of and the from with by single multi
    """
) | {word for label in LABELS for word in label.split("_")}  # fmt: skip


def normalise(label: str) -> str:
    """`Plan a path` and `plan-a-path` become `plan_a_path`."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


def specific_words(env_ids: Iterable[str]) -> frozenset[str]:
    """The words of environments' names that would make a label about them alone."""
    words = {w for env_id in env_ids for w in normalise(env_id).split("_") if len(w) > 2}
    return frozenset(words - _GENERAL)


def complaint(label: str, specific: frozenset[str] = frozenset()) -> str | None:
    """Why a label is refused, in words for the one who wrote it; None: it is good.

    Args:
        label: normalised.
        specific: words that no label may have, on top of the built-in ones (see `specific_words`).
    """
    if label in LABELS:
        return None
    words = label.split("_")
    if all(w in COARSE_WORDS for w in words[words[0] in VERBS :]):
        return f"{label!r} is too coarse: say what is extracted, solved or checked, and in which kind of structure"
    if not 2 <= len(words) <= 6:
        return f"{label!r} is not a verb phrase of two to six words"
    named = [w for w in words if w in specific or w in SPECIFIC_WORDS or any(c.isdigit() for c in w)]
    if named:
        return f"{label!r} is about one environment ({', '.join(named)}): name the way of solving instead"
    if words[0] not in VERBS:
        return f"{label!r} does not start with a verb such as extract, infer, simulate, solve, verify"
    return None
