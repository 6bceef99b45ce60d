"""The Qwen3-VL policy against itself: caches, shared prompts, padding, pictures and checkpoints."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from agents import hf
from agents.qwen3vl import (
    QWEN3_VL_4B,
    Config,
    Qwen3VL,
    TextConfig,
    VisionConfig,
    empty_cache,
    nano,
    patchify,
    rope_positions,
)

IMAGE, START, END, PAD, EOS = 1, 2, 3, 0, 4
IDS = {"image_token": IMAGE, "vision_start": START, "vision_end": END, "pad": PAD, "eos": EOS}
B, S, P, T = 3, 2, 20, 5
GRID = (2, 4)  # patches; merged 2 x 2 a picture is 1 x 2 tokens
LENGTHS = np.array([20, 13, 16], np.int32)


def tiny(**overrides) -> Config:
    text = TextConfig(
        vocab=50,
        hidden=16,
        mlp=24,
        layers=2,
        heads=4,
        kv_heads=2,
        head_dim=8,
        rope_theta=1e4,
        mrope_section=(2, 1, 1),
        tie=True,
    )
    vision = VisionConfig(
        depth=2, hidden=16, mlp=24, heads=2, deepstack=(1,), patch=4, temporal_patch=2, merge=2, positions=9
    )
    return Config(**{"text": text, "vision": vision, **IDS, **overrides})


CONFIG = tiny()


def build(config=CONFIG):
    """The model split in two, with every parameter random, biases and norms included."""
    graphdef, shapes = nnx.split(nnx.eval_shape(lambda: Qwen3VL(config, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)

    def fill(path, shape):
        name = jax.tree_util.keystr(path)
        centre = 1 if "norm" in name and "weight" in name else 0
        return jnp.asarray(centre + rng.normal(0, 0.2, shape.shape), shape.dtype)

    return graphdef, jax.tree.map_with_path(fill, shapes)


@pytest.fixture(scope="module")
def model():
    return build()


def prompts(seed=0):
    """tokens i32[B, P] with two pictures each, lengths, patches."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(5, 50, (B, P)).astype(np.int32)
    tokens[:, 2:6] = [START, IMAGE, IMAGE, END]
    tokens[:, 8:12] = [START, IMAGE, IMAGE, END]
    tokens = np.where(np.arange(P) < LENGTHS[:, None], tokens, PAD).astype(np.int32)
    images = rng.integers(0, 256, (B, 2, 8, 16, 3)).astype(np.uint8)
    return jnp.asarray(tokens), jnp.asarray(LENGTHS), patchify(jnp.asarray(images), CONFIG)


def answers(seed=0):
    return jnp.asarray(np.random.default_rng(seed).integers(5, 50, (B, S, T)), jnp.int32)


def score(params, graphdef, tokens, lengths, patches, own):
    """Hidden states [B, S, 1 + T, D] that predict and follow the answers, with the prompt read once."""
    model = nnx.merge(graphdef, params)
    prefix = model.prefill(tokens, lengths, patches, GRID)
    hidden, _ = model.extend(prefix, empty_cache(model.config, *own.shape), own, 0)
    first = jnp.broadcast_to(prefix.hidden[:, None, None], (*own.shape[:2], 1, hidden.shape[-1]))
    return jnp.concatenate([first, hidden], axis=2)


def total(params, graphdef, tokens, lengths, patches, own, weight):
    return jnp.sum(weight * score(params, graphdef, tokens, lengths, patches, own))


score_jit = jax.jit(score, static_argnums=1)
total_grad = jax.jit(jax.value_and_grad(total, argnums=(0, 4)), static_argnums=1)


def test_extend_equals_one_causal_forward(model):
    graphdef, params = model
    tokens, lengths, patches = prompts()
    own = answers()
    shared = score_jit(params, graphdef, tokens, lengths, patches, own)
    forward = jax.jit(lambda *args: nnx.merge(graphdef, params).forward(*args, GRID))
    for s in range(S):
        whole = np.zeros((B, P + T), np.int32)
        whole[:, :P] = tokens
        for b, n in enumerate(LENGTHS):
            whole[b, n : n + T] = own[b, s]
        hidden = forward(jnp.asarray(whole), lengths + T, patches)
        for b, n in enumerate(LENGTHS):
            np.testing.assert_allclose(shared[b, s], hidden[b, n - 1 : n + T], atol=1e-5)


@pytest.mark.parametrize("steps", [(1, 1, 1, 1, 1), (2, 3)])
def test_sampling_with_the_cache_equals_scoring_the_answer(model, steps):
    graphdef, params = model
    tokens, lengths, patches = prompts()
    own = answers()
    expected = score_jit(params, graphdef, tokens, lengths, patches, own)
    merged = nnx.merge(graphdef, params)
    prefix = jax.jit(lambda *args: nnx.merge(graphdef, params).prefill(*args, GRID))(tokens, lengths, patches)
    extend = jax.jit(lambda *args: nnx.merge(graphdef, params).extend(prefix, *args))
    cache, start, hidden = empty_cache(CONFIG, B, S, T + 3), 0, [expected[:, :, :1]]
    for count in steps:
        out, cache = extend(cache, own[:, :, start : start + count], jnp.int32(start))
        hidden.append(out)
        start += count
    got = merged.logits(jnp.concatenate(hidden, axis=2))
    assert got.dtype == jnp.float32 and got.shape == (B, S, T + 1, 50)
    np.testing.assert_allclose(got, merged.logits(expected), atol=1e-5)


def test_shared_prefix_equals_separate_prompts_in_value_and_gradient(model):
    graphdef, params = model
    tokens, lengths, patches = prompts()
    own = answers()
    weight = jax.random.normal(jax.random.key(1), (B, S, T + 1, 16))

    batch = (tokens, lengths, patches)
    value, (grads, patch_grads) = total_grad(params, graphdef, *batch, own, weight)
    parts = [total_grad(params, graphdef, *batch, own[:, [s]], weight[:, [s]]) for s in range(S)]
    np.testing.assert_allclose(value, sum(part[0] for part in parts), rtol=1e-5)
    summed = jax.tree.map(lambda *xs: sum(xs), *(part[1] for part in parts))
    for got, want in zip(jax.tree.leaves((grads, patch_grads)), jax.tree.leaves(summed), strict=True):
        assert np.all(np.isfinite(got)) and np.any(got != 0)
        np.testing.assert_allclose(got, want, atol=1e-5 * (1 + np.abs(want).max()))


def test_right_padding_changes_nothing(model):
    graphdef, params = model
    tokens, lengths, patches = prompts()
    longer = jnp.concatenate([tokens, jnp.full((B, 7), PAD, jnp.int32)], axis=1)
    noise = jnp.where(jnp.arange(P + 7)[None] < lengths[:, None], longer, 9)
    want = score_jit(params, graphdef, tokens, lengths, patches, answers())
    for padded in (longer, noise):
        got = score_jit(params, graphdef, padded, lengths, patches, answers())
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_permuting_the_batch_permutes_the_result(model):
    graphdef, params = model
    order = jnp.array([2, 0, 1])
    batch = (*prompts(), answers())
    want = score_jit(params, graphdef, *batch)[order]
    got = score_jit(params, graphdef, *(x[order] for x in batch))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_jit_equals_eager(model):
    graphdef, params = model
    batch = (*prompts(), answers())
    eager = score(params, graphdef, *batch)
    np.testing.assert_allclose(score_jit(params, graphdef, *batch), eager, atol=1e-5)


def test_remat_changes_neither_values_nor_gradients(model):
    graphdef, params = model
    batch = (*prompts(), answers(), jnp.ones((B, S, T + 1, 16)))
    recomputed = total_grad(params, build(tiny(remat=True))[0], *batch)
    kept = total_grad(params, graphdef, *batch)
    for got, want in zip(*map(jax.tree.leaves, (recomputed, kept)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_pictures_matter_at_their_place_only(model):
    """A picture is seen by what follows it, not by what precedes it, and not by another prompt."""
    graphdef, params = model
    tokens, lengths, patches = prompts()
    forward = jax.jit(lambda x: nnx.merge(graphdef, params).forward(tokens, lengths, x, GRID))
    changed = patches.at[1, 1].add(0.5)  # second picture of prompt 1, from position 9 on
    moved = np.abs(forward(changed) - forward(patches)).max(axis=-1) > 1e-6
    assert not moved[[0, 2]].any() and not moved[1, :9].any() and moved[1, 9 : LENGTHS[1]].all()


def test_more_placeholders_than_pictures_gives_nan(model):
    graphdef, params = model
    tokens, *rest = prompts()
    hidden = np.asarray(score_jit(params, graphdef, tokens.at[1, 12].set(IMAGE), *rest, answers()))
    assert np.isnan(hidden[1]).all() and np.isfinite(hidden[[0, 2]]).all()


def test_text_only(model):
    graphdef, params = model
    read = jax.jit(lambda *args: nnx.merge(graphdef, params).prefill(*args))
    tokens, lengths = jnp.full((2, 6), 9, jnp.int32), jnp.array([6, 4], jnp.int32)
    assert read(tokens, lengths).next_position.tolist() == [6, 4]
    with pytest.raises(ValueError, match="go together"):
        nnx.merge(graphdef, params).prefill(tokens, lengths, None, GRID)


def test_bfloat16_computes_in_bfloat16_and_stays_close(model):
    graphdef, params = model
    batch = (*prompts(), answers())
    wide = score_jit(params, graphdef, *batch)
    narrow = score_jit(params, build(tiny(dtype="bfloat16"))[0], *batch)
    assert narrow.dtype == jnp.bfloat16
    assert np.abs(narrow.astype(jnp.float32) - wide).mean() < 0.05


def test_rope_positions_of_a_hand_computed_prompt():
    """Two words, a picture of 2 x 3 tokens, three words, and one word of padding."""
    tokens = jnp.array([[7, START, *[IMAGE] * 6, END, 8, 9, PAD]], jnp.int32)
    positions, following = rope_positions(tokens, jnp.array([11], jnp.int32), (4, 6), CONFIG)
    time = [0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 7]
    row = [0, 1, 2, 2, 2, 3, 3, 3, 5, 6, 7]
    col = [0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7]
    assert positions[:, 0, :11].tolist() == [time, row, col]
    assert following.tolist() == [8]
    assert positions.dtype == following.dtype == jnp.int32


def test_rope_positions_after_two_pictures_and_after_a_closing_picture():
    tokens = jnp.array([[7, IMAGE, IMAGE, 8, IMAGE, IMAGE, PAD], [IMAGE, IMAGE, *[9] * 5]], jnp.int32)
    positions, following = rope_positions(tokens, jnp.array([6, 3], jnp.int32), GRID, CONFIG)
    assert positions[2, 0, :6].tolist() == [0, 1, 2, 3, 4, 5] and positions[0, 0, :6].tolist() == [
        0,
        1,
        1,
        3,
        4,
        4,
    ]
    assert following.tolist() == [6, 3]


@pytest.mark.parametrize(("patch", "merge", "temporal"), [(8, 1, 1), (8, 2, 2), (16, 2, 2), (16, 1, 2)])
def test_patchify_equals_a_plain_loop(patch, merge, temporal):
    vision = dataclasses.replace(CONFIG.vision, patch=patch, merge=merge, temporal_patch=temporal)
    config = tiny(vision=vision)
    rows, cols = 4, 6
    images = np.random.default_rng(0).integers(0, 256, (2, 1, rows * patch, cols * patch, 3)).astype(np.uint8)
    expected = []
    for image in images[:, 0]:
        patches = []
        for block_row in range(rows // merge):
            for block_col in range(cols // merge):
                for i in range(merge):
                    for j in range(merge):
                        top, left = (block_row * merge + i) * patch, (block_col * merge + j) * patch
                        piece = image[top : top + patch, left : left + patch].astype(np.float64)
                        piece = ((piece / 255 - 0.5) / 0.5).transpose(2, 0, 1)  # C, P, P
                        patches.append(np.repeat(piece[:, None], temporal, axis=1).reshape(-1))
        expected.append(patches)
    got = jax.jit(lambda x: patchify(x, config))(images)
    assert got.shape == (2, 1, rows * cols, vision.patch_dim) and got.dtype == jnp.float32
    np.testing.assert_allclose(got[:, 0], np.array(expected), atol=2e-7)


def test_patches_of_a_token_adjoin():
    """Changing one pixel changes one image token's worth of patches, whatever the merge."""
    images = np.zeros((1, 16, 16, 3), np.uint8)
    images[0, 5, 9] = 255  # row 1, col 2 of 4 x 4 patches: token (0, 1), second row of its block
    changed = np.flatnonzero(np.abs(patchify(jnp.asarray(images), CONFIG)[0] + 1).max(axis=-1) > 0)
    assert changed.tolist() == [4 + 2]


def test_wrong_pictures_are_refused(model):
    graphdef, params = model
    tokens, lengths, patches = prompts()
    merged = nnx.merge(graphdef, params)
    with pytest.raises(ValueError, match="do not fit"):
        merged.prefill(tokens, lengths, patches, (4, 4))
    with pytest.raises(ValueError, match="cannot be merged"):
        merged.prefill(tokens, lengths, patches, (1, 8))
    with pytest.raises(ValueError, match="multiple of 4"):
        patchify(jnp.zeros((10, 8, 3), jnp.uint8), CONFIG)


def untied() -> Config:
    return tiny(text=dataclasses.replace(CONFIG.text, tie=False), video_token=40)


@pytest.mark.parametrize("config", [CONFIG, untied()], ids=["tied", "untied"])
def test_names_are_those_of_the_published_state_dict(config):
    names = list(hf.hf_names(build(config)[1]).values())
    assert len(set(names)) == len(names)
    assert ("lm_head.weight" in names) is not config.text.tie
    for name in (
        "model.language_model.embed_tokens.weight",
        "model.language_model.layers.1.self_attn.q_norm.weight",
        "model.visual.patch_embed.proj.bias",
        "model.visual.pos_embed.weight",
        "model.visual.blocks.1.attn.qkv.weight",
        "model.visual.deepstack_merger_list.0.norm.bias",
    ):
        assert name in names


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("config", [CONFIG, untied()], ids=["tied", "untied"])
def test_checkpoints_round_trip_bitwise(tmp_path, config, dtype):
    config = dataclasses.replace(config, dtype=dtype, param_dtype=dtype)
    graphdef, params = build(config)
    hf.save_pretrained(params, config, tmp_path)
    loaded_config, loaded = hf.load_pretrained(tmp_path)
    assert loaded_config == config
    loaded_graphdef, loaded_params = nnx.split(loaded)
    assert loaded_graphdef == graphdef
    same = jax.tree.map(lambda a, b: a.dtype == b.dtype and np.array_equal(a, b), params, loaded_params)
    assert all(jax.tree.leaves(same))
    config, model = hf.load_pretrained(tmp_path, param_dtype="float32", remat=True)
    assert config.remat and all(x.dtype == jnp.float32 for x in jax.tree.leaves(nnx.state(model)))


def test_a_checkpoint_that_does_not_fit_names_every_tensor(tmp_path):
    _, params = build()
    tensors = hf.to_hf(params, CONFIG)
    tensors["model.visual.extra.weight"] = tensors.pop("model.language_model.norm.weight")
    tensors["model.visual.pos_embed.weight"] = jnp.zeros((4, 16))
    with pytest.raises(ValueError) as error:
        hf.from_hf(tensors, CONFIG)
    for part in (
        "missing model.language_model.norm.weight",
        "unexpected model.visual.extra.weight",
        "model.visual.pos_embed.weight has shape (4, 16) instead of (9, 16)",
    ):
        assert part in str(error.value)
    hf.save_pretrained(params, CONFIG, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="safetensors"):
        hf.load_pretrained(tmp_path)


def test_both_layouts_of_config_json_are_read():
    old = hf.config_to_hf(QWEN3_VL_4B)
    assert hf.config_from_hf(old, {}) == QWEN3_VL_4B
    new = json.loads(json.dumps(old))
    text = new["text_config"]
    text["rope_parameters"] = {"rope_theta": text.pop("rope_theta"), **text.pop("rope_scaling")}
    del text["pad_token_id"], text["eos_token_id"]
    generation = {"pad_token_id": 151643, "eos_token_id": [151645, 151643]}
    assert hf.config_from_hf(new, generation) == QWEN3_VL_4B
    with pytest.raises(ValueError, match="pad_token_id"):
        hf.config_from_hf(new, {})
    old["text_config"]["rope_scaling"]["mrope_interleaved"] = False
    with pytest.raises(ValueError, match="mrope_interleaved"):
        hf.config_from_hf(old, {})


@pytest.mark.slow
def test_published_size():
    shapes = nnx.eval_shape(lambda: Qwen3VL(QWEN3_VL_4B, rngs=nnx.Rngs(0)))
    assert sum(x.size for x in jax.tree.leaves(nnx.state(shapes))) / 1e9 == pytest.approx(4.44, abs=0.01)


def test_nano_is_small_and_starts_near_uniform():
    tokens = jnp.asarray(np.random.default_rng(0).integers(5, 1024, (2, 12)), jnp.int32)

    @jax.jit
    def start(key):
        model = Qwen3VL(nano(1024, **IDS), rngs=nnx.Rngs(key))
        return nnx.state(model), model.logits(model.forward(tokens, jnp.array([12, 12], jnp.int32)))

    params, logits = start(jax.random.key(0))
    assert sum(x.size for x in jax.tree.leaves(params)) < 1_000_000
    assert 0.05 < np.std(logits) < 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: dataclasses.replace(CONFIG.text, mrope_section=(2, 2, 2)), "mrope_section"),
        (lambda: dataclasses.replace(CONFIG.text, mrope_section=(0, 2, 2)), "interleaved"),
        (lambda: dataclasses.replace(CONFIG.text, kv_heads=3), "kv heads"),
        (lambda: dataclasses.replace(CONFIG.text, layers=0), "layers must be positive"),
        (lambda: dataclasses.replace(CONFIG.vision, heads=3), "not divisible"),
        (lambda: dataclasses.replace(CONFIG.vision, heads=8), "multiple of 4"),
        (lambda: dataclasses.replace(CONFIG.vision, positions=10), "square"),
        (lambda: dataclasses.replace(CONFIG.vision, deepstack=(0, 2)), "deepstack"),
        (lambda: tiny(text=dataclasses.replace(CONFIG.text, layers=1)), "DeepStack"),
        (lambda: tiny(image_token=50), "image_token id 50"),
        (lambda: tiny(eos=START), "must differ"),
        (lambda: tiny(pad=IMAGE), "must differ"),
        (lambda: tiny(dtype="int8"), "dtype"),
    ],
)
def test_impossible_configurations_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        change()
