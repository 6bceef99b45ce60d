"""Poker hands as bit masks: their exact order, and the chance to win at Texas hold'em.

Cards are 13 * suit + rank, suits in the order of `SUITS`, ranks from 0 = two to 12 = ace. A hand is i32[..., 4], the
set of ranks of each suit, and may hold up to seven cards.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

SUITS, RANKS = "shdc", "23456789TJQKA"
HANDS = (
    "a high card", "a pair", "two pair", "three of a kind", "a straight", "a flush", "a full house",
    "four of a kind", "a straight flush",
)  # fmt: skip
_HIGH, _PAIR, _TWO_PAIR, _THREE, _STRAIGHT, _FLUSH, _FULL, _FOUR, _STRAIGHT_FLUSH = range(9)
_SHIFT = 26  # bits of a strength below the kind of hand


def hand(cards: Array, present: Array) -> Array:
    """i32[..., 4]: the cards i32[..., n] that are present (bool[..., n])."""
    bits = jnp.where(present, 1 << cards % 13, 0)
    return jnp.stack([jnp.where(cards // 13 == suit, bits, 0).sum(axis=-1) for suit in range(4)], axis=-1)


def kind(strength: Array) -> Array:
    """i32[...]: which of `HANDS` a strength is."""
    return strength >> _SHIFT


def strength(suits: Array) -> Array:
    """i32[...]: a number that is larger for the better hand, equal where the pot is split.

    Sets of as many ranks compare like their highest ranks that differ, so they serve as they are: the ranks that
    make the hand first, then the others that count (five cards in all).
    """
    a, b, c, d = (suits[..., k] for k in range(4))
    some, four = a | b | c | d, a & b & c & d
    two = (a & b) | (c & d) | ((a | b) & (c | d))
    three = (a & b & (c | d)) | (c & d & (a | b))
    flush = jnp.where(lax.population_count(suits) >= 5, suits, 0).sum(
        axis=-1
    )  # two suits cannot both have five
    pair, triple, quad = _top(two), _top(three), _top(four)
    second = _top(two & ~pair)
    full = jnp.where(triple > 0, _top(two & ~triple), 0)
    straight, straight_flush = _straight(some), _straight(flush)
    out = _value(_HIGH, _keep(some, 5), 0)
    for name, made, main, rest in (
        (_PAIR, pair > 0, pair, _keep(some & ~pair, 3)),
        (_TWO_PAIR, second > 0, pair | second, _top(some & ~pair & ~second)),
        (_THREE, triple > 0, triple, _keep(some & ~triple, 2)),
        (_STRAIGHT, straight > 0, straight, 0),
        (_FLUSH, flush > 0, _keep(flush, 5), 0),
        (_FULL, full > 0, triple, full),
        (_FOUR, quad > 0, quad, _top(some & ~quad)),
        (_STRAIGHT_FLUSH, straight_flush > 0, straight_flush, 0),
    ):
        out = jnp.where(made, _value(name, main, rest), out)
    return out


def equity(mine: Array, board: Array, shown: Array, samples: int) -> Array:
    """i32[]: two for each sample won and one for each split, of i32[2] against random cards.

    Args:
        board: i32[5], of which the first `shown` are known; the others are drawn too.
        samples: how many; the same ones for the same cards, whoever asks.
    """
    drawn, bits = _samples(samples)
    known = jnp.concatenate([mine, jnp.where(np.arange(5) < shown, board, -1)])
    free = jnp.all(drawn[:, :, None] != known[None, None, :], axis=2)
    place = jnp.cumsum(free.astype(jnp.int32), axis=1)
    theirs, more = free & (place <= 2), free & (place > 2) & (place <= 7 - shown)
    take = lambda which: jnp.where(which[:, :, None], bits, 0).sum(axis=1)  # noqa: E731
    table = hand(board, np.arange(5) < shown)[None] + take(more)
    own = jnp.broadcast_to(hand(mine, np.ones(2, bool))[None], table.shape)
    first, second = strength(table[None] + jnp.stack([own, take(theirs)]))  # one program for both
    return (1 + jnp.sign(first - second)).sum(dtype=jnp.int32)


@cache
def _samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    """i32[count, 14]: the first cards of shuffled decks, of which at most 7 are known; i32[count, 14, 4]: as hands."""
    rng = np.random.default_rng(0)
    cards = np.stack([rng.permutation(52)[:14] for _ in range(count)]).astype(np.int32)
    suit = cards[:, :, None] // 13 == np.arange(4)
    return cards, np.where(suit, 1 << cards[:, :, None] % 13, 0).astype(np.int32)


def _value(name: int, main: Array, rest: Array | int) -> Array:
    return (name << _SHIFT) | (main << 13) | rest


def _top(ranks: Array) -> Array:
    """The highest rank of a set."""
    return jnp.where(ranks > 0, 1 << (31 - lax.clz(jnp.maximum(ranks, 1))), 0)


def _keep(ranks: Array, count: int) -> Array:
    """The `count` highest ranks of a set of at most two more."""
    for _ in range(2):
        ranks = jnp.where(lax.population_count(ranks) > count, ranks & (ranks - 1), ranks)
    return ranks


def _straight(ranks: Array) -> Array:
    """The lowest rank of the highest five in a row, one place up: bit 0 is the ace below the two."""
    line = ranks << 1 | ranks >> 12
    return _top(line & line >> 1 & line >> 2 & line >> 3 & line >> 4)
