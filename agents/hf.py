"""Qwen3-VL checkpoints in the Hugging Face layout: tensor names, safetensors files and config.json.

`agents.qwen3vl` names its attributes after the published state dict, so a parameter's path is its tensor's
name but for the last word. Kernels are stored [in, out] here and [out, in] there.
"""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
from flax import nnx
from safetensors import safe_open
from safetensors.flax import save_file

from agents.qwen3vl import CHANNELS, Config, Qwen3VL, TextConfig, VisionConfig

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
_PATCH_KERNEL = ("visual", "patch_embed", "proj", "kernel")


def _flat(params: nnx.State | Qwen3VL) -> dict[tuple, nnx.Param]:
    state = nnx.state(params, nnx.Param) if isinstance(params, nnx.Module) else params
    return dict(nnx.to_flat_state(state))


def _name(path: tuple) -> str:
    *modules, leaf = (str(part) for part in path)
    name = ".".join([*modules, "bias" if leaf == "bias" else "weight"])
    return name if modules[0] == "lm_head" else f"model.{name}"


def hf_names(params: nnx.State | Qwen3VL) -> dict[tuple, str]:
    """Tensor name of every parameter path of a model or of its parameters."""
    return {path: _name(path) for path in _flat(params)}


def _hf_shape(path: tuple, shape: tuple[int, ...], vision: VisionConfig) -> tuple[int, ...]:
    if path == _PATCH_KERNEL:
        return (shape[1], CHANNELS, vision.temporal_patch, vision.patch, vision.patch)
    return shape[::-1] if path[-1] == "kernel" else shape


def to_hf(params: nnx.State | Qwen3VL, config: Config) -> dict[str, jax.Array]:
    """Tensors by Hugging Face name, in its layout."""
    tensors = {}
    for path, param in _flat(params).items():
        value = param[...]
        turned = value.T if path[-1] == "kernel" else value
        tensors[_name(path)] = turned.reshape(_hf_shape(path, value.shape, config.vision))
    return tensors


def from_hf(tensors: dict[str, jax.Array | np.ndarray], config: Config) -> Qwen3VL:
    """The model that holds these tensors, cast to `config.param_dtype`.

    Raises ValueError that names every missing, unexpected and mis-shaped tensor.
    """
    model = nnx.eval_shape(lambda: Qwen3VL(config, rngs=nnx.Rngs(0)))
    graphdef, state = nnx.split(model)
    flat = _flat(state)
    wanted = {_name(path): _hf_shape(path, param.shape, config.vision) for path, param in flat.items()}
    problems = [f"missing {name}" for name in sorted(wanted.keys() - tensors.keys())]
    problems += [f"unexpected {name}" for name in sorted(tensors.keys() - wanted.keys())]
    problems += [
        f"{name} has shape {tuple(tensors[name].shape)} instead of {shape}"
        for name, shape in wanted.items()
        if name in tensors and tuple(tensors[name].shape) != shape
    ]
    if problems:
        raise ValueError("tensors do not fit the configuration: " + "; ".join(problems))
    filled = []
    for path, param in flat.items():
        value = jax.numpy.asarray(tensors[_name(path)])
        if path[-1] == "kernel":
            value = value.reshape(value.shape[0], -1).T
        filled.append((path, param.replace(value.astype(config.param_dtype))))
    return nnx.merge(graphdef, nnx.from_flat_state(filled))


def save_pretrained(params: nnx.State | Qwen3VL, config: Config, directory: str | Path) -> None:
    """Writes model.safetensors and config.json, readable by `transformers` and `load_pretrained`.

    The directory is created. A tied output head is not written, as is usual.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    save_file(to_hf(params, config), directory / WEIGHTS_FILE, metadata={"format": "pt"})
    (directory / CONFIG_FILE).write_text(json.dumps(config_to_hf(config), indent=2) + "\n")


def load_pretrained(directory: str | Path, **overrides) -> tuple[Config, Qwen3VL]:
    """Configuration and model of a checkpoint directory (config.json and one or more *.safetensors files).

    `overrides` replace fields of the configuration, such as `dtype`, `param_dtype` and `remat`; the precision
    is that of config.json otherwise. Raises FileNotFoundError without the files and ValueError for what does
    not fit.
    """
    directory = Path(directory)
    hf_config = json.loads((directory / CONFIG_FILE).read_text())
    generation_file = directory / GENERATION_FILE
    generation = json.loads(generation_file.read_text()) if generation_file.exists() else {}
    config = dataclasses.replace(config_from_hf(hf_config, generation), **overrides)
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"no *.safetensors file in {directory}")
    tensors = {}
    for file in files:
        with safe_open(file, framework="flax") as opened:
            tensors.update({name: opened.get_tensor(name) for name in opened.keys()})  # noqa: SIM118
    if config.text.tie:
        # Some writers store the tied head a second time.
        tensors.pop("lm_head.weight", None)
    return config, from_hf(tensors, config)


def config_to_hf(config: Config) -> dict:
    """The content of config.json, in the layout that transformers 4.57 writes and 5.x reads too."""
    text, vision = config.text, config.vision
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "dtype": config.param_dtype,
        "image_token_id": config.image_token,
        "video_token_id": -1 if config.video_token is None else config.video_token,
        "vision_start_token_id": config.vision_start,
        "vision_end_token_id": config.vision_end,
        "tie_word_embeddings": text.tie,
        "text_config": {
            "model_type": "qwen3_vl_text",
            "dtype": config.param_dtype,
            "vocab_size": text.vocab,
            "hidden_size": text.hidden,
            "intermediate_size": text.mlp,
            "num_hidden_layers": text.layers,
            "num_attention_heads": text.heads,
            "num_key_value_heads": text.kv_heads,
            "head_dim": text.head_dim,
            "hidden_act": "silu",
            "attention_bias": False,
            "rms_norm_eps": text.rms_eps,
            "rope_theta": text.rope_theta,
            "rope_scaling": {
                "rope_type": "default",
                "mrope_interleaved": True,
                "mrope_section": list(text.mrope_section),
            },
            "max_position_embeddings": 262144,
            "tie_word_embeddings": text.tie,
            "pad_token_id": config.pad,
            "eos_token_id": config.eos,
        },
        "vision_config": {
            "model_type": "qwen3_vl",
            "depth": vision.depth,
            "hidden_size": vision.hidden,
            "intermediate_size": vision.mlp,
            "num_heads": vision.heads,
            "out_hidden_size": text.hidden,
            "patch_size": vision.patch,
            "temporal_patch_size": vision.temporal_patch,
            "spatial_merge_size": vision.merge,
            "num_position_embeddings": vision.positions,
            "deepstack_visual_indexes": list(vision.deepstack),
            "in_channels": CHANNELS,
            "hidden_act": "gelu_pytorch_tanh",
        },
    }


def _special(key: str, *sources: dict) -> int:
    """A token id from the first source that has it: the place differs between versions of transformers."""
    for source in sources:
        value = source.get(key)
        if value is not None:
            return value[0] if isinstance(value, list) else value
    raise ValueError(f"{key} is in neither {CONFIG_FILE} nor {GENERATION_FILE}")


def config_from_hf(hf: dict, generation: dict) -> Config:
    """Configuration from the content of config.json and generation_config.json (transformers 4.57 or 5.x).

    Raises ValueError for a variant of the architecture that `agents.qwen3vl` does not implement, KeyError for
    a missing entry.
    """
    text, vision = hf["text_config"], hf["vision_config"]
    # 5.x joins what 4.57 keeps in rope_theta and rope_scaling.
    rope = text["rope_parameters"] if "rope_parameters" in text else {**text, **text["rope_scaling"]}
    for found, expected, what in (
        (hf["model_type"], "qwen3_vl", "model_type"),
        (text["hidden_act"], "silu", "text hidden_act"),
        (text["attention_bias"], False, "attention_bias"),
        (rope.get("rope_type", "default"), "default", "rope_type"),
        (rope.get("mrope_interleaved", True), True, "mrope_interleaved"),
        (vision["hidden_act"], "gelu_pytorch_tanh", "vision hidden_act"),
        (vision["out_hidden_size"], text["hidden_size"], "vision out_hidden_size"),
        (vision.get("in_channels", CHANNELS), CHANNELS, "vision in_channels"),
    ):
        if found != expected:
            raise ValueError(f"{what} is {found!r}; only {expected!r} is implemented")
    pad, eos = (_special(key, text, hf, generation) for key in ("pad_token_id", "eos_token_id"))
    dtype = hf.get("dtype") or hf.get("torch_dtype") or text["dtype"]
    return Config(
        text=TextConfig(
            vocab=text["vocab_size"],
            hidden=text["hidden_size"],
            mlp=text["intermediate_size"],
            layers=text["num_hidden_layers"],
            heads=text["num_attention_heads"],
            kv_heads=text["num_key_value_heads"],
            head_dim=text["head_dim"],
            rope_theta=float(rope["rope_theta"]),
            mrope_section=tuple(rope["mrope_section"]),
            rms_eps=text["rms_norm_eps"],
            tie=hf["tie_word_embeddings"] if "tie_word_embeddings" in hf else text["tie_word_embeddings"],
        ),
        vision=VisionConfig(
            depth=vision["depth"],
            hidden=vision["hidden_size"],
            mlp=vision["intermediate_size"],
            heads=vision["num_heads"],
            deepstack=tuple(vision["deepstack_visual_indexes"]),
            patch=vision["patch_size"],
            temporal_patch=vision["temporal_patch_size"],
            merge=vision["spatial_merge_size"],
            positions=vision["num_position_embeddings"],
        ),
        image_token=hf["image_token_id"],
        vision_start=hf["vision_start_token_id"],
        vision_end=hf["vision_end_token_id"],
        video_token=None if hf["video_token_id"] == -1 else hf["video_token_id"],
        pad=pad,
        eos=eos,
        dtype=dtype,
        param_dtype=dtype,
    )
