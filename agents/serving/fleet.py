"""One or more servers as one generator: every reply by the learner's weights of the moment, whatever fails on the way."""

import contextlib
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import jax
import numpy as np
from jax import Array

from agents.policy import Params, Policy, Samples
from agents.prompts import Prompt
from agents.serving.client import (
    Client,
    Reply,
    Request,
    Sampling,
    ServingError,
    StaleWeights,
    Unavailable,
)
from agents.serving.launcher import Launcher
from agents.serving.weights import write_folder, write_weights

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Config:
    """Which servers, and how patiently."""

    urls: tuple[
        str, ...
    ] = ()  # servers that run already and read the run folder; none: they are started here
    executable: str = ".venv-serving/bin/vllm"  # what is started
    devices: tuple[str, ...] = ("",)  # CUDA_VISIBLE_DEVICES of each started server; "": this process's
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    max_length: int = 4096  # tokens of a prompt and its reply
    arguments: tuple[str, ...] = ()  # further ones of `vllm serve`
    concurrency: int = 32  # requests at a time and server
    together: int = 16  # replies of one request, at most
    tries: int = 4  # of one request, elsewhere if there is an elsewhere
    backoff: float = 0.5  # seconds before the second try, doubled each time
    timeout: float = 600.0  # seconds of one request or weight update
    start_timeout: float = 900.0  # seconds until a started server must be healthy

    def __post_init__(self):
        for name in ("max_length", "concurrency", "together", "tries", "backoff", "timeout", "start_timeout"):
            if getattr(self, name) <= 0:
                raise ValueError(f"serving.{name} must be positive, got {getattr(self, name)}")
        if not self.devices and not self.urls:
            raise ValueError("serving.devices must name at least one server, or serving.urls")
        if len(set(self.urls)) != len(self.urls):
            raise ValueError(f"serving.urls must be distinct, got {self.urls}")


@dataclass
class Server:
    """One of the fleet. `ready` says that it serves the fleet's weights, as far as is known."""

    client: Client | None = None
    launcher: Launcher | None = None  # None: somebody else's; it cannot be restarted from here
    ready: bool = False
    life: int = 0  # counts its repairs: a failure in an earlier life says nothing about this one
    failures: int = 0  # repairs in a row that did not help
    busy: int = 0
    trouble: str = "no weights were pushed yet"
    lock: threading.Lock = field(default_factory=threading.Lock)  # of its repair

    @property
    def name(self) -> str:
        client = self.client
        return client.url if client else "a server that is down"


class Fleet:
    """Servers that hold one version of the weights.

    Replies are only taken from weights that carry the version of the last `push`. A server that fails, restarts or
    turns out to hold other weights is given the right ones (or is started anew from the model folder, which always
    holds the newest) before it is asked again, and its requests go elsewhere meanwhile.

    Args:
        folder: the model folder; `write_folder` has filled it.
        servers: none of them needs to be running.
    """

    def __init__(self, config: Config, policy: Policy, folder: Path, servers: Sequence[Server]):
        if not servers:
            raise ValueError("a fleet has at least one server")
        self.config, self.policy, self.folder, self.servers = config, policy, folder, list(servers)
        self.version: str | None = None  # of the last push that succeeded
        self.counts: Counter[str] = Counter()  # requests, retries, repairs, restarts, pushes
        self._file: Path | None = None
        # Labels of another run, or of this one before it was killed, are never mistaken for ours.
        self._run, self._pushes = secrets.token_hex(4), 0
        self._turn = threading.Lock()  # pushing and generating take turns
        self._choice = threading.Lock()  # of the counts: who is busy, what happened

    # ---- weights ----

    def push(self, params: Params) -> str:
        """Give every server these weights; returns their version. Until the next push all replies are theirs.

        A server that does not take them is restarted with them if it was started here, and left out until the next
        push otherwise.

        Raises:
            ExportFailed: they could not be written. Servers and version stay as they were.
            ServingError: no server has them. Nothing can be generated until a push succeeds.
        """
        with self._turn:
            self._file = write_weights(params, self.policy.config, self.folder)
            self._pushes += 1
            self.version = f"{self._run}-{self._pushes}"
            self._count("pushes")
            for server in self.servers:
                server.ready, server.failures = False, 0
            with ThreadPoolExecutor(len(self.servers)) as pool:
                list(pool.map(self._repair, self.servers))
            if not any(server.ready for server in self.servers):
                version, self.version = self.version, None
                raise ServingError(f"no server took the weights {version}: {self._troubles()}")
            return self.version

    def _repair(self, server: Server, life: int | None = None) -> None:
        """Make a server serve the fleet's weights; `ready` says whether it does.

        Args:
            life: in which the server failed; None: it is not ready.
        """
        with server.lock:
            repaired = server.ready if life is None else server.life != life
            if repaired or server.failures >= self.config.tries:
                return  # somebody else has seen to it, or it is beyond repair
            server.ready = False
            server.life += 1
            server.failures += 1
            self._count("repairs")
            if server.client is not None and (server.launcher is None or server.launcher.running):
                try:
                    server.client.push(self._file, self.version)
                    server.ready, server.failures = True, 0
                    return
                except ServingError as error:
                    self._complain(server, error)
            if server.launcher is not None:
                self._restart(server)

    def _restart(self, server: Server) -> None:
        client, server.client = server.client, None
        if client is not None:
            self._count("restarts")
            client.close()
        server.launcher.stop()
        try:
            server.client = server.launcher.start(self.config.timeout, self.config.concurrency)
            server.client.label(self.version)  # it has loaded the newest weights: they are in its folder
            server.ready, server.failures = True, 0
        except ServingError as error:
            self._complain(server, error)

    def _complain(self, server: Server, error: ServingError) -> None:
        server.trouble = str(error)
        _log.warning("%s", error)

    def _count(self, what: str) -> None:
        with self._choice:
            self.counts[what] += 1

    def _troubles(self) -> str:
        return "; ".join(f"{server.name}: {server.trouble}" for server in self.servers)

    def close(self) -> None:
        """Stop what was started here."""
        for server in self.servers:
            server.ready = False
            if server.client is not None:
                server.client.close()
                server.client = None
            if server.launcher is not None:
                server.launcher.stop()

    # ---- replies ----

    def generate(
        self, prompts: Sequence[Prompt], counts: Sequence[int], key: Array, sampling: Sampling
    ) -> list[Samples]:
        """See `agents.policy.Generator`. Every reply is there exactly once, or this raises.

        Raises:
            ValueError: a malformed prompt or count.
            Rejected: the servers refuse a request.
            ServingError: no server answers, however often it was tried.
        """
        if len(counts) != len(prompts) or min(counts, default=1) < 1:
            raise ValueError(f"{len(prompts)} prompts need as many counts of at least 1, got {list(counts)}")
        with self._turn:
            if self.version is None:
                raise ServingError("there are no weights to generate with: push some first")
            requests = self._requests(prompts, counts, key)
            with ThreadPoolExecutor(self.config.concurrency * len(self.servers)) as pool:
                asked = [pool.submit(self._ask, request, sampling) for _, request in requests]
                try:
                    answers = [future.result() for future in asked]
                except BaseException:
                    for future in asked:
                        future.cancel()
                    raise
            replies: list[list[Reply]] = [[] for _ in prompts]
            for (i, _), answer in zip(requests, answers):
                replies[i] += answer
            return [self._samples(some, sampling.max_new) for some in replies]

    def _requests(self, prompts, counts, key) -> list[tuple[int, Request]]:
        """Which prompt, and a request for some of its replies."""
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        most = self.config.together
        return [
            (i, Request(prompts[i], min(most, count - start), int(rng.integers(2**31 - most))))
            for i, count in enumerate(counts)
            for start in range(0, count, most)
        ]

    def _ask(self, request: Request, sampling: Sampling) -> list[Reply]:
        tried: set[int] = set()
        for attempt in range(self.config.tries):
            if attempt:
                self._count("retries")
                time.sleep(self.config.backoff * 2 ** (attempt - 1))
            with self._least_busy(tried) as (index, client, life):
                if client is None:
                    continue
                self._count("requests")
                try:
                    return client.generate(self.policy, request, sampling, self.version)
                except (Unavailable, StaleWeights) as failure:
                    error = failure
            tried.add(index)
            server = self.servers[index]
            self._complain(server, error)
            try:
                client.check(self.version)  # then the server is well, and only the request failed
            except ServingError:
                self._repair(server, life)
        raise ServingError(f"a request was tried {self.config.tries} times: {self._troubles()}")

    @contextlib.contextmanager
    def _least_busy(self, tried: set[int]) -> Iterator[tuple[int, Client | None, int]]:
        """A ready server that was not tried, if there is one; the one with the fewest requests. Client None: none is."""
        if not any(server.ready for server in self.servers):
            for server in self.servers:
                self._repair(server)
        with self._choice:
            ready = [
                (i in tried, server.busy, i)
                for i, server in enumerate(self.servers)
                if server.ready and server.client is not None
            ]
            if ready:
                *_, index = min(ready)
                server = self.servers[index]
                client, life = server.client, server.life
                server.busy += 1
        if not ready:
            yield -1, None, 0
            return
        try:
            yield index, client, life
        finally:
            with self._choice:
                server.busy -= 1

    def _samples(self, replies: Sequence[Reply], length: int) -> Samples:
        shape = (len(replies), length)
        tokens = np.full(shape, self.policy.config.pad, np.int32)
        log_probs, mask = np.zeros(shape, np.float32), np.zeros(shape, bool)
        for row, reply in enumerate(replies):
            n = len(reply.tokens)
            tokens[row, :n], log_probs[row, :n], mask[row, :n] = reply.tokens, reply.log_probs, True
        return Samples(tokens, log_probs, mask, tuple(reply.version for reply in replies))


@dataclass(frozen=True)
class ServedGenerator:
    """A fleet at one temperature (see `agents.policy.Generator`)."""

    fleet: Fleet
    sampling: Sampling
    version: str  # that its replies must have: pushing other weights ends its use
    at_once: int = 1

    def generate(self, prompts: Sequence[Prompt], counts: Sequence[int], key: Array) -> list[Samples]:
        if self.version != self.fleet.version:
            raise StaleWeights(
                f"the servers hold {self.fleet.version!r}, this generator is for {self.version!r}"
            )
        return self.fleet.generate(prompts, counts, key, self.sampling)


def served(fleet: Fleet, params: Params, max_new: int, temperature: float) -> ServedGenerator:
    """Push parameters and generate with them."""
    version = fleet.push(params)
    return ServedGenerator(fleet, Sampling(max_new, temperature), version)


def open_fleet(config: Config, policy: Policy, run: Path, resolution: int, source: Path | None) -> Fleet:
    """The servers of a config, with their files in `run`; started ones start at the first push.

    Args:
        resolution, source: see `write_folder`.
    """
    folder = run / "model"
    write_folder(folder, policy.config, resolution, source)
    if config.urls:
        servers = [
            Server(Client(url, timeout=config.timeout, connections=config.concurrency)) for url in config.urls
        ]
    else:
        servers = [
            Server(
                launcher=Launcher(
                    config.executable, folder, run / f"server_{i}.log",
                    dtype=config.dtype, max_length=config.max_length, arguments=config.arguments,
                    environment={"CUDA_VISIBLE_DEVICES": device} if device else {},
                    start_timeout=config.start_timeout,
                )
            )
            for i, device in enumerate(config.devices)
        ]  # fmt: skip
    return Fleet(config, policy, folder, servers)
