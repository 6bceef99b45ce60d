"""A table changes its format."""

from curriculum.evolution.artifacts import FORMATS, Table
from curriculum.evolution.pipeline import Step, Transform

LONG = {"csv": "CSV", "tsv": "TSV", "jsonl": "JSON Lines", "json": "JSON"}


class ConvertFormat(Transform):
    takes, gives, skill = Table, Table, "convert: csv, tsv, json"

    def step(self, rng, place, given):
        kind = rng.choice([name for name in FORMATS if name != given.format])
        table = Table(place.out(f".{kind}"), given.columns, given.rows)
        numbers = [c.name for c in given.columns if c.role == "number"]
        which = f" The numbers are {', '.join(numbers)}." if numbers and kind in ("json", "jsonl") else ""
        text = f"Write `{given.path}` as {LONG[kind]} to `{table.path}`.{which}"
        solve = f"""python3 - <<'PY'
from tools import read, write
write("{table.path}", {list(given.names)}, read("{given.path}"), {numbers})
PY"""
        return Step(table, text, solve)


NODE = ConvertFormat()
