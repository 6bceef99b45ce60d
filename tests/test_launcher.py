"""Processes: a server is started, watched, ended and started again, and none outlives who started it."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from small import narrow, setup

from agents.prompts import Prompt
from agents.serving.client import Request, Sampling
from agents.serving.fleet import Config, Fleet, Server, open_fleet
from agents.serving.launcher import HOST, Launcher, NotStarted, flags
from agents.serving.weights import write_folder, write_weights

FAKE = Path(__file__).with_name("fake_server.py")
ROOT = FAKE.parent.parent
WARM = Sampling(6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("model")
    write_folder(made, narrow().config, setup().config.model.resolution)
    write_weights(setup().params, narrow().config, made)
    return made


@pytest.fixture
def executable(tmp_path):
    """A command that takes the arguments of `vllm` and writes its process id beside it."""
    file = tmp_path / "vllm"
    file.write_text(f'#!/bin/sh\necho $$ >> "{tmp_path}/pids"\nexec "{sys.executable}" -I "{FAKE}" "$@"\n')
    file.chmod(0o755)
    return file


@pytest.fixture
def launch(executable, folder, tmp_path):
    made = []

    def make(*arguments, **settings):
        made.append(
            Launcher(str(executable), folder, tmp_path / "server.log", arguments=arguments, **settings)
        )
        return made[-1]

    yield make
    for one in made:
        one.stop()


def pids(executable: Path) -> list[int]:
    return [int(line) for line in executable.with_name("pids").read_text().split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def gone(pid: int, seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(pid)


def prompt(text: str = "Where?") -> Prompt:
    side = setup().config.model.resolution
    return setup().writer(text, np.full((side, side, 3), 7, np.uint8))


def test_a_server_is_started_watched_and_ended(launch, executable, tmp_path, capfd):
    one = launch()
    client = one.start(30, 4)
    try:
        assert one.running and client.url.startswith(f"http://{HOST}:") and client.healthy()
        name, length = client.describe()
        assert name.startswith("policy-") and length == one.max_length
        client.label("v")
        reply = client.generate(narrow(), Request(prompt(), 2, 0), WARM, "v")
        assert len(reply) == 2
        (pid,) = pids(executable)
        with pytest.raises(RuntimeError, match="runs already"):
            one.start(30, 4)
    finally:
        client.close()
    one.stop()
    assert not one.running and gone(pid) and not client.healthy()
    one.stop()
    log = (tmp_path / "server.log").read_text()
    assert "fake server starts" in log and "--logprobs-mode processed_logprobs" in log
    assert "starting vllm on http://127.0.0.1" in capfd.readouterr().err


def test_what_does_not_come_up_says_why(launch, executable, tmp_path):
    with pytest.raises(NotStarted, match=r"(?s)code 1.*no memory left for the model"):
        launch("--fail", "no memory left for the model").start(30, 4)
    with pytest.raises(NotStarted, match=r"(?s)not healthy after 2 s; .*server\.log ends with"):
        launch("--deaf", start_timeout=2.0).start(30, 4)
    assert len(pids(executable)) == 2 and all(gone(pid) for pid in pids(executable))
    missing = launch()
    missing.executable = str(tmp_path / "nowhere")
    with pytest.raises(NotStarted, match=r"no executable.*own virtual environment"):
        missing.start(30, 4)
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(NotStarted, match="is taken"):
            launch(port=taken.getsockname()[1]).start(30, 4)
    assert len(pids(executable)) == 2  # nothing was started for these


def test_a_killed_server_is_started_again_with_the_weights(executable, folder, tmp_path):
    """Killed in the middle of a batch, with SIGKILL: every reply is there once, by the right weights."""
    config = Config(
        executable=str(executable), concurrency=2, together=2, backoff=0.01, timeout=30, start_timeout=60,
        arguments=("--pace", "0.1"), max_length=512,
    )  # fmt: skip
    fleet = open_fleet(config, narrow(), tmp_path / "run", setup().config.model.resolution, None)
    try:
        version = fleet.push(setup().params)
        asked = [prompt("Where? " * (i + 1)) for i in range(4)]
        counts, key = [4, 3, 2, 6], jax.random.key(0)
        want = fleet.generate(asked, counts, key, WARM)
        (first,) = pids(executable)
        killer = threading.Timer(0.15, os.kill, (first, signal.SIGKILL))
        killer.start()
        found = fleet.generate(asked, counts, key, WARM)
        killer.join()
        assert len(pids(executable)) == 2 and fleet.counts["restarts"] == 1 and fleet.counts["retries"]
        for a, b, count in zip(want, found, counts):
            np.testing.assert_array_equal(a.tokens, b.tokens)
            np.testing.assert_array_equal(a.log_probs, b.log_probs)
            assert b.versions == (version,) * count
        assert fleet.push(setup().params) != version
        assert len(pids(executable)) == 2  # the new process takes weights like the first
    finally:
        fleet.close()
    assert all(gone(pid) for pid in pids(executable))


def test_no_server_outlives_a_killed_trainer(executable, folder, tmp_path):
    code = f"""
        import os, signal
        from pathlib import Path
        from agents.serving.launcher import Launcher
        held = Launcher({str(executable)!r}, Path({str(folder)!r}), Path({str(tmp_path / "log")!r}))
        client = held.start(30, 4)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    (pid,) = pids(executable)
    assert gone(pid)


def test_one_server_per_device(tmp_path):
    config = Config(
        devices=("1", "2,3"), executable="/nowhere/vllm", arguments=("--tensor-parallel-size", "2")
    )
    fleet = open_fleet(config, narrow(), tmp_path, 64, None)
    launchers = [server.launcher for server in fleet.servers]
    assert [one.environment["CUDA_VISIBLE_DEVICES"] for one in launchers] == ["1", "2,3"]
    assert len({one.log for one in launchers}) == 2 and launchers[0].arguments == config.arguments
    line = flags(tmp_path, 99, "name", "bfloat16", 4096)
    assert line[line.index("--host") + 1] == "127.0.0.1" and "--enable-scale-out" in line
    assert isinstance(fleet, Fleet) and all(isinstance(s, Server) for s in fleet.servers)
