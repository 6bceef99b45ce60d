"""One vLLM server over HTTP: replies as token ids with log-probs, and its weights. Written against vLLM 0.32 and 0.33.

Routes: `/inference/v1/generate` (needs `--enable-scale-out`), the weight and cache routes of
`VLLM_SERVER_DEV_MODE=1`. They have no authentication: keep servers on the loopback interface or a private network.
"""

import base64
import io
import math
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

from agents.policy import Policy
from agents.prompts import Prompt

CACHES = ("prefix", "mm", "encoder")  # each holds results of the weights that were loaded when it was filled
BAN = -100.0  # the strongest bias that the protocol knows: a probability of at most e^-100 times another's


class ServingError(RuntimeError):
    """A server, or all of them, did not do what was asked."""


class Unavailable(ServingError):
    """No answer, or the server's own failure: the same request may succeed elsewhere or later."""


class Rejected(ServingError):
    """The request itself is refused; asking again changes nothing."""


class WrongReply(ServingError):
    """An answer that does not fit its request: nothing of it may be used."""


class StaleWeights(ServingError):
    """Weights of another version than the one that was asked for."""


@dataclass(frozen=True)
class Sampling:
    """How replies are drawn. Always from the whole distribution: top-p and top-k would bias the log-probs."""

    max_new: int  # tokens of a reply, at most
    temperature: float = 1.0  # 0: greedy


@dataclass(frozen=True)
class Request:
    """`count` replies to one prompt, reproducible by `seed` as far as the server is."""

    prompt: Prompt
    count: int
    seed: int


@dataclass(frozen=True)
class Reply:
    """One reply: token ids i32[t], log-probs f32[t], and which weights wrote it."""

    tokens: np.ndarray
    log_probs: np.ndarray
    version: str


def wire_ids(prompt: Prompt, image_token: int) -> list[int]:
    """The prompt's ids with one placeholder for its picture: the server expands a placeholder, and would expand each
    of an expanded run again without saying so.

    Raises ValueError if the prompt is empty, or has a picture without its tokens or tokens without a picture.
    """
    ids = np.asarray(prompt.ids)
    if ids.ndim != 1 or not len(ids):
        raise ValueError(f"a prompt is a non-empty row of token ids, got shape {ids.shape}")
    image = ids == image_token
    first = image & ~np.concatenate([[False], image[:-1]])
    if int(first.sum()) != int(prompt.picture is not None):
        raise ValueError(
            f"the prompt has {int(first.sum())} runs of picture tokens and {int(prompt.picture is not None)} pictures"
        )
    return ids[~image | first].tolist()


def data_url(picture: np.ndarray) -> str:
    """A picture u8[H, W, 3] as a PNG data URL."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
        raise ValueError(f"a picture is u8[H, W, 3], got {picture.dtype}{list(picture.shape)}")
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "png", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


class Client:
    """One server.

    Every call raises Unavailable (no connection, a timeout, 5xx, 429) or Rejected (any other refusal).

    Args:
        url: of the server, without a path.
        model: the name it serves; None: whatever it serves.
        timeout: seconds that a reply or an update may take.
        connections: requests at a time.
    """

    def __init__(self, url: str, model: str | None = None, timeout: float = 600.0, connections: int = 64):
        self.url, self.model = url.rstrip("/"), model
        self._max_length: int | None = None
        self._http = httpx.Client(
            base_url=self.url,
            timeout=httpx.Timeout(timeout, connect=10.0),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            trust_env=False,  # a proxy has no business between a trainer and its server
        )

    def close(self) -> None:
        self._http.close()

    def _call(self, method: str, path: str, **arguments) -> httpx.Response:
        try:
            response = self._http.request(method, path, **arguments)
        except (httpx.HTTPError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not self._http.is_closed:
                raise
            raise Unavailable(f"{self.url}{path}: {type(error).__name__} {error}".rstrip()) from error
        if response.status_code == 200:
            return response
        text = f"{self.url}{path}: {response.status_code} {response.text[:500]}"
        if response.status_code >= 500 or response.status_code in (408, 429):
            raise Unavailable(text)
        raise Rejected(text)

    def _json(self, method: str, path: str, **arguments) -> dict:
        try:
            found = self._call(method, path, **arguments).json()
        except ValueError as error:
            raise WrongReply(f"{self.url}{path}: not JSON: {error}") from error
        if not isinstance(found, dict):
            raise WrongReply(f"{self.url}{path}: {type(found).__name__} instead of an object")
        return found

    # ---- state ----

    def healthy(self) -> bool:
        try:
            self._call("GET", "/health", timeout=5.0)
        except ServingError:
            return False
        return True

    def describe(self) -> tuple[str, int]:
        """The served model's name and the most tokens of a prompt with its reply."""
        cards = self._json("GET", "/v1/models").get("data") or []
        for card in cards:
            if self.model in (None, card.get("id")) and card.get("max_model_len"):
                self._max_length = int(card["max_model_len"])
                return card["id"], self._max_length
        raise WrongReply(f"{self.url} serves {[card.get('id') for card in cards]}, not {self.model!r}")

    def version(self) -> str:
        """The label of the weights in use, as the last update gave it ("default" before the first)."""
        return str(self._json("GET", "/weight_info").get("weight_version"))

    # ---- weights ----

    def push(self, file: Path, version: str) -> None:
        """Load a safetensors file, in Hugging Face names, that the server can read, and label it.

        The server drains its requests, loads, drops every cache (its entries belong to the weights before), and goes
        on. After any exception it must be taken to hold no usable weights, and may be paused.
        """
        self._call("POST", "/pause", params={"mode": "wait"})
        self._call("POST", "/start_weight_update")
        self._call("POST", "/update_weights", json={"update_info": {"path": str(file)}})
        self._call("POST", "/finish_weight_update", json={"weight_version": version})
        for cache in CACHES:
            self._reset(cache)
        self._call("POST", "/resume")
        self.check(version)

    def _reset(self, cache: str) -> None:
        path = f"/reset_{cache}_cache"
        # Only the prefix cache reports whether it was dropped; the others answer nothing.
        if cache != "prefix":
            self._call("POST", path)
        elif not self._json("POST", path).get("success"):
            raise Unavailable(f"{self.url}: the prefix cache is in use and was not dropped")

    def label(self, version: str) -> None:
        """Name the weights that a server has loaded when it started."""
        self._call("POST", "/update_weight_version", json={"new_version": version})
        self.check(version)

    def check(self, version: str) -> None:
        """Raises StaleWeights if the server serves another version."""
        found = self.version()
        if found != version:
            raise StaleWeights(f"{self.url} serves weights {found!r}, not {version!r}")

    # ---- replies ----

    def generate(self, policy: Policy, request: Request, sampling: Sampling, version: str) -> list[Reply]:
        """`request.count` replies by the weights `version`.

        Raises:
            ValueError: the prompt is malformed.
            Rejected: prompt and reply do not fit the server, or it refuses the request.
            WrongReply: the server read another prompt than was sent, or its answer does not hold together.
            StaleWeights: other weights wrote an answer, or a part of it.
        """
        body = self._body(policy, request, sampling)
        found = self._json("POST", "/inference/v1/generate", json=body)
        try:
            return _replies(policy, request, sampling, version, found)
        except (KeyError, TypeError, AttributeError) as error:
            raise WrongReply(f"{self.url}: an answer without its parts: {error!r}") from error
        except ServingError as error:
            raise type(error)(f"{self.url}: {error}") from None

    def _body(self, policy: Policy, request: Request, sampling: Sampling) -> dict:
        ids = wire_ids(request.prompt, policy.config.image_token)
        if self._max_length is None:
            self.describe()
        length = len(request.prompt.ids)
        if length + sampling.max_new > self._max_length:
            raise Rejected(
                f"{self.url}: a prompt of {length} tokens and a reply of up to {sampling.max_new} do not fit the "
                f"server's {self._max_length}: start it with a larger --max-model-len"
            )
        parameters = {
            "n": request.count,
            "max_tokens": sampling.max_new,
            "temperature": sampling.temperature,
            "top_p": 1.0,
            "top_k": 0,
            "seed": request.seed,
            "logprobs": 0,  # of the sampled tokens alone
            "detokenize": False,
            # What ends a reply is the learner's end token, whatever the server's generation config says.
            "ignore_eos": True,
            "stop_token_ids": [policy.config.eos],
            "logit_bias": {str(token): BAN for token in policy.banned},
        }
        body = {"token_ids": ids, "sampling_params": parameters, "return_token_ids": True}
        if self.model is not None:
            body["model"] = self.model
        if request.prompt.picture is not None:
            body["content_parts"] = [{"type": "image_url", "url": data_url(request.prompt.picture)}]
        return body


def _replies(policy: Policy, request: Request, sampling: Sampling, version: str, found: dict) -> list[Reply]:
    ids = request.prompt.ids.tolist()
    read = found["prompt_token_ids"]
    if read != ids:
        raise WrongReply(
            f"the server read a prompt of {len(read or ())} tokens that is not the {len(ids)} sent"
        )
    choices = sorted(found["choices"], key=lambda choice: choice["index"])
    if [choice["index"] for choice in choices] != list(range(request.count)):
        raise WrongReply(f"{len(choices)} replies instead of {request.count}")
    return [_reply(policy, sampling, version, choice) for choice in choices]


def _reply(policy: Policy, sampling: Sampling, version: str, choice: dict) -> Reply:
    tokens, entries, reason = choice["token_ids"], choice["logprobs"]["content"], choice["finish_reason"]
    if reason == "abort":
        raise Unavailable("a reply was aborted")
    if [entry["token_id"] for entry in entries] != tokens:
        raise WrongReply("log-probs of other tokens than the reply's")
    ended = bool(tokens) and tokens[-1] == policy.config.eos
    whole = ended if reason == "stop" else reason == "length" and len(tokens) == sampling.max_new
    if not whole or len(tokens) > sampling.max_new or policy.config.eos in tokens[:-1]:
        raise WrongReply(
            f"a reply of {len(tokens)} tokens that ends by {reason!r}, at most {sampling.max_new}"
        )
    if set(tokens) & set(policy.banned) or max(tokens) >= policy.config.text.vocab:
        raise WrongReply("a reply with tokens that can never be sampled")
    log_probs = [float(entry["logprob"]) for entry in entries]
    if not all(math.isfinite(p) and p <= 1e-3 for p in log_probs):
        raise WrongReply("log-probs that are none")
    _check_spans(choice["weight_versions"], len(tokens), version)
    return Reply(np.asarray(tokens, np.int32), np.asarray(log_probs, np.float32), version)


def _check_spans(spans: list[dict] | None, length: int, version: str) -> None:
    """Every token of a reply must come from the weights that were asked for."""
    covered = 0
    for span in spans or ():
        if span["start"] != covered:
            break
        covered = span["end"]
    if covered != length:
        raise WrongReply("the weights' version is not known for every token")
    others = {str(span["version"]) for span in spans} - {version}
    if others:
        raise StaleWeights(f"a reply by the weights {sorted(others)}, not {version!r}")
