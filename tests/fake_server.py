"""A server with the routes of vLLM that `agents.serving` uses, for its tests: in this process, or as a command that takes
the arguments of `vllm serve`.

What makes vLLM treacherous it does too: it expands every picture placeholder it is sent, keeps caches that belong to the
weights before until they are reset, answers /health whatever has happened to its weights, and starts with the version
"default". The weight file is checked by the plug-in's own code.
"""

import argparse
import base64
import contextlib
import hashlib
import io
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.append(str(Path(__file__).parent.parent / "agents" / "serving" / "plugin"))
from jaxenv_vllm_plugin import expected_of, read_checked

CACHES = ("prefix", "mm", "encoder")


class Bad(Exception):
    """A request that vLLM answers with 400."""


class HashEngine:
    """Replies that depend on everything they should, without a model: starts in no time."""

    def load(self, weights: list[tuple]) -> object:
        digest = hashlib.sha256()
        for name, value in weights:
            digest.update(name.encode() + np.asarray(value).tobytes())
        return digest.digest()

    def sample(self, weights, ids, picture, p) -> list[tuple[list[int], list[float]]]:
        banned, stop, out = {int(t) for t in p["logit_bias"]}, p["stop_token_ids"], []
        for n in range(p["n"]):
            seed = [p["seed"], n] if p["temperature"] else [0]
            seen = b"" if picture is None else picture.tobytes()
            words = hashlib.sha256(
                weights + np.asarray(ids, np.int64).tobytes() + seen + bytes(str(seed), "ascii")
            )
            rng = np.random.default_rng(list(words.digest()))
            length = int(rng.integers(1, p["max_tokens"] + 1))
            allowed = [t for t in range(100) if t not in banned and t not in stop]
            tokens = rng.choice(allowed, length).tolist()
            if length < p["max_tokens"]:
                tokens[-1] = stop[0]
            out.append((tokens, (-rng.random(length)).tolist()))
        return out


class JaxEngine:
    """The policy itself, through the sampler of this process."""

    def __init__(self, policy, length: int, most: int):
        self.policy, self.length, self.most, self._lock = policy, length, most, threading.Lock()

    def load(self, weights: list[tuple]) -> object:
        from agents import hf, policy

        return policy.hold(self.policy.config, hf.from_hf(dict(weights), self.policy.config))[1]

    def sample(self, weights, ids, picture, p) -> list[tuple[list[int], list[float]]]:
        import dataclasses

        import jax

        from agents.policy import sample
        from agents.prompts import Prompt, pack

        policy = dataclasses.replace(self.policy, banned=tuple(sorted(int(t) for t in p["logit_bias"])))
        assert p["stop_token_ids"] == [policy.config.eos] and p["ignore_eos"] and p["n"] <= self.most
        assert (p["top_p"], p["top_k"], p["logprobs"]) == (1.0, 0, 0)
        batch = pack([Prompt(np.asarray(ids, np.int32), picture)], 1, self.length, policy.config.pad)
        key, temperature = jax.random.key(p["seed"]), np.float32(p["temperature"])
        with self._lock:
            found = sample(policy, weights, batch, key, temperature, self.most, p["max_tokens"])
        tokens, log_probs, mask = (np.asarray(x)[0, : p["n"]] for x in found)
        return [(t[m].tolist(), lp[m].tolist()) for t, lp, m in zip(tokens, log_probs, mask)]


class FakeServer(ThreadingHTTPServer):
    """Serves a model folder.

    Args:
        fault: called with the number of each request for replies (from 1); "500", "503" or "cut" spoil its answer,
            "stale", "short", "mislabelled" and "unfinished" corrupt it; None: as it should be.
        pace: seconds that every reply takes at least.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(
        self,
        folder: Path,
        engine,
        port: int = 0,
        name: str = "policy",
        max_length: int = 1024,
        fault: Callable[[int], str | None] = lambda number: None,
        pace: float = 0.0,
    ):
        super().__init__(("127.0.0.1", port), Handler)
        config = json.loads((folder / "config.json").read_text())
        self.image_token = config["image_token_id"]
        vision = config["vision_config"]
        self.block = vision["patch_size"] * vision["spatial_merge_size"]
        self.engine, self.name, self.max_length, self.fault, self.pace = engine, name, max_length, fault, pace
        self.expected = expected_of(folder)
        self.weights = engine.load(read_checked(str(folder / "model.safetensors"), self.expected, "np"))
        self.version, self.updating, self.dead = "default", False, False
        self.caches: dict[str, dict] = {name: {} for name in CACHES}
        self.calls: Counter[str] = Counter()
        self.lock = threading.Condition()
        self.paused, self.running, self.number = False, 0, 0
        self.served: list[tuple[str, int]] = []  # version and number of replies of every answer sent
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def kill(self) -> None:
        """As if the process had ended: nothing that was asked is answered."""
        self.dead = True
        with self.lock:
            self.paused = False
            self.lock.notify_all()
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request, client_address):
        pass  # connections that break are what is being tested

    # ---- what is asked ----

    def post(self, path: str, query: str, body: dict) -> dict:
        match path.strip("/"):
            case "inference/v1/generate":
                return self.generate(body)
            case "pause":
                with self.lock:
                    self.paused = True
                    self.lock.wait_for(lambda: self.running == 0 or "mode=wait" not in query, 30)
            case "resume":
                with self.lock:
                    self.paused = False
                    self.lock.notify_all()
            case "start_weight_update":
                if self.updating:
                    raise RuntimeError("a weight update is active")
                self.updating = True
            case "update_weights":
                if not self.updating:
                    raise RuntimeError("no weight update was started")
                try:
                    weights = read_checked(body["update_info"]["path"], self.expected, "np")
                except BaseException:
                    self.updating = False
                    raise
                assert self.paused and not self.running
                self.weights = self.engine.load(weights)
            case "finish_weight_update":
                self.updating, self.version = False, body["weight_version"]
            case "update_weight_version":
                self.version = body["new_version"]
            case "reset_prefix_cache" | "reset_mm_cache" | "reset_encoder_cache":
                self.caches[path.strip("/").split("_")[1]].clear()
                return {"success": True}
            case _:
                raise KeyError(path)
        return {}

    def get(self, path: str) -> dict:
        return {
            "/health": {},
            "/v1/models": {"data": [{"id": self.name, "max_model_len": self.max_length}]},
            "/weight_info": {"weight_version": self.version},
        }[path]

    def generate(self, body: dict) -> dict:
        with self.lock:
            self.number += 1
            fault = self.fault(self.number)
        if fault in ("500", "503"):
            raise RuntimeError(fault)
        if fault == "cut":
            raise ConnectionAbortedError
        ids, picture = self.read(body)
        with self.lock:
            self.lock.wait_for(lambda: not self.paused)
            self.running += 1
        try:
            version, weights = self.version, self.remembered(ids, picture)
            replies = self.engine.sample(weights, ids, picture, body["sampling_params"])
            time.sleep(self.pace)
        finally:
            with self.lock:
                self.running -= 1
                self.lock.notify_all()
        if self.dead:
            raise ConnectionAbortedError
        with self.lock:
            self.served.append((version, len(replies)))
        choices = [self.choice(body, version, i, *reply) for i, reply in enumerate(replies)]
        corrupt(fault, choices, ids)
        return {"choices": choices[::-1], "prompt_token_ids": ids}  # in no particular order

    def choice(self, body, version, index, tokens, log_probs) -> dict:
        ended = tokens[-1] in body["sampling_params"]["stop_token_ids"]
        content = [{"token_id": t, "logprob": p, "top_logprobs": []} for t, p in zip(tokens, log_probs)]
        return {
            "index": index, "token_ids": tokens, "logprobs": {"content": content},
            "finish_reason": "stop" if ended else "length",
            "weight_versions": [{"version": version, "start": 0, "end": len(tokens)}],
        }  # fmt: skip

    def read(self, body: dict) -> tuple[list[int], np.ndarray | None]:
        """The prompt after the expansion of its placeholders."""
        if body.get("model") not in (None, self.name):
            raise Bad(f"no model {body['model']!r}")
        ids = body.get("token_ids")
        if not ids or not all(isinstance(i, int) and i >= 0 for i in ids):
            raise Bad("token_ids must be a non-empty list of ids")
        parts = [
            p for p in body.get("content_parts", ()) if p.get("type") == "image_url"
        ]  # others are dropped
        pictures = []
        for part in parts:
            data = base64.b64decode(part["url"].removeprefix("data:image/png;base64,"), validate=True)
            pictures.append(np.asarray(Image.open(io.BytesIO(data))))
        if len(pictures) > ids.count(self.image_token):
            raise Bad("more pictures than placeholders")
        expanded, rest = [], list(pictures)
        for token in ids:
            count = 1
            if token == self.image_token and rest:
                height, width, _ = rest.pop(0).shape
                count = (height // self.block) * (width // self.block)
            expanded += [token] * count
        if len(expanded) + body["sampling_params"]["max_tokens"] > self.max_length:
            raise Bad(f"{len(expanded)} tokens are longer than the maximum model length {self.max_length}")
        return expanded, pictures[0] if pictures else None

    def remembered(self, ids: list[int], picture: np.ndarray | None) -> object:
        """The weights that read this prompt: those in use, or older ones if a cache still has their results."""
        name = (tuple(ids), b"" if picture is None else picture.tobytes())
        old = next((cache[name] for cache in self.caches.values() if name in cache), self.weights)
        for cache in self.caches.values():
            cache.setdefault(name, self.weights)
        return old


def corrupt(fault: str | None, choices: list[dict], ids: list[int]) -> None:
    if fault == "stale":
        choices[-1]["weight_versions"][0]["version"] = "of-another-time"
    elif fault == "short":
        choices.pop()
    elif fault == "mislabelled":
        choices[0]["logprobs"]["content"][0]["token_id"] += 1
    elif fault == "unfinished":
        choices[0]["weight_versions"] = None
    elif fault == "reread":
        ids.append(0)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.answer(lambda path, query: self.server.get(path))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer(lambda path, query: self.server.post(path, query, json.loads(body or b"{}")))

    def answer(self, ask) -> None:
        path, _, query = self.path.partition("?")
        self.server.calls[path] += 1
        try:
            if self.server.dead:
                raise ConnectionAbortedError
            status, content = 200, ask(path, query)
        except ConnectionAbortedError:
            # Half an answer, then nothing: what a killed process leaves.
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
            self.close_connection = True
            return
        except Bad as error:
            status, content = 400, {"error": {"message": str(error)}}
        except KeyError as error:
            status, content = 404, {"error": {"message": f"no route {error}"}}
        except Exception as error:
            status = 503 if str(error) == "503" else 500
            content = {"error": {"message": f"{type(error).__name__}: {error}"}}
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


def main() -> None:
    """`fake_server.py serve FOLDER --port P ...`: every other argument of `vllm serve` is read and ignored."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", default="policy")
    parser.add_argument("--max-model-len", type=int, default=1024)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--fail", default="")  # dies with this message instead
    parser.add_argument("--deaf", action="store_true")  # never listens
    args, _ = parser.parse_known_args()
    assert args.host == "127.0.0.1" and os.environ["VLLM_SERVER_DEV_MODE"] == "1"
    print("fake server starts", flush=True)
    if args.fail:
        sys.exit(args.fail)
    if args.deaf:
        time.sleep(60)
    FakeServer(
        args.folder, HashEngine(), args.port, args.served_model_name, args.max_model_len, pace=args.pace
    )
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()
