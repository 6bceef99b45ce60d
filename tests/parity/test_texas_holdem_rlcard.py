"""Betting rounds and the order of hands against RLCard's limit hold'em, over 10,000 random deals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from peers import peer

from jaxenv.core import where
from jaxenv.envs.games.texas_holdem import NONE, WORDS, State, act, legal, net
from jaxenv.solve import holdem

peer("rlcard")
from rlcard.games.limitholdem import Game  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
DEALS, MOST = 10_000, 24  # actions of a hand, at most


def code(card) -> int:
    return 13 * holdem.SUITS.index(card.suit.lower()) + holdem.RANKS.index(card.rank)


def theirs(rng) -> dict[str, np.ndarray]:
    """What RLCard says of random play: before each action who moves, the legal ones and chips; then the payoff."""
    out = {
        "cards": np.zeros((DEALS, 9), np.int32), "player": np.full((DEALS, MOST), -1, np.int32),
        "action": np.zeros((DEALS, MOST), np.int32), "legal": np.zeros((DEALS, MOST, 4), bool),
        "chips": np.zeros((DEALS, MOST, 2), np.int32), "table": np.zeros((DEALS, MOST), np.int32),
        "net": np.zeros(DEALS, np.int32),
    }  # fmt: skip
    for i in range(DEALS):
        game = Game()
        game.np_random = np.random.RandomState(i)
        _, player = game.init_game()
        hands = [code(card) for p in game.players for card in p.hand]
        out["cards"][i] = hands + [code(card) for card in game.dealer.deck[:-6:-1]]
        for t in range(MOST + 1):
            if game.is_over():
                break
            names = game.get_legal_actions()
            # Folding ends a hand: less often, so that most see a showdown.
            weights = np.asarray([0.1 if name == "fold" else 1.0 for name in names])
            name = names[rng.choice(len(names), p=weights / weights.sum())]
            out["player"][i, t], out["action"][i, t] = player, WORDS.index(name)
            out["legal"][i, t] = [word in names for word in WORDS]
            out["chips"][i, t] = [p.in_chips for p in game.players]
            out["table"][i, t] = len(game.public_cards)
            _, player = game.step(name)
        out["net"][i] = 2 * game.get_payoffs()[0]  # payoffs are in big blinds
    return out


@jax.jit
@jax.vmap
def ours(cards, players, actions):
    small = (players[0] == 0).astype(jnp.int32)
    zero, none = jnp.int32(0), jnp.int32(NONE)
    start = State(cards, zero, 2 - small, 1 + small, zero, zero, none, none, jnp.bool_(False))

    def step(state, move):
        player, action = move
        allowed = jnp.where(player == 0, legal(state, True), legal(state, False))
        table = jnp.asarray([0, 3, 4, 5])[state.round]
        then = where(player == 0, act(state, True, action), act(state, False, action))
        then = where(player < 0, state, then)
        return then, (state.over, allowed, jnp.stack([state.mine, state.theirs]), table)

    end, seen = lax.scan(step, start, (players, actions))
    return end.over, net(end), seen


def test_ten_thousand_hands_agree():
    want = theirs(np.random.default_rng(0))
    over, won, (done, allowed, chips, table) = jax.tree.map(
        np.asarray, ours(want["cards"], want["player"], want["action"])
    )
    running = want["player"] >= 0
    assert over.all()
    np.testing.assert_array_equal(done, ~running)
    np.testing.assert_array_equal(allowed[running], want["legal"][running])
    np.testing.assert_array_equal(chips[running], want["chips"][running])
    np.testing.assert_array_equal(table[running], want["table"][running])
    # The turn passes on after every action, from round to round too: one opponent action per step suffices.
    both = running[:, 1:] & running[:, :-1]
    assert (want["player"][:, 1:] != want["player"][:, :-1])[both].all()
    np.testing.assert_array_equal(won, want["net"])
    showdown = ~((want["action"] == 0) & running).any(axis=1)
    assert showdown.sum() > 2000 and (won[showdown] == 0).any()
