"""Trajectories into segments of atomic abilities: `python -m aes.annotate --help` (paper Section 3.1, Appendices C.1, F).

Reads `trajectories.jsonl` of a folder (see `aes.collect`), writes `annotations.jsonl` beside it, one trajectory a line
in the order of the trajectories:

    {"env", "policy", "instance", "trajectory", "annotator",
     "segments": [{"start", "end", "core", "soft", "behaviour", "outcome", "evidence"}],
     "failure_modes": [...], "graph": {"nodes": [...], "edges": [[from, to], ...]}, "tags": [...]}

`start` and `end` are turns, both inclusive; the segments of a single-turn trajectory are all 0..0, in order. `annotator`
says who wrote it: a model's name, or the offline annotator (`aes.offline`) and what it looked at.

With a model (`--endpoint.model`), answers are kept in `answers.jsonl`: a rerun asks nothing that was answered before.
What could not be annotated, and why, stands in `failures.jsonl`; the other lines are written all the same.
"""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tqdm import tqdm

from aes import offline
from aes.files import alone, identity, load, write_lines
from aes.llm import (
    Chat,
    Endpoint,
    NotStored,
    OverBudget,
    Refused,
    Store,
    Unanswered,
    prompt_size,
    request_key,
)
from aes.vocabulary import MORE, PAPER, complaint, normalise, specific_words

ANNOTATIONS, FAILURES, ANSWERS = "annotations.jsonl", "failures.jsonl", "answers.jsonl"
ENDPOINT, OFFLINE = Endpoint(), offline.Settings()
OUTCOMES = ("ok", "error", "unclear")
ANSWER_TOKENS = 700  # of a typical annotation, for plans

_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}


def _object(**properties) -> dict:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


SCHEMA = _object(
    segments={
        "type": "array",
        "items": _object(
            start={"type": "integer"}, end={"type": "integer"}, behaviour=_TEXT, core=_TEXT, soft=_TEXTS,
            outcome={"type": "string", "enum": list(OUTCOMES)}, evidence=_TEXT,
        ),
    },
    failure_modes=_TEXTS,
    graph=_object(nodes=_TEXTS, edges={"type": "array", "items": _TEXTS}),
    tags=_TEXTS,
)  # fmt: skip

_LABELS = "\n".join(f"- {label}: {meaning}" for label, meaning in (PAPER | MORE).items())

SYSTEM = f"""\
You read the record of an agent at work on a task, and divide it into the abilities that the agent used or tried to use.
Many such records, from very different tasks, will be compared by your labels, so the same way of working has to get the
same label wherever it occurs.

The record lists turns, numbered from 0. A turn has the agent's reply, whether it was a legal action, its reward, and
which state followed; equal state names are equal states.

Segments
- A segment is a stretch of turns that serves one purpose. Turns in a row with one purpose are one segment.
- Begin a new segment where the purpose changes, and at events that change or reveal something: something is taken,
  dropped, switched or unlocked; the agent bumps into something, dies or arrives; an action is refused; feedback comes
  in; the agent turns back or tries again.
- One turn can hold several segments in a row if its reply does several things one after the other. In a record of a
  single turn every segment has start 0 and end 0, in the order of the reply.
- Segments are in order and cover all turns: the first starts at turn 0, each next one starts at the turn where the one
  before ended or at the turn after, the last ends at the last turn.
- A failed attempt is divided in the same way, by what the agent was trying to do.

Labels (core and soft)
- A verb phrase of two to six words in lower case with underscores, about the way of solving. It has to fit other tasks
  just as well, and still tell one way of solving from another.
- Prefer these:
{_LABELS}
- Make a new one of the same kind only if none of these fits.
- Too coarse: reasoning, perception, planning, understanding, memory, decision_making, solve_problem.
- Too narrow: names of games, of their pieces, of colours, persons, or places in this one task. Say open_container, or
  rather manipulate_object, not open_red_box; say solve_constraint_satisfaction, not fill_sudoku_row.
- `core` is the ability that the segment is there for. `soft` lists up to three that merely go along with it, such as
  format_final_answer; it may be empty.

For each segment also: `behaviour`, one plain sentence; `outcome`, whether the attempt came off (ok, error, unclear);
`evidence`, up to 200 characters copied letter by letter from the turns of the segment (of the reply or of the line about
what followed).
For the whole record: `failure_modes`, short phrases on what went wrong, at least one if the record did not end in
success; `graph`, all core labels as nodes and as edges [from, to] which ability follows on which; `tags`, up to five
words or phrases on the kind of skill, useful to group tasks of different kinds.

Answer with one JSON object that has exactly the fields segments (with start, end, behaviour, core, soft, outcome,
evidence), failure_modes, graph (with nodes, edges) and tags. Nothing before or after it, no code fence.

Example record:
Task: Fill the empty fields so that no line holds a number twice. [...]
Turn 0: "Line 1 has 2 and 3, so its free field is 1. Then column 2 needs 3. Check: all lines differ. <answer>1 3</answer>"
  legal, reward 1, state s0 -> the end
The record ended in success.
Example answer:
{{"segments": [
{{"start": 0, "end": 0, "behaviour": "Reads which numbers a line has.", "core": "extract_grid_or_matrix_state", "soft": \
[], "outcome": "ok", "evidence": "Line 1 has 2 and 3"}},
{{"start": 0, "end": 0, "behaviour": "Finds the only number left for each field.", "core": \
"solve_constraint_satisfaction", "soft": [], "outcome": "ok", "evidence": "so its free field is 1. Then column 2 needs 3"}},
{{"start": 0, "end": 0, "behaviour": "Checks all lines and answers.", "core": "verify_solution_constraints", "soft": \
["format_final_answer"], "outcome": "ok", "evidence": "Check: all lines differ"}}],
"failure_modes": [], "graph": {{"nodes": ["extract_grid_or_matrix_state", "solve_constraint_satisfaction", \
"verify_solution_constraints"], "edges": [["extract_grid_or_matrix_state", "solve_constraint_satisfaction"], \
["solve_constraint_satisfaction", "verify_solution_constraints"]]}}, "tags": ["deduction on a grid"]}}

Example record:
Task: Bring the parcel to the counter. Choose the next action. [...]
Turn 0: "<answer>forward</answer>"
  legal, reward 0, state s0 -> s1
Turn 1: "<answer>forward</answer>"
  legal, without effect, reward 0, state s1 -> s1
Turn 2: "A wall. I go around it. <answer>left</answer>"
  legal, reward 0, state s1 -> s2
The record ended without success: out of turns.
Example answer:
{{"segments": [
{{"start": 0, "end": 1, "behaviour": "Walks on until something is in the way.", "core": "explore_unseen_area", "soft": \
["meet_blocked_action"], "outcome": "error", "evidence": "legal, without effect, reward 0, state s1 -> s1"}},
{{"start": 2, "end": 2, "behaviour": "Takes the obstacle into account.", "core": "update_belief_from_feedback", "soft": \
["recover_from_wrong_path"], "outcome": "unclear", "evidence": "A wall. I go around it."}}],
"failure_modes": ["spent turns on an obstacle"], "graph": {{"nodes": ["explore_unseen_area", \
"update_belief_from_feedback"], "edges": [["explore_unseen_area", "update_belief_from_feedback"]]}}, "tags": ["navigation"]}}
"""


@dataclass(frozen=True)
class Settings:
    """How a model is asked."""

    pictures: Literal["none", "first", "all"] = "first"  # which of a trajectory's pictures it sees
    reply_characters: int = 6000  # of a reply that are shown; of longer ones the middle is left out
    asks: int = 4  # answers to one trajectory before it is given up, the first included
    check_evidence: bool = True  # evidence must stand in the record
    budget: int | None = None  # tokens that may be spent on a folder, earlier runs included

    def __post_init__(self):
        if self.asks < 1:
            raise ValueError(f"asks must be positive, got {self.asks}")


class Invalid(Exception):
    """An annotation that is refused; the text is for the one who wrote it."""


# ---- the record that a model reads ----


def record(trajectory: dict, reply_characters: int = 6000) -> tuple[str, list[str]]:
    """What the annotator is told of a trajectory: the task, and a text for each turn. No environment's name."""
    turns = trajectory["turns"]
    names: dict[str, str] = {}
    for turn in turns:
        names.setdefault(turn["state"], f"s{len(names)}")
    task, texts = turns[0]["prompt"], []
    for number, turn in enumerate(turns):
        prompt = ""
        if number and turn["prompt"] != turns[number - 1]["prompt"]:
            prompt = f"  was told: {_shorten(_news(turns[number - 1]['prompt'], turn['prompt']), 400)}\n"
        if number + 1 < len(turns):
            after = names[turns[number + 1]["state"]]
        else:
            after = "the end"
        legal = "legal" if turn["valid"] else "unreadable" if not turn["action"] else "not legal"
        effect = "" if turn["state_changed"] or number + 1 == len(turns) else ", without effect"
        reply = json.dumps(_shorten(turn["reply"], reply_characters), ensure_ascii=False)
        texts.append(
            f"Turn {number}: {reply}\n{prompt}"
            f"  {legal}{effect}, reward {turn['reward']:g}, state {names[turn['state']]} -> {after}"
        )
    return task, texts


def ending(trajectory: dict) -> str:
    if trajectory["success"]:
        return "The record ended in success."
    why = "by the rules" if trajectory["terminated"] else "out of turns"
    return f"The record ended without success: {why}."


def _shorten(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]} [...] {text[-half:]}"


def _news(old: str, new: str) -> str:
    """The lines of a prompt that the one before did not have."""
    before = set(old.splitlines())
    return " ".join(line for line in new.splitlines() if line not in before)


def messages(trajectory: dict, settings: Settings, folder: Path) -> list[dict]:
    """The first request's messages."""
    task, texts = record(trajectory, settings.reply_characters)
    text = f"Task: {task}\n\n" + "\n".join(texts) + f"\n{ending(trajectory)}\n"
    shown = [] if settings.pictures == "none" else [t["picture"] for t in trajectory["turns"] if t["picture"]]
    shown = list(dict.fromkeys(shown[:1] if settings.pictures == "first" else shown))
    content: str | list[dict] = text
    if shown:
        pictures = [{"type": "image_url", "image_url": {"url": _data_url(folder / path)}} for path in shown]
        content = [*pictures, {"type": "text", "text": text}]
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]


def _data_url(file: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()


# ---- what an annotation must be ----


def read_annotation(
    text: str, trajectory: dict, specific: frozenset[str] = frozenset(), settings: Settings = Settings()
) -> dict:
    """The fields of an annotation from a model's answer, labels normalised.

    Args:
        specific: words that would make a label about one environment (see `vocabulary.specific_words`).
    Raises:
        Invalid: it is no JSON, not of the schema, a label is refused, or a span or evidence is not in the trajectory.
    """
    try:
        value = json.loads(_unfenced(text))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this is not one JSON object: {error}") from None
    wrong = _misfits(value, SCHEMA, "the answer")
    if wrong:
        raise Invalid("; ".join(wrong[:5]))
    for segment in value["segments"]:
        segment["core"] = normalise(segment["core"])
        soft = dict.fromkeys(normalise(label) for label in segment["soft"])
        segment["soft"] = [label for label in soft if label != segment["core"]]
    graph = value["graph"]
    graph["nodes"] = [normalise(node) for node in graph["nodes"]]
    graph["edges"] = [[normalise(node) for node in edge] for edge in graph["edges"]]
    wrong = [
        *_span_complaints(value["segments"], len(trajectory["turns"])),
        *_label_complaints(value["segments"], specific),
        *_graph_complaints(value),
        *(_evidence_complaints(value["segments"], trajectory, settings) if settings.check_evidence else []),
    ]
    if not trajectory["success"] and not value["failure_modes"]:
        wrong.append("the record did not end in success: failure_modes must say why")
    if wrong:
        raise Invalid("; ".join(wrong[:8]))
    return value


def _unfenced(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    return text


_TYPES = {"object": dict, "array": list, "string": str, "integer": int}


def _misfits(value: Any, schema: dict, where: str) -> list[str]:
    """How a value departs from a schema, of the few kinds that `SCHEMA` uses."""
    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        return [f"{where} must be of type {kind}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where} must be one of {', '.join(schema['enum'])}"]
    if kind == "object":
        missing = [f"{where} lacks {name!r}" for name in schema["required"] if name not in value]
        unknown = [
            f"{where} has an unknown field {name!r}" for name in value if name not in schema["properties"]
        ]
        deeper = [
            m for name, s in schema["properties"].items() if name in value
            for m in _misfits(value[name], s, f"{name} of {where}")
        ]  # fmt: skip
        return missing + unknown + deeper
    if kind == "array":
        return [m for k, v in enumerate(value) for m in _misfits(v, schema["items"], f"entry {k} of {where}")]
    return []


def _span_complaints(segments: list[dict], turns: int) -> list[str]:
    if not segments:
        return ["there must be at least one segment"]
    last = turns - 1
    wrong = [
        f"segment {k} ({s['start']}..{s['end']}) is not a stretch of the turns 0..{last}"
        for k, s in enumerate(segments) if not 0 <= s["start"] <= s["end"] <= last
    ]  # fmt: skip
    if segments[0]["start"] != 0:
        wrong.append("the first segment must start at turn 0")
    if segments[-1]["end"] != last:
        wrong.append(f"the last segment must end at turn {last}")
    for k, (one, two) in enumerate(pairwise(segments)):
        if two["start"] not in (one["end"], one["end"] + 1):
            wrong.append(f"segment {k + 1} must start at turn {one['end']} or {one['end'] + 1}")
    return wrong


def _label_complaints(segments: list[dict], specific: frozenset[str]) -> list[str]:
    labels = dict.fromkeys(label for s in segments for label in (s["core"], *s["soft"]))
    wrong = [c for label in labels if (c := complaint(label, specific))]
    return wrong + [
        f"segment {k} has more than three soft labels" for k, s in enumerate(segments) if len(s["soft"]) > 3
    ]


def _graph_complaints(value: dict) -> list[str]:
    cores, nodes = {s["core"] for s in value["segments"]}, set(value["graph"]["nodes"])
    wrong = []
    if cores != nodes:
        wrong.append(f"the graph's nodes must be the core labels: {', '.join(sorted(cores ^ nodes))} differ")
    if any(len(edge) != 2 or not set(edge) <= nodes for edge in value["graph"]["edges"]):
        wrong.append("every edge of the graph must be a pair of its nodes")
    return wrong


def _evidence_complaints(segments: list[dict], trajectory: dict, settings: Settings) -> list[str]:
    _, shown = record(trajectory, settings.reply_characters)
    turns = trajectory["turns"]
    wrong = []
    for k, s in enumerate(segments):
        if not 0 <= s["start"] <= s["end"] < len(turns):
            continue
        span = range(s["start"], s["end"] + 1)
        texts = (
            [shown[t] for t in span]
            + [turns[t]["reply"] for t in span]
            + ([] if s["end"] else [turns[0]["prompt"]])
        )
        quote = _plain(s["evidence"])
        if not quote or not any(quote in _plain(text) for text in texts):
            wrong.append(f"the evidence of segment {k} does not stand in its turns: copy it letter by letter")
    return wrong


def _plain(text: str) -> str:
    return " ".join(text.replace('\\"', '"').replace("\\n", " ").lower().split()).strip(" .\"'")


# ---- asking ----


@dataclass(frozen=True)
class Failure:
    """Why a trajectory has no annotation."""

    reason: Literal["refused answers", "no answer", "budget", "stopped"]
    detail: str
    asks: int

    def row(self, trajectory: dict) -> dict:
        named = dict(zip(("env", "policy", "instance", "trajectory"), identity(trajectory)))
        return {**named, "reason": self.reason, "asks": self.asks, "detail": self.detail}


def annotate_one(
    trajectory: dict, chat: Chat, specific: frozenset[str], settings: Settings, folder: Path
) -> dict | Failure:
    """Ask until an annotation is accepted. What was wrong with one answer is part of the next request, so the whole
    exchange is found again, request by request, among stored answers."""
    talk, body, detail = messages(trajectory, settings, folder), None, ""
    for asked in range(settings.asks):
        body = chat.request(talk, SCHEMA)
        try:
            answer = chat.ask(body)
        except Unanswered as error:
            return Failure("no answer", str(error), asked)
        except OverBudget as error:
            return Failure("budget", str(error), asked)
        except Refused as error:
            return Failure("stopped", str(error), asked)
        try:
            return read_annotation(answer.text, trajectory, specific, settings)
        except Invalid as error:
            detail = str(error)
            if answer.finish == "length":
                detail += "; the answer was cut off: write less"
        said = _shorten(answer.text, 8000) or "(nothing)"
        talk = [
            *talk[:2],
            {"role": "assistant", "content": said},
            {"role": "user", "content": _again(detail, asked)},
        ]
    return Failure("refused answers", detail, settings.asks)


def _again(detail: str, asked: int) -> str:
    # The number keeps a request that was refused twice for the same reason from being the same request.
    return f"Not accepted ({asked + 1}): {detail}. Write the whole JSON object again with this put right."


def annotate_llm(
    folder: Path,
    trajectories: Sequence[dict],
    endpoint: Endpoint,
    settings: Settings = Settings(),
    progress: bool = False,
) -> tuple[list[dict], list[dict], Counter]:
    """Annotate with a model; answers are kept in the folder.

    Returns:
        Annotations, in the order of the trajectories; failures, likewise; counts of requests (`asked`, `stored`), of
        survived faults (`429`, `500`, `timeout`, `broken`, ...) and of `tokens` spent on the folder so far.
    Raises:
        Refused: the endpoint refuses everything and nothing at all was annotated.
    """
    with alone(folder, "annotate"):
        chat = Chat(endpoint, Store(folder / ANSWERS), settings.budget)
        try:
            results = _ask_all(trajectories, chat, settings, folder, progress)
        finally:
            chat.close()
    done, failed = [], []
    for trajectory, result in zip(trajectories, results):
        if isinstance(result, Failure):
            failed.append(result.row(trajectory))
        else:
            done.append(line(trajectory, endpoint.model, result))
    if chat.stopped is not None and not done:
        raise chat.stopped
    chat.counts["tokens"] = chat.budget.spent
    return done, failed, chat.counts


def _ask_all(
    trajectories: Sequence[dict], chat: Chat, settings: Settings, folder: Path, progress: bool
) -> list[dict | Failure]:
    """One result per trajectory, from as many threads as the endpoint allows."""
    specific = specific_words({t["env"] for t in trajectories})
    alike = _alike(trajectories, chat, settings, folder)
    results: dict[int, dict | Failure] = {}
    with ThreadPoolExecutor(chat.endpoint.workers) as pool:
        futures = {
            pool.submit(annotate_one, trajectories[rows[0]], chat, specific, settings, folder): rows
            for rows in alike.values()
        }
        finished = as_completed(futures)
        try:
            for future in tqdm(finished, "annotate", len(futures), unit="trajectory", disable=not progress):
                results |= dict.fromkeys(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # those on their way are awaited, and stored
            raise
    return [results[row] for row in range(len(trajectories))]


def _alike(
    trajectories: Sequence[dict], chat: Chat, settings: Settings, folder: Path
) -> dict[str, list[int]]:
    """Rows of trajectories by what the model is told of them: those with equal requests are annotated once."""
    alike: dict[str, list[int]] = {}
    for row, trajectory in enumerate(trajectories):
        body = chat.request(messages(trajectory, settings, folder), SCHEMA)
        alike.setdefault(request_key(body), []).append(row)
    return alike


def line(trajectory: dict, annotator: str, annotation: dict) -> dict:
    """One line of `annotations.jsonl`."""
    named = dict(zip(("env", "policy", "instance", "trajectory"), identity(trajectory)))
    return {**named, "annotator": annotator, **annotation}


def annotate_offline(trajectories: Sequence[dict], settings: offline.Settings = OFFLINE) -> list[dict]:
    """Annotate without a model."""
    references = offline.references(trajectories)
    return [
        line(t, settings.annotator, offline.annotate(t, references.get(offline.task_of(t), []), settings))
        for t in trajectories
    ]


def plan(folder: Path, trajectories: Sequence[dict], endpoint: Endpoint, settings: Settings) -> str:
    """What annotating with a model would cost, in words."""
    chat = Chat(endpoint, Store(folder / ANSWERS), offline=True)
    specific = specific_words({t["env"] for t in trajectories})
    alike = _alike(trajectories, chat, settings, folder)
    prompt, asks = 0, 0
    for rows in alike.values():
        try:
            annotate_one(trajectories[rows[0]], chat, specific, settings, folder)
        except NotStored:
            body = chat.request(messages(trajectories[rows[0]], settings, folder), SCHEMA)
            prompt, asks = prompt + prompt_size(body, 4, endpoint.picture_tokens), asks + 1
    completion = asks * ANSWER_TOKENS
    return (
        f"{len(trajectories):,} trajectories, {len(alike):,} of them different, {asks:,} still to be asked: about "
        f"{prompt:,} prompt and {completion:,} completion tokens if every first answer is good "
        f"(at most {endpoint.max_tokens:,} completion tokens and {settings.asks} answers a trajectory). "
        f"Spent so far: {chat.store.tokens:,} tokens; "
        + ("no cap." if settings.budget is None else f"the cap is {settings.budget:,}.")
    )


def main(
    folder: tyro.conf.Positional[Path],
    endpoint: Endpoint = ENDPOINT,
    settings: tyro.conf.OmitArgPrefixes[Settings] = Settings(),
    offline_settings: Annotated[offline.Settings, tyro.conf.arg(name="offline")] = OFFLINE,
    plan_only: Annotated[bool, tyro.conf.arg(name="plan")] = False,
) -> None:
    """Annotate the trajectories of a folder.

    Args:
        folder: where `aes.collect` wrote.
        endpoint: with a model's name: ask it; without: the offline annotator.
        settings: how a model is asked.
        offline_settings: of the offline annotator.
        plan_only: print what it would cost and do nothing.
    """
    trajectories = load(folder)
    if not trajectories:
        raise SystemExit(f"no trajectories in {folder}")
    if not endpoint.model:
        print(f"{len(trajectories):,} trajectories, 0 tokens, annotator {offline_settings.annotator}")
        if not plan_only:
            write_lines(folder / ANNOTATIONS, annotate_offline(trajectories, offline_settings))
        return
    print(plan(folder, trajectories, endpoint, settings))
    if plan_only:
        return
    done, failed, counts = annotate_llm(folder, trajectories, endpoint, settings, progress=True)
    write_lines(folder / ANNOTATIONS, done)
    write_lines(folder / FAILURES, failed)
    print(report(done, failed, counts))


def report(done: Sequence[dict], failed: Sequence[dict], counts: Counter) -> str:
    """What a run came to, as a Markdown table."""
    lines = ["| | count |", "|---|---|", f"| annotated | {len(done):,} |"]
    reasons = Counter(row["reason"] for row in failed)
    lines += [f"| failed: {reason} | {n:,} |" for reason, n in sorted(reasons.items())]
    names = {
        "asked": "answers paid for",
        "stored": "answers found stored",
        "tokens": "tokens spent on this folder",
    }
    lines += [f"| {names.get(k, f'survived: {k}')} | {n:,} |" for k, n in sorted(counts.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
