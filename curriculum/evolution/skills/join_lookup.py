"""A column is looked up in another file."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.fixtures import WORDS
from curriculum.evolution.pipeline import Step, Transform


class JoinLookup(Transform):
    takes, gives, skill = Table, Table, "join: look up in another file"

    def accepts(self, given):
        return (
            super().accepts(given)
            and bool(given.role("category"))
            and "zone" not in given.names
            and len(given.rows) >= 4
        )

    def step(self, rng, place, given):
        by = rng.choice(given.role("category"))
        known = sorted({row[by] for row in given.rows})
        left = rng.sample(known, max(1, len(known) - rng.randint(0, 2)))
        zones = rng.sample(WORDS, 3)
        where = {value: rng.choice(zones) for value in left}
        lookup = Table(
            place.data("zones.tsv"),
            (Column(given.names[by], "category"), Column("zone", "category")),
            tuple(sorted([*where.items(), ("Nowhere", zones[0])], key=lambda _: rng.random())),
        )
        rows = tuple((*row, where.get(row[by], "none")) for row in given.rows)
        table = Table(place.out(".csv"), (*given.columns, Column("zone", "category")), rows)
        text = (
            f"Add to the rows of `{given.path}` a last column zone: the zone that `{lookup.path}` gives for the row's "
            f"{given.names[by]}, `none` where it gives none. Write `{table.path}`."
        )
        solve = f"""python3 - <<'PY'
from tools import read, write
zones = {{row["{given.names[by]}"]: row["zone"] for row in read("{lookup.path}")}}
rows = read("{given.path}")
for row in rows:
    row["zone"] = zones.get(row["{given.names[by]}"], "none")
write("{table.path}", {list(table.names)}, rows)
PY"""
        return Step(table, text, solve, fixture={lookup.path: lookup.file()})


NODE = JoinLookup()
