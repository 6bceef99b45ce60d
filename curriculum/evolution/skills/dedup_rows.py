"""Of rows that agree in two columns, one is kept."""

from curriculum.evolution.artifacts import Table
from curriculum.evolution.pipeline import Step, Transform


class DedupRows(Transform):
    takes, gives, skill = Table, Table, "dedup: keep one row a key"

    def accepts(self, given):
        if not super().accepts(given) or not (given.role("number") and given.role("category")):
            return False
        keys = given.role("category")[:2]
        return len({tuple(row[k] for k in keys) for row in given.rows}) < len(given.rows)

    def step(self, rng, place, given):
        number, keys = rng.choice(given.role("number")), given.role("category")[:2]
        kept: dict = {}
        for row in given.rows:
            key = tuple(row[k] for k in keys)
            if key not in kept or row[number] > kept[key][number]:
                kept[key] = row
        rows = tuple(row for row in given.rows if kept[tuple(row[k] for k in keys)] is row)
        table = Table(place.out(".csv"), given.columns, rows)
        one, shared = given.names[number], [given.names[k] for k in keys]
        text = (
            f"Of the rows of `{given.path}` that agree in {' and '.join(shared)}, keep the one with the largest {one} (the "
            f"first of them, if several have it). Write `{table.path}`; the rows kept stay in the order they had."
        )
        solve = f"""python3 - <<'PY'
from itertools import groupby
from tools import read, write
rows = list(enumerate(read("{given.path}")))
key = lambda pair: tuple(pair[1][name] for name in {shared})
kept = [min(group, key=lambda pair: (-int(pair[1]["{one}"]), pair[0])) for _, group in groupby(sorted(rows, key=key), key)]
write("{table.path}", {list(given.names)}, [row for _, row in sorted(kept, key=lambda pair: pair[0])])
PY"""
        return Step(table, text, solve)


NODE = DedupRows()
