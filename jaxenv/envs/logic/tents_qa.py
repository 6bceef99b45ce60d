"""Answer a question on a Tents board: tents shown, tents missing, or cells that can take one more."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import draw, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome
from jaxenv.solve.grid import neighbours
from jaxenv.sprites import Canvas

N, MOST = 10, 16  # cells along a side and trees of the largest board
EMPTY, TREE, TENT, NEEDED, INDEX, CORNER = 0, 1, 2, 3, 13, 23  # sprites; NEEDED and INDEX begin ten digits
GLYPHS = ".TA" + 2 * "0123456789" + "-"
IN_ROW, IS_TREE, IN_COLUMN, MISSING, PLACE, BESIDE, PLACES = range(7)  # kinds of question, easiest first
OPTIONS = 8
_NOISE = 2 * N * N + 4 * MOST + 2 * N + OPTIONS + 1


@struct.dataclass
class State:
    cells: Array  # i32[N, N] EMPTY, TREE or TENT; EMPTY beyond size
    rows: Array  # i32[N] tents that each row must hold in the end
    cols: Array  # i32[N]
    size: Array  # i32[]
    kind: Array  # i32[] IN_ROW .. PLACES
    line: Array  # i32[] the row (IN_ROW) or column (IN_COLUMN) asked about
    options: Array  # i32[OPTIONS] cells row * N + col (IS_TREE and PLACE)


class TentsQA(Env[State]):
    """Game-RL's seven questions, with the numbers of all rows and columns in picture and texts.

    Every tent is placed together with a tree of its own (upstream several may share one), tents that leave
    much room before others, so that boards fill up; then some are hidden. A hidden tent's cell can always
    take a tent, so every question has an answer. What a row or column holds is drawn before the line is.
    "Can be added" means the four rules below, not that the whole board can still be completed.
    Upstream's 8 x 8 board with 12 trees is the evaluated level. Cells are (row, column); boards are square.
    """

    category = "logic"
    source = ("Gym-V Logic/Tents-QA-v0", "Game-RL Tents")
    question = (
        "The picture shows a Tents board on which some tents are missing. Answer the question about it."
    )
    rules = (
        "The complete board has as many tents (orange) as trees (green), each tent directly above, below, "
        "left or right of a tree of its own. Tents never touch, not even diagonally. The blue number right "
        "of a row or below a column says how many tents it holds when complete. A tent can be added now to "
        "a cell if the cell is empty, has a tree directly beside it, touches no tent shown, and its row and "
        "its column both show fewer tents than their numbers. Rows and columns count from 0 at the top left "
        "(gray numbers). The right number earns full reward, any other nothing. One answer ends the episode."
    )
    answer = Ints(1, 0, N * N, "one number: the count, or the number of an option", (3,))
    levels = {
        "size": ((4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (8, 8), (10, 10)),
        "trees": ((2, 3), (3, 4), (4, 6), (5, 8), (8, 11), (12, 12), (12, 16)),
        "kind": ((0, 1), (0, 2), (0, 4), (0, 5), (0, 6), (0, 6), (1, 6)),
    }
    eval_level = 5
    min_resolution = (48, 56, 64, 72, 80, 80, 96)  # digits need 8 px

    def reset(self, key: Array, scale) -> State:
        size, trees, kind = scale["size"], scale["trees"], scale["kind"]
        # All noise at once: every further draw from a key costs compile time.
        noise = jax.random.uniform(key, (_NOISE,))
        plant, cells_noise, few = jnp.split(noise, (N * N + 4 * MOST, _NOISE - 2 * N - OPTIONS - 1))
        most = jnp.minimum(trees - 1, jnp.maximum(2, trees // 2))
        hidden = 1 + (few[0] * most.astype(jnp.float32)).astype(jnp.int32)
        full, cells = _plant(plant, size, trees, hidden)
        rows, cols = ((full == TENT).sum(axis=axis, dtype=jnp.int32) for axis in (1, 0))
        state = State(cells, rows, cols, size, kind, jnp.int32(0), jnp.zeros(OPTIONS, jnp.int32))
        # The count is drawn first, then a line that has it: all counts present are equally often the answer.
        counts, number = _counts(state), np.arange(N, dtype=np.int32)
        same = (counts[None, :] == number[:, None]) & (number < size)[None, :]
        value = _pick(few[1 : 1 + N], same.any(axis=1))
        line = _pick(few[1 + N : 1 + 2 * N], same[value])
        return state.replace(line=line, options=_options(cells_noise, few[-OPTIONS:], state))

    def text_question(self, state: State) -> Array:
        asked = [
            "How many tents are shown in row ",
            "Which of these cells holds a tree?",
            "How many tents are still missing in column ",
            "How many tents are still missing on the whole board?",
            "To which of these cells can one more tent be added now?",
            "How many cells that hold no tree have a tree directly above, below, left or right?",
            "To how many cells can one more tent be added now?",
        ]
        line = text.join(text.num(state.line, 1), text.lit("?"))
        options = text.join(
            text.lit("\n"), text.num(np.arange(1, OPTIONS + 1), 1), text.lit(". "),
            text.coordinates(jnp.stack([state.options // N, state.options % N], axis=-1), 1),
        )  # fmt: skip
        return text.join(
            text.lit("The picture shows a Tents board on which some tents are missing. "),
            text.choose(state.kind, asked),
            text.when((state.kind == IN_ROW) | (state.kind == IN_COLUMN), line),
            text.when(_has_options(state), options.reshape(-1)),
        )

    def step(self, key: Array, state: State, action: Array):
        valid = ~_has_options(state) | ((action[0] >= 1) & (action[0] <= OPTIONS))
        return state, outcome(action[0] == self.solve(state)[0], valid, valid)

    def solve(self, state: State) -> Array:
        counts, trees = _counts(state), state.cells == TREE
        missing = state.rows.sum() - (state.cells == TENT).sum(dtype=jnp.int32)
        right = jnp.where(state.kind == IS_TREE, trees, _places(state)).reshape(-1)[state.options]
        option = jnp.argmax(right).astype(jnp.int32) + 1
        beside = _beside(trees) & ~trees & _board(state.size)
        by_kind = [
            counts[state.line], option, counts[state.line], missing, option,
            beside.sum(dtype=jnp.int32), _places(state).sum(dtype=jnp.int32),
        ]  # fmt: skip
        return jnp.stack(by_kind)[state.kind][None]

    def render(self, state: State) -> Array:
        sizes = tuple(size + 2 for size in range(4, self.levels["size"][-1][1] + 1))
        sprites = draw.sheet(self.resolution, sizes, _paint, PAPER)
        return draw.tiles(sprites, _framed(state), state.size + 2, state.size + 2)

    def text_obs(self, state: State) -> Array:
        side = state.size + 1
        return text.join(
            text.lit("T tree, A tent, . empty; at the right and below: tents needed\n"),
            text.table(_framed(state)[1:, 1:], GLYPHS, side, side),
        )

    def text_state(self, state: State) -> Array:
        size, trees = text.num(state.size, 2), text.num((state.cells == TREE).sum(dtype=jnp.int32), 2)
        shown = jnp.where(state.kind == MISSING, 0, (state.cells == TENT).sum(dtype=jnp.int32))
        needed = [
            text.join(text.lit(f"; {name} need "), text.items(text.num(x, 1), np.arange(N) < state.size, " "))
            for name, x in (("rows", state.rows), ("columns", state.cols))
        ]
        return text.join(
            size, text.lit(" rows and columns, "), trees, text.lit(" trees"), *needed,
            text.when(shown > 0, text.join(text.lit("; tents shown: "), text.num(shown, 2))),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        find = "Find the row or the cells first: count rows from the top, columns from the left, starting with 0."
        subtract = "The blue numbers say what a line needs, the trees how many tents there are in all. Subtract the tents shown."
        mark = (
            "Mark the cells beside trees, each once. Where a tent is to be added, strike out those that hold "
            "something or touch a tent, then rows and columns that are full."
        )
        index = jnp.where(state.kind <= IS_TREE, 0, jnp.where(state.kind <= MISSING, 1, 2))
        return text.choose(index, [find, subtract, mark])


def _board(size: Array) -> Array:
    """bool[N, N]: the cells of the board."""
    row, col = np.mgrid[:N, :N].astype(np.int32)
    return (row < size) & (col < size)


def _beside(mask: Array) -> Array:
    """bool[N, N]: cells with a marked cell above, below, left or right."""
    return neighbours(mask, False).any(axis=0)


def _around(x: Array) -> Array:
    """i32[N, N]: sums over a cell and its eight neighbours."""
    x = jnp.pad(x.astype(jnp.int32), 1)
    x = x[:-2] + x[1:-1] + x[2:]
    return x[:, :-2] + x[:, 1:-1] + x[:, 2:]


def _plant(noise: Array, size: Array, count: Array, hidden: Array) -> tuple[Array, Array]:
    """i32[N, N] twice: trees, each with a tent beside it that touches no other; and without the hidden tents.

    Tents go to the best cells that are still possible, in an order drawn beforehand, so the first ones, which
    are hidden, are random ones. Sets of cells are bit masks by row.
    """
    index = np.arange(N * N, dtype=np.int32)
    row, bit = np.arange(N, dtype=np.int32), 1 << np.arange(N, dtype=np.int32)
    order = (noise[: N * N].reshape(N, N) * 8192).astype(jnp.int32)
    cell = index.reshape(N, N)
    side = noise[N * N :].reshape(MOST, 4)
    inside = jnp.where(row < size, (1 << size) - 1, 0)

    def place(k, carry):
        empty, room, trees, tents, shown = carry  # i32[N]; room: no tent on or around the cell
        above, below = jnp.pad(empty[:-1], (1, 0)), jnp.pad(empty[1:], (0, 1))
        fits = empty & room & (above | below | empty << 1 | empty >> 1)
        # A tent takes the room of 1 to 9 cells from others: the fewer the better. Without that one 8 x 8 board
        # in fifty ends up short of 12 tents, so fewer than one in 20,000 (and that is still a valid board).
        taken = (empty & room)[:, None] << 1 >> np.arange(N + 2, dtype=np.int32)[None, :] & 1
        taken = jnp.pad(taken[:, :-2] + taken[:, 1:-1] + taken[:, 2:], ((1, 1), (0, 0)))
        score = (order - 1024 * (taken[:-2] + taken[1:-1] + taken[2:]) + 9216) * (N * N) + cell
        best = jnp.where(fits[:, None] & bit[None, :] != 0, score, -1).max()
        r, c = best // N % N, best % N
        here = jnp.where(row == r, 1 << c, 0)
        near = jnp.stack([jnp.pad(here[1:], (0, 1)), jnp.pad(here[:-1], (1, 0)), here << 1, here >> 1])
        free = near & empty[None, :]  # one bit in each of the four directions that are free
        way = jnp.argmax(jnp.where(jnp.any(free != 0, axis=1), side[k], -1.0))
        more = (k < count) & (best >= 0)
        tent, tree = jnp.where(more, here, 0), jnp.where(more, free[way], 0)
        touched = jnp.where(more & (jnp.abs(row - r) <= 1), 7 << c >> 1, 0)
        return (
            empty & ~tent & ~tree, room & ~touched, trees | tree, tents | tent,
            jnp.where(k >= hidden, shown | tent, shown),
        )  # fmt: skip

    zero = jnp.zeros(N, jnp.int32)
    *_, trees, tents, shown = lax.fori_loop(0, MOST, place, (inside, inside, zero, zero, zero))

    def cells(tents):
        tents, oaks = (x[:, None] & bit[None, :] != 0 for x in (tents, trees))
        return jnp.where(tents, jnp.int32(TENT), jnp.where(oaks, jnp.int32(TREE), jnp.int32(EMPTY)))

    return cells(tents), cells(shown)


def _pick(noise: Array, mask: Array) -> Array:
    """i32[]: the index with the largest noise where the mask holds."""
    return jnp.argmax(jnp.where(mask, noise, -1.0)).astype(jnp.int32)


def _places(state: State) -> Array:
    """bool[N, N]: cells to which one more tent can be added now."""
    tents = state.cells == TENT
    shown = [tents.sum(axis=axis, dtype=jnp.int32) for axis in (1, 0)]
    wanting = (shown[0] < state.rows)[:, None] & (shown[1] < state.cols)[None, :]
    return (state.cells == EMPTY) & _beside(state.cells == TREE) & (_around(tents) == 0) & wanting


def _counts(state: State) -> Array:
    """i32[N]: tents shown in each row, or for IN_COLUMN tents missing in each column."""
    tents = state.cells == TENT
    missing = state.cols - tents.sum(axis=0, dtype=jnp.int32)
    return jnp.where(state.kind == IN_COLUMN, missing, tents.sum(axis=1, dtype=jnp.int32))


def _has_options(state: State) -> Array:
    return (state.kind == IS_TREE) | (state.kind == PLACE)


def _options(noise: Array, order: Array, state: State) -> Array:
    """i32[OPTIONS]: one cell that is right and others, preferably near misses, in random order."""
    trees = state.cells == TREE
    right = jnp.where(state.kind == IS_TREE, trees, _places(state)).reshape(-1)
    near = jnp.where(state.kind == IS_TREE, state.cells == TENT, (state.cells == EMPTY) & _beside(trees))
    other = noise + jnp.where(near.reshape(-1), 0.5, 0.0)
    _, wrong = lax.top_k(jnp.where(~right & _board(state.size).reshape(-1), other, -1.0), OPTIONS - 1)
    cells = jnp.append(wrong.astype(jnp.int32), _pick(noise, right))
    return cells[jnp.argsort(order)]


def _framed(state: State) -> Array:
    """i32[N + 2, N + 2]: sprites of the board with indices on top and left, needed tents below and right."""
    size, place = state.size, np.arange(N + 2, dtype=np.int32)

    def frame(needed):
        inside = (place >= 1) & (place <= size)
        index = jnp.where(inside, INDEX + place - 1, CORNER)
        return index, jnp.where(inside, NEEDED + jnp.pad(needed, 1), CORNER)

    (left, right), (top, bottom) = frame(state.rows), frame(state.cols)
    cells = jnp.pad(state.cells, 1)
    cells = jnp.where((place == 0)[None, :], left[:, None], cells)
    cells = jnp.where((place == size + 1)[None, :], right[:, None], cells)
    cells = jnp.where((place == 0)[:, None], top[None, :], cells)
    return jnp.where((place == size + 1)[:, None], bottom[None, :], cells)


PAPER = (250, 249, 244)


def _paint(side: int) -> np.ndarray:
    """Grass, tree and tent; needed tents in blue, indices in gray, an empty corner."""
    edge = max(1, side // 24) / side

    def cell():
        return Canvas(side, (140, 160, 120)).rect(0, 0, 1 - edge, 1 - edge, (222, 236, 204))

    tree = cell().rect(0.40, 0.60, 0.54, 0.90, (120, 76, 40)).disc(0.47, 0.40, 0.32, (30, 128, 52))
    tent = (
        cell()
        .polygon([(0.47, 0.12), (0.88, 0.84), (0.06, 0.84)], (232, 116, 24))
        .polygon([(0.47, 0.42), (0.64, 0.84), (0.30, 0.84)], (110, 44, 8))
    )
    blank = Canvas(side, PAPER)
    digits = [
        Canvas(side, PAPER).text(d, colour)
        for colour in ((20, 60, 200), (150, 150, 150))
        for d in "0123456789"
    ]
    return np.stack([c.done() for c in (cell(), tree, tent, *digits, blank)])


ENV = TentsQA()
