"""The contract between learner and server, against a fake one that serves the tiny policy through this process's sampler.

A real server takes part when JAXENV_SERVER_URL names one that was started on the folder that
`PYTHONPATH=. python tests/test_serving.py FOLDER` writes (docs/serving.md has the command).
"""

import dataclasses
import logging
import os
import resource
import sys
import threading
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest
from fake_server import CACHES, FakeServer, HashEngine, JaxEngine
from safetensors.numpy import load_file, save_file
from small import SHAPES, narrow, setup

from agents import rollout
from agents.policy import JaxGenerator, Samples, create
from agents.prompts import Prompt
from agents.serving import client as client_module
from agents.serving.client import (
    Client,
    Rejected,
    Request,
    Sampling,
    StaleWeights,
    Unavailable,
    WrongReply,
    data_url,
    wire_ids,
)
from agents.serving.fleet import Config, Fleet, Server, ServingError, served
from agents.serving.weights import ExportFailed, write_folder, write_weights

MOST, LENGTH = SHAPES.samples, SHAPES.replies[-1]
GREEDY, WARM = Sampling(LENGTH, 0.0), Sampling(LENGTH, 1.0)
REAL = os.environ.get("JAXENV_SERVER_URL")
CONFIG = Config(concurrency=4, together=MOST, tries=3, backoff=0.01, timeout=60)


@cache
def weights(seed: int):
    """Parameters of the tiny policy."""
    return setup().params if seed == 0 else create(setup().policy.config, jax.random.key(seed))[1]


@cache
def prompts(count: int) -> list[Prompt]:
    """Prompts of several lengths with random pictures."""
    rng, side = np.random.default_rng(0), setup().config.model.resolution
    pictures = rng.integers(0, 256, (count, side, side, 3), np.uint8)
    return [
        setup().writer("Where is the treasure? " * (1 + i % 3), picture) for i, picture in enumerate(pictures)
    ]


@pytest.fixture(scope="module")
def ab():
    return weights(0), weights(1)


def write_model(folder: Path) -> Path:
    """The folder that a server of these tests is started on."""
    write_folder(folder, setup().policy.config, setup().config.model.resolution)
    write_weights(weights(0), setup().policy.config, folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def fake(model):
    """Starts fake servers: `fake(engine=..., ...)`. The default engine is quick and no model."""
    running = []

    def start(engine=None, folder=model, **settings):
        running.append(FakeServer(folder, engine or HashEngine(), **settings))
        return running[-1]

    yield start
    for server in running:
        if not server.dead:
            server.kill()


@pytest.fixture
def fleet(model, fake, tmp_path):
    """A fleet of external servers at the given URLs, with its own copy of the model folder."""
    made = []

    def make(*servers, **changes):
        folder = tmp_path / f"fleet_{len(made)}"
        write_folder(folder, narrow().config, setup().config.model.resolution)
        links = [s if isinstance(s, Server) else Server(Client(s.url, timeout=20)) for s in servers]
        made.append(Fleet(dataclasses.replace(CONFIG, **changes), narrow(), folder, links))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.skipif(not REAL, reason="no server"))])
def url(request, fake):
    return REAL if request.param == "real" else fake(JaxEngine(narrow(), 200, MOST)).url


def same(a: Samples, b: Samples, atol=1e-3) -> bool:
    return bool(
        (a.mask == b.mask).all()
        and (a.tokens == b.tokens).all()
        and np.allclose(a.log_probs[a.mask], b.log_probs[b.mask], atol=atol)
    )


# ---- what every server must do ----


def test_greedy_equals_the_sampler_of_this_process_and_follows_the_weights(url, tmp_path, ab):
    """A to B to A, with and without pictures, on prompts that the caches remember from the weights before."""
    pictures = prompts(6)
    image = narrow().config.image_token
    asked = [*pictures[:4], *[Prompt(p.ids[p.ids != image], None) for p in pictures[4:]]]
    folder = tmp_path / "model"
    write_folder(folder, narrow().config, setup().config.model.resolution)
    fleet = Fleet(CONFIG, narrow(), folder, [Server(Client(url, timeout=60))])
    shapes = dataclasses.replace(SHAPES, buckets=(200,), rows=1)
    seen = []
    for params in (*ab, ab[0]):
        version = fleet.push(params)
        found = fleet.generate(asked, [2] * 6, jax.random.key(3), GREEDY)
        local = JaxGenerator(narrow(), params, shapes, 0.0)
        wanted = [
            s
            for some in (asked[:4], asked[4:])
            for s in local.generate(some, [2] * len(some), jax.random.key(0))
        ]
        assert all(same(a, b) for a, b in zip(found, wanted, strict=True))
        assert all(s.versions == (version,) * 2 for s in found)
        seen.append(found)
    fleet.close()
    assert all(same(a, b) for a, b in zip(seen[0], seen[2]))
    assert not any(same(a, b) for a, b in zip(seen[0], seen[1]))


def test_pictures_matter_and_sampling_follows_the_seed(url, tmp_path, ab):
    client, ours = Client(url, timeout=60), weights(0)
    file = write_weights(ours, narrow().config, tmp_path)
    client.push(file, "seeds")
    prompt = prompts(2)[1]
    other = dataclasses.replace(prompt, picture=255 - prompt.picture)

    def draw(prompt, seed, sampling=WARM):
        return client.generate(narrow(), Request(prompt, MOST, seed), sampling, "seeds")

    first, again, moved = draw(prompt, 1), draw(prompt, 1), draw(prompt, 2)
    text = lambda replies: [r.tokens.tolist() for r in replies]  # noqa: E731
    assert text(first) == text(again) != text(moved) and len({str(t) for t in text(first)}) > 1
    assert all(len(r.tokens) == len(r.log_probs) and r.version == "seeds" for r in first)
    greedy, shown = draw(prompt, 1, GREEDY)[0], draw(other, 1, GREEDY)[0]
    assert not np.allclose(greedy.log_probs[:1], shown.log_probs[:1], atol=1e-6)
    client.close()


def test_a_bad_file_is_refused_and_the_weights_in_use_stay(url, tmp_path, ab):
    client = Client(url, timeout=60)
    good = write_weights(ab[0], narrow().config, tmp_path)
    client.push(good, "good")
    ask = Request(prompts(1)[0], 1, 0)
    before = client.generate(narrow(), ask, GREEDY, "good")[0]
    truncated, missing = tmp_path / "truncated.safetensors", tmp_path / "nowhere.safetensors"
    whole_file = good.read_bytes()
    truncated.write_bytes(whole_file[: len(whole_file) // 2])
    tensors = load_file(good)
    largest = max(tensors, key=lambda name: tensors[name].size)
    other = tmp_path / "other.safetensors"
    save_file({**tensors, largest: tensors[largest][1:]}, other)
    for bad in (truncated, missing, other):
        with pytest.raises(Unavailable, match="update_weights: 500"):
            client.push(bad, "bad")
        assert client.version() == "good"
        client.push(good, "good")  # what a fleet does next
        after = client.generate(narrow(), ask, GREEDY, "good")[0]
        assert after.tokens.tolist() == before.tokens.tolist()
    client.close()


def test_what_does_not_fit_is_refused_with_a_reason(url):
    client = Client(url, timeout=60)
    client.label("here")
    prompt = prompts(1)[0]
    _, most = client.describe()
    long = Prompt(np.full(most, 10, np.int32), None)
    with pytest.raises(
        Rejected, match=f"a prompt of {most} tokens and a reply of up to {LENGTH}.*--max-model-len"
    ):
        client.generate(narrow(), Request(long, 1, 0), WARM, "here")
    for broken, message in (
        (Prompt(np.zeros(0, np.int32), None), "non-empty"),
        (Prompt(prompt.ids, None), "1 runs of picture tokens and 0 pictures"),
        (Prompt(long.ids[:5], prompt.picture), "0 runs of picture tokens and 1 pictures"),
        (dataclasses.replace(prompt, picture=prompt.picture[..., 0]), r"u8\[H, W, 3\]"),
    ):
        with pytest.raises(ValueError, match=message):
            client.generate(narrow(), Request(broken, 1, 0), WARM, "here")
    with pytest.raises(Rejected, match="generate: 4"):  # what a client without these checks would meet
        client._call(
            "POST", "/inference/v1/generate", json={"token_ids": [], "sampling_params": {"logit_bias": {}}}
        )
    with pytest.raises(StaleWeights, match="'here', not 'elsewhere'"):
        client.check("elsewhere")
    client.close()


# ---- what the client must notice ----


def test_a_picture_is_sent_as_one_placeholder(monkeypatch, fake, model):
    prompt = prompts(1)[0]
    image = narrow().config.image_token
    ids = wire_ids(prompt, image)
    assert ids.count(image) == 1 and len(ids) == len(prompt.ids) - int((prompt.ids == image).sum()) + 1
    assert data_url(prompt.picture).startswith("data:image/png;base64,")
    server = fake()
    client = Client(server.url)
    client.label("v")
    client.generate(narrow(), Request(prompt, 1, 0), WARM, "v")
    monkeypatch.setattr(client_module, "wire_ids", lambda prompt, image_token: prompt.ids.tolist())
    with pytest.raises(
        WrongReply, match=rf"read a prompt of \d+ tokens that is not the {len(prompt.ids)} sent"
    ):
        client.generate(narrow(), Request(prompt, 1, 0), WARM, "v")
    client.close()


@pytest.mark.parametrize(
    "fault, error, message",
    [
        ("stale", StaleWeights, "of-another-time"),
        ("short", WrongReply, "3 replies instead of 4"),
        ("mislabelled", WrongReply, "other tokens than the reply's"),
        ("unfinished", WrongReply, "not known for every token"),
        ("reread", WrongReply, "that is not the"),
        ("500", Unavailable, "generate: 500"),
        ("cut", Unavailable, "generate"),
    ],
)
def test_an_answer_that_does_not_hold_together_is_no_sample(fake, fault, error, message):
    server = fake(fault=lambda number: fault)
    client = Client(server.url)
    client.label("v")
    with pytest.raises(error, match=message):
        client.generate(narrow(), Request(prompts(1)[0], MOST, 0), WARM, "v")
    client.close()


def test_caches_are_dropped_by_every_push(fake, tmp_path, monkeypatch, ab):
    """Without the resets a prompt that was seen before is answered by the weights before, and nothing says so."""
    server, client, ask = fake(), None, Request(prompts(1)[0], MOST, 0)
    files = [write_weights(p, narrow().config, _folder(tmp_path / str(i))) for i, p in enumerate(ab)]
    client = Client(server.url)

    def answers(file, version):
        client.push(file, version)
        assert server.calls["/pause"] == server.calls["/resume"] and not server.paused
        return [r.tokens.tolist() for r in client.generate(narrow(), ask, WARM, version)]

    a, b = answers(files[0], "a"), answers(files[1], "b")
    assert a != b and answers(files[0], "c") == a
    for left_out in CACHES:
        monkeypatch.setattr(client_module, "CACHES", tuple(c for c in CACHES if c != left_out))
        assert answers(files[1], "d") == a  # the trap is there
        monkeypatch.undo()
        assert answers(files[1], "e") == b and answers(files[0], "f") == a
    client.close()


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


# ---- a fleet: nothing lost, nothing twice, nothing mislabelled ----


def whole(found: list[Samples], counts, version) -> None:
    """As many replies as were asked for, each whole and by the right weights."""
    eos = narrow().config.eos
    assert [len(s.tokens) for s in found] == list(counts)
    for s, count in zip(found, counts):
        assert s.versions == (version,) * count and s.tokens.shape == s.log_probs.shape == (count, LENGTH)
        assert s.tokens.dtype == np.int32 and s.log_probs.dtype == np.float32 and s.mask.dtype == bool
        for tokens, mask in zip(s.tokens, s.mask):
            n = mask.sum()
            assert n and mask[:n].all() and (n == LENGTH or tokens[n - 1] == eos)


COUNTS = [1, 9, 4, 6, 3, 16]


def test_replies_are_those_of_one_server_whoever_answers(fake, fleet, ab):
    """One server, three servers, and three of which two fail now and then: the same replies, prompt by prompt."""
    asked = prompts(6)
    quiet = [fake(), fake(), fake()]
    faults = {3: "500", 5: "cut", 6: "503", 8: "stale"}
    troubled = [fake(), fake(fault=faults.get), fake(fault=faults.get)]
    results = []
    for servers in (quiet[:1], quiet, troubled):
        one = fleet(*servers)
        version = one.push(ab[0])
        results.append(one.generate(asked, COUNTS, jax.random.key(5), WARM))
        whole(results[-1], COUNTS, version)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a.tokens, b.tokens)
            np.testing.assert_array_equal(a.log_probs, b.log_probs)
    assert len({s.tokens.tobytes() for s in results[0]}) == len(COUNTS)
    requests = sum(-(-n // MOST) for n in COUNTS)
    assert one.counts["requests"] == requests + one.counts["retries"] and one.counts["retries"] > 0
    for server in quiet[1:]:
        assert server.calls["/inference/v1/generate"] > 0  # the load is shared


def test_a_push_reaches_all_before_anything_is_generated(fake, fleet, ab):
    servers = [fake(), fake()]
    one = fleet(*servers)
    for params in ab:
        version = one.push(params)
        assert [s.version for s in servers] == [version] * 2
        whole(one.generate(prompts(6), COUNTS, jax.random.key(1), WARM), COUNTS, version)
    versions = {v for s in servers for v, _ in s.served}
    assert len(versions) == 2 and one.counts["pushes"] == 2


def test_a_server_killed_mid_batch_and_one_that_came_back(fake, fleet, ab, caplog):
    """Its requests go to the other one; on its return, with whatever weights, it is given ours by the next push."""
    servers = [fake(pace=0.05), fake(pace=0.05)]
    port = servers[0].server_port
    one = fleet(*servers)
    version = one.push(ab[0])
    killer = threading.Timer(0.07, servers[0].kill)
    killer.start()
    counts = [8] * 6
    with caplog.at_level(logging.WARNING):
        whole(one.generate(prompts(6), counts, jax.random.key(1), WARM), counts, version)
    killer.join()
    assert servers[0].dead and one.counts["retries"] and caplog.records
    assert sum(n for _, n in servers[1].served) + sum(n for _, n in servers[0].served) >= sum(counts)
    back = fake(port=port)
    assert back.version == "default"
    version = one.push(ab[1])
    assert back.version == version and all(s.ready for s in one.servers)
    whole(one.generate(prompts(6), counts, jax.random.key(2), WARM), counts, version)
    assert {v for v, _ in back.served} == {version}


def test_a_server_that_restarted_between_two_batches_gets_the_weights_again(fake, fleet, ab):
    """Its replies by the weights of its start are refused; nothing else tells the difference."""
    server = fake()
    one = fleet(server)
    version = one.push(ab[1])
    before = one.generate(prompts(2), [4, 4], jax.random.key(0), WARM)
    port = server.server_port
    server.kill()
    again = fake(port=port)
    after = one.generate(prompts(2), [4, 4], jax.random.key(0), WARM)
    whole(after, [4, 4], version)
    assert all(same(a, b) for a, b in zip(before, after))
    assert again.version == version and one.counts["repairs"] >= 2
    assert {v for v, _ in again.served} <= {"default", version}


def test_without_a_server_it_says_so(fake, fleet, ab):
    server = fake()
    one = fleet(server)
    with pytest.raises(ServingError, match="no weights to generate with"):
        one.generate(prompts(1), [1], jax.random.key(0), WARM)
    held = served(one, ab[0], LENGTH, 1.0)
    server.kill()
    with pytest.raises(ServingError, match="tried 3 times"):
        held.generate(prompts(1), [1], jax.random.key(0))
    with pytest.raises(ServingError, match="no server took the weights"):
        one.push(ab[0])
    with pytest.raises(StaleWeights, match="the servers hold None"):
        held.generate(prompts(1), [1], jax.random.key(0))
    with pytest.raises(ServingError, match="no weights to generate with"):
        one.generate(prompts(1), [1], jax.random.key(0), WARM)


def test_a_refused_request_stops_the_batch_and_is_not_repeated(fake, fleet, ab):
    server = fake(max_length=80)
    one = fleet(server)
    one.push(ab[0])
    with pytest.raises(Rejected, match="do not fit the server's 80"):
        one.generate(prompts(6), COUNTS, jax.random.key(0), WARM)
    assert not one.counts["retries"]
    for counts in ([1], [1, 0]):
        with pytest.raises(ValueError, match="as many counts"):
            one.generate(prompts(2), counts, jax.random.key(0), WARM)


def test_a_failed_push_restarts_a_server_with_the_right_weights(fake, fleet, ab, model):
    """Servers that were started here: an update that goes wrong, a process that is gone."""
    starts = []

    class InProcess:
        running = False

        def start(self, timeout, connections):
            starts.append(fake(folder=one.folder))
            self.running = True
            return Client(starts[-1].url, timeout=timeout)

        def stop(self):
            if self.running:
                self.running = False
                starts[-1].kill()

    one = fleet(Server(launcher=InProcess()))
    first = one.push(ab[0])
    a = one.generate(prompts(2), [4, 4], jax.random.key(0), WARM)
    assert len(starts) == 1 and starts[0].version == first and not starts[0].calls["/update_weights"]
    second = one.push(ab[1])
    b = one.generate(prompts(2), [4, 4], jax.random.key(0), WARM)
    assert len(starts) == 1 and not any(same(x, y) for x, y in zip(a, b))

    starts[0].expected = {"another": ((1,), "F32")}  # a model that takes no weights any more
    third = one.push(ab[0])
    assert len(starts) == 2 and starts[0].dead and starts[1].version == third
    c = one.generate(prompts(2), [4, 4], jax.random.key(0), WARM)
    whole(c, [4, 4], third)
    assert all(same(x, y) for x, y in zip(a, c))

    starts[1].kill()
    one.servers[0].launcher.running = False
    d = one.generate(prompts(2), [4, 4], jax.random.key(0), WARM)
    whole(d, [4, 4], third)
    assert len(starts) == 3 and all(same(x, y) for x, y in zip(a, d))
    assert len({first, second, third}) == 3 and one.counts["restarts"] == 2


# ---- writing the weights ----


def test_a_full_disk_leaves_servers_and_weights_as_they_were(fake, fleet, ab):
    one = fleet(fake())
    version = one.push(ab[0])
    before = one.generate(prompts(1), [4], jax.random.key(0), WARM)
    names = sorted(f.name for f in one.folder.iterdir())
    file = (one.folder / "model.safetensors").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(file) // 2, hard))  # what a full disk does to a file
    try:
        with pytest.raises(ExportFailed, match=r"could not be written to .*model\.safetensors"):
            one.push(ab[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(f.name for f in one.folder.iterdir()) == names
    assert (one.folder / "model.safetensors").read_bytes() == file and one.version == version
    assert same(one.generate(prompts(1), [4], jax.random.key(0), WARM)[0], before[0])


def test_the_folder_of_a_published_model_keeps_its_files(tmp_path, ab):
    source = _folder(tmp_path / "source")
    for name in ("config.json", "tokenizer.json", "chat_template.json", "preprocessor_config.json"):
        (source / name).write_text(name)
    for name in ("model-00001-of-00002.safetensors", "model.safetensors.index.json", "old.bin"):
        (source / name).write_text("weights")
    write_folder(tmp_path / "out", narrow().config, 64, source)
    kept = {f.name: f.read_text() for f in (tmp_path / "out").iterdir()}
    assert kept == {f: f for f in kept} and len(kept) == 4


# ---- the learner refuses ----


def test_the_learner_refuses_weights_it_did_not_ask_for(fake, fleet, ab):
    """Where replies become turns. (That rollouts name their version is part of tests/test_serving_wiring.py.)"""
    one, asked = fleet(fake()), prompts(2)
    held = served(one, ab[0], LENGTH, 1.0)

    def fill(generator):
        pool = {}
        rollout._fill(pool, np.arange(2), np.asarray([3, 1]), generator, asked, jax.random.key(0))
        return {p: len(replies) for p, replies in pool.items()}

    assert fill(held) == {0: 3, 1: 1}

    class Broken:
        at_once, version = 1, held.version

        def __init__(self, spoil):
            self.spoil = spoil

        def generate(self, prompts, counts, key):
            first, *rest = held.generate(prompts, counts, key)
            return [self.spoil(first), *rest]

    mixed = Broken(lambda s: dataclasses.replace(s, versions=("old", *s.versions[1:])))
    with pytest.raises(rollout.StaleSamples, match=f"by the weights '{held.version}' were asked for"):
        fill(mixed)
    lost = Broken(lambda s: Samples(s.tokens[1:], s.log_probs[1:], s.mask[1:], s.versions[1:]))
    with pytest.raises(ValueError, match="3 replies to a prompt were asked for, 2 came"):
        fill(lost)
    served(one, ab[1], LENGTH, 0.0)
    with pytest.raises(StaleWeights, match="this generator is for"):
        fill(held)
    parts = [rollout.Rollouts(*[None] * 14, version=version) for version in ("a", "b")]
    with pytest.raises(rollout.StaleSamples, match=r"cannot be one batch: \['a', 'b'\]"):
        rollout.join(parts)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"tries": 0}, "tries must be positive"),
        ({"timeout": -1.0}, "timeout must be positive"),
        ({"devices": ()}, "at least one server"),
        ({"urls": ("http://a", "http://a")}, "distinct"),
    ],
)
def test_impossible_configs(changes, message):
    with pytest.raises(ValueError, match=message):
        Config(**changes)


if __name__ == "__main__":
    print(write_model(Path(sys.argv[1])))
