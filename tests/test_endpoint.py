"""Evaluating a model behind an endpoint: it sees what a policy sees, nothing is lost or paid twice, nothing is made up."""

import base64
import hashlib
import io
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image

from aes.llm import Endpoint
from agents.rollout import instance_keys
from experiments import evaluate as module
from experiments.configs import Evaluation, tiny
from experiments.endpoint import EndpointPlayer, Stopped, endpoint_player, message
from experiments.evaluate import evaluate
from jaxenv import MixedBatch

SETTINGS = Evaluation(episodes=6, seed=31)
MOVES = ("up", "down", "left", "right")


class Model(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint that answers `reply(body)`; `fault(number)` gives the status that spoils a request."""

    daemon_threads = True

    def __init__(self, reply, fault=lambda number: None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.fault = reply, fault
        self.bodies, self.lock, self.faults = [], threading.Lock(), Counter()
        self.busy = self.busiest = self.number = 0
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def endpoint(self, **settings) -> Endpoint:
        url = f"http://127.0.0.1:{self.server_port}/v1"
        settings = {
            "backoff": 0.001,
            "workers": 3,
            "max_tokens": 50,
            "structured": "none",
            "temperature": 1.0,
        } | settings
        return Endpoint(model="m", base_url=url, **settings)

    def handle_error(self, request, client_address):
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        server, body = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.number += 1
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
            status = server.fault(server.number)
            server.faults[status] += 1
        try:
            if status is None:
                text = server.reply(body)
                with server.lock:
                    server.bodies.append(body)
                choice = {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text},
                }
                usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
                self.send(200, {"id": "x", "object": "chat.completion", "created": 0, "model": "m",
                                "choices": [choice], "usage": usage})  # fmt: skip
            else:
                self.send(status, {"error": {"message": "not now"}})
        finally:
            with server.lock:
                server.busy -= 1

    def send(self, status, content):
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def model():
    running = []

    def start(reply, **settings):
        running.append(Model(reply, **settings))
        return running[-1]

    yield start
    for server in running:
        server.shutdown()
        server.server_close()
        server.thread.join()


@pytest.fixture(scope="module")
def lake():
    return MixedBatch(["frozen_lake"], 64)


@pytest.fixture(scope="module")
def board():
    return MixedBatch(["tictactoe_qa"], 64)


def wander(body) -> str:
    """A move that depends on everything that was sent."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    return f"I go <answer>{MOVES[digest[0] % 4]}</answer>"


def seen(body) -> tuple[str, np.ndarray]:
    """Text and picture of a request."""
    picture, text = body["messages"][0]["content"]
    data = base64.b64decode(picture["image_url"]["url"].partition("base64,")[2])
    return text["text"], np.asarray(Image.open(io.BytesIO(data)))


def score(mixed, endpoint, folder, budget=None):
    with endpoint_player(endpoint, folder, budget) as player:
        scores = evaluate(mixed, player, SETTINGS, held_out=False, label=None)
        return scores, player


def test_it_sees_the_instances_and_right_answers_win(model, board, tmp_path):
    env = board.batches[0].env
    seeds = np.arange(SETTINGS.episodes, dtype=np.uint32) + np.uint32(SETTINGS.seed)
    groups = board.start(np.zeros(6, int), np.full(6, env.eval_level), instance_keys(seeds))
    shown = np.zeros((6, 4), bool)
    pictures, texts, answers = board.render(groups), board.prompts(groups, shown), board.solve(groups)
    right = {p.tobytes(): a for p, a in zip(pictures, answers)}
    server = model(lambda body: right[seen(body)[1].tobytes()])
    scores, player = score(board, server.endpoint(), tmp_path)
    assert (scores.success[env.id] == 1).all() and scores.invalid[env.id] == 0.0
    assert sorted(seen(b)[0] for b in server.bodies) == sorted(texts)
    assert player.counts == {"replies": 6, "cut_off": 0} and player.chat.budget.spent == 150
    assert all(b["temperature"] == 1.0 and b["max_tokens"] == 50 and b["model"] == "m" for b in server.bodies)
    assert len({b["seed"] for b in server.bodies}) == 6 and "response_format" not in server.bodies[0]

    idle, _ = score(board, model(lambda body: "I do not know").endpoint(), tmp_path / "idle")
    assert (idle.success[env.id] == 0).all() and idle.invalid[env.id] == 1.0


def test_without_a_picture_the_message_is_text():
    assert message("hello", None) == [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]


def test_faults_change_nothing_and_a_second_run_is_free(model, lake, tmp_path):
    calm = model(wander)
    want, _ = score(lake, calm.endpoint(), tmp_path / "calm")
    faults = {2: 429, 3: 500, 7: 503, 8: 429, 11: 502}
    rough = model(lambda body: (time.sleep(0.02), wander(body))[1], fault=faults.get)
    found, player = score(lake, rough.endpoint(), tmp_path / "rough")
    assert found.as_dict() == want.as_dict()
    assert rough.number == len(rough.bodies) + len(faults) and len(rough.bodies) == len(calm.bodies)
    assert all(player.chat.counts[str(status)] for status in faults.values()) and 1 < rough.busiest <= 3
    assert len({json.dumps(b, sort_keys=True) for b in rough.bodies}) == len(rough.bodies) > SETTINGS.episodes

    again, player = score(lake, rough.endpoint(), tmp_path / "rough", budget=1)
    assert again.as_dict() == found.as_dict() and rough.number == len(rough.bodies) + len(faults)
    assert player.chat.counts == {"stored": len(rough.bodies)}


def test_greedy_draws_share_an_answer(model, lake, tmp_path):
    server = model(lambda body: "<answer>up</answer>")
    score(lake, server.endpoint(temperature=0.0), tmp_path)
    assert "seed" not in server.bodies[0]
    assert len({json.dumps(b, sort_keys=True) for b in server.bodies}) == len(server.bodies)


def test_what_stops_it_is_no_failure_of_the_model_and_it_goes_on(model, board, tmp_path):
    server = model(lambda body: "<answer>A</answer>", fault=lambda number: 401 if number > 2 else None)
    with pytest.raises(Stopped, match="Refused"):
        score(board, server.endpoint(), tmp_path)
    assert len(server.bodies) == 2
    server.fault = lambda number: 500
    with pytest.raises(Stopped, match="Unanswered: 2 times without an answer"):
        score(board, server.endpoint(retries=1), tmp_path)
    server.fault = lambda number: None
    with pytest.raises(Stopped, match="OverBudget: 50 of 51 tokens spent"):
        score(board, server.endpoint(), tmp_path, budget=51)
    assert len(server.bodies) == 2
    _, player = score(board, server.endpoint(), tmp_path)
    assert len(server.bodies) == 6 and player.chat.budget.spent == 6 * 25


def test_command_line(model, tmp_path, capsys, monkeypatch):
    server = model(lambda body: "<answer></answer>")
    url = f"http://127.0.0.1:{server.server_port}/v1"
    end = Endpoint(
        model="m", base_url=url, structured="none", temperature=1.0, workers=2, backoff=0.001, retries=1
    )
    config = tiny(envs=("tictactoe_qa",), evaluation=Evaluation(episodes=3, seed=5))
    call = lambda **more: module.main(config, "endpoint", endpoint=end, answers=tmp_path, **more)  # noqa: E731
    call()
    out = capsys.readouterr().out
    assert "| tictactoe_qa | ST | 0.0 ± 0.0 |" in out and "3 replies, 0 of them cut off" in out
    assert "75 tokens in all" in out and len(server.bodies) == 3
    call(most_tokens=10)
    assert len(server.bodies) == 3
    config = tiny(envs=("tictactoe_qa",), evaluation=Evaluation(episodes=4, seed=5))
    with pytest.raises(SystemExit, match="the same command goes on"):
        call(most_tokens=80)
    with pytest.raises(SystemExit, match="which model"):
        module.main(config, "endpoint", answers=tmp_path)
    with endpoint_player(end, tmp_path, None) as player:
        assert isinstance(player, EndpointPlayer)
        with pytest.raises(SystemExit, match="another endpoint works in"):
            call()
