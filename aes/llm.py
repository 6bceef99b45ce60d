"""A language model behind an OpenAI-compatible endpoint: answers kept for good, faults survived, tokens capped.

Every complete answer is stored under the hash of its request before anyone looks at it, so no request is paid for
twice, whether its answer was of use or not. A request whose answer got lost on the way (a timeout, a broken
connection) is sent again with the same `Idempotency-Key`.
"""

import hashlib
import json
import os
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aes.files import append_lines, read_lines

FRAME = 16  # tokens that a chat template adds to a message, at most


class Unanswered(Exception):
    """The endpoint gave no answer to this request, however often it was asked."""


class OverBudget(Exception):
    """The request could cost more than what is left of the budget."""


class Refused(Exception):
    """The endpoint refuses whatever we send (key, address, model, quota)."""


class NotStored(Exception):
    """There is no stored answer, and asking is not allowed."""


@dataclass(frozen=True)
class Endpoint:
    """Which model, where, and how patiently."""

    model: str = ""
    base_url: str = "http://localhost:8000/v1"
    key_variable: str = "OPENAI_API_KEY"  # environment variable that holds the key, if one is needed
    temperature: float | None = 0.0  # None: the endpoint's own (some models allow no other)
    max_tokens: int = 4096  # of one answer
    limit_name: Literal["max_tokens", "max_completion_tokens"] = (
        "max_tokens"  # newer OpenAI models want the second
    )
    structured: Literal["schema", "object", "none"] = "schema"  # how JSON is asked for: response_format
    timeout: float = 180.0  # seconds
    retries: int = 8  # after 429, 5xx, timeouts and broken connections
    backoff: float = 1.0  # seconds before the first retry, doubled each time; Retry-After goes first
    longest_wait: float = 60.0  # seconds
    workers: int = 8  # requests at a time
    picture_tokens: int = 1200  # what a picture is taken to cost at most, for the budget


@dataclass(frozen=True)
class Answer:
    text: str
    finish: str | None  # "length": cut off
    tokens: int  # prompt and completion, as the endpoint counts them


class Store:
    """Answers by the hash of their request, in one JSONL file."""

    def __init__(self, file: Path):
        self.file, self._lock = file, threading.Lock()
        rows = read_lines(file)
        self._answers = {row["key"]: Answer(row["text"], row["finish"], row["tokens"]) for row in rows}

    @property
    def tokens(self) -> int:
        """What all stored answers have cost."""
        return sum(a.tokens for a in self._answers.values())

    def get(self, key: str) -> Answer | None:
        return self._answers.get(key)

    def put(self, key: str, answer: Answer) -> None:
        with self._lock:
            row = {"key": key, "text": answer.text, "finish": answer.finish, "tokens": answer.tokens}
            append_lines(self.file, [row])
            self._answers[key] = answer


class Budget:
    """Tokens that may be spent, those of earlier runs included. Nothing is asked that could exceed it."""

    def __init__(self, cap: int | None, spent: int):
        self.cap, self.spent, self._held = cap, spent, 0
        self._changed = threading.Condition()

    def hold(self, most: int) -> None:
        """Set tokens aside; waits while requests that are on their way may still leave enough."""
        with self._changed:
            while self.cap is not None and self.spent + self._held + most > self.cap:
                if not self._held:
                    raise OverBudget(f"{self.spent:,} of {self.cap:,} tokens spent, up to {most:,} needed")
                self._changed.wait()
            self._held += most

    def settle(self, held: int, spent: int) -> None:
        with self._changed:
            self._held -= held
            self.spent += spent
            self._changed.notify_all()


class Chat:
    """Asks one model, from many threads. `offline`: stored answers only."""

    def __init__(self, endpoint: Endpoint, store: Store, budget: int | None = None, offline: bool = False):
        self.endpoint, self.store, self.offline = endpoint, store, offline
        self.budget = Budget(budget, store.tokens)
        self.counts: Counter[str] = Counter()  # asked, stored, and each kind of fault
        self._lock, self._locks = threading.Lock(), {}
        self.stopped: Refused | None = None  # nothing is asked any more
        self._silent = 0  # requests in a row that stayed without an answer
        self._client = None if offline else self._connect()

    def _connect(self):
        if not self.endpoint.model:
            raise ValueError("which model? The endpoint's model has no name")
        import openai  # slow to import

        key = os.environ.get(self.endpoint.key_variable) or "none"
        return openai.OpenAI(
            api_key=key, base_url=self.endpoint.base_url, timeout=self.endpoint.timeout, max_retries=0
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def request(self, messages: list[dict], schema: dict) -> dict[str, Any]:
        """The body of a request."""
        end = self.endpoint
        body: dict[str, Any] = {"model": end.model, "messages": messages, end.limit_name: end.max_tokens}
        if end.temperature is not None:
            body["temperature"] = end.temperature
        if end.structured == "object":
            body["response_format"] = {"type": "json_object"}
        elif end.structured == "schema":
            named = {"name": "annotation", "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        return body

    def ask(self, body: dict[str, Any]) -> Answer:
        """The stored answer, or the endpoint's, which is stored.

        Raises:
            Unanswered, OverBudget, Refused, NotStored: see there.
        """
        key = request_key(body)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:  # the same request from two threads is sent once
            found = self.store.get(key)
            if found is not None:
                self._count("stored")
                return found
            if self.offline:
                raise NotStored(key)
            most = self.most(body)
            self.budget.hold(most)
            spent = 0
            try:
                answer = self._send(body, key)
                spent = answer.tokens
                self.store.put(key, answer)
            except Refused as error:
                self.stopped = error
                raise
            finally:
                self.budget.settle(most, spent)
            return answer

    def most(self, body: dict[str, Any]) -> int:
        """What a request can cost at most: a token has at least one byte."""
        return prompt_size(body, 1, self.endpoint.picture_tokens) + self.endpoint.max_tokens

    def _send(self, body: dict[str, Any], key: str) -> Answer:
        for attempt in range(self.endpoint.retries + 1):
            if self.stopped is not None:
                raise self.stopped
            if self._silent >= max(3, self.endpoint.workers):
                raise Refused(
                    f"no answer to {self._silent} requests in a row: {self.endpoint.base_url} seems down"
                )
            try:
                answer = self._once(body, key)
            except _Fault as fault:
                self._count(fault.kind)
                if attempt < self.endpoint.retries:
                    time.sleep(self._wait(attempt, fault.wait))
                else:
                    with self._lock:
                        self._silent += 1
                    raise Unanswered(
                        f"{attempt + 1} times without an answer, the last one: {fault}"
                    ) from fault
            else:
                with self._lock:
                    self._silent = 0
                self._count("asked")
                return answer
        raise AssertionError

    def _wait(self, attempt: int, told: float | None) -> float:
        seconds = self.endpoint.backoff * 2**attempt * random.uniform(0.5, 1.0)
        return min(self.endpoint.longest_wait, max(seconds, told or 0.0))

    def _once(self, body: dict[str, Any], key: str) -> Answer:
        import openai

        try:
            completion = self._client.chat.completions.create(**body, extra_headers={"Idempotency-Key": key})
            return _read(completion)
        except openai.APITimeoutError as error:
            raise _Fault("timeout", str(error)) from error
        except openai.APIStatusError as error:
            status = error.status_code
            if getattr(error, "code", None) == "insufficient_quota" or status in (401, 403, 404):
                raise Refused(str(error)) from error
            if status in (408, 409, 429) or status >= 500:
                raise _Fault(str(status), str(error), _retry_after(error.response)) from error
            raise Unanswered(str(error)) from error
        except (openai.APIError, ValueError) as error:  # a broken connection, or a body that is no completion
            raise _Fault("broken", f"{type(error).__name__}: {error}") from error

    def _count(self, kind: str) -> None:
        with self._lock:
            self.counts[kind] += 1


class _Fault(Exception):
    """Worth another try."""

    def __init__(self, kind: str, text: str, wait: float | None = None):
        super().__init__(text)
        self.kind, self.wait = kind, wait


def request_key(body: dict[str, Any]) -> str:
    """The hash of everything that a request says."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def prompt_size(body: dict[str, Any], bytes_per_token: float, picture_tokens: int) -> int:
    """Tokens of a request's prompt, from its bytes."""
    total = 0.0
    for message in body["messages"]:
        parts = message["content"]
        for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
            text = part.get("text")
            total += picture_tokens if text is None else len(text.encode()) / bytes_per_token
        total += FRAME
    schema = body.get("response_format", {}).get("json_schema")
    return int(total + (len(json.dumps(schema)) / bytes_per_token if schema else 0))


def _retry_after(response) -> float | None:
    try:
        return float(response.headers.get("retry-after", ""))
    except ValueError:
        return None


def _read(completion) -> Answer:
    try:
        choice, usage = completion.choices[0], completion.usage
        tokens = usage.prompt_tokens + usage.completion_tokens
        return Answer(choice.message.content or "", choice.finish_reason, int(tokens))
    except (AttributeError, IndexError, TypeError) as error:
        raise ValueError(f"no completion: {error}") from error
