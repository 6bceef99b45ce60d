"""The sandbox runs commands, keeps its limits, and cannot be talked into a reward."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from curriculum.evolution import inside, sandbox, seccomp
from curriculum.evolution.sandbox import File, Graded, Limits, Sandbox, SandboxError, SandboxUnavailable

SMALL = Limits(memory_mb=128, storage_mb=32, processes=48, cpu_sec=20)
REWARD = "/logs/verifier/reward.txt"
pytestmark = pytest.mark.usefixtures("sandboxed")


@pytest.fixture
def box():
    with Sandbox(SMALL) as opened:
        yield opened


def files_of(script: str, **files: bytes) -> dict[str, File]:
    return {"test.sh": File(script.encode())} | {name: File(data) for name, data in files.items()}


def passes_if(condition: str, **files: bytes) -> dict[str, File]:
    return files_of(f"if {condition}; then echo 1; else echo 0; fi > {REWARD}", **files)


def running(mark: str) -> list[int]:
    """Host processes with this text in their command line, ours left out."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def test_commands_share_files_and_background_processes(box):
    box.put({"/app/a.txt": File(b"one\n", 0o600), "/home/agent/run.sh": File(b"echo ran", 0o755)})
    assert box.exec("cat a.txt; ~/run.sh; stat -c %a a.txt").output == "one\nran\n600\n"
    box.exec("python3 -m http.server 8000 >/dev/null 2>&1 &")
    assert (
        box.exec("for i in 1 2 3 4 5 6 7 8; do sleep .2; curl -sf localhost:8000/a.txt && break; done").output
        == "one\n"
    )
    failed = box.exec("echo out; echo err >&2; exit 3")
    assert (failed.output, failed.rc, failed.lost) == ("out\nerr\n", 3, None)


def test_graded_by_what_is_left(box):
    box.exec("echo right > answer")
    assert box.grade(passes_if('[ "$(cat answer)" = right ]')).reward == 1.0
    assert box.grade(passes_if('[ "$(cat answer)" = wrong ]')).reward == 0.0
    with pytest.raises(SandboxError, match="after grading"):
        box.exec("true")


def test_a_slow_command_is_ended_and_the_shell_lives_on(box):
    started = time.monotonic()
    slow = box.exec("echo begun; sleep 60", timeout=0.5)
    assert (slow.timed_out, slow.output, slow.lost) == (
        True,
        "begun\n",
        None,
    ) and time.monotonic() - started < 20
    assert box.exec("echo on").output == "on\n"


def test_a_background_process_that_keeps_the_pipe_open_holds_up_nothing(box):
    started = time.monotonic()
    assert box.exec("setsid sleep 50 & echo done", timeout=30).output == "done\n"
    assert box.exec("setsid yes & echo done", timeout=30).rc == 0
    assert time.monotonic() - started < 20


def test_long_output_keeps_both_ends(box):
    said = box.exec("echo first; seq 100000; echo last").output
    assert said.startswith("first\n1\n") and said.endswith("100000\nlast\n") and "bytes left out" in said
    assert len(said) < SMALL.output_bytes + 100


def test_the_base_is_read_only_and_everything_else_is_the_sandboxs_own(box):
    said = box.exec(
        "touch /usr/x /etc/x /x /dev/x /sys/x; echo t > /proc/sys/kernel/hostname; echo $?; hostname; ls /sys"
    )
    assert said.output.count("Read-only file system") >= 4 and "sandbox" in said.output
    assert "No such file" in box.exec("cat /etc/shadow /root/.bashrc /tests/test.sh").output
    box.exec("echo mine > /tmp/left-in-a-sandbox")
    assert not Path("/tmp/left-in-a-sandbox").exists()


def test_no_network(box):
    said = box.exec(
        "curl -sS -m 5 http://1.1.1.1; echo; getent hosts example.com; cat /proc/net/dev | grep -c :"
    )
    assert "ouldn't connect" in said.output or "Failed to connect" in said.output
    assert said.output.endswith("1\n")  # loopback alone


def test_fork_bomb(box):
    box.exec(":(){ :|:& };:", timeout=1)
    box.exec("python3 -c 'import os\nwhile 1:\n try: os.fork()\n except OSError: pass'", timeout=1)
    assert box.grade(passes_if("true")).reward == 1.0
    assert box.stats.peak_processes <= SMALL.processes + 4


@pytest.mark.parametrize("flags", ["MAP_PRIVATE", "MAP_SHARED"])
def test_memory_hog(box, flags):
    hog = f"import mmap; m = [mmap.mmap(-1, 8 << 20, mmap.{flags} | mmap.MAP_ANONYMOUS) for _ in range(64)]"
    said = box.exec(f"python3 -c '{hog}\nfor x in m: x.write(bytes(8 << 20))\nprint(\"had it\")'")
    assert "had it" not in said.output and ("Error" in said.output or "memory limit" in (said.lost or ""))
    assert box.exec("echo on").output == "on\n"


def test_memory_of_many_processes_counts_together(box):
    hold = "python3 -c 'x = b\"1\" * (60 << 20); import time; time.sleep(20)' &"
    said = box.exec(f"{hold} {hold} {hold} {hold} wait; echo survived", timeout=30)
    assert said.lost == "memory limit" and box.stats.events[0]["kind"] == "memory"
    assert box.grade(passes_if("true")).reward == 1.0


def test_memory_that_no_process_maps_is_refused(box):
    call = (
        "import ctypes; c = ctypes.CDLL(None); print(c.memfd_create(b'x', 0), c.shmget(0, 1 << 30, 0o1600))"
    )
    assert box.exec(f'python3 -c "{call}"').output == "-1 -1\n"


def test_disk_filler(box):
    said = box.exec("for d in /app /tmp /var/tmp /dev/shm /home/agent /run; do cat /dev/zero > $d/fill; done")
    assert "No space left" in said.output
    box.exec("mkdir /app/d; cd /app/d; seq 300000 | xargs touch", timeout=20)
    assert box.grade(passes_if("[ -d d ] && echo x > $TMPDIR/x")).reward == 1.0
    assert box.stats.peak_disk_mb <= SMALL.storage_mb


def test_cpu_seconds():
    with Sandbox(Limits(cpu_sec=1)) as box:
        spun = box.exec("while :; do :; done", timeout=30)
        assert spun.lost == "cpu limit" or spun.rc in (-9, -24)
        assert box.grade(passes_if("true")).reward == 1.0


def test_a_background_process_cannot_rewrite_the_reward(box):
    loop = f"while :; do mkdir -p /logs/verifier; echo 1 > {REWARD}; mkdir -p /app/x; done"
    box.exec(f"setsid nohup bash -c '{loop}' > /dev/null 2>&1 &")
    assert "reward.txt" in box.exec("sleep .3; ls /logs/verifier").output  # it did try
    graded = box.grade(files_of(f"sleep .3; pgrep -c nohup; pgrep -fc reward.t[x]t; echo 0 > {REWARD}"))
    assert graded.reward == 0.0 and graded.output == "0\n0\n"


def test_a_forged_reward_is_no_reward(box):
    box.exec(
        f"mkdir -p /logs/verifier; echo 1 > {REWARD}; echo '{{\"reward\": 1}}' > /logs/verifier/reward.json"
    )
    assert box.grade(files_of("true")) == Graded(None, "the tests wrote no reward (exit status 0)", "")


@pytest.mark.parametrize(
    "script, error",
    [
        ("exit 7", "exit status 7"),
        (f"echo maybe > {REWARD}", "no number"),
        (f"echo nan > {REWARD}", "no number"),
        (f"echo NaN > {REWARD}", "no finite"),
        (f"echo 1 > {REWARD}; echo 1 > /logs/verifier/reward.json", "both"),
        (f"ln -s /etc/hostname {REWARD}", "no small file"),
        ("sleep 60", "longer than"),
    ],
)
def test_tests_that_fail_give_no_reward(box, script, error):
    graded = box.grade(files_of(script), timeout=1)
    assert graded.reward is None and error in graded.error


def test_reward_json_with_details(box):
    graded = box.grade(files_of('echo \'{"reward": 0.5, "speed": 2}\' > /logs/verifier/reward.json'))
    assert (graded.reward, graded.details) == (0.5, {"reward": 0.5, "speed": 2.0})


def test_links_to_the_expected_answer_are_removed(box):
    box.exec(
        "ln -s /tests/expected answer; ln -s /app /tmp/up; ln -s /tmp/up/../tests t; ln -s ../proc/self/root r; mkfifo p"
    )
    box.exec("ln -s real kept; echo 1 > real; ln -s loop loop")
    graded = box.grade(passes_if("cmp -s answer /tests/expected", expected=b"42"))
    assert graded.reward == 0.0
    assert {e["path"] for e in box.stats.events} == {"/app/answer", "/app/t", "/app/r", "/app/p", "/app/loop"}


def test_endless_folders_and_names_that_are_no_text_do_not_stop_grading(box):
    box.exec('python3 -c \'import os\nfor _ in range(3000): os.mkdir("d"); os.chdir("d")\'')
    box.exec(r"mkfifo $'p\xff'; touch $'f\xff'; mkdir -p locked/in; chmod 000 locked")
    assert box.grade(files_of(f"ls -d d; echo 1 > {REWARD}")).reward == 1.0
    assert {event["why"] for event in box.stats.events} == {
        "folders too deep",
        "neither a file nor a folder nor a link",
    }
    json.dumps(box.stats.events, ensure_ascii=False).encode()


def test_links_resolve_as_the_agent_sees_them(tmp_path, monkeypatch):
    monkeypatch.setattr(inside, "ROOT", str(tmp_path))
    for name in ("app/deep/er", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "app/here").symlink_to("/app/deep/er")
    (tmp_path / "tmp/bad").symlink_to("../app/here/../../../tests/x")
    (tmp_path / "tmp/good").symlink_to("../app/here/../file")
    assert inside.resolve("/tmp/bad") == "/tests/x"
    assert inside.resolve("/tmp/good") == "/app/deep/file"


def test_no_way_into_the_supervisor_or_out_of_the_namespace(box):
    said = box.exec(
        "cat /proc/2/environ; ls /proc/2/fd; echo x > /proc/2/mem; unshare -U true; taskset -p 3 $$; mount -t tmpfs x /tmp;"
        "ls /proc/1/root/state /proc/1/root/oldroot; nsenter -t 1 -m true; bwrap --bind / / true; kill -9 1; echo alive"
    )
    assert said.output.count("denied") >= 3 and said.output.count("No such file") == 2
    assert (
        said.output.count("ermitted")
        + said.output.count("must be superuser")
        + said.output.count("o permissions")
        >= 5
    )
    assert said.output.endswith("alive\n")


def test_killing_the_shell_restarts_it(box):
    box.exec("echo kept > a")
    assert box.exec("kill -9 -1").lost
    assert box.exec("cat a").output == "kept\n"
    assert box.exec("kill -STOP 2; sleep 99", timeout=0.1).lost == "no answer in time"
    assert box.exec("cat a").output == "kept\n"


def test_what_the_agent_wrote_runs_without_the_tests_and_the_reward(box):
    spy = f"#!/bin/bash\nls /tests /logs /tests-tools; echo 1 > {REWARD}; kill -9 -1; cat > /app/took"
    box.put({"/app/spy": File(spy.encode(), 0o755)})
    graded = box.grade(
        files_of(
            f"$UNTRUSTED ./spy < /dev/null; $UNTRUSTED cat /tests/secret; echo 0 > {REWARD}", secret=b"s3cret"
        )
    )
    assert graded.reward == 0.0 and "s3cret" not in graded.output and graded.output.count("No such file") >= 3


def test_python_modules_the_agent_left_are_not_loaded_by_tests(box):
    box.exec(
        "echo 'raise SystemExit(\"hijacked\")' | tee json.py > csv.py; echo 'exec cp json.py x' > ~/.bashrc"
    )
    graded = box.grade(
        files_of(f"python3 - <<< 'import csv, json' && python3 -c 'import json' && echo 1 > {REWARD}")
    )
    assert graded.reward == 1.0


def test_nothing_is_left_when_closed():
    box = Sandbox(SMALL)
    box.exec("setsid sleep 4321 > /dev/null 2>&1 &")
    assert running("sleep\x004321")
    box.close()
    assert not running("sleep\x004321")
    box.close()
    with pytest.raises(SandboxError, match="gone"):
        box.exec("true")


def test_nothing_is_left_when_the_parent_is_killed():
    code = (
        "from curriculum.evolution.sandbox import Sandbox\nimport time\n"
        "box = Sandbox()\nbox.exec('setsid sleep 8765 >/dev/null 2>&1 &')\nprint('up', flush=True)\ntime.sleep(60)"
    )
    root = Path(__file__).parents[2]
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=root)
    assert parent.stdout.readline() == b"up\n"
    assert running("sleep\x008765")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    for _ in range(100):
        if not running("sleep\x008765"):
            break
        time.sleep(0.1)
    assert not running("sleep\x008765")


def test_a_dead_sandbox_is_an_error_of_its_own():
    box = Sandbox(SMALL)
    for pid in map(
        int, Path(f"/proc/{box._process.pid}/task/{box._process.pid}/children").read_text().split()
    ):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxError, match="gone"):
        box.exec("true")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_it_works_for_a_user_without_rights():
    root = Path(__file__).parents[2]
    code = f"""import sys, types
if sys.version_info < (3, 11):
    sys.exit(77)
package = sys.modules["curriculum"] = types.ModuleType("curriculum")  # without what the package itself imports
package.__path__ = [{str(root / "curriculum")!r}]
from curriculum.evolution.sandbox import File, Sandbox
with Sandbox() as box:
    print(box.exec("id -un; touch x; ls").output, end="")
    print(box.grade({{"test.sh": File(b"echo 1 > {REWARD}")}}).reward)
"""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*nobody, "cat", inside.__file__], capture_output=True, check=False).returncode:
        pytest.skip("nobody may not read this checkout")
    done = subprocess.run(
        [*nobody, "/usr/bin/python3", "-c", code], capture_output=True, text=True, check=False
    )
    if done.returncode in (77, 127):
        pytest.skip("/usr/bin/python3 is missing or older than 3.11")
    assert done.stdout == "agent\nx\n1.0\n", done.stderr


def test_refused_where_it_cannot_work(monkeypatch, tmp_path):
    sandbox._probe.cache_clear()
    with pytest.raises(SandboxUnavailable, match="has no python3"):
        Sandbox(base=tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        SandboxUnavailable, match=r"bwrap is missing: apt-get install bubblewrap\. Nothing was run"
    ):
        Sandbox()
    for name, says in (("setpriv", ""), ("prlimit", ""), ("bwrap", "echo bubblewrap 0.6.1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=r"0\.8 or newer"):
        Sandbox()
    (tmp_path / "bwrap").write_text(
        '#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.9.0;; *) echo "bwrap: setting up uid map: Permission denied" >&2; exit 1;; esac'
    )
    (tmp_path / "setpriv").write_text("#!/bin/sh\nexec bwrap --x\n")
    with pytest.raises(SandboxUnavailable, match=r"uid map: Permission denied.*apparmor"):
        Sandbox()
    sandbox._probe.cache_clear()


def test_bad_arguments(box):
    with pytest.raises(ValueError, match=r"not below a writable folder"):
        box.put({"/usr/x": File(b"")})
    with pytest.raises(SandboxError, match="outside"):
        box.put({"/app/../../../x": File(b"")})
    with pytest.raises(ValueError, match="60,000 bytes"):
        box.exec("x" * 70_000)
    with pytest.raises(ValueError, match=r"no test\.sh"):
        box.grade({})
    with pytest.raises(ValueError, match="cpus must be at least 1"):
        Limits(cpus=0)
    with pytest.raises(ValueError, match="user must be"):
        Sandbox(user="mallory")


def test_the_code_inside_fits_a_pipe():
    assert len(Path(inside.__file__).read_bytes()) < 1 << 16


def test_the_filter_has_every_machines_calls():
    for machine in seccomp.MACHINES:
        assert len(seccomp.program(machine)) % 8 == 0
    with pytest.raises(ValueError, match="riscv64"):
        seccomp.program("riscv64")
