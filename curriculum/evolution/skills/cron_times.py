"""A crontab is read: which jobs run on a day, and when."""

import datetime

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.fixtures import WORDS
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File


def values(text: str, low: int, high: int) -> set[int]:
    """What one field of a crontab matches."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, stride = part.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = map(int, span.split("-"))
        else:
            first = last = int(span)
        found.update(range(first, last + 1, int(stride or 1)))
    return found


class CronTimes(Source):
    gives, skill = Table, "cron: schedules"

    def step(self, rng, place, given):
        day = datetime.date(2026, rng.randint(1, 12), rng.randint(1, 28))
        lines, runs = ["# minute hour day-of-month month day-of-week command", "SHELL=/bin/sh", ""], []
        for name in rng.sample(WORDS, 7):
            minute = rng.choice(
                (str(rng.randrange(60)), "*/20", f"{rng.randrange(20)},{rng.randint(30, 59)}")
            )
            hour = rng.choice(
                (str(rng.randrange(24)), "8-12/2", "*/6", f"{rng.randrange(9)},{rng.randint(12, 23)}")
            )
            date = rng.choice(("*", "*", str(day.day), str(day.day % 28 + 1)))
            month = rng.choice(("*", "*", str(day.month), "1-6"))
            weekday = rng.choice(("*", "1-5", "0,6", str(day.isoweekday() % 7))) if date == "*" else "*"
            lines.append(f"{minute} {hour} {date} {month} {weekday} /opt/jobs/{name}")
            match = day.day in values(date, 1, 31) and day.month in values(month, 1, 12)
            if match and day.isoweekday() % 7 in values(weekday, 0, 6):
                runs += [
                    (f"{h:02d}:{m:02d}", name) for h in values(hour, 0, 23) for m in values(minute, 0, 59)
                ]
        lines.append(f"0 0 {day.day} {day.month} * /opt/jobs/yearly")
        runs.append(("00:00", "yearly"))
        rows = tuple((time, name, int(time[:2])) for time, name in sorted(runs))
        columns = (Column("time", "id"), Column("job", "category"), Column("hour", "number"))
        table, source = Table(place.out(".csv"), columns, rows), place.data("crontab")
        text = (
            f"Given the crontab `{source}` (weekdays from 0, Sunday), write `{table.path}`: every run on {day.isoformat()}, "
            "in order of time and then of the job's name, with the columns time (HH:MM), job (the last part of the "
            "command's path) and hour (a number without leading zeros)."
        )
        solve = f"""python3 - <<'PY'
import datetime
from tools import write
day = datetime.date.fromisoformat("{day.isoformat()}")
def match(field, value, first):
    for part in field.split(","):
        span, _, every = part.partition("/")
        low, _, high = span.partition("-")
        if span == "*":
            low, high = first, 99
        low, high = int(low), int(high or low)
        if low <= value <= high and (value - low) % int(every or 1) == 0:
            return True
    return False
runs = []
for line in open("{source}"):
    parts = line.split()
    if len(parts) != 6 or line.startswith("#"):
        continue
    minute, hour, date, month, weekday, command = parts
    if match(date, day.day, 1) and match(month, day.month, 1) and match(weekday, (day.weekday() + 1) % 7, 0):
        for t in range(1440):
            if match(hour, t // 60, 0) and match(minute, t % 60, 0):
                runs.append(dict(time="%02d:%02d" % divmod(t, 60), job=command.rsplit("/", 1)[1], hour=t // 60))
write("{table.path}", ["time", "job", "hour"], sorted(runs, key=lambda r: (r["time"], r["job"])))
PY"""
        return Step(table, text, solve, fixture={source: File(("\n".join(lines) + "\n").encode())})


NODE = CronTimes()
