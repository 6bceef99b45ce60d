"""A copy of a folder gets the permissions that a rule asks for."""

from curriculum.evolution.artifacts import Tree
from curriculum.evolution.pipeline import Step, Transform
from curriculum.evolution.sandbox import File


class FixPermissions(Transform):
    takes, gives, skill = Tree, Tree, "chmod, find: permissions"

    def accepts(self, given):
        return super().accepts(given) and not given.modes and len(given.files) >= 3

    def step(self, rng, place, given):
        scripts, folders = rng.choice((0o755, 0o750, 0o700)), rng.choice((0o755, 0o750, 0o700))
        others = rng.choice((0o644, 0o640, 0o600))
        files = {
            name: File(f.data, scripts if name.endswith(".sh") else others) for name, f in given.files.items()
        }
        tree = Tree(place.out(""), files, modes=True)
        text = (
            f"Copy the folder `{given.path}` to `{tree.path}`. In the copy, files ending in `.sh` have the mode {scripts:o}, "
            f"all other files {others:o}, and all folders (`{tree.path}` too) {folders:o}."
        )
        solve = f"""cp -r {given.path} {tree.path}
find {tree.path} -type f -name '*.sh' -exec chmod {scripts:o} {{}} +
find {tree.path} -type f ! -name '*.sh' -exec chmod {others:o} {{}} +
find {tree.path} -type d -exec chmod {folders:o} {{}} +"""
        test = f"""for top, _, _ in os.walk("{tree.path}"):
    got = stat.S_IMODE(os.lstat(top).st_mode)
    if got != {folders}:
        raise Mismatch(f"{{top}}: mode {{got:o}}, wanted {folders:o}")"""
        return Step(tree, text, solve, test)


NODE = FixPermissions()
