"""How fast every environment is, per second of one CPU core: `python scripts/bench.py` (`--quick`: roughly).

Everything runs on one core with one thread and is timed in CPU seconds, compilation apart. Pictures are
painted in batches of 64; instance + picture + prompt (with all texts) and steps run in batches of 256,
levels mixed. The table is printed and written to `--out`.
"""

import os
import sys
from pathlib import Path

# Before JAX starts its threads.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import inspect
import json
import math
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from tqdm import tqdm

import jaxenv
from jaxenv import EnvBatch, episode, harness

PAINT, WHOLE = 64, 256  # batch sizes

# Pictures per core-second at 64 and 224 px, batch 64. Instance + picture + prompt must reach a third of it.
FLOORS = {
    "tiles": (60_000, 7_000),
    "glyphs": (38_000, 4_500),
    "graph": (20_000, 3_000),
    "first person": (30_000, 6_000),
    "other": (25_000, 2_500),
}
STEP_FLOOR = 100_000  # steps per core-second without pictures, of multi-turn environments on tiles
COLUMNS = (
    "environment", "picture", "px", "paint /s", "x memset", "instance + picture + prompt /s", "steps /s",
    "step + paint /s", "fused / apart", "compile s, cold", "cached", "floors",
)  # fmt: skip


@dataclass(frozen=True)
class Config:
    envs: tuple[str, ...] = ()
    """Environment ids; none means all."""
    quick: bool = False
    """Short measurements, no warm compilation and no other libraries."""
    out: Path = Path("runs/bench.md")
    """Where the table goes."""
    warm: Path | None = None
    """Internal: only compile, with this compilation cache, and print the CPU seconds as JSON."""


def kind_of(env: jaxenv.Env) -> str:
    """The kind of picture, read off what the environment's file draws with."""
    source = inspect.getsource(sys.modules[type(env).__module__])
    if "first_person" in source:
        return "first person"
    if "planes." in source:
        return "graph"
    if "draw.tiles" not in source:
        return "other"
    return "glyphs" if ".text(" in source or "glyph(" in source else "tiles"


def floor_at(kind: str, resolution: int) -> float:
    """The floor between and beyond 64 and 224 px: a power of the side through the two."""
    small, large = FLOORS[kind]
    return small * (large / small) ** (math.log(resolution / 64) / math.log(224 / 64))


def cpu_seconds(function: Callable, least: float, repeats: int = 3) -> float:
    """Median CPU seconds of one call, waiting for its result; the first call is not counted."""

    def run(count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            jax.block_until_ready(function())
        return time.process_time() - start

    run(1)
    count = max(1, int(least / max(run(1), 1e-6)))
    return statistics.median(run(count) / count for _ in range(repeats))


def first(function: Callable) -> float:
    """CPU seconds of a first call: tracing, compilation (or loading) and one execution."""
    start = time.process_time()
    jax.block_until_ready(function())
    return time.process_time() - start


def resolutions(env_id: str) -> tuple[int, int]:
    """The picture sides at or above 64 and 224 px at which every level is legible."""
    needed = -(-max(jaxenv.make(env_id, 2048).min_resolution) // 8) * 8
    return max(64, needed), max(224, needed)


class Work:
    """One environment at one resolution with its inputs at hand."""

    def __init__(self, env_id: str, resolution: int):
        self.env = jaxenv.make(env_id, resolution)
        self.batch = EnvBatch(self.env)
        self.keys = jax.random.split(jax.random.key(0), WHOLE)
        self.levels = np.arange(WHOLE, dtype=np.int32) % self.env.num_levels

    def compile(self) -> float:
        """CPU seconds until everything has run once."""
        seconds = first(self.start)
        self.episodes = self.start()
        self.few = jax.tree.map(lambda x: x[:PAINT], self.episodes)
        seconds += first(self.paint) + first(self.prompt)
        self.actions = jax.block_until_ready(self.batch.solve(self.episodes))
        return seconds + first(self.step)

    def start(self):
        return self.batch.start(self.keys, self.levels)

    def paint(self):
        return self.batch.render(self.few)

    def prompt(self):
        return self.batch.prompt_bytes(self.episodes, harness.LEVELS[0])

    def step(self):
        return self.batch.step(self.keys, self.episodes, self.actions)

    def whole(self):
        episodes = self.start()
        return self.batch.render(episodes), self.batch.prompt_bytes(episodes, harness.LEVELS[0])

    def step_and_paint(self):
        return self.batch.render(self.batch.step(self.keys[:PAINT], self.few, self.actions[:PAINT]))

    def fused(self):
        return _fused(self.env, self.keys[:PAINT], self.few, self.actions[:PAINT])


@partial(jax.jit, static_argnames="env")
def _fused(env, keys, episodes, actions):
    def one(key, ep, action):
        ep = episode.advance(env, key, ep, action)
        return ep, env.render(ep.state)

    return jax.vmap(one)(keys, episodes, actions)


def fill_seconds(resolution: int, least: float) -> float:
    """CPU seconds to fill the pictures of one batch of 64 with one byte."""
    buffer = np.empty((PAINT, resolution, resolution, 3), np.uint8)
    return cpu_seconds(lambda: buffer.fill(7), least)


def measure(env_id: str, least: float) -> dict:
    """Everything about one environment, rates in 1 / CPU second."""
    small, large = resolutions(env_id)
    kind, row = kind_of(jaxenv.make(env_id, small)), {"env": env_id}
    work = Work(env_id, small)
    row |= {"kind": kind, "px": f"{small} / {large}", "cold": work.compile()}
    row["paint"] = [PAINT / cpu_seconds(work.paint, least)]
    row["whole"] = [WHOLE / cpu_seconds(work.whole, least)]
    row["step"] = WHOLE / cpu_seconds(work.step, least)
    apart, fused = cpu_seconds(work.step_and_paint, least), cpu_seconds(work.fused, least)
    row |= {"step_paint": PAINT / apart, "fused": apart / fused}
    work = Work(env_id, large)
    work.compile()
    paint = cpu_seconds(work.paint, least)
    row["memset"] = fill_seconds(large, least) / paint
    row["paint"].append(PAINT / paint)
    row["whole"].append(WHOLE / cpu_seconds(work.whole, least))
    floors = []
    for px, paint_rate, whole_rate in zip((small, large), row["paint"], row["whole"]):
        floor = floor_at(kind, px)
        floors += [(f"paint {px}", paint_rate, floor), (f"all {px}", whole_rate, floor / 3)]
    if work.env.horizon > 1 and kind == "tiles":
        floors.append(("steps", row["step"], STEP_FLOOR))
    row["missed"] = [name for name, rate, floor in floors if rate < floor]
    return row


def others(ids: list[str], least: float) -> list[str]:
    """Lines of the second table: the same work in Gymnasium and MiniGrid, one environment each, and here."""
    import gymnasium
    import minigrid  # noqa: F401  (registers its environments)
    from minigrid.wrappers import RGBImgPartialObsWrapper

    lake = gymnasium.make("FrozenLake-v1", render_mode="rgb_array")
    door = RGBImgPartialObsWrapper(gymnasium.make("MiniGrid-DoorKey-8x8-v0"), tile_size=32)
    lines = []
    for name, env, resolution, ours, render in (
        ("Gymnasium FrozenLake-v1, step and 256 px picture", lake, 256, "frozen_lake", True),
        ("MiniGrid DoorKey-8x8, step and 224 px picture", door, 224, "door_key", False),
    ):
        env.reset(seed=0)
        env.action_space.seed(0)

        def once(env=env, render=render):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if render:
                env.render()
            if terminated or truncated:
                env.reset()

        theirs = 1 / cpu_seconds(once, least)
        if ours not in ids:
            ours = "frozen_lake"
        work = Work(ours, resolution)
        work.compile()
        rate = PAINT / cpu_seconds(work.step_and_paint, least)
        lines.append(
            f"| {name} | {theirs:,.0f} | {ours} {resolution} px | {rate:,.0f} | {rate / theirs:,.0f} |"
        )
    return lines


def report(config: Config) -> str:
    known, least = jaxenv.ids(), 0.05 if config.quick else 0.1
    ids = list(config.envs or known)
    with tempfile.TemporaryDirectory() as cache:
        use_cache(Path(cache))
        rows = [measure(i, least) for i in tqdm(ids)]
        warm = {}
        if not config.quick:
            # A new process: nothing but the compilation cache is warm.
            command = [sys.executable, __file__, "--warm", cache, "--envs", *ids]
            warm = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        compared = [] if config.quick else others(known, least)
    lines = [
        f"jax {jax.__version__}, Python {platform.python_version()}, {platform.machine()}, one core.",
        f"Rates are per CPU second, pictures painted in batches of {PAINT}, the rest in batches of {WHOLE}.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
    ]
    for r in rows:
        cells = [r["env"], r["kind"], r["px"]]
        cells += [" / ".join(f"{x:,.0f}" for x in r["paint"]), f"{r['memset']:.3f}"]
        cells += [" / ".join(f"{x:,.0f}" for x in r["whole"])]
        cells += [f"{r['step']:,.0f}", f"{r['step_paint']:,.0f}", f"{r['fused']:.2f}", f"{r['cold']:.1f}"]
        cells += [f"{warm[r['env']]:.1f}" if warm else "-"]
        cells += [f"not met: {', '.join(r['missed'])}" if r["missed"] else "met"]
        lines.append("| " + " | ".join(cells) + " |")
    floors = ", ".join(f"{kind} {a:,} / {b:,}" for kind, (a, b) in FLOORS.items())
    lines += [
        "",
        f"Floors: paint /s at 64 / 224 px {floors}, other sides on the power law through the two; instance + "
        f"picture + prompt a third of that; {STEP_FLOOR:,} steps /s on multi-turn tiles. x memset: time to "
        "fill the same buffer (at the larger side) over time to paint it. fused / apart: speed of step and "
        "paint compiled as one program over that of two, at the smaller side.",
    ]
    if compared:
        head = ["", "| elsewhere | /s | here | /s | ratio |", "|---|---|---|---|---|"]
        lines += head + compared
    return "\n".join(lines) + "\n"


def use_cache(directory: Path) -> None:
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def main(config: Config) -> None:
    if config.warm is not None:
        use_cache(config.warm)
        jax.block_until_ready(jnp.zeros(1) + 1)  # the backend is up before the clock runs
        print(json.dumps({i: Work(i, resolutions(i)[0]).compile() for i in config.envs}))
        return
    table = report(config)
    print(table)
    config.out.parent.mkdir(parents=True, exist_ok=True)
    config.out.write_text(table)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
