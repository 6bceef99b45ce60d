"""Read a drawn binary tree and write down its three depth-first traversals."""

import jax
import jax.numpy as jnp
from flax import struct
from jax import Array, lax

from jaxenv import planes, text
from jaxenv.codec import Lists
from jaxenv.core import Env, outcome
from jaxenv.gen.trees import binary_tree
from jaxenv.solve.trees import Places, places, sequence

N = 16
ORDERS = ("preorder", "inorder", "postorder")
BACKGROUND, EDGE, RING, INK = (250, 249, 245), (125, 130, 140), (70, 75, 90), (20, 25, 40)
DISCS = (205, 226, 246), (250, 222, 196), (209, 238, 205)


@struct.dataclass
class State:
    label: Array  # i32[N] 1 .. 99, distinct; 0 = no such node
    left: Array  # i32[N] left child, -1 = none
    right: Array  # i32[N]


class TreeToTraversal(Env[State]):
    """Gym-V's tree reading, laid out with x = place in the inorder and y = depth.

    So nodes never overlap, edges never cross and a child's side is plain. Upstream shrinks the offsets by 1.5
    per row: cousins overlap and swap sides, outer nodes fall off the canvas. Reward needs all three lists.
    """

    category = "cognition"
    source = ("Gym-V Cognition/TreeToTraversal-v0",)
    question = (
        "Write down the preorder, the inorder and the postorder traversal of the binary tree in the picture."
    )
    rules = (
        "The root is at the top; a child to the left of its parent is the left child, to the right the right "
        "child. "
        "Preorder: the node, then its left subtree, then its right subtree. "
        "Inorder: the left subtree, the node, the right subtree. "
        "Postorder: the left subtree, the right subtree, the node. "
        "All three lists must be right for reward. One answer ends the episode."
    )
    answer = Lists(ORDERS, N, 1, 99, {"preorder": [2, 1, 3], "inorder": [1, 2, 3], "postorder": [1, 3, 2]})
    levels = {
        "nodes": ((3, 4), (5, 6), (7, 8), (9, 11), (12, 14), (12, 16), (14, 16)),
        "height": ((4, 4), (5, 5), (5, 5), (6, 6), (7, 7), (7, 7), (7, 7)),  # most rows
    }
    eval_level = 5
    min_resolution = (64, 80, 80, 96, 120, 128, 128)

    def reset(self, key: Array, scale) -> State:
        k_shape, k_label = jax.random.split(key)
        left, right = binary_tree(k_shape, N, scale["nodes"], scale["height"])
        _, label = lax.top_k(jax.random.uniform(k_label, (99,)), N)  # distinct, in random order
        present = jnp.arange(N, dtype=jnp.int32) < scale["nodes"]
        return State(jnp.where(present, label.astype(jnp.int32) + 1, 0), left, right)

    def step(self, key: Array, state: State, action: Array):
        return state, outcome(jnp.all(action == self.solve(state)), True)

    def solve(self, state: State) -> Array:
        at, present = _places(state), state.label > 0
        return jnp.concatenate([sequence(state.label, getattr(at, order), present) for order in ORDERS])

    def layout(self, state: State) -> tuple[Array, int]:
        """Centres i32[N, 2] (row, col) of the nodes and the radius of their discs, in pixels."""
        at, size = _places(state), self.resolution
        # Nodes of one row are at least two columns apart: at 16 columns this radius just keeps them apart.
        radius = max(7, (2 * size - 16) // 34)
        rank = jnp.where(state.label > 0, jnp.stack([at.depth, at.inorder]), 0)  # i32[2, N]
        last = rank.max(axis=1, keepdims=True)
        extent = jnp.minimum(
            size - 1 - 2 * radius, last * (size // 4)
        )  # a few nodes do not fill the whole canvas
        return ((size - 1 - extent) // 2 + rank * extent // jnp.maximum(last, 1)).T, radius

    def render(self, state: State) -> Array:
        size, present = self.resolution, state.label > 0
        centre, radius = self.layout(state)
        child = jnp.concatenate([state.left, state.right])
        edges = planes.segments(
            size, jnp.tile(centre, (2, 1)), centre[child], max(1.5, size / 128), child >= 0
        )
        # The odd eighths make discs rounder on the pixel grid than whole radii.
        rings = planes.discs(size, centre, radius + 0.375, present)
        inner = radius - max(1, radius // 12) + 0.375
        fills = [
            (planes.discs(size, centre, inner, present & (state.label % len(DISCS) == k)), colour)
            for k, colour in enumerate(DISCS)
        ]
        scale = min(6, max(1, (radius - 1) * 2 // 13))
        ink = planes.labels(size, centre, planes.digits(state.label, 2), scale, present)
        return planes.paint([(edges, EDGE), (rings, RING), *fills, (ink, INK)], BACKGROUND)

    def text_obs(self, state: State) -> Array:
        label = text.num(state.label, 2)

        def child(index):
            return jnp.where((index >= 0)[:, None], label[index], jnp.asarray(text.lit("\0-")))

        rows = text.join(
            text.lit("\n"), label, text.lit(": "), child(state.left), text.lit(", "), child(state.right)
        )
        return text.join(
            text.lit("node: left child, right child (- none), the root first"),
            text.when(state.label > 0, rows).reshape(-1),
        )

    def text_state(self, state: State) -> Array:
        present, depth = state.label > 0, _places(state).depth
        label = text.num(state.label, 2)
        leaf = present & (state.left < 0) & (state.right < 0)
        rows = jnp.where(present, depth, -1).max() + 1
        return text.join(
            text.num(present.sum(dtype=jnp.int32), 2), text.lit(" nodes in "), text.num(rows, 2),
            text.lit(" rows, root "), label[jnp.argmax(present & (depth == 0))],
            text.lit(", leaves "), text.items(label, leaf),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "The inorder is read off by sweeping the picture from left to right. For the other two, write "
            "the lists of both subtrees first and put the node before or after them."
        )


def _places(state: State) -> Places:
    return places(state.left, state.right, state.label > 0)


ENV = TreeToTraversal()
