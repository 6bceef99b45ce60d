"""A function is renamed in all sources, its namesakes are not."""

import re

from curriculum.evolution.artifacts import Tree
from curriculum.evolution.pipeline import Step, Transform
from curriculum.evolution.sandbox import File


class RenameSymbol(Transform):
    takes, gives, skill = Tree, Tree, "sed: rename a symbol"

    def symbols(self, given) -> list[str]:
        text = "\n".join(f.data.decode() for name, f in given.files.items() if name.endswith(".py"))
        return sorted(set(re.findall(r"def (\w+_count)\(", text)))

    def accepts(self, given):
        return super().accepts(given) and bool(self.symbols(given))

    def step(self, rng, place, given):
        old = rng.choice(self.symbols(given))
        new = rng.choice(("tally", "measure", "census")) + "_" + old.partition("_")[0]
        files = {}
        for name, file in given.files.items():
            data = (
                re.sub(rf"\b{old}\b", new, file.data.decode()).encode() if name.endswith(".py") else file.data
            )
            files[name] = File(data, file.mode)
        tree = Tree(place.out(""), files, given.modes)
        text = (
            f"Copy the folder `{given.path}` to `{tree.path}`, with permissions, and in the copy rename the function `{old}` "
            f"to `{new}` in all `.py` files, in comments too; names that only contain `{old}` (such as `{old}_all`) stay."
        )
        solve = f"""cp -rp {given.path} {tree.path}
find {tree.path} -name '*.py' -exec sed -i 's/\\b{old}\\b/{new}/g' {{}} +"""
        return Step(tree, text, solve)


NODE = RenameSymbol()
