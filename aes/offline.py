"""The offline annotator: segments of abilities by fixed rules, without a model.

It is a stand-in for a model that reads what the agent thought, and says so: its name, which is in every line it
writes, lists what it looked at. It never looks at an environment's or a policy's name. Evidence, in falling order of
how much it says about the agent:

- events: state changes, actions without effect, illegal ones, states seen before, rewards, the end;
- references: the successful trajectories of the same instance, the oracle's above all. A step along one of them is
  progress; an answer that shares at least half of its entries with one is half right;
- replies: what they cite, compute, check, and the form of the answer;
- task text: what the question asks for. It is the same for all trajectories of an environment, so it says what the
  task demands, and only together with the above what the agent did. `task_text=False` leaves it out.

Labels are those of `aes.vocabulary`, the paper's where it has one.
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from jaxenv.codec import BLANK, extract

ADVERSARIAL, PATH, EXPLORE = "solve_adversarial_search", "solve_path_planning", "explore_unseen_area"
MANIPULATE, TRANSFORM = "manipulate_object", "solve_state_transformation"
LEGAL, BELIEF, RECOVER = "generate_legal_actions", "update_belief_from_feedback", "recover_from_wrong_path"
GOAL, CHECK, SCENE = "verify_goal_or_terminal_state", "verify_solution_constraints", "extract_scene_state"
GRID, GRAPH, SEQUENCE = (
    "extract_grid_or_matrix_state",
    "extract_graph_or_relation_state",
    "extract_sequence_state",
)
INDEX, COUNT, ARITHMETIC = (
    "solve_index_mapping_or_traversal", "solve_combinatorial_counting", "compute_arithmetic_value",
)  # fmt: skip
FORMAT, BLOCKED, REPEAT = "format_final_answer", "meet_blocked_action", "repeat_failed_action"
AIMLESS, ATTEMPT = "act_without_progress", "attempt_target_operation"

# What is read off a picture, by words of a task or of a reply.
EXTRACTION = (
    (GRID, r"grids?|matri(x|ces)|boards?|cells?|rows?|columns?|tables?|squares?"),
    (GRAPH, r"graphs?|vertex|vertices|edges?|nodes?|trees?|networks?|circuits?|wires?"),
    (SEQUENCE, r"arrays?|sequences?|strips?|bars?|elements?"),
    (
        "extract_geometric_layout",
        r"points?|coordinates?|rectangles?|triangles|the triangle|polygons?|circles?|outlines?|angles?",
    ),
)
# What is done with it. The order is that of the segments.
SOLVING = (
    ("interpret_visual_question", r"answer the question|which (move|reply|cell|option|line|colou?r)"),
    ("compare_visual_attributes", r"blends?|shades?|hues?|brighter|darker|larger than|same colou?r"),
    ("infer_visual_transformation_rule", r"hidden rule|examples?|patterns?"),
    ("model_transition_or_operation_rule", r"stands? for|counts? its own|gives 1|takes \d+ from|means that"),
    (LEGAL, r"legal|possible moves?|allowed|may move"),
    ("evaluate_logic_expression", r"logic|xor|negates?|bits?|true|false"),
    ("simulate_rule_based_dynamics", r"slippery|gravity|each step|next state|generations?|number of moves|after \w+ (steps?|moves?)"),
    (ADVERSARIAL, r"opponents?|two players?|players?|wins?|winning|perfect play|turn of|your next (disc|piece|stone|card)|against"),
    (EXPLORE, r"part of an? \w+ in front of you|partial view|unseen|unknown|not yet seen"),
    (PATH, r"paths?|routes?|walk|go to|go through|reach(es)?|exit|shortest way"),
    ("solve_grid_propagation", r"nearest|neighbou?rs?|neighbou?ring|next to|share a side|same island|spreads?"),
    (TRANSFORM, r"rotated?|mirror(ed)?|transposed?|shift(ed)?|flip(ped)?|slides?|swaps?|jump|turns .* into|a move takes"),
    (INDEX, r"spiral|orders?|traversals?|preorder|inorder|postorder|index|diagonal"),
    ("solve_constraint_satisfaction", r"exactly once|so that|must|every row|different colou?rs|no two|equal size|with a given|missing"),
    ("partition_into_groups", r"split|partition|divide"),
    ("solve_graph_matching", r"match(es|ing)?|pair(s|ed|ing)|assign"),
    (COUNT, r"how many|in how many|count the"),
    (ARITHMETIC, r"sums?|adds?|addition|products?|totals?|multipl\w+|costs?"),
    ("measure_geometric_quantity", r"areas?|perimeters?|distances?|lengths? of"),
    ("optimise_objective_value", r"as (few|small|large|many)( different \w+)? as possible|minimum|maximum|smallest|largest|fewest|most|at most|cheapest"),
)  # fmt: skip
# What a reply shows beyond the words above, first match first.
THINKING = (
    (RECOVER, r"wait|actually|instead|mistake|wrong|let me (re\w+|try again)|go back|scratch that|no,"),
    (CHECK, r"check(s|ed|ing)?|verif\w+|confirm\w*|valid|consistent|satisf\w+|indeed"),
    (BELIEF, r"so it (was|is) not|did not (work|move|change)|nothing (happened|changed)|blocked|now i know|refused"),
    (ADVERSARIAL, r"opponent|they (would|could|can)|if i play|threat\w*"),
    ("solve_constraint_satisfaction", r"must be|cannot be|can't be|only (option|value|number)|has to be|therefore|rules? out"),
    (PATH, r"move (up|down|left|right|north|south|east|west|forward)|head (to|for)|path|route|towards?"),
    ("simulate_rule_based_dynamics", r"then it becomes|after (that|this|the) (step|move)|next state|becomes"),
)  # fmt: skip


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOVES = _word_set(
    "up down left right forward backward back north south east west ahead turn walk go stay wait done"
)
HANDLING = _word_set(
    "pickup pick drop toggle open close push pull unlock lock take put grab place use slide lift"
)
PLAYS = _word_set("call raise fold check bet")

_COORDINATE = re.compile(r"\(\s*\d+\s*,\s*\d+\s*\)|\brow \d+|\bcolumn \d+|\br\d+c\d+", re.IGNORECASE)
_EDGE = re.compile(r"\b\w+\s*(?:--|->|-)\s*\w+\b.*\b\w+\s*(?:--|->|-)\s*\w+\b")
_EQUATION = re.compile(r"\d+(?:\s*[-+*/x\u00d7]\s*\d+)+\s*=\s*-?\d+")
_ANSWER = re.compile(r"<answer>.*?</answer>|\\boxed\{[^{}]*\}", re.DOTALL)
_SECTION = re.compile(r"^(Rules|Hint|State|Observation):", re.MULTILINE)


def _compile(table):
    return [(label, re.compile(rf"\b(?:{words})(?!\w)", re.IGNORECASE)) for label, words in table]


_EXTRACTION, _SOLVING, _THINKING = _compile(EXTRACTION), _compile(SOLVING), _compile(THINKING)


@dataclass(frozen=True)
class Settings:
    """What the offline annotator looks at besides events."""

    replies: bool = True
    references: bool = True
    task_text: bool = True

    @property
    def annotator(self) -> str:
        looked = [name for name in ("replies", "references", "task_text") if getattr(self, name)]
        return f"offline rules 1 ({', '.join(['events', *looked])})"


@dataclass
class _Step:
    """One purpose at one turn; neighbours with the same purpose become a segment."""

    turn: int
    label: str
    evidence: str
    soft: list[str] = field(default_factory=list)
    outcome: str = "ok"
    begins: bool = False  # a key event: starts a segment whatever came before


def task_of(trajectory: dict) -> Hashable:
    """Equal for trajectories of one instance."""
    return trajectory["env"], trajectory["instance"]


def references(trajectories: Sequence[dict]) -> dict[Hashable, list[dict]]:
    """The successful trajectories of each instance, whoever played them."""
    found: dict[Hashable, list[dict]] = {}
    for trajectory in trajectories:
        if trajectory["success"]:
            found.setdefault(task_of(trajectory), []).append(trajectory)
    return found


def annotate(trajectory: dict, successes: Sequence[dict] = (), settings: Settings = Settings()) -> dict:
    """The fields of an annotation (see `aes.annotate`).

    Args:
        successes: successful trajectories of the same instance.
    """
    if not settings.references:
        successes = ()
    several = max(len(t["turns"]) for t in (trajectory, *successes)) > 1
    steps = (_play if several else _solution)(trajectory, successes, settings)
    segments = _merge(steps)
    cores = list(dict.fromkeys(s["core"] for s in segments))
    pairs = [(a["core"], b["core"]) for a, b in pairwise(segments) if a["core"] != b["core"]]
    return {
        "segments": segments,
        "failure_modes": [] if trajectory["success"] else _failures(trajectory, segments, several),
        "graph": {"nodes": cores, "edges": [list(pair) for pair in dict.fromkeys(pairs)]},
        "tags": ["interaction" if several else "single answer"],
    }


def _merge(steps: list[_Step]) -> list[dict]:
    segments: list[dict] = []
    for step in steps:
        last = segments[-1] if segments else None
        if last and last["core"] == step.label and not step.begins:
            last["end"] = step.turn
            last["soft"] += [label for label in step.soft if label not in last["soft"]]
            if step.outcome != last["outcome"]:
                last["outcome"] = "unclear"
        else:
            segments.append({
                "start": step.turn, "end": step.turn, "core": step.label, "soft": list(dict.fromkeys(step.soft)),
                "behaviour": step.evidence, "outcome": step.outcome, "evidence": step.evidence,
            })  # fmt: skip
    for segment in segments:
        segment["soft"] = [label for label in segment["soft"] if label != segment["core"]]
    return segments


def _failures(trajectory: dict, segments: list[dict], several: bool) -> list[str]:
    turns = trajectory["turns"]
    named = {
        "unreadable answer": any(not t["action"] for t in turns),
        "illegal action": any(t["action"] and not t["valid"] for t in turns),
        "repeated a failed action": any(REPEAT in s["soft"] for s in segments),
        "ran out of turns": trajectory["truncated"] and several,
        "ended by the rules without success": trajectory["terminated"] and several,
        "wrong answer": trajectory["terminated"] and not several and bool(turns[0]["action"]),
    }
    return [name for name, holds in named.items() if holds] or ["no success"]


# ---- what texts show ----


def question(prompt: str) -> str:
    """The part of a prompt that is the task itself: before rules, hints and observations."""
    found = _SECTION.search(prompt)
    return prompt[: found.start()] if found else prompt


def cues(text: str, table) -> list[str]:
    return [label for label, words in table if words.search(text)]


def thoughts(reply: str) -> str:
    """What stands outside the answer tags."""
    return _ANSWER.sub(" ", reply).strip()


def sentences(text: str) -> list[str]:
    return [s.strip() for s in re.split(r"(?<=[.!?;])\s+|\n+", text) if s.strip()]


def think(turn: int, reply: str) -> list[_Step]:
    """The purposes of a reply's sentences, in order."""
    steps = []
    for sentence in sentences(thoughts(reply)):
        label, outcome = None, "ok"
        equation = _EQUATION.search(sentence)
        if equation:
            label, outcome = ARITHMETIC, "ok" if _holds(equation.group()) else "error"
        found = cues(sentence, _THINKING)
        if found and (label is None or found[0] in (RECOVER, CHECK)):
            label = found[0]
        if label is None and _COORDINATE.search(sentence):
            label = GRID
        if label is None and _EDGE.search(sentence):
            label = GRAPH
        if label is None:
            label = next(iter(cues(sentence, _SOLVING) + cues(sentence, _EXTRACTION)), None)
        if label is not None:
            steps.append(_Step(turn, label, sentence[:200], outcome=outcome))
    return steps


def _holds(equation: str) -> bool:
    """Whether an equation of whole numbers is true."""
    left, right = re.sub(r"[x\u00d7]", "*", equation.replace(" ", "")).split("=")
    total = Fraction(0)
    for sign, first, rest in re.findall(r"([-+]?)(\d+)((?:[*/]\d+)*)", left):
        term = Fraction(int(first))
        for operator, number in re.findall(r"([*/])(\d+)", rest):
            if operator == "/" and int(number) == 0:
                return False
            term = term * int(number) if operator == "*" else term / int(number)
        total += -term if sign == "-" else term
    return total == int(right)


def _form(answer: str | None, action: Sequence[int]) -> str | None:
    """The kind of purpose that an answer's form alone suggests."""
    if answer is None:
        return None
    if answer.startswith("{") or (len(re.findall(r"-?\d+", answer)) > 3 and "\n" not in answer):
        return INDEX
    if "\n" in answer:
        return GRID
    words = set(re.findall(r"[a-z]+", answer.lower()))
    if (words and words <= MOVES) or re.fullmatch(r"[UDLRNSEW]{2,}", answer):
        return PATH
    if re.fullmatch(r"-?\d+", answer):
        return ARITHMETIC
    return None


# ---- one answer ----


def _solution(trajectory: dict, successes: Sequence[dict], settings: Settings) -> list[_Step]:
    """A single turn: what was read, what was thought, what was solved."""
    turn = trajectory["turns"][0]
    task = question(turn["prompt"]) if settings.task_text else ""
    answer = extract(turn["reply"])
    form = _form(answer, turn["action"]) if settings.replies else None
    read = cues(task, _EXTRACTION) or ([form] if form == GRID else [SCENE])
    steps = [_Step(0, label, _words(task, label, _EXTRACTION)) for label in read]
    if settings.replies:
        steps += [step for step in think(0, turn["reply"]) if step.label not in read or step.outcome != "ok"]
    shown = {step.label for step in steps}
    solving = [label for label in cues(task, _SOLVING) if label not in shown and label != EXPLORE]
    if form and form not in shown and not solving:
        solving = [form]
    share = _agreement(trajectory, successes)
    if trajectory["success"]:
        known = "the answer is right"
    else:
        known = f"{share:.0%} of a right answer's entries" if turn["action"] else "no readable answer"
    if turn["action"] and (trajectory["success"] or share >= 0.5):
        steps += [
            _Step(0, label, f"{_words(task, label, _SOLVING)}: {known}",
                  outcome="ok" if trajectory["success"] else "unclear")
            for label in solving
        ]  # fmt: skip
    elif turn["action"]:
        # Nothing shows that it was done, only that it was asked for and something was answered.
        steps[-1].soft += [ATTEMPT, *solving]
        steps[-1].outcome = "error"
    if turn["action"]:
        steps[-1].soft.append(FORMAT)
    else:
        steps[-1].outcome = "error"
    return steps


def _words(text: str, label: str, table) -> str:
    """The words of the task that a label was taken from."""
    for name, words in table:
        if name == label and (found := words.search(text)):
            return f"task: {found.group()!r}"
    return "picture" if label == SCENE else "form of the answer"


def _agreement(trajectory: dict, successes: Sequence[dict]) -> float:
    """The largest share of entries that an answer has in common with a right one; 1 if it is right itself."""
    if trajectory["success"]:
        return 1.0
    ours = trajectory["turns"][0]["action"]
    best = 0.0
    for success in successes:
        theirs = success["turns"][0]["action"]
        if len(theirs) == len(ours):
            entries = [(a, b) for a, b in zip(ours, theirs) if (a, b) != (BLANK, BLANK)]
            best = max(best, sum(a == b for a, b in entries) / max(1, len(entries)))
    return best


# ---- several turns ----


def _play(trajectory: dict, successes: Sequence[dict], settings: Settings) -> list[_Step]:
    """Several turns: what each action was for, by what it did."""
    turns = trajectory["turns"]
    task = question(turns[0]["prompt"]) if settings.task_text else ""
    demanded = cues(task, _SOLVING)
    ahead = _places(successes)
    steps = [
        _Step(0, label, _words(task, label, _EXTRACTION)) for label in cues(task, _EXTRACTION) or [SCENE]
    ]
    seen = {turns[0]["state"]}
    failed: list[int] | None = None  # the last action, if it had no effect
    for number, turn in enumerate(turns):
        if settings.replies:
            steps += think(number, turn["reply"])
        after = turns[number + 1]["state"] if number + 1 < len(turns) else None
        step = _act(number, turn, after, seen, demanded, ahead, settings)
        if failed is not None and turn["action"] == failed and step.label != LEGAL:
            step.soft.append(REPEAT)
        elif failed is not None and turn["action"] == failed:
            step.soft.append(REPEAT)
            step.begins = False
        elif failed is not None and turn["action"]:
            steps.append(_Step(number, BELIEF, "another action after one without effect"))
        steps.append(step)
        idle = not turn["valid"] or (not turn["state_changed"] and number + 1 < len(turns))
        failed = turn["action"] if idle else None
        if after is not None:
            seen.add(after)
    if trajectory["success"]:
        steps.append(_Step(len(turns) - 1, GOAL, "the episode ended in success"))
    elif trajectory["terminated"]:
        steps[-1].outcome = "error"
    if turns[-1]["action"]:
        steps[-1].soft.append(FORMAT)
    return steps


def _places(successes: Sequence[dict]) -> list[dict[str, int]]:
    """For each successful trajectory, when it was last in each of its states."""
    return [{turn["state"]: k for k, turn in enumerate(s["turns"])} for s in successes]


def _act(
    number: int,
    turn: dict,
    after: str | None,
    seen: set[str],
    demanded: list[str],
    ahead: list[dict[str, int]],
    settings: Settings,
) -> _Step:
    words = set(re.findall(r"[a-z]+", (extract(turn["reply"]) or "").lower())) if settings.replies else set()
    gained = turn["reward"] > 0
    if not turn["valid"]:
        what = "an illegal action" if turn["action"] else "a reply without a readable action"
        return _Step(number, LEGAL, what, outcome="error", begins=True)
    along = gained or any(p.get(after, -1) > p.get(turn["state"], len(p)) for p in ahead)
    if turn["state_changed"] and after in seen and not along:
        return _Step(number, RECOVER, "back in a state seen before", outcome="unclear")
    if words & HANDLING and not words & MOVES:
        step = _Step(
            number, MANIPULATE, f"{' '.join(sorted(words & HANDLING))}", begins=turn["state_changed"]
        )
    elif words & PLAYS or ADVERSARIAL in demanded:
        step = _Step(number, ADVERSARIAL, "a move in a game against an opponent")
    elif words and words <= MOVES:
        new = "a step along a successful trajectory" if along else "a step into a state not seen before"
        step = _Step(number, PATH if along else EXPLORE, new)
    else:
        label = next(
            (d for d in demanded if d in (TRANSFORM, "solve_constraint_satisfaction", PATH)), TRANSFORM
        )
        step = _Step(
            number, label, "a change of the state" + (" along a successful trajectory" if along else "")
        )
    if not turn["state_changed"] and after is not None:
        step.soft.append(BLOCKED)
        step.outcome = "error"
    elif not along:
        step.soft.append(AIMLESS)
        step.outcome = "unclear"
    if gained:
        step.soft = [label for label in step.soft if label != AIMLESS]
    return step
