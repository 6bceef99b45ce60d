"""Words over all files of a folder are counted."""

import re
from collections import Counter

from curriculum.evolution.artifacts import Column, Table, Tree
from curriculum.evolution.pipeline import Step, Transform


class CountWords(Transform):
    takes, gives, skill = Tree, Table, "grep, sort, uniq: word counts"

    def accepts(self, given):
        return super().accepts(given) and sum(name.endswith(".md") for name in given.files) >= 2

    def step(self, rng, place, given):
        least = rng.choice((4, 5, 6))
        counts: Counter = Counter()
        within: Counter = Counter()
        for name, file in given.files.items():
            if name.endswith(".md"):
                words = re.findall(r"[a-z]+", file.data.decode().lower())
                counts.update(word for word in words if len(word) >= least)
                within.update({word for word in words if len(word) >= least})
        rows = tuple(
            sorted(((w, n, within[w]) for w, n in counts.items()), key=lambda row: (-row[1], row[0]))
        )
        table = Table(
            place.out(".tsv"),
            (Column("word", "category"), Column("times", "number"), Column("files", "number")),
            rows,
        )
        text = (
            f"Count the words in all `.md` files below `{given.path}`: a word is a longest run of the letters a to z, in small "
            f"letters, of at least {least} letters. Write `{table.path}` with the columns word, times, files (in how many "
            "files it occurs), most frequent first, then by word."
        )
        solve = f"""cd {given.path}
find . -name '*.md' -print0 | while IFS= read -r -d '' f; do
  tr A-Z a-z < "$f" | LC_ALL=C grep -oE '[a-z]+' | awk -v f="$f" 'length($0) >= {least} {{ print $0 "\\t" f }}'
done | awk -F'\\t' '{{ n[$1]++; if (!seen[$0]++) d[$1]++ }} END {{ for (w in n) print w "\\t" n[w] "\\t" d[w] }}' |
  LC_ALL=C sort -t$'\\t' -k2,2nr -k1,1 | {{ printf 'word\\ttimes\\tfiles\\n'; cat; }} > {table.path}
cd /app"""
        return Step(table, text, solve)


NODE = CountWords()
