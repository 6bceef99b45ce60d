import os
import sys
from collections import Counter

errors = Counter()
for name in ("service.log", "service.log.1", "service.log.2"):
    with open(f"/tests/logs/{name}", encoding="utf-8") as lines:
        for line in lines:
            _, service, level, _ = line.split(" ", 3)
            errors[service] += level == "ERROR"
rows = sorted(((n, s) for s, n in errors.items() if n), key=lambda row: (-row[0], row[1]))
wanted = "service,errors\n" + "".join(f"{service},{n}\n" for n, service in rows)
path = "/app/report.csv"
if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > 10_000:
    sys.exit("report.csv is missing")
with open(path, encoding="utf-8", errors="replace") as file:
    got = file.read()
if got.replace("\r\n", "\n").rstrip("\n") != wanted.rstrip("\n"):
    sys.exit(f"wanted\n{wanted}got\n{got}")
