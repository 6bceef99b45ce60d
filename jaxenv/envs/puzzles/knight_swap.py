"""Exchange the white and the black knights of a small board by moving them in turns, or say that it cannot be done."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import draw, text
from jaxenv.codec import BLANK, Words
from jaxenv.core import Env, outcome
from jaxenv.gen.knight_swap import (
    ABSENT,
    BLACK,
    COLS,
    EDGES,
    EMPTY,
    LONGEST,
    REFLECTIONS,
    ROWS,
    SQUARES,
    WHITE,
    bank,
    follow,
    legal,
    unpack,
)
from jaxenv.sprites import Canvas

MOVES = 60  # moves of the longest answer
NO = len(EDGES)  # the answer that it is impossible, behind the places in EDGES
IMPOSSIBLE = 0.2  # share of boards without a solution, as upstream
GLYPHS = "#.wB"
NAMES = [f"{'ABCD'[s % COLS]}{ROWS - s // COLS}" for s in range(SQUARES)]
_CODE = np.full((SQUARES, SQUARES), -1, np.int32)  # by squares from and to: the place in EDGES
_CODE[EDGES[:, 0], EDGES[:, 1]] = np.arange(len(EDGES))


@struct.dataclass
class State:
    square: Array  # i32[SQUARES] ABSENT, EMPTY, WHITE or BLACK, row by row from the upper left
    first: Array  # i32[] who moves first: 0 white, 1 black
    shortest: Array  # i32[] moves of a shortest solution; 0 if there is none
    plan: Array  # i32[LONGEST] one of these, as places in EDGES; anything beyond it. Never shown


class KnightSwap(Env[State]):
    """reasoning-gym's task with boards from a bank of all that there are, or a part (`scripts/make_knight_swap.py`).

    A fifth of the boards, as upstream, has no solution: the bank proves it by search on the visible board, while
    upstream deletes a legal move silently and calls the board impossible. Other differences: moves are pairs of
    squares (upstream's colour codes, case sensitive, add nothing: the colours alternate); legal moves that do not
    exchange the knights earn nothing (upstream 0.05 for any). All solutions have an even number of moves, and
    none has less than six. There are some 1,000 solvable boards of level 0 and 4,000 of level 1.
    """

    category = "puzzles"
    source = ("Gym-V Puzzles/KnightSwap-v0", "reasoning-gym knight_swap")
    question = (
        "Exchange the knights: in the end white knights stand on all squares where black ones stood at the start, and "
        "black knights where white ones stood. The colours take turns. Answer No if that is impossible."
    )
    rules = (
        "A knight jumps two squares in one direction and one across it, to a free blue square; there are no grey "
        "squares and nothing is captured. Colours alternate with every move, none may pass. Which knight of a "
        "colour ends where does not matter. An illegal move makes the answer worth nothing, and so do moves that do "
        "not end with the knights exchanged. A solution earns full reward if none is shorter, else the length of "
        "a shortest one divided by its own. No earns full reward if there is no solution, else nothing. The episode "
        "ends with your answer."
    )
    answer = Words(
        [f"{NAMES[a]}-{NAMES[b]}" for a, b in EDGES] + ["No"],
        MOVES,
        f"up to {MOVES} moves in order, from and to, or No",
        ("A1-C2", "B3-D2"),
    )
    levels = {
        "pieces": ((1, 1), (2, 2), (2, 2), (2, 2), (2, 2), (3, 3)),
        "min_nodes": ((6, 6), (6, 6), (7, 7), (9, 9), (10, 10), (10, 10)),
        "max_nodes": ((7, 7), (8, 8), (10, 10), (10, 10), (12, 12), (12, 12)),
        "min_steps": ((2, 2), (4, 4), (6, 6), (8, 8), (12, 12), (12, 12)),
        "max_steps": ((10, 10), (10, 10), (14, 14), (20, 20), (24, 24), (30, 30)),
    }
    eval_level = 3
    min_resolution = (40,) * 6

    def reset(self, key: Array, scale) -> State:
        chance = jax.random.uniform(key, (5,))
        boards, pieces = bank(), scale["pieces"]
        nodes = np.arange(SQUARES + 1, dtype=np.int32)
        wanted = (nodes >= scale["min_nodes"]) & (nodes <= scale["max_nodes"])
        starts = jnp.asarray(boards.first)[pieces]
        some = _draw(chance[0], starts[:, scale["min_steps"]], starts[:, scale["max_steps"] + 1], wanted)
        ends = jnp.asarray(boards.first_impossible)[pieces]
        other = _draw(chance[0], ends[:-1], ends[1:], wanted)
        impossible = chance[1] < IMPOSSIBLE
        code = jnp.where(impossible, jnp.asarray(boards.impossible)[other], jnp.asarray(boards.board)[some])
        square, first = unpack(code)
        moves = jnp.asarray(boards.moves)[some].astype(jnp.int32)
        plan = follow(square, first, jnp.asarray(boards.plan)[:, some], moves)
        # Any reflection, with the colours exchanged or not, is as likely.
        image = jnp.asarray(REFLECTIONS)[(chance[2] * 4).astype(jnp.int32)]
        swapped = chance[3] < 0.5
        square = square[image]
        square = jnp.where(swapped & (square >= WHITE), WHITE + BLACK - square, square)
        ends = jnp.asarray(EDGES)[plan]
        plan = jnp.asarray(_CODE)[image[ends[:, 0]], image[ends[:, 1]]]
        return State(square, jnp.where(swapped, 1 - first, first), jnp.where(impossible, 0, moves), plan)

    def step(self, key: Array, state: State, action: Array):
        made = (action >= 0) & (action < NO)
        whole = made[0] & jnp.all(made | (action == BLANK)) & ~jnp.any(made[1:] & ~made[:-1])

        def move(carry, at):
            square, good = carry
            edge, k, moving = at
            a, b = jnp.asarray(EDGES)[jnp.clip(edge, 0, NO - 1)]
            colour = WHITE + (state.first + k) % 2
            fine = (square[a] == colour) & (square[b] == EMPTY)
            after = square.at[b].set(colour).at[a].set(EMPTY)
            return (jnp.where(moving, after, square), good & (fine | ~moving)), None

        steps = action, np.arange(MOVES, dtype=np.int32), made
        (square, good), _ = lax.scan(move, (state.square, whole), steps)
        swapped = jnp.where(state.square >= WHITE, WHITE + BLACK - state.square, state.square)
        done = good & jnp.all(square == swapped)
        length = jnp.maximum(made.sum(dtype=jnp.int32), 1).astype(jnp.float32)
        share = jnp.minimum(state.shortest.astype(jnp.float32) / length, 1.0)
        no = (action[0] == NO) & jnp.all(action[1:] == BLANK)
        reward = jnp.where(no, (state.shortest == 0).astype(jnp.float32), jnp.where(done, share, 0.0))
        return state, outcome(reward, good | no, good | no)

    def solve(self, state: State) -> Array:
        plan = jnp.where(np.arange(LONGEST) < state.shortest, state.plan, BLANK)
        plan = jnp.pad(plan, (0, MOVES - LONGEST), constant_values=BLANK)
        return jnp.where((np.arange(MOVES) == 0) & (state.shortest == 0), NO, plan)

    def render(self, state: State) -> Array:
        cells = jnp.pad(state.square.reshape(ROWS, COLS), ((0, 1), (1, 0)))
        return draw.tiles(
            draw.sheet(self.resolution, (COLS + 1,), _paint, _AROUND),
            jnp.where(_LABELS > 0, _LABELS, cells), ROWS + 1, COLS + 1,
        )  # fmt: skip

    def text_question(self, state: State) -> Array:
        begins = text.choose(state.first, ["White moves first.", "Black moves first."])
        return text.join(text.lit(self.question + " "), begins)

    def text_obs(self, state: State) -> Array:
        glyphs = jnp.asarray(text.lit(GLYPHS))[state.square].reshape(ROWS, COLS)
        names = np.stack([text.lit(f"{ROWS - r}") for r in range(ROWS)])
        rows = jnp.concatenate([jnp.asarray(names), glyphs], axis=1)
        return text.join(
            text.lit("w white, B black, . free, # no square; "),
            text.choose(state.first, ["white", "black"]), text.lit(" moves first\n"),
            text.rows_of(rows[..., None], ROWS, COLS + 1), text.lit("  A B C D"),
        )  # fmt: skip

    def text_state(self, state: State) -> Array:
        one_way = EDGES[EDGES[:, 0] < EDGES[:, 1]]
        names = np.stack([text.lit(f"{NAMES[a]}-{NAMES[b]}") for a, b in one_way])
        there = jnp.all(state.square[one_way] != ABSENT, axis=1)
        every = np.stack([text.lit(f"{NAMES[a]}-{NAMES[b]}") for a, b in EDGES])
        return text.join(
            text.lit("squares a jump apart: "), text.items(jnp.asarray(names), there),
            text.lit("; possible first moves: "), text.items(jnp.asarray(every), _first_moves(state)),
            text.when(~jnp.any(_first_moves(state)), text.lit("none")),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Think of the squares as a graph whose edges are the jumps. Use free squares off the way to let knights "
            "pass each other, and count whether both colours always have a move."
        )


def _first_moves(state: State) -> Array:
    return legal(state.square, WHITE + state.first)


def _draw(chance: Array, begins: Array, ends: Array, wanted: Array) -> Array:
    """i32[]: a random place in any of the ranges begins .. ends - 1 that are wanted, i32[K] each."""
    count = jnp.where(wanted, ends - begins, 0)
    behind = jnp.cumsum(count, dtype=jnp.int32)
    total = behind[-1]
    at = jnp.minimum((chance * total.astype(jnp.float32)).astype(jnp.int32), total - 1)
    which = jnp.argmax(behind > at)
    return begins[which] + at - (behind - count)[which]


_AROUND = (72, 76, 88)
# Sprites of the left and lower edge, behind those of the squares: row numbers, an empty corner, column letters.
_LABELS = np.zeros((ROWS + 1, COLS + 1), np.int32)
_LABELS[:ROWS, 0] = 4 + np.arange(ROWS)
_LABELS[ROWS] = 4 + ROWS + np.arange(COLS + 1)


def _paint(side: int) -> np.ndarray:
    """ABSENT, EMPTY, WHITE and BLACK squares, row numbers from the top, a corner, column letters."""
    edge = 1 - max(1, side // 32) / side

    def free():
        return Canvas(side, _AROUND).rect(0, 0, edge, edge, (186, 214, 240))

    sprites = [Canvas(side, _AROUND).rect(0, 0, edge, edge, (128, 130, 136)), free()]
    for face, rim in (((255, 255, 255), (20, 20, 24)), ((16, 16, 20), (250, 250, 250))):
        canvas = free()
        for grow, colour in ((0.05, rim), (0.0, face)):
            _knight(canvas, grow, colour)
        sprites.append(canvas.disc(0.44, 0.3, 0.035, rim))
    labels = [str(ROWS - r) for r in range(ROWS)] + [" "] + list("ABCD")
    sprites += [Canvas(side, _AROUND).text(label, (240, 240, 240)) for label in labels]
    return np.stack([sprite.done() for sprite in sprites])


def _knight(canvas: Canvas, grow: float, colour) -> None:
    """A horse's head that looks to the left, made of thick strokes, on a foot."""
    for x0, y0, x1, y1, width in (
        (0.26, 0.8, 0.74, 0.8, 0.14),
        (0.5, 0.72, 0.58, 0.42, 0.3),
        (0.56, 0.36, 0.46, 0.3, 0.26),
        (0.46, 0.34, 0.26, 0.46, 0.16),
        (0.52, 0.24, 0.54, 0.14, 0.08),
    ):
        canvas.line(x0, y0, x1, y1, width + 2 * grow, colour)


ENV = KnightSwap()
