"""A sandbox for one rollout: bubblewrap namespaces, limits, and grading out of the agent's reach.

The base system's /usr is read-only; everything an agent may write (/app, /home, /tmp, /var, ...) is a throw-away
tmpfs of bounded size; there is no network but its own loopback. `inside` runs in it and keeps the limits. No file
is written on the host, and when this process ends, even by SIGKILL, the sandbox ends with it.

    with Sandbox() as box:
        box.put({"/app/a.txt": File(b"1")})
        print(box.exec("cat a.txt").output)
        verdict = box.grade({"test.sh": File(b"echo 1 > /logs/verifier/reward.txt")})
"""

import base64
import contextlib
import functools
import io
import json
import os
import platform
import random
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from curriculum.evolution import inside, seccomp

MIB = 1 << 20
LONGEST_COMMAND = 60_000  # bytes: a command fits a pipe, so that handing it over never waits
SLACK = 60.0  # seconds that the supervisor may answer late before it counts as dead
LINKS = ("/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
ETC = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "perl",
    "mime.types",
    "services",
    "protocols",
)


class SandboxUnavailable(RuntimeError):
    """Sandboxes cannot work on this machine; the message says why and what would help."""


class SandboxError(RuntimeError):
    """The sandbox itself failed: no fault of the agent, and no reward."""


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use."""

    cpus: int = 1  # processors
    cpu_sec: int = 600  # CPU seconds of the agent; as many again for the tests
    memory_mb: int = 2048  # MiB that all processes hold together
    storage_mb: int = 1024  # MiB of files; tests have as much again
    processes: int = 256  # processes and threads
    inodes: int = 100_000  # files and folders
    output_bytes: int = 16_384  # of one command that are kept: its first and its last

    def __post_init__(self):
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"limits.{name} must be at least 1, not {value}")
        if self.processes < 16:
            raise ValueError(
                f"limits.processes must be at least 16 (the shell needs some), not {self.processes}"
            )
        if self.memory_mb < 64:
            raise ValueError(
                f"limits.memory_mb must be at least 64 (the shell needs some), not {self.memory_mb}"
            )


@dataclass(frozen=True)
class File:
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Executed:
    """What one command did."""

    output: str  # stdout and stderr together, the middle left out where it is long
    rc: int | None  # None: it did not end by itself
    timed_out: bool = False
    lost: str | None = None  # why the sandbox's shell was restarted: its background processes are gone


@dataclass(frozen=True)
class Graded:
    """What the tests said."""

    reward: float | None  # None: they said nothing that counts
    error: str | None  # why there is no reward
    output: str
    details: dict[str, float] = field(default_factory=dict)  # all of reward.json


@dataclass(frozen=True)
class Stats:
    peak_memory_mb: float = 0.0
    peak_processes: int = 0
    peak_disk_mb: float = 0.0
    cpu_sec: float = 0.0
    events: tuple[dict, ...] = ()  # limits that struck, restarts, and what was removed before grading


def available(base: Path = Path("/")) -> None:
    """Start a sandbox and run a command in it.

    Raises:
        SandboxUnavailable: it cannot work here; the message names the reason.
    """
    _probe(str(base))


@functools.cache
def _probe(base: str) -> None:
    if platform.system() != "Linux":
        raise SandboxUnavailable(f"the sandbox needs Linux, not {platform.system()}")
    for tool, package in (("bwrap", "bubblewrap"), ("setpriv", "util-linux"), ("prlimit", "util-linux")):
        if shutil.which(tool) is None:
            raise SandboxUnavailable(f"{tool} is missing: apt-get install {package}. Nothing was run.")
    said = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False).stdout
    version = tuple(map(int, re.findall(r"\d+", said)[:2]))
    if version < (0, 8):
        raise SandboxUnavailable(f"bubblewrap 0.8 or newer is needed, not {said.strip()!r}. Nothing was run.")
    release = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
    if release < (5, 14):
        raise SandboxUnavailable(f"Linux 5.14 or newer is needed (process limits), not {platform.release()}")
    for tool in ("python3", "bash", "mount", "prlimit", "bwrap"):
        if not any((Path(base) / part / tool).exists() for part in ("usr/bin", "usr/local/bin", "usr/sbin")):
            raise SandboxUnavailable(f"the base system {base} has no {tool}. Nothing was run.")
    try:
        with Sandbox(base=Path(base), check=False) as box:
            said = box.exec("echo $((6 * 7))")
    except SandboxError as error:
        raise SandboxUnavailable(
            f"user namespaces do not work here: {error}. Nothing was run. Possible reasons: "
            "kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns forbid them; or this is "
            "a container whose seccomp filter or masked /proc does (Docker: --security-opt seccomp=unconfined "
            "--security-opt systempaths=unconfined)."
        ) from error
    if said.output != "42\n":
        raise SandboxUnavailable(f"the sandbox does not run commands: {said}")


class Sandbox:
    """One sandbox. `base`: the root of the system whose /usr it shows, read-only. Use as a context manager.

    Raises:
        SandboxUnavailable: it cannot work on this machine.
        SandboxError: it could not be started.
    """

    def __init__(
        self,
        limits: Limits = Limits(),
        base: Path = Path("/"),
        user: str = "agent",
        check: bool = True,
    ):
        if user not in ("agent", "root"):
            raise ValueError(f"user must be 'agent' or 'root', not {user!r}")
        if check:
            available(base)
        self.limits, self.user, self.stats = limits, user, Stats()
        self._lock, self._graded = threading.Lock(), False
        self._trouble = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        source = inside.data_fd(Path(inside.__file__).read_bytes())
        try:
            self._process = subprocess.Popen(
                _outer(base, source),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._trouble,
                pass_fds=[source],
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"cannot start bubblewrap: {error}") from error
        finally:
            os.close(source)
        config = {
            "limits": {
                "cpus": limits.cpus,
                "cpu": limits.cpu_sec,
                "memory": limits.memory_mb * MIB,
                "storage": limits.storage_mb * MIB,
                "processes": limits.processes,
                "inodes": limits.inodes,
            },
            "links": _links(base),
            "seccomp": base64.b64encode(seccomp.program()).decode(),
            "spread": random.randrange(1 << 16),
        }
        try:
            self._write(config, b"")
            self._read(time.monotonic() + SLACK)
        except SandboxError:
            self.close()
            raise

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def put(self, files: Mapping[str, File]) -> None:
        """Write files, by their absolute path below one of the writable folders (`inside.WRITABLE`)."""
        for path in files:
            if path.split("/")[1:2] and path.split("/")[1] in inside.WRITABLE and path.startswith("/"):
                continue
            raise ValueError(f"{path!r} is not below a writable folder: {', '.join(inside.WRITABLE)}")
        self._ask("put", _tar({path.lstrip("/"): file for path, file in files.items()}))

    def exec(
        self,
        command: str,
        timeout: float = 60.0,
        cwd: str = "/app",
        env: Mapping[str, str] | None = None,
    ) -> Executed:
        """Run one bash command. What it left in the background goes on running until `stop` or `grade`.

        `env` counts when the shell starts: with the first command, and the first after a restart.
        """
        if self._graded:
            raise SandboxError("after grading no command is run")
        text = command.encode()
        if len(text) > LONGEST_COMMAND or b"\0" in text:
            raise ValueError(
                f"a command may have {LONGEST_COMMAND:,} bytes, none of them zero; this has {len(text):,}"
            )
        answer, said = self._run("exec", text, timeout, cwd, env)
        return Executed(said, answer["rc"], answer["late"], answer["lost"])

    def _run(
        self, what: str, data: bytes, timeout: float, cwd: str, env: Mapping[str, str] | None
    ) -> tuple[dict, str]:
        """The supervisor's answer to something that runs programs, and what they printed."""
        answer, output = self._ask(
            what, data, timeout, timeout=timeout, cwd=cwd, env=dict(env or {}), user=self.user,
            limit=self.limits.output_bytes,
        )  # fmt: skip
        return answer, output.decode(errors="replace")

    def stop(self) -> None:
        """End all processes. Files stay."""
        self._ask("stop", b"")

    def grade(
        self,
        tests: Mapping[str, File],
        timeout: float = 120.0,
        cwd: str = "/app",
        env: Mapping[str, str] | None = None,
    ) -> Graded:
        """End the agent's processes, then run tests/test.sh in a fresh namespace and read the reward it wrote.

        `tests`: files by their path below /tests. The verifier's namespace has /tests, a /logs of its own and the
        files that the agent left, none of its processes. Tests that must run what the agent wrote put
        `$UNTRUSTED` before the command: then it can see neither /tests nor /logs.
        """
        if "test.sh" not in tests:
            raise ValueError("tests have no test.sh")
        self._graded = True
        answer, text = self._run("grade", _tar(dict(tests)), timeout, cwd, env)
        if answer["struck"]:
            return Graded(None, f"the tests exceeded the {answer['struck']} limit", text)
        if answer["late"]:
            return Graded(None, f"the tests took longer than {timeout:g} s", text)
        try:
            details = read_reward(answer["found"])
        except ValueError as error:
            return Graded(None, f"{error} (exit status {answer['rc']})", text)
        return Graded(details["reward"], None, text, details)

    def close(self) -> None:
        """End the sandbox and everything in it. May be called twice."""
        process = self._process
        if process.poll() is None:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            below = [int(pid) for pid in children.read_text().split()] if children.exists() else []
            process.stdin.close()  # the supervisor exits
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                for pid in [*below, process.pid]:  # the first is init of the namespace: all in it end with it
                    _kill(pid)
                process.wait(10)
            # bwrap may end a moment before its namespace, whose init ends after all that is in it.
            deadline = time.monotonic() + 10
            while any(_alive(pid) for pid in below) and time.monotonic() < deadline:
                time.sleep(0.01)
        process.stdin.close()
        process.stdout.close()
        self._trouble.close()

    def _ask(self, do: str, payload: bytes, patience: float = 0.0, **more) -> tuple[dict, bytes]:
        with self._lock:
            self._write({"do": do, **more}, payload)
            answer, body = self._read(time.monotonic() + patience + inside.GRACE + SLACK)
        stats = answer["stats"]
        self.stats = Stats(
            stats["peak_memory"] / MIB,
            stats["peak_processes"],
            stats["peak_disk"] / MIB,
            stats["cpu"],
            tuple(stats["events"]),
        )
        return answer, body

    def _write(self, head: dict, payload: bytes) -> None:
        try:
            inside.write_frame(self._process.stdin.fileno(), head, payload)
        except (OSError, ValueError) as error:
            raise SandboxError(f"the sandbox is gone: {self._said() or error}") from error

    def _read(self, deadline: float) -> tuple[dict, bytes]:
        try:
            answer, body = inside.read_frame(self._process.stdout.fileno(), 1 << 26, deadline)
        except (inside.Lost, OSError, ValueError) as error:
            said = self._said() or str(error)
            self.close()
            raise SandboxError(f"the sandbox is gone: {said}") from error
        if "broken" in answer:
            raise SandboxError(answer["broken"])
        return answer, body

    def _said(self) -> str:
        if self._trouble.closed:
            return ""
        self._trouble.seek(0)
        return self._trouble.read(2000).decode(errors="replace").strip()


def read_reward(found: Mapping[str, str | None]) -> dict[str, float]:
    """The reward in reward.txt (a number) or reward.json (a number, or an object with "reward").

    Raises:
        ValueError: there is none, there are two, or it is no finite number.
    """
    if not found:
        raise ValueError("the tests wrote no reward")
    if len(found) > 1:
        raise ValueError("the tests wrote both reward.txt and reward.json")
    ((name, text),) = found.items()
    if text is None:
        raise ValueError(f"{name} is no small file")
    try:
        value = json.loads(text)
    except ValueError:
        raise ValueError(f"{name} holds no number: {text[:80]!r}") from None
    details = {"reward": value} if not isinstance(value, dict) else value
    if "reward" not in details:
        raise ValueError(f'{name} has no "reward"')
    for key, number in details.items():
        good = isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < float("inf")
        if not good:
            raise ValueError(f"{name}: {key} is no finite number: {number!r}")
    return {key: float(number) for key, number in details.items()}


def _outer(base: Path, source: int) -> list[str]:
    args = []
    if os.geteuid() == 0:  # root is exempt from process limits: become a user that nobody is
        uid = str(random.randrange(2_000_000_000, 2_100_000_000))
        args += ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--no-new-privs"]
    args += ["bwrap", "--unshare-all", "--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    args += ["--ro-bind", str(base / "usr"), "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for link, target in _links(base):
        args += ["--symlink", target, link]
    for name in ETC:
        args += ["--ro-bind-try", str(base / "etc" / name), f"/base-etc/{name}"]
    args += ["--ro-bind-try", str(base / "etc/alternatives"), "/etc/alternatives"]
    args += ["--ro-bind-try", str(base / "etc/ld.so.cache"), "/etc/ld.so.cache"]
    args += ["--dir", inside.STATE, "--dir", inside.VERIFIER, "--file", str(source), "/inside.py"]
    args += ["--chdir", "/", "--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin"]
    return [*args, "--", *inside.PYTHON, "/inside.py", "supervise"]


def _links(base: Path) -> list[tuple[str, str]]:
    """The base's links into /usr, such as /bin."""
    found = []
    for link in LINKS:
        path = base / link.lstrip("/")
        if path.is_symlink():
            found.append((link, os.readlink(path)))
        elif path.is_dir():
            raise SandboxUnavailable(f"{path} is a folder: the base system must keep all programs below /usr")
    return found


def _tar(files: Mapping[str, File]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, file in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(file.data), file.mode
            archive.addfile(info, io.BytesIO(file.data))
    return data.getvalue()


def _alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 9)
