"""Limit hold'em against RLCard, which PettingZoo wraps: 10,000 random deals, every betting step and every payoff.

RLCard lets the player who did not act last open the next round; so does our environment.
"""

import jax
import numpy as np
import pytest
from jax import lax
from peers import peer

from jaxenv.core import where
from jaxenv.solve import poker
from jaxenv.solve.poker import RANKS, SUITS

peer("rlcard")
from rlcard.games.limitholdem import Game  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ("fold", "check", "call", "raise")
DEALS, LONGEST = 10_000, 26


def code(card) -> int:
    return 13 * SUITS.index(card.suit.lower()) + RANKS.index(card.rank)


@jax.jit
@jax.vmap
def replay(small, actions, cards):
    """Per action the player, what was legal, the bets before it and the round; in the end the payoff."""

    def turn(betting, action):
        seen = betting.turn, poker.legal(betting), betting.bets, betting.round
        return where(action >= 0, poker.act(betting, action), betting), seen

    end, seen = lax.scan(turn, poker.blinds(small), actions)
    return seen, poker.over(end), poker.payoff(end, cards)


def test_deals_agree():
    rng = np.random.default_rng(0)
    small, payoffs = np.zeros((2, DEALS), np.int32)
    cards, actions = np.zeros((DEALS, 9), np.int32), np.full((DEALS, LONGEST), -1, np.int32)
    turn, stage = np.full((2, DEALS, LONGEST), -1, np.int32)
    legal, bets = np.zeros((DEALS, LONGEST, 4), bool), np.zeros((DEALS, LONGEST, 2), np.int32)
    game = Game()
    game.np_random = np.random.RandomState(0)
    weights = np.asarray([0.04, 1.0, 1.0, 1.2])
    for i in range(DEALS):
        game.init_game()
        small[i] = game.game_pointer
        board = game.dealer.deck[: -1 - 5 : -1]  # dealt from the end
        cards[i] = [code(c) for c in (*game.players[0].hand, *game.players[1].hand, *board)]
        t = 0
        while not game.is_over():
            options = [NAMES.index(a) for a in game.get_legal_actions()]
            turn[i, t], stage[i, t] = game.game_pointer, game.round_counter
            legal[i, t, options] = True
            bets[i, t] = [p.in_chips for p in game.players]
            p = weights[options] / weights[options].sum()
            actions[i, t] = rng.choice(options, p=p)
            game.step(NAMES[actions[i, t]])
            t += 1
        payoffs[i] = round(game.get_payoffs()[0] * game.big_blind)
    (our_turn, our_legal, our_bets, our_stage), over, won = jax.tree.map(
        np.asarray, replay(small, actions, cards)
    )
    acted = actions >= 0
    assert over.all() and acted.sum() > 5 * DEALS
    np.testing.assert_array_equal(our_turn[acted], turn[acted])
    np.testing.assert_array_equal(our_stage[acted], stage[acted])
    np.testing.assert_array_equal(our_bets[acted], bets[acted])
    np.testing.assert_array_equal(our_legal[acted], legal[acted])
    np.testing.assert_array_equal(won, payoffs)
    assert 0.05 < (actions == 0).any(axis=1).mean() < 0.95
    assert len(np.unique(np.abs(won))) > 15 and (won == 0).any()  # split pots among them
