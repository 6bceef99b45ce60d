"""Archives within archives are unpacked."""

from curriculum.evolution.artifacts import Tree
from curriculum.evolution.fixtures import below, documents
from curriculum.evolution.pipeline import Source, Step


class UnpackNested(Source):
    gives, skill = Tree, "tar, gzip, xz: nested archives"
    packages = ("xz-utils", "bzip2")

    def step(self, rng, place, given):
        files = documents(rng, rng.randint(10, 16))
        names = sorted(files)
        half = rng.randint(3, len(names) - 3)
        raw, source = place.data("raw"), place.data("backup.tar")
        inner, outer = names[:half], names[half:]
        fixture = below(f"{raw}/inner", {n: files[n] for n in inner}) | below(
            f"{raw}/outer", {n: files[n] for n in outer}
        )
        kind, flag = rng.choice((("tar.gz", "z"), ("tar.xz", "J"), ("tar.bz2", "j")))
        tar = "tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner"
        setup = (
            f"cd {raw}/inner && {tar} -c{flag}f ../outer/more.{kind} .",
            f"cd {raw}/outer && {tar} -cf {source} . && cd / && rm -r {raw}",
        )
        tree = Tree(place.out(""), files)
        text = (
            f"Unpack `{source}` into the folder `{tree.path}`. It holds another archive, `more.{kind}`: unpack that into the "
            "same folder too, and remove it there."
        )
        solve = f"""mkdir -p {tree.path}
tar -xf {source} -C {tree.path}
tar -xf {tree.path}/more.{kind} -C {tree.path}
rm {tree.path}/more.{kind}"""
        return Step(tree, text, solve, fixture=fixture, setup=setup)


NODE = UnpackNested()
