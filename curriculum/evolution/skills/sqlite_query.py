"""A query over two tables of a SQLite database."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.fixtures import CITIES, FIRST, LAST, day
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File

COLUMNS = (
    Column("invoice", "id"),
    Column("issued", "date"),
    Column("client", "text"),
    Column("city", "category"),
    Column("total", "number"),
)


class SqliteQuery(Source):
    gives, skill = Table, "sqlite: join and aggregate"

    def step(self, rng, place, given):
        clients = [(i, f"{rng.choice(FIRST)} {rng.choice(LAST)}", rng.choice(CITIES)) for i in range(1, 13)]
        invoices, lines, rows = [], [], []
        for number in range(1, rng.randint(30, 45)):
            client, issued = rng.choice(clients), day(rng)
            amounts = [(rng.randint(1, 9), rng.randint(50, 5000)) for _ in range(rng.randint(0, 4))]
            invoices.append((number, client[0], issued))
            lines += [(number, quantity, price) for quantity, price in amounts]
            if amounts:
                rows.append((f"R{number}", issued, client[1], client[2], sum(q * p for q, p in amounts)))
        script = ["CREATE TABLE client (id INTEGER PRIMARY KEY, name TEXT, city TEXT);"]
        script += ["CREATE TABLE invoice (id INTEGER PRIMARY KEY, client INTEGER, issued TEXT);"]
        script += ["CREATE TABLE line (invoice INTEGER, quantity INTEGER, price INTEGER);"]
        for name, values in (("client", clients), ("invoice", invoices), ("line", lines)):
            quoted = [
                ", ".join(
                    f"'{v.replace(chr(39), chr(39) * 2)}'" if isinstance(v, str) else str(v) for v in row
                )
                for row in values
            ]
            script += [f"INSERT INTO {name} VALUES ({row});" for row in quoted]
        source, base = place.data("make.sql"), place.data("billing.db")
        table = Table(place.out(".csv"), COLUMNS, tuple(rows))
        text = (
            f"The SQLite database `{base}` has the tables `client`, `invoice` and `line` (invoice lines: quantity and unit "
            f"price). Write `{table.path}` with the columns {', '.join(table.names)}: one row for each invoice that has "
            "lines, by rising invoice number; `invoice` is `R` and the number, `total` the sum of quantity times price."
        )
        solve = f"""python3 - <<'PY'
import sqlite3
from tools import write
found = sqlite3.connect("file:{base}?mode=ro", uri=True).execute(
    "SELECT 'R' || i.id, i.issued, c.name, c.city, SUM(l.quantity * l.price) FROM invoice i"
    " JOIN client c ON c.id = i.client JOIN line l ON l.invoice = i.id GROUP BY i.id ORDER BY i.id")
names = {list(table.names)}
write("{table.path}", names, [dict(zip(names, row)) for row in found])
PY"""
        build = f"python3 -c \"import sqlite3; sqlite3.connect('{base}').executescript(open('{source}').read())\" && rm {source}"
        return Step(table, text, solve, fixture={source: File("\n".join(script).encode())}, setup=(build,))


NODE = SqliteQuery()
