"""Make a false equation of matches true by moving single matches between its symbols."""

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import BLANK, Command
from jaxenv.core import Env, outcome
from jaxenv.gen import matchstick_equation as matches
from jaxenv.gen.matchstick_equation import (
    ABSENT,
    BREAKS,
    EQUALS,
    GIVE,
    PLACES,
    RECEIVE,
    SEGMENTS,
    SYMBOLS,
    M,
)
from jaxenv.sprites import Canvas, glyph, string

MOVE, UNDO, STOP = range(3)  # the first value of an action
PAPER, WOOD, HEAD, INK = (255, 255, 255), (188, 128, 58), (200, 40, 30), (60, 66, 84)


@struct.dataclass
class State:
    symbols: Array  # i32[M] places in `SYMBOLS`; ABSENT behind the equation
    allowed: Array  # i32[] matches that may be moved at a time
    moved: Array  # i32[] matches that are moved now
    made: Array  # i32[BREAKS, 4] these moves: symbol and segment they took from, symbol and segment they laid on
    plan: Array  # i32[BREAKS, 4] moves that repair the start. Never shown


class MatchstickEquation(Env[State]):
    """VisGym's task; a true equation is broken by legal moves, so that the same moves backwards repair it.

    The equations come from numbers in a bank (`scripts/make_matchstick_equation.py`) of which a search has shown
    that fewer moves are not enough (`enforce_min_distance`); any true equation is right. Level 0 has 752 of them.
    Numbers may be up to 99, sums, products and dividends larger. Differences: 05 counts as 5 (upstream it is an
    error, but 00 is not); symbols are numbered in the picture and segments in the question; upstream's 1000
    steps, or 20, are four for each move and for `stop`. The return is 1 for `stop` at a true equation, else 0; it
    is also the normalised return.
    """

    category = "visgym"
    source = ("VisGym matchstick_equation",)
    horizon = 4 * (BREAKS + 1)
    question = (
        "The equation in the picture is laid with matches and false. Make it true by moving matches. Symbols are "
        "numbered from 0, as below them. Segments of a digit: 0 top, 1 upper right, 2 lower right, 3 bottom, 4 lower "
        "left, 5 upper left, 6 middle; of minus 6, of plus 6 and upright 7, of times 8 falling and 9 rising, of the "
        "division slash 9. 'move a s b t' takes segment s of symbol a and lays it as segment t of symbol b, 'undo' "
        "takes the last move back, 'stop' hands the equation in."
    )
    rules = (
        "A match goes from one symbol to another one, and both must be symbols afterwards: 6 gives to be 5, 7 1, 8 0 "
        "or 6 or 9, 9 3 or 5, plus minus, times a slash; receiving is the reverse. Any other move, one too many and "
        "an undo of nothing are illegal, change nothing and use up an action. Times and division come first, values "
        "are exact, numbers may begin with 0, division by zero is not true. 'stop' ends the episode with full "
        "reward if both sides are equal, else without."
    )
    answer = Command("move", 4, 0, PLACES - 1, ("undo", "stop"), "a move, undo or stop", "move 0 6 2 0")
    levels = dict(
        zip(("moves", "kinds", "largest"), ([(x, x) for x in column] for column in zip(*matches.SETTINGS)))
    )
    eval_level = 4  # break_moves=2
    min_resolution = (48, 72, 72, 72, 88, 88)  # 8 px a symbol

    def reset(self, key: Array, scale) -> State:
        settings = np.asarray(matches.SETTINGS, np.int32)
        wanted = jnp.stack([scale["moves"], scale["kinds"], scale["largest"]])
        seed = matches.draw(key, jnp.argmax((settings == wanted[None, :]).all(axis=1)))
        puzzle = matches.make(seed, scale["moves"], scale["kinds"], scale["largest"])
        nothing = jnp.zeros((BREAKS, 4), jnp.int32)
        return State(puzzle.symbols, scale["moves"], jnp.int32(0), nothing, puzzle.plan)

    def limit(self, state: State) -> Array:
        return 4 * (state.allowed + 1)

    def step(self, key: Array, state: State, action: Array):
        kind, move = action[0], action[1:]
        undo = kind == UNDO
        last = state.made[jnp.maximum(state.moved - 1, 0)]
        move = jnp.where(undo, last[np.asarray([2, 3, 0, 1])], move)
        inside = jnp.all((move >= 0) & (move < np.asarray([M, PLACES, M, PLACES])))
        source, given, target, taken = jnp.where(inside, move, 0)
        gives = jnp.asarray(GIVE)[state.symbols[source], given] != ABSENT
        receives = jnp.asarray(RECEIVE)[state.symbols[target], taken] != ABSENT
        forth = (
            (kind == MOVE) & inside & gives & receives & (source != target) & (state.moved < state.allowed)
        )
        back = undo & (state.moved > 0)
        symbols = jnp.where(forth | back, matches.apply(state.symbols, move), state.symbols)
        here = forth & (np.arange(BREAKS) == state.moved)
        then = state.replace(
            symbols=symbols,
            made=jnp.where(here[:, None], move[None, :], state.made),
            moved=state.moved + forth.astype(jnp.int32) - back.astype(jnp.int32),
        )
        stop = kind == STOP
        return then, outcome(stop & matches.true(state.symbols), stop, forth | back | stop)

    def solve(self, state: State) -> Array:
        """Along the plan; moves that are not of it are taken back first, unless the equation is true anyway."""
        made = np.arange(BREAKS) < state.moved
        on = jnp.all((state.made == state.plan) | ~made[:, None])
        move = jnp.append(jnp.int32(MOVE), state.plan[jnp.minimum(state.moved, BREAKS - 1)])
        word = jnp.where(matches.true(state.symbols), STOP, UNDO)
        words = jnp.full(5, BLANK, jnp.int32).at[0].set(word)
        return jnp.where(on & (word == UNDO) & (state.moved < state.allowed), move, words)

    def render(self, state: State) -> Array:
        longest = self._longest()
        halves = 2 * jnp.minimum(state.symbols, EQUALS)
        label = 2 * len(SYMBOLS) + np.arange(M, dtype=np.int32)
        cells = jnp.stack([halves, halves + 1, label])[:, :longest]
        sprites = draw.sheet(self.resolution, tuple(range(5, longest + 1)), _paint, PAPER)
        return draw.tiles(sprites, cells, 3, _length(state))

    def _longest(self) -> int:
        """Symbols of the longest equation of the levels that `make` found legible."""
        kinds, largest = self.levels["kinds"][-1][1], self.levels["largest"][-1][1]
        return M if kinds == 5 else 9 if largest > 9 else 6

    def text_question(self, state: State) -> Array:
        return text.join(
            text.lit(self.question), text.lit(" Moves at a time: "), text.num(state.allowed, 1),
            text.lit(", left: "), text.num(state.allowed - state.moved, 1), text.lit("."),
        )  # fmt: skip

    def text_obs(self, state: State) -> Array:
        spaced = [s if s.isdigit() else f" {s} " for s in SYMBOLS] + [""]
        place = np.arange(M, dtype=np.int32)
        each = text.join(
            text.num(place, 2), text.lit(":"), jnp.asarray(text.lit(SYMBOLS + " "))[state.symbols][:, None]
        )
        return text.join(
            text.lit("moves left: "), text.num(state.allowed - state.moved, 1), text.lit("\n"),
            text.choose(state.symbols, spaced).reshape(-1),
            text.lit("\nnumbered "), text.items(each, place < _length(state), " "),
        )  # fmt: skip

    def text_state(self, state: State) -> Array:
        return text.join(
            text.lit("number/segment: change; can give "), _changes(state.symbols, GIVE),
            text.lit("; can receive "), _changes(state.symbols, RECEIVE),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "In each move one symbol gives and another one receives. Work out how much too large the left side is, "
            "and which two changes make up for it."
        )


def _length(state: State) -> Array:
    return (state.symbols != ABSENT).sum(dtype=jnp.int32)


def _changes(symbols: Array, table: np.ndarray) -> Array:
    """The symbols of the equation that a table changes, like '0/4: 6>5'."""
    some = (table != ABSENT).any(axis=0)
    segment = np.flatnonzero(some).astype(np.int32)
    then = jnp.asarray(table[:, segment])[symbols]  # [M, segments]
    names = jnp.asarray(text.lit(SYMBOLS + " "))
    part = text.join(
        jnp.broadcast_to(text.num(np.arange(M), 2)[:, None], (M, len(segment), 2)), text.lit("/"),
        text.num(segment, 1)[None], text.lit(": "), jnp.broadcast_to(names[symbols][:, None, None], (*then.shape, 1)),
        text.lit(">"), names[jnp.minimum(then, len(SYMBOLS))][..., None],
    )  # fmt: skip
    return text.items(part.reshape(M * len(segment), -1), (then != ABSENT).reshape(-1))


def _paint(side: int) -> np.ndarray:
    """Upper and lower half of every symbol, then the numbers below them."""
    halves = []
    for segments in SEGMENTS:
        canvas = Canvas(2 * side, PAPER)  # of which the left half is the symbol
        for segment in segments:
            x0, y0, x1, y1 = _STICKS[segment]
            canvas.line(x0, y0, x1, y1, max(0.07, 0.7 / side), WOOD)
            if side >= 12:
                canvas.disc(x0, y0, 0.05, HEAD)
        whole = canvas.done()[:, :side]
        halves += [whole[:side], whole[side:]]
    labels = []
    for k in range(M):
        dots = string(str(k)) if k < 10 else np.pad(glyph("0"), ((0, 0), (2, 0)))
        dots[:, 0] |= k >= 10  # a narrow 10
        sprite = Canvas(side, PAPER)
        sprite.dots.append((dots, INK))
        labels.append(sprite.done())
    return np.stack(halves + labels)


def _sticks() -> dict[int, tuple[float, float, float, float]]:
    """Ends of each segment, head first, in a symbol of width 0.5 and height 1."""
    left, right, top, middle, bottom, gap = 0.08, 0.42, 0.1, 0.5, 0.9, 0.06
    flat = {0: top, 6: middle, 3: bottom, 11: 0.42, 12: 0.58}
    out = {k: (right - gap, y, left + gap, y) for k, y in flat.items()}
    for k, x, y in ((5, left, top), (1, right, top), (4, left, middle), (2, right, middle)):
        out[k] = (x, y + gap, x, y + 0.4 - gap)
    out[7] = (0.25, 0.5 - 0.14, 0.25, 0.5 + 0.14)
    out[8] = (left + gap, 0.34, right - gap, 0.66)
    out[9] = (right - gap, 0.34, left + gap, 0.66)
    return out


_STICKS = _sticks()


ENV = MatchstickEquation()
