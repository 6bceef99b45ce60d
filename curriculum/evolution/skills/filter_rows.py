"""Rows that meet two conditions are kept."""

from curriculum.evolution.artifacts import Table
from curriculum.evolution.pipeline import Step, Transform


class FilterRows(Transform):
    takes, gives, skill = Table, Table, "awk: filter rows"

    def accepts(self, given):
        return (
            super().accepts(given)
            and bool(given.role("number") and given.role("category"))
            and len(given.rows) >= 5
        )

    def step(self, rng, place, given):
        number, category = rng.choice(given.role("number")), rng.choice(given.role("category"))
        low = sorted(row[number] for row in given.rows)[len(given.rows) // 4]
        out = rng.choice(sorted({row[category] for row in given.rows}))
        rows = tuple(row for row in given.rows if row[number] >= low or row[category] == out)
        table = Table(place.out(".csv"), given.columns, rows)
        one, two = given.names[number], given.names[category]
        text = f"Write to `{table.path}` the rows of `{given.path}` whose {one} is at least {low} or whose {two} is `{out}`."
        solve = f"""python3 - <<'PY'
from tools import read, write
rows = read("{given.path}")
write("{table.path}", {list(given.names)}, [r for r in rows if int(r["{one}"]) >= {low} or r["{two}"] == {out!r}])
PY"""
        return Step(table, text, solve)


NODE = FilterRows()
