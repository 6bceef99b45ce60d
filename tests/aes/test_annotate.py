"""Annotating: what is refused, a faulty endpoint, the budget, and the offline annotator."""

import copy
import json
import random
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import tyro

from aes import annotate, offline
from aes.annotate import Invalid, Settings, annotate_llm, annotate_offline, read_annotation
from aes.files import TRAJECTORIES, append_lines, identity, read_lines
from aes.llm import Endpoint, Refused
from aes.vocabulary import COARSE_WORDS, LABELS, PAPER, complaint, normalise, specific_words

WALK = "Walk over the grid from your place to the goal. Choose the next move."
TURN = "The picture shows a matrix of digits. Rotate it and write the result."


def turn(reply, state, changed=True, valid=True, reward=0.0, prompt=WALK, action=None):
    action = ([0] if action is None else action) if "<answer>" in reply else []
    return {"picture": None, "prompt": prompt, "reply": reply, "action": action, "valid": valid and bool(action),
            "reward": reward, "state_changed": changed, "state": state}  # fmt: skip


def trajectory(
    turns, success=True, env="frozen_lake", policy="oracle", instance=0, number=0, truncated=False
):
    return {"env": env, "policy": policy, "instance": instance, "trajectory": number, "seed": 0, "level": 0,
            "turns": turns, "return": float(success), "success": success, "terminated": not truncated,
            "truncated": truncated}  # fmt: skip


def moves(words, states, changed=None, actions=None, **more):
    changed = [True] * len(words) if changed is None else changed
    rewards = [0.0] * (len(words) - 1) + [1.0 if more.get("success", True) else 0.0]
    actions = [[sorted(set(words)).index(w)] for w in words] if actions is None else actions
    rows = zip(words, states, changed, rewards, actions)
    return trajectory(
        [turn(f"<answer>{w}</answer>", s, c, reward=r, action=a) for w, s, c, r, a in rows], **more
    )


WALKED = moves(["right", "right", "down"], ["a", "b", "c"])


def good(**changes):
    """An annotation of `WALKED`."""
    segments = [
        {"start": 0, "end": 1, "behaviour": "walks", "core": "Solve path planning", "soft": [], "outcome": "ok",
         "evidence": "<answer>right</answer>"},
        {"start": 2, "end": 2, "behaviour": "arrives", "core": "verify_goal_or_terminal_state",
         "soft": ["format_final_answer"], "outcome": "ok", "evidence": "reward 1"},
    ]  # fmt: skip
    nodes = ["solve_path_planning", "verify_goal_or_terminal_state"]
    value = {
        "segments": segments,
        "failure_modes": [],
        "graph": {"nodes": nodes, "edges": [nodes]},
        "tags": ["walk"],
    }
    return value | changes


def segment(number, **changes):
    value = good()
    value["segments"][number] |= changes
    return value


# ---- labels ----


def test_labels():
    assert all(complaint(label) is None and normalise(label) == label for label in LABELS)
    assert normalise("Plan a Path") == "plan_a_path"
    for label in (
        "perception",
        "reasoning",
        "decision_making",
        "visual_perception",
        "solve_the_puzzle",
        "plan",
    ):
        assert "coarse" in complaint(label), label
    for label in (
        "infer_cellular_automaton_rule", "read_arrow_at_cell", "identify_sudoku_empty_cell", "pick_alice_move",
        "move_to_red_box", "compare_2_cells",
    ):  # fmt: skip
        assert "one environment" in complaint(label), label
    for label in ("count_the_live_neighbours_in_a_given_field", "path_to_goal"):
        assert complaint(label), label
    for label in ("sort_items_by_key_value", "triangulate_position"):
        assert complaint(label), label
    for label in ("locate_target_position", "sort_by_priority", "estimate_missing_length"):
        assert complaint(label) is None, label


def test_words_of_environments_names():
    specific = specific_words(["klo_blocks", "minimum_spanning_tree_counting", "rush_hour"])
    assert specific == {"klo", "blocks", "rush", "hour"}
    assert complaint("push_heavy_blocks") is None
    assert "blocks" in complaint("push_heavy_blocks", specific)
    assert complaint("solve_combinatorial_counting", specific_words(["combinatorial_counting"])) is None


# ---- what a model's annotation must be ----


def test_a_good_annotation_is_read():
    read = read_annotation(json.dumps(good()), WALKED)
    assert [s["core"] for s in read["segments"]] == ["solve_path_planning", "verify_goal_or_terminal_state"]
    assert read_annotation(f"```json\n{json.dumps(good())}\n```", WALKED) == read


@pytest.mark.parametrize(
    "broken, why",
    [
        ("no json", "not one JSON object"),
        (json.dumps(good())[:-5], "not one JSON object"),
        ([good()], "type object"),
        ({k: v for k, v in good().items() if k != "graph"}, "lacks 'graph'"),
        (good(extra=1), "unknown field 'extra'"),
        (good(segments=[]), "at least one segment"),
        (segment(0, start="0"), "type integer"),
        (segment(0, start=True), "type integer"),
        (segment(0, outcome="fine"), "one of ok, error, unclear"),
        (segment(0, start=1), "must start at turn 0"),
        (segment(0, end=0), "segment 1 must start at turn 0 or 1"),
        (segment(1, start=0), "segment 1 must start at turn 1 or 2"),
        (segment(1, end=3), "not a stretch of the turns 0..2"),
        (segment(1, start=1, end=1), "must end at turn 2"),
        (segment(0, core="perception"), "too coarse"),
        (segment(1, soft=["watch the frozen lake"]), "about one environment (frozen, lake)"),
        (segment(1, soft=["a"] * 4), "too coarse"),
        (segment(1, soft=list(LABELS)[:4]), "more than three soft"),
        (segment(0, evidence="it goes left"), "evidence of segment 0"),
        (segment(0, evidence="down"), "evidence of segment 0"),
        (segment(0, evidence=""), "evidence of segment 0"),
        (segment(0, core="explore_unseen_area"), "nodes must be the core labels"),
        (good(graph={"nodes": good()["graph"]["nodes"], "edges": [["solve_path_planning"]]}), "a pair of its nodes"),
    ],
)  # fmt: skip
def test_what_is_refused(broken, why):
    text = broken if isinstance(broken, str) else json.dumps(broken)
    with pytest.raises(Invalid, match=re.escape(why)):
        read_annotation(text, WALKED, specific_words(["frozen_lake"]))


def test_failures_need_a_reason_and_single_turns_share_turn_0():
    lost = {**WALKED, "success": False}
    with pytest.raises(Invalid, match="failure_modes"):
        read_annotation(json.dumps(good()), lost)
    read_annotation(json.dumps(good(failure_modes=["fell"])), lost)
    single = trajectory([turn("Row 1 is 2 3. <answer>3 2</answer>", "a", prompt=TURN)])
    both = good()
    for part, evidence in zip(both["segments"], ("Row 1 is 2 3", "matrix of digits")):
        part |= {"start": 0, "end": 0, "evidence": evidence}
    assert len(read_annotation(json.dumps(both), single)["segments"]) == 2


def test_the_record_names_states_but_no_environment():
    there_and_back = moves(["right", "left", "left"], ["a", "b", "a"], [True, True, False], success=False)
    task, texts = annotate.record(there_and_back)
    assert task == WALK and "s0 -> s1" in texts[0] and "s1 -> s0" in texts[1]
    content = annotate.messages(there_and_back, Settings(), None)
    assert "frozen" not in json.dumps(content).replace("frozen_lake_is_never_said", "")
    assert "without success: by the rules" in content[1]["content"]


# ---- a faulty endpoint ----

FAULTS = ("429", "500", "503", "hang", "cut", "prose", "schema", "spans", "coarse", "specific", "evidence")


class Server(ThreadingHTTPServer):
    """An endpoint that fails a given share of requests, with every kind of fault in turn; it honours idempotency keys."""

    daemon_threads = True

    def __init__(self, faults: float = 0.0, refuse: int = 0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults, self.refuse = faults, refuse
        self.lock, self.over = threading.Lock(), threading.Event()
        self.tries, self.injected, self.paid = Counter(), Counter(), set()
        self.tokens = self.busy = self.busiest = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that has stopped waiting

    def fault(self, key: str) -> str | None:
        with self.lock:
            self.tries[key] += 1
            rng = random.Random(f"{key} {self.tries[key]}")
            if rng.random() >= self.faults:
                return None
            kind = FAULTS[self.injected.total() % len(FAULTS)]
            self.injected[kind] += 1
            return kind


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        server, body = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
        try:
            self.answer(server, body)
        finally:
            with server.lock:
                server.busy -= 1

    def answer(self, server, body):
        assert body["response_format"]["json_schema"]["schema"] == annotate.SCHEMA
        if server.refuse:
            return self.reply(server.refuse, {"error": {"message": "no such key"}})
        key = self.headers["Idempotency-Key"]
        kind = server.fault(key)
        if kind in ("429", "500", "503"):
            return self.reply(
                int(kind), {"error": {"message": "later"}}, {"Retry-After": "0.01"} if kind == "429" else {}
            )
        if kind == "hang":
            server.over.wait(30)
            self.close_connection = True
            return None
        text = "I cannot do that." if kind == "prose" else json.dumps(answer_to(body, kind))
        usage = {"prompt_tokens": len(json.dumps(body["messages"])) // 4, "completion_tokens": len(text) // 4}
        usage["total_tokens"] = sum(usage.values())
        completion = {"id": "x", "object": "chat.completion", "created": 0, "model": body["model"], "usage": usage,
                      "choices": [{"index": 0, "finish_reason": "stop",
                                   "message": {"role": "assistant", "content": text}}]}  # fmt: skip
        if kind == "cut":
            return self.reply(200, completion, cut=True)
        with server.lock:
            if key not in server.paid:  # else its answer did not arrive in time
                server.paid.add(key)
                server.tokens += usage["total_tokens"]
        return self.reply(200, completion)

    def reply(self, status, value, headers={}, cut=False):  # noqa: B006
        data = json.dumps(value).encode()
        data = data[: len(data) // 2] if cut else data
        self.send_response(status)
        for name, text in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **headers,
        }.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)


def answer_to(body: dict, kind: str | None) -> dict:
    """An annotation of the record in a request, with something wrong with it if asked for."""
    text = body["messages"][1]["content"]
    last = int(re.findall(r"^Turn (\d+):", text, re.MULTILINE)[-1])
    quote = re.findall(r"state s\d+ -> [\w ]+", text)[0]
    core = {"coarse": "visual_reasoning", "specific": "cross_frozen_lake"}.get(kind, "solve_path_planning")
    evidence = "what nobody said" if kind == "evidence" else quote
    part = {"start": 0, "end": last + (kind == "spans"), "behaviour": "walks", "core": core, "soft": [],
            "outcome": "ok", "evidence": evidence}  # fmt: skip
    value = good(segments=[part], graph={"nodes": [core], "edges": []}, failure_modes=["none"])
    if kind == "schema":
        del value["tags"]
    return value


@pytest.fixture
def serve():
    running = []

    def start(**settings):
        running.append(Server(**settings))
        return running[-1]

    yield start
    for server in running:
        server.over.set()
        server.shutdown()
        server.server_close()


def endpoint(server, **settings) -> Endpoint:
    url = f"http://127.0.0.1:{server.server_port}/v1"
    usual = {"base_url": url, "timeout": 60, "retries": 12, "backoff": 0.001, "max_tokens": 500}
    return Endpoint("fake", **{**usual, **settings})


def many(count: int) -> list[dict]:
    """Trajectories, the last two of them alike."""
    rows = []
    for k in range(count):
        words = [random.Random(min(k, count - 2)).choice(("up", "down", "left", "right")) for _ in range(3)]
        row = moves([*words, f"{min(k, count - 2)}"], list("abcd"), number=k)
        rows.append(row)
    return rows


def test_nothing_is_lost_and_nothing_billed_twice(tmp_path, serve):
    server, rows = serve(faults=0.3), many(60)
    settings = Settings(asks=8)
    done, failed, counts = annotate_llm(tmp_path, rows, endpoint(server, timeout=4, workers=4), settings)
    assert failed == [] and [identity(row) for row in done] == [identity(row) for row in rows]
    assert all(row["annotator"] == "fake" and row["segments"][-1]["end"] == 3 for row in done)
    assert {kind for kind in FAULTS if server.injected[kind]} == set(FAULTS)
    assert len(server.paid) == counts["asked"] >= 59 and counts["tokens"] == server.tokens
    # Every request was sent once, and again only after a fault on the way.
    survived = {kind: n for kind, n in counts.items() if kind not in ("asked", "stored", "tokens")}
    assert sum(server.tries.values()) == counts["asked"] + sum(survived.values()) and server.busiest > 1
    for kind in ("429", "500", "503"):
        assert counts[kind] == server.injected[kind]
    assert counts["timeout"] >= server.injected["hang"] and counts["broken"] >= server.injected["cut"]
    # A rerun costs nothing, even where there is no endpoint any more, and gives the same.
    again, failed, counts = annotate_llm(
        tmp_path, rows, endpoint(server, base_url="http://127.0.0.1:9/v1"), settings
    )
    assert again == done and not failed and counts["asked"] == 0


def test_a_crash_costs_no_answer_that_had_arrived(tmp_path, serve, monkeypatch):
    server, rows = serve(), many(20)
    put = annotate.Store.put

    def crash(store, key, answer):
        put(store, key, answer)
        if len(store._answers) == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(annotate.Store, "put", crash)
    with pytest.raises(KeyboardInterrupt):
        annotate_llm(tmp_path, rows, endpoint(server, workers=2), Settings())
    monkeypatch.setattr(annotate.Store, "put", put)
    with (tmp_path / annotate.ANSWERS).open("a") as file:
        file.write('{"key": "torn')  # the line that a kill cuts off
    done, failed, _ = annotate_llm(tmp_path, rows, endpoint(server), Settings())
    assert len(done) == 20 and not failed and sum(server.tries.values()) == len(server.tries) == 19
    with annotate.alone(tmp_path, "annotate"), pytest.raises(RuntimeError, match="another annotate"):
        annotate_llm(tmp_path, rows, endpoint(server), Settings())


def test_the_budget_is_a_cap(tmp_path, serve):
    server, rows = serve(), many(12)
    cap = 20_000
    done, failed, counts = annotate_llm(tmp_path, rows, endpoint(server), Settings(budget=cap))
    assert done and failed and len(done) + len(failed) == 12
    assert {row["reason"] for row in failed} == {"budget"} and counts["tokens"] == server.tokens <= cap
    # What was spent counts when it goes on; a larger cap finishes it.
    more, failed, _ = annotate_llm(tmp_path, rows, endpoint(server), Settings(budget=cap))
    assert server.tokens <= cap and len(more) + len(failed) == 12
    more, failed, _ = annotate_llm(tmp_path, rows, endpoint(server), Settings(budget=10 * cap))
    assert len(more) == 12 and not failed and sum(server.tries.values()) == len(server.tries)


def test_what_cannot_be_annotated_is_reported(tmp_path, serve, monkeypatch):
    server, rows = serve(), many(4)
    monkeypatch.setitem(answer_to.__globals__, "answer_to", lambda body, kind: {"segments": []})
    done, failed, counts = annotate_llm(tmp_path, rows, endpoint(server), Settings(asks=2))
    assert not done and counts["asked"] == 6
    assert all(
        row["reason"] == "refused answers" and row["asks"] == 2 and "lacks" in row["detail"] for row in failed
    )
    monkeypatch.undo()
    assert (
        annotate_llm(tmp_path, rows, endpoint(server), Settings(asks=2))[2]["asked"] == 0
    )  # the answers are known
    done, failed, counts = annotate_llm(tmp_path, rows, endpoint(server), Settings(asks=3))
    assert len(done) == 4 and counts["asked"] == 3 and counts["stored"] == 6
    assert "| annotated | 4 |" in annotate.report(done, failed, counts)


def test_an_endpoint_that_refuses_or_is_down(tmp_path, serve):
    server, rows = serve(refuse=401), many(9)
    with pytest.raises(Refused, match="no such key"):
        annotate_llm(tmp_path, rows, endpoint(server), Settings())
    with pytest.raises(Refused, match="seems down"):
        gone = endpoint(server, base_url="http://127.0.0.1:9/v1", retries=1, workers=3)
        annotate_llm(tmp_path, rows, gone, Settings())
    with pytest.raises(ValueError, match="model"):
        annotate_llm(tmp_path, rows, Endpoint(), Settings())


def test_command_line_and_plan(tmp_path, serve, capsys):
    server, rows = serve(), many(5)
    append_lines(tmp_path / TRAJECTORIES, rows)
    call = lambda *more: tyro.cli(annotate.main, args=[str(tmp_path), *more])  # noqa: E731
    online = ["--endpoint.model", "fake", "--endpoint.base-url", f"http://127.0.0.1:{server.server_port}/v1"]
    call(*online, "--plan")
    assert (
        "5 trajectories, 4 of them different, 4 still to be asked" in capsys.readouterr().out
        and not server.tries
    )
    call(*online)
    assert "| annotated | 5 |" in capsys.readouterr().out
    assert (
        len(read_lines(tmp_path / annotate.ANNOTATIONS)) == 5
        and read_lines(tmp_path / annotate.FAILURES) == []
    )
    call(*online, "--plan")
    assert "0 still to be asked" in capsys.readouterr().out
    call("--offline.no-task-text")
    assert "offline rules 1 (events, replies, references)" in capsys.readouterr().out
    assert read_lines(tmp_path / annotate.ANNOTATIONS)[0]["annotator"].startswith("offline rules 1")


# ---- the offline annotator ----


def cores(row, successes=(), **settings):
    return [s["core"] for s in offline.annotate(row, successes, offline.Settings(**settings))["segments"]]


def test_events_of_a_walk():
    lost = moves(
        ["left", "left", "right", "left", "down"], ["a", "a", "a", "b", "a"], [False, False, True, True, True],
        success=False, truncated=True,
    )  # fmt: skip
    parts = offline.annotate(lost, [WALKED])
    named = [(s["start"], s["end"], s["core"]) for s in parts["segments"]]
    assert named == [
        (0, 0, "extract_grid_or_matrix_state"),
        (0, 1, "explore_unseen_area"),
        (2, 2, "update_belief_from_feedback"),
        (2, 2, "solve_path_planning"),  # a to b is a step of the walk that succeeded
        (3, 3, "recover_from_wrong_path"),
        (4, 4, "explore_unseen_area"),
    ]
    assert {"meet_blocked_action", "repeat_failed_action"} <= set(parts["segments"][1]["soft"])
    assert parts["failure_modes"] == ["repeated a failed action", "ran out of turns"]
    assert "solve_path_planning" not in cores(lost, [WALKED], references=False)
    assert cores(WALKED, [WALKED])[-2:] == ["solve_path_planning", "verify_goal_or_terminal_state"]


def test_illegal_actions_handling_and_opponents():
    row = moves(["pickup", "toggle", "forward"], ["a", "b", "c"])
    row["turns"].insert(0, turn("<answer>drop</answer>", "a", changed=False, valid=False))
    assert cores(row) == [
        "extract_grid_or_matrix_state", "generate_legal_actions", "update_belief_from_feedback", "manipulate_object",
        "manipulate_object", "solve_path_planning", "verify_goal_or_terminal_state",
    ]  # fmt: skip
    board = moves(["3, 4", "2, 2"], ["a", "b"])
    for one in board["turns"]:
        one["prompt"] = "You play against an opponent. Choose a cell of the board."
    assert cores(board) == [
        "extract_grid_or_matrix_state",
        "solve_adversarial_search",
        "verify_goal_or_terminal_state",
    ]


def test_structure_of_replies():
    reply = """Row 1 holds 2 and 3. Each edge: A-B, B-C. 3 + 4*2 = 11. 2 x 3 = 7.
    The corner must be 1. Wait, that is wrong. Let me check the result. <answer>4</answer>"""
    single = trajectory([turn(reply, "a", prompt="Answer.")])
    parts = offline.annotate(single)["segments"]
    assert [(s["core"], s["outcome"]) for s in parts] == [
        ("extract_scene_state", "ok"), ("extract_grid_or_matrix_state", "ok"), ("extract_graph_or_relation_state", "ok"),
        ("compute_arithmetic_value", "unclear"), ("solve_constraint_satisfaction", "ok"),
        ("recover_from_wrong_path", "ok"), ("verify_solution_constraints", "ok"),
    ]  # fmt: skip
    assert parts[-1]["soft"] == ["format_final_answer"] and all(s["start"] == s["end"] == 0 for s in parts)
    assert cores(single, replies=False) == ["extract_scene_state"]
    for equation, holds in (
        ("3 + 4*2 = 11", True),
        ("6/4*2 - 1 = 2", True),
        ("1/0 = 1", False),
        ("2x3 = 7", False),
    ):
        assert offline._holds(equation) is holds


def test_a_wrong_answer_shows_less_than_a_right_one():
    right = trajectory([turn("<answer>3 1\n4 2</answer>", "a", prompt=TURN, action=[3, 1, 4, 2])])
    half = trajectory(
        [turn("<answer>3 1\n2 4</answer>", "a", prompt=TURN, action=[3, 1, 2, 4])], success=False
    )
    wrong = trajectory(
        [turn("<answer>1 2\n3 4</answer>", "a", prompt=TURN, action=[1, 2, 3, 4])], success=False
    )
    silent = trajectory([turn("hm", "a", prompt=TURN)], success=False)
    full = ["extract_grid_or_matrix_state", "solve_state_transformation"]
    assert cores(right) == cores(half, [right]) == full
    assert cores(wrong, [right]) == cores(silent, [right]) == full[:1]
    assert "solve_state_transformation" in offline.annotate(wrong, [right])["segments"][0]["soft"]
    assert offline.annotate(silent, [right])["segments"][0]["soft"] == []
    assert offline.annotate(silent, [right])["failure_modes"] == ["unreadable answer"]
    assert cores(right, task_text=False) == full[:1]  # from the answer's form alone


def renamed(rows):
    names = {env: f"env_{k}" for k, env in enumerate(sorted({row["env"] for row in rows}, reverse=True))}
    rows = copy.deepcopy(rows)
    for row in rows:
        row["env"] = names[row["env"]]
    return rows


def test_the_offline_annotator_knows_no_names_and_says_what_it_is():
    rows = [*many(6), WALKED | {"env": "spiral_matrix", "trajectory": 9}]
    rows += [trajectory([turn("<answer>7</answer>", "a", prompt=TURN)], env="door_key", success=False)]
    lines, others = annotate_offline(rows), annotate_offline(renamed(rows))
    assert [{**row, "env": None} for row in lines] == [{**row, "env": None} for row in others]
    assert [{**row, "policy": None} for row in lines] == [
        {**row, "policy": None} for row in annotate_offline([{**row, "policy": "x"} for row in rows])
    ]
    for row, line in zip(rows, lines):
        assert line["annotator"] == "offline rules 1 (events, replies, references, task_text)"
        assert list(line)[:6] == ["env", "policy", "instance", "trajectory", "annotator", "segments"]
        assert annotate._span_complaints(line["segments"], len(row["turns"])) == []
        assert {label for s in line["segments"] for label in (s["core"], *s["soft"])} <= set(LABELS)


def test_every_label_of_the_tables_is_in_the_vocabulary():
    tables = (*offline.EXTRACTION, *offline.SOLVING, *offline.THINKING)
    assert {label for label, _ in tables} <= set(LABELS) and not COARSE_WORDS & set(PAPER)


def test_the_prompts_own_examples_are_good():
    found = [
        json.loads(text)
        for text in re.findall(r"Example answer:\n(\{.*?\})\n(?:\n|$)", annotate.SYSTEM, re.DOTALL)
    ]
    assert len(found) == 2
    for value in found:
        assert annotate._misfits(value, annotate.SCHEMA, "it") == [] == annotate._graph_complaints(value)
        assert annotate._label_complaints(value["segments"], frozenset()) == []
    bumped = trajectory(
        [turn("<answer>forward</answer>", "a"), turn("<answer>forward</answer>", "b", changed=False),
         turn("A wall. I go around it. <answer>left</answer>", "b")], success=False, truncated=True,
    )  # fmt: skip
    read_annotation(json.dumps(found[1]), bumped)
