"""DoorKey against MiniGrid, a search over all states, hand-set rooms and the upstream pitfalls."""

from collections import deque
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from minigrid.core.actions import Actions
from minigrid.core.world_object import Door, Goal, Key
from minigrid.envs import DoorKeyEnv

import jaxenv
from jaxenv import codec, episode, text
from jaxenv.envs.spatial2d import door_key as dk
from jaxenv.envs.spatial2d.door_key import CLOSED, LOCKED, OPEN, State
from jaxenv.first_person import FORWARD, UNSEEN
from jaxenv.solve.minigrid import AHEAD

ENV = jaxenv.make("door_key", 256)
SIZES = [low for low, _ in ENV.levels["size"]]
ACTS = ENV.answer.names


def room(size, door, key, pos, heading, state=LOCKED, carried=False, limit=100) -> State:
    place = lambda rc: np.asarray(rc, np.int32)  # noqa: E731
    return State(
        np.int32(size), place(door), np.int32(state), place(key), np.bool_(carried), place(pos),
        np.int32(heading), np.int32(limit),
    )  # fmt: skip


def stack(states: list[State]) -> State:
    return jax.tree.map(lambda *x: np.stack(x), *states)


step = jax.jit(lambda state, act: ENV.step(jax.random.key(0), state, act[None]))


def do(state: State, *names: str):
    """The state after actions by name and which of them were valid."""
    valid = []
    for name in names:
        then, out = step(state, np.int32(ACTS.index(name)))
        valid.append(bool(out.valid))
        state = then if out.valid else state
    return state, valid


# ---- MiniGrid ----

WALKS, LENGTH = 6, 60


@jax.jit
@jax.vmap
def walks(key, level):
    """A walk that is random at times and sensible at others; states, actions and what each step gave."""

    def turn(state, key):
        k_mix, k_act = jax.random.split(key)
        act = jax.random.randint(k_act, (1,), 0, len(ACTS), jnp.int32)
        act = jnp.where(jax.random.bernoulli(k_mix, 0.5), act, ENV.solve(state))
        then, out = ENV.step(key, state, act)
        new = jaxenv.core.where(out.valid & ~out.terminated, then, state)
        return new, (state, act[0], out, then, dk._view(state))

    start = ENV.init(key, level)  # with any door: only sensible walks would get one open
    start = start.replace(door=jax.random.randint(key, (), LOCKED, OPEN + 1, jnp.int32))
    return lax.scan(turn, start, jax.random.split(key, LENGTH))[1]


def mirror(state: State) -> DoorKeyEnv:
    """MiniGrid's environment with one of our states set in it."""
    env = DoorKeyEnv(size=int(state.size))
    env.reset(seed=0)
    size, (row, split) = int(state.size), state.door_at
    env.grid = type(env.grid)(size, size)
    env.grid.wall_rect(0, 0, size, size)
    env.grid.set(size - 2, size - 2, Goal())
    env.grid.vert_wall(int(split), 0)
    door = Door("yellow", is_open=int(state.door) == OPEN, is_locked=int(state.door) == LOCKED)
    env.grid.set(int(split), int(row), door)
    if state.carried:
        env.carrying = Key("yellow")
    else:
        env.grid.set(int(state.key_at[1]), int(state.key_at[0]), Key("yellow"))
        env.carrying = None
    env.agent_pos = (int(state.pos[1]), int(state.pos[0]))
    env.agent_dir = int(state.heading)
    return env


def lock(door: Door) -> int:
    return OPEN if door.is_open else LOCKED if door.is_locked else CLOSED


def facts(env: DoorKeyEnv) -> tuple:
    """What can change in MiniGrid: pose, door, key and hand, in our terms."""
    door = key = None
    for col in range(env.width):
        for row in range(env.height):
            thing = env.grid.get(col, row)
            if isinstance(thing, Door):
                door = lock(thing)
            if isinstance(thing, Key):
                key = (row, col)
    return (int(env.agent_pos[1]), int(env.agent_pos[0])), int(env.agent_dir), door, key


def ours(state: State) -> tuple:
    key = None if state.carried else (int(state.key_at[0]), int(state.key_at[1]))
    return (int(state.pos[0]), int(state.pos[1])), int(state.heading), int(state.door), key


def seen_by(env: DoorKeyEnv) -> np.ndarray:
    grid, mask = env.gen_obs_grid()
    code = {"wall": dk.WALL, "goal": dk.GOAL, "key": dk.KEY}
    out = np.full((7, 7), UNSEEN)
    for row in range(7):
        for col in range(7):
            thing = grid.get(col, row)
            if mask[col, row]:
                out[row, col] = (
                    lock(thing) if isinstance(thing, Door) else code[thing.type] if thing else dk.FLOOR
                )
    out[6, 3] = dk.AGENT if env.carrying is None else dk.AGENT_KEY
    return out


def test_view_and_actions_agree_with_minigrid():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), WALKS)
    states, acts, outs, thens, views = jax.tree.map(
        np.asarray, walks(jax.random.split(jax.random.key(4), len(level)), level)
    )
    happened, doors, keys = set(), set(), set()
    for i in range(len(level)):
        for t in range(LENGTH):
            state, then = (jax.tree.map(lambda x, i=i, t=t: x[i, t], tree) for tree in (states, thens))
            env = mirror(state)
            np.testing.assert_array_equal(views[i, t], seen_by(env))
            before, carrying = facts(env), env.carrying
            name = ACTS[acts[i, t]]
            _, reward, terminated, _, _ = env.step(Actions[name])
            after = facts(env)
            changed = after != before or (env.carrying is None) != (carrying is None)
            assert bool(outs.valid[i, t]) == changed, name
            assert bool(outs.terminated[i, t]) == terminated == (reward > 0) == (outs.reward[i, t] == 1)
            assert ours(then) == after and bool(then.carried) == (env.carrying is not None)
            happened.add((name, changed))
            doors.add(int(state.door))
            keys.add(bool(state.carried))
    assert happened == {(name, c) for name in ACTS for c in (True, False)} - {
        ("done", True), ("left", False), ("right", False),
    }  # fmt: skip
    assert doors == {LOCKED, CLOSED, OPEN} and keys == {True, False}


# ---- search over all states: (pos, heading, door, key or None) ----


def successors(size, door, state):
    pos, heading, lock, key = state
    ahead = (pos[0] + AHEAD[heading][0], pos[1] + AHEAD[heading][1])
    yield pos, (heading - 1) % 4, lock, key
    yield pos, (heading + 1) % 4, lock, key
    inside = 0 < ahead[0] < size - 1 and 0 < ahead[1] < size - 1
    free = inside and ahead[1] != door[1] and ahead != key
    if free or (ahead == door and lock == OPEN):
        yield ahead, heading, lock, key
    if ahead == key:
        yield pos, heading, lock, None
    if key is None and free and ahead != (size - 2, size - 2):
        yield pos, heading, lock, ahead
    if ahead == door and (lock != LOCKED or key is None):
        yield pos, heading, CLOSED if lock == OPEN else OPEN, key


def shortest(size, door):
    """Least actions to the goal from every state that the starts of one room can reach."""
    cells = [(r, c) for r in range(1, size - 1) for c in range(1, door[1])]
    todo = deque((a, h, LOCKED, k) for a in cells for k in cells if a != k for h in range(4))
    known, back = set(todo), {}
    while todo:
        state = todo.popleft()
        if state[0] == (size - 2, size - 2):
            continue
        for then in successors(size, door, state):
            back.setdefault(then, []).append(state)
            if then not in known:
                known.add(then)
                todo.append(then)
    far = {s: 0 for s in known if s[0] == (size - 2, size - 2)}
    todo = deque(far)
    while todo:
        state = todo.popleft()
        for before in back.get(state, ()):
            if before not in far:
                far[before] = far[state] + 1
                todo.append(before)
    assert known == set(far)  # the goal can be reached from every reachable state
    return far


@jax.jit
@jax.vmap
def actions_to_goal(state):
    def turn(ep, key):
        return episode.advance(ENV, key, ep, ENV.solve(ep.state)), None

    ep = lax.scan(turn, episode.begin(ENV, state), jax.random.split(jax.random.key(0), 40))[0]
    return ep.t, ep.success, dk._to_go(state)


def test_solve_is_optimal_from_every_reachable_state():
    rooms = [(5, (1, 2)), (5, (2, 2)), (6, (1, 2)), (6, (3, 3)), (7, (3, 3))]
    worse = 0
    for size, door in rooms:
        far = shortest(size, door)
        states = [s for s in far if far[s]]
        for low in range(0, len(states), 4096):
            part = [states[min(low + k, len(states) - 1)] for k in range(4096)]
            batch = State(
                np.full(4096, size, np.int32),
                np.tile(np.int32(door), (4096, 1)),
                np.int32([s[2] for s in part]),
                np.int32([s[3] or (1, 1) for s in part]),
                np.asarray([s[3] is None for s in part]),
                np.int32([s[0] for s in part]),
                np.int32([s[1] for s in part]),
                np.full(4096, 40, np.int32),
            )
            t, success, bound = map(np.asarray, actions_to_goal(batch))
            best = np.asarray([far[s] for s in part])
            extra = np.asarray([s[3] is not None and s[2] != LOCKED for s in part])  # a key lies about
            assert (
                success.all() and (t[~extra] == best[~extra]).all() and (bound[~extra] == best[~extra]).all()
            )
            assert ((t - best)[extra] <= 1).all() and (bound <= best).all()
            worse += (t > best).sum() / len(part)
    assert worse < 0.05 * len(rooms)


def test_clock_is_four_times_the_shortest_way():
    far = {door: shortest(6, door) for door in [(r, c) for r in (1, 2, 3) for c in (2, 3)]}
    keys = jax.random.split(jax.random.key(6), 300)
    state = jax.tree.map(np.asarray, jax.jit(jax.vmap(partial(ENV.init, level=np.int32(1))))(keys))
    for i in range(300):
        one = jax.tree.map(lambda x, i=i: x[i], state)
        assert one.limit == 4 * far[tuple(one.door_at.tolist())][ours(one)]
    # The longest way of all sizes fits into the horizon: corners of the left part of the largest room.
    corners = [(r, c) for r in (1, 2, 13, 14) for c in (1, 2)]
    worst = [
        room(16, (row, col), k, a, h)
        for col in range(2, 14) for row in (1, 13) for k in corners for a in corners for h in range(4)
        if a != k and max(a[1], k[1]) < col
    ]  # fmt: skip
    longest = np.asarray(jax.jit(jax.vmap(dk._to_go))(stack(worst))).max()
    assert 4 * longest <= ENV.horizon


# ---- hand-set rooms ----


def test_hand_set_room_of_size_five():
    """Key below, door to the right: turn, take it, turn back, open, three forward, turn, two forward."""
    state = room(5, (1, 2), (2, 1), (1, 1), 0)
    plan = ["right", "pickup", "left", "toggle", "forward", "forward", "right", "forward", "forward"]
    end, valid = do(state, *plan)
    assert all(valid) and end.pos.tolist() == [3, 3]
    t, success, bound = actions_to_goal(jax.tree.map(lambda x: x[None], state))
    assert t[0] == bound[0] == len(plan) and success[0]


def test_hand_set_key_dropped_into_the_only_way():
    """The right part is one cell wide and the key lies between the agent and the goal: take it and go on."""
    state = room(6, (1, 3), (2, 4), (1, 4), 1, state=OPEN)
    t, success, bound = actions_to_goal(jax.tree.map(lambda x: x[None], state))
    assert success[0] and t[0] == 4 and bound[0] == 3


def test_actions_without_effect_are_invalid():
    state = room(6, (2, 3), (4, 1), (2, 2), 0)  # before the locked door with empty hands
    then, valid = do(state, "toggle", "forward", "pickup", "drop", "done")
    assert valid == [False] * 5
    jax.tree.map(np.testing.assert_array_equal, then, state)
    # With the key the door opens; it shuts again without it, and opens again: it never locks.
    state, valid = do(
        state.replace(carried=np.bool_(True)), "toggle", "left", "drop", "right", "toggle", "toggle"
    )
    assert all(valid) and int(state.door) == OPEN and not state.carried and state.key_at.tolist() == [1, 2]
    state, valid = do(state, "drop", "forward", "forward")
    assert valid == [False, True, True] and state.pos.tolist() == [2, 4]


def test_drop_can_block_the_door_and_is_undone():
    state = room(6, (2, 3), (4, 1), (2, 1), 0, carried=True)
    state, valid = do(state, "drop", "forward", "drop", "pickup", "forward", "toggle")
    assert valid == [True, False, False, True, True, True]


def test_view_is_cut_by_walls_and_doors():
    closed = room(8, (3, 3), (1, 1), (3, 2), 0)
    view = jax.jit(dk._view)
    shut, opened = np.asarray(view(closed)), np.asarray(view(closed.replace(door=np.int32(OPEN))))
    assert shut[5, 3] == LOCKED and (shut[:5] == UNSEEN).all()
    assert opened[5, 3] == OPEN and (opened[2:5, 3] == dk.FLOOR).all()


def test_text_is_seen_from_the_agent():
    """Upstream's text names the heading on the map, which contradicts a picture that always faces up."""
    state = room(8, (3, 3), (1, 1), (3, 2), 0)
    say = jax.jit(lambda s: [text.close(t)[0] for t in (ENV.text_state(s), ENV.text_obs(s))])
    facts, obs = (bytes(b for b in np.asarray(t) if b).decode() for t in say(state))
    assert facts == "key 1 behind, 2 left; locked door 1 ahead, 0 right; goal 4 ahead, 3 right"
    lines = obs.splitlines()
    assert lines[6:] == ["# # # L # # #", "# . . A . . .", "You carry nothing."]
    turned, _ = (
        bytes(b for b in np.asarray(t) if b).decode() for t in say(state.replace(heading=np.int32(2)))
    )
    assert turned.startswith("key 1 ahead, 2 right; locked door 1 behind, 0 right")


@pytest.mark.parametrize(
    "reply", ["forward", "Forward", " FORWARD. ", "[forward]", "(forward)", '"forward"', "move forward"]
)
def test_lenient_answers(reply):
    assert codec.read(ENV.answer, f"<answer>{reply}</answer>").tolist() == [FORWARD]


@pytest.mark.parametrize("reply", ["ahead", "", "2", "forward forward", "left, forward"])
def test_other_words_are_no_action(reply):
    assert (codec.read(ENV.answer, f"<answer>{reply}</answer>") == codec.UNREADABLE).all()


# ---- instances ----


@jax.jit
@jax.vmap
def start(key, level):
    return ENV.init(key, level)


def test_instances_follow_the_generator_and_differ():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), 1000)
    state = jax.tree.map(np.asarray, start(jax.random.split(jax.random.key(2), len(level)), level))
    assert (state.limit <= ENV.horizon).all() and (state.limit >= 20).all()
    for k, size in enumerate(SIZES):
        rows = level == k
        door, key, pos = state.door_at[rows], state.key_at[rows], state.pos[rows]
        assert set(door[:, 1]) == set(range(2, size - 2)) and set(door[:, 0]) == set(range(1, size - 2))
        assert (key != pos).any(axis=1).all() and (np.minimum(key, pos) >= 1).all()
        assert (np.maximum(key, pos) < np.stack([np.full(1000, size - 1), door[:, 1]], 1)).all()
        whole = np.concatenate([door, key, pos, state.heading[rows][:, None]], axis=1)
        distinct = len(np.unique(whole, axis=0))
        # Expected number of a fair draw: the sum of 1 - (1 - p)^1000 over all instances.
        expected = 0.0
        for split in range(2, size - 2):
            cells = (size - 2) * (split - 1)
            space = cells * (cells - 1) * (size - 3) * 4
            expected += space * (1 - (1 - 1 / (space * (size - 4))) ** 1000)
        assert abs(distinct - expected) < 25 and (size < 10 or distinct >= 980)
        assert size < 12 or distinct >= 990


def test_constant_answers_earn_nothing():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), 7 * 8)
    act = np.tile(np.arange(7, dtype=np.int32), ENV.num_levels * 8)[:, None]

    def play(key, level, act):
        turn = lambda ep, key: (episode.advance(ENV, key, ep, act), None)  # noqa: E731
        return lax.scan(turn, episode.start(ENV, key, level), jax.random.split(key, ENV.horizon))[0].ret

    earned = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(3), len(level)), level, act)
    assert not np.asarray(earned).any()
