"""Limit hold'em: the order of hands by brute force, a plain referee of the betting, what stays hidden, returns."""

import re
from collections import Counter
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxenv
from jaxenv import codec, episode
from jaxenv.envs.games.texas_holdem import CALL, CHECK, FOLD, NONE, RAISE, WORDS, State, legal
from jaxenv.solve import holdem

ENV = jaxenv.make("texas_holdem", 64)
GAMES = 1000


def cards(names: str) -> np.ndarray:
    return np.asarray(
        [13 * holdem.SUITS.index(n[1]) + holdem.RANKS.index(n[0]) for n in names.split()], np.int32
    )


def five(hand) -> tuple:
    """The textbook's order of five cards, as a tuple that compares."""
    ranks = sorted((c % 13 for c in hand), reverse=True)
    counts = sorted(Counter(ranks).items(), key=lambda rc: (-rc[1], -rc[0]))
    shape, order = [n for _, n in counts], [r for r, _ in counts]
    flush = len({c // 13 for c in hand}) == 1
    straight = len(order) == 5 and (order[0] - order[4] == 4 or order == [12, 3, 2, 1, 0])
    if straight:
        order = [3] if order[0] == 12 and order[1] == 3 else order[:1]
    if straight and flush:
        return (8, *order)
    for name, pattern in ((7, [4, 1]), (6, [3, 2])):
        if shape == pattern:
            return (name, *order)
    if flush:
        return (5, *order)
    if straight:
        return (4, *order)
    return ({3: 3, 2: 2 if shape[1] == 2 else 1, 1: 0}[shape[0]], *order)


STRENGTH = jax.jit(lambda c: holdem.strength(holdem.hand(c, jnp.ones(c.shape, bool))))


def seven_cards(rng) -> np.ndarray:
    """Random hands, most of them from few ranks or few suits, so that every kind occurs."""
    decks = [range(52), range(26), [c for c in range(52) if c % 13 in (0, 1, 2, 3, 12)], range(16)]
    decks.append([c for c in range(52) if c % 13 < 4])
    return np.asarray([rng.permutation(list(decks[k % 5]))[:7] for k in range(2500)], np.int32)


def test_order_of_hands_is_that_of_their_best_five_cards():
    hands = seven_cards(np.random.default_rng(0))
    subsets = np.asarray(list(combinations(range(7), 5)))
    assert len(subsets) == 21
    got = np.asarray(STRENGTH(hands))
    np.testing.assert_array_equal(got, np.asarray(STRENGTH(hands[:, subsets])).max(axis=1))
    best = [max(five(h[s]) for s in subsets) for h in hands]
    assert {b[0] for b in best} == set(range(9))
    np.testing.assert_array_equal(got >> 26, [b[0] for b in best])
    places = {value: k for k, value in enumerate(sorted(set(best)))}
    rank = np.asarray([places[b] for b in best])
    order = np.argsort(rank, kind="stable")
    np.testing.assert_array_equal(np.sign(np.diff(got[order])), np.sign(np.diff(rank[order])))


@pytest.mark.parametrize(
    "better, worse",
    [
        ("As Ks Qs Js Ts 2h 2d", "Kh Qh Jh Th 9h Ad Ac"),
        ("6s 5s 4s 3s 2s Kd Kh", "As 5s 4s 3s 2s Kd Kh"),  # the ace below the two is the lowest straight
        ("2s 2h 2d 2c 3s 4s 5s", "As Ah Ad Ks Kh Kd Qs"),
        ("As Ah Ad 2s 2h 3d 4c", "Ks Kh Kd As Ah 3d 4c"),
        ("5s 5h 5d 4s 4h 4d 2c", "5s 5h 5d 3s 3h 4c 2c"),  # two triples
        ("As 9s 7s 5s 3s Kd Kh", "As 9s 7s 4s 3s Kd Kh"),
        ("As Ad Ks Kd Qs Qd 2c", "As Ad Ks Kd Jd Jc 2c"),  # three pairs: the third one is the fifth card
        ("As Ad Ks Qd Js 3d 2c", "As Ad Ks Qd Ts 9d 8c"),
    ],
)
def test_hand_set_pairs_of_hands(better, worse):
    first, second = np.asarray(STRENGTH(np.stack([cards(better), cards(worse)])))
    assert first > second


def test_equity_of_known_hands():
    chance = jax.jit(lambda mine, board, n: holdem.equity(mine, board, n, 512) / 1024)
    none = jnp.zeros(5, jnp.int32)
    assert abs(chance(cards("As Ah"), none, 0) - 0.852) < 0.05
    assert abs(chance(cards("2s 7h"), none, 0) - 0.346) < 0.06
    assert chance(cards("As Ks"), cards("Qs Js Ts 2h 2d"), 5) == 1.0
    assert chance(cards("2s 3h"), cards("Qc Jc Tc Ac Kc"), 5) == 0.5  # everybody plays the table


# ---- games ----


POLICIES = ("random", "solve", "raise", "call")


def policy(which, key, state):
    """All four are computed and one is taken, so that a game compiles once."""
    allowed = legal(state, True)
    chance = jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))
    first = [
        jnp.argmax(jnp.where(allowed, jnp.asarray(order), -1)) for order in ([0, 1, 2, 3], [0, 1, 2, -1])
    ]
    return jnp.stack([chance, ENV.solve(state)[0], *first]).astype(jnp.int32)[which][None]


@pytest.fixture(scope="module")
def games():
    """Per policy: every episode before and after its moves, and the moves, [GAMES, 16] each."""

    def play(which, key):
        def turn(ep, k):
            k_move, k_step = jax.random.split(k)
            action = policy(which, k_move, ep.state)
            then = episode.advance(ENV, k_step, ep, action)
            return then, (ep, action, then)

        start = episode.start(ENV, key, jnp.int32(0))
        return lax.scan(turn, start, jax.random.split(jax.random.fold_in(key, 1), ENV.horizon))[1]

    each = jax.vmap(jax.vmap(play, in_axes=(None, 0)), in_axes=(0, None))
    played = jax.jit(each)(jnp.arange(len(POLICIES)), jax.random.split(jax.random.key(3), GAMES))
    played = jax.tree.map(np.asarray, played)
    return {name: jax.tree.map(lambda x, k=k: x[k], played) for k, name in enumerate(POLICIES)}


def best(state, hole: int) -> tuple:
    """The best five of the cards from place `hole` on and the table."""
    return max(five(x) for x in combinations([*state.cards[hole : hole + 2], *state.cards[4:]], 5))


def at(tree, i, t):
    return jax.tree.map(lambda x: x[i, t], tree)


class Referee:
    """RLCard's betting for two, player 0 is the agent."""

    def __init__(self, state):
        self.chips = [int(state.mine), int(state.theirs)]
        self.round, self.raises, self.acted = int(state.round), int(state.raises), int(state.acted)
        self.words = [int(state.my_word), int(state.their_word)]
        self.folded, self.over = None, False

    def legal(self, player):
        behind = self.chips[1 - player] - self.chips[player]
        return [FOLD, CALL if behind else CHECK] + [RAISE] * (self.raises < 4)

    def play(self, player, action):
        assert action in self.legal(player)
        self.words[player] = action
        if action == FOLD:
            self.folded, self.over, self.acted = player, True, self.acted + 1
            return
        if action in (CALL, RAISE):
            self.chips[player] = self.chips[1 - player]
        if action == RAISE:
            self.chips[player] += 2 if self.round < 2 else 4
            self.raises, self.acted = self.raises + 1, 1
        else:
            self.acted += 1
        if self.acted == 2:
            self.over = self.round == 3
            if not self.over:
                self.round, self.raises, self.acted, self.words = self.round + 1, 0, 0, [NONE, NONE]

    def facts(self):
        return (*self.chips, self.round, self.raises, self.acted, *self.words, self.over)


def facts(state):
    return (
        int(state.mine), int(state.theirs), int(state.round), int(state.raises), int(state.acted),
        int(state.my_word), int(state.their_word), bool(state.over),
    )  # fmt: skip


def test_every_step_follows_the_betting_rules(games):
    replies, steps = Counter(), 0
    for name in POLICIES:
        before, actions, after = games[name]
        for i in range(100):
            for t in range(ENV.horizon):
                if before.done[i, t]:
                    break
                state, then = at(before.state, i, t), at(after.state, i, t)
                steps += 1
                possible = []
                for reply in range(4):
                    table = Referee(state)
                    table.play(0, int(actions[i, t, 0]))
                    if not table.over:
                        if reply not in table.legal(1):
                            continue
                        if reply == FOLD:
                            assert table.raises or table.facts() != facts(then)
                        table.play(1, reply)
                    if table.facts() == facts(then):
                        possible.append((reply, table))
                assert possible
                replies[possible[0][0]] += 1
                table = possible[0][1]
                assert after.done[i, t] == table.over
                want = 0
                if table.over:
                    lead = (
                        int(best(state, 0) > best(state, 2)) - int(best(state, 0) < best(state, 2))
                        if table.folded is None
                        else 2 * table.folded - 1
                    )
                    want = np.float32((50 + lead * table.chips[1 if lead > 0 else 0]) / 100)
                assert after.reward[i, t] == want
    assert steps > 900 and all(replies[k] > 10 for k in range(4))


def test_hands_end_before_the_clock(games):
    for name in POLICIES:
        _, _, after = games[name]
        assert after.terminated[:, -1].all() and not after.truncated.any()
        assert (after.t[:, -1] <= 12).all()


def test_solve_beats_random_play(games):
    strong, weak = games["solve"][2].ret[:, -1], games["random"][2].ret[:, -1]
    error = np.sqrt(strong.var() / GAMES + weak.var() / GAMES)
    assert (strong.mean() - weak.mean()) / error > 3.1  # p < 0.001
    assert strong.mean() > 0.48  # it holds its own against the opponent


def test_no_habit_earns_much(games):
    for name in ("raise", "call", "random"):
        assert games[name][2].ret[:, -1].mean() < 0.51


def test_starts_differ_and_both_seats_occur(games):
    start = at(games["random"][0].state, slice(None), 0)
    assert all(len(set(c)) == 9 and set(c) <= set(range(52)) for c in start.cards)
    seen = {(*sorted(c[:2]), f) for c, f in zip(start.cards.tolist(), start.acted)}
    assert len({c.tobytes() for c in start.cards}) >= 990 and len(seen) > 600
    first = start.their_word == NONE
    assert 0.45 < first.mean() < 0.55 and not start.over.any() and (start.their_word != FOLD).all()
    assert ((start.mine == 1) & (start.theirs == 2))[first].all() and (start.mine == 2)[~first].all()
    assert set(np.unique(start.their_word)) == {CALL, RAISE, NONE}


STATE = State(
    cards("As Ah 7d 2c Ad 9s 9h 3c 4c"),
    *(np.int32(x) for x in (3, 14, 18, 1, 1, CHECK, RAISE)),
    np.bool_(False),
)
KEYS = jax.random.split(jax.random.key(0), 128)
STEP = jax.jit(lambda s, a: jax.vmap(lambda key: ENV.step(key, s, a))(KEYS))


def play(state, word):
    reply = codec.read(ENV.answer, f"<answer>{word}</answer>")
    return jax.tree.map(lambda x: np.asarray(x)[0], STEP(state, reply))


@pytest.mark.parametrize(
    "hole, word, ret",
    [
        ("As Ah 7d 2c", "call", 0.68),  # 18 chips each: a full house wins the opponent's
        ("7d 2c As Ah", "call", 0.32),
        ("7d 2c 7h 2d", "call", 0.5),  # the table plays: the pot is split
        ("As Ah 7d 2c", "fold", 0.36),  # the better hand gives up its 14 chips
    ],
)
def test_hand_set_endings(hole, word, ret):
    state = STATE.replace(cards=np.concatenate([cards(hole), STATE.cards[4:]]))
    then, out = play(state, word)
    assert out.valid and out.terminated and out.reward == np.float32(ret) and then.over


def test_illegal_actions_change_nothing():
    for state, words in (
        (STATE, ["check"]),
        (STATE.replace(theirs=np.int32(14), raises=np.int32(0)), ["call"]),
        (STATE.replace(raises=np.int32(4)), ["raise", "bet"]),
    ):
        for word in words:
            then, out = play(state, word)
            assert not out.valid and not out.terminated and out.reward == 0
            jax.tree.map(np.testing.assert_array_equal, then, state)
    for wild in (-1, 4, 2**31 - 1):
        assert not STEP(STATE, np.asarray([wild], np.int32))[1].valid.any()


def test_words_are_read_leniently_and_others_refused():
    for good in ("raise", "Raise", " bet ", "(raise)", "RAISE."):
        assert codec.read(ENV.answer, f"<answer>{good}</answer>")[0] == RAISE
    for bad in ("", "all in", "raise 4", "raise or call", "pass"):  # upstream: a KeyError
        assert codec.read(ENV.answer, f"<answer>{bad}</answer>")[0] == codec.UNREADABLE


@jax.jit
def view(state):
    return (
        ENV.render(state),
        ENV.text_obs(state),
        ENV.text_state(state),
        ENV.text_question(state),
        ENV.solve(state),
    )


def texts(seen):
    return [bytes(b for b in np.asarray(t) if b).decode() for t in seen[1:4]]


def test_opponents_cards_are_hidden_until_a_showdown():
    """Upstream shows both hands and does not say which is whose."""
    other = STATE.replace(cards=np.concatenate([STATE.cards[:2], cards("Kd Kh"), STATE.cards[4:]]))
    jax.tree.map(np.testing.assert_array_equal, view(STATE), view(other))
    folded = [play(s, "fold")[0] for s in (STATE, other)]
    jax.tree.map(np.testing.assert_array_equal, view(folded[0]), view(folded[1]))
    shown = [view(play(s, "call")[0]) for s in (STATE, other)]
    assert not np.array_equal(shown[0][0], shown[1][0])
    assert "opponent: 7d 2c" in texts(shown[0])[0] and "opponent: Kd Kh" in texts(shown[1])[0]
    assert "your cards are at the bottom" in texts(shown[0])[2]
    # Cards that have not been dealt stay hidden too.
    early = [
        s.replace(round=np.int32(1))
        for s in (STATE, STATE.replace(cards=cards("As Ah 7d 2c Ad 9s 9h 5c 6c")))
    ]
    jax.tree.map(np.testing.assert_array_equal, view(early[0]), view(early[1]))


def test_texts_tell_what_the_picture_shows(games):
    before = games["random"][0]
    for i in range(60):
        state = at(before.state, i, min(1, int(before.t[i, -1]) - 1))
        obs, known, _ = texts(view(state))
        mine, table, theirs, chips, raises, words = obs.split("\n")
        names = [holdem.RANKS[c % 13] + holdem.SUITS[c // 13] for c in state.cards]
        count = (0, 3, 4, 5)[state.round]
        assert mine.split(": ")[1].split() == names[:2] and theirs == "opponent: hidden"
        assert table.split(": ")[1] == (" ".join(names[4 : 4 + count]) or "no cards")
        assert [int(x) for x in re.findall(r"\d+", chips + raises)] == [
            state.mine,
            state.theirs,
            state.raises,
        ]
        assert words.endswith(
            f"you {(*WORDS, 'none')[state.my_word]}, opponent {(*WORDS, 'none')[state.their_word]}"
        )
        listed = re.search("you may ([a-z, ]+);", known)[1].split(", ")
        assert listed == [WORDS[a] for a in sorted(Referee(state).legal(0))]
        if state.theirs > state.mine:
            price, pot = map(int, re.search(r"costs (\d+) and makes the pot (\d+)", known).groups())
            assert price == state.theirs - state.mine and pot == 2 * state.theirs
        if count:
            hand = max(five(x) for x in combinations([*state.cards[:2], *state.cards[4 : 4 + count]], 5))
            assert known.endswith("you hold " + holdem.HANDS[hand[0]])
        else:
            assert known.endswith("you hold " + holdem.HANDS[int(state.cards[0] % 13 == state.cards[1] % 13)])


def test_opponent_is_keyed_and_minds_its_cards():
    """A raise before the flop, 128 keys each: aces raise back, seven and two of different suits mostly fold."""
    facing = State(cards("Ks 9d 7d 2c Ad 9s 9h 3c 4c"), *(np.int32(x) for x in (0, 2, 2, 0, 1, NONE, CALL)), np.bool_(False))  # fmt: skip
    reply = lambda s: jax.tree.map(np.asarray, STEP(s, np.asarray([RAISE], np.int32))[0])  # noqa: E731
    weak, aces = reply(facing), reply(facing.replace(cards=cards("Ks 9d As Ac Ad 9s 9h 3c 4c")))
    assert (weak.their_word == FOLD).mean() > 0.8 and (weak.their_word == RAISE).any()
    assert (aces.their_word == RAISE).mean() > 0.8 and not (aces.their_word == FOLD).any()
    assert (aces.round == 1).any()  # it hides strength now and then
