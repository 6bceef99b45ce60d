"""What flows between skill nodes: tables, logs and trees of files, as the reference works them out."""

import csv
import io
import json
from dataclasses import dataclass

from curriculum.evolution.sandbox import File

FORMATS = ("csv", "tsv", "jsonl", "json")


@dataclass(frozen=True)
class Column:
    """`role` tells nodes what they may do with it."""

    name: str
    role: str  # id | category | number | date | email | text


@dataclass(frozen=True)
class Table:
    path: str  # absolute; its suffix is the format
    columns: tuple[Column, ...]
    rows: tuple[tuple[str | int, ...], ...]  # one value a column: whole numbers for "number", else text

    def __post_init__(self):
        assert self.format in FORMATS, self.path
        for row in self.rows:
            assert len(row) == len(self.columns), row

    @property
    def format(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def role(self, *roles: str) -> list[int]:
        """Indices of the columns that have one of these roles."""
        return [i for i, column in enumerate(self.columns) if column.role in roles]

    def file(self) -> File:
        return File(dump(self.format, self.names, self.rows).encode())


@dataclass(frozen=True)
class Log:
    """Lines `address - - [2026-03-01T10:00:00Z] "GET /path" status bytes`, in order of time."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Tree:
    """A folder. `modes`: whether permissions belong to the answer."""

    path: str
    files: dict[str, File]  # by their path below the folder
    modes: bool = False


@dataclass(frozen=True)
class Archive:
    """A tar.gz whose members are the files of a folder."""

    path: str
    files: dict[str, File]


Artifact = Table | Log | Tree | Archive


def dump(format: str, names, rows) -> str:
    if format in ("csv", "tsv"):
        text = io.StringIO(newline="")
        csv.writer(text, delimiter="," if format == "csv" else "\t", lineterminator="\n").writerows(
            [names, *rows]
        )
        return text.getvalue()
    objects = [dict(zip(names, row)) for row in rows]
    if format == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects)
    return json.dumps(objects, ensure_ascii=False, indent=1) + "\n"
