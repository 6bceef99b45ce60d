"""The rows with the largest values, in order."""

from curriculum.evolution.artifacts import Table
from curriculum.evolution.pipeline import Step, Transform


class TopRows(Transform):
    takes, gives, skill = Table, Table, "sort, head: the largest rows"

    def accepts(self, given):
        return super().accepts(given) and bool(given.role("number")) and len(given.rows) >= 5

    def step(self, rng, place, given):
        number, count = (
            rng.choice(given.role("number")),
            rng.randint(len(given.rows) // 2, len(given.rows) * 3 // 4),
        )
        # Ties are decided, so that there is one right answer.
        order = sorted(given.rows, key=lambda row: (-row[number], tuple(map(str, row))))
        table = Table(place.out(".csv"), given.columns, tuple(order[:count]))
        one = given.names[number]
        text = (
            f"Write to `{table.path}` the {count} rows of `{given.path}` with the largest {one}, largest first; rows with "
            "equally large ones by their columns as text, from left to right, in the order of code points."
        )
        solve = f"""python3 - <<'PY'
from tools import read, write
names = {list(given.names)}
rows = sorted(read("{given.path}"), key=lambda r: [str(r[n]) for n in names])
rows.sort(key=lambda r: int(r["{one}"]), reverse=True)
write("{table.path}", names, rows[:{count}])
PY"""
        return Step(table, text, solve)


NODE = TopRows()
