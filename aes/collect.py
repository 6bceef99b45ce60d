"""Trajectories of two policies on every environment: `python -m aes.collect --help` (paper Section 3.1, Appendix C.1).

Writes into one folder `trajectories.jsonl`, one trajectory a line, and the pictures that were seen beside it. A stopped
run goes on where it stopped; the same settings give the same file, byte for byte.

A line: env, policy, instance, trajectory, seed, level, harness, turns, return, success, terminated, truncated; a turn:
picture (path relative to the folder; null in the symbolic modality), prompt, reply, action (empty if the reply could
not be read), valid, reward, state_changed, state (a hash of the state before the action, without the environment's
name).
"""

import dataclasses
import hashlib
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import Array
from PIL import Image
from tqdm import tqdm

import jaxenv
from aes.files import TRAJECTORIES, alone, append_lines, identity, load, read_lines, write_whole
from agents import hf, policy
from agents.policy import Generator, JaxGenerator, Params, Policy, Shapes
from agents.prompts import PromptWriter, image_tokens
from agents.rollout import instance_keys, read_reply
from agents.tokenizer import Tokenizer
from jaxenv import MixedBatch, codec
from jaxenv.batch import Group
from jaxenv.harness import LEVELS, Modality

SETTINGS = "collect.json"


@dataclass(frozen=True)
class Settings:
    """What is played; a folder holds trajectories of one `Settings`."""

    instances: int = 5  # per environment
    trajectories: int = 4  # per instance and policy
    seed: int = 2_000_000  # of the first instance; the next ones count up
    level: int | None = None  # None: each environment's eval_level
    harness: int = 4  # 0 (all four helping texts) .. 4 (none)
    resolution: int = 256  # of the pictures, in pixels
    modality: Modality = "picture"

    def __post_init__(self):
        for name in ("instances", "trajectories"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 <= self.harness < len(LEVELS):
            raise ValueError(f"harness must be 0..{len(LEVELS) - 1}, got {self.harness}")

    @property
    def count(self) -> int:
        """Trajectories of one environment and policy."""
        return self.instances * self.trajectories


@dataclass(frozen=True)
class Look:
    """What is before a player: M episodes of one environment that wait for a reply."""

    mixed: MixedBatch
    groups: list[Group]  # these episodes among others
    rows: np.ndarray  # i32[M]: where in `groups`
    prompts: list[str]
    pictures: np.ndarray | None  # u8[M, R, R, 3]
    bits: (
        np.ndarray
    )  # u32[M, 2]: key data from seed, environment, policy, instance, trajectory and turn alone
    key: Array  # of this turn of this environment and policy


class Player(Protocol):
    """Anything that writes replies: a policy in this process, a script, a server."""

    def __call__(self, look: Look) -> Sequence[str]:
        """M replies."""


def oracle(look: Look) -> Sequence[str]:
    """The environment's own `solve`."""
    replies = look.mixed.solve(look.groups)
    return [replies[row] for row in look.rows]


def random(look: Look) -> Sequence[str]:
    """Uniformly random well-formed answers."""
    answer = look.groups[0].batch.env.answer
    rngs = map(np.random.default_rng, look.bits)
    return [codec.write(answer, answer.random(rng)) for rng in rngs]


SCRIPTED: dict[str, Player] = {"oracle": oracle, "random": random}


def generator_player(generator: Generator, writer: PromptWriter) -> Player:
    """A policy. Episodes in equal states share one prompt, which is read once."""

    def play(look: Look) -> Sequence[str]:
        seen = [b"" if p is None else p.tobytes() for p in _pictures(look)]
        places: dict[tuple[str, bytes], list[int]] = {}
        for row, name in enumerate(zip(look.prompts, seen)):
            places.setdefault(name, []).append(row)
        prompts = [writer(look.prompts[rows[0]], _pictures(look)[rows[0]]) for rows in places.values()]
        samples = generator.generate(prompts, [len(rows) for rows in places.values()], look.key)
        replies = [""] * len(look.prompts)
        for rows, sample in zip(places.values(), samples):
            for row, tokens, mask in zip(rows, sample.tokens, sample.mask):
                replies[row] = read_reply(writer.tokenizer, tokens, mask)
        return replies

    return play


def _pictures(look: Look) -> Sequence[np.ndarray | None]:
    return [None] * len(look.prompts) if look.pictures is None else look.pictures


def load_policy(folder: Path, resolution: int) -> tuple[Policy, Params, PromptWriter]:
    """The policy of a folder in the Hugging Face layout (config.json, *.safetensors, tokenizer.json)."""
    tokenizer = Tokenizer(folder / "tokenizer.json")
    config, model = hf.load_pretrained(folder)
    unused = (tokenizer.id("<|im_start|>"), tokenizer.pad)
    held, params = policy.hold(config, model, unused)
    return (
        held,
        params,
        PromptWriter(tokenizer, image_tokens(resolution, config.vision.patch, config.vision.merge)),
    )


def shapes(reply_tokens: int) -> Shapes:
    """Of batches of any environments."""
    return Shapes(buckets=(96, 160, 320), replies=(reply_tokens,), rows=8, samples=4)


def load_player(folder: Path, resolution: int, reply_tokens: int, temperature: float = 1.0) -> Player:
    """The policy of a folder as a player."""
    held, params, writer = load_policy(folder, resolution)
    return generator_player(JaxGenerator(held, params, shapes(reply_tokens), temperature), writer)


def number(name: str) -> int:
    """A fixed number of a name, for keys."""
    return zlib.crc32(name.encode())


@partial(jax.jit, static_argnames=("instances", "trajectories"))
def _episode_keys(key: Array, instances: int, trajectories: int) -> Array:
    """Keys [instances * trajectories]; more of either leaves those there were as they are."""
    of = lambda i, t: jax.random.fold_in(jax.random.fold_in(key, i), t)  # noqa: E731
    rows, columns = jnp.arange(instances), jnp.arange(trajectories)
    return jax.vmap(lambda i: jax.vmap(lambda t: of(i, t))(columns))(rows).reshape(-1)


@jax.jit
def _turn_keys(keys: Array, turn: Array) -> tuple[Array, Array]:
    """Keys for the environment and key data for the player."""
    both = jax.vmap(lambda k: jax.random.split(jax.random.fold_in(k, turn)))(keys)
    return both[:, 0], jax.random.key_data(both[:, 1])


def play(
    mixed: MixedBatch, index: int, name: str, player: Player, settings: Settings, folder: Path
) -> list[dict]:
    """One environment's trajectories of one policy, all at once; pictures are written on the way."""
    env = mixed.batches[index].env
    unit = jax.random.fold_in(jax.random.fold_in(jax.random.key(settings.seed), number(env.id)), number(name))
    keys = _episode_keys(unit, settings.instances, settings.trajectories)
    instance = np.repeat(np.arange(settings.instances), settings.trajectories)
    seeds = (settings.seed + instance).astype(np.uint32)
    level = env.eval_level if settings.level is None else settings.level
    groups = mixed.start(np.full(settings.count, index), np.full(settings.count, level), instance_keys(seeds))
    shown = LEVELS[settings.harness]
    turns: list[list[dict]] = [[] for _ in range(settings.count)]
    gallery = _Gallery(folder, env.id)
    done, turn = np.zeros(settings.count, bool), 0
    before = _states(mixed, groups)
    while not done.all():
        active = np.flatnonzero(~done)
        env_keys, bits = _turn_keys(keys, jnp.int32(turn))
        # Finished episodes are drawn and asked for as well: one batch size, one compile.
        texts = mixed.prompts(groups, shown)
        prompts = [texts[row] for row in active]
        pictures = mixed.render(groups)[active] if mixed.modality == "picture" else None
        player_key = jax.random.fold_in(unit, turn)
        look = Look(mixed, groups, active, prompts, pictures, np.asarray(bits)[active], player_key)
        written = list(player(look))
        if len(written) != len(active):
            raise ValueError(f"policy {name} wrote {len(written)} replies to {len(active)} prompts")
        replies = [""] * settings.count
        for row, reply in zip(active, written):
            replies[row] = reply
        groups = mixed.step(env_keys, groups, replies)
        after = _states(mixed, groups)
        actions = mixed.batches[index].parse(written)
        valid, reward = (mixed.field(groups, f) for f in ("valid", "reward"))
        for k, row in enumerate(active.tolist()):
            turns[row].append({
                "picture": None if pictures is None else gallery.keep(pictures[k]),
                "prompt": prompts[k],
                "reply": written[k],
                "action": [] if actions[k][0] == codec.UNREADABLE else actions[k].tolist(),
                "valid": bool(valid[row]),
                "reward": _float(reward[row]),
                "state_changed": after[row] != before[row],
                "state": before[row],
            })  # fmt: skip
        done, before, turn = mixed.field(groups, "done"), after, turn + 1
    ret, success, terminated, truncated = (
        mixed.field(groups, f) for f in ("ret", "success", "terminated", "truncated")
    )
    return [
        {
            "env": env.id, "policy": name, "instance": int(instance[row]),
            "trajectory": row % settings.trajectories, "seed": int(seeds[row]), "level": int(level),
            "harness": settings.harness, "turns": turns[row], "return": _float(ret[row]),
            "success": bool(success[row]), "terminated": bool(terminated[row]), "truncated": bool(truncated[row]),
        }
        for row in range(settings.count)
    ]  # fmt: skip


def _float(value: np.float32) -> float:
    return round(float(value), 6)


def _states(mixed: MixedBatch, groups: list[Group]) -> list[str]:
    # What follows the zero byte is the state alone: no environment's name.
    states = (identity.partition(b"\0")[2] for identity in mixed.identities(groups))
    return [hashlib.sha256(state).hexdigest()[:16] for state in states]


class _Gallery:
    """Pictures of one environment, equal ones once, named by their content."""

    def __init__(self, folder: Path, env_id: str):
        self.root, self.directory, self.known = folder, folder / "pictures" / env_id, {}
        self.directory.mkdir(parents=True, exist_ok=True)

    def keep(self, picture: np.ndarray) -> str:
        """The path of a picture relative to the folder."""
        content = picture.tobytes()
        name = self.known.get(content)
        if name is None:
            file = self.directory / f"{hashlib.sha256(content).hexdigest()[:16]}.png"
            if not file.exists():
                encoded = io.BytesIO()
                Image.fromarray(picture).save(encoded, "PNG")
                aside = file.with_suffix(".part")
                aside.write_bytes(encoded.getvalue())
                aside.replace(file)
            name = self.known[content] = file.relative_to(self.root).as_posix()
        return name


def collect(
    folder: Path,
    envs: Sequence[str],
    players: Mapping[str, Player],
    settings: Settings = Settings(),
    progress: bool = False,
) -> list[dict]:
    """Play what is missing in `folder`; returns all trajectories asked for, environment by environment.

    Raises:
        ValueError: the folder holds trajectories of other settings. More environments and policies may be added.
        RuntimeError: another process collects into the folder.
    """
    with alone(folder, "collect"):
        _check_settings(folder, settings)
        file = folder / TRAJECTORIES
        found = {identity(row): row for row in read_lines(file)}
        mixed = MixedBatch(list(envs), settings.resolution, settings.modality)
        wanted = []
        units = [(index, env_id, name) for index, env_id in enumerate(envs) for name in players]
        with tqdm(total=len(units) * settings.count, unit="trajectory", disable=not progress) as bar:
            for index, env_id, name in units:
                ids = [
                    (env_id, name, i, t)
                    for i in range(settings.instances)
                    for t in range(settings.trajectories)
                ]
                bar.set_description(f"{env_id} {name}")
                missing = [i for i in ids if i not in found]
                if missing:
                    # A policy samples the whole unit together, so the whole is played again, the same as before.
                    rows = play(mixed, index, name, players[name], settings, folder)
                    fresh = [row for row in rows if identity(row) in set(missing)]
                    append_lines(file, fresh)
                    found |= {identity(row): row for row in fresh}
                wanted += [found[i] for i in ids]
                bar.update(settings.count)
    return wanted


def _check_settings(folder: Path, settings: Settings) -> None:
    file, new = folder / SETTINGS, dataclasses.asdict(settings)
    if not file.exists():
        write_whole(file, json.dumps(new, indent=2) + "\n")
        return
    old = json.loads(file.read_text())
    changed = [
        f"{k} was {old.get(k)}, is {new.get(k)}" for k in sorted(old | new) if old.get(k) != new.get(k)
    ]
    if changed:
        raise ValueError(f"{folder} holds trajectories of other settings: {'; '.join(changed)}")


def plan(
    folder: Path, envs: Sequence[str], policies: Sequence[str], settings: Settings, reply_tokens: int
) -> str:
    """What `collect` would cost, as a Markdown table."""
    there = {identity(row) for row in load(folder)}
    most = {e: jaxenv.make(e, settings.resolution).horizon for e in envs}
    lines = [
        "| policy | trajectories | of them to play | turns at most | reply tokens at most |",
        "|---|---|---|---|---|",
    ]
    for name in policies:
        ids = [
            (e, name, i, t)
            for e in envs
            for i in range(settings.instances)
            for t in range(settings.trajectories)
        ]
        missing = [i for i in ids if i not in there]
        turns = sum(most[i[0]] for i in missing)
        tokens = 0 if name in SCRIPTED else turns * reply_tokens
        lines.append(f"| {name} | {len(ids):,} | {len(missing):,} | {turns:,} | {tokens:,} |")
    return "\n".join(lines)


def read_policies(policies: Sequence[str]) -> dict[str, Path | None]:
    """Names of policies, with the folder of those that are models.

    Raises ValueError for what is neither `oracle`, `random`, a folder, nor `name=folder`, and for a name given twice.
    """
    named: dict[str, Path | None] = {}
    for one in policies:
        name, _, path = one.rpartition("=")
        name, folder = (one, None) if one in SCRIPTED else (name or Path(path).name, Path(path))
        if folder is not None and not (folder / "config.json").is_file():
            raise ValueError(f"policy {one!r} is neither oracle, random nor a model's folder ([name=]folder)")
        if name in named:
            raise ValueError(f"two policies are named {name!r}: write name=folder")
        named[name] = folder
    return named


def main(
    folder: tyro.conf.Positional[Path],
    envs: tuple[str, ...] = (),
    policies: tuple[str, ...] = ("random", "oracle"),
    settings: tyro.conf.OmitArgPrefixes[Settings] = Settings(),
    reply_tokens: int = 24,
    temperature: float = 1.0,
    plan_only: Annotated[bool, tyro.conf.arg(name="plan")] = False,
) -> None:
    """Collect trajectories.

    Args:
        folder: where to write, and to go on.
        envs: ids of environments; none: all.
        policies: the weaker first: `oracle`, `random`, or a model's folder in the Hugging Face layout, `name=folder`
            to name it.
        reply_tokens: longest reply of a model.
        temperature: of a model's sampling.
        plan_only: print what it would cost and do nothing.
    """
    ids = envs or tuple(jaxenv.ids())
    named = read_policies(policies)
    print(plan(folder, ids, list(named), settings, reply_tokens))
    if plan_only:
        return
    players = {
        name: SCRIPTED[name]
        if path is None
        else load_player(path, settings.resolution, reply_tokens, temperature)
        for name, path in named.items()
    }
    rows = collect(folder, ids, players, settings, progress=True)
    for name in named:
        won = [row["success"] for row in rows if row["policy"] == name]
        print(f"{name}: {len(won):,} trajectories, {100 * np.mean(won):.1f}% successful")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
