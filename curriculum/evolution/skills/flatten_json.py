"""Nested JSON events become a flat table."""

import json

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.fixtures import CITIES, WORDS, day, email
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File

COLUMNS = (
    Column("event", "id"),
    Column("day", "date"),
    Column("email", "email"),
    Column("plan", "category"),
    Column("city", "category"),
    Column("units", "number"),
)


class FlattenJson(Source):
    gives, skill = Table, "json: nested objects to rows"

    def step(self, rng, place, given):
        events, rows = [], []
        plans = rng.sample(WORDS, 3)
        for number in range(rng.randint(25, 40)):
            user = {"email": email(rng), "plan": rng.choice(plans), "address": {"city": rng.choice(CITIES)}}
            items = [rng.randint(1, 30) for _ in range(rng.randint(0, 4))]
            event = {
                "id": f"E{number:03d}",
                "at": f"{day(rng)}T08:00:00Z",
                "user": user,
                "items": [{"units": n} for n in items],
            }
            if rng.random() < 0.2:
                del user["address"]
            events.append(event)
            city = user["address"]["city"] if "address" in user else "unknown"
            rows.append((event["id"], event["at"][:10], user["email"], user["plan"], city, sum(items)))
        table, source = Table(place.out(".csv"), COLUMNS, tuple(rows)), place.data("events.json")
        text = (
            f"Flatten the events in `{source}` into `{table.path}`, one row an event, with the columns "
            f"{', '.join(table.names)}: `id`, the day of `at` (YYYY-MM-DD), the user's `email` and `plan`, the city of "
            "the user's `address` (`unknown` where there is none), and the sum of `units` over the event's `items`."
        )
        solve = f"""python3 - <<'PY'
import json
from tools import write
rows = []
for e in json.load(open("{source}", encoding="utf-8")):
    user = e["user"]
    city = user.get("address", {{}}).get("city", "unknown")
    units = sum(item["units"] for item in e["items"])
    rows.append(dict(event=e["id"], day=e["at"][:10], email=user["email"], plan=user["plan"], city=city, units=units))
write("{table.path}", {list(table.names)}, rows)
PY"""
        return Step(
            table,
            text,
            solve,
            fixture={source: File(json.dumps(events, ensure_ascii=False, indent=1).encode())},
        )


NODE = FlattenJson()
