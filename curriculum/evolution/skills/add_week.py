"""Dates become weeks."""

import datetime

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.pipeline import Step, Transform


class AddWeek(Transform):
    takes, gives, skill = Table, Table, "date: ISO weeks"

    def accepts(self, given):
        return super().accepts(given) and bool(given.role("date")) and "week" not in given.names

    def step(self, rng, place, given):
        which = given.role("date")[0]
        rows = []
        for row in given.rows:
            year, week, day = datetime.date.fromisoformat(row[which]).isocalendar()
            rows.append((*row, f"{year}-W{week:02d}", day))
        columns = (*given.columns, Column("week", "category"), Column("weekday", "number"))
        table = Table(place.out(".csv"), columns, tuple(rows))
        one = given.names[which]
        text = (
            f"Add two last columns to `{given.path}`: week, the ISO 8601 week of {one} (such as `2026-W07`), and weekday "
            f"(1 is Monday, 7 Sunday). Write `{table.path}`."
        )
        solve = f"""python3 - <<'PY'
from tools import read, write
import time
rows = read("{given.path}")
for row in rows:
    t = time.strptime(row["{one}"], "%Y-%m-%d")
    row["week"], row["weekday"] = time.strftime("%G-W%V", t), time.strftime("%u", t)
write("{table.path}", {list(table.names)}, rows)
PY"""
        return Step(table, text, solve)


NODE = AddWeek()
