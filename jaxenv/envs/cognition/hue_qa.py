"""Answer a question on a board of colour gradients: a cell's name, a line's ends, a blank cell's colour."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import draw, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome
from jaxenv.gen.gradients import layouts
from jaxenv.sprites import Canvas

N, LINES, SWATCHES, OPTIONS = 8, 6, 6, 8
NAME, GRADIENT, MATCH = range(3)  # kinds of question
PALETTE = {
    "red": (220, 30, 35), "orange": (245, 135, 20), "yellow": (250, 225, 50), "green": (40, 150, 60),
    "cyan": (70, 205, 220), "blue": (30, 70, 215), "purple": (150, 60, 190), "pink": (250, 150, 190),
    "brown": (120, 70, 25), "black": (20, 20, 20), "gray": (130, 130, 130), "white": (250, 250, 250),
}  # fmt: skip
NAMES = tuple(PALETTE)
COLOURS = np.asarray(list(PALETTE.values()), np.int32)
APART = 110  # least distance of two swatches, in units of `_square`
CLOSE, OTHER = 45, 135  # most distance of a cell that is asked for from its name, least from any other
# Sprites; from LETTER, INDEX and DIGIT on there are several.
HATCH, TINT, LETTER, INDEX, DIGIT, PAPER = 0, 1, 2, 8, 16, 23
SPARE = 16  # mixed colours among which the swatches that belong to no cell are chosen


@struct.dataclass
class State:
    lines: Array  # i32[LINES, 4] (vertical, row or column, first cell, length); length 0: no such line
    ends: Array  # i32[LINES, 2] the colours of the first and the last cell, places in NAMES
    size: Array  # i32[]
    letters: Array  # i32[N, N] 1 = A, ... for blank cells, else 0
    swatches: Array  # i32[SWATCHES, 3] (MATCH)
    kind: Array  # i32[] NAME, GRADIENT or MATCH
    asked: Array  # i32[] NAME: cell row * N + col; GRADIENT: the line; MATCH: letter, 0 = A
    options: Array  # i32[OPTIONS, 2] names (NAME: the first one) or pairs of names (GRADIENT)


class HueQA(Env[State]):
    """Game-RL's questions on lines that never cross, between colours from a palette of plain names.

    Upstream draws lines over each other, at the evaluated setting (6 lines on 8 x 8) on most boards, so that
    gradients asked for are broken; here each cell belongs to one line. Ends are twelve colours that are far
    apart, not any colours with near-synonyms as names, and a cell whose name is asked for is three times as
    near to it as to any other. All swatches differ clearly, and half of each line stays. The options of a
    gradient are the sides of a square of colours in both directions, so that none stands out. Rows and
    columns count from 0. The texts give colours as numbers, not as names.
    """

    category = "cognition"
    source = ("Gym-V Cognition/Hue-QA-v0", "Game-RL Hue")
    question = "The picture shows lines of cells that blend from one colour to another. Answer the question."
    rules = (
        "Lines run along rows or columns. Along a line red, green and blue each change by equal steps "
        "(rounded) from the first cell to the last. Hatched cells belong to no line. Rows and columns count "
        "from 0 at the top left. A colour goes by the nearest of these names: "
        + ", ".join(f"{name} {r:02x}{g:02x}{b:02x}" for name, (r, g, b) in PALETTE.items())
        + ". The right number earns full reward, any other nothing. One answer ends the episode."
    )
    answer = Ints(1, 1, OPTIONS, "the number of the right option or colour", (3,))
    levels = {
        "size": ((5, 5), (5, 5), (6, 6), (7, 7), (8, 8), (8, 8), (8, 8)),
        "lines": ((2, 2), (3, 3), (3, 3), (4, 4), (5, 5), (6, 6), (6, 6)),  # of the last kind also the blanks
        "kind": ((0, 0), (0, 1), (0, 2), (0, 2), (0, 2), (0, 2), (2, 2)),
    }
    eval_level = 5
    min_resolution = (48, 48, 72, 80, 88, 88, 88)  # letters and digits need 8 px

    def reset(self, key: Array, scale) -> State:
        size, count, kind = scale["size"], scale["lines"], scale["kind"]
        noise = jax.random.uniform(key, (_NOISE,))  # all at once: each further draw costs compile time
        one, order, cells, mixes, options, places = jnp.split(noise, np.cumsum(_SHARES)[:-1].tolist())
        table, counts = _layouts()
        number = _below(one[0], jnp.asarray(counts)[size, count])
        colour = jnp.argsort(order).astype(jnp.int32)
        state = State(
            jnp.asarray(table)[size, count, number], colour.reshape(LINES, 2), size,
            jnp.zeros((N, N), jnp.int32), jnp.zeros((SWATCHES, 3), jnp.int32), kind, jnp.int32(0),
            jnp.zeros((OPTIONS, 2), jnp.int32),
        )  # fmt: skip
        place, board = _board(state)
        cells = cells.reshape(N, N)

        # NAME: a name is drawn before the cell that has it.
        distance = _square(board[:, :, None, :], COLOURS[None, None])
        nearest = jnp.argmin(distance, axis=2)
        least = distance.min(axis=2)
        own = np.arange(len(NAMES))[None, None] == nearest[:, :, None]
        second = jnp.where(own, _FAR, distance).min(axis=2)
        clear = (place >= 0) & (least <= CLOSE**2) & (second >= OTHER**2)
        present = jnp.any(own & clear[:, :, None], axis=(0, 1))
        name = _pick(options[: len(NAMES)], present)
        cell = _pick(cells.reshape(-1), (clear & (nearest == name)).reshape(-1))

        # GRADIENT: four colours in a ring, of which the line has two neighbours.
        line = _below(one[1], count)
        pair = state.ends[line]
        others = (np.arange(len(NAMES)) != pair[0]) & (np.arange(len(NAMES)) != pair[1])
        _, more = lax.top_k(jnp.where(others, options[: len(NAMES)], -1.0), 2)
        ring = jnp.concatenate([pair, more.astype(jnp.int32)])
        pairs = ring[np.asarray([(k, (k + 1) % 4) for k in range(4)] + [((k + 1) % 4, k) for k in range(4)])]

        # NAME has the name and others; all options in random order.
        _, wrong = lax.top_k(
            jnp.where(np.arange(len(NAMES)) == name, -1.0, options[len(NAMES) :]), OPTIONS - 1
        )
        names = jnp.append(wrong.astype(jnp.int32), name)
        shuffled = jnp.argsort(places[:OPTIONS])
        chosen = jnp.where(kind == NAME, jnp.stack([names, names], axis=1), pairs)[shuffled]

        # MATCH
        letters, swatches = _blank(state, place, board, cells, mixes, count)
        swatches = swatches[jnp.argsort(places[OPTIONS:])]
        match = kind == MATCH
        return state.replace(
            letters=jnp.where(match, letters, 0),
            swatches=jnp.where(match, swatches, 0),
            asked=jnp.where(kind == NAME, cell, line),
            options=jnp.where(match, 0, chosen),
        )

    def text_question(self, state: State) -> Array:
        letter = jnp.asarray(text.lit("ABCDEF"))[state.asked % LINES][None]
        ends = _corners(state.lines)[state.asked % LINES]
        asked = text.choose(
            state.kind,
            [
                "Which colour has cell ",
                "Which gradient runs from cell ",
                "Cells with letters are blanks in such lines. Which of the numbered colours at the bottom "
                "belongs to letter ",
            ],
        )
        pair = jnp.stack([state.asked // N, state.asked % N])
        name = text.choose(state.options, NAMES)
        options = text.join(
            text.lit("\n"), text.num(np.arange(1, OPTIONS + 1), 1), text.lit(". "), name[:, 0],
            text.when(state.kind == GRADIENT, text.join(text.lit(" to "), name[:, 1])),
        )  # fmt: skip
        return text.join(
            text.lit("The picture shows lines of cells that blend from one colour to another. "),
            asked,
            text.when(state.kind == NAME, text.coordinates(pair, 1)),
            text.when(
                state.kind == GRADIENT,
                text.join(text.coordinates(ends[0], 1), text.lit(" to "), text.coordinates(ends[1], 1)),
            ),
            text.when(state.kind == MATCH, letter),
            text.lit("?"),
            text.when(state.kind != MATCH, options.reshape(-1)),
        )

    def step(self, key: Array, state: State, action: Array):
        valid = (action[0] >= 1) & (action[0] <= jnp.where(state.kind == MATCH, SWATCHES, OPTIONS))
        return state, outcome(action[0] == self.solve(state)[0], valid, valid)

    def solve(self, state: State) -> Array:
        _, board = _board(state)
        colours = board.reshape(N * N, 3)
        name = jnp.argmin(_square(colours[state.asked % (N * N)][None], COLOURS))
        pair = state.ends[state.asked % LINES]
        blank = colours[jnp.argmax(state.letters.reshape(-1) == state.asked + 1)]
        by_kind = [
            jnp.argmax(state.options[:, 0] == name),
            jnp.argmax(jnp.all(state.options == pair[None], axis=1)),
            jnp.argmin(_square(state.swatches, blank[None])),
        ]
        return jnp.stack(by_kind)[state.kind].astype(jnp.int32)[None] + 1

    def render(self, state: State) -> Array:
        largest, match = self.levels["size"][-1][1], self.levels["kind"][-1][1] == MATCH
        sizes = tuple(range(6, largest + (4 if match else 2)))
        sprites = draw.sheet(self.resolution, sizes, _paint, CANVAS)
        place, board = _board(state)
        rows = state.size + jnp.where(state.kind == MATCH, 3, 1)
        tinted = (place >= 0) & (state.letters == 0)
        inner = jnp.where(tinted, TINT, jnp.where(state.letters > 0, LETTER + state.letters - 1, HATCH))
        row, col = np.mgrid[: N + 3, : N + 1].astype(np.int32)
        codes = jnp.pad(inner, ((1, 2), (1, 0)))
        tints = jnp.pad(jnp.where(tinted[:, :, None], board, 0), ((1, 2), (1, 0), (0, 0)))
        codes = jnp.where(row == 0, INDEX + col - 1, jnp.where(col == 0, INDEX + row - 1, codes))
        # The swatches stand in two rows below the board, under the columns from 0 on.
        swatch = (col >= 1) & (col <= SWATCHES)
        below = row - state.size
        codes = jnp.where(below == 1, jnp.where(swatch, DIGIT + col, PAPER), codes)
        codes = jnp.where(below == 2, jnp.where(swatch, TINT, PAPER), codes)
        codes = jnp.where((row + col == 0) | ((col == 0) & (below > 0)), PAPER, codes)
        shown = jnp.pad(state.swatches, ((1, N - SWATCHES), (0, 0)))
        tints = jnp.where(
            (below == 2)[:, :, None], shown[None], jnp.where((below == 1)[:, :, None], 0, tints)
        )
        return draw.tiles(sprites, codes, rows, state.size + 1, tints)

    def text_obs(self, state: State) -> Array:
        place, board = _board(state)
        letter = jnp.pad(jnp.asarray(text.lit("-ABCDEF"))[state.letters][..., None], ((0, 0), (0, 0), (0, 5)))
        cells = jnp.where((state.letters > 0)[..., None], letter, _hex(board))
        cells = jnp.where((place < 0)[..., None], np.pad(text.lit("."), (0, 5))[None, None], cells)
        swatch = text.join(
            text.lit(", "), text.num(np.arange(1, SWATCHES + 1), 1), text.lit(" "), _hex(state.swatches)
        ).reshape(-1)
        return text.join(
            text.lit("red, green, blue in hexadecimal; . hatched\n"),
            text.rows_of(cells, state.size, state.size),
            text.when(state.kind == MATCH, text.join(text.lit("numbered colours: "), swatch[2:])),
        )

    def text_state(self, state: State) -> Array:
        ends = _corners(state.lines)
        line = text.join(text.coordinates(ends[:, 0], 1), text.lit(" to "), text.coordinates(ends[:, 1], 1))
        index, letters = np.arange(N * N, dtype=np.int32), np.arange(1, LINES + 1, dtype=np.int32)
        here = state.letters.reshape(-1)[None] == letters[:, None]
        at = jnp.where(here, index[None], 0).sum(axis=1)
        blanks = text.join(
            text.lit("ABCDEF")[:, None],
            text.lit(" "),
            text.coordinates(jnp.stack([at // N, at % N], axis=1), 1),
        )
        present = here.any(axis=1)
        return text.join(
            text.num(state.size, 1), text.lit(" rows and columns; lines from "),
            text.items(line, state.lines[:, 3] > 0),
            text.when(present.any(), text.lit("; blank cells ")), text.items(blanks, present),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.choose(
            state.kind,
            [
                "Find the cell by its row and column and compare it with every name; its neighbours can mislead.",
                "Look at the first and at the last cell of the line. The order of the two colours counts.",
                "Compare the cells before and behind the blank: its colour continues their even steps.",
            ],
        )


_FAR = np.int32(1 << 26)  # above any distance squared
# Random numbers: layout and line, colours of the ends, cells, mixed colours, options, order of the options.
_SHARES = (2, len(NAMES), N * N, 4 * SPARE, 2 * len(NAMES), OPTIONS + SWATCHES)
_NOISE = sum(_SHARES)
WHITE, CANVAS = (255, 255, 255), (232, 235, 240)


def _layouts() -> tuple[np.ndarray, np.ndarray]:
    """i32[N + 1, LINES + 1, K, LINES, 4] by board size and number of lines, and how many there are."""
    wanted = {(s, n): layouts(s, n, 3 if s == 5 else 4) for s in range(5, N + 1) for n in range(2, s - 1)}
    counts = np.zeros((N + 1, LINES + 1), np.int32)
    table = np.zeros((N + 1, LINES + 1, max(map(len, wanted.values())), LINES, 4), np.int32)
    for (size, count), lines in wanted.items():
        counts[size, count] = len(lines)
        table[size, count, : len(lines), :count] = lines
    return table, counts


def _below(noise: Array, count: Array) -> Array:
    """i32[]: a number from 0 to count - 1 for noise in [0, 1)."""
    return jnp.minimum((noise * count.astype(jnp.float32)).astype(jnp.int32), count - 1)


def _pick(noise: Array, mask: Array) -> Array:
    """i32[]: the index with the largest noise where the mask holds."""
    return jnp.argmax(jnp.where(mask, noise, -1.0)).astype(jnp.int32)


def _square(a: Array, b: Array) -> Array:
    """i32[...]: distance squared of colours i32[..., 3], weighted for the eye ("redmean"), at most 2 ** 23.

    In whole numbers, so that it is the same however it is compiled.
    """
    red = (a[..., 0] + b[..., 0]) // 2
    square = (a - b) ** 2
    return (((512 + red) * square[..., 0]) >> 8) + 4 * square[..., 1] + (((767 - red) * square[..., 2]) >> 8)


def _board(state: State) -> tuple[Array, Array]:
    """i32[N, N]: the line of each cell, -1 = none; i32[N, N, 3]: its colour, blank cells included."""
    row, col = np.mgrid[:N, :N].astype(np.int32)
    vertical, index, first, length = (x[:, None, None] for x in state.lines.T)
    across = jnp.where(vertical == 1, col[None], row[None])
    step = jnp.where(vertical == 1, row[None], col[None]) - first  # place along the line
    on = (across == index) & (step >= 0) & (step < length)
    place = jnp.where(on, np.arange(LINES, dtype=np.int32)[:, None, None], -1).max(axis=0)
    step, last = jnp.where(on, step, 0).max(axis=0), jnp.where(on, length - 1, 0).max(axis=0)
    last = jnp.maximum(last, 1)[:, :, None]
    first, final = (jnp.asarray(COLOURS)[state.ends[place, k]] for k in range(2))
    step = step[:, :, None]
    return place, (2 * (first * (last - step) + final * step) + last) // (2 * last)


def _corners(lines: Array) -> Array:
    """i32[LINES, 2, 2]: (row, col) of the first and the last cell of each line."""
    vertical, index, first, length = (x[:, None] for x in lines.T)
    along = jnp.concatenate([first, first + length - 1], axis=1)
    across = jnp.broadcast_to(index, along.shape)
    return jnp.where(
        (vertical == 1)[..., None], jnp.stack([along, across], axis=2), jnp.stack([across, along], axis=2)
    )


def _blank(state: State, place: Array, board: Array, noise: Array, mixes: Array, count: Array):
    """Letters i32[N, N] for `count` cells and as many swatches, i32[SWATCHES, 3], the rest mixed colours.

    Each in turn is random among those that are far enough from all before, or else the farthest.
    """
    mixes = mixes.reshape(4, SPARE)
    first, second = (jnp.asarray(COLOURS)[_below(mixes[k], jnp.int32(len(NAMES)))] for k in range(2))
    share = (mixes[2] * 256).astype(jnp.int32)[:, None]
    spare = (first * (256 - share) + second * share) >> 8
    colours = jnp.concatenate([board.reshape(-1, 3), spare])
    noise = (jnp.concatenate([noise.reshape(-1), mixes[3]]) * 2048).astype(jnp.int32)
    place = jnp.pad(place.reshape(-1), (0, SPARE), constant_values=-1)
    index = np.arange(N * N + SPARE, dtype=np.int32)

    def choose(k, carry):
        letters, swatches, near, room = carry  # near: least distance to a swatch; room: blanks left by line
        cell = k < count
        fits = jnp.where(cell, (place >= 0) & (room[place] > 0) & (letters == 0), index >= N * N)
        score = jnp.minimum(near, APART**2) << 11 | noise
        best = jnp.argmax(jnp.where(fits, score, -1))
        here = index == best
        letters = jnp.where(here & cell, k + 1, letters)
        room = room - (cell & (np.arange(LINES) == place[best])).astype(jnp.int32)
        near = jnp.minimum(near, _square(colours, colours[best][None]))
        return letters, swatches.at[k].set(colours[best]), near, room

    start = (
        jnp.zeros(N * N + SPARE, jnp.int32), jnp.zeros((SWATCHES, 3), jnp.int32),
        jnp.full(N * N + SPARE, _FAR), state.lines[:, 3] // 2,
    )  # fmt: skip
    letters, swatches, _, _ = lax.fori_loop(0, SWATCHES, choose, start)
    return letters[: N * N].reshape(N, N), swatches


def _hex(colours: Array) -> Array:
    """u8[..., 6]: colours i32[..., 3] as hexadecimal digits."""
    digits = jnp.stack([colours >> 4, colours & 15], axis=-1)
    return jnp.asarray(text.lit("0123456789abcdef"))[digits].reshape(*colours.shape[:-1], 6)


def _paint(side: int) -> np.ndarray:
    """Hatch, the frame of a coloured cell, letters, indices 0 to 7, digits 0 to 6, paper."""
    inner = 1 - draw.edge(side) / side
    line, ink, gray = (60, 60, 66), (0, 0, 0), (120, 120, 128)

    def cell(colour):
        return Canvas(side, line).rect(0, 0, inner, inner, colour)

    hatch = cell((224, 224, 228))
    stripes = np.abs((hatch.x + hatch.y) * 2 % 1 - 0.5) < 0.15
    hatch.fill(stripes & (hatch.x < inner) & (hatch.y < inner), (186, 186, 192))
    letters = [cell(WHITE).text(c, ink) for c in "ABCDEF"]
    index = [Canvas(side, CANVAS).text(c, gray) for c in "01234567"]
    digits = [Canvas(side, CANVAS).text(c, ink) for c in "0123456"]
    tiles = (hatch, cell((0, 0, 0)), *letters, *index, *digits, Canvas(side, CANVAS))
    return np.stack([c.done() for c in tiles])


ENV = HueQA()
