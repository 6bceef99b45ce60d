"""Equations of matches with some matches moved, each made from a number; which numbers are good is in a bank.

`scripts/make_matchstick_equation.py` tries `SEEDS` numbers for each setting and marks those whose equation needs
as many moves as were made to break it.
"""

from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv.gen.choice import pick

BANK = Path(__file__).with_suffix(".npy")
SEEDS = 1 << 19
WINDOW = 64  # of so many numbers in a row at least one is good
SYMBOLS = "0123456789+-*/="
PLUS, MINUS, TIMES, OVER, EQUALS, ABSENT = range(10, 16)
M = 11  # symbols of the longest equation: 99+99*9=990
BREAKS = 3  # most moves that break an equation
# A symbol, what it becomes when it gives a match, and the segment of that match; receiving is the reverse.
CHANGES = (
    (6, 5, 4), (7, 1, 0), (8, 0, 6), (8, 6, 1), (8, 9, 4), (9, 3, 5), (9, 5, 1), (PLUS, MINUS, 7), (TIMES, OVER, 8),
)  # fmt: skip
SEGMENTS = (
    (0, 1, 2, 3, 4, 5), (1, 2), (0, 1, 3, 4, 6), (0, 1, 2, 3, 6), (1, 2, 5, 6), (0, 2, 3, 5, 6),
    (0, 2, 3, 4, 5, 6), (0, 1, 2), (0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 5, 6),
    (6, 7), (6,), (8, 9), (9,), (11, 12),
)  # fmt: skip
PLACES = 13  # segments are 0 .. 12
SETTINGS = (
    (1, 2, 9),
    (1, 2, 99),
    (1, 4, 99),
    (2, 2, 99),
    (2, 5, 99),
    (3, 5, 99),
)  # moves, kinds, largest number


def _tables() -> tuple[np.ndarray, np.ndarray]:
    give, receive = np.full((2, ABSENT + 1, PLACES), ABSENT, np.int32)
    for symbol, then, segment in CHANGES:
        give[symbol, segment], receive[then, segment] = then, symbol
    return give, receive


GIVE, RECEIVE = (
    _tables()
)  # i32[16, PLACES] what a symbol becomes by losing or getting a match; ABSENT if nothing
_GIVEN, _TAKEN = 3, 2  # most ways to give and to receive of a symbol
_GIVES, _RECEIVES = (
    np.argsort(table == ABSENT, axis=1, kind="stable")[:, :k].astype(np.int32)
    for table, k in ((GIVE, _GIVEN), (RECEIVE, _TAKEN))
)  # segments, by symbol; those that do nothing last
# Of sixteen equations; quotients are few, so that they are drawn less often.
_SHARES = np.zeros((6, 16), np.int32)
for _kinds, _share in {2: (8, 8), 4: (5, 5, 4, 2), 5: (3, 3, 3, 1, 6)}.items():
    _SHARES[_kinds] = np.repeat(np.arange(_kinds), _share)


@struct.dataclass
class Puzzle:
    symbols: Array  # i32[M] places in `SYMBOLS`, ABSENT behind the equation
    plan: Array  # i32[BREAKS, 4] moves that repair it: symbol and segment to take from, symbol and segment to lay on
    whole: Array  # bool[] false if there was no move to break it with


def make(seed: Array, moves: Array, kinds: Array, largest: Array) -> Puzzle:
    """The equation of a number u32[] that is broken by so many moves.

    Args:
        kinds: how many of these are drawn from: a+b, a-b, a*b, a/b, a+b*c.
        largest: bound of the numbers; sums and products may be larger, one factor is below 10.
    """
    noise = _noise(seed)
    kind = jnp.asarray(_SHARES)[kinds, noise[0] % 16]
    a, b = noise[1] % (largest + 1), noise[2] % (largest + 1)
    few, many, swap = 2 + noise[3] % 8, 1 + noise[4] % largest, noise[5] % 2 == 1
    few, many = jnp.where(swap, many, few), jnp.where(swap, few, many)
    product, missing = few * many, jnp.int32(-1)
    high, low = jnp.maximum(a, b), jnp.minimum(a, b)
    numbers = jnp.stack(
        [
            jnp.stack([a, b, missing, a + b]),
            jnp.stack([high, low, missing, high - low]),
            jnp.stack([few, many, missing, product]),
            jnp.stack([product, few, missing, many]),
            jnp.stack([a, few, many, a + product]),
        ]
    )[kind]
    operators = jnp.asarray(
        np.asarray(
            [[PLUS, ABSENT], [MINUS, ABSENT], [TIMES, ABSENT], [OVER, ABSENT], [PLUS, TIMES]], np.int32
        )
    )[kind]
    symbols = _write(numbers, operators)

    def disturb(k, carry):
        symbols, plan, gave, got, whole = carry
        gives, receives = jnp.asarray(_GIVES)[symbols], jnp.asarray(_RECEIVES)[symbols]
        give = jnp.take_along_axis(jnp.asarray(GIVE)[symbols], gives, axis=1) != ABSENT
        receive = jnp.take_along_axis(jnp.asarray(RECEIVE)[symbols], receives, axis=1) != ABSENT
        # A match laid on what gave one before, or the reverse, saves a move: of three moves that is too likely.
        give = give & ~((moves > 2) & got)[:, None]
        receive = receive & ~((moves > 2) & gave)[:, None]
        apart = ~np.eye(M, dtype=bool)[:, None, :, None]
        moves_now = (give[:, :, None, None] & receive[None, None, :, :] & apart).reshape(-1)
        count = moves_now.sum(dtype=jnp.int32)
        chosen = noise[6 + k] % jnp.maximum(count, 1)
        at = jnp.argmax(jnp.cumsum(moves_now, dtype=jnp.int32) > chosen).astype(jnp.int32)
        source, g, target, r = jnp.unravel_index(at, (M, _GIVEN, M, _TAKEN))
        move = jnp.stack([source, gives[source, g], target, receives[target, r]]).astype(jnp.int32)
        back = move[np.asarray([2, 3, 0, 1])]
        made = k < moves
        symbols = jnp.where(made, apply(symbols, move), symbols)
        plan = jnp.where(made & (np.arange(BREAKS) == moves - 1 - k)[:, None], back[None, :], plan)
        place = np.arange(M, dtype=np.int32)
        gave, got = gave | (place == source), got | (place == target)
        return symbols, plan, gave, got, whole & (~made | (count > 0))

    none = jnp.zeros(M, bool)
    start = symbols, jnp.zeros((BREAKS, 4), jnp.int32), none, none, jnp.bool_(True)
    symbols, plan, _, _, whole = lax.fori_loop(0, BREAKS, disturb, start)
    return Puzzle(symbols, plan, whole)


def apply(symbols: Array, move: Array) -> Array:
    """i32[M] after a move, which must be legal."""
    source, given, target, taken = move
    given, taken = jnp.clip(given, 0, PLACES - 1), jnp.clip(taken, 0, PLACES - 1)
    place = np.arange(M, dtype=np.int32)
    after = jnp.where(place == source, jnp.asarray(GIVE)[symbols, given], symbols)
    return jnp.where(place == target, jnp.asarray(RECEIVE)[symbols, taken], after)


def true(symbols: Array) -> Array:
    """bool[]: whether both sides of an equation are equal, exactly. Division by zero makes it false."""
    digit, sign = symbols < PLUS, (symbols >= PLUS) & (symbols < ABSENT)
    owner = jnp.cumsum(sign, dtype=jnp.int32)
    behind = owner[None, :] == owner[:, None]
    later = np.arange(M)[None, :] > np.arange(M)[:, None]
    power = (behind & later & digit[None, :]).sum(axis=1)
    worth = jnp.where(digit, symbols * jnp.asarray(np.asarray([1, 10, 100, 1000], np.int32))[power], 0)
    mine = owner[None, :] == np.arange(4, dtype=np.int32)[:, None]
    v = jnp.where(mine, worth[None, :], 0).sum(axis=1)
    op = jnp.where(mine & sign[None, :], symbols[None, :], 0).sum(axis=1)[
        1:
    ]  # the operator before each number
    # As x + y * z = w or the like: one that is missing is filled in.
    two, added = op[1] != EQUALS, op[0] <= MINUS
    x = jnp.where(added, v[0], 0)
    y = jnp.where(added, v[1], v[0])
    z = jnp.where(two, v[2], jnp.where(added, 1, v[1]))
    w = jnp.where(two, v[3], v[2])
    y = jnp.where(op[0] == MINUS, -y, y)
    over = jnp.where(two, op[1], op[0]) == OVER
    return jnp.where(over, (z != 0) & (x * z + y == w * z), x + y * z == w)


@cache
def bank() -> np.ndarray:
    """u32[len(SETTINGS), SEEDS / 32]: bit k of word w is whether the number 32 w + k is good."""
    return np.load(BANK)


def draw(key: Array, setting: Array) -> Array:
    """i32[]: a random good number for one of `SETTINGS`, all about equally likely."""
    k_start, k_place = jax.random.split(key)
    start = jax.random.randint(k_start, (), 0, SEEDS, jnp.int32)
    number = (start + np.arange(WINDOW, dtype=np.int32)) % SEEDS
    good = jnp.asarray(bank())[setting, number // 32] >> (number % 32).astype(jnp.uint32) & 1
    return number[pick(k_place, good == 1)]


def _noise(seed: Array) -> Array:
    """i32[6 + BREAKS] in 0 .. 2^31 - 1: a hash of the number, the same on every machine."""
    x = seed.astype(jnp.uint32) * np.uint32(0x9E3779B9) + np.arange(
        1, 7 + BREAKS, dtype=np.uint32
    ) * np.uint32(0x85EBCA6B)
    for multiplier in (0x7FEB352D, 0x846CA68B):
        x = (x ^ (x >> 16)) * np.uint32(multiplier)
    return ((x ^ (x >> 16)) >> 1).astype(jnp.int32)


def _write(numbers: Array, operators: Array) -> Array:
    """i32[M]: the symbols of up to four numbers, -1 where there is none, with operators between and '='."""
    powers = np.asarray([100, 10, 1], np.int32)
    shown = (numbers[:, None] >= powers[None, :]) | ((numbers >= 0)[:, None] & (powers == 1)[None, :])
    digits = jnp.where(shown, numbers[:, None] // powers[None, :] % 10, ABSENT)
    behind = jnp.stack([operators[0], operators[1], jnp.int32(EQUALS), jnp.int32(ABSENT)])
    flat = jnp.concatenate([digits, behind[:, None]], axis=1).reshape(-1)
    there = flat != ABSENT
    place = jnp.where(there, jnp.cumsum(there, dtype=jnp.int32) - 1, M)
    return jnp.full(M, ABSENT, jnp.int32).at[place].set(flat, mode="drop")
