"""A running total within each group."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.pipeline import Step, Transform


class RunningTotal(Transform):
    takes, gives, skill = Table, Table, "awk: running totals"

    def accepts(self, given):
        fits = super().accepts(given) and given.role("number") and given.role("category")
        return bool(fits) and "running" not in given.names and len(given.rows) >= 6

    def step(self, rng, place, given):
        by, number = rng.choice(given.role("category")), rng.choice(given.role("number"))
        sums: dict = {}
        rows = []
        for row in given.rows:
            sums[row[by]] = sums.get(row[by], 0) + row[number]
            rows.append((*row, sums[row[by]]))
        table = Table(place.out(".tsv"), (*given.columns, Column("running", "number")), tuple(rows))
        one, two = given.names[number], given.names[by]
        text = (
            f"Write `{given.path}` as TSV to `{table.path}` with a last column running: the sum of {one} over this row and "
            f"all rows before it with the same {two}."
        )
        solve = f"""python3 - <<'PY'
from collections import Counter
from tools import read, write
total, rows = Counter(), read("{given.path}")
for row in rows:
    total[row["{two}"]] += int(row["{one}"])
    row["running"] = total[row["{two}"]]
write("{table.path}", {list(table.names)}, rows)
PY"""
        return Step(table, text, solve)


NODE = RunningTotal()
