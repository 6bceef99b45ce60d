"""The folder that servers read: a model in the Hugging Face layout whose weights are replaced after every update."""

import contextlib
import json
import os
import shutil
from pathlib import Path

from safetensors import SafetensorError
from safetensors.flax import save_file

from agents import hf
from agents.policy import Params
from agents.qwen3vl import Config
from agents.tokenizer import SHIPPED

PREPROCESSOR_FILE = "preprocessor_config.json"
VIDEO_FILE = "video_preprocessor_config.json"
TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"


class ExportFailed(OSError):
    """The weights could not be written; what was there before is untouched."""


def write_weights(params: Params, config: Config, folder: Path) -> Path:
    """Replace the folder's model.safetensors, whole or not at all; returns its absolute path.

    Written aside, flushed to disk and renamed: a server that reads meanwhile, or a machine that stops, sees the old
    file or the new one. Raises ExportFailed if the disk is full or the folder cannot be written.
    """
    file = folder.absolute() / hf.WEIGHTS_FILE
    aside = file.with_name(file.name + ".part")
    try:
        save_file(hf.to_hf(params, config), aside, metadata={"format": "pt"})
        _flush(aside)
        aside.replace(file)
        _flush(file.parent)
    except (OSError, SafetensorError) as error:
        # Why it cannot be removed is why it could not be written.
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise ExportFailed(f"the weights could not be written to {file}: {error}") from error
    return file


def _flush(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_folder(folder: Path, config: Config, resolution: int, source: Path | None = None) -> None:
    """Everything of a model folder but the weights.

    Args:
        resolution: of the pictures, in pixels; a fresh model's preprocessor keeps them as they are.
        source: the published model that is trained: its files are copied. None: a fresh model with the shipped
            tokenizer, whose files are written here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if source is not None:
        for file in sorted(source.iterdir()):
            if (
                file.is_file()
                and ".safetensors" not in file.name
                and file.suffix not in (".bin", ".pt", ".pth")
            ):
                shutil.copyfile(file, folder / file.name)
        return
    vision = config.vision
    pixels = {"shortest_edge": vision.patch * vision.merge, "longest_edge": resolution}
    preprocessor = {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
        "size": {name: side**2 for name, side in pixels.items()},  # both are areas in this layout
        "patch_size": vision.patch,
        "temporal_patch_size": vision.temporal_patch,
        "merge_size": vision.merge,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    video = {
        **preprocessor,
        "video_processor_type": "Qwen3VLVideoProcessor",
        "size": {"shortest_edge": pixels["shortest_edge"] ** 2, "longest_edge": resolution**2 * 4},
    }
    del video["image_processor_type"]
    tokens = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "processor_class": "Qwen3VLProcessor",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_bos_token": "<|vision_start|>",
        "vision_eos_token": "<|vision_end|>",
    }
    contents = {
        hf.CONFIG_FILE: hf.config_to_hf(config),
        PREPROCESSOR_FILE: preprocessor,
        VIDEO_FILE: video,
        TOKENIZER_CONFIG_FILE: tokens,
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    shutil.copyfile(SHIPPED, folder / TOKENIZER_FILE)
