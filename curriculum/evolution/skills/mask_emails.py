"""Addresses are masked."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.pipeline import Step, Transform


class MaskEmails(Transform):
    takes, gives, skill = Table, Table, "sed: rewrite a column"

    def accepts(self, given):
        return super().accepts(given) and bool(given.role("email"))

    def step(self, rng, place, given):
        which = given.role("email")[0]
        mark = rng.choice(("***", "...", "xx"))

        def mask(text: str) -> str:
            name, _, host = text.partition("@")
            return f"{name[0]}{mark}@{host.upper()}"

        columns = tuple(Column(c.name, "text") if i == which else c for i, c in enumerate(given.columns))
        rows = tuple(tuple(mask(v) if i == which else v for i, v in enumerate(row)) for row in given.rows)
        table = Table(place.out(f".{given.format}"), columns, rows)
        one = given.names[which]
        text = (
            f"Write `{given.path}` to `{table.path}` with every {one} masked: of the part before the @ the first letter and "
            f"`{mark}` are left, the part after it is in capitals."
        )
        numbers = [c.name for c in table.columns if c.role == "number"]
        solve = f"""python3 - <<'PY'
import re
from tools import read, write
rows = read("{given.path}")
for row in rows:
    row["{one}"] = re.sub(r"^(.)[^@]*@(.*)$", lambda m: m[1] + "{mark}@" + m[2].upper(), row["{one}"])
write("{table.path}", {list(given.names)}, rows, {numbers})
PY"""
        return Step(table, text, solve)


NODE = MaskEmails()
