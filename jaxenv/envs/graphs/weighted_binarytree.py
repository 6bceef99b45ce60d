"""Find the binary tree with a given inorder whose score, built up from products and sums, is greatest."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Grid
from jaxenv.core import Env, outcome
from jaxenv.solve.interval_trees import best, consistent, preorder, score
from jaxenv.sprites import Canvas

N, COLUMNS = 12, 4  # most nodes; cards in a row of the picture
MAX_SCORE = 20
BLANK = np.int32(N + MAX_SCORE)  # the sprite where no card lies
BACK, HEAD, FACE = (226, 224, 216), (58, 88, 128), (252, 252, 248)


@struct.dataclass
class State:
    value: Array  # i32[N] scores of the nodes, 1 .. 20; 0 = no such node
    n: Array  # i32[] nodes


class WeightedBinarytree(Env[State]):
    """Gym-V's task with the scores as cards; any tree of the greatest score is right, nothing else.

    Upstream draws a random sample tree with another inorder, a new one whenever it paints: here no tree is
    shown. It leaves open that a leaf has no sides, which would count 1 * 1; the question says so. Three nodes
    are the fewest with a choice. The smallest level has 64 + 256 instances.
    """

    category = "graphs"
    source = ("Gym-V Graphs/WeightedBinarytree-v0", "RLVE weighted_binarytree")
    question = (
        "Each card shows a node (above) and its score (below). Join all nodes to a binary tree whose inorder "
        "traversal is 0, 1, 2 and so on. A leaf counts its own score; any other node counts its own score plus "
        "the product of what its left and right subtrees count, where a missing side counts 1. Which tree "
        "makes the root count most?"
    )
    rules = (
        "Inorder: all nodes of the left subtree, the node, all nodes of the right subtree. Preorder: the node, "
        "its left subtree, its right subtree; together with the inorder it fixes the tree. Any tree with the "
        "greatest count of the root earns full reward, any other answer nothing. One answer ends the episode."
    )
    answer = Grid(1, N, 0, N - 1, "the preorder traversal of your tree, all nodes in one line", "1 0 2")
    levels = {
        "n": ((3, 4), (5, 6), (6, 8), (8, 10), (10, 12)),
        "max_score": ((4, 4), (9, 9), (10, 10), (15, 15), (20, 20)),
    }
    eval_level = 4  # contains max_n=12, max_score=20
    min_resolution = (64, 64, 64, 96, 96)

    def reset(self, key: Array, scale) -> State:
        value = jax.random.randint(key, (N,), 1, scale["max_score"] + 1, jnp.int32)
        return State(jnp.where(np.arange(N) < scale["n"], value, 0), scale["n"])

    def step(self, key: Array, state: State, action: Array):
        valid = consistent(action, state.n)
        at = jnp.where(action >= 0, action, N)
        place = jnp.full(N, N, jnp.int32).at[at].set(np.arange(N, dtype=np.int32), mode="drop")
        reached = score(state.value, place, state.n)
        greatest = best(state.value)[0][0, state.n]
        return state, outcome(valid & (reached == greatest), True, valid)

    def solve(self, state: State) -> Array:
        return preorder(best(state.value)[1], state.n)

    def render(self, state: State) -> Array:
        rows = -(-self.levels["n"][-1][1] // COLUMNS)  # of cards, each a head and a face
        node = np.arange(rows * COLUMNS, dtype=np.int32)
        value = state.value[: node.size]
        head = jnp.where(node < state.n, node, BLANK)
        face = jnp.where(node < state.n, N + value - 1, BLANK)
        cards = jnp.stack([head.reshape(rows, COLUMNS), face.reshape(rows, COLUMNS)], axis=1)
        sizes = tuple(range(COLUMNS, max(COLUMNS, 2 * rows) + 1, 2))
        sprites = draw.sheet(self.resolution, sizes, _paint, BACK)
        shown = (state.n + COLUMNS - 1) // COLUMNS
        return draw.tiles(sprites, cards.reshape(2 * rows, COLUMNS), 2 * shown, COLUMNS)

    def text_obs(self, state: State) -> Array:
        node = np.arange(N, dtype=np.int32)
        cards = text.join(text.num(node, 2), text.lit(": "), text.num(state.value, 2))
        return text.join(text.lit("node: score\n"), text.items(cards, node < state.n))

    def text_state(self, state: State) -> Array:
        low = jnp.where(state.value > 0, state.value, MAX_SCORE).min()
        return text.join(
            text.num(state.n, 2), text.lit(" nodes, scores from "), text.num(low, 2), text.lit(" to "),
            text.num(state.value.max(), 2),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Find the best count of every run of neighbouring nodes, short runs first: try each node of a run "
            "as its root. Large counts should meet in products, small scores make good roots."
        )


def _paint(side: int) -> np.ndarray:
    """The heads of all nodes, the faces of all scores, and the bare background."""
    gap = max(1, side // 12) / side
    heads = [
        Canvas(side, BACK).rect(gap, gap, 1 - gap, 1, HEAD).text(str(k), (255, 255, 255)).done()
        for k in range(N)
    ]
    faces = [
        Canvas(side, BACK).rect(gap, 0, 1 - gap, 1 - gap, FACE).text(str(k + 1), (24, 28, 36)).done()
        for k in range(MAX_SCORE)
    ]
    return np.stack([*heads, *faces, Canvas(side, BACK).done()])


ENV = WeightedBinarytree()
