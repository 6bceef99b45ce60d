"""Files with the same content are found."""

from curriculum.evolution.artifacts import Column, Table, Tree
from curriculum.evolution.pipeline import Step, Transform


class DuplicateFiles(Transform):
    takes, gives, skill = Tree, Table, "find: files with the same content"

    def accepts(self, given):
        return super().accepts(given) and len({file.data for file in given.files.values()}) < len(given.files)

    def step(self, rng, place, given):
        groups: dict = {}
        for name, file in sorted(given.files.items()):
            groups.setdefault(file.data, []).append(name)
        twins = [group for group in groups.values() if len(group) > 1]
        rows = tuple(sorted((name, group[0], len(group)) for group in twins for name in group))
        table = Table(
            place.out(".csv"),
            (Column("file", "id"), Column("first", "category"), Column("copies", "number")),
            rows,
        )
        text = (
            f"Find the files in `{given.path}` whose content another file there has too. Write `{table.path}` with the "
            "columns file (its path from the folder), first (the first of the files with that content), copies (how many "
            "there are), sorted by file; all in the order of code points."
        )
        solve = f"""cd {given.path}
{{ echo file,first,copies
find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | awk '
  {{ h = substr($0, 1, 64); f = substr($0, 67); n[h]++; if (n[h] == 1) first[h] = f; file[NR] = f; hash[NR] = h }}
  END {{ for (i = 1; i <= NR; i++) if (n[hash[i]] > 1) print file[i] "," first[hash[i]] "," n[hash[i]] }}'; }} > {table.path}
cd /app"""
        return Step(table, text, solve)


NODE = DuplicateFiles()
