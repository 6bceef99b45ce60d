"""Find the digit behind each letter from an addition table written in letters."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import lines, text
from jaxenv.codec import BLANK, Grid
from jaxenv.core import Env, outcome
from jaxenv.draw import barrier
from jaxenv.gen.choice import permutation, subset
from jaxenv.sprites import GLYPH_HEIGHT, GLYPH_WIDTH, glyph

N = 13  # digits of the largest base
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
AROUND, LINE = lines.colour(92, 80, 118), lines.colour(190, 178, 214)
HEADER, HEADER_INK = lines.colour(226, 214, 250), lines.colour(92, 24, 160)
PAPER, INK = lines.colour(255, 255, 255), lines.colour(28, 28, 40)
# A cell is a line of dots, two letters with one dot between them, then one without ink and the grid line; its
# rows are those of the font, then again one without ink and the grid line.
WIDTH = 2 * GLYPH_WIDTH + 1
COLS, ROWS = WIDTH + 2, GLYPH_HEIGHT + 2


@struct.dataclass
class State:
    letters: Array  # i32[N] places in the alphabet, ascending; the first `base` of them are used
    digits: Array  # i32[N] what each of these letters stands for; anything beyond base
    base: Array  # i32[]


class AdditionTable(Env[State]):
    """RLVE's task with letters from the whole alphabet: base 3 has 15,600 instances instead of 6.

    The base is the number of letters, so it is not asked for (upstream prints it on the table, and its
    example of an answer has a wrong one); the digits are, all of them. The example here is never right.
    Tables of every base of three and more have exactly one solution.
    """

    category = "algorithmic"
    source = ("Gym-V Algorithmic/AdditionTable-v0", "RLVE addition_table")
    question = (
        "The picture shows the addition table of a number system with as many digits as there are letters. "
        "Each letter stands for one digit. Write the digit of each letter, in the order of the header row."
    )
    rules = (
        "With n letters the base is n, and the letters stand for the digits 0 to n - 1, each for another one. "
        "A cell holds the sum of the letters at the left of its row and on top of its column, written in base "
        "n in the same letters: one letter, or two, of which the left one counts n. Write digits of 10 and "
        "more as decimal numbers. "
        "All digits right earns full reward, anything else nothing. The episode ends with the answer."
    )
    answer = Grid(1, N, 0, N - 1, "one digit a letter in one line, separated by spaces", "7 7")
    levels = {"base": ((3, 3), (4, 4), (5, 6), (7, 8), (9, 10), (11, 13))}
    eval_level = 3
    min_resolution = (56, 72, 96, 120, 144, 184)

    def reset(self, key: Array, scale) -> State:
        k_letters, k_digits = jax.random.split(key)
        base = scale["base"]
        used = subset(k_letters, np.ones(len(LETTERS), bool), base)
        place = jnp.where(used, jnp.cumsum(used.astype(jnp.int32)) - 1, N)
        alphabet = np.arange(len(LETTERS), dtype=np.int32)
        letters = jnp.zeros(N, jnp.int32).at[place].set(alphabet, mode="drop")
        return State(letters, permutation(k_digits, N, base), base)

    def step(self, key: Array, state: State, action: Array):
        used = np.arange(N) < state.base
        valid = jnp.all((action != BLANK) == used) & jnp.all(action < state.base)
        return state, outcome(jnp.all(action == self.solve(state)), valid, valid)

    def solve(self, state: State) -> Array:
        return jnp.where(np.arange(N) < state.base, state.digits, BLANK)

    def sums(self, state: State) -> tuple[Array, Array]:
        """The letters in the table's body, i32[N, N] each: tens, -1 where there are none, and units."""
        digit = jnp.where(np.arange(N) < state.base, state.digits, N)
        letter = jnp.zeros(N + 1, jnp.int32).at[digit].set(state.letters)
        total = state.digits[:, None] + state.digits[None, :]
        carried = total >= state.base
        return jnp.where(carried, letter[1], -1), letter[jnp.where(carried, total - state.base, total)]

    def render(self, state: State) -> Array:
        most = self.levels["base"][-1][1]  # of the levels that `make` found legible
        tens, units = (x[:most, :most] for x in self.sums(state))
        head = jnp.pad(state.letters[:most], (1, 0), constant_values=len(LETTERS))
        units = jnp.concatenate([head[None, :], jnp.concatenate([head[1:, None], units], axis=1)])
        tens = jnp.pad(tens, ((1, 0), (1, 0)), constant_values=-1)
        left, middle, right = (jnp.asarray(dots) for dots in _dots())  # u32[27, 7]
        two = left[jnp.maximum(tens, 0)] | right[units]
        # The table is symmetric: its first axis may stand for columns. u32[M, 1, M, 9], dots, then [M, 13, M, 9].
        dots = barrier(jnp.where((tens < 0)[:, :, None], middle[units], two))
        dots = jnp.pad(dots, ((0, 0), (0, 0), (0, ROWS - GLYPH_HEIGHT)))[:, None]
        ink = dots >> np.arange(COLS, dtype=np.uint32)[None, :, None, None] & 1 != 0
        place = np.arange(most + 1)
        header = ((place == 0)[:, None] | (place == 0)[None, :])[:, None, :, None]
        grid = (np.arange(COLS) == COLS - 1)[:, None] | (np.arange(ROWS) == ROWS - 1)[None, :]
        shown = jnp.where(ink, np.where(header, HEADER_INK, INK), np.where(header, HEADER, PAPER))
        shown = jnp.where(grid[None, :, None, :], LINE, shown).reshape((most + 1) * COLS, (most + 1) * ROWS)
        shown = barrier(jnp.pad(shown, ((0, 1), (0, 1)), constant_values=AROUND))
        col, row = (jnp.asarray(x)[state.base] for x in _geometry(self.resolution, most))
        return lines.paint(shown[col], row)

    def text_obs(self, state: State) -> Array:
        tens, units = self.sums(state)
        alphabet = jnp.asarray(text.lit(LETTERS))
        body = jnp.stack([jnp.where(tens < 0, 0, alphabet[tens]), alphabet[units]], axis=2)
        head = jnp.pad(alphabet[state.letters][:, None], ((0, 0), (1, 0)))
        top = jnp.concatenate([jnp.asarray([[0, ord("+")]], jnp.uint8), head])
        table = jnp.concatenate([top[None], jnp.concatenate([head[:, None], body], axis=1)])
        return text.rows_of(table, state.base + 1, state.base + 1)

    def text_state(self, state: State) -> Array:
        base, one = text.num(state.base, 2), state.letters[jnp.argmax(state.digits == 1)]
        return text.join(
            base, text.lit(" letters: base "), base, text.lit(", digits 0 to "), text.num(state.base - 1, 2),
            text.lit("; on the left of two letters there is only "), jnp.asarray(text.lit(LETTERS))[one][None],
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "The row that repeats the header row belongs to 0. The letter on the left of two is always 1. "
            "Then add 1 again and again: each sum is the next digit."
        )


@cache
def _dots() -> np.ndarray:
    """u32[3, 27, 7]: dots of each letter and of the plus as the left of two, alone, and as the right of two."""
    glyphs = np.stack([glyph(c) for c in LETTERS + "+"])
    bits = (glyphs << np.arange(GLYPH_WIDTH, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    places = np.asarray([0, (WIDTH - GLYPH_WIDTH) // 2, GLYPH_WIDTH + 1], np.uint32)
    return bits[None] << places[:, None, None]


@cache
def _geometry(size: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """For tables of each base up to `most`, i32[most + 1, size] each: the column of dots that each picture column
    shows (`COLS` for each column of the table, then what is beside it), and the row of dots of each picture row.
    """
    shown = []
    for count, dots in ((COLS, WIDTH), (ROWS, GLYPH_HEIGHT)):
        place = np.full((most + 1, size), (most + 1) * count, np.int32)
        for base in range(2, most + 1):
            side = size // (base + 1)
            line = max(1, side // 24)
            # Letters fill up to four fifths of a cell.
            scale = max(1, 4 * (side - line) // (5 * WIDTH))
            in_cell = (np.arange(side) - (side - line - scale * dots) // 2) // scale
            in_cell[(in_cell < 0) | (in_cell >= dots)] = dots
            in_cell[side - line :] = count - 1
            margin = (size - side * (base + 1)) // 2
            table = np.add.outer(count * np.arange(base + 1), in_cell)
            place[base, margin : margin + table.size] = table.ravel()
        shown.append(place)
    return shown[0], shown[1]


ENV = AdditionTable()
