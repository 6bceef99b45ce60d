"""Part of a folder is packed."""

from curriculum.evolution.artifacts import Archive, Tree
from curriculum.evolution.pipeline import Step, Transform


class ArchiveTree(Transform):
    takes, gives, skill = Tree, Archive, "tar: pack with exceptions"

    def accepts(self, given):
        return super().accepts(given) and len({name.rpartition(".")[2] for name in given.files}) >= 2

    def step(self, rng, place, given):
        out = rng.choice(sorted({name.rpartition(".")[2] for name in given.files}))
        files = {name: file for name, file in given.files.items() if not name.endswith(f".{out}")}
        archive = Archive(place.out(".tar.gz"), files)
        text = (
            f"Pack the files below `{given.path}`, but none whose name ends in `.{out}`, into `{archive.path}` (tar, compressed "
            "with gzip), under their paths from the folder."
        )
        solve = f"tar -czf {archive.path} -C {given.path} --exclude='*.{out}' ."
        return Step(archive, text, solve)


NODE = ArchiveTree()
