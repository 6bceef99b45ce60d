"""An access log is given."""

from curriculum.evolution.artifacts import Log
from curriculum.evolution.fixtures import log_lines
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File


class AccessLog(Source):
    gives, skill = Log, "a given log"
    works = False

    def step(self, rng, place, given):
        log = Log(place.data("access.log"), tuple(log_lines(rng, rng.randint(60, 120))))
        return Step(log, fixture={log.path: File(("\n".join(log.lines) + "\n").encode())})


NODE = AccessLog()
