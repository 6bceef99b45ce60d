"""Slide the vehicles of a car park out of the way until the red car reaches the exit."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Choice
from jaxenv.core import Env, outcome
from jaxenv.gen.choice import permutation
from jaxenv.gen.rush_hour import FEWEST, PLAN, SLOTS, bank
from jaxenv.sprites import Canvas

N = 6  # cells along a side
RED, EXIT_ROW, EXIT_COL = (
    0,
    2,
    4,
)  # the red car's slot, its row, and its column when it touches the right edge
LETTERS = "XABCDEFGHIJ"  # by slot
FIRST, MIDDLE, LAST = range(3)  # parts of a horizontal vehicle; 3 more for a vertical one
EMPTY, WALL, EXIT = 0, 1 + 6 * SLOTS, 2 + 6 * SLOTS  # sprites; in between part p of slot s is 1 + 6 s + p
PER_MOVE = 3  # actions in the clock for each move of the shortest solution
NONE = 255  # behind the last move of a solution in the bank


@struct.dataclass
class State:
    offset: Array  # i32[SLOTS] column of a horizontal vehicle's left end, row of a vertical one's upper end
    lane: Array  # i32[SLOTS] row of a horizontal vehicle, column of a vertical one
    length: Array  # i32[SLOTS] 2 or 3; 0 in empty slots
    horizontal: Array  # bool[SLOTS]
    plan: Array  # i32[PLAN] a shortest solution of the start: 2 slot + forward; NONE behind it
    done: Array  # i32[] moves of the plan that lead from the start to where the detour began
    detour: Array  # i32[horizon] moves made since then, without those that were taken back
    depth: Array  # i32[] their number
    limit: Array  # i32[] actions


class RushHour(Env[State]):
    """Gym-V's and TextArena's Rush Hour: one vehicle moves one cell at a time, X wins when it touches the edge.

    The car parks come from a bank (`scripts/make_rush_hour.py`) of 256 with each number of vehicles (35 with
    three) and shortest solutions; a level fixes the vehicles and how many moves the shortest solution takes. Letters
    other than X are dealt anew for every instance (A to J, E among them). Upstream scrambles nine fixed
    vehicles and so knows no distances, pays for the column in which X happens to stand, and ends after two
    illegal moves. Here the return is 1 if X gets out and 0 otherwise, and the clock is three times the
    shortest solution.
    """

    category = "games"
    source = ("Gym-V Games/RushHour-v0", "TextArena RushHour")
    horizon = PER_MOVE * PLAN
    question = (
        "Slide the vehicles of this car park until the red car X touches the right edge at the exit. "
        "Choose the next move: which vehicle slides by one cell, + (right or down) or - (left or up)."
    )
    rules = (
        "A horizontal vehicle slides left and right in its row, a vertical one up and down in its column, one cell "
        "at a time; the cell it enters must be free and on the board. The episode ends with full reward as soon as "
        "X touches the right edge; it need not leave the board. Moving a blocked vehicle, or one that is not there, "
        "is illegal, changes nothing and uses up an action."
    )
    answer = Choice(
        [letter + sign for letter in LETTERS for sign in "-+"],
        what="the letter of a vehicle and + or -",
    )
    levels = {
        "vehicles": ((3, 4), (5, 6), (5, 7), (6, 8), (7, 9), (8, 11)),
        "moves": ((2, 4), (4, 7), (6, 10), (8, 12), (10, 16), (14, 22)),
    }
    eval_level = 2
    min_resolution = (56,) * 6

    def reset(self, key: Array, scale) -> State:
        k_park, k_letters = jax.random.split(key)
        parks, plans = bank()
        count, moves = scale["vehicles"], scale["moves"]
        park = count - FEWEST, jax.random.randint(k_park, (), 0, parks.shape[1], jnp.int32)
        code, plan = (jnp.asarray(x)[park].astype(jnp.int32) for x in (parks, plans))
        # The start is so far along the entry's solution that the wanted moves are left.
        skipped = (plan != NONE).sum(dtype=jnp.int32) - moves
        early = np.arange(PLAN, dtype=np.int32) < skipped
        slots = np.arange(SLOTS, dtype=np.int32)
        which = (plan // 2)[:, None] == slots[None, :]
        shift = jnp.where(early[:, None] & which, (2 * (plan % 2) - 1)[:, None], 0).sum(axis=0)
        plan = jnp.where(np.arange(PLAN) < moves, jnp.roll(plan, -skipped), NONE)
        # Letters: all slots but the red car's change places.
        order = jnp.concatenate([jnp.zeros(1, jnp.int32), 1 + permutation(k_letters, SLOTS - 1, count - 1)])
        place = jnp.argsort(order).astype(jnp.int32)
        code, shift = code[order], shift[order]
        plan = jnp.where(plan == NONE, NONE, 2 * place[jnp.minimum(plan // 2, SLOTS - 1)] + plan % 2)
        used = slots < count
        return State(
            offset=jnp.where(used, (code & 7) + shift, 0),
            lane=jnp.where(used, code >> 3 & 7, 0),
            length=jnp.where(used, 2 + (code >> 6 & 1), 0),
            horizontal=used & (code >> 7 == 1),
            plan=plan,
            done=jnp.int32(0),
            detour=jnp.full(self.horizon, NONE, jnp.int32),
            depth=jnp.int32(0),
            limit=PER_MOVE * moves,
        )

    def limit(self, state: State) -> Array:
        return state.limit

    def step(self, key: Array, state: State, action: Array):
        slot, forward = jnp.clip(action[0] // 2, 0, SLOTS - 1), action[0] % 2
        valid = _free(state).reshape(-1)[2 * slot + forward] & (action[0] >= 0) & (action[0] < 2 * SLOTS)
        shift = jnp.where(np.arange(SLOTS, dtype=np.int32) == slot, 2 * forward - 1, 0)
        then = _follow(state, action[0]).replace(offset=state.offset + shift)
        out = valid & (then.offset[RED] == EXIT_COL)
        return then, outcome(out, out, valid)

    def solve(self, state: State) -> Array:
        """A best next move, as long as none but best moves were made; else the last detour is taken back."""
        back = state.detour[jnp.maximum(state.depth - 1, 0)] ^ 1
        move = jnp.where(state.depth > 0, back, state.plan[jnp.minimum(state.done, PLAN - 1)])
        return jnp.where(move == NONE, 0, move)[None]  # there is no best move behind the end: any

    def render(self, state: State) -> Array:
        sprites = draw.sheet(self.resolution, (N + 1,), _paint, (52, 54, 60))
        return draw.tiles(sprites, _codes(state), N, N + 1)

    def text_obs(self, state: State) -> Array:
        legend = "X red car, A-J other vehicles, . free, | right edge, > exit\n"
        letters = "." + "".join(letter * 6 for letter in LETTERS) + "|>"
        return text.join(text.lit(legend), text.table(_codes(state), letters, N, N + 1))

    def text_state(self, state: State) -> Array:
        cover, _ = _cover(state)
        right = np.arange(N)[None, :] > state.offset[RED] + 1
        blocking = jnp.any(cover[:, EXIT_ROW] & right, axis=1)
        letters = np.stack([text.lit(letter) for letter in LETTERS])
        names = np.stack([text.lit(letter + sign) for letter in LETTERS for sign in "-+"])
        return text.join(
            text.lit("cells from X to the edge: "), text.num(EXIT_COL - state.offset[RED], 1),
            text.lit("; in its way: "), text.items(jnp.asarray(letters), blocking),
            text.when(~jnp.any(blocking), text.lit("nothing")),
            text.lit("; possible moves: "), text.items(jnp.asarray(names), _free(state).reshape(-1)),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit("Look at what stands right of X, then at what keeps that from moving, and so on.")


def _follow(state: State, move: Array) -> State:
    """What a move means for the plan: on along it, back along it, or a detour or its end."""
    last = state.detour[jnp.maximum(state.depth - 1, 0)]
    on = (state.depth == 0) & (move == state.plan[jnp.minimum(state.done, PLAN - 1)])
    back = (state.depth == 0) & (state.done > 0) & (move ^ 1 == state.plan[jnp.maximum(state.done - 1, 0)])
    undone = (state.depth > 0) & (move ^ 1 == last)
    away = ~(on | back | undone)
    here = away & (np.arange(len(state.detour)) == state.depth)
    return state.replace(
        done=state.done + on.astype(jnp.int32) - back.astype(jnp.int32),
        detour=jnp.where(here, move, state.detour),
        depth=state.depth + away.astype(jnp.int32) - undone.astype(jnp.int32),
    )


def _cover(state: State) -> tuple[Array, Array]:
    """bool[SLOTS, N, N] cells of each vehicle, and i32[SLOTS, N, N] how far along it they lie."""
    row, col = (x[None] for x in np.mgrid[:N, :N].astype(np.int32))
    horizontal, offset, lane, length = (
        x[:, None, None] for x in (state.horizontal, state.offset, state.lane, state.length)
    )
    along = jnp.where(horizontal, col, row) - offset
    return (jnp.where(horizontal, row, col) == lane) & (along >= 0) & (along < length), along


def _free(state: State) -> Array:
    """bool[SLOTS, 2]: whether each vehicle can slide back and forward."""
    taken = jnp.any(_cover(state)[0], axis=0).reshape(-1)
    enter = jnp.stack([state.offset - 1, state.offset + state.length], axis=1)
    lane, horizontal = state.lane[:, None], state.horizontal[:, None]
    cell = jnp.where(horizontal, N * lane + enter, N * enter + lane)
    inside = (enter >= 0) & (enter < N) & (state.length > 0)[:, None]
    return inside & ~taken[jnp.clip(cell, 0, N * N - 1)]


def _codes(state: State) -> Array:
    """i32[N, N + 1]: sprite codes of the board and the edge right of it."""
    cover, along = _cover(state)
    last = (state.length - 1)[:, None, None]
    part = jnp.where(along == 0, FIRST, jnp.where(along == last, LAST, MIDDLE))
    part = part + jnp.where(state.horizontal, 0, 3)[:, None, None]
    slot = np.arange(SLOTS, dtype=np.int32)[:, None, None]
    cells = jnp.where(cover, 1 + 6 * slot + part, 0).sum(axis=0, dtype=jnp.int32)
    edge = np.where(np.arange(N) == EXIT_ROW, EXIT, WALL).astype(np.int32)
    return jnp.concatenate([cells, edge[:, None]], axis=1)


def _paint(side: int) -> np.ndarray:
    """Sprites EMPTY, six parts of every vehicle with its letter, WALL and EXIT."""
    ground, grid, white, black = (226, 226, 220), (200, 200, 194), (255, 255, 255), (20, 20, 20)
    colours = [
        (214, 34, 34), (255, 206, 64), (64, 130, 220), (60, 170, 90), (242, 140, 40), (150, 90, 200),
        (90, 200, 210), (244, 160, 190), (130, 100, 70), (160, 200, 60), (96, 104, 120),
    ]  # fmt: skip

    def cell():
        return Canvas(side, grid).rect(0, 0, 1 - 1 / side, 1 - 1 / side, ground)

    def part(slot, vertical, which):
        canvas, edge = cell(), 0.06
        low, high = (edge if which == FIRST else 0.0), (1 - edge if which == LAST else 1.0)
        x0, y0, x1, y1 = (edge, low, 1 - edge, high) if vertical else (low, edge, high, 1 - edge)
        canvas.rect(x0, y0, x1, y1, colours[slot])
        return canvas.text(LETTERS[slot], white if sum(colours[slot]) < 380 else black)

    parts = [part(s, v, w) for s in range(SLOTS) for v in (False, True) for w in (FIRST, MIDDLE, LAST)]
    wall = Canvas(side, (52, 54, 60)).rect(0, 0, 0.15, 1, (30, 30, 34))
    way_out = Canvas(side, (214, 34, 34)).polygon([(0.15, 0.2), (0.85, 0.5), (0.15, 0.8)], white)
    return np.stack([c.done() for c in (cell(), *parts, wall, way_out)])


ENV = RushHour()
