"""Batches: mixed ones equal the single ones row by row, in order, and padding and chunks do not show."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from jax import Array

import jaxenv
from jaxenv import EnvBatch, MixedBatch, batch, codec, draw, harness, text
from jaxenv.codec import UNREADABLE, Choice
from jaxenv.core import Env, outcome


def paint(side):
    shades = np.arange(4, dtype=np.uint8)[:, None, None, None] * 80
    return np.broadcast_to(shades, (4, side, side, 3)).copy()


@struct.dataclass
class State:
    cells: Array  # i32[2, 2]
    weight: Array  # f32[]
    seen: Array  # bool[]


class Shades(Env[State]):
    """A cheap second environment: name the number of the top left shade; three steps."""

    id = "shades_of_the_tests"
    category, source = "tests", ("tests",)
    horizon = 3
    question, rules = "Which shade?", "Any right answer ends it."
    answer = Choice(("zero", "one", "two", "three"))
    levels = {"kinds": ((2, 2), (4, 4))}
    min_resolution = (32, 32)

    def reset(self, key, scale):
        cells = jax.random.randint(key, (2, 2), 0, scale["kinds"], jnp.int32)
        return State(cells, jax.random.uniform(key), jnp.bool_(False))

    def step(self, key, state, action):
        right = action[0] == state.cells[0, 0]
        return state.replace(seen=jnp.bool_(True)), outcome(right, right)

    def solve(self, state):
        return state.cells[0, :1]

    def render(self, state):
        return draw.tiles(draw.sheet(self.resolution, (2,), paint), state.cells, 2, 2)

    def text_obs(self, state):
        return text.table(state.cells, "0123", 2, 2)

    def text_state(self, state):
        return text.join(text.lit("weight "), text.num((state.weight * 1000).astype(jnp.int32), 3))

    def text_hint(self, state):
        return text.lit("Look at the top left.")


@pytest.fixture(scope="module")
def envs():
    shades = Shades()
    shades.resolution = 64
    return [jaxenv.make("frozen_lake", 64), shades]


INDEX = [1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0]  # 4 lakes and 8 shades
LEVEL = [0, 3, 1, 1, 0, 0, 6, 1, 0, 0, 1, 2]


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(0), len(INDEX))


def singles(envs, keys):
    """The same episodes as batches of one environment each, with the rows they belong to."""
    for index, env in enumerate(envs):
        rows = np.flatnonzero(np.asarray(INDEX) == index)
        one = EnvBatch(env)
        yield rows, one, one.start(keys[rows], np.asarray(LEVEL)[rows])


def test_mixed_equals_single_row_by_row(envs, keys):
    mixed = MixedBatch(envs)
    groups = mixed.start(INDEX, LEVEL, keys)
    shown = harness.LEVELS[np.arange(len(INDEX)) % 5]
    replies = mixed.solve(groups)
    replies[3], replies[4] = "no answer", "<answer>sideways</answer>"
    step_keys = jax.random.split(jax.random.key(1), len(INDEX))
    moved = mixed.step(step_keys, groups, replies)
    pictures, prompts, identities = (
        mixed.render(groups),
        mixed.prompts(groups, shown),
        mixed.identities(groups),
    )
    assert pictures.shape == (len(INDEX), 64, 64, 3) and pictures.dtype == np.uint8
    for rows, one, episodes in singles(envs, keys):
        np.testing.assert_array_equal(pictures[rows], one.render(episodes))
        assert [prompts[r] for r in rows] == one.prompts(episodes, shown[rows])
        after = one.step(step_keys[rows], episodes, one.parse([replies[r] for r in rows]))
        for name in ("t", "done", "terminated", "truncated", "valid", "reward", "ret", "success", "limit"):
            np.testing.assert_array_equal(mixed.field(moved, name)[rows], getattr(after, name))
        np.testing.assert_array_equal(mixed.render(moved)[rows], one.render(after))
        expected = [one.env.id.encode() + b"\0" + row.tobytes() for row in one.identities(episodes)]
        assert [identities[r] for r in rows] == expected
    assert mixed.field(moved, "valid").tolist() == [r not in (3, 4) for r in range(len(INDEX))]
    assert (mixed.field(moved, "success") == (np.asarray(INDEX) == 1) & mixed.field(moved, "valid"))[
        [0, 2, 3, 5]
    ].all()


def test_mixed_accepts_one_harness_for_all(envs, keys):
    mixed = MixedBatch(envs)
    groups = mixed.start(INDEX, LEVEL, keys)
    h2 = harness.LEVELS[2]
    assert mixed.prompts(groups, h2) == mixed.prompts(groups, np.tile(h2, (len(INDEX), 1)))


def test_selected_rows(envs, keys):
    mixed = MixedBatch(envs)
    groups = mixed.start(INDEX, LEVEL, keys)
    rows = np.asarray([11, 0, 4, 7, 2])
    chosen = mixed.select(groups, rows)
    np.testing.assert_array_equal(mixed.render(chosen), mixed.render(groups)[rows])
    assert mixed.solve(chosen) == [mixed.solve(groups)[r] for r in rows]
    assert mixed.ids == ["frozen_lake", "shades_of_the_tests"]


@pytest.mark.parametrize("index", [[0], [1], [1, 0]])
def test_few_rows(envs, keys, index):
    mixed = MixedBatch(envs)
    level = [0] * len(index)
    groups = mixed.start(index, level, keys[: len(index)])
    assert (
        mixed.render(groups).shape[0]
        == len(mixed.solve(groups))
        == len(mixed.identities(groups))
        == len(index)
    )
    assert len(mixed.prompts(groups, harness.LEVELS[0])) == len(index)


def test_padding_repeats_a_row_and_stays_hidden(envs, keys):
    mixed = MixedBatch(envs)
    (group,) = mixed.start([1, 1, 1], [1, 1, 1], keys[:3])
    assert group.episodes.t.shape == (64,) and len(group.rows) == 3
    padding = jax.tree.map(lambda x: np.asarray(x)[3:], group.episodes.state)
    jax.tree.map(
        lambda x, y: np.testing.assert_array_equal(x, np.broadcast_to(y[2], x.shape)),
        padding,
        group.episodes.state,
    )
    assert mixed.field([group], "ret").shape == (3,)


def test_padded_sizes():
    sizes = [batch.padded_size(n) for n in (1, 16, 17, 64, 65, 256, 257, 513)]
    assert sizes == [64, 64, 64, 64, 256, 256, 512, 768]


def test_mixed_refuses(envs, keys):
    mixed = MixedBatch(envs)
    with pytest.raises(ValueError, match=r"frozen_lake has levels 0..6 at 64 px, not 7"):
        mixed.start([1, 0], [0, 7], keys[:2])
    for index in ([2], [-1], []):
        with pytest.raises(ValueError, match=r"indices are 0..1"):
            mixed.start(index, [0] * len(index), keys[: len(index)])
    with pytest.raises(ValueError, match="one resolution"):
        MixedBatch([envs[1], jaxenv.make("frozen_lake", 128)])
    with pytest.raises(ValueError, match="modality is one of"):
        EnvBatch(envs[1], modality="sound")
    with pytest.raises(ValueError, match="unknown environment"):
        MixedBatch(["frozen_lakes"])


@pytest.mark.parametrize("count", [5, 6, 7, 12])
def test_chunked_rendering(envs, keys, count, monkeypatch):
    one = EnvBatch(envs[1])
    episodes = one.start(keys[:count], jnp.ones(count, jnp.int32))
    whole = one.render(episodes)
    monkeypatch.setattr(batch, "CHUNK_BYTES", 5 * 64 * 64 * 3 + 17)  # chunks of 5
    chunked = one.render(episodes)
    assert chunked.shape == whole.shape == (count, 64, 64, 3)
    np.testing.assert_array_equal(chunked, whole)
    monkeypatch.setattr(batch, "CHUNK_BYTES", 1)  # less than one picture: still one at a time
    np.testing.assert_array_equal(one.render(episodes), whole)


def test_identities(envs, keys):
    one = EnvBatch(envs[1])
    same = keys[jnp.asarray([0, 1, 0, 2])]
    episodes = one.start(same, jnp.ones(4, jnp.int32))
    rows = one.identities(episodes)
    assert rows.dtype == np.uint8 and rows.shape == (4, 4 * 4 + 4 + 1)
    assert [[(a == b).all() for b in rows] for a in rows] == np.equal.outer(
        [0, 1, 0, 2], [0, 1, 0, 2]
    ).tolist()
    for change in (
        lambda s: s.replace(seen=~s.seen),
        lambda s: s.replace(weight=s.weight + 1e-6),
        lambda s: s.replace(cells=s.cells.at[:, 1, 1].add(1)),
    ):
        other = one.identities(episodes.replace(state=change(episodes.state)))
        assert (other != rows).any(axis=1).all()


def test_env_batch(envs, keys):
    one = EnvBatch(envs[1])
    episodes = one.start(keys[:4], jnp.ones(4, jnp.int32))
    actions = one.solve(episodes)
    assert actions.shape == (4, 1) and one.format(actions) == [
        codec.write(one.env.answer, a) for a in np.asarray(actions)
    ]
    parsed = one.parse([*one.format(actions)[:3], "?"])
    np.testing.assert_array_equal(parsed[:3], actions[:3])
    assert (parsed[3] == UNREADABLE).all()
    assert one.prompt_bytes(episodes, harness.LEVELS[0]).shape[0] == 4
    symbolic = EnvBatch(envs[1], modality="symbolic").prompts(episodes, harness.LEVELS[4])
    assert all("Observation:\n" in p and "Rules: " not in p for p in symbolic)
    assert "Observation:\n" not in one.prompts(episodes, harness.LEVELS[4])[0]
    assert EnvBatch("frozen_lake", 64).env is envs[0]


def test_compiled_once_per_size(envs, keys):
    one = EnvBatch(envs[1])
    one.start(keys[:4], jnp.zeros(4, jnp.int32))
    before = batch._start._cache_size()
    EnvBatch(envs[1]).start(keys[4:8], jnp.ones(4, jnp.int32))
    assert batch._start._cache_size() == before
