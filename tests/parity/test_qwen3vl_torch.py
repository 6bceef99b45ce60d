"""The Flax Qwen3-VL against the one in Hugging Face transformers, on a tiny random model in float32.

1e-5 is tight enough to see a tanh instead of the exact GELU in the merger, which moves image tokens by 3e-4.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from flax import nnx  # noqa: E402

from agents import hf  # noqa: E402
from agents.qwen3vl import empty_cache, patchify, rope_positions  # noqa: E402

IMAGE, VIDEO, START, END, EOS, PAD = 290, 291, 292, 293, 294, 295
GRID, HEIGHT, WIDTH = (4, 6), 64, 96  # 2 x 3 image tokens
ATOL = 1e-5


def hf_model(tie):
    config = transformers.Qwen3VLConfig(
        text_config={
            "vocab_size": 300,
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 24,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_interleaved": True,
                "mrope_section": [4, 4, 4],
            },
            "pad_token_id": PAD,
            "eos_token_id": EOS,
        },
        vision_config={
            "depth": 4,
            "hidden_size": 48,
            "intermediate_size": 80,
            "num_heads": 4,
            "patch_size": 16,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
            "num_position_embeddings": 36,
            "deepstack_visual_indexes": [0, 1, 3],
            "out_hidden_size": 64,
        },
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=START,
        vision_end_token_id=END,
        tie_word_embeddings=tie,
    )
    torch.manual_seed(0)
    model = transformers.Qwen3VLForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # the usual initialisation leaves biases and norms trivial
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = EOS, PAD
    return model


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def pair(request, tmp_path_factory):
    """The torch model and ours, loaded from what it saved."""
    directory = tmp_path_factory.mktemp("checkpoint")
    model = hf_model(request.param)
    model.save_pretrained(directory)
    config, ours = hf.load_pretrained(directory)
    assert (config.pad, config.eos, config.video_token) == (PAD, EOS, VIDEO)
    return model, config, ours


def batch():
    """Right-padded prompts with two pictures and one, as numpy arrays."""
    rng = np.random.default_rng(0)
    picture = [START, *[IMAGE] * 6, END]
    words = lambda n: rng.integers(0, 280, n).tolist()  # noqa: E731
    rows = [[*words(3), *picture, *words(4), *picture, *words(5)], [*words(2), *picture, *words(7)]]
    lengths = np.array([len(row) for row in rows], np.int32)
    tokens = np.full((2, lengths.max()), PAD, np.int32)
    for row, content in zip(tokens, rows, strict=True):
        row[: len(content)] = content
    images = rng.integers(0, 256, (2, 2, HEIGHT, WIDTH, 3)).astype(np.uint8)
    return tokens, lengths, images


def torch_inputs(tokens, lengths, patches):
    """The same batch for torch, which takes the pictures that occur, one after another."""
    mask = np.arange(tokens.shape[1]) < lengths[:, None]
    pixels = np.concatenate([patches[0, 0], patches[0, 1], patches[1, 0]])
    return {
        "input_ids": torch.tensor(tokens).long(),
        "attention_mask": torch.tensor(mask).long(),
        "mm_token_type_ids": torch.tensor(tokens == IMAGE).int(),
        "pixel_values": torch.tensor(pixels),
        "image_grid_thw": torch.tensor([[1, *GRID]] * 3),
    }, mask


def test_patches_equal_the_image_processor(pair):
    pytest.importorskip("PIL")
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    _, config, _ = pair
    *_, images = batch()
    processor = Qwen2VLImageProcessorPil(
        patch_size=16,
        merge_size=2,
        temporal_patch_size=2,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        size={"shortest_edge": 32 * 32, "longest_edge": 1 << 24},
    )
    theirs = processor(list(images[0]), return_tensors="np")
    assert theirs["image_grid_thw"].tolist() == [[1, *GRID]] * 2
    ours = patchify(jnp.asarray(images[0]), config).reshape(-1, config.vision.patch_dim)
    np.testing.assert_allclose(ours, theirs["pixel_values"], atol=2e-7)


def test_hidden_states_positions_and_logits(pair):
    model, config, ours = pair
    tokens, lengths, images = batch()
    patches = np.asarray(patchify(jnp.asarray(images), config))
    inputs, mask = torch_inputs(tokens, lengths, patches)
    with torch.no_grad():
        theirs = model(**inputs, output_hidden_states=True)
        image_features = model.model.visual(inputs["pixel_values"], inputs["image_grid_thw"])
        positions, delta = model.model.get_rope_index(
            inputs["input_ids"],
            mm_token_type_ids=inputs["mm_token_type_ids"],
            image_grid_thw=inputs["image_grid_thw"],
            attention_mask=inputs["attention_mask"],
        )

    mine, following = rope_positions(jnp.asarray(tokens), jnp.asarray(lengths), GRID, config)
    np.testing.assert_array_equal(np.asarray(mine)[:, mask], positions.numpy()[:, mask])
    np.testing.assert_array_equal(following, lengths + delta[:, 0].numpy())

    tokens_out, features = ours.encode_images(jnp.asarray(patches[:1]), GRID)
    np.testing.assert_allclose(tokens_out[0].reshape(12, -1), image_features.pooler_output[:12], atol=ATOL)
    for got, want in zip(features, image_features.deepstack_features, strict=True):
        np.testing.assert_allclose(got[0].reshape(12, -1), want[:12], atol=ATOL)

    hidden = ours.forward(jnp.asarray(tokens), jnp.asarray(lengths), jnp.asarray(patches), GRID)
    np.testing.assert_allclose(np.asarray(hidden)[mask], theirs.hidden_states[-1].numpy()[mask], atol=ATOL)
    logits = np.asarray(ours.logits(hidden))
    np.testing.assert_allclose(logits[mask], theirs.logits.numpy()[mask], atol=ATOL)


def test_greedy_generation(pair):
    model, config, ours = pair
    tokens, lengths, images = batch()
    patches = patchify(jnp.asarray(images), config)
    steps = 12
    graphdef, params = nnx.split(ours)

    @jax.jit
    def generate(params, tokens, lengths, patches):
        policy = nnx.merge(graphdef, params)
        prefix = policy.prefill(tokens, lengths, patches, GRID)
        first = jnp.argmax(policy.logits(prefix.hidden), axis=-1)

        def step(carry, start):
            token, cache = carry
            hidden, cache = policy.extend(prefix, cache, token[:, None, None], start)
            return (jnp.argmax(policy.logits(hidden[:, 0, 0]), axis=-1), cache), token

        carry = (first, empty_cache(config, len(tokens), 1, steps))
        return jax.lax.scan(step, carry, jnp.arange(steps, dtype=jnp.int32))[1].T

    got = generate(params, jnp.asarray(tokens), jnp.asarray(lengths), patches)
    numpy_patches = np.asarray(patches)
    for row, length in enumerate(lengths):  # torch pads on the left to generate, so one prompt at a time
        inputs, _ = torch_inputs(tokens, lengths, numpy_patches)
        pictures = slice(0, 2) if row == 0 else slice(2, 3)
        size = GRID[0] * GRID[1]
        with torch.no_grad():
            want = model.generate(
                input_ids=inputs["input_ids"][[row], :length],
                attention_mask=inputs["attention_mask"][[row], :length],
                mm_token_type_ids=inputs["mm_token_type_ids"][[row], :length],
                pixel_values=inputs["pixel_values"][pictures.start * size : pictures.stop * size],
                image_grid_thw=inputs["image_grid_thw"][pictures],
                max_new_tokens=steps,
                do_sample=False,
                eos_token_id=-1,
            )
        assert np.asarray(got)[row].tolist() == want[0, length:].tolist()


def test_transformers_reads_what_we_save(pair, tmp_path):
    model, config, ours = pair
    hf.save_pretrained(ours, config, tmp_path)
    loaded, info = transformers.Qwen3VLForConditionalGeneration.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    theirs, mine = model.state_dict(), loaded.state_dict()
    assert theirs.keys() == mine.keys()
    assert all(torch.equal(theirs[name], mine[name]) for name in theirs)
    tokens, lengths, images = batch()
    inputs, _ = torch_inputs(tokens, lengths, np.asarray(patchify(jnp.asarray(images), config)))
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
