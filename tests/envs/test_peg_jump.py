"""PegJump against a plain search, hand-set boards and the upstream pitfalls."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxenv
from jaxenv import codec, episode, text
from jaxenv.envs.games.peg_jump import FEWEST, MOST, State
from jaxenv.solve import peg_jump as rules

ENV = jaxenv.make("peg_jump", 256)

# The 18 straight lines of three holes, written down by hand.
LINES = (
    (1, 2, 4), (2, 4, 7), (4, 7, 11), (3, 5, 8), (5, 8, 12), (6, 9, 13), (1, 3, 6), (3, 6, 10), (6, 10, 15),
    (2, 5, 9), (5, 9, 14), (4, 8, 13), (4, 5, 6), (7, 8, 9), (8, 9, 10), (11, 12, 13), (12, 13, 14),
    (13, 14, 15),
)  # fmt: skip
JUMPS = {(a, c): b for x, b, y in LINES for a, c in ((x, y), (y, x))}


def legal(pegs: frozenset) -> list[tuple[int, int]]:
    return [(a, c) for (a, c), b in JUMPS.items() if a in pegs and b in pegs and c not in pegs]


def after(pegs: frozenset, jump: tuple[int, int]) -> frozenset:
    return pegs - {jump[0], JUMPS[jump]} | {jump[1]}


@cache
def fewest(pegs: frozenset) -> int:
    return min([fewest(after(pegs, j)) for j in legal(pegs)], default=len(pegs))


def holes(bits: int) -> frozenset:
    return frozenset(k for k in range(1, 16) if int(bits) >> (k - 1) & 1)


def board(*pegs: int, limit: int = 26) -> State:
    return State(np.int32(sum(1 << (k - 1) for k in pegs)), np.int32(limit))


step = jax.jit(lambda state, a: ENV.step(jax.random.key(0), state, a))


@jax.jit
@jax.vmap
def start(key):
    return ENV.init(key, jnp.int32(0))


@jax.jit
@jax.vmap
def look(state):
    return [text.close(t)[0] for t in (ENV.text_obs(state), ENV.text_state(state))], ENV.solve(state)


def starts(count: int, seed: int):
    return jax.tree.map(np.asarray, start(jax.random.split(jax.random.key(seed), count)))


def test_jumps_are_the_straight_lines():
    """TextArena's table has jumps around corners, such as 7 over 11 to 13."""
    assert {tuple(j) for j in rules.JUMPS.tolist()} == {(a, b, c) for (a, c), b in JUMPS.items()}
    assert len(rules.JUMPS) == 36


def test_fewest_pegs_agree_with_a_search():
    table, jump = rules.tables()
    rng = np.random.default_rng(0)
    one = np.bitwise_count(np.arange(1 << 15)) <= 8
    for position in rng.choice(np.flatnonzero(one), 400, replace=False):
        pegs = holes(position)
        assert fewest(pegs) == table[position]
        if legal(pegs):
            a, _, c = rules.JUMPS[jump[position]].tolist()
            assert (a, c) in legal(pegs) and fewest(after(pegs, (a, c))) == fewest(pegs)
    # Known of this puzzle: from one empty hole, wherever it is, a single peg can be left.
    assert all(table[(1 << 15) - 1 - (1 << k)] == 1 for k in range(15))


def test_every_step_agrees_with_the_reference():
    state = starts(300, 1)
    rng = np.random.default_rng(1)
    seen = set()
    for bits in state.pegs:
        pegs = holes(bits)
        options = legal(pegs)
        jump = (
            options[rng.integers(len(options))]
            if rng.random() < 0.6
            else tuple(rng.integers(1, 16, 2).tolist())
        )
        then, out = step(State(bits, np.int32(26)), np.int32(jump))
        assert bool(out.valid) == (jump in options)
        if out.valid:
            new = after(pegs, jump)
            assert holes(then.pegs) == new and bool(out.terminated) == (not legal(new))
            assert float(out.reward) == (len(new) == 1)
        seen.add((bool(out.valid), bool(out.terminated)))
    assert seen >= {(True, False), (False, False)}


def test_hand_set_last_jump_wins():
    then, out = step(board(4, 2), np.int32([4, 1]))
    assert out.valid and out.terminated and out.reward == 1 and holes(then.pegs) == {1}


def test_hand_set_dead_end_pays_nothing():
    """Upstream pays 0.86 for three pegs left; a game that was not solved is lost."""
    then, out = step(board(4, 2, 11, 15), np.int32([4, 1]))
    assert out.valid and out.terminated and out.reward == 0 and holes(then.pegs) == {1, 11, 15}


@pytest.mark.parametrize(
    "jump",
    [
        (4, 1),
        (1, 6),
        (7, 13),
        (2, 9),
        (5, 12),
        (11, 4),
        (1, 1),
        (0, 4),
        (16, 1),
        (-1, 4),
        (2**31 - 1, -(2**31)),
    ],
)
def test_illegal_jumps_change_nothing_but_the_clock(jump):
    """Nothing to jump from, to jump over, no empty hole, not a line (7 over 11 to 13 in TextArena)."""
    state = board(1, 2, 5, 7, 11, 4, 9)
    ep = episode.advance(ENV, jax.random.key(0), episode.begin(ENV, state), jnp.asarray(jump, jnp.int32))
    assert not ep.valid and not ep.done and ep.t == 1 and ep.state.pegs == state.pegs and ep.ret == 0


def test_oracle_solves_every_start():
    every = np.concatenate(rules.solvable(FEWEST, MOST))
    assert len(every) == 2526 == len(np.unique(every))

    @jax.jit
    @jax.vmap
    def play(pegs):
        def turn(ep, k):
            return episode.advance(ENV, k, ep, ENV.solve(ep.state)), None

        first = episode.begin(ENV, State(pegs, jnp.int32(26)))
        return lax.scan(turn, first, jax.random.split(jax.random.key(0), MOST - 1))[0]

    end = play(every)
    assert np.asarray(end.success).all()
    np.testing.assert_array_equal(end.t, np.bitwise_count(every) - 1)


def test_random_play_earns_little():
    """Upstream's shaping gives it 0.77 on average."""

    @jax.jit
    @jax.vmap
    def play(key):
        def turn(ep, key):
            k_jump, k_step = jax.random.split(key)
            possible = (ep.state.pegs & rules.CHANGED) == rules.BEFORE
            jump = jax.random.categorical(k_jump, jnp.where(possible, 0.0, -jnp.inf))
            return episode.advance(ENV, k_step, ep, jnp.asarray(rules.JUMPS)[jump][::2]), None

        return lax.scan(turn, episode.start(ENV, key, jnp.int32(0)), jax.random.split(key, MOST - 1))[0]

    end = play(jax.random.split(jax.random.key(2), 3000))
    assert np.asarray(end.done).all() and np.asarray(end.valid).all()
    assert 0 < np.asarray(end.ret).mean() < 0.15


def test_text_alone_solves_the_board():
    state = starts(200, 3)
    (obs, facts), best = look(state)
    for o, f, bits, jump in zip(text.decode(obs), text.decode(facts), state.pegs, np.asarray(best)):
        cells = " ".join(o.splitlines()[1:]).split()
        assert [int(c[:-1]) for c in cells] == list(range(1, 16))
        assert [len(line.split()) for line in o.splitlines()[1:]] == [1, 2, 3, 4, 5]
        pegs = frozenset(int(c[:-1]) for c in cells if c.endswith("*"))
        assert pegs == holes(bits)
        count, options = f.split(" pegs; possible jumps: ")
        assert int(count) == len(pegs)
        assert {tuple(map(int, x.split(" to "))) for x in options.split(", ")} == set(legal(pegs))
        assert table_says_solved(after(pegs, tuple(jump.tolist())))


def table_says_solved(pegs: frozenset) -> bool:
    return rules.tables()[0][sum(1 << (k - 1) for k in pegs)] == 1


def test_starts_are_balanced_and_differ():
    state = starts(1000, 4)
    count = np.bitwise_count(state.pegs)
    assert set(count) == set(range(FEWEST, MOST + 1))
    assert np.bincount(count).max() < 0.25 * 1000
    assert all(table_says_solved(holes(p)) for p in state.pegs)
    assert (state.limit == 2 * (count - 1)).all()
    # Uniform over the 15 to 1,002 positions of a random count: about 580 differ; all of the rare ones appear.
    expected = sum(len(x) * (1 - (1 - 1 / (7 * len(x))) ** 1000) for x in rules.solvable(FEWEST, MOST))
    assert abs(len(np.unique(state.pegs)) - expected) < 60
    _, best = look(state)
    answers = np.asarray(best) @ np.asarray([16, 1])
    assert np.bincount(answers).max() < 0.25 * 1000


@pytest.mark.parametrize(
    "reply, jump", [("4 1", [4, 1]), ("[4 1]", [4, 1]), ("4, 1", [4, 1]), ("11, 4", [11, 4])]
)
def test_readable_answers(reply, jump):
    assert codec.read(ENV.answer, f"<answer>{reply}</answer>").tolist() == jump


@pytest.mark.parametrize("reply", ["41", "[41]", "[111]", "4 1 1", "4 to 1", "0 4", "16 1"])
def test_ambiguous_answers_are_unreadable(reply):
    """Upstream reads '[41]' as a jump from 4 to 1 and '[111]' as it pleases."""
    assert (codec.read(ENV.answer, f"<answer>{reply}</answer>") == codec.UNREADABLE).all()


def test_picture_shows_every_peg_in_its_place():
    full = np.asarray(jax.jit(ENV.render)(board(*range(1, 16)))).astype(int)
    for k in range(1, 16):
        one = np.asarray(jax.jit(ENV.render)(board(*(j for j in range(1, 16) if j != k)))).astype(int)
        r, c = np.nonzero((one != full).any(axis=-1))
        row, place = rules.PLACES[k - 1]
        pitch = 256 / 5.6
        assert abs(r.mean() - (256 * 0.21 + 0.88 * pitch * row)) < 1.5
        assert abs(c.mean() - (128 + pitch * (place - row / 2))) < 1.5
        assert len(r) > 0.8 * np.pi * (0.42 * pitch) ** 2 * 0.8
