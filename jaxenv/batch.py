"""Batches of environments: what users import. All of it is compiled once per environment and batch size."""

from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import codec, episode, harness, text
from jaxenv.core import Env, where
from jaxenv.episode import Episode
from jaxenv.registry import make

CHUNK_BYTES = 16 * 2**20  # pictures painted at a time: larger buffers are page-faulted anew on every call


@partial(jax.jit, static_argnames="env")
def _start(env: Env, keys: Array, levels: Array) -> Episode:
    return jax.vmap(partial(episode.start, env))(keys, levels)


@partial(jax.jit, static_argnames="env")
def _edit(env: Env, episodes: Episode, edits: Array) -> Episode:
    def edited(state, seeds):
        def apply(state, seed):
            return where(seed != 0, env.edit(jax.random.key(seed), state), state), None

        return episode.begin(env, jax.lax.scan(apply, state, seeds)[0])

    return jax.vmap(edited)(episodes.state, edits)


@partial(jax.jit, static_argnames="env")
def _advance(env: Env, keys: Array, episodes: Episode, actions: Array) -> Episode:
    return jax.vmap(partial(episode.advance, env))(keys, episodes, actions)


@partial(jax.jit, static_argnames="env")
def _render(env: Env, state: Any) -> Array:
    return jax.vmap(env.render)(state)


@partial(jax.jit, static_argnames=("env", "modality"))
def _prompt(env: Env, state: Any, shown: Array, modality: harness.Modality) -> Array:
    return jax.vmap(lambda s, f: harness.prompt(env, s, f, modality))(state, shown)


@partial(jax.jit, static_argnames="env")
def _solve(env: Env, state: Any) -> Array:
    return jax.vmap(env.solve)(state)


class EnvBatch:
    """Many episodes of one environment, batched along the leading axis.

        batch = EnvBatch(jaxenv.make("frozen_lake", resolution=224))
        episodes = batch.start(jax.random.split(key, 64), jnp.full(64, 2))
        pictures, prompts = batch.render(episodes), batch.prompts(episodes, harness.flags(4))
        episodes = batch.step(keys, episodes, batch.parse(replies))

    All methods are pure; device methods are compiled on first use per batch size. An `Env` keeps the
    resolution it was made with; `resolution` is for ids.
    """

    def __init__(self, env: Env | str, resolution: int = 256, modality: harness.Modality = "picture"):
        self.env = make(env, resolution) if isinstance(env, str) else env
        if modality not in get_args(harness.Modality):
            raise ValueError(f"modality is one of {get_args(harness.Modality)}, not {modality!r}")
        self.modality: harness.Modality = modality

    def start(self, keys: Array, levels: Array) -> Episode:
        """Fresh episodes from keys [B] at levels i32[B]."""
        return _start(self.env, keys, jnp.asarray(levels, jnp.int32))

    def edit(self, episodes: Episode, edits: Array) -> Episode:
        """Fresh episodes of these instances after edits u32[B, D], in order: one seed each, 0 for none."""
        return _edit(self.env, episodes, jnp.asarray(edits, jnp.uint32))

    def step(self, keys: Array, episodes: Episode, actions: Array) -> Episode:
        """One action i32[B, L] each; finished episodes stay as they are."""
        return _advance(self.env, keys, episodes, jnp.asarray(actions, jnp.int32))

    def solve(self, episodes: Episode) -> Array:
        """i32[B, L]: the oracle's answers or next moves."""
        return _solve(self.env, episodes.state)

    def render(self, episodes: Episode) -> Array:
        """u8[B, R, R, 3], painted in chunks of at most 16 MB."""
        count, size = episodes.t.shape[0], self.env.resolution
        chunk = max(1, CHUNK_BYTES // (size * size * 3))
        if count <= chunk:
            return _render(self.env, episodes.state)
        pieces = []
        for low in range(0, count, chunk):
            # The last chunk is padded: one shape, one compile.
            rows = np.minimum(np.arange(low, low + chunk), count - 1)
            piece = _render(self.env, _take(episodes, rows).state)
            pieces.append(piece[: count - low])
        return jnp.concatenate(pieces)

    def prompt_bytes(self, episodes: Episode, shown: Array) -> Array:
        """u8[B, P] for harness parts bool[4] or bool[B, 4] (see `harness.flags`)."""
        shown = jnp.broadcast_to(jnp.asarray(shown), (episodes.t.shape[0], 4))
        return _prompt(self.env, episodes.state, shown, self.modality)

    def prompts(self, episodes: Episode, shown: Array) -> list[str]:
        """The prompts as Python strings."""
        return text.decode(self.prompt_bytes(episodes, shown))

    def parse(self, replies: Sequence[str]) -> np.ndarray:
        """i32[B, L] from whole replies; malformed ones become invalid actions."""
        return np.stack([codec.read(self.env.answer, r) for r in replies])

    def format(self, actions: Array) -> list[str]:
        """Whole replies that `parse` reads as these actions."""
        return [codec.write(self.env.answer, a) for a in np.asarray(actions)]

    def identities(self, episodes: Episode) -> np.ndarray:
        """u8[B, bytes]: the state's own bytes; two rows are equal exactly if the states are."""
        leaves = [np.ascontiguousarray(x) for x in jax.tree.leaves(episodes.state)]
        return np.concatenate([x.reshape(len(x), -1).view(np.uint8) for x in leaves], axis=1)


@jax.jit
def _take(episodes: Episode, rows: Array) -> Episode:
    return jax.tree.map(lambda x: x[rows], episodes)


def padded_size(count: int) -> int:
    """The smallest of 64, 256 and its multiples that holds `count`: few sizes, few compiles."""
    return 64 if count <= 64 else -(-count // 256) * 256


class Group:
    """The rows of a mixed batch that belong to one environment."""

    def __init__(self, batch: EnvBatch, rows: np.ndarray, episodes: Episode):
        self.batch, self.rows, self.episodes = batch, rows, episodes  # episodes are padded beyond len(rows)


class MixedBatch:
    """Episodes of many environments in one batch, grouped by environment on the host.

    Each environment runs its own compiled functions on its own rows, padded to one of a few sizes; results
    come back in the order of the batch.

        mixed = MixedBatch(["frozen_lake", "rotate_matrix"], resolution=64)
        groups = mixed.start(env=[0, 1, 1], level=[0, 0, 2], keys=jax.random.split(key, 3))
        pictures, prompts = mixed.render(groups), mixed.prompts(groups, harness.flags(jnp.array([0, 4, 4])))
        groups = mixed.step(keys, groups, replies)
    """

    def __init__(
        self, envs: Sequence[Env | str], resolution: int = 256, modality: harness.Modality = "picture"
    ):
        self.batches = [EnvBatch(e, resolution, modality) for e in envs]
        sizes = {b.env.resolution for b in self.batches}
        if len(sizes) != 1:
            raise ValueError(f"environments of one mixed batch draw at one resolution, not {sorted(sizes)}")
        self.resolution = sizes.pop()
        self.modality: harness.Modality = modality

    @property
    def ids(self) -> list[str]:
        return [b.env.id for b in self.batches]

    def start(
        self, env: np.ndarray, level: np.ndarray, keys: Array, edits: np.ndarray | None = None
    ) -> list[Group]:
        """Fresh episodes: environment indices i32[B], levels i32[B], keys [B].

        Args:
            edits: u32[B, D] seeds of edits made to each instance, in order, 0 for none (see `Env.edit`).

        Raises:
            ValueError: an index or a level that does not exist, or no row at all.
            NotImplementedError: edits of an environment that cannot be edited.
        """
        env, level = np.asarray(env), np.asarray(level)
        if not env.size or env.min() < 0 or env.max() >= len(self.batches):
            raise ValueError(f"environment indices are 0..{len(self.batches) - 1}, one or more, not {env}")
        last = np.asarray([b.env.num_levels - 1 for b in self.batches])[env]
        for k in np.flatnonzero((level < 0) | (level > last))[:1]:
            found = f"levels 0..{last[k]} at {self.resolution} px"
            raise ValueError(f"{self.ids[env[k]]} has {found}, not {level[k]}")
        groups = []
        for index in np.unique(env):
            rows = np.flatnonzero(env == index)
            pad = _pad(rows)
            episodes = self.batches[index].start(keys[pad], level[pad])
            if edits is not None and np.any(np.asarray(edits)[rows]):
                episodes = self.batches[index].edit(episodes, np.asarray(edits)[pad])
            groups.append(Group(self.batches[index], rows, episodes))
        return groups

    def select(self, groups: list[Group], rows: np.ndarray) -> list[Group]:
        """Some rows of the batch, in the given order, as a batch of their own."""
        rows = np.asarray(rows)
        selected = []
        for g in groups:
            place = {row: k for k, row in enumerate(g.rows.tolist())}
            chosen = np.flatnonzero(np.isin(rows, g.rows))
            if len(chosen):
                within = np.asarray([place[r] for r in rows[chosen].tolist()])
                pad = within[_pad(np.arange(len(within)))]
                selected.append(Group(g.batch, chosen, _take(g.episodes, pad)))
        return selected

    def step(self, keys: Array, groups: list[Group], replies: Sequence[str]) -> list[Group]:
        """Every episode advances by the reply of its row; keys [B]."""
        moved = []
        for g in groups:
            pad = _pad(g.rows)
            actions = g.batch.parse([replies[r] for r in g.rows])
            actions = actions[np.minimum(np.arange(len(pad)), len(g.rows) - 1)]
            moved.append(Group(g.batch, g.rows, g.batch.step(keys[pad], g.episodes, actions)))
        return moved

    def render(self, groups: list[Group]) -> np.ndarray:
        """u8[B, R, R, 3] on the host."""
        return self._gather(groups, lambda g: np.asarray(g.batch.render(g.episodes)))

    def prompts(self, groups: list[Group], shown: np.ndarray) -> list[str]:
        """Prompts for harness parts bool[4] or bool[B, 4]."""
        shown = np.broadcast_to(np.asarray(shown), (sum(len(g.rows) for g in groups), 4))

        def of(g: Group):
            return np.asarray(g.batch.prompts(g.episodes, shown[_pad(g.rows)]), object)

        return self._gather(groups, of).tolist()

    def solve(self, groups: list[Group]) -> list[str]:
        """The oracle's replies."""

        def of(g: Group):
            return np.asarray(g.batch.format(g.batch.solve(g.episodes)), object)

        return self._gather(groups, of).tolist()

    def field(self, groups: list[Group], name: str) -> np.ndarray:
        """One field of the episodes (`done`, `ret`, `valid`, `success`, ...) in the order of rows."""
        return self._gather(groups, lambda g: np.asarray(getattr(g.episodes, name)))

    def identities(self, groups: list[Group]) -> list[bytes]:
        """One bytes object per row; equal exactly for equal states of the same environment."""

        def of(g: Group):
            prefix = g.batch.env.id.encode() + b"\0"
            return np.asarray([prefix + row.tobytes() for row in g.batch.identities(g.episodes)], object)

        return self._gather(groups, of).tolist()

    @staticmethod
    def _gather(groups: list[Group], function) -> np.ndarray:
        total = sum(len(g.rows) for g in groups)
        out = None
        for g in groups:
            values = function(g)[: len(g.rows)]
            if out is None:
                out = np.empty((total, *values.shape[1:]), values.dtype)
            out[g.rows] = values
        return out


def _pad(rows: np.ndarray) -> np.ndarray:
    """Row numbers repeated up to the padded size; padding repeats the last row."""
    return rows[np.minimum(np.arange(padded_size(len(rows))), len(rows) - 1)]
