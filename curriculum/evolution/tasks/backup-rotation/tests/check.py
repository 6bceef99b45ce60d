"""Runs the script where it can see neither these tests nor the reward, and looks at what it leaves."""

import os
import shlex
import shutil
import subprocess
import sys
import tarfile

GUARD = shlex.split(os.environ.get("UNTRUSTED", ""))
WORK = "/tmp/backup check"


def fail(why):
    print(why)
    sys.exit(10)


def run(source, target):
    with open("/logs/verifier/printed", "wb+") as printed:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": subprocess.DEVNULL}
        try:
            rc = subprocess.run(
                [*GUARD, "bash", "/app/backup.sh", source, target], timeout=10, **pipes
            ).returncode
        except subprocess.TimeoutExpired:
            fail("takes longer than 10 s")
        printed.seek(0)
        return rc, printed.read(10_000).decode(errors="replace")


def members(path):
    try:
        if os.path.islink(path) or os.path.getsize(path) > 1 << 20:
            fail(f"{path} is no small archive")
        with tarfile.open(path) as archive:
            return {m.name: archive.extractfile(m).read(100) for m in archive.getmembers()[:50] if m.isfile()}
    except (OSError, tarfile.TarError, EOFError) as error:
        fail(f"{path}: {error}")


shutil.rmtree(WORK, ignore_errors=True)
source, target = f"{WORK}/my notes", f"{WORK}/kept here"
os.makedirs(f"{source}/deep er")
for name in ("a b.txt", "deep er/c"):
    with open(f"{source}/{name}", "w") as file:
        file.write(name)

if run(f"{WORK}/none", target) != (1, "") or os.path.exists(target):
    fail("a source that is no folder: something else than wanted happens")
others = {"backup-old.tar.gz", "notes.txt", "backup-7.tar.gz.part"}
for number in range(1, 14):
    rc, printed = run(source, target)
    if rc != 0 or printed != f"{target}/backup-{number}.tar.gz\n":
        fail(f"run {number} ends with {rc} and prints {printed!r}")
    if number == 1:
        for name in others:
            with open(f"{target}/{name}", "w") as file:
                file.write(name)
            os.utime(f"{target}/{name}", (1, 1))
    if number == 2:
        os.utime(f"{target}/backup-2.tar.gz", (1, 1))  # numbers count, times do not
    wanted = {f"backup-{n}.tar.gz" for n in range(max(1, number - 2), number + 1)} | others
    if set(os.listdir(target)) != wanted:
        fail(f"after run {number} there are {sorted(os.listdir(target))}")
    found = members(f"{target}/backup-{number}.tar.gz")
    if found != {"my notes/a b.txt": b"a b.txt", "my notes/deep er/c": b"deep er/c"}:
        fail(f"backup {number} holds {sorted(found)}")
