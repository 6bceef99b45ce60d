"""Logs of several machines, some compressed, become one in order of time."""

from curriculum.evolution.artifacts import Log
from curriculum.evolution.fixtures import log_lines
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File


class MergeLogs(Source):
    gives, skill = Log, "gzip, sort: merge logs by time"

    def step(self, rng, place, given):
        lines = log_lines(rng, rng.randint(80, 120))
        count = rng.randint(3, 5)
        parts: list[list[str]] = [[] for _ in range(count)]
        for line in lines:
            rng.choice(parts).append(line)
        folder, fixture, setup = place.data("hosts"), {}, []
        for number, part in enumerate(parts):
            path = f"{folder}/host{number}.log"
            fixture[path] = File("".join(line + "\n" for line in part).encode())
            if rng.random() < 0.5 or number == 0:
                setup.append(f"gzip -n {path}")
        log = Log(place.out(".log"), tuple(lines))
        text = (
            f"Merge all logs in `{folder}` (some are compressed with gzip) into `{log.path}`, in order of the time that "
            "stands in brackets. No two lines have the same time."
        )
        solve = f"""{{ cat {folder}/*.log 2>/dev/null || true; gzip -dc {folder}/*.gz; }} | sort -t'[' -k2,2 > {log.path}"""
        return Step(log, text, solve, fixture=fixture, setup=tuple(setup))


NODE = MergeLogs()
