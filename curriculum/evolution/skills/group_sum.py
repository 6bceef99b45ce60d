"""Rows are grouped and summed."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.pipeline import Step, Transform


class GroupSum(Transform):
    takes, gives, skill = Table, Table, "group and sum"

    def accepts(self, given):
        return (
            super().accepts(given)
            and bool(given.role("number") and given.role("category"))
            and len(given.rows) >= 4
        )

    def step(self, rng, place, given):
        by, number = rng.choice(given.role("category")), rng.choice(given.role("number"))
        groups: dict = {}
        for row in given.rows:
            groups.setdefault(row[by], []).append(row[number])
        rows = tuple((key, len(values), sum(values), max(values)) for key, values in sorted(groups.items()))
        columns = (
            given.columns[by],
            Column("count", "number"),
            Column("total", "number"),
            Column("largest", "number"),
        )
        table = Table(place.out(".csv"), columns, rows)
        one, two = given.names[by], given.names[number]
        text = (
            f"Group `{given.path}` by {one} and write `{table.path}` with the columns {one}, count (of rows), total and "
            f"largest (of {two}), sorted by {one} in the order of code points."
        )
        solve = f"""python3 - <<'PY'
from collections import defaultdict
from tools import read, write
groups = defaultdict(list)
for row in read("{given.path}"):
    groups[row["{one}"]].append(int(row["{two}"]))
rows = [{{"{one}": k, "count": len(v), "total": sum(v), "largest": max(v)}} for k, v in groups.items()]
write("{table.path}", {list(table.names)}, sorted(rows, key=lambda row: row["{one}"]))
PY"""
        return Step(table, text, solve)


NODE = GroupSum()
