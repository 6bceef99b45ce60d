"""A checksum manifest is made and another one checked."""

import hashlib

from curriculum.evolution.artifacts import Column, Table, Tree
from curriculum.evolution.pipeline import Step, Transform
from curriculum.evolution.sandbox import File


class ChecksumManifest(Transform):
    takes, gives, skill = Tree, Table, "sha256sum: manifests"

    def accepts(self, given):
        return super().accepts(given) and len(given.files) >= 3

    def step(self, rng, place, given):
        listed, rows = [], []
        for name, file in sorted(given.files.items()):
            digest = hashlib.sha256(file.data).hexdigest()
            state = rng.choice(("same", "same", "changed", "new"))
            if state != "new":
                listed.append(
                    (digest if state == "same" else hashlib.sha256(digest.encode()).hexdigest(), name)
                )
            rows.append((name, state, len(file.data)))
        gone = f"gone-{rng.randint(100, 999)}.md"
        listed.append((hashlib.sha256(gone.encode()).hexdigest(), gone))
        rows.append((gone, "missing", 0))
        rng.shuffle(listed)
        manifest = place.data("SHA256SUMS")
        columns = (Column("file", "id"), Column("state", "category"), Column("size", "number"))
        table = Table(place.out(".csv"), columns, tuple(sorted(rows)))
        text = (
            f"Compare the folder `{given.path}` with the manifest `{manifest}` (as `sha256sum` writes it, paths from the "
            f"folder). Write `{table.path}` with the columns file, state, size: one row for each file that is in either, "
            "sorted by path in the order of code points; state is same, changed, new (not in the manifest) or missing (not "
            "in the folder), size is in bytes, 0 where the file is missing."
        )
        solve = f"""python3 - <<'PY'
import hashlib, pathlib
from tools import write
old = dict(reversed(line.rstrip("\\n").split("  ", 1)) for line in open("{manifest}", encoding="utf-8"))
top, rows = pathlib.Path("{given.path}"), []
for path in top.rglob("*"):
    if path.is_file():
        name, data = path.relative_to(top).as_posix(), path.read_bytes()
        was = old.pop(name, None)
        state = "new" if was is None else "same" if was == hashlib.sha256(data).hexdigest() else "changed"
        rows.append(dict(file=name, state=state, size=len(data)))
rows += [dict(file=name, state="missing", size=0) for name in old]
write("{table.path}", ["file", "state", "size"], sorted(rows, key=lambda row: row["file"]))
PY"""
        lines = "".join(f"{digest}  {name}\n" for digest, name in listed)
        return Step(table, text, solve, fixture={manifest: File(lines.encode())})


NODE = ChecksumManifest()
