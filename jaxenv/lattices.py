"""Pictures of graphs whose vertices lie on a square lattice and whose edges join neighbouring cells, by tiles.

A cell is three by three tiles, its ninths: only those beside the middle show the label, and each of the outer
ones shows at most one edge, so that few sprites make up all vertices with all edges.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxenv import draw
from jaxenv.sprites import Canvas, string

PAPER, EDGE, RING, DISC, INK = (250, 249, 245), (110, 116, 128), (60, 66, 82), (206, 226, 246), (18, 22, 36)
PITCH = 24  # the least side of a cell in pixels at which labels of two digits are legible
LABELS = 64  # labels are below
NONE, OWN, PASSING = range(3)  # what a ninth shows of edges; those of two other cells pass through corners
_UP, _LEFT, _RIGHT = 1, 3, 5
_NW, _NE, _SW, _SE = 0, 2, 6, 8


def draw_tree(resolution: int, label: Array, parent: Array, side: Array, largest: int) -> Array:
    """u8[R, R, 3]: a tree on the upper left side x side cells of an n x n lattice, centred.

    Args:
        label: i32[n * n], 1 .. LABELS - 1; 0 where there is no vertex. Cells are numbered row by row.
        parent: i32[n * n] the other end of one edge of each vertex, one of the eight cells around it; -1 = none.
        largest: static, the greatest side that may come: at most resolution // PITCH, and n.
    """
    cells = label.shape[0]
    n = int(cells**0.5)
    row, col = (x.reshape(-1, 1) for x in np.mgrid[:n, :n])
    r, c = row + np.repeat([-1, 0, 1], 3), col + np.tile([-1, 0, 1], 3)
    near = np.where((r >= 0) & (r < n) & (c >= 0) & (c < n), r * n + c, cells).astype(
        np.int32
    )  # [cell, ninth]
    padded = jnp.append(parent, -1)
    own = (parent[:, None] == near) | (padded[near] == near[:, 4:5])
    edge = jnp.where(own, OWN, NONE)
    around = jnp.pad(own, ((0, 1), (0, 0)))
    for corner, beside, towards in ((_NW, _UP, _SW), (_SE, _RIGHT, _SW), (_NE, _UP, _SE), (_SW, _LEFT, _SE)):
        passing = around[near[:, beside], towards]
        edge = edge.at[:, corner].set(jnp.where(passing, PASSING, edge[:, corner]))
    _, codes = _ninths()
    code = jnp.asarray(codes)[label[:, None], edge, np.arange(9, dtype=np.int32)[None, :]]
    code = code.reshape(n, n, 3, 3).transpose(0, 2, 1, 3).reshape(3 * n, 3 * n)
    sprites = draw.sheet(resolution, tuple(range(6, 3 * largest + 1, 3)), _paint, PAPER)
    return draw.tiles(sprites, code[: 3 * largest, : 3 * largest], 3 * side, 3 * side)


@cache
def _ninths() -> tuple[list[tuple[int, int, int]], np.ndarray]:
    """The different ninths as (label, edge, place), and by these three which one it is, i32[LABELS, 3, 9]."""
    listed, code = {}, np.zeros((LABELS, 3, 9), np.int32)
    for label, edge, place in np.ndindex(code.shape):
        shown = label if place // 3 == 1 else min(label, 1)
        code[label, edge, place] = listed.setdefault((shown, edge, place), len(listed))
    return list(listed), code


def _paint(side: int) -> np.ndarray:
    """The ninths of `_ninths`, in order."""
    cell, scale = 3 * side, max(1, 3 * side // PITCH)
    empty, vertex = ([_edges(cell, edge) for edge in (NONE, OWN, PASSING)] for _ in range(2))
    for canvas in vertex:
        canvas.disc(0.5, 0.5, 0.37, RING).disc(0.5, 0.5, 0.37 - 1 / PITCH, DISC)
    empty, vertex = ([canvas.done() for canvas in kind] for kind in (empty, vertex))
    ninths = []
    for label, edge, place in _ninths()[0]:
        picture = vertex[edge].copy() if label else empty[edge]
        if label:
            dots = np.kron(string(str(label)), np.ones((scale, scale), bool))
            top, left = (cell - dots.shape[0]) // 2, (cell - dots.shape[1]) // 2
            picture[top : top + dots.shape[0], left : left + dots.shape[1]][dots] = INK
        top, left = place // 3 * side, place % 3 * side
        ninths.append(picture[top : top + side, left : left + side])
    return np.stack(ninths)


def _edges(cell: int, edge: int) -> Canvas:
    """All edges of one kind around an empty cell."""
    canvas = Canvas(cell, PAPER)
    if edge == OWN:
        for x, y in ((1, 0), (0, 1), (1, 1), (1, -1)):
            canvas.line(0.5 - x, 0.5 - y, 0.5 + x, 0.5 + y, 2 / PITCH, EDGE)
    if edge == PASSING:
        for x, y in ((0, 0), (0, 1), (1, 0), (1, 1)):
            canvas.line(x - 0.5, y + 0.5 - (x != y), x + 0.5, y - 0.5 + (x != y), 2 / PITCH, EDGE)
    return canvas
