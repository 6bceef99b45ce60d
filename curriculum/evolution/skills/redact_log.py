"""Addresses in a log are replaced, the same by the same."""

from curriculum.evolution.artifacts import Log
from curriculum.evolution.pipeline import Step, Transform


class RedactLog(Transform):
    takes, gives, skill = Log, Log, "awk: consistent replacement"

    def step(self, rng, place, given):
        word = rng.choice(("client", "visitor", "host"))
        names: dict = {}
        lines = []
        for line in given.lines:
            address, _, rest = line.partition(" ")
            names.setdefault(address, f"{word}{len(names) + 1}")
            lines.append(f"{names[address]} {rest}")
        log = Log(place.out(".log"), tuple(lines))
        text = (
            f"Write `{given.path}` to `{log.path}` with every address replaced: the first that occurs becomes `{word}1`, the "
            f"next new one `{word}2`, and so on; the same address always becomes the same name."
        )
        solve = f"""awk '{{ a = $1; if (!(a in n)) n[a] = ++k; print "{word}" n[a] substr($0, length(a) + 1) }}' {given.path} > {log.path}"""
        return Step(log, text, solve)


NODE = RedactLog()
