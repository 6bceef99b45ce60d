"""Starting and stopping one vLLM server: loopback only, output to a file, nothing left behind when this process ends."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from agents.serving.client import Client, ServingError

HOST = "127.0.0.1"
BACKEND = "safetensors_file"  # of agents/serving/plugin
_GUARD = Path(__file__).with_name("guard.py")


class NotStarted(ServingError):
    """The server did not come up; the message holds the last lines of its log."""


def flags(folder: Path, port: int, name: str, dtype: str, max_length: int) -> list[str]:
    """Arguments of `vllm` that the client relies on."""
    return [
        "serve", str(folder), "--host", HOST, "--port", str(port), "--served-model-name", name,
        "--max-model-len", str(max_length), "--dtype", dtype, "--logprobs-mode", "processed_logprobs",
        "--generation-config", "vllm", "--enable-scale-out", "--limit-mm-per-prompt", '{"image":1,"video":0}',
        "--weight-transfer-config", f'{{"backend":"{BACKEND}"}}',
    ]  # fmt: skip


ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_SERVER_DEV_MODE": "1"}


def free_port() -> int:
    with socket.socket() as s:
        s.bind((HOST, 0))
        return s.getsockname()[1]


class Launcher:
    """One server on a model folder; started, stopped and started again.

    Args:
        executable: `vllm`, of its own virtual environment.
        folder: the model folder.
        log: the file that receives the server's output; a restart appends.
        port: 0 takes a free one at every start.
        arguments: further arguments of `vllm serve`.
        environment: added to this process's.
        start_timeout: seconds until it must be healthy.
    """

    def __init__(
        self,
        executable: str,
        folder: Path,
        log: Path,
        *,
        port: int = 0,
        dtype: str = "bfloat16",
        max_length: int = 1024,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        start_timeout: float = 900.0,
    ):
        self.executable, self.folder, self.log = executable, Path(folder).absolute(), Path(log)
        self.port, self.dtype, self.max_length = port, dtype, max_length
        self.arguments, self.environment = tuple(arguments), dict(environment or {})
        self.start_timeout = start_timeout
        self._process: subprocess.Popen | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float, connections: int) -> Client:
        """Start the server and wait for it; returns a client of it.

        Raises:
            NotStarted: no such executable, the port is taken, the server ended, or it was not healthy in time.
        """
        if self.running:
            raise RuntimeError("the server runs already")
        found = shutil.which(self.executable)
        if found is None:
            raise NotStarted(
                f"there is no executable {self.executable!r}: vLLM has its own virtual environment, "
                "see docs/serving.md"
            )
        port = self.port or free_port()
        if self.port:
            _refuse_taken(port)
        # A name that no other server has: a health check alone would be content with whoever has the port.
        name = f"policy-{secrets.token_hex(4)}"
        command = [found, *flags(self.folder, port, name, self.dtype, self.max_length), *self.arguments]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write(f"\n==== {' '.join(command)}\n".encode())
            log.flush()
            # The pipe closes when this process ends, in whatever way; the guard then ends the server.
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_GUARD), *command], stdin=subprocess.PIPE, stdout=log,
                stderr=subprocess.STDOUT, env={**os.environ, **ENVIRONMENT, **self.environment},
            )  # fmt: skip
        client = Client(f"http://{HOST}:{port}", name, timeout, connections)
        try:
            self._wait(client)
        except BaseException:
            client.close()
            self.stop()
            raise
        return client

    def _wait(self, client: Client) -> None:
        start = time.monotonic()
        shape = "{desc}: {elapsed} [at most {total:.0f} s]"
        with tqdm(
            total=self.start_timeout,
            desc=f"starting {Path(self.executable).name} on {client.url}, log in {self.log}",
            bar_format=shape,
        ) as bar:
            while not client.healthy():
                bar.refresh()
                if not self.running:
                    raise NotStarted(
                        f"the server ended with code {self._process.returncode}; {self.log} ends with\n{self._tail()}"
                    )
                if time.monotonic() - start > self.start_timeout:
                    raise NotStarted(
                        f"the server was not healthy after {self.start_timeout:.0f} s; {self.log} ends with\n{self._tail()}"
                    )
                time.sleep(0.2)
        try:
            client.describe()
        except ServingError as error:
            raise NotStarted(f"another server answers at {client.url}: {error}") from error

    def _tail(self, lines: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """End the server and all its processes. Without a running one this does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()


def _refuse_taken(port: int) -> None:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((HOST, port))
        except OSError as error:
            raise NotStarted(f"port {port} is taken: {error}") from error
