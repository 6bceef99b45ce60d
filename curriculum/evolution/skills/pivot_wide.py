"""A long table becomes a wide one."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.pipeline import Step, Transform


class PivotWide(Transform):
    takes, gives, skill = Table, Table, "pivot: long to wide"

    def accepts(self, given):
        return super().accepts(given) and len(given.role("category")) >= 2 and len(given.rows) >= 4

    def step(self, rng, place, given):
        down, across = rng.sample(given.role("category"), 2)
        values = sorted({row[across] for row in given.rows})
        counts: dict = {}
        for row in given.rows:
            counts.setdefault(row[down], {}).setdefault(row[across], 0)
            counts[row[down]][row[across]] += 1
        columns = (given.columns[down], *(Column(f"n_{value}", "number") for value in values))
        rows = tuple((key, *(counts[key].get(value, 0) for value in values)) for key in sorted(counts))
        table = Table(place.out(".csv"), columns, rows)
        one, two = given.names[down], given.names[across]
        text = (
            f"Count the rows of `{given.path}` by {one} and {two} and write `{table.path}`: one row for each {one}, sorted, "
            f"and after {one} one column for each {two}, sorted, named `n_` and its value, with the number of rows (0 where "
            "there are none). Sorting is by code points."
        )
        solve = f"""python3 - <<'PY'
from collections import Counter
from tools import read, write
pairs = Counter((r["{one}"], r["{two}"]) for r in read("{given.path}"))
across = sorted({{b for _, b in pairs}})
rows = [{{"{one}": a, **{{"n_" + b: pairs[a, b] for b in across}}}} for a in sorted({{a for a, _ in pairs}})]
write("{table.path}", ["{one}"] + ["n_" + b for b in across], rows)
PY"""
        return Step(table, text, solve)


NODE = PivotWide()
