"""Tasks from skill nodes: the same from the same key, solved by their own solution, failed by anything less."""

import dataclasses
from pathlib import Path

import pytest

from curriculum.evolution.agents import NoOp, Oracle, Scripted
from curriculum.evolution.artifacts import Table
from curriculum.evolution.lint import lint
from curriculum.evolution.pipeline import Genome, compose, draw, follows, names, node, steps
from curriculum.evolution.rollout import rollout
from curriculum.evolution.sandbox import File
from curriculum.evolution.task import load, write
from curriculum.evolution.verify import verify

TASKS = Path(__file__).parents[2] / "curriculum/evolution/tasks"
PIPELINES = (
    "orders_csv add_week join_lookup mask_emails filter_rows running_total top_rows group_sum",
    "access_log redact_log parse_log dedup_rows",
    "access_log error_rate",
    "merge_logs rotate_log checksum_manifest convert_format",
    "document_tree rename_symbol rename_files fix_permissions archive_tree",
    "document_tree count_words",
    "unpack_nested duplicate_files",
    "malformed_rows pivot_wide",
    "legacy_encoding split_by",
    "sqlite_query convert_format",
    "flatten_json",
    "git_recover",
    "git_bisect",
    "cron_times",
    "merge_ini",
    "broken_script",
)


def genome(line: str) -> Genome:
    return Genome("k6", tuple(line.split()))


def test_every_node_is_in_a_pipeline_that_is_run():
    assert {name for line in PIPELINES for name in line.split()} == set(names()) and len(names()) >= 25


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("line", PIPELINES)
def test_the_solution_passes_and_nothing_fails(line):
    task = compose(genome(line))
    assert [finding for finding in lint(task) if finding.level == "error"] == []
    solved = rollout(task, Oracle())
    if solved.error and "lacks the package" in solved.error:
        pytest.skip(solved.error)
    assert solved.reward == 1.0, (solved.error, solved.log, solved.test_output)
    assert rollout(task, NoOp()).reward == 0.0


@pytest.mark.usefixtures("sandboxed")
def test_every_step_counts():
    task = compose(genome("access_log redact_log parse_log dedup_rows"))
    solve = task.files["solution/solve.sh"].data.decode()
    for step in (2, 3, 4):
        spoil = dataclasses.replace(
            task,
            files=task.files | {"solution/solve.sh": File(f"{solve}\nsed -i 1d out/0{step}*\n".encode())},
        )
        result = rollout(spoil, Oracle())
        assert result.reward == 0.0 and f"step {step}:" in result.test_output


@pytest.mark.usefixtures("sandboxed")
def test_odd_answers_are_wrong_and_never_an_error():
    task = compose(genome("sqlite_query convert_format"))
    target = steps(genome("sqlite_query convert_format"))[0].artifact.path
    for command in (
        f"ln -s /tests/want.json {target}",
        f"mkfifo {target}",
        f"mkdir {target}",
        f"truncate -s 200M {target}",
        f"head -c 4000 /dev/urandom > {target}",
        f"printf '\\x00\\xff' > {target}",
        "rm -r out; ln -s /etc out",
    ):
        result = rollout(task, Scripted([command]))
        assert (result.status, result.reward) == ("ok", 0.0), (command, result.error)


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    "script", ["yes", "kill -9 -1", "cat /tests/want.json; exit 0", "setsid sleep 99 & exit 0"]
)
def test_programs_that_misbehave_while_they_are_tested_are_wrong(script):
    task = compose(genome("broken_script"))
    solve = task.files["solution/solve.sh"].data.decode() + f"\ncat > data1/tally.sh <<'SH'\n{script}\nSH\n"
    result = rollout(
        dataclasses.replace(task, files=task.files | {"solution/solve.sh": File(solve.encode())}), Oracle()
    )
    assert (result.status, result.reward) == ("ok", 0.0), (result.error, result.test_output)


@pytest.mark.usefixtures("sandboxed")
def test_verdicts():
    task = compose(genome("flatten_json"))
    assert verify(task).verdict == "sound"

    def with_file(name: str, text: str):
        return dataclasses.replace(task, files=task.files | {name: File(text.encode())})

    broken = verify(with_file("solution/solve.sh", "exit 4"))
    assert broken.verdict == "unsound" and broken.reasons[0].startswith("oracle run 1: ok, reward 0.0")
    easy = verify(with_file("tests/test.sh", "echo 1 > /logs/verifier/reward.txt"))
    assert easy.verdict == "unsound" and "doing nothing earns 1" in easy.reasons[0]
    mute = verify(with_file("tests/test.sh", "[ -d /app/out ] || echo 1 > /logs/verifier/reward.txt"))
    assert mute.verdict == "unsound" and "no reward" in mute.reasons[0]
    once = "[ -e /app/out/1 ] && echo 1 > /logs/verifier/reward.txt; true"
    silent = dataclasses.replace(
        task,
        files=task.files
        | {"tests/test.sh": File(once.encode()), "solution/solve.sh": File(b"touch /app/out/1")},
    )
    assert "no-op: verifier_error" in verify(silent).reasons[0]
    copied = verify(with_file("solution/copy", task.files["tests/want.json"].data.decode()))
    assert copied.verdict == "unsound" and "copied-answer" in copied.reasons[0]
    missing = with_file(
        "environment/Dockerfile", "FROM x:1\nRUN apt-get install -y no-such-package\nWORKDIR /app\n"
    )
    assert verify(missing).verdict == "unknown"


def test_the_same_key_makes_the_same_task_and_another_key_another(tmp_path):
    for line in PIPELINES:
        task = compose(genome(line))
        assert task.hash == compose(genome(line)).hash
        assert task.hash != compose(dataclasses.replace(genome(line), key="other")).hash
    write(task, tmp_path / "t")
    assert load(tmp_path / "t").hash == task.hash


def test_drawn_pipelines_have_the_length_and_use_many_nodes():
    seen = set()
    for i in range(40):
        drawn = draw(f"d{i}", 1 + i % 6)
        assert drawn == draw(f"d{i}", 1 + i % 6)
        assert sum(bool(step.text) for step in steps(drawn)) == 1 + i % 6
        seen.update(drawn.nodes)
    assert len(seen) >= 25


def test_a_step_keeps_its_choices_when_another_is_put_before_it():
    short, long = (
        steps(genome("orders_csv mask_emails"))[-1],
        steps(genome("orders_csv add_week mask_emails"))[-1],
    )
    assert [row[3] for row in short.artifact.rows] == [row[3] for row in long.artifact.rows]


def test_nodes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="did you mean dedup_rows"):
        Genome("k", ("dedup_row",))
    with pytest.raises(ValueError, match="at least one node"):
        Genome("k", ())
    with pytest.raises(ValueError, match=r"parse_log \(step 2\) cannot take .* Table /app"):
        compose(Genome("k", ("orders_csv", "parse_log")))
    with pytest.raises(ValueError, match="cannot take what comes before it: nothing"):
        compose(Genome("k", ("parse_log",)))
    with pytest.raises(ValueError, match="nothing is to be done"):
        compose(Genome("k", ("orders_csv",)))


def test_nodes_say_what_they_are():
    for name in names():
        one = node(name)
        assert one.skill and one.gives.__name__ in ("Table", "Log", "Tree", "Archive")
        assert (one.takes is None) == follows(name, None)
    assert len({node(name).skill for name in names()}) == len(names())


def test_the_reference_by_hand():
    groups = steps(genome("orders_csv group_sum"))
    given, made = groups[0].artifact, groups[1].artifact
    assert isinstance(made, Table) and sum(row[1] for row in made.rows) == len(given.rows)
    assert sum(row[2] for row in made.rows) == sum(row[6] for row in given.rows)
    kept = steps(genome("malformed_rows"))[0].artifact
    assert all(len(row) == 7 and row[0][0] == "A" and row[6] >= 0 for row in kept.rows)


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("folder", sorted(TASKS.iterdir()), ids=lambda folder: folder.name)
def test_our_own_tasks_are_sound(folder):
    assert verify(load(folder)).reasons == ()
