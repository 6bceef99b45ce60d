"""A folder of notes and small programs is given."""

from curriculum.evolution.artifacts import Tree
from curriculum.evolution.fixtures import below, documents
from curriculum.evolution.pipeline import Source, Step


class DocumentTree(Source):
    gives, skill = Tree, "a given folder"
    works = False

    def step(self, rng, place, given):
        tree = Tree(place.data("docs"), documents(rng, rng.randint(12, 20)))
        return Step(tree, fixture=below(tree.path, tree.files))


NODE = DocumentTree()
