"""An export of an old program becomes clean CSV: encoding, separators, line ends, decimal commas."""

from curriculum.evolution.artifacts import Table
from curriculum.evolution.fixtures import ORDER_COLUMNS, orders
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File

ENCODINGS = {"utf-16": "UTF-16 with a byte order mark", "cp1252": "Windows-1252", "iso-8859-1": "ISO 8859-1"}
LATIN = str.maketrans({"ó": "o", "ø": "ö"})


class LegacyEncoding(Source):
    gives, skill = Table, "iconv: encodings and separators"

    def step(self, rng, place, given):
        rows = [
            tuple(v.translate(LATIN) if isinstance(v, str) else v for v in row)
            for row in orders(rng, rng.randint(30, 45))
        ]
        encoding = rng.choice(sorted(ENCODINGS))
        lines = [";".join(column.name for column in ORDER_COLUMNS)]
        lines += [";".join([*row[:-1], f"{row[-1] // 100},{row[-1] % 100:02d}"]) for row in rows]
        source, table = place.data("export.txt"), Table(place.out(".csv"), ORDER_COLUMNS, tuple(rows))
        text = (
            f"`{source}` is an export in {ENCODINGS[encoding]}: fields separated by semicolons and never quoted, lines "
            f"that end in CR LF. Write it as CSV to `{table.path}`. The last column, `cents`, holds amounts such as "
            "`12,05` in the export; write them in whole cents (`1205`)."
        )
        solve = f"""iconv -f {encoding.upper()} -t UTF-8 {source} | tr -d '\\r' > /tmp/export.txt
python3 - <<'PY'
from tools import write
head, *lines = open("/tmp/export.txt", encoding="utf-8").read().splitlines()
names = head.split(";")
rows = [dict(zip(names, line.split(";"))) for line in lines]
for row in rows:
    row["cents"] = row["cents"].replace(",", "").lstrip("0") or "0"
write("{table.path}", names, rows)
PY
rm /tmp/export.txt"""
        return Step(
            table,
            text,
            solve,
            fixture={source: File("".join(line + "\r\n" for line in lines).encode(encoding))},
        )


NODE = LegacyEncoding()
