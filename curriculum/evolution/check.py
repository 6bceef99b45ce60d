"""Compares what an agent left with what the reference worked out. Runs as /tests/check.py, standard library only.

Exit status 0: all as wanted; 10: something is not. Anything else means that this file failed, which is no verdict.
"""

import csv
import hashlib
import io
import json
import os
import shlex
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading

LARGEST = 8 << 20
with open("/tests/want.json", encoding="utf-8") as opened:
    WANT = json.load(opened)


class Mismatch(Exception):
    pass


def data(path, hidden=False):
    """A file's bytes. Links are not followed: they could lead to the answer."""
    if not hidden and os.path.realpath(path) != path:
        raise Mismatch(f"{path} is, or lies behind, a link")
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode):
            raise Mismatch(f"{path} is no file")
        if info.st_size > LARGEST:
            raise Mismatch(f"{path} has {info.st_size:,} bytes")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Mismatch(f"{path}: {error.strerror}") from None


def text(path):
    try:
        return data(path).decode("utf-8")
    except UnicodeDecodeError:
        raise Mismatch(f"{path} is no UTF-8") from None


def parse(path, words):
    """Header and rows."""
    kind = path.rpartition(".")[2]
    try:
        if kind in ("csv", "tsv"):
            lines = list(
                csv.reader(
                    io.StringIO(words, newline=""), delimiter="," if kind == "csv" else "\t", strict=True
                )
            )
            return (lines[0] if lines else []), lines[1:]
        rows = (
            [json.loads(line) for line in words.split("\n") if line.strip()]
            if kind == "jsonl"
            else json.loads(words)
        )
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError("objects are wanted")
        names = list(rows[0]) if rows else []
        if any(list(row) != names for row in rows):
            raise ValueError("the objects' keys differ")
        return names, [list(row.values()) for row in rows]
    except (csv.Error, ValueError, RecursionError) as error:
        raise Mismatch(f"{path}: {error}") from None


def same_table(want):
    names, rows = parse(want["path"], text(want["path"]))
    typed = want["path"].rpartition(".")[2] in ("jsonl", "json")
    wanted = want["rows"] if typed else [[str(value) for value in row] for row in want["rows"]]
    if names != want["names"] and (wanted or names):
        raise Mismatch(f"{want['path']}: columns {names}, wanted {want['names']}")
    if len(rows) != len(wanted):
        raise Mismatch(f"{want['path']}: {len(rows)} rows, wanted {len(wanted)}")
    for number, (got, row) in enumerate(zip(rows, wanted), 1):
        if got != row or (typed and list(map(type, got)) != list(map(type, row))):
            raise Mismatch(f"{want['path']}: row {number} is {got}, wanted {row}")


def same_log(want):
    lines = text(want["path"]).splitlines()
    if lines != want["lines"]:
        first = next(
            (i for i, pair in enumerate(zip(lines, want["lines"])) if pair[0] != pair[1]), "at the end"
        )
        raise Mismatch(
            f"{want['path']}: {len(lines)} lines, wanted {len(want['lines'])}; first difference: {first}"
        )


def files_below(folder):
    if os.path.realpath(folder) != folder or not os.path.isdir(folder):
        raise Mismatch(f"{folder} is no folder")
    found = []
    for top, folders, files in os.walk(folder):
        for name in files + [f for f in folders if os.path.islink(os.path.join(top, f))]:
            found.append(os.path.relpath(os.path.join(top, name), folder))
        if len(found) > 10_000:
            raise Mismatch(f"{folder}: too many files")
    return sorted(found)


def same_tree(want):
    found = files_below(want["path"])
    if found != sorted(want["files"]):
        wrong = sorted(set(found) ^ set(want["files"]))[:5]
        raise Mismatch(f"{want['path']}: missing or too much: {wrong}")
    for name, (digest, mode) in want["files"].items():
        path = os.path.join(want["path"], name)
        if hashlib.sha256(data(path)).hexdigest() != digest:
            raise Mismatch(f"{path}: other content than wanted")
        if want["modes"] and stat.S_IMODE(os.lstat(path).st_mode) != mode:
            raise Mismatch(f"{path}: mode {stat.S_IMODE(os.lstat(path).st_mode):o}, wanted {mode:o}")


def same_archive(want):
    try:
        with tarfile.open(fileobj=io.BytesIO(data(want["path"])), mode="r:gz") as archive:
            found = {}
            for member in archive:
                if member.isdir():
                    continue
                if not member.isfile() or member.size > LARGEST or len(found) > 10_000:
                    raise Mismatch(f"{want['path']}: {member.name} is no small file")
                name = os.path.normpath(member.name)
                found[name] = hashlib.sha256(archive.extractfile(member).read()).hexdigest()
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise Mismatch(f"{want['path']} is no tar.gz: {error}") from None
    if found != {name: digest for name, (digest, _) in want["files"].items()}:
        raise Mismatch(
            f"{want['path']}: other members than wanted: {sorted(set(found) ^ set(want['files']))[:5]}"
        )


def mode(path, wanted):
    data(path)
    got = stat.S_IMODE(os.lstat(path).st_mode)
    if got != wanted:
        raise Mismatch(f"{path}: mode {got:o}, wanted {wanted:o}")


def output(argv, given=b""):
    """What an agent's program prints: run where it can see neither tests nor reward, if the sandbox offers that."""
    guard = shlex.split(os.environ.get("UNTRUSTED", ""))
    with tempfile.TemporaryFile() as source:
        source.write(given)
        source.seek(0)
        pipes = {"stdin": source, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*guard, *argv], cwd="/app", **pipes) as process:
            timer = threading.Timer(10, process.kill)
            timer.start()
            printed = process.stdout.read(LARGEST + 1)
            if len(printed) > LARGEST:
                process.kill()
            process.wait()
            timer.cancel()
    if process.returncode:
        raise Mismatch(
            f"{argv} prints too much, takes longer than 10 s, or fails: it ends with {process.returncode}"
        )
    return printed


def same(number):
    want = WANT[str(number)]
    {"Table": same_table, "Log": same_log, "Tree": same_tree, "Archive": same_archive}[want["kind"]](want)


def main(steps):
    sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no text
    for number, step in steps:
        try:
            step()
        except Mismatch as mismatch:
            print(f"step {number}: {mismatch}")
            sys.exit(10)
    print("all as wanted")
