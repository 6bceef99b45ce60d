"""Requests and errors per path."""

from curriculum.evolution.artifacts import Column, Log, Table
from curriculum.evolution.pipeline import Step, Transform


class ErrorRate(Transform):
    takes, gives, skill = Log, Table, "awk: rates from a log"

    def step(self, rng, place, given):
        least = rng.choice((400, 500))
        seen: dict = {}
        for line in given.lines:
            parts = line.split(" ")
            path, status = parts[5][:-1], int(parts[6])
            all_of, errors = seen.get(path, (0, 0))
            seen[path] = (all_of + 1, errors + (status >= least))
        columns = (
            Column("path", "category"),
            Column("requests", "number"),
            Column("errors", "number"),
            Column("permille", "number"),
        )
        rows = tuple((p, n, e, 1000 * e // n) for p, (n, e) in sorted(seen.items()))
        table = Table(place.out(".csv"), columns, rows)
        text = (
            f"Write `{table.path}` with the columns {', '.join(table.names)}, one row for each path in `{given.path}`, sorted "
            f"by path in the order of code points: how many requests it had, how many of them with status {least} or more, "
            "and the second by the first in thousandths, rounded down."
        )
        solve = f"""{{ echo {",".join(table.names)}
awk '{{ p = substr($6, 1, length($6) - 1); n[p]++; e[p] += $7 >= {least} }}
  END {{ for (p in n) print p "," n[p] "," e[p] "," int(1000 * e[p] / n[p]) }}' {given.path} | LC_ALL=C sort -t, -k1,1; }} > {table.path}"""
        return Step(table, text, solve)


NODE = ErrorRate()
