"""Answers: from a reply's text to i32[L] and back, on the host. Nothing a model writes is ever evaluated."""

import json
import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np

UNREADABLE = np.int32(np.iinfo(np.int32).min)  # fills the action of a reply that could not be read
BLANK = -1  # an absent place of an answer of variable length
MAX_REPLY = 100_000  # characters of a reply that are looked at, counted from its end
MAX_ANSWER = 4_000  # characters between the answer tags; longer answers are unreadable
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_BRACE = re.compile(r"\\boxed\{|\{|\}")


class Codec(Protocol):
    """One answer format. `size` is L; values lie above `UNREADABLE`, `BLANK` marks absent places."""

    size: int
    instruction: str  # the sentence that ends the prompt

    def parse(self, answer: str) -> np.ndarray | None:
        """i32[L] for the text between the answer tags, or None if it cannot be read."""

    def format(self, action: np.ndarray) -> str:
        """The text between the answer tags for a readable i32[L]."""

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """i32[L]: a uniformly random well-formed answer, legal or not: what the random policy plays."""


def extract(reply: str) -> str | None:
    """The text of the last `<answer>...</answer>` or `\\boxed{...}` of a reply, whichever begins later.

    One inside the other is thus unwrapped. Those that are never closed do not count.
    """
    reply = reply[-MAX_REPLY:]
    found = None
    for match in _ANSWER.finditer(reply):
        found = (match.start(1), match.group(1))
    opened: list[int | None] = []  # of every open brace: where its content begins if it is a box, else None
    for match in _BRACE.finditer(reply):
        if match.group() != "}":
            opened.append(match.end() if len(match.group()) > 1 else None)
        elif opened and (start := opened.pop()) is not None and (found is None or start > found[0]):
            found = (start, reply[start : match.start()])
    if found is None or len(found[1]) > MAX_ANSWER:
        return None
    return found[1].strip()


def read(codec: Codec, reply: str) -> np.ndarray:
    """i32[L]: the answer in a reply; all `UNREADABLE` if there is none or it is malformed. Never raises."""
    answer = extract(reply)
    action = None if answer is None else codec.parse(answer)
    return np.full(codec.size, UNREADABLE, np.int32) if action is None else np.asarray(action, np.int32)


def write(codec: Codec, action: np.ndarray) -> str:
    """A whole reply that `read` understands."""
    return f"<answer>{codec.format(np.asarray(action))}</answer>"


def _integers(text: str) -> list[int] | None:
    """Integers between spaces, commas or semicolons, optionally in brackets; None if it is anything else."""
    text = text.strip()
    if text[:1] + text[-1:] in ("()", "[]", "{}"):
        text = text[1:-1]
    words = [w for w in re.split(r"[\s,;]+", text) if w]
    if not words or not all(_INTEGER.fullmatch(w) for w in words):
        return None
    return [int(w) for w in words]


def _check_low(low: int) -> None:
    if low <= BLANK:
        raise ValueError(f"values of {low} could be mistaken for an absent place ({BLANK})")


class Choice:
    """One of several names, case ignored. Action: i32[1], the index.

    The prompt lists the names unless `what` describes them.
    """

    size = 1

    def __init__(self, names: Sequence[str], aliases: dict[str, str] | None = None, what: str | None = None):
        self.names = tuple(names)
        self._index = {n.lower(): i for i, n in enumerate(self.names)}
        if len(self._index) < len(self.names):
            raise ValueError(f"names of a choice differ by more than upper and lower case: {self.names}")
        self._index |= {a.lower(): self._index[n.lower()] for a, n in (aliases or {}).items()}
        what = what or f"one of {', '.join(self.names)}"
        self.instruction = f"Answer with {what}, like <answer>{self.names[-1]}</answer>"

    def parse(self, answer: str) -> np.ndarray | None:
        index = self._index.get(answer.strip().strip("[]()\"'.").strip().lower())
        return None if index is None else np.asarray([index], np.int32)

    def format(self, action: np.ndarray) -> str:
        return self.names[int(action[0])]

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(len(self.names), size=1, dtype=np.int32)


class Ints:
    """Exactly n integers in low .. high. Action: i32[n]."""

    def __init__(self, n: int, low: int, high: int, what: str, example: Sequence[int]):
        self.size, self.low, self.high = n, low, high
        self.instruction = f"Answer with {what}, like <answer>{', '.join(map(str, example))}</answer>"

    def parse(self, answer: str) -> np.ndarray | None:
        values = _integers(answer)
        if values is None or len(values) != self.size or not all(self.low <= v <= self.high for v in values):
            return None
        return np.asarray(values, np.int32)

    def format(self, action: np.ndarray) -> str:
        return ", ".join(str(int(v)) for v in action)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(self.low, self.high + 1, size=self.size, dtype=np.int32)


class Natural:
    """One whole number, 0 or more, of up to `digits` digits: more than an i32 holds.

    Action: i32[ceil(digits / 9)], limbs of nine digits, the most significant first. Thousands may be
    separated by commas.
    """

    def __init__(self, digits: int, what: str, example: int):
        self.digits, self.size = digits, -(-digits // 9)
        self.instruction = f"Answer with {what}, like <answer>{example}</answer>"

    def parse(self, answer: str) -> np.ndarray | None:
        answer = answer.strip()
        if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", answer):
            answer = answer.replace(",", "")
        if not re.fullmatch(r"\+?[0-9]+", answer):
            return None
        number = answer.lstrip("+0")
        if len(number) > self.digits:
            return None
        number = number.zfill(9 * self.size)
        return np.asarray([int(number[k : k + 9]) for k in range(0, 9 * self.size, 9)], np.int32)

    def format(self, action: np.ndarray) -> str:
        return "".join(f"{int(limb):09d}" for limb in action).lstrip("0") or "0"

    def random(self, rng: np.random.Generator) -> np.ndarray:
        length = rng.integers(1, self.digits + 1)
        return self.parse("".join(map(str, rng.integers(10, size=length))))


class Grid:
    """A grid of integers low .. high, at most rows x cols cells, one line a row. Action: i32[rows * cols].

    Cells beyond the written ones are `BLANK`; an answer's shape is thus part of it. Lines of digits written
    without spaces are read digit by digit where every value has one digit.
    """

    def __init__(self, rows: int, cols: int, low: int, high: int, what: str, example: str):
        _check_low(low)
        self.rows, self.cols, self.low, self.high = rows, cols, low, high
        self.size = rows * cols
        self.instruction = f"Answer with {what}, like <answer>{example}</answer>"

    def parse(self, answer: str) -> np.ndarray | None:
        answer = answer.replace("],", "]\n").replace("|", " ")
        lines = [line.replace("[", " ").replace("]", " ") for line in answer.splitlines()]
        lines = [line for line in lines if line.strip(" ,;")]
        if not 1 <= len(lines) <= self.rows:
            return None
        out = np.full((self.rows, self.cols), BLANK, np.int32)
        for i, line in enumerate(lines):
            line = line.strip(" ,;")
            digits = self.low >= 0 and self.high <= 9 and line.isascii() and line.isdigit()
            values = [int(c) for c in line] if digits else _integers(line)
            if values is None or len(values) > self.cols:
                return None
            if not all(self.low <= v <= self.high for v in values):
                return None
            out[i, : len(values)] = values
        return out.reshape(-1)

    def format(self, action: np.ndarray) -> str:
        rows = np.asarray(action).reshape(self.rows, self.cols)
        lines = (" ".join(str(int(v)) for v in row if v != BLANK) for row in rows)
        return "\n".join(line for line in lines if line)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        out = np.full((self.rows, self.cols), BLANK, np.int32)
        rows, cols = rng.integers(1, (self.rows + 1, self.cols + 1))
        out[:rows, :cols] = rng.integers(self.low, self.high + 1, size=(rows, cols))
        return out.reshape(-1)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


class Lists:
    """A JSON object of named lists of up to n integers. Action: i32[len(names) * n], `BLANK` behind each."""

    def __init__(self, names: Sequence[str], n: int, low: int, high: int, example: dict[str, list[int]]):
        _check_low(low)
        self.names, self.n, self.low, self.high = tuple(names), n, low, high
        self.size = len(self.names) * n
        self.instruction = (
            f"Answer with a JSON object with the keys {', '.join(self.names)}, "
            f"like <answer>{json.dumps(example)}</answer>"
        )

    def parse(self, answer: str) -> np.ndarray | None:
        try:
            value = json.loads(answer, object_pairs_hook=_distinct)
        except (ValueError, RecursionError):  # not JSON, or nested far too deep
            return None
        if not isinstance(value, dict) or set(value) != set(self.names):
            return None
        out = np.full((len(self.names), self.n), BLANK, np.int32)
        for i, name in enumerate(self.names):
            entries = value[name]
            if not isinstance(entries, list) or len(entries) > self.n:
                return None
            for k, v in enumerate(entries):
                if type(v) is not int or not self.low <= v <= self.high:
                    return None
                out[i, k] = v
        return out.reshape(-1)

    def format(self, action: np.ndarray) -> str:
        rows = np.asarray(action).reshape(len(self.names), self.n)
        return json.dumps({name: [int(v) for v in row if v != BLANK] for name, row in zip(self.names, rows)})

    def random(self, rng: np.random.Generator) -> np.ndarray:
        out = np.full((len(self.names), self.n), BLANK, np.int32)
        length = rng.integers(1, self.n + 1)
        out[:, :length] = rng.integers(self.low, self.high + 1, size=(len(self.names), length))
        return out.reshape(-1)


class Words:
    """One to n words of a list, in order, case ignored. Action: i32[n] of places in the list, `BLANK` behind.

    Words stand between spaces, commas or semicolons; quotes and brackets around them do not count. Words of one
    character are written and may be read without separators.
    """

    def __init__(self, words: Sequence[str], n: int, what: str, example: Sequence[str]):
        self.words, self.size = tuple(words), n
        self._index = {w.lower(): i for i, w in enumerate(self.words)}
        if len(self._index) < len(self.words):
            raise ValueError(f"words must differ by more than upper and lower case: {self.words}")
        self._letters = all(len(w) == 1 for w in self.words)
        self._glue = "" if self._letters else ", "
        self.instruction = f"Answer with {what}, like <answer>{self._glue.join(example)}</answer>"

    def parse(self, answer: str) -> np.ndarray | None:
        words = [w for w in re.split(r"[\s,;\"'\[\](){}]+", answer.strip().rstrip(".").lower()) if w]
        if self._letters:
            words = [letter for word in words for letter in word]
        if not 1 <= len(words) <= self.size or not all(w in self._index for w in words):
            return None
        out = np.full(self.size, BLANK, np.int32)
        out[: len(words)] = [self._index[w] for w in words]
        return out

    def format(self, action: np.ndarray) -> str:
        return self._glue.join(self.words[int(v)] for v in action if v != BLANK)

    def random(self, rng: np.random.Generator) -> np.ndarray:
        out = np.full(self.size, BLANK, np.int32)
        length = rng.integers(1, self.size + 1)
        out[:length] = rng.integers(len(self.words), size=length)
        return out


class Command:
    """A verb with exactly n integers in low .. high, or a single word. Action: i32[1 + n].

    The first value is 0 for the verb, then its integers follow, or the number of the word, counted from 1,
    and then `BLANK`s. Case is ignored, and the verb may be left out.
    """

    def __init__(self, verb: str, n: int, low: int, high: int, words: Sequence[str], what: str, example: str):
        _check_low(low)
        self.verb, self.n, self.low, self.high, self.words = verb, n, low, high, tuple(words)
        self.size = 1 + n
        self.instruction = f"Answer with {what}, like <answer>{example}</answer>"

    def parse(self, answer: str) -> np.ndarray | None:
        answer = answer.strip().strip("()'\".").strip().lower()
        if answer in self.words:
            return np.asarray([1 + self.words.index(answer)] + [BLANK] * self.n, np.int32)
        values = _integers(answer.removeprefix(self.verb).strip("'\",:()[]{} "))
        if values is None or len(values) != self.n or not all(self.low <= v <= self.high for v in values):
            return None
        return np.asarray([0, *values], np.int32)

    def format(self, action: np.ndarray) -> str:
        if action[0]:
            return self.words[int(action[0]) - 1]
        return " ".join([self.verb, *(str(int(v)) for v in action[1:])])

    def random(self, rng: np.random.Generator) -> np.ndarray:
        out = np.full(self.size, BLANK, np.int32)
        out[0] = max(0, rng.integers(-2 * len(self.words), len(self.words) + 1))  # two thirds are integers
        if out[0] == 0:
            out[1:] = rng.integers(self.low, self.high + 1, size=self.n)
        return out
