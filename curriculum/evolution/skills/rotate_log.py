"""A log is rotated: parts, numbers, compression."""

from curriculum.evolution.artifacts import Log, Tree
from curriculum.evolution.pipeline import Step, Transform
from curriculum.evolution.sandbox import File


class RotateLog(Transform):
    takes, gives, skill = Log, Tree, "split, gzip: rotate a log"

    def step(self, rng, place, given):
        size = rng.choice((15, 20, 25))
        parts = [given.lines[i : i + size] for i in range(0, len(given.lines), size)]
        name = given.path.rpartition("/")[2]
        files = {}
        for age, part in enumerate(reversed(parts)):
            files[f"{name}.{age}" if age else name] = File("".join(line + "\n" for line in part).encode())
        packed = [
            name for name in files if name.rpartition(".")[2].isdigit() and int(name.rpartition(".")[2]) >= 2
        ]
        tree = Tree(place.out(""), files)
        text = (
            f"Cut `{given.path}` into parts of {size} lines from its start (the last may be shorter) and put them into the "
            f"folder `{tree.path}`: the last part as `{name}`, the one before it as `{name}.1`, then `{name}.2` and so on. "
            f"Into `{tree.path}_gz` put the parts from `.2` on compressed with gzip, as `{name}.2.gz` and so on."
        )
        solve = f"""mkdir -p {tree.path} {tree.path}_gz
total=$(wc -l < {given.path}); parts=$(( (total + {size} - 1) / {size} ))
for ((i = 0; i < parts; i++)); do
  age=$((parts - 1 - i)); to={tree.path}/{name}; [ $age = 0 ] || to=$to.$age
  sed -n "$((i * {size} + 1)),$(((i + 1) * {size}))p" {given.path} > $to
  [ $age -lt 2 ] || gzip -nc $to > {tree.path}_gz/{name}.$age.gz
done"""
        wanted = {f"{one}.gz": files[one].data.decode() for one in packed}
        test = f"""import gzip, zlib
wanted = {wanted!r}
if files_below("{tree.path}_gz") != sorted(wanted):
    raise Mismatch("{tree.path}_gz: other files than wanted")
for name, content in wanted.items():
    try:
        found = gzip.decompress(data("{tree.path}_gz/" + name))
    except (OSError, EOFError, zlib.error) as error:
        raise Mismatch(f"{{name}} is no gzip: {{error}}") from None
    if found.decode(errors="replace") != content:
        raise Mismatch(f"{{name}}: other content than wanted")"""
        if not packed:
            text = text.rpartition(" Into ")[0]
            test = ""
        return Step(tree, text, solve, test)


NODE = RotateLog()
