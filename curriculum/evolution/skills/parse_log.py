"""Log lines become rows."""

from curriculum.evolution.artifacts import Column, Log, Table
from curriculum.evolution.pipeline import Step, Transform

COLUMNS = (
    Column("time", "id"),
    Column("day", "date"),
    Column("address", "category"),
    Column("method", "category"),
    Column("path", "text"),
    Column("status", "category"),
    Column("bytes", "number"),
)


class ParseLog(Transform):
    takes, gives, skill = Log, Table, "regular expressions: parse a log"

    def step(self, rng, place, given):
        rows = []
        for line in given.lines:
            address, _, _, time, method, path, status, size = line.split(" ")
            rows.append((time[1:-1], time[1:11], address, method[1:], path[:-1], status, int(size)))
        table = Table(place.out(".csv"), COLUMNS, tuple(rows))
        text = (
            f"Turn the lines of `{given.path}` into rows of `{table.path}` with the columns {', '.join(table.names)}: time "
            "as it stands in brackets, day its first ten characters, then address, method, path, status and size in bytes."
        )
        solve = f"""{{ echo {",".join(table.names)}
sed -E 's/^([^ ]+) - - \\[(.{{10}})([^]]*)\\] "([A-Z]+) ([^ ]+)" ([0-9]+) ([0-9]+)$/\\2\\3,\\2,\\1,\\4,\\5,\\6,\\7/' {given.path}; }} > {table.path}"""
        return Step(table, text, solve)


NODE = ParseLog()
