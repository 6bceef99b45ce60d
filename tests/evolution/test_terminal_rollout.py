"""Agents try tasks; every kind of failure has its own status and no reward."""

import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from aes.llm import Endpoint
from curriculum.evolution import run as command_line
from curriculum.evolution.agents import ChatAgent, NoOp, Oracle, Scripted
from curriculum.evolution.rollout import Result, Settings, as_json, rollout, rollouts, summarise
from curriculum.evolution.sandbox import File, Sandbox, SandboxError, Stats
from curriculum.evolution.task import Agent, Task, TaskInfo, Verifier, write

pytestmark = pytest.mark.usefixtures("sandboxed")
TEST = b'if [ "$(cat /app/answer)" = "$WANTED" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt'


def task(
    dockerfile: str = "", solve: bytes = b'echo "$ANSWER" > answer', test: bytes = TEST, **changes
) -> Task:
    files = {
        "environment/Dockerfile": File(f"FROM debian:12\nENV ANSWER=42\nWORKDIR /app\n{dockerfile}".encode()),
        "environment/given": File(b"given"),
        "solution/solve.sh": File(solve),
        "tests/test.sh": File(test),
    }
    verifier = changes.pop("verifier", Verifier(env={"WANTED": "42"}))
    return Task(TaskInfo("t"), "Write 42 to /app/answer.", files, verifier=verifier, **changes)


def test_oracle_passes_noop_fails_scripts_get_what_they_did():
    assert [result.reward for result in rollouts(task(), Oracle(), n=2, workers=2)] == [1.0, 1.0]
    nothing = rollout(task(), NoOp())
    assert (nothing.status, nothing.reward, nothing.turns, nothing.solved) == ("ok", 0.0, 0, False)
    tried = rollout(task(), Scripted(["echo 4 > answer", "echo 42 > answer; pwd"]))
    assert (tried.reward, tried.turns, tried.log[1]["output"]) == (1.0, 2, "/app\n")
    assert tried.wall_sec > 0 and tried.stats.peak_memory_mb > 0


def test_the_environment_is_built_as_its_dockerfile_says():
    built = task("COPY given /app/d/\nRUN cat d/given > made && ln -s made link && chmod 600 made\n")
    looked = rollout(built, Scripted(["cat link; stat -c %a made; echo $ANSWER; ls /solution /tests 2>&1"]))
    assert (
        looked.log[0]["output"].startswith("given600\n42\n")
        and "cannot access '/tests'" in looked.log[0]["output"]
    )


def test_the_solution_is_out_of_reach():
    found = rollout(
        task(), Scripted(["grep -rl 'ANSWER. . answer' / --include=*.sh 2>/dev/null; ls -A /solution"])
    )
    assert found.log[0]["output"] == ""


@pytest.mark.parametrize(
    "changes, status, error",
    [
        ({"dockerfile": "RUN false\n"}, "sandbox_error", "'false' ended with 1"),
        (
            {"dockerfile": "RUN apt-get install -y no-such-package\n"},
            "sandbox_error",
            "lacks the package no-such-package",
        ),
        ({"test": b"exit 3 # reward.txt"}, "verifier_error", "exit status 3"),
        (
            {"test": b"sleep 60 # reward.txt", "verifier": Verifier(timeout_sec=0.3)},
            "verifier_error",
            "longer than 0.3 s",
        ),
    ],
)
def test_failures_have_a_status_and_no_reward(changes, status, error):
    result = rollout(task(**changes), Oracle())
    assert (result.status, result.reward) == (status, None) and error in result.error


def test_an_oracle_without_a_solution_is_no_zero():
    bare = task()
    bare = dataclasses.replace(
        bare, files={k: v for k, v in bare.files.items() if not k.startswith("solution")}
    )
    assert (rollout(bare, Oracle()).status, rollout(bare, Oracle()).reward) == ("agent_error", None)


def test_a_sandbox_that_dies_is_no_zero(monkeypatch):
    def die(self, *_, **__):
        raise SandboxError("gone")

    monkeypatch.setattr(Sandbox, "grade", die)
    result = rollout(task(), Oracle())
    assert (result.status, result.reward, result.turns) == ("sandbox_error", None, 1)


def test_time_and_turns_end_an_agent_and_its_work_is_graded():
    slow = rollout(
        task(agent=Agent(timeout_sec=1)), Scripted(["echo 42 > answer", "sleep 9", "echo 0 > answer"])
    )
    assert (slow.status, slow.reward) == ("agent_timeout", 1.0)
    stopped = rollout(task(), Scripted(["echo 42 > answer"] * 5), Settings(turns=2))
    assert (stopped.status, stopped.reward, stopped.turns) == ("ok", 1.0, 2)


def result(status: str, reward: float | None, turns: int) -> Result:
    return Result("t", "h", 0, status, reward, None, turns, 1.0, Stats())


def test_pass_rate_counts_graded_rollouts_only():
    some = [
        result("ok", 1.0, 4),
        result("agent_timeout", 0.0, 8),
        result("verifier_error", None, 100),
        result("ok", 0.5, 6),
    ]
    summary = summarise(some)
    assert (summary.rollouts, summary.graded, summary.pass_rate, summary.mean_turns) == (4, 3, 1 / 3, 6.0)
    assert summary.statuses == {"ok": 2, "agent_timeout": 1, "verifier_error": 1}
    assert (
        summarise(some[2:3]).pass_rate is None and json.loads(as_json(some))["summary"]["mean_reward"] == 0.5
    )


class Fake:
    """An OpenAI-compatible server that gives these replies, one after the other, to each conversation."""

    def __init__(self, replies, status=200):
        fake, self.bodies = self, []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.bodies.append(body)
                turn = sum(message["role"] == "assistant" for message in body["messages"])
                message = {"role": "assistant", "content": replies[min(turn, len(replies) - 1)]}
                answer = {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "m",
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                }
                data = json.dumps(answer if status == 200 else {"error": {"message": "no"}}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def agent(self, folder, **changes):
        end = Endpoint(model="m", base_url=self.url, retries=0, backoff=0.01, **changes)
        return ChatAgent(end, folder / "answers.jsonl")


def say(command: str) -> str:
    return f"I think so.\n```bash\n{command}\n```"


def test_a_chat_model_solves_a_task(tmp_path):
    with Fake(["Let me see.", say("pwd; exit 3"), say("echo 42 >\\\nanswer; seq 9999"), say("exit")]) as fake:
        agent = fake.agent(tmp_path)
        first, second = rollouts(task(), agent, n=2)
        assert (first.status, first.reward, first.turns, second.reward) == ("ok", 1.0, 4, 1.0)
        heard = fake.bodies[3]["messages"]
        assert [m["role"] for m in heard] == ["system", "user"] + ["assistant", "user"] * 3
        assert "Write 42" in heard[1]["content"] and "nothing was run" in heard[3]["content"]
        assert heard[5]["content"] == "/app\n[exit status 3]"
        assert "bytes left out" in heard[7]["content"] and len(heard[7]["content"]) < 17_000
        assert len({body["seed"] for body in fake.bodies}) == 2 and len(fake.bodies) == 8
        again = rollouts(task(), fake.agent(tmp_path), n=2)  # stored answers: nothing is asked
        assert [r.reward for r in again] == [1.0, 1.0] and len(fake.bodies) == 8


def test_a_chat_model_that_says_nothing_is_stopped(tmp_path):
    with Fake(["I cannot do this."]) as fake:
        quiet = rollout(task(), fake.agent(tmp_path))
        assert (quiet.status, quiet.reward, quiet.turns) == ("ok", 0.0, 3)


def test_a_chat_endpoint_that_is_down_is_no_zero(tmp_path):
    with Fake(["x"], status=500) as fake:
        down = rollout(task(), fake.agent(tmp_path))
        assert (down.status, down.reward) == ("agent_error", None) and "Unanswered" in down.error


def test_command_line(tmp_path, capsys):
    write(task(), tmp_path / "t")
    config = command_line.Config(task=tmp_path / "t", n=2, out=tmp_path / "out.json")
    assert command_line.main(config) == 0
    assert "pass rate 1.000 of 2 graded" in capsys.readouterr().out
    whole = json.loads((tmp_path / "out.json").read_text())
    assert whole["summary"]["pass_rate"] == 1.0 and len(whole["rollouts"]) == 2
    more = dataclasses.replace(config, n=3)
    assert command_line.main(more) == 0  # goes on where it was
    assert (
        capsys.readouterr().out.startswith("2: ok")
        and len((tmp_path / "out.json.lines").read_text().splitlines()) == 3
    )
    assert command_line.main(dataclasses.replace(config, task=tmp_path / "none")) == 2
    assert "task.toml cannot be read" in capsys.readouterr().err
    write(task(test=b"true # reward.txt"), tmp_path / "bad")
    assert command_line.main(command_line.Config(task=tmp_path / "bad")) == 1
