"""Text to token ids and the chat template, the same for the shipped small vocabulary and for Qwen's."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer as _Backend

SHIPPED = Path(__file__).parent / "tokenizer.json"
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
)  # fmt: skip


class Tokenizer:
    """A `tokenizers` file that knows Qwen's special tokens.

    The shipped vocabulary (scripts/train_tokenizer.py) is trained on the harness texts themselves, with a
    pre-tokeniser that lets a fixed clause become one token and keeps digits and glyphs apart. That makes prompts two
    to three times shorter, and it hides something: a model with this vocabulary does not read rules and hints, it
    recognises them.
    """

    def __init__(self, path: str | Path = SHIPPED):
        self._backend = _Backend.from_file(str(path))
        missing = [token for token in SPECIAL if self._backend.token_to_id(token) is None]
        if missing:
            raise ValueError(f"tokenizer {path} lacks the special tokens {missing}")
        # A special token's name inside a text is text: neither an environment nor a reply can forge a turn.
        self._backend.encode_special_tokens = True

    @property
    def vocab(self) -> int:
        return self._backend.get_vocab_size()

    def id(self, token: str) -> int:
        """The id of one token. Raises KeyError if it is not in the vocabulary."""
        found = self._backend.token_to_id(token)
        if found is None:
            raise KeyError(token)
        return found

    @cached_property
    def pad(self) -> int:
        return self.id("<|endoftext|>")

    @cached_property
    def eos(self) -> int:
        return self.id("<|im_end|>")

    def encode(self, text: str) -> list[int]:
        """Ids of a text; never a special token."""
        return self._backend.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; special tokens are left out."""
        return self._backend.decode([int(i) for i in ids], skip_special_tokens=True)

    @cached_property
    def _frame(self) -> tuple[list[int], list[int], list[int]]:
        # `<|im_end|>` and the line feed behind it are separate pieces, as in Qwen's own tokenisation.
        start = self.id("<|im_start|>")
        before = [start, *self.encode("user\n")]
        after = [self.eos, *self.encode("\n"), start, *self.encode("assistant\n")]
        picture = [self.id("<|vision_start|>"), self.id("<|image_pad|>"), self.id("<|vision_end|>")]
        return before, picture, after

    def chat(self, text: str, image_tokens: int) -> np.ndarray:
        """i32[P]: one user turn with a picture of `image_tokens` tokens (0: no picture) before the text."""
        before, (start, pad, end), after = self._frame
        picture = [start, *[pad] * image_tokens, end] if image_tokens else []
        return np.asarray([*before, *picture, *self.encode(text), *after], np.int32)

    def answer(self, reply: str) -> np.ndarray:
        """i32[T]: a whole reply with the token that ends it."""
        return np.asarray([*self.encode(reply), self.eos], np.int32)
