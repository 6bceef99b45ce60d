"""Othello against a plain Python reference, pgx, hand-set boards and the pitfalls of the upstream task."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pgx
import pytest
from jax import Array, lax

import jaxenv
from jaxenv import episode, text
from jaxenv.envs.games.othello import CORNERS, GREEDY, RANDOM, N, State
from jaxenv.solve import othello as rules

ENV = jaxenv.make("othello", 256)
SIZES = [low for low, _ in ENV.levels["board_size"]]
DIRECTIONS = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c]


# ---- the reference: positions are {(row, col): "me" or "you"} ----


def flips(discs: dict, size: int, side: str, at: tuple[int, int]) -> set:
    if at in discs:
        return set()
    out = set()
    for dr, dc in DIRECTIONS:
        line, (r, c) = [], (at[0] + dr, at[1] + dc)
        while (r, c) in discs and discs[r, c] != side:
            line.append((r, c))
            r, c = r + dr, c + dc
        if line and (r, c) in discs:
            out |= set(line)
    return out


def moves(discs: dict, size: int, side: str) -> dict:
    every = {(r, c): flips(discs, size, side, (r, c)) for r in range(size) for c in range(size)}
    return {at: f for at, f in every.items() if f}


def after(discs: dict, side: str, at: tuple[int, int], flipped: set) -> dict:
    return discs | {x: side for x in flipped | {at}}


def replies(discs: dict, size: int) -> list[dict]:
    """All positions that may follow once it is the opponent's turn, until I can move or nobody can."""
    options = moves(discs, size, "you")
    if not options:
        return [discs]
    out = []
    for at, flipped in options.items():
        then = after(discs, "you", at, flipped)
        out += [then] if moves(then, size, "me") or not moves(then, size, "you") else replies(then, size)
    return out


# ---- between the two ----


def cells(rows: np.ndarray) -> set:
    return {(r, c) for r in range(N) for c in range(N) if int(rows[r]) >> c & 1}


def position(mine, theirs) -> dict:
    return dict.fromkeys(cells(mine), "me") | dict.fromkeys(cells(theirs), "you")


def bitboard(where: set) -> np.ndarray:
    out = np.zeros(N, np.uint32)
    for r, c in where:
        out[r] |= np.uint32(1 << c)
    return out


def board(picture: str, opponent: int = RANDOM) -> State:
    """A position drawn with x for me and o for the opponent, my turn."""
    lines = picture.split()
    discs = {(r, c): x for r, line in enumerate(lines) for c, x in enumerate(line)}
    mine, theirs = (bitboard({at for at, x in discs.items() if x == mark}) for mark in "xo")
    size = np.int32(len(lines))
    legal = bitboard(set(moves(position(mine, theirs), int(size), "me")))
    return State(mine, theirs, legal, size, np.int32(0), np.int32(opponent))


def shown(state: State) -> str:
    side = np.full((N, N), ".")
    for mark, rows in (("x", state.mine), ("o", state.theirs)):
        for at in cells(np.asarray(rows)):
            side[at] = mark
    size = int(state.size)
    return " ".join("".join(row[:size]) for row in side[:size])


def random_move(key: Array, state: State) -> Array:
    k = jax.random.randint(key, (), 0, jnp.maximum(rules.count(state.legal), 1))
    return rules.nth(state.legal, k)


def playout(policy, key: Array, level: Array):
    """One game; returns every episode before and after its moves, and the moves."""

    def turn(ep, key):
        k_move, k_step = jax.random.split(key)
        action = policy(k_move, ep.state)
        then = episode.advance(ENV, k_step, ep, action)
        return then, (ep, action, then)

    k_start, k_play = jax.random.split(key)
    return lax.scan(turn, episode.start(ENV, k_start, level), jax.random.split(k_play, ENV.horizon))[1]


@cache
def random_games(per_level: int = 16):
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), per_level)
    keys = jax.random.split(jax.random.key(1), len(level))
    games = jax.jit(jax.vmap(partial(playout, random_move)))(keys, level)
    return jax.tree.map(np.asarray, games)


@jax.jit
def outcomes(state: State, action: Array):
    """One move against 64 random opponents."""
    start = episode.begin(ENV, state)
    return jax.vmap(lambda key: episode.advance(ENV, key, start, action))(
        jax.random.split(jax.random.key(0), 64)
    )


def results(state: State, action: tuple[int, int]):
    return jax.tree.map(np.asarray, outcomes(state, np.asarray(action, np.int32)))


@jax.jit
def views(state: State):
    return (
        ENV.render(state),
        [text.close(t)[0] for t in (ENV.text_obs(state), ENV.text_state(state))],
        ENV.text_question(state),
    )


def test_rules_agree_with_pgx():
    """256 random games of the 8 x 8 board, driven by pgx's own legal moves."""
    game = pgx.make("othello")
    eight = rules.board(jnp.int32(8))

    def turn(carry, key):
        theirs_state, first, second = carry
        legal, _ = rules.legal(first, second, eight)
        same = jnp.all(rules.bits(legal)[:8, :8].reshape(-1) == theirs_state.legal_action_mask[:64])
        same &= jnp.all(rules.bits(first)[:8, :8].reshape(-1) == (theirs_state._x.board == 1))
        same &= jnp.all(rules.bits(second)[:8, :8].reshape(-1) == (theirs_state._x.board == -1))
        action = jax.random.categorical(key, jnp.where(theirs_state.legal_action_mask, 0.0, -jnp.inf))
        move = jnp.where(action < 64, rules.cell(action // 8, action % 8), jnp.uint32(0))
        first, second = rules.play(first, second, move)
        running = ~theirs_state.terminated
        return (game.step(theirs_state, action), second, first), (same | ~running, running)

    def play(key):
        start = game.init(key)
        black, white = bitboard({(3, 4), (4, 3)}), bitboard({(3, 3), (4, 4)})
        return lax.scan(turn, (start, black, white), jax.random.split(key, 64))[1]

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        same, running = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), 256))
    assert same.all() and running.sum() > 256 * 55


def test_rules_agree_with_the_reference():
    before, _, _ = random_games()
    rng = np.random.default_rng(0)
    games, turns = np.nonzero(~before.done)
    pick = rng.choice(len(games), 300, replace=False)
    state = jax.tree.map(lambda x: x[games[pick], turns[pick]], before.state)

    def look(state):
        full = rules.board(state.size)
        legal, other = rules.legal(state.mine, state.theirs, full)
        every = jnp.arange(N * N)
        one = jax.vmap(lambda k: rules.play(state.mine, state.theirs, rules.cell(k // N, k % N)))(every)
        planes = rules.gains(state.mine, state.theirs, full)
        gain = sum(rules.bits(p).astype(jnp.int32) << k for k, p in enumerate(planes))
        return legal, other, one, gain, rules.greatest(legal, planes)

    legal, other, (mine, theirs), gain, greatest = jax.tree.map(np.asarray, jax.jit(jax.vmap(look))(state))
    np.testing.assert_array_equal(legal, state.legal)
    assert len(set(state.size.tolist())) == 4
    for i in range(300):
        discs, size = position(state.mine[i], state.theirs[i]), int(state.size[i])
        options = moves(discs, size, "me")
        assert cells(legal[i]) == set(options)
        assert cells(other[i]) == set(moves(discs, size, "you"))
        counts = {at: len(f) for at, f in options.items()}
        assert {at: gain[i][at] for at in zip(*np.nonzero(gain[i]))} == counts
        assert cells(greatest[i]) == {at for at, n in counts.items() if n == max(counts.values())}
        for (r, c), flipped in options.items():
            assert position(mine[i, r * N + c], theirs[i, r * N + c]) == after(discs, "me", (r, c), flipped)


def test_every_step_is_a_move_and_a_legal_reply():
    before, actions, then = random_games()
    games, turns = np.nonzero(~before.done)
    rng = np.random.default_rng(1)
    passes = 0
    for k in rng.permutation(len(games))[:400]:
        i = games[k], turns[k]
        size, opponent = int(before.state.size[i]), int(before.state.opponent[i])
        discs = position(before.state.mine[i], before.state.theirs[i])
        at = tuple(int(x) for x in actions[i])
        middle = after(discs, "me", at, moves(discs, size, "me")[at])
        end = position(then.state.mine[i], then.state.theirs[i])
        assert end in replies(middle, size)
        options = moves(middle, size, "you")
        passes += not options
        if opponent == GREEDY and options:
            most = max(map(len, options.values()))
            best = [after(middle, "you", a, f) for a, f in options.items() if len(f) == most]
            assert any(end == b or end in replies(b, size) for b in best)
        corners = {(r, c) for r in (0, size - 1) for c in (0, size - 1)}
        if opponent == CORNERS and corners & set(options):
            assert any(end.get(c) == "you" and c not in middle for c in corners)
        over = not moves(end, size, "me") and not moves(end, size, "you")
        lead = sum(1 if x == "me" else -1 for x in end.values())
        assert bool(then.terminated[i]) == over
        assert float(then.reward[i]) == ((np.sign(lead) + 1) / 2 if over else 0)
    assert passes > 0


def test_someone_can_always_move():
    """Over random games: the agent has a legal move or the game is over, and games end within the clock."""
    _, _, then = random_games()
    legal = (then.state.legal != 0).any(axis=-1)
    assert (legal | then.terminated).all() and not (legal & then.terminated).any()
    assert then.terminated[:, -1].all() and then.valid.all()


def test_hand_set_win_draw_and_loss():
    won = results(board("xxx. xooo xxxx xoxx"), (0, 3))
    assert (won.reward == 1).all() and won.terminated.all()
    lost = results(board("xoo. oooo oooo oooo"), (0, 3))  # 4 to 12 although two discs flip
    assert (lost.reward == 0).all() and lost.terminated.all()
    even = results(board("xxxx xoo. oooo oooo"), (1, 3))
    assert (even.reward == 0.5).all() and even.terminated.all()


def test_hand_set_passes():
    # The opponent has no disc it could flank with after my move: I move again at once.
    state = board("xo.. .... xo.. ....")
    then = results(state, (0, 2))
    assert (then.state.legal != 0).any() and not then.terminated.any()
    assert {shown(jax.tree.map(lambda x, i=i: x[i], then.state)) for i in range(8)} == {"xxx. .... xo.. ...."}
    # Taking the last opposing disc ends the game although cells are empty.
    wiped = results(board("xo.. .... .... ...."), (0, 2))
    assert wiped.terminated.all() and (wiped.reward == 1).all()


def test_opponent_moves_twice_when_the_agent_must_pass():
    before, _, then = random_games()
    discs = lambda state: np.bitwise_count(state.mine | state.theirs).sum(axis=-1)  # noqa: E731
    grown = discs(then.state).astype(int) - discs(before.state)
    running = ~before.done
    assert set(np.unique(grown[running])) >= {1, 2, 3}  # it passed, it answered, it played twice


@pytest.mark.parametrize(
    "action", [(0, 0), (2, 2), (-1, 2), (2, -1), (6, 0), (2, 6), (10, 10), (-(2**31), 2**31 - 1)]
)
def test_illegal_cell_changes_nothing_but_the_clock(action):
    state = board("...... ...... ..ox.. ..xo.. ...... ......")
    then = results(state, action)
    assert not then.valid.any() and (then.t == 1).all() and (then.reward == 0).all() and not then.done.any()
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(a, np.broadcast_to(b, a.shape)), then.state, state
    )


def test_random_opponent_uses_every_move():
    state = board("...... ...... ..ox.. ..xo.. ...... ......")
    then = results(state, (1, 2))
    seen = [shown(jax.tree.map(lambda x, i=i: x[i], then.state)) for i in range(64)]
    assert len(set(seen)) == 3 and min(seen.count(s) for s in set(seen)) > 10


def test_solve_beats_random_play():
    games = 96
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), games)

    def earned(policy):
        def last(key, level):
            def turn(ep, key):
                k_move, k_step = jax.random.split(key)
                return episode.advance(ENV, k_step, ep, policy(k_move, ep.state)), None

            k_start, k_play = jax.random.split(key)
            ep, _ = lax.scan(turn, episode.start(ENV, k_start, level), jax.random.split(k_play, ENV.horizon))
            return ep.ret

        keys = jax.random.split(jax.random.key(5), len(level))
        return np.asarray(jax.jit(jax.vmap(last))(keys, level)).reshape(-1, games)

    strong, weak = earned(lambda _, state: ENV.solve(state)), earned(random_move)
    error = np.sqrt(strong.var(axis=1) / games + weak.var(axis=1) / games)
    assert ((strong.mean(axis=1) - weak.mean(axis=1)) / error > 3.1).all()  # p < 0.001 at every level


def test_starts_are_fair_and_distinct():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), 1000)
    keys = jax.random.split(jax.random.key(2), len(level))
    state = jax.tree.map(np.asarray, jax.jit(jax.vmap(ENV.init))(keys, level))
    assert (state.legal != 0).any(axis=1).all()
    for k, size in enumerate(SIZES):
        rows = level == k
        assert 0.4 < state.colour[rows].mean() < 0.6
        distinct = {a.tobytes() + b.tobytes() for a, b in zip(state.mine[rows], state.theirs[rows])}
        if size > 4:
            assert len(distinct) >= 990
            continue
        # The 4 x 4 board: exactly the positions that four or five plies can reach.
        reached = [{(1, 2): "me", (2, 1): "me", (1, 1): "you", (2, 2): "you"}]
        possible = set()
        for ply in range(1, 6):
            new = {}
            for discs in reached:
                for at, flipped in moves(discs, size, "me").items():
                    turned = {
                        x: {"me": "you", "you": "me"}[s] for x, s in after(discs, "me", at, flipped).items()
                    }
                    if moves(turned, size, "me"):  # the generator makes no ply after which a side must pass
                        new[frozenset(turned.items())] = turned
            reached = list(new.values())
            if ply >= 4:
                possible |= {(ply, p) for p in new}
        seen = {
            (len(d) - 4, frozenset(d.items())) for d in map(position, state.mine[rows], state.theirs[rows])
        }
        assert seen <= possible and len(seen) > 0.6 * len(possible)


def test_constant_answers_earn_nothing():
    """A cell can be played once and no game ends with its first move: a constant answer finishes none."""
    _, _, then = random_games()
    assert not then.done[:, 0].any() and (then.t[:, -1] >= 2).all()


def test_picture_and_text_show_the_agents_side():
    """Upstream: dots of whoever moves, other marks in the text than in the picture, no coordinates."""
    state = board("...... ...... ..ox.. ..xo.. ...... ......")
    for colour, mark, other in ((0, "B", "W"), (1, "W", "B")):
        seen = state.replace(colour=np.int32(colour))
        picture, texts, question = views(seen)
        obs, facts, question = (bytes(b for b in np.asarray(t) if b).decode() for t in (*texts, question))
        assert obs.splitlines()[1:] == [
            f"{mark} 0 1 2 3 4 5", "0 . . . . . .", "1 . . * . . .", f"2 . * {other} {mark} . .",
            f"3 . . {mark} {other} * .", "4 . . . * . .", "5 . . . . . .",
        ]  # fmt: skip
        assert question.startswith("You play Othello as " + {"B": "black", "W": "white"}[mark])
        assert facts.endswith("(1,2)1, (2,1)1, (3,4)1, (4,3)1")
        picture = np.asarray(picture)
        side = 256 // 7 // 8 * 8
        top = (256 - 7 * side) // 2 // 8 * 8
        centres = top + side * np.arange(7) + side // 2 - 1
        middle = picture[centres[:, None], centres[None, :]].astype(int)
        mine, theirs = middle[3, 4], middle[3, 3]
        np.testing.assert_array_equal(mine, middle[0, 0])  # the corner shows the agent's colour
        assert (mine.sum() < 200) == (colour == 0) and (theirs.sum() < 200) == (colour == 1)
        assert middle[2, 3][0] > 200 and middle[2, 3][2] < 100  # a yellow dot on a legal cell
        assert not np.array_equal(
            picture[:, : top + side], picture[:, top + 6 * side :]
        )  # indices on the left


def test_text_of_the_largest_board_lists_every_legal_cell():
    before, _, _ = random_games()
    options = np.bitwise_count(before.state.legal).sum(axis=-1)
    i = np.unravel_index(options.argmax(), options.shape)
    _, (_, facts), _ = views(jax.tree.map(lambda x: x[i], before.state))
    assert bytes(np.asarray(facts)).count(b"(") - 1 == options[i] > 15
