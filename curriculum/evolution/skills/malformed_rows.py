"""Rows that do not follow the rules are set apart."""

from curriculum.evolution.artifacts import Table, dump
from curriculum.evolution.fixtures import ORDER_COLUMNS, orders
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File


class MalformedRows(Source):
    gives, skill = Table, "csv: validate rows"

    def step(self, rng, place, given):
        good, lines, bad = [], [], []
        for row in orders(rng, rng.randint(40, 60)):
            kind = rng.choice(("", "", "", "short", "number", "date", "id"))
            values = [str(value) for value in row]
            if kind == "short":
                values = values[:-1]
            elif kind == "number":
                values[-1] = rng.choice(("", "-5", "12.5", "n/a", "1e3"))
            elif kind == "date":
                values[1] = rng.choice(("2026-13-01", "2026-02-30", "01.02.2026", "2026-1-5"))
            elif kind == "id":
                values[0] = values[0][1:]
            lines.append(values)
            if kind:
                bad.append(len(lines) + 1)
            else:
                good.append(row)
        table, source = Table(place.out(".csv"), ORDER_COLUMNS, tuple(good)), place.data("orders.csv")
        rejects = place.out("_rejects.txt")
        text = (
            f"Check the rows of `{source}`. A row is good if it has seven fields, `order_id` is `A` and four digits, `placed` "
            "is a date of the calendar written YYYY-MM-DD, and `cents` is a whole number, digits only. Write the good rows to "
            f"`{table.path}`, and to `{rejects}` the line numbers of the others in `{source}`, one a line (the header is line 1)."
        )
        solve = f"""python3 - <<'PY'
import csv, datetime, re
good, bad = [], []
with open("{source}", encoding="utf-8", newline="") as file:
    head, *lines = csv.reader(file)
for number, row in enumerate(lines, 2):
    ok = len(row) == 7 and re.fullmatch(r"A[0-9]{{4}}", row[0]) and re.fullmatch(r"[0-9]+", row[6])
    ok = ok and re.fullmatch(r"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}", row[1])
    if ok:
        try:
            datetime.date.fromisoformat(row[1])
        except ValueError:
            ok = False
    good.append(row) if ok else bad.append(number)
with open("{table.path}", "w", encoding="utf-8", newline="") as file:
    csv.writer(file, lineterminator="\\n").writerows([head, *good])
open("{rejects}", "w").writelines("%d\\n" % n for n in bad)
PY"""
        wanted = "".join(f"{number}\n" for number in bad)
        test = f'if text("{rejects}").split() != {wanted.split()!r}:\n    raise Mismatch("{rejects}: other line numbers than wanted")'
        given_file = File(dump("csv", table.names, lines).encode())
        return Step(table, text, solve, test, fixture={source: given_file})


NODE = MalformedRows()
