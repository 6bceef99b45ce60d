"""Task folders are read strictly, written faithfully, and faults show without running them."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from curriculum.evolution.lint import lint
from curriculum.evolution.sandbox import File
from curriculum.evolution.task import (
    Agent,
    Copy,
    Run,
    Task,
    TaskError,
    TaskInfo,
    load,
    read_dockerfile,
    write,
)

TASKS = Path(__file__).parents[2] / "curriculum/evolution/tasks"
DOCKERFILE = b"FROM debian:bookworm-slim\nWORKDIR /app\n"


def small(**changes) -> Task:
    files = {
        "environment/Dockerfile": File(DOCKERFILE),
        "solution/solve.sh": File(b"echo 1 > /app/x\n", 0o755),
        "tests/test.sh": File(b"[ -f /app/x ] && echo 1 > /logs/verifier/reward.txt\n", 0o755),
    }
    files |= changes.pop("files", {})
    return Task(
        TaskInfo("jaxenv/small"), "Write x.", {k: v for k, v in files.items() if v is not None}, **changes
    )


@pytest.mark.parametrize("folder", sorted(TASKS.iterdir()), ids=lambda folder: folder.name)
def test_our_own_tasks_have_no_errors_and_survive_a_round_trip(folder, tmp_path):
    task = load(folder)
    assert [finding for finding in lint(task) if finding.level == "error"] == []
    write(task, tmp_path / "copy")
    assert load(tmp_path / "copy") == task and load(tmp_path / "copy").hash == task.hash
    with pytest.raises(FileExistsError):
        write(task, tmp_path / "copy")


def test_whole_seconds_are_the_same_task_as_they_are_read(tmp_path):
    write(small(agent=Agent(timeout_sec=60)), tmp_path / "t")
    assert load(tmp_path / "t").hash == small(agent=Agent(timeout_sec=60)).hash


def test_odd_texts_survive_a_round_trip(tmp_path):
    task = small(metadata={"a b": ['q"\\\n\x7fé', 1, True, {"x.y": 0.5}]})
    task = dataclasses.replace(task, instruction="Zeile\r\n\u2028 ü\n")
    write(task, tmp_path / "t")
    assert load(tmp_path / "t") == task and load(tmp_path / "t").hash == task.hash
    assert load(tmp_path / "t").metadata == {"a b": ['q"\\\n\x7fé', 1, True, {"x.y": 0.5}]}
    assert (tmp_path / "t/instruction.md").read_bytes() == task.instruction.encode()


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("[agent]", "[agnet]", "agnet is unknown"),
        ("memory_mb = 512", 'memory_mb = "512"', "environment.memory_mb must be a whole number, not '512'"),
        ("memory_mb = 512", "memory_mb = true", "environment.memory_mb must be a whole number"),
        ("memory_mb = 512", "memory_mb = 1", "environment.memory_mb must be at least 64"),
        ("memory_mb = 512", "memory = '512M'", "environment.memory is unknown"),
        ("memory_mb = 512", 'network_mode = "public"', "environment.network_mode must be 'no-network'"),
        ("memory_mb = 512", 'docker_image = "x:1"', "environment.docker_image = 'x:1' asks for"),
        ("memory_mb = 512", "allow_internet = true", "environment.allow_internet = True asks for"),
        ("memory_mb = 512", 'workdir = "/usr"', "environment.workdir must lie below"),
        ("memory_mb = 512", 'env = {"A-B" = "1"}', "environment.env.A-B is no environment variable"),
        ("timeout_sec = 120", "timeout_sec = 0", "agent.timeout_sec must be between"),
        ("timeout_sec = 30", "timeout_sec = nan", "verifier.timeout_sec must be between"),
        ('user = "agent"', 'user = "me"', "agent.user must be"),
        ('name = "jaxenv/error-report"', "", "task.name is missing"),
        ('name = "jaxenv/error-report"', 'name = "../x"', "task.name must be letters"),
        ('"1.4"', '"9"', "schema_version must be one of"),
        ("keywords = [", "keywords = [1, ", "task.keywords must be a list of texts"),
        ("[verifier]", 'steps = ["a"]\n[verifier]', "agent.steps is unknown"),
        ("[task]", "[task", "no TOML"),
    ],
)
def test_errors_name_the_field(tmp_path, old, new, message):
    shutil.copytree(TASKS / "error-report", tmp_path / "t")
    text = (tmp_path / "t/task.toml").read_text()
    assert old in text
    (tmp_path / "t/task.toml").write_text(text.replace(old, new))
    with pytest.raises(TaskError) as error:
        load(tmp_path / "t")
    assert message in str(error.value)


def test_errors_of_files(tmp_path):
    with pytest.raises(TaskError, match=r"task\.toml cannot be read"):
        load(tmp_path / "none")
    shutil.copytree(TASKS / "error-report", tmp_path / "t")
    (tmp_path / "t/extra").write_text("")
    with pytest.raises(TaskError, match="extra does not belong to a task"):
        load(tmp_path / "t")
    (tmp_path / "t/extra").unlink()
    (tmp_path / "t/tests/link").symlink_to("/etc/passwd")
    with pytest.raises(TaskError, match="tests/link is a link"):
        load(tmp_path / "t")
    (tmp_path / "t/tests/link").unlink()
    (tmp_path / "t/tests/test.sh").unlink()
    with pytest.raises(TaskError, match=r"tests/test\.sh is missing"):
        load(tmp_path / "t")
    with pytest.raises(TaskError, match=r"\.\./x"):
        small(files={"tests/../x": File(b"")})


def test_dockerfile():
    text = (
        "# comment\nFROM debian:12\nRUN apt-get update && apt-get install -y --no-install-recommends git \\\n  xz-utils=5.4\n"
        "ENV A=1 B='two words'\nWORKDIR /app\nWORKDIR sub\nCOPY data /srv/data\nCOPY one.txt ./\nRUN echo $A > x\n"
    )
    files = {name: File(name.encode()) for name in ("data/a", "data/b/c", "one.txt")}
    build = read_dockerfile({"Dockerfile": File(text.encode()), **files})
    assert (build.image, build.packages, build.workdir) == ("debian:12", ("git", "xz-utils"), "/app/sub")
    data, one, run = build.steps
    assert data == Copy({"/srv/data/a": files["data/a"], "/srv/data/b/c": files["data/b/c"]})
    assert one == Copy({"/app/sub/one.txt": files["one.txt"]})
    assert run == Run("echo $A > x", "/app/sub", {"A": "1", "B": "two words"})


@pytest.mark.parametrize(
    "line, message",
    [
        ("EXPOSE 80", "only FROM, RUN"),
        ("COPY none /app", "environment/none is missing"),
        ("COPY --chown=1 a /app", "no flags"),
        ("COPY Dockerfile /etc/x", "copies go below one of"),
        ("COPY Dockerfile /app/../etc", r"a path without \.\."),
        ("RUN apt-get install -y git && curl x", "stand alone"),
        ('RUN ["ls"]', "takes a shell command"),
        ("ENV A 1", "NAME=value"),
        ("FROM b", "one FROM"),
        ("ENV A='", "No closing quotation"),
    ],
)
def test_dockerfile_errors_name_the_line(line, message):
    with pytest.raises(TaskError, match=message):
        read_dockerfile({"Dockerfile": File(DOCKERFILE + line.encode())})


@pytest.mark.parametrize(
    "files, rule",
    [
        ({"solution/solve.sh": None}, "oracle"),
        ({"tests/test.sh": File(b"true")}, "reward"),
        ({"tests/test.sh": File(b"echo 1 > reward.txt; echo 1 > reward.json")}, "reward"),
        ({"tests/test.sh": File(b"pip install x; echo 1 > reward.txt")}, "network"),
        ({"tests/test.sh": File(b"[ $RANDOM ] && echo 1 > reward.txt")}, "chance"),
        ({"tests/test.sh": File(b"if; echo 1 > reward.txt")}, "syntax"),
        ({"tests/test.sh": File(b"cat /app/hidden/out.csv > reward.txt")}, "unnamed"),
        ({"environment/x": File(b"a" * 40), "solution/x": File(b"a" * 40)}, "leak"),
        ({"tests/x": File(b"a" * 40), "solution/x": File(b"a" * 40)}, "copied-answer"),
        ({"environment/Dockerfile": File(b"FROM debian\nWORKDIR /app\n")}, "image"),
        (
            {
                "environment/solve.sh": File(b"x"),
                "environment/Dockerfile": File(DOCKERFILE + b"COPY solve.sh /app/"),
            },
            "leak",
        ),
    ],
)
def test_lint_finds(files, rule):
    assert lint(small()) == []
    assert [finding.rule for finding in lint(small(files=files))] == [rule]


def test_lint_reads_the_instruction():
    leak = dataclasses.replace(small(), instruction="Write /app/x so that /tests/test.sh passes.")
    assert [finding.rule for finding in lint(leak)] == ["leak"]


def test_the_hash_sees_everything():
    task = small()
    others = [
        small(metadata={"a": 1}),
        dataclasses.replace(task, instruction="Write y."),
        small(files={"tests/y": File(b"")}),
        small(files={"solution/solve.sh": File(b"echo 1 > /app/x\n", 0o644)}),
    ]
    assert len({task.hash, *(other.hash for other in others)}) == 5 and small().hash == task.hash
