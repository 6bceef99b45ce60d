"""A shell script with faults is repaired, and run."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.fixtures import WORDS
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File

GOOD = """#!/bin/bash
# usage: tally.sh FILE: how often each first word of a line occurs, most frequent first, then by word
set -eu
echo "word,times"
cut -d' ' -f1 "$1" | sort | uniq -c | sort -k1,1nr -k2,2 | while read -r times word; do
  echo "$word,$times"
done
"""
FAULTS = (
    (' "$1" |', " $1 |"),
    ("| sort | uniq", "| uniq"),
    ("-k1,1nr", "-k1,1r"),
    ('"$word,$times"', '"$times,$word"'),
    ("\ndone", "\ndnoe"),
)


class BrokenScript(Source):
    gives, skill = Table, "bash: repair a script"

    def sample(self, rng, count):
        first = rng.sample(WORDS, 10)
        weights = [1.4**i for i in range(10)]
        return [" ".join([rng.choices(first, weights)[0], *rng.choices(WORDS, k=3)]) for _ in range(count)]

    def tally(self, lines):
        words = [line.split(" ")[0] for line in lines]
        return tuple(sorted(((w, words.count(w)) for w in set(words)), key=lambda row: (-row[1], row[0])))

    def step(self, rng, place, given):
        script, source = place.data("tally.sh"), place.data("my notes.txt")
        broken = GOOD
        for good, bad in rng.sample(FAULTS, rng.randint(2, 4)):
            broken = broken.replace(good, bad)
        lines, others = self.sample(rng, 60), self.sample(rng, 80)
        table = Table(
            place.out(".csv"), (Column("word", "category"), Column("times", "number")), self.tally(lines)
        )
        wanted = Table(table.path, table.columns, self.tally(others)).file().data.decode()
        text = (
            f"`{script}` should do what its first comment says, for files with any name, and print CSV with the columns "
            f"word, times. Repair it in place, run it on `{source}` and write what it prints to `{table.path}`. The script "
            "is also tried on another file."
        )
        repaired = GOOD.replace("$", "\\$")
        solve = f"cat > {script} <<SH\n{repaired}SH\nbash {script} '{source}' > {table.path}"
        test = f"""lines = {"".join(line + chr(10) for line in others)!r}
printed = output(["bash", "-c", 'cat > "/tmp/an other"; bash {script} "/tmp/an other"'], lines.encode())
if printed.decode(errors="replace") != {wanted!r}:
    raise Mismatch("{script} prints something else for another file")"""
        fixture = {
            script: File(broken.encode(), 0o755),
            source: File("".join(line + "\n" for line in lines).encode()),
        }
        return Step(table, text, solve, test, fixture=fixture)


NODE = BrokenScript()
