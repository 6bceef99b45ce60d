"""Prompts on their way to the model: token ids and a picture, packed into batches of a few static shapes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flax import struct
from jax import Array

from agents.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Prompt:
    """One prompt. `kind` only says which prompts are alike (an environment): alike ones are packed together."""

    ids: np.ndarray  # i32[P]
    picture: np.ndarray | None  # u8[R, R, 3]
    kind: int = 0


@struct.dataclass
class PromptBatch:
    """B prompts, padded to one static length."""

    tokens: Array  # i32[B, P], right-padded
    lengths: Array  # i32[B]
    pictures: Array | None  # u8[B, 1, R, R, 3]; None: text alone


def pack(prompts: Sequence[Prompt], rows: int, length: int, pad: int) -> PromptBatch:
    """At most `rows` prompts of at most `length` tokens; missing rows repeat the last prompt."""
    filled = [*prompts, *[prompts[-1]] * (rows - len(prompts))]
    tokens = np.full((rows, length), pad, np.int32)
    for row, prompt in zip(tokens, filled):
        row[: len(prompt.ids)] = prompt.ids
    lengths = np.asarray([len(p.ids) for p in filled], np.int32)
    with_picture = {p.picture is not None for p in filled}
    if len(with_picture) != 1:
        raise ValueError("prompts with and without a picture cannot share a batch")
    pictures = np.stack([p.picture for p in filled])[:, None] if with_picture.pop() else None
    return PromptBatch(tokens, lengths, pictures)


def bucket(length: int, sizes: Sequence[int]) -> int:
    """The smallest static size that holds `length`; beyond the largest one, the next multiple of it."""
    for size in sizes:
        if length <= size:
            return size
    return -(-length // sizes[-1]) * sizes[-1]


def image_tokens(resolution: int, patch: int, merge: int) -> int:
    """Tokens of a square picture. Raises ValueError if its side is not a whole number of merged patches."""
    if resolution % (patch * merge):
        raise ValueError(
            f"a picture of {resolution} px is not a multiple of {patch} px patches merged {merge} x {merge}"
        )
    return (resolution // (patch * merge)) ** 2


class PromptWriter:
    """From prompt texts and pictures to `Prompt`s, with what was already tokenised kept."""

    def __init__(self, tokenizer: Tokenizer, tokens_per_picture: int):
        self.tokenizer, self.tokens_per_picture = tokenizer, tokens_per_picture
        self._cache: dict[tuple[str, bool], np.ndarray] = {}

    def __call__(self, text: str, picture: np.ndarray | None, kind: int = 0) -> Prompt:
        name = (text, picture is not None)
        ids = self._cache.get(name)
        if ids is None:
            ids = self.tokenizer.chat(text, self.tokens_per_picture if picture is not None else 0)
            if len(self._cache) < 100_000:
                self._cache[name] = ids
        return Prompt(ids, picture, kind)
