"""Rush Hour: exact distances, reasoning-gym's board step by step, hand-set car parks and the upstream pitfalls."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from reasoning_gym.games.rush_hour import Board

import jaxenv
from jaxenv import codec, episode, text
from jaxenv.envs.games.rush_hour import EXIT_COL, EXIT_ROW, LETTERS, NONE, PLAN, SLOTS, N, State
from jaxenv.gen.rush_hour import FEWEST, bank

ENV = jaxenv.make("rush_hour", 256)
CODE = {name: k for k, name in enumerate(ENV.answer.names)}


# ---- reference: a car park is {letter: ((row, col), length, horizontal)} read off a picture of letters ----


def read(rows: list[str]) -> dict:
    where: dict[str, list] = {}
    for r, row in enumerate(rows):
        for c, letter in enumerate(row):
            if letter != ".":
                where.setdefault(letter, []).append((r, c))
    return {x: (at[0], len(at), at[0][0] == at[-1][0]) for x, at in where.items()}


def cells(vehicle) -> set:
    (r, c), length, horizontal = vehicle
    return {(r, c + k) if horizontal else (r + k, c) for k in range(length)}


def slide(park: dict, name: str) -> dict | None:
    """The car park after one move, None if it is illegal."""
    letter, forward = name[0], 1 if name[1] == "+" else -1
    if letter not in park:
        return None
    (r, c), length, horizontal = park[letter]
    moved = ((r, c + forward) if horizontal else (r + forward, c), length, horizontal)
    others = set().union(*(cells(v) for x, v in park.items() if x != letter))
    new = cells(moved)
    if new & others or not all(0 <= i < N and 0 <= j < N for i, j in new):
        return None
    return {**park, letter: moved}


def solution(park: dict) -> list[str]:
    """A shortest sequence of moves until X touches the right edge."""
    first = tuple(v[0] for v in park.values())
    shapes = [(letter, *v[1:]) for letter, v in park.items()]
    came, todo = {first: None}, deque([first])
    while todo:
        now = todo.popleft()
        taken = set()
        for at, (_, length, flat) in zip(now, shapes):
            taken |= cells((at, length, flat))
        for k, ((r, c), (letter, length, flat)) in enumerate(zip(now, shapes)):
            if letter == "X" and c == EXIT_COL:
                moves = []
                while came[now] is not None:
                    now, move = came[now]
                    moves.append(move)
                return moves[::-1]
            for sign, ahead, step in (("+", length, 1), ("-", -1, -1)):
                enter = (r, c + ahead) if flat else (r + ahead, c)
                if enter not in taken and min(enter) >= 0 and max(enter) < N:
                    then = (*now[:k], (r, c + step) if flat else (r + step, c), *now[k + 1 :])
                    if then not in came:
                        came[then] = now, letter + sign
                        todo.append(then)
    raise AssertionError("no solution")


def distance(park: dict) -> int:
    return len(solution(park))


# ---- between the two ----


@jax.jit
@jax.vmap
def look(state):
    return [text.close(t)[0] for t in (ENV.text_obs(state), ENV.text_state(state))]


def shown(state) -> list[tuple[list[str], str]]:
    """The board (rows of letters) and the facts of a batch of states; one compilation for all sizes."""
    count, out = len(state.limit), []
    for low in range(0, count, 128):
        rows = np.minimum(np.arange(low, low + 128), count - 1)
        obs, facts = map(text.decode, look(jax.tree.map(lambda x, rows=rows: np.asarray(x)[rows], state)))
        out += [([row.replace(" ", "")[:N] for row in o.splitlines()[1:]], f) for o, f in zip(obs, facts)]
    return out[:count]


def board(picture: str, limit: int = 66) -> State:
    """A state without a plan from rows of letters."""
    offset, lane, length = np.zeros((3, SLOTS), np.int32)
    horizontal = np.zeros(SLOTS, bool)
    for letter, ((r, c), size, flat) in read(picture.split()).items():
        slot = LETTERS.index(letter)
        offset[slot], lane[slot], length[slot], horizontal[slot] = *((c, r) if flat else (r, c)), size, flat
    plan, detour = np.full(PLAN, NONE, np.int32), np.full(ENV.horizon, NONE, np.int32)
    return State(offset, lane, length, horizontal, plan, np.int32(0), detour, np.int32(0), np.int32(limit))


start = jax.jit(jax.vmap(ENV.init))
step = jax.jit(lambda state, code: ENV.step(jax.random.key(0), state, code[None]))


def starts(per_level: int, seed: int):
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), per_level)
    return level, start(jax.random.split(jax.random.key(seed), len(level)), level)


@jax.jit
@jax.vmap
def walks(key, level):
    """Random moves, half of them followed by the oracle's; then the oracle alone."""

    def turn(carry, k):
        state, over = carry
        k_mix, k_act = jax.random.split(k)
        code = jax.random.randint(k_act, (), 0, 2 * SLOTS, jnp.int32)
        code = jnp.where(jax.random.bernoulli(k_mix, 0.7), code, ENV.solve(state)[0])
        then, out = ENV.step(k, state, code[None])
        valid = out.valid & ~over
        new = jaxenv.core.where(valid, then, state)
        return (new, over | (valid & out.terminated)), (state, code, out, over)

    first = ENV.init(key, level)
    (state, over), seen = lax.scan(turn, (first, jnp.bool_(False)), jax.random.split(key, 40))
    ep = episode.begin(ENV, state).replace(limit=jnp.int32(10_000))

    def rest(ep, k):
        return episode.advance(ENV, k, ep, ENV.solve(ep.state)), None

    end, _ = lax.scan(rest, ep, jax.random.split(key, 64))
    return seen, over | end.success


def test_moves_agree_with_the_reference_and_with_reasoning_gym():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), 12)
    keys = jax.random.split(jax.random.key(1), len(level))
    (states, codes, outs, over), solved = jax.tree.map(np.asarray, walks(keys, level))
    assert solved.all()  # from wherever a walk ended, taking detours back leads out
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), states)
    pictures = shown(flat)
    moved = refused = 0
    for k, (rows, facts) in enumerate(pictures):
        i, t = divmod(k, codes.shape[1])
        if over[i, t]:
            continue
        park, name = read(rows), ENV.answer.names[codes[i, t]]
        then = slide(park, name)
        assert bool(outs.valid[i, t]) == (then is not None)
        legal = [n for n in ENV.answer.names if slide(park, n)]
        assert facts.split("possible moves: ")[1].split(", ") == legal
        if k % 3:
            continue
        # reasoning-gym calls the red car A, all others by letters in order, and ignores what cannot move.
        rename = {x: chr(ord("A") + j) for j, x in enumerate(sorted(park, key=LETTERS.index))}
        peer = Board("".join(rename.get(x, "o") for row in rows for x in row))
        before = str(peer)
        if name[0] in rename:
            peer.perform_moves(f"{rename[name[0]]}{name[1]}1")
        assert (str(peer) != before) == bool(outs.valid[i, t])
        if then:
            drawn = [["."] * N for _ in range(N)]
            for x, vehicle in then.items():
                for r, c in cells(vehicle):
                    drawn[r][c] = rename[x]
            assert [r.replace(".", "o") for r in map("".join, drawn)] == [
                r.replace(".", "o") for r in peer.board_str().split("\n")[:N]
            ]
            assert peer.solved == bool(outs.terminated[i, t]) == (outs.reward[i, t] == 1)
        moved, refused = moved + (then is not None), refused + (then is None)
    assert moved > 200 and refused > 200


def test_levels_fix_vehicles_and_exact_distance():
    """Upstream's difficulty is a number of random slides, which says nothing about the distance."""
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), (90, 70, 24, 8, 5, 3))
    state = start(jax.random.split(jax.random.key(20), len(level)), level)
    for k, (rows, _) in enumerate(shown(state)):
        park = read(rows)
        moves = distance(park)
        (few, many), (near, far) = ENV.levels["vehicles"][level[k]], ENV.levels["moves"][level[k]]
        assert few <= len(park) <= many and near <= moves <= far
        assert state.limit[k] == 3 * moves


def test_bank_is_sound():
    """Every entry is a car park, and its moves are legal and lead out with the last one."""
    parks, plans = bank()
    assert parks.shape == (SLOTS - FEWEST + 1, 256, SLOTS)
    for count, (rows, ways) in enumerate(zip(parks, plans), FEWEST):
        least = max(
            hi for (u, v), (_, hi) in zip(ENV.levels["vehicles"], ENV.levels["moves"]) if u <= count <= v
        )
        assert len(np.unique(rows, axis=0)) == (256 if count > 3 else 35)
        for row, way in list(zip(rows, ways))[::8]:
            park = {}
            for letter, code in zip(LETTERS, row[:count].tolist()):
                at, lane, flat = code & 7, code >> 3 & 7, bool(code >> 7)
                park[letter] = ((lane, at) if flat else (at, lane), 2 + (code >> 6 & 1), flat)
            assert (row[count:] == NONE).all()
            assert park["X"][1:] == (2, True) and park["X"][0][0] == EXIT_ROW
            assert sum(len(cells(v)) for v in park.values()) == len(set().union(*map(cells, park.values())))
            moves = way[way != NONE].tolist()
            assert least <= len(moves) <= PLAN
            for code in moves:
                assert park["X"][0][1] != EXIT_COL
                park = slide(park, ENV.answer.names[code])
            assert park["X"][0][1] == EXIT_COL


# ---- hand-set car parks ----


def test_hand_set_blocker():
    """B has to go all the way down; then one move of X suffices."""
    state = board("...... .....B ...XXB .AA..B ...... ......")
    assert distance(read(["......", ".....B", "...XXB", ".AA..B", "......", "......"])) == 3
    for name, valid in (("X+", 0), ("B-", 1), ("B-", 0), ("B+", 1), ("B+", 1), ("B+", 1), ("X+", 1)):
        then, out = step(state, np.int32(CODE[name]))
        assert bool(out.valid) == valid, name
        assert bool(out.terminated) == (name == "X+" and valid == 1) == (out.reward == 1)
        state = then if valid else state
    assert int(state.offset[0]) == EXIT_COL  # touching the edge wins; X does not have to leave the board


def test_hand_set_blocked_and_absent():
    state = board("...... .....A XX...A .....A CC..BB ......")
    assert distance(read(["......", ".....A", "XX...A", ".....A", "CC..BB", "......"])) == 1 + 2 + 4
    for name in ("A+", "X-", "D+", "J-", "C-", "B+"):
        _, out = step(state, np.int32(CODE[name]))
        assert not out.valid and not out.terminated, name
    _, out = step(state, np.int32(CODE["A-"]))
    assert out.valid
    obs, facts = (text.decode(x)[0] for x in look(jax.tree.map(lambda x: np.stack([x] * 128), state)))
    assert obs.splitlines()[1:] == [
        ". . . . . . |", ". . . . . A |", "X X . . . A >", ". . . . . A |", "C C . . B B |", ". . . . . . |",
    ]  # fmt: skip
    assert facts == "cells from X to the edge: 4; in its way: A; possible moves: X+, A-, B-, C+"


def test_doing_nothing_earns_nothing():
    """Upstream pays for the column of X, up to a half before the first move."""
    _, state = starts(4, 3)
    one = jax.tree.map(lambda x: x[-1], state)
    ep = episode.begin(ENV, one)
    advance = jax.jit(lambda ep: episode.advance(ENV, jax.random.key(0), ep, jnp.int32([-1])))
    while not ep.done:
        ep = advance(ep)
        assert not ep.valid
    assert ep.truncated and ep.ret == 0


@pytest.mark.parametrize("reply, name", [("A+", "A+"), ("[x+]", "X+"), (" e- ", "E-"), ("(J+)", "J+")])
def test_lenient_answers(reply, name):
    assert codec.read(ENV.answer, f"<answer>{reply}</answer>").tolist() == [CODE[name]]


@pytest.mark.parametrize("reply", ["A", "+", "K+", "A+2", "A+ B-", "1+"])
def test_other_answers_are_unreadable(reply):
    assert (codec.read(ENV.answer, f"<answer>{reply}</answer>") == codec.UNREADABLE).all()


# ---- texts and instances ----


def test_board_in_text_is_enough():
    """A solver that sees nothing but the board in text_obs drives X out within the clock."""
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), (6, 6, 4, 4, 4, 4))
    state = start(jax.random.split(jax.random.key(9), len(level)), level)
    for k, (rows, _) in enumerate(shown(state)):
        one, moves = jax.tree.map(lambda x, k=k: x[k], state), solution(read(rows))
        for t, name in enumerate(moves):
            one, out = step(one, np.int32(CODE[name]))
            assert out.valid and bool(out.terminated) == (t == len(moves) - 1) == bool(out.reward == 1)


def test_instances_differ_and_use_all_letters():
    level, state = starts(1000, 2)
    picture = np.concatenate(
        [np.asarray(x).reshape(len(level), -1) for x in (state.offset, state.lane, state.length)], axis=1
    )
    answer = np.asarray(jax.jit(jax.vmap(ENV.solve))(state))[:, 0]
    for k in range(ENV.num_levels):
        rows = level == k
        if k > 0:
            assert len(np.unique(picture[rows], axis=0)) >= 990
            assert np.bincount(answer[rows]).max() < 0.55 * 1000
    used = np.asarray(state.length)[level == ENV.num_levels - 1] > 0
    assert used.any(axis=0).all() and "E" in LETTERS


def test_constant_moves_earn_little():
    _, state = starts(1000, 5)

    @jax.jit
    @jax.vmap
    def play(state):
        def turn(ep, k):
            return episode.advance(ENV, k, ep, jnp.int32([CODE["X+"]])), None

        return lax.scan(turn, episode.begin(ENV, state), jax.random.split(jax.random.key(0), 6))[0].ret

    assert np.asarray(play(state)).reshape(-1, 1000).mean(axis=1).max() < 0.55


def test_picture_shows_vehicles_letters_and_the_exit():
    state = board("A..... A..B.. XX.B.. ...B.. ...... ..CCC.")
    env = jaxenv.make("rush_hour", 224)
    picture = np.asarray(jax.jit(env.render)(state)).astype(int)
    side, top = 32, 16  # the board is centred: six rows of seven tiles
    at = lambda r, c: picture[top + r * side + 4, c * side + side // 2].tolist()  # noqa: E731
    assert at(2, 0) == at(2, 1) == [214, 34, 34] and at(0, 0) == at(1, 0) != at(1, 3)
    assert at(1, 3) == at(2, 3) == at(3, 3) and at(5, 2) == at(5, 3) == at(5, 4)
    assert at(2, 6) != at(0, 6) == at(5, 6)
