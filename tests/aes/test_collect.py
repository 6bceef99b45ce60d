"""Collecting: what a line holds, going on after a stop, the same bytes for the same settings."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest
import tyro
from flax import struct
from jax import Array
from PIL import Image

import jaxenv
from aes import collect
from aes.collect import SCRIPTED, Settings, generator_player, oracle
from aes.files import TRAJECTORIES, append_lines, identity, load, read_lines, write_lines
from agents.policy import Samples
from agents.prompts import PromptWriter
from agents.tokenizer import Tokenizer
from jaxenv import codec, registry, text
from jaxenv.core import Env, outcome

SMALL = Settings(instances=2, trajectories=2, resolution=64)


@struct.dataclass
class Place:
    at: Array  # i32[]
    goal: Array  # i32[]


class Corridor(Env[Place]):
    """Five cells in a row: walk to the goal. Compiles in no time."""

    category = "test"
    source = ("test",)
    horizon = 6
    question = "Walk to the goal."
    rules = "The walls stop you."
    answer = codec.Choice(("left", "right"))

    def reset(self, key, scale):
        import jax

        return Place(at=jnp.int32(2), goal=4 * jax.random.randint(key, (), 0, 2, jnp.int32))

    def step(self, key, state, action):
        moved = state.replace(at=jnp.clip(state.at + 2 * action[0] - 1, 0, 4))
        there = moved.at == moved.goal
        return moved, outcome(there.astype(jnp.float32), there)

    def solve(self, state):
        return (state.goal > state.at).astype(jnp.int32)[None]

    def render(self, state):
        column = jnp.arange(self.resolution, dtype=jnp.int32) * 5 // self.resolution
        row = jnp.where(column == state.at, 255, jnp.where(column == state.goal, 128, 0)).astype(jnp.uint8)
        return jnp.broadcast_to(row[None, :, None], (self.resolution, self.resolution, 3))

    def text_obs(self, state):
        return text.num(state.at, 1)

    text_state = text_hint = text_obs


class Once(Corridor):
    """One step of it."""

    horizon = 1
    question = "Which way?"

    def step(self, key, state, action):
        right = action == self.solve(state)
        return state, outcome(right[0].astype(jnp.float32), True)


@pytest.fixture(autouse=True, scope="module")
def environments():
    """Two environments, and one of them under a second name."""
    names = [jaxenv.register(Corridor(), "test_corridor"), jaxenv.register(Once(), "test_once")]
    yield names
    for name in names:
        del registry._registered[name]


BOTH = ("test_corridor", "test_once")


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collected")
    return folder, collect.collect(folder, BOTH, SCRIPTED, SMALL)


def test_what_a_line_holds(collected):
    folder, rows = collected
    assert rows == load(folder) and len(rows) == 2 * 2 * 4 == len({identity(row) for row in rows})
    assert [identity(row)[:2] for row in rows[::4]] == [(e, p) for e in BOTH for p in SCRIPTED]
    for row in rows:
        assert set(row) == {
            "env", "policy", "instance", "trajectory", "seed", "level", "harness", "turns", "return", "success",
            "terminated", "truncated",
        }  # fmt: skip
        turns = row["turns"]
        assert row["seed"] == SMALL.seed + row["instance"] and 1 <= len(turns) <= 6
        assert row["terminated"] != row["truncated"] and row["success"] == (row["return"] == 1)
        assert sum(turn["reward"] for turn in turns) == pytest.approx(row["return"])
        for turn, after in zip(turns, [*turns[1:], None]):
            assert set(turn) == {
                "picture", "prompt", "reply", "action", "valid", "reward", "state_changed", "state",
            }  # fmt: skip
            assert np.asarray(Image.open(folder / turn["picture"])).shape == (64, 64, 3)
            assert codec.extract(turn["reply"]) == ("left", "right")[turn["action"][0]] and turn["valid"]
            if after is not None:
                assert turn["state_changed"] == (turn["state"] != after["state"])
    by_policy = {p: [row["success"] for row in rows if row["policy"] == p] for p in SCRIPTED}
    assert all(by_policy["oracle"]) and not all(by_policy["random"])
    # One instance is one first state; the pictures of equal states are one file.
    first = {(row["env"], row["instance"]): row["turns"][0]["state"] for row in rows}
    assert all(row["turns"][0]["state"] == first[row["env"], row["instance"]] for row in rows)
    seen = {(row["env"], turn["state"], turn["picture"]) for row in rows for turn in row["turns"]}
    assert len(list(folder.glob("pictures/*/*.png"))) == len(seen)
    assert not list(folder.rglob("*.part"))


def test_the_same_settings_give_the_same_bytes_however_often_it_stops(collected, tmp_path):
    folder, _ = collected
    whole = (folder / TRAJECTORIES).read_bytes()
    stopped = iter(range(100))

    def fragile(look):
        if next(stopped) == 1:
            raise KeyboardInterrupt
        return oracle(look)

    with pytest.raises(KeyboardInterrupt):
        collect.collect(tmp_path, BOTH, {"oracle": fragile, "random": SCRIPTED["random"]}, SMALL)
    file = tmp_path / TRAJECTORIES
    file.write_bytes(whole[: len(whole) // 3])  # killed in the middle of a line
    collect.collect(tmp_path, BOTH, SCRIPTED, SMALL)
    assert file.read_bytes() == whole
    calls = []
    again = collect.collect(tmp_path, BOTH, {name: calls.append for name in SCRIPTED}, SMALL)
    assert not calls and again == load(folder)


def test_more_instances_keep_the_first_ones_and_other_settings_are_refused(collected, tmp_path):
    folder, rows = collected
    larger = dataclasses.replace(SMALL, trajectories=3)
    fresh = {identity(row): row for row in collect.collect(tmp_path, BOTH[:1], SCRIPTED, larger)}
    assert all(fresh[identity(row)] == row for row in rows if row["env"] == BOTH[0])
    with pytest.raises(ValueError, match="trajectories was 2, is 3"):
        collect.collect(folder, BOTH, SCRIPTED, larger)
    with pytest.raises(ValueError, match="instances must be positive"):
        Settings(instances=0)
    with collect.alone(folder, "collect"), pytest.raises(RuntimeError, match="another collect"):
        collect.collect(folder, BOTH, SCRIPTED, SMALL)


class Spelling:
    """A generator that always writes the same, in tokens; counts what it was asked."""

    at_once, version = 1, ""

    def __init__(self, tokenizer, reply):
        self.ids, self.asked = tokenizer.encode(reply), []

    def generate(self, prompts, counts, key):
        self.asked.append(list(counts))
        tokens = np.asarray(self.ids, np.int32)
        ones = np.ones(len(tokens), np.float32)
        return [Samples(*(np.stack([x] * n) for x in (tokens, ones, ones > 0))) for n in counts]


def test_a_model_plays_and_equal_prompts_are_read_once(tmp_path):
    tokenizer = Tokenizer()
    right = Spelling(tokenizer, "So <answer>right</answer>")
    mute = Spelling(tokenizer, "no")
    writer = PromptWriter(tokenizer, 64)
    players = {"right": generator_player(right, writer), "mute": generator_player(mute, writer)}
    rows = collect.collect(tmp_path, BOTH[1:], players, dataclasses.replace(SMALL, modality="symbolic"))
    assert {row["turns"][0]["reply"] for row in rows[:4]} == {"So <answer>right</answer>"}
    assert {row["turns"][0]["picture"] for row in rows} == {None} and "2" in rows[0]["turns"][0]["prompt"]
    assert sum(right.asked[0]) == 4 and len(right.asked[0]) <= 2
    for row in rows[4:]:
        (turn,) = row["turns"]
        assert turn["action"] == [] and not turn["valid"] and not turn["state_changed"] and row["truncated"]
    with pytest.raises(ValueError, match="short wrote 0 replies to 4"):
        collect.collect(
            tmp_path, BOTH[1:], {"short": lambda look: []}, dataclasses.replace(SMALL, modality="symbolic")
        )


def test_command_line_and_plan(collected, tmp_path, capsys):
    folder, _ = collected
    call = lambda *more: tyro.cli(collect.main, args=[*map(str, more)])  # noqa: E731
    small = ("--instances", 2, "--trajectories", 2, "--resolution", 64)
    call(tmp_path / "new", "--envs", *BOTH, *small, "--plan")
    assert "| random | 8 | 8 | 28 | 0 |" in capsys.readouterr().out and not (tmp_path / "new").exists()
    call(folder, "--envs", *BOTH, *small, "--policies", "oracle", "random")
    said = capsys.readouterr().out
    assert "| oracle | 8 | 0 | 0 | 0 |" in said and "oracle: 8 trajectories, 100.0% successful" in said
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    assert collect.read_policies(["oracle", f"base={model}", str(model)]) == {
        "oracle": None,
        "base": model,
        "model": model,
    }
    for wrong in (["idle"], [str(tmp_path)], [str(model), str(model)]):
        with pytest.raises(ValueError, match="polic"):
            collect.read_policies(wrong)
    table = collect.plan(tmp_path, BOTH, ["base"], Settings(), reply_tokens=10)
    assert "| base | 40 | 40 | 140 | 1,400 |" in table


@pytest.mark.slow
def test_a_checkpoint_in_the_hugging_face_layout(tmp_path):
    import small

    from agents import hf
    from agents.tokenizer import SHIPPED

    held = small.setup()
    hf.save_pretrained(held.params, held.policy.config, tmp_path / "tiny")
    (tmp_path / "tiny" / "tokenizer.json").write_bytes(SHIPPED.read_bytes())
    players = {"tiny": collect.load_player(tmp_path / "tiny", 64, 6)}
    rows = [collect.collect(tmp_path / name, BOTH, players, SMALL) for name in ("one", "two")]
    assert rows[0] == rows[1] and len(rows[0]) == 8


def test_lines_survive_a_torn_end(tmp_path):
    file = tmp_path / "lines.jsonl"
    assert read_lines(file) == []
    append_lines(file, [{"a": 1}, {"b": "ü\n"}])
    file.write_bytes(file.read_bytes() + b'{"c": "half')
    assert read_lines(file) == [{"a": 1}, {"b": "ü\n"}]
    append_lines(file, [{"d": 2}])
    assert read_lines(file) == [{"a": 1}, {"b": "ü\n"}, {"d": 2}]
    file.write_bytes(b'{"only": "half')
    append_lines(file, [{"d": 2}])
    assert file.read_text() == json.dumps({"d": 2}) + "\n"
    write_lines(file, [])
    assert read_lines(file) == []
