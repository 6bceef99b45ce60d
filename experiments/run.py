"""The folder of a run: config, CSV files, wandb, checkpoints; made once, reopened with --resume."""

import csv
import io
import json
import os
import secrets
from pathlib import Path
from typing import Any

import jax

from experiments.configs import as_dict


class Run:
    """A run folder. Everything in it is written so that a killed run can be resumed.

    Raises (at construction):
        FileExistsError: the folder holds a run and `resume` is False.
        ValueError: `resume` with another config; names what differs.
    """

    def __init__(self, directory: Path, config: Any, resume: bool = False):
        self.directory = Path(directory)
        self.path("checkpoints").mkdir(parents=True, exist_ok=True)
        described = as_dict(config)
        file = self.path("config.json")
        if file.exists():
            if not resume:
                raise FileExistsError(
                    f"{self.directory} holds a run already: add --resume, or choose another folder"
                )
            # A field that is newer than the run has its default; the servers may be others at every start.
            known = {**as_dict(type(config)()), **json.loads(file.read_text())}
            known["serving"] = described["serving"]
            difference = _difference(known, described)
            if difference:
                raise ValueError(f"{self.directory} was started with another config: {'; '.join(difference)}")
        write(file, json.dumps(described, indent=1))
        self._wandb = None

    def path(self, name: str) -> Path:
        return self.directory / name

    # ---- results that exist once ----

    def stored(self, name: str) -> dict | None:
        """A result stored by `store`, or None."""
        file = self.path(f"{name}.json")
        return json.loads(file.read_text()) if file.exists() else None

    def store(self, name: str, result: dict) -> None:
        write(self.path(f"{name}.json"), json.dumps(result, indent=1))

    # ---- rows that come in while it runs ----

    def rows(self, name: str) -> list[dict[str, str]]:
        file = self.path(f"{name}.csv")
        if not file.exists():
            return []
        with file.open(newline="") as f:
            return list(csv.DictReader(f))

    def cut(self, name: str, column: str, last: int) -> None:
        """Drop the rows of a CSV beyond a checkpoint: the resumed run writes them anew."""
        # A row that was cut short by a kill lacks its last columns: it belongs to no checkpoint.
        kept = [row for row in self.rows(name) if None not in row.values() and int(row[column]) <= last]
        file = self.path(f"{name}.csv")
        if kept:
            text = io.StringIO(newline="")
            csv.writer(text).writerows([kept[0].keys(), *(row.values() for row in kept)])
            write(file, text.getvalue())
        else:
            file.unlink(missing_ok=True)

    def append(self, name: str, row: dict[str, Any]) -> None:
        """One more row of a CSV; the first row decides the columns."""
        file = self.path(f"{name}.csv")
        fresh = not file.exists()
        if not fresh:
            with file.open(newline="") as f:
                columns = next(csv.reader(f))
            if set(columns) != set(row):
                raise ValueError(f"{file}: columns {sorted(set(columns) ^ set(row))} are not in both")
        else:
            columns = list(row)
        with file.open("a", newline="") as f:
            writer = csv.writer(f)
            if fresh:
                writer.writerow(columns)
            writer.writerow([f"{row[c]:.6g}" if isinstance(row[c], float) else row[c] for c in columns])

    # ---- wandb ----

    def log(self, metrics: dict[str, Any]) -> None:
        """To wandb, against `prompts` (or `cloning/step`, or whatever axis the metrics carry)."""
        self._open().log(metrics)

    def _open(self):
        if self._wandb is None:
            import wandb  # slow to import, and nothing but this needs it

            mode = os.environ.get("WANDB_MODE") or ("online" if wandb.login(prompt=False) else "offline")
            config = json.loads(self.path("config.json").read_text())
            id_file = self.path("wandb_id")
            if not id_file.exists():
                write(id_file, secrets.token_hex(4))
            self._wandb = wandb.init(
                project=config["project"], dir=self.directory, config=config, mode=mode, name=self.directory.name,
                id=id_file.read_text(), resume="allow", settings=wandb.Settings(silent=True, console="off"),
            )  # fmt: skip
            for group, axis in (("cloning/*", "cloning/step"), ("train/*", "prompts"), ("curriculum/*", "prompts"),
                                ("eval/*", "prompts")):  # fmt: skip
                self._wandb.define_metric(group, step_metric=axis)
        return self._wandb

    def close(self) -> None:
        if self._wandb is not None:
            self._wandb.finish()
            self._wandb = None


def compilation_cache() -> None:
    """Keep compiled programs on disk: a second run starts a minute or two earlier."""
    jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".jax_cache"))


def write(file: Path, text: str) -> None:
    """Write aside and rename: a reader or a restart never sees half a file."""
    aside = file.with_suffix(file.suffix + ".part")
    aside.write_text(text, newline="")
    aside.replace(file)


def _difference(old: Any, new: Any, name: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line
            for key in sorted(set(old) | set(new))
            for line in _difference(old.get(key), new.get(key), f"{name}.{key}".lstrip("."))
        ]
    return [] if old == new else [f"{name} was {old}, is {new}"]
