"""Sketched gradients of many environments side by side against a loop over them: `python scripts/bench_conflict.py`.

The chunks are those of `python -m aes.conflict` (8 prompts of 160 tokens with a picture, 4 replies of 24 tokens each),
the policy is a fresh nano Qwen3-VL. Both ways run the same compiled function, on 1 or on `--at-once` chunks; compilation
is timed apart. Seconds are of the wall clock, the median of `--repeats`.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import jax
import numpy as np
import tyro

from aes.collect import shapes
from aes.conflict import Settings
from aes.sketch import gradients
from agents import grpo
from agents.prompts import Prompt
from experiments.configs import PRESETS
from experiments.setup import build


def chunk(
    rng: np.random.Generator, image_token: int, vocab: int, resolution: int, pictures: int
) -> grpo.Chunk:
    """Random prompts, replies and advantages in the stage's shape."""
    size = shapes(24)
    lead = np.full(pictures, image_token)
    prompts = [
        Prompt(
            np.concatenate([lead, rng.integers(10, vocab, size.buckets[1] - pictures)]).astype(np.int32),
            rng.integers(0, 256, (resolution, resolution, 3), np.uint8),
        )
        for _ in range(size.rows)
    ]
    count = size.rows * size.samples
    advantage = rng.normal(size=count).astype(np.float32)
    pairs = grpo.Pairs(
        prompt=np.repeat(np.arange(size.rows), size.samples), tokens=rng.integers(10, vocab, (count, 24)),
        mask=np.ones((count, 24), bool), sampler=np.zeros((count, 24), np.float32), gain=np.maximum(advantage, 0),
        loss=np.minimum(advantage, 0), count=np.ones(count, np.float32), gains=(advantage > 0).astype(np.float32),
        losses=(advantage < 0).astype(np.float32), live=np.ones(size.rows, bool), total_tokens=24.0 * count,
    )  # fmt: skip
    (made,) = grpo.chunks(prompts, pairs, size, pad=0)
    return made


def main(at_once: int = 8, environments: int = 32, repeats: int = 3) -> None:
    """Print a Markdown table.

    Args:
        at_once: environments side by side.
        environments: how many in all.
        repeats: of each measurement.
    """
    if environments % at_once:
        raise SystemExit(f"--environments ({environments}) must be a multiple of --at-once ({at_once})")
    setup, settings = build(PRESETS["nano"]), Settings()
    config, key = setup.policy.config, jax.random.key(0)
    rng = np.random.default_rng(0)
    resolution = setup.config.model.resolution
    pictures = setup.writer.tokens_per_picture
    made = [
        chunk(rng, config.image_token, config.text.vocab, resolution, pictures) for _ in range(environments)
    ]
    tokens = np.ones(environments, np.float32)

    def run(size: int) -> np.ndarray:
        out = []
        for low in range(0, environments, size):
            some = jax.tree.map(lambda *leaves: np.stack(leaves), *made[low : low + size])
            out.append(gradients(
                setup.policy, settings.grpo, setup.params, some, tokens[low : low + size], key, settings.sketch
            ))  # fmt: skip
        return np.concatenate([np.asarray(x) for x in out])

    print(
        f"jax {jax.__version__}, {jax.devices()[0].device_kind}, {environments} environments, one chunk each\n"
    )
    print("| way | seconds | compile, seconds | ratio |\n|---|---|---|---|")
    results, seconds = {}, {}
    for name, size in (("loop", 1), (f"vmap over {at_once}", at_once)):
        began = time.perf_counter()
        results[name] = run(size)
        first, times = time.perf_counter() - began, []
        for _ in range(repeats):
            began = time.perf_counter()
            run(size)
            times.append(time.perf_counter() - began)
        seconds[name] = statistics.median(times)
        ratio = seconds["loop"] / seconds[name]
        print(f"| {name} | {seconds[name]:.2f} | {max(first - seconds[name], 0):.1f} | {ratio:.2f} |")
    loop, side_by_side = results.values()
    error = np.abs(loop - side_by_side).max() / np.abs(loop).max()
    if error > 1e-3:
        raise SystemExit(f"the two ways differ by {error:.1e} of the largest number")
    print(f"\nlargest difference: {error:.1e} of the largest number")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
