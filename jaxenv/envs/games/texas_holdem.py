"""Play one hand of heads-up limit Texas hold'em against a scripted opponent."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Choice
from jaxenv.core import Env, outcome, where
from jaxenv.solve import holdem
from jaxenv.sprites import Canvas

FOLD, CHECK, CALL, RAISE, NONE = range(5)
WORDS = ("fold", "check", "call", "raise")
ROUNDS = ("before the flop", "flop", "turn", "river")
SHOWN = np.asarray([0, 3, 4, 5, 5], np.int32)  # cards on the table by round
RAISES = 4  # at most, a round
MOST = 50  # chips that a player can lose: 2 and four raises of 2, four of 2 and twice four of 4
SAMPLES, FINE = 32, 128  # of the opponent's and of the agent's estimates
CARDS = holdem.RANKS


@struct.dataclass
class State:
    cards: Array  # i32[9] the agent's two, the opponent's two, the five of the table
    round: Array  # i32[] 0 .. 3
    mine: Array  # i32[] chips in the pot
    theirs: Array  # i32[]
    raises: Array  # i32[] in this round
    acted: Array  # i32[] actions since the last raise, that one included; two end the round
    my_word: Array  # i32[] the agent's last action in this round, NONE if there is none
    their_word: Array  # i32[]
    over: Array  # bool[]


class TexasHoldem(Env[State]):
    """RLCard's limit hold'em (as in PettingZoo) for two, seen from the agent's seat, one level: only deals vary.

    The return is 0.5 + net chips / 100, so it lies between 0 (50 chips lost, the most) and 1 (50 won), 0.5 is a
    hand that won and lost nothing, and any lost chip is below it; a fixed affine map, so that the best expected
    return is the best expected number of chips (upstream pays net chips / 2, -25 to 25). A hand that is not
    finished pays 0, as if everything were lost.

    The opponent, `threshold`, compares its chance to win against random cards with the price: it folds (only to
    raises) when that is too small, raises when the chance is above a threshold that grows with every raise, and
    bluffs or hides strength now and then, as the key decides. Upstream has no opponent, shows both hands and does
    not say which one is whose; here the opponent's cards are shown after a showdown alone. Kept from upstream:
    the turn passes on from round to round, so whoever did not end a round begins the next one; folding is allowed
    even when checking is free.
    """

    category = "games"
    source = ("Gym-V Games/TexasHoldem-v0", "PettingZoo texas_holdem_v4", "RLCard limit-holdem")
    horizon = 16
    question = "You play one hand of heads-up limit Texas hold'em; your cards are at the bottom. Choose your next action."
    rules = (
        "Each player has two hidden cards. One player, drawn at random, has put in 1 chip and acts first, the "
        "other 2. There are four betting rounds: before the flop, with three cards on the table, with four, "
        "and with five. Check if both have put in the same, else call to even up; raise puts in 2 chips more "
        "than the other has, 4 in the last two rounds, at most 4 times a round; fold gives up the pot. A round "
        "ends when both have acted and put in the same; the turn just passes on. After the last round the best "
        "five of a player's seven cards win: straight flush, four of a kind, full house, flush, straight, "
        "three of a kind, two pair, pair, high card; equal hands split. You earn 0.5 plus 0.01 for each chip "
        "won or minus 0.01 for each chip lost, nothing for an unfinished hand. An action that is not allowed "
        "changes nothing but is used up."
    )
    answer = Choice(WORDS, {"bet": "raise"})
    min_resolution = (64,)
    solvable = False

    def reset(self, key: Array, scale) -> State:
        k_deck, k_seat, k_first = jax.random.split(key, 3)
        cards = jnp.argsort(jax.random.bits(k_deck, (52,)))[:9].astype(jnp.int32)
        first = jax.random.bernoulli(k_seat)  # the agent has put in one chip and acts first
        small, zero, none = first.astype(jnp.int32), jnp.int32(0), jnp.int32(NONE)
        state = State(cards, zero, 2 - small, 1 + small, zero, zero, none, none, jnp.bool_(False))
        return where(first, state, act(state, False, _reply(k_first, state)))

    def step(self, key: Array, state: State, action: Array):
        valid = (action[0] >= 0) & (action[0] <= RAISE)
        valid &= legal(state, True)[jnp.clip(action[0], 0, RAISE)]
        after = act(state, True, action[0])
        then = where(after.over, after, act(after, False, _reply(key, after)))
        then = where(valid, then, state)
        reward = jnp.where(then.over, jnp.asarray(_RETURNS)[MOST + net(then)], 0.0)
        return then, outcome(reward, then.over, valid)

    def solve(self, state: State) -> Array:
        """Thresholds on the chance to win that expect better cards of an opponent who raised."""
        chance = holdem.equity(state.cards[:2], state.cards[4:], jnp.asarray(SHOWN)[state.round], FINE)
        raised = (state.their_word == RAISE).astype(jnp.int32)
        chance = 50 * chance // FINE - 6 * raised * state.raises  # percent
        return _choose(state, True, chance, 54 + 4 * state.raises, jnp.bool_(True))[None]

    def render(self, state: State) -> Array:
        sprites = draw.sheet(self.resolution, (8,), _paint, _GREEN)
        cards = jnp.where(_seen(state), state.cards, -1)  # -1 hidden
        top, bottom = jnp.where(cards < 0, BACK, cards), jnp.where(cards < 0, BACK + 1, 52 + cards // 13)
        table = np.arange(9) >= 4
        top, bottom = (jnp.where((cards < 0) & table, PLACE + k, x) for k, x in enumerate((top, bottom)))
        blank = jnp.full(5, BLANK, jnp.int32)
        mine, theirs = (_number(x) for x in (state.mine, state.theirs))
        pot = _number(state.mine + state.theirs, 3)
        words = np.stack([_letters(word.ljust(5)) for word in (*WORDS, "")])
        pips = jnp.where(np.arange(RAISES) < state.raises, RAISED, RAISED + 1)
        rows = [
            (top[2:4], blank[:1], _letters("opp"), theirs),
            (bottom[2:4], blank[:1], jnp.asarray(words)[state.their_word]),
            (blank, blank[:3]),
            (top[4:], _letters("pot")),
            (bottom[4:], pot),
            (blank[:3], pips, blank[:1]),
            (top[:2], blank[:1], _letters("you"), mine),
            (bottom[:2], blank[:1], jnp.asarray(words)[state.my_word]),
        ]
        return draw.tiles(sprites, jnp.stack([jnp.concatenate(row) for row in rows]), 8, 8)

    def text_obs(self, state: State) -> Array:
        names = np.stack([text.lit(rank + suit) for suit in holdem.SUITS for rank in CARDS])
        names = jnp.asarray(names)[state.cards]
        seen, none = _seen(state), state.round == 0
        words = [*WORDS, "none"]
        return text.join(
            text.lit("your cards: "), text.items(names[:2], np.ones(2, bool), " "),
            text.lit("\ntable: "), text.when(none, text.lit("no cards")), text.items(names[4:], seen[4:], " "),
            text.lit("\nopponent: "), text.when(~seen[2], text.lit("hidden")), text.items(names[2:4], seen[2:4], " "),
            text.lit("\nchips in the pot: you "), text.num(state.mine, 2),
            text.lit(", opponent "), text.num(state.theirs, 2),
            text.lit("\nraises in this round: "), text.num(state.raises, 1),
            text.lit("\nlast action in this round: you "), text.choose(state.my_word, words),
            text.lit(", opponent "), text.choose(state.their_word, words),
        )  # fmt: skip

    def text_state(self, state: State) -> Array:
        best = holdem.strength(holdem.hand(state.cards, _seen(state) & (np.arange(9) // 2 != 1)))
        behind, pot = state.theirs - state.mine, state.mine + state.theirs
        price = text.join(
            text.lit("; a call costs "), text.num(behind, 1), text.lit(" and makes the pot "),
            text.num(pot + behind, 3),
        )  # fmt: skip
        names = np.stack([text.lit(word.ljust(5)) for word in WORDS])
        names[names == ord(" ")] = 0
        return text.join(
            text.choose(state.round, ROUNDS), text.lit("; you may "),
            text.items(jnp.asarray(names), legal(state, True)),
            text.when(behind > 0, price), text.lit("; you hold "), text.choose(holdem.kind(best), holdem.HANDS),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Compare your chance to win with what a call costs as a share of the pot; the opponent folds only to raises."
        )


BLANK, DIGIT, LETTER, BACK, PLACE, RAISED = 56, 57, 67, 93, 95, 97  # sprites behind 52 ranks and 4 suits
_GREEN = (24, 110, 68)
# A table: compiled and eager division may differ in the last bit.
_RETURNS = (np.arange(2 * MOST + 1) / (2 * MOST)).astype(np.float32)


def legal(state: State, agent: bool) -> Array:
    """bool[4]: the actions of a side."""
    behind = _behind(state, agent)
    return jnp.stack([jnp.bool_(True), behind <= 0, behind > 0, state.raises < RAISES])


def _behind(state: State, agent: bool) -> Array:
    """i32[]: what a call costs a side."""
    return state.theirs - state.mine if agent else state.mine - state.theirs


def act(state: State, agent: bool, action: Array) -> State:
    """A legal action of the agent or the opponent."""
    size = jnp.where(state.round < 2, 2, 4)
    raised = action == RAISE
    paid = jnp.where((action == CALL) | raised, _behind(state, agent), 0) + jnp.where(raised, size, 0)
    acted = jnp.where(raised, 1, state.acted + 1)
    fold, closed = action == FOLD, (acted == 2) & (action != FOLD)
    over = fold | (closed & (state.round == 3))
    fresh = closed & ~over
    none, zero = jnp.int32(NONE), jnp.int32(0)
    mine, theirs = (state.mine + paid, state.theirs) if agent else (state.mine, state.theirs + paid)
    my_word, their_word = (action, state.their_word) if agent else (state.my_word, action)
    return State(
        cards=state.cards,
        round=state.round + fresh.astype(jnp.int32),
        mine=mine,
        theirs=theirs,
        raises=jnp.where(fresh, zero, state.raises + raised.astype(jnp.int32)),
        acted=jnp.where(fresh, zero, acted),
        my_word=jnp.where(fresh, none, my_word),
        their_word=jnp.where(fresh, none, their_word),
        over=over,
    )


def _choose(state: State, agent: bool, chance: Array, threshold: Array, to_blind: Array) -> Array:
    """i32[]: raise if the chance to win, in percent, is high enough, else call at a fair price or check."""
    behind = _behind(state, agent)
    pot = state.mine + state.theirs
    pays = (chance * (pot + behind) >= 100 * behind) | (~to_blind & (state.raises == 0))
    calm = jnp.where(behind <= 0, CHECK, jnp.where(pays, CALL, FOLD))
    return jnp.where((chance >= threshold) & (state.raises < RAISES), RAISE, calm).astype(jnp.int32)


def _reply(key: Array, state: State) -> Array:
    """i32[]: what the opponent does."""
    chance = holdem.equity(state.cards[2:4], state.cards[4:], jnp.asarray(SHOWN)[state.round], SAMPLES)
    mood = jax.random.randint(key, (), 0, 16, jnp.int32)
    # One time in 16 each: bluffs with anything, hides a strong hand.
    threshold = jnp.where(mood == 0, 0, jnp.where(mood == 1, 101, 60 + 7 * state.raises))
    chance = 50 * chance // SAMPLES - 5 * state.raises
    return _choose(state, False, jnp.maximum(chance, 0), threshold, jnp.bool_(False))


def net(state: State) -> Array:
    """i32[]: chips the agent has won in a hand that is over."""
    every = np.ones(9, bool)
    hands = [holdem.hand(state.cards, every & (np.arange(9) // 2 != other)) for other in (1, 0)]
    mine, theirs = holdem.strength(jnp.stack(hands))
    won = jnp.sign(mine - theirs)
    won = jnp.where(state.my_word == FOLD, -1, jnp.where(state.their_word == FOLD, 1, won))
    return jnp.where(won > 0, state.theirs, jnp.where(won < 0, -state.mine, 0))


def _seen(state: State) -> Array:
    """bool[9]: the cards that the agent sees."""
    place = np.arange(9)
    showdown = state.over & (state.my_word != FOLD) & (state.their_word != FOLD)
    theirs = (place // 2 == 1) & showdown
    return (place < 2) | theirs | (place >= 4) & (place < 4 + jnp.asarray(SHOWN)[state.round])


def _number(x: Array, width: int = 2) -> Array:
    """i32[width]: sprites of a number."""
    digits = text.num(x, width).astype(jnp.int32)
    return jnp.where(digits == 0, BLANK, digits - ord("0") + DIGIT)


def _letters(word: str) -> np.ndarray:
    """i32[len]: sprites of a word."""
    return np.asarray([BLANK if c == " " else LETTER + ord(c) - ord("a") for c in word], np.int32)


def _paint(side: int) -> np.ndarray:
    """Ranks in the colour of each suit, suits, an empty tile, digits, letters, card backs, places, raises."""
    colours = [(20, 20, 24), (214, 30, 40), (30, 90, 214), (20, 130, 50)]  # spades, hearts, diamonds, clubs
    white, back, ink = (252, 252, 248), (120, 40, 60), (244, 236, 180)
    gap = max(1, side // 16) / side

    def card(colour, low):
        """The upper or lower half of a card."""
        canvas = Canvas(side, _GREEN)
        return canvas.rect(0, 0, 1 - gap, 1 - gap, colour) if low else canvas.rect(0, 0, 1 - gap, 1, colour)

    def suit(k):
        canvas, colour, middle = card(white, True), colours[k], (1 - gap) / 2
        if k == 2:
            return canvas.polygon([(middle, 0.02), (0.82, middle), (middle, 0.86), (0.06, middle)], colour)
        if k == 3:
            for x, y in ((middle, 0.22), (middle - 0.19, 0.5), (middle + 0.19, 0.5)):
                canvas.disc(x, y, 0.19, colour)
        else:
            up = 0.56 if k == 0 else 0.28
            canvas.disc(middle - 0.18, up, 0.2, colour).disc(middle + 0.18, up, 0.2, colour)
            tip = 0.02 if k == 0 else 0.86
            canvas.polygon([(middle - 0.37, up), (middle + 0.37, up), (middle, tip)], colour)
        return canvas.rect(middle - 0.06, 0.5, middle + 0.06, 0.86, colour) if k != 1 else canvas

    ranks = [card(white, False).text(rank, colours[k]) for k in range(4) for rank in CARDS]
    signs = [Canvas(side, _GREEN).text(c, ink) for c in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    chip = [
        Canvas(side, _GREEN).disc(0.5, 0.5, 0.38, ink).disc(0.5, 0.5, radius, colour)
        for radius, colour in ((0.28, (214, 30, 40)), (0.3, _GREEN))
    ]
    place = [card((16, 84, 50), low) for low in (False, True)]
    tiles = [
        *ranks, *(suit(k) for k in range(4)), Canvas(side, _GREEN), *signs,
        card(back, False), card(back, True), *place, *chip,
    ]  # fmt: skip
    return np.stack([c.done() for c in tiles])


ENV = TexasHoldem()
