"""Complete a 4 x 4 sudoku: every row, column and 2 x 2 block holds the digits 1 to 4."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import draw, text
from jaxenv.codec import Grid
from jaxenv.core import Env, outcome
from jaxenv.solve.mini_sudoku import CELLS, complete, four_clues, grids
from jaxenv.sprites import Canvas

ORDERS = 4  # orders of removal tried; the last one always reaches 12 blanks
PLACE = np.add.outer(2 * (np.arange(4) % 2), np.arange(4) % 2).astype(np.int32)  # place in the block


@struct.dataclass
class State:
    clues: Array  # i32[16] 1 .. 4, 0 for a blank cell


class MiniSudoku(Env[State]):
    """Reasoning Gym's puzzle over all 288 grids, uniformly, with exactly the number of blanks asked for.

    Digits are taken away in a random order wherever the solution stays unique. A third of such orders end
    at 11 blanks or before; one that keeps four deciding cells for the end never does, and it is taken if the
    random ones fall short. Puzzles with 12 blanks are few: 25,728, of these 1,152 on a third of the grids.
    Upstream pays for single cells, the given ones too; here only the whole grid counts.
    """

    category = "logic"
    source = ("Gym-V Logic/MiniSudoku-v0", "reasoning-gym mini_sudoku")
    question = (
        "Complete the 4 x 4 sudoku in the picture: every row, every column and every 2 x 2 block between the "
        "thick lines holds 1, 2, 3 and 4 exactly once. Write the whole grid."
    )
    rules = (
        "Every row, every column and every 2 x 2 block holds each of 1, 2, 3 and 4 exactly once. The digits "
        "given stay where they are. There is exactly one solution. The complete grid earns full reward, "
        "anything else nothing. The episode ends with the answer."
    )
    answer = Grid(
        4, 4, 1, 4, "4 lines of 4 digits separated by spaces", "1 2 3 4\n1 2 3 4\n1 2 3 4\n1 2 3 4"
    )  # the example breaks the rules: copying it never pays
    levels = {"empty": ((2, 4), (4, 6), (6, 8), (8, 9), (8, 12), (11, 12))}
    eval_level = 4
    min_resolution = (32, 32, 32, 32, 32, 32)

    def reset(self, key: Array, scale) -> State:
        k_grid, k_set, k_order = jax.random.split(key, 3)
        table, (deciding, count) = grids(), four_clues()
        number = jax.random.randint(k_grid, (), 0, len(table), jnp.int32)
        grid = jnp.asarray(table)[number]
        kept = jnp.asarray(deciding)[number, jax.random.randint(k_set, (), 0, jnp.asarray(count)[number])]
        noise = jax.random.uniform(k_order, (ORDERS, CELLS))
        last = (np.arange(ORDERS) == ORDERS - 1)[:, None] & kept[None, :]
        order = jnp.argsort(jnp.where(last, noise + 1.0, noise), axis=1)
        # Bit k of entry g: grid g differs in cell k. Only the grid itself has no such bit among the clues, as
        # long as the solution is unique.
        other = jnp.where(table != grid[None, :], 1 << np.arange(CELLS, dtype=np.int32)[None, :], 0).sum(
            axis=1
        )
        other, order = draw.barrier((other, order))

        def remove(k, clues):  # i32[ORDERS] bit sets
            less = clues & ~(1 << order[:, k])
            unique = (other[None, :] & less[:, None] == 0).sum(axis=1) == 1
            return jnp.where(unique & (lax.population_count(clues) > CELLS - scale["empty"]), less, clues)

        clues = lax.fori_loop(0, CELLS, remove, jnp.full(ORDERS, (1 << CELLS) - 1, jnp.int32))
        best = clues[jnp.argmin(lax.population_count(clues))]
        return State(jnp.where(best >> np.arange(CELLS, dtype=np.int32) & 1 == 1, grid, 0))

    def step(self, key: Array, state: State, action: Array):
        written = jnp.all((action >= 1) & (action <= 4))
        agrees = jnp.all((state.clues == 0) | (action == state.clues))
        return state, outcome(complete(action) & agrees, True, written)

    def solve(self, state: State) -> Array:
        table = jnp.asarray(grids())
        fits = jnp.all((table == state.clues[None, :]) | (state.clues == 0)[None, :], axis=1)
        return table[jnp.argmax(fits)]

    def render(self, state: State) -> Array:
        sprites = draw.sheet(self.resolution, (4,), _paint, (46, 52, 78))
        return draw.tiles(sprites, state.clues.reshape(4, 4) + 5 * PLACE, 4, 4)

    def text_obs(self, state: State) -> Array:
        return text.join(
            text.lit("_ is a blank cell\n"), text.table(state.clues.reshape(4, 4), "_1234", 4, 4)
        )

    def text_state(self, state: State) -> Array:
        rows = state.clues.reshape(4, 4)
        missing = jnp.all(rows[:, :, None] != np.arange(1, 5, dtype=np.int32)[None, None, :], axis=1)
        digits = text.lit("1234")[:, None]
        lacks = [
            text.join(
                text.lit(f"; row {row} lacks "), text.items(digits, missing[row]),
                text.when(~jnp.any(missing[row]), text.lit("nothing")),
            )
            for row in range(4)
        ]  # fmt: skip
        return text.join(
            text.num((state.clues == 0).sum(dtype=jnp.int32), 2), text.lit(" blank cells"), *lacks
        )

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Start with the row, column or block that has the fewest blanks. "
            "For a blank cell, rule out the digits in its row, its column and its block."
        )


def _paint(side: int) -> np.ndarray:
    """A blank cell and the digits 1 to 4, for each place in a block: it decides where the thick lines are."""
    line, width, small = max(1, side // 32) / side, max(1, side // 24) / side, side < 16
    paper, ink, thin = (253, 252, 246), (24, 34, 110), (222, 224, 232) if small else (196, 200, 214)
    thick = (150, 158, 190) if small else (46, 52, 78)  # where digits touch the lines these are paler

    def cell(row, col, digit):
        canvas = Canvas(side, paper).rect(0, 1 - line, 1, 1, thin).rect(1 - line, 0, 1, 1, thin)
        if row == 1:
            canvas.rect(0, 1 - width, 1, 1, thick)
        elif not small:
            canvas.rect(0, 0, 1, width, thick)
        if col == 1:
            canvas.rect(1 - width, 0, 1, 1, thick)
        elif not small:
            canvas.rect(0, 0, width, 1, thick)
        return (canvas.text(str(digit), ink) if digit else canvas).done()

    return np.stack([cell(row, col, digit) for row in (0, 1) for col in (0, 1) for digit in range(5)])


ENV = MiniSudoku()
