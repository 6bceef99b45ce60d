"""Made-up content for fixtures: people, places, orders, log lines, documents."""

import datetime
import random

from curriculum.evolution.artifacts import Column
from curriculum.evolution.sandbox import File

FIRST = (
    "Ada",
    "Bo",
    "Chiara",
    "Dmitri",
    "Émile",
    "Fatima",
    "Günter",
    "Hana",
    "Iñigo",
    "Jóhanna",
    "Kofi",
    "Linh",
)
LAST = ("Okafor", "Strauß", "Nguyen", "Silva", "Åberg", "Kowalski", "O'Neil", "Tanaka", "Moreau", "Peña")
CITIES = ("Lyon", "Kraków", "Osaka", "Accra", "Quito", "Tromsø", "Perth", "Izmir")
STATES = ("open", "paid", "shipped", "returned", "cancelled")
WORDS = (
    "harbor",
    "lantern",
    "meadow",
    "copper",
    "willow",
    "signal",
    "quartz",
    "ember",
    "orchard",
    "cinder",
    "delta",
    "raven",
)
PATHS = ("/", "/login", "/cart", "/api/items", "/api/orders", "/static/app.js", "/help", "/search")
ORDER_COLUMNS = (
    Column("order_id", "id"),
    Column("placed", "date"),
    Column("customer", "text"),
    Column("email", "email"),
    Column("city", "category"),
    Column("state", "category"),
    Column("cents", "number"),
)


def email(rng: random.Random) -> str:
    return f"{rng.choice(WORDS)}.{rng.choice(WORDS)}{rng.randint(1, 99)}@{rng.choice(WORDS)}.example"


def day(rng: random.Random) -> str:
    return (datetime.date(2026, 1, 1) + datetime.timedelta(rng.randrange(300))).isoformat()


def orders(rng: random.Random, count: int) -> list[tuple]:
    """Rows of ORDER_COLUMNS, in no order; ids are unique, some customers have commas in their name."""
    ids = rng.sample(range(1000, 9999), count)
    cities = rng.sample(CITIES, rng.randint(4, 6))
    rows = []
    for number in ids:
        name = f"{rng.choice(FIRST)} {rng.choice(LAST)}"
        if rng.random() < 0.15:
            name = ", ".join(reversed(name.split(" ")))
        rows.append(
            (
                f"A{number}",
                day(rng),
                name,
                email(rng),
                rng.choice(cities),
                rng.choice(STATES),
                rng.randint(100, 99_999),
            )
        )
    return rows


def log_lines(rng: random.Random, count: int) -> list[str]:
    """Access log lines, in strict order of time."""
    addresses = [
        f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randint(1, 254)}"
        for _ in range(rng.randint(5, 9))
    ]
    moment = datetime.datetime(2026, 3, 1, rng.randrange(20), rng.randrange(60))
    lines = []
    for _ in range(count):
        moment += datetime.timedelta(seconds=rng.randint(1, 90))
        status = rng.choice((200, 200, 200, 304, 404, 404, 500, 503))
        lines.append(
            f"{rng.choice(addresses)} - - [{moment:%Y-%m-%dT%H:%M:%SZ}] "
            f'"{rng.choice(("GET", "GET", "POST"))} {rng.choice(PATHS)}" {status} {rng.randint(0, 50_000)}'
        )
    return lines


def documents(rng: random.Random, count: int) -> dict[str, File]:
    """Notes, Python and shell files in nested folders; some names have spaces and capitals, some contents are twins."""
    files: dict[str, File] = {}
    while len(files) < count:
        folder = "/".join(rng.sample(WORDS, rng.randint(0, 2)))
        one, two = rng.sample(WORDS, 2)
        kind = rng.choice(("md", "md", "py", "sh"))
        stem = rng.choice((f"{one}_{two}", f"{one} {two}", f"{one.title()}-{two}", one))
        if kind == "md":
            body = f"# {one}\n\n" + "\n".join(
                " ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(rng.randint(2, 6))
            )
        elif kind == "py":
            body = (
                f"def {one}_count(rows):\n    return len(rows)\n\n\ndef {one}_count_all(rows):\n"
                f"    # {one}_count for every row\n    return [{one}_count(row) for row in rows]"
            )
        else:
            body = f"#!/bin/sh\necho {one} {two}"
        if files and rng.random() < 0.2:
            twin = rng.choice(sorted(files))
            if twin.endswith(kind):
                body = files[twin].data.decode().rstrip("\n")
        name = f"{folder}/{stem}.{kind}".lstrip("/")
        taken = {other.lower().replace(" ", "_") for other in files}
        if name.lower().replace(" ", "_") not in taken and not any(f"{name}/" in other for other in files):
            files[name] = File((body + "\n").encode())
    return files


def below(folder: str, files: dict[str, File]) -> dict[str, File]:
    return {f"{folder}/{name}": file for name, file in files.items()}
