"""MultiRoom against MiniGrid, a search over all states, hand-set chains and the upstream pitfalls."""

from collections import deque
from functools import cache

import explorer
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from minigrid.core.actions import Actions
from minigrid.core.world_object import Door, Goal, Wall
from minigrid.envs import MultiRoomEnv

import jaxenv
from jaxenv import codec, episode, text
from jaxenv.envs.spatial2d import multi_room as mr
from jaxenv.envs.spatial2d.multi_room import AGENT, CLOSED, DOORS, MAP, OPEN, ROOMS, Chain, State
from jaxenv.first_person import ACTIONS, FLOOR, FORWARD, GOAL, TOGGLE, UNSEEN, WALL
from jaxenv.solve.minigrid import AHEAD

ENV = jaxenv.make("multi_room", 256)
ACTS = ACTIONS.names
COLOURS = list(mr.COLOURS)


def building(rooms, doors, pos, heading, goal, opened=()) -> State:
    """`rooms` is [(top, left, rows, cols), ...], `doors` is [(row, col, heading), ...]."""
    rooms = np.int32(rooms + [(0, 0, 0, 0)] * (ROOMS - len(rooms)))
    count, used = len(doors) + 1, np.int32(doors + [(0, 0, 0)] * (DOORS - len(doors)))
    chain = Chain(rooms[:, :2], rooms[:, 2:], used[:, :2], used[:, 2], np.int32(count))
    is_open = np.isin(np.arange(DOORS), opened)
    return State(
        chain, np.arange(DOORS, dtype=np.int32) % 4, is_open, np.int32(pos), np.int32(heading),
        np.int32(goal), np.int32(100),
    )  # fmt: skip


step = jax.jit(lambda state, act: ENV.step(jax.random.key(0), state, act[None]))
start = jax.jit(jax.vmap(ENV.init))


@jax.jit
@jax.vmap
def _solved(state):
    def turn(ep, key):
        return episode.advance(ENV, key, ep, ENV.solve(ep.state)), None

    ep = lax.scan(turn, episode.begin(ENV, state), jax.random.split(jax.random.key(0), 110))[0]
    return ep.t, ep.success, mr._to_go(state)


def solved(states: list[State]):
    """Steps and success of `solve` and what it believed the way to be; one compilation for all."""
    parts = []
    for low in range(0, len(states), 128):
        part = [states[min(low + k, len(states) - 1)] for k in range(128)]
        parts.append(jax.tree.map(np.asarray, _solved(jax.tree.map(lambda *x: np.stack(x), *part))))
    return [np.concatenate(x)[: len(states)] for x in zip(*parts)]


def starts(per_level: int, seed: int):
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), per_level)
    state = start(jax.random.split(jax.random.key(seed), len(level)), level)
    return level, jax.tree.map(np.asarray, state)


def at(tree, *i):
    return jax.tree.map(lambda x: np.asarray(x)[i], tree)


# ---- MiniGrid ----

WALKS, LENGTH = 6, 40


@jax.jit
@jax.vmap
def walks(key, level):
    """A walk that is random at times and sensible at others; states, actions and what each step gave."""

    def turn(state, key):
        k_mix, k_act = jax.random.split(key)
        act = jax.random.randint(k_act, (1,), 0, len(ACTS), jnp.int32)
        act = jnp.where(jax.random.bernoulli(k_mix, 0.35), act, ENV.solve(state))
        then, out = ENV.step(key, state, act)
        new = jaxenv.core.where(out.valid & ~out.terminated, then, state)
        return new, (state, act[0], out, then, mr._view(state))

    return lax.scan(turn, ENV.init(key, level), jax.random.split(key, LENGTH))[1]


@cache
def peer() -> MultiRoomEnv:
    env = MultiRoomEnv(2, 2)
    env.reset(seed=0)
    return env


def mirror(state: State) -> MultiRoomEnv:
    """MiniGrid's environment with one of our states set in it."""
    env = peer()
    env.grid = type(env.grid)(MAP, MAP)
    chain, count = state.chain, int(state.chain.count)
    for (top, left), (rows, cols) in zip(chain.top[:count].tolist(), chain.size[:count].tolist()):
        for r in range(rows):
            for c in range(cols):
                if r in (0, rows - 1) or c in (0, cols - 1):
                    env.grid.set(left + c, top + r, Wall())
    for k, (row, col) in enumerate(chain.doors[: count - 1].tolist()):
        env.grid.set(col, row, Door(COLOURS[int(state.colour[k])], is_open=bool(state.open[k])))
    env.grid.set(int(state.goal[1]), int(state.goal[0]), Goal())
    env.agent_pos = (int(state.pos[1]), int(state.pos[0]))
    env.agent_dir = int(state.heading)
    return env


def seen_by(env: MultiRoomEnv) -> np.ndarray:
    grid, mask = env.gen_obs_grid()
    out = np.full((7, 7), UNSEEN)
    for row, col in np.argwhere(mask.T):
        thing = grid.get(int(col), int(row))
        if isinstance(thing, Door):
            out[row, col] = (OPEN if thing.is_open else CLOSED) + COLOURS.index(thing.color)
        else:
            out[row, col] = {"wall": WALL, "goal": GOAL}[thing.type] if thing else FLOOR
    out[6, 3] = AGENT
    return out


def facts(env: MultiRoomEnv, chain: Chain) -> tuple:
    doors = [env.grid.get(col, row).is_open for row, col in chain.doors[: int(chain.count) - 1].tolist()]
    return (int(env.agent_pos[1]), int(env.agent_pos[0])), int(env.agent_dir), doors


def test_view_and_actions_agree_with_minigrid():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), WALKS)
    keys = jax.random.split(jax.random.key(4), len(level))
    states, acts, outs, thens, views = jax.tree.map(np.asarray, walks(keys, level))
    happened, in_doorway = set(), 0
    for i in range(len(level)):
        for t in range(LENGTH):
            state, then = at(states, i, t), at(thens, i, t)
            env = mirror(state)
            np.testing.assert_array_equal(views[i, t], seen_by(env))
            before = facts(env, state.chain)
            name = ACTS[acts[i, t]]
            _, reward, terminated, _, _ = env.step(Actions[name])
            after = facts(env, state.chain)
            assert bool(outs.valid[i, t]) == (after != before), name
            won = reward != 0  # negative once the shared peer has taken more steps than it allows
            assert bool(outs.terminated[i, t]) == terminated == won == (outs.reward[i, t] == 1)
            doors = then.open[: int(then.chain.count) - 1].tolist()
            assert after == (tuple(then.pos.tolist()), int(then.heading), doors)
            happened.add((name, after != before, bool(terminated)))
            in_doorway += list(after[0]) in then.chain.doors[: int(then.chain.count) - 1].tolist()
    assert happened == {
        ("done", False, False), ("pickup", False, False), ("drop", False, False), ("left", True, False),
        ("right", True, False), ("toggle", True, False), ("toggle", False, False), ("forward", True, False),
        ("forward", False, False), ("forward", True, True),
    }  # fmt: skip
    assert in_doorway > 100


# ---- search over all states ----


def shortest(state: State) -> int:
    """Least actions over poses and doors; a door once opened stays open."""
    chain, count = state.chain, int(state.chain.count)
    free = {
        (top + r, left + c)
        for (top, left), (rows, cols) in zip(chain.top[:count].tolist(), chain.size[:count].tolist())
        for r in range(1, rows - 1)
        for c in range(1, cols - 1)
    }
    doors = list(map(tuple, chain.doors[: count - 1].tolist()))
    first = (tuple(state.pos.tolist()), int(state.heading), tuple(state.open[: count - 1].tolist()))
    far, todo = {first: 0}, deque([first])
    while todo:
        pos, heading, opened = now = todo.popleft()
        if pos == tuple(state.goal.tolist()):
            return far[now]
        ahead = (pos[0] + int(AHEAD[heading][0]), pos[1] + int(AHEAD[heading][1]))
        then = [(pos, (heading + 1) % 4, opened), (pos, (heading - 1) % 4, opened)]
        if ahead in doors and not opened[doors.index(ahead)]:
            then.append((pos, heading, tuple(o or d == ahead for o, d in zip(opened, doors))))
        elif ahead in free or ahead in doors:
            then.append((ahead, heading, opened))
        for s in then:
            if s not in far:
                far[s] = far[now] + 1
                todo.append(s)
    raise AssertionError("the goal cannot be reached")


def test_solve_and_clock_agree_with_a_search():
    _, state = starts(40, 6)
    states = [at(state, i) for i in range(40 * ENV.num_levels)]
    t, success, bound = solved(states)
    best = np.asarray([shortest(s) for s in states])
    assert success.all()
    np.testing.assert_array_equal(t, best)
    np.testing.assert_array_equal(bound, best)
    np.testing.assert_array_equal(state.limit, np.minimum(4 * best, ENV.horizon))


def test_solve_is_optimal_from_every_pose():
    """In all rooms and doorways, with the first door open or not."""
    rooms = [(2, 2, 5, 5), (6, 3, 4, 4), (4, 6, 6, 5)]
    doors = [(6, 4, 1), (7, 6, 0)]
    free = [(r, c) for r in range(3, 6) for c in range(3, 6)] + [(r, c) for r in (7, 8) for c in (4, 5)]
    free += [(r, c) for r in range(5, 9) for c in range(7, 10)] + [(6, 4), (7, 6)]
    states = [
        building(rooms, doors, p, h, (5, 9), opened)
        for p in free for h in range(4) for opened in ((), (0,), (1,), (0, 1))
        if p != (5, 9) and (p != (6, 4) or 0 in opened) and (p != (7, 6) or 1 in opened)
    ]  # fmt: skip
    t, success, bound = solved(states)
    best = np.asarray([shortest(s) for s in states])
    assert success.all() and (t == best).all() and (bound == best).all()


# ---- hand-set chains ----

TWO = [(0, 0, 4, 5), (0, 4, 6, 4)], [(2, 4, 0)]


def test_hand_set_pair_of_rooms():
    """Forward to the door, open it, three forward, turn and go down to the goal."""
    state = building(*TWO, (2, 2), 0, (4, 6))
    t, success, _ = solved([state])
    plan = ["forward", "toggle", "forward", "forward", "forward", "right", "forward", "forward"]
    assert success[0] and t[0] == len(plan) == shortest(state)
    for k, name in enumerate(plan):
        state, out = step(state, np.int32(ACTS.index(name)))
        assert out.valid and out.terminated == (k == len(plan) - 1) == (out.reward == 1)
    assert state.pos.tolist() == [4, 6] and state.open.tolist() == [True] + [False] * 4


def test_hand_set_door_opens_and_shuts():
    state = building(*TWO, (2, 3), 0, (4, 6))
    _, out = step(state, np.int32(FORWARD))
    assert not out.valid  # a closed door blocks the way
    state, out = step(state, np.int32(TOGGLE))
    assert out.valid and state.open[0]
    shut, out = step(state, np.int32(TOGGLE))
    assert out.valid and not shut.open[0]
    state, out = step(state, np.int32(FORWARD))
    assert out.valid and state.pos.tolist() == [2, 4]
    _, out = step(state, np.int32(TOGGLE))
    assert not out.valid  # there is no door ahead of the doorway


@pytest.mark.parametrize("name", ["done", "pickup", "drop", "toggle", "forward"])
def test_actions_without_effect_are_invalid(name):
    state = building(*TWO, (1, 1), 3, (4, 6))
    then, out = step(state, np.int32(ACTS.index(name)))
    assert not out.valid and not out.terminated
    jax.tree.map(np.testing.assert_array_equal, then, state)


def test_view_and_facts_of_a_hand_set_pair():
    say = jax.jit(lambda s: [text.close(t)[0] for t in (ENV.text_obs(s), ENV.text_state(s))])
    shut, opened = (
        [bytes(b for b in np.asarray(t) if b).decode() for t in say(building(*TWO, (2, 3), 0, (4, 6), o))]
        for o in ((), (0,))
    )
    assert shut[1] == "doors to pass: 1; next door 1 ahead, 0 right, closed; goal 3 ahead, 2 right"
    assert opened[1] == "doors to pass: 1; next door 1 ahead, 0 right, open; goal 3 ahead, 2 right"
    assert shut[0].splitlines()[1:8] == ["? ? ? ? ? ? ?"] * 5 + ["? # # R # ? ?", "? # . A # ? ?"]
    print(opened[0])


# ---- texts and instances ----


def test_texts_alone_lead_to_the_goal():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), 5)
    keys = jax.random.split(jax.random.key(8), len(level))

    def target(facts):
        """The next door, from within it the cell behind it, and in the last room the goal."""
        place = explorer.offsets(facts)[0]
        return (1, 0) if place == (0, 0) else place

    assert (explorer.play(ENV, keys, level, target, doors="RBPY") == 1).all()


def test_texts_name_no_keys_and_no_locks():
    """Upstream's prompt speaks of keys and locked doors; there are none."""
    words = ENV.question + ENV.rules.replace("No door is locked.", "")
    assert "key" not in words and "lock the" not in words.replace("block the", "") and "locked" not in words


@pytest.mark.parametrize("reply", ["toggle", "Toggle", " TOGGLE. ", "[toggle]", '"toggle"'])
def test_lenient_answers(reply):
    assert codec.read(ENV.answer, f"<answer>{reply}</answer>").tolist() == [TOGGLE]


@pytest.mark.parametrize("reply", ["open", "", "5", "toggle toggle"])
def test_other_words_are_no_action(reply):
    assert (codec.read(ENV.answer, f"<answer>{reply}</answer>") == codec.UNREADABLE).all()


def check(chain: Chain) -> None:
    """A chain is sound: rooms on the map, apart but for the shared wall of neighbours, doors in that wall."""
    count = int(chain.count)
    cells, inner = [], []
    for (top, left), (rows, cols) in zip(chain.top[:count].tolist(), chain.size[:count].tolist()):
        assert top >= 0 and left >= 0 and top + rows <= MAP and left + cols <= MAP
        cells.append({(top + r, left + c) for r in range(rows) for c in range(cols)})
        inner.append({(top + r, left + c) for r in range(1, rows - 1) for c in range(1, cols - 1)})
    for j in range(count):
        for k in range(j):
            shared = cells[j] & cells[k]
            assert not shared & inner[j] and not shared & inner[k]
            assert (len(shared) > 0) == (k == j - 1)
    for k, (row, col) in enumerate(chain.doors[: count - 1].tolist()):
        step = AHEAD[int(chain.facing[k])].tolist()
        assert (row, col) in cells[k] & cells[k + 1]
        assert (row - step[0], col - step[1]) in inner[k] and (row + step[0], col + step[1]) in inner[k + 1]


def test_instances_follow_their_level_and_differ():
    """Upstream's wrapper ignores the numbers of rooms and their size; with a clock of 100 many are hopeless."""
    level, state = starts(1000, 2)
    for k in range(ENV.num_levels):
        one = at(state, level == k)
        (low, high), (_, largest) = ENV.levels["rooms"][k], ENV.levels["room"][k]
        assert set(one.chain.count) == set(range(low, high + 1))
        used = np.arange(ROOMS)[None, :] < one.chain.count[:, None]
        assert set(one.chain.size[used].reshape(-1)) == set(range(4, largest + 1))
        for i in range(0, 1000, 25):
            check(at(one, i).chain)
        pair = np.diff(one.colour, axis=1)
        assert (pair != 0).all() and set(one.colour.reshape(-1)) == set(range(4)) and not one.open.any()
        whole = np.concatenate([x.reshape(1000, -1) for x in jax.tree.leaves(one)], axis=1)
        assert len(np.unique(whole, axis=0)) >= 990
    assert (state.limit <= ENV.horizon).all()
    shortest_way = np.asarray(jax.jit(jax.vmap(mr._to_go))(state))
    assert (state.limit >= 3.5 * shortest_way).all()
    mean = [shortest_way[level == k].mean() for k in range(ENV.num_levels)]
    assert (np.diff(mean) > 0).all()


def test_chains_are_complete_and_the_straight_one_is_sound():
    keys = jax.random.split(jax.random.key(5), 2000)
    wind = jax.jit(jax.vmap(mr._wind, (0, None, None)))
    complete, _ = wind(keys, np.int32(6), np.int32(10))
    assert (1 - np.asarray(complete).mean()) ** mr.TRIES < 0.01  # how often the straight chain is needed
    straight = jax.jit(jax.vmap(mr._straight, (0, None, None)))
    for count, largest in ((2, 4), (6, 4), (6, 6), (6, 10)):
        chains = jax.tree.map(np.asarray, straight(keys[:20], np.int32(count), np.int32(largest)))
        for i in range(20):
            check(at(chains, i))
            assert chains.size[i].min() >= 4 and chains.size[i].max() <= largest


def test_constant_answers_earn_nothing():
    """The way leads through a door: no action alone opens and passes it."""
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), 7 * 8)
    act = np.tile(np.arange(7, dtype=np.int32), ENV.num_levels * 8)[:, None]

    def play(key, level, act):
        turn = lambda ep, key: (episode.advance(ENV, key, ep, act), None)  # noqa: E731
        return lax.scan(turn, episode.start(ENV, key, level), jax.random.split(key, 40))[0].ret

    earned = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(3), len(level)), level, act)
    assert not np.asarray(earned).any()
