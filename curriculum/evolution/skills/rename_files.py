"""Names of files follow one rule."""

from curriculum.evolution.artifacts import Tree
from curriculum.evolution.pipeline import Step, Transform


class RenameFiles(Transform):
    takes, gives, skill = Tree, Tree, "mv: rename files with spaces"

    def accepts(self, given):
        if not super().accepts(given):
            return False
        new = [self.rename(name) for name in given.files]
        return len(set(new)) == len(new) and new != list(given.files)

    def rename(self, name: str) -> str:
        folder, slash, base = name.rpartition("/")
        return folder + slash + base.lower().replace(" ", "_")

    def step(self, rng, place, given):
        tree = Tree(
            place.out(""), {self.rename(name): file for name, file in given.files.items()}, given.modes
        )
        text = (
            f"Copy the folder `{given.path}` to `{tree.path}`, with permissions, and in the copy rename the files (not the "
            "folders): capital letters become small ones, every space becomes `_`."
        )
        solve = f"""cp -rp {given.path} {tree.path}
find {tree.path} -type f -print0 | while IFS= read -r -d '' f; do
  base=$(basename "$f"); new=$(printf %s "$base" | tr 'A-Z ' 'a-z_')
  [ "$base" = "$new" ] || mv "$f" "$(dirname "$f")/$new"
done"""
        return Step(tree, text, solve)


NODE = RenameFiles()
