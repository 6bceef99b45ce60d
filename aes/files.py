"""JSON lines that survive a killed run, and folders that one process works in at a time."""

import contextlib
import csv
import fcntl
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

TRAJECTORIES = "trajectories.jsonl"  # what `aes.collect` writes


def read_lines(file: Path) -> list[dict]:
    """Every whole line of a JSONL file; none if there is no file. A last line that was cut off is left out."""
    if not file.exists():
        return []
    whole = file.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.splitlines() if line.strip()]


def append_lines(file: Path, rows: Iterable[dict]) -> None:
    """Add lines; returns when they are on disk. A last line that was cut off makes way."""
    with file.open("ab+") as opened:
        _drop_torn_line(opened)
        opened.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
        opened.flush()
        os.fsync(opened.fileno())


def _drop_torn_line(opened) -> None:
    end = opened.seek(0, os.SEEK_END)
    if not end:
        return
    opened.seek(end - 1)
    if opened.read(1) != b"\n":
        opened.seek(0)
        opened.truncate(opened.read().rfind(b"\n") + 1)
        opened.seek(0, os.SEEK_END)


def write_whole(file: Path, text: str) -> None:
    """Write aside and rename: a reader or a restart never sees half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(file.name + ".part")
    aside.write_text(text, encoding="utf-8", newline="")
    aside.replace(file)


def write_lines(file: Path, rows: Iterable[dict]) -> None:
    write_whole(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def save_csv(file: Path, columns: Sequence[str], rows: Iterable[Sequence]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    write_whole(file, text.getvalue())


@contextlib.contextmanager
def alone(folder: Path, stage: str) -> Iterator[None]:
    """Work in a folder that no other process works in. Raises RuntimeError if one does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{stage}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another {stage} works in {folder}") from None
        yield


def identity(row: dict) -> tuple[str, str, int, int]:
    """What tells a trajectory, or its annotation, from all others of a folder."""
    return row["env"], row["policy"], row["instance"], row["trajectory"]


def load(folder: Path) -> list[dict]:
    """All trajectories of a folder."""
    return read_lines(folder / TRAJECTORIES)
