"""A table is split into one file for each value of a column."""

from curriculum.evolution.artifacts import Table, Tree, dump
from curriculum.evolution.pipeline import Step, Transform
from curriculum.evolution.sandbox import File


class SplitBy(Transform):
    takes, gives, skill = Table, Tree, "split a file by value"

    def accepts(self, given):
        fits = super().accepts(given) and given.format == "csv" and len(given.rows) >= 4
        return bool(fits) and any(
            "/" not in str(row[i]) for i in given.role("category") for row in given.rows
        )

    def step(self, rng, place, given):
        by = rng.choice(given.role("category"))
        groups: dict = {}
        for row in given.rows:
            groups.setdefault(row[by], []).append(row)
        files = {
            f"{key.lower()}.csv": File(dump("csv", given.names, rows).encode())
            for key, rows in groups.items()
        }
        tree, one = Tree(place.out(""), files), given.names[by]
        text = (
            f"Split `{given.path}` by {one} into the folder `{tree.path}`: one CSV file for each value, with the header, "
            "named by the value in small letters and `.csv`."
        )
        solve = f"""mkdir -p {tree.path}
python3 - <<'PY'
from tools import read, write
rows = read("{given.path}")
for value in sorted({{row["{one}"] for row in rows}}):
    write("{tree.path}/" + value.lower() + ".csv", {list(given.names)}, [r for r in rows if r["{one}"] == value])
PY"""
        return Step(tree, text, solve)


NODE = SplitBy()
