"""LavaGap against MiniGrid, a search over all poses, hand-set rooms and the upstream pitfalls."""

from collections import deque
from functools import cache

import explorer
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from minigrid.core.actions import Actions
from minigrid.core.world_object import Goal, Lava
from minigrid.envs import LavaGapEnv

import jaxenv
from jaxenv import codec, episode, text
from jaxenv.envs.spatial2d import lava_gap as lg
from jaxenv.envs.spatial2d.lava_gap import AGENT, LAVA, State
from jaxenv.first_person import ACTIONS, FLOOR, FORWARD, GOAL, UNSEEN, WALL
from jaxenv.solve.minigrid import AHEAD

ENV = jaxenv.make("lava_gap", 256)
SIZES = [low for low, _ in ENV.levels["size"]]
ACTS = ACTIONS.names


def room(size, lava, pos, heading, goal, limit=100) -> State:
    """`lava` is [(column, row of its gap), ...]."""
    columns, gaps = np.zeros((2, lg.COLUMNS), np.int32)
    for k, (col, row) in enumerate(lava):
        columns[k], gaps[k] = col, row
    return State(
        np.int32(size), columns, gaps, np.int32(pos), np.int32(heading), np.int32(goal), np.int32(limit)
    )


step = jax.jit(lambda state, act: ENV.step(jax.random.key(0), state, act[None]))
start = jax.jit(jax.vmap(ENV.init))


@jax.jit
@jax.vmap
def _solved(state):
    def turn(ep, key):
        return episode.advance(ENV, key, ep, ENV.solve(ep.state)), None

    ep = lax.scan(turn, episode.begin(ENV, state), jax.random.split(jax.random.key(0), 50))[0]
    return ep.t, ep.success, lg._to_go(state)


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

WALKS, LENGTH = 8, 24


@jax.jit
@jax.vmap
def walks(key, level):
    """A walk that is random at times and sensible at others; states, actions and what each step gave."""

    def turn(state, key):
        k_mix, k_act = jax.random.split(key)
        act = jax.random.randint(k_act, (1,), 0, len(ACTS), jnp.int32)
        act = jnp.where(jax.random.bernoulli(k_mix, 0.6), act, ENV.solve(state))
        then, out = ENV.step(key, state, act)
        new = jaxenv.core.where(out.valid & ~out.terminated, then, state)
        return new, (state, act[0], out, then, lg._view(state))

    return lax.scan(turn, ENV.init(key, level), jax.random.split(key, LENGTH))[1]


@cache
def peer(size: int) -> LavaGapEnv:
    env = LavaGapEnv(size=size)
    env.reset(seed=0)
    return env


def mirror(state: State) -> LavaGapEnv:
    """MiniGrid's environment with one of our states set in it."""
    size = int(state.size)
    env = peer(size)
    env.grid = type(env.grid)(size, size)
    env.grid.wall_rect(0, 0, size, size)
    env.grid.set(int(state.goal[1]), int(state.goal[0]), Goal())
    for col, gap in zip(state.columns, state.gaps):
        if col:
            env.grid.vert_wall(int(col), 1, size - 2, Lava)
            env.grid.set(int(col), int(gap), None)
    env.agent_pos = (int(state.pos[1]), int(state.pos[0]))
    env.agent_dir = int(state.heading)
    return env


def seen_by(env: LavaGapEnv) -> np.ndarray:
    grid, mask = env.gen_obs_grid()
    code = {"wall": WALL, "goal": GOAL, "lava": LAVA}
    out = np.full((7, 7), UNSEEN)
    for row, col in np.argwhere(mask.T):
        thing = grid.get(int(col), int(row))
        out[row, col] = code[thing.type] if thing else FLOOR
    out[6, 3] = AGENT
    return out


def test_view_and_actions_agree_with_minigrid():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), WALKS)
    keys = jax.random.split(jax.random.key(4), len(level))
    states, acts, outs, thens, views = jax.tree.map(np.asarray, walks(keys, level))
    happened = set()
    for i in range(len(level)):
        for t in range(LENGTH):
            env = mirror(at(states, i, t))
            np.testing.assert_array_equal(views[i, t], seen_by(env))
            before = env.agent_pos, env.agent_dir
            name = ACTS[acts[i, t]]
            _, reward, terminated, _, _ = env.step(Actions[name])
            after = tuple(map(int, env.agent_pos)), int(env.agent_dir)
            then = at(thens, i, t)
            assert bool(outs.valid[i, t]) == (after != before), name
            assert bool(outs.terminated[i, t]) == terminated
            won = reward != 0  # negative once the shared peer has taken more steps than it allows
            assert outs.reward[i, t] == won
            assert after == ((int(then.pos[1]), int(then.pos[0])), int(then.heading))
            happened.add((name, after != before, bool(terminated), won))
    assert happened == {
        ("done", False, False, False), ("pickup", False, False, False), ("drop", False, False, False),
        ("toggle", False, False, False), ("left", True, False, False), ("right", True, False, False),
        ("forward", True, False, False), ("forward", False, False, False), ("forward", True, True, False),
        ("forward", True, True, True),
    }  # fmt: skip


# ---- search over all poses ----


def shortest(state: State) -> int:
    size = int(state.size)
    lava = {(r, int(c)) for c, gap in zip(state.columns, state.gaps) if c for r in range(size) if r != gap}
    first = (*state.pos.tolist(), int(state.heading))
    far, todo = {first: 0}, deque([first])
    while todo:
        r, c, heading = pose = todo.popleft()
        if [r, c] == state.goal.tolist():
            return far[pose]
        ahead = (r + int(AHEAD[heading][0]), c + int(AHEAD[heading][1]))
        then = [(r, c, (heading + 1) % 4), (r, c, (heading - 1) % 4)]
        if 0 < ahead[0] < size - 1 and 0 < ahead[1] < size - 1 and ahead not in lava:
            then.append((*ahead, heading))
        for p in then:
            if p not in far:
                far[p] = far[pose] + 1
                todo.append(p)
    raise AssertionError("the goal cannot be reached")


def test_solve_and_clock_agree_with_a_search():
    _, state = starts(40, 6)
    states = [at(state, i) for i in range(40 * ENV.num_levels)]
    t, success, bound = solved(states)
    best = np.asarray([shortest(s) for s in states])
    assert success.all()
    np.testing.assert_array_equal(t, best)
    np.testing.assert_array_equal(bound, best)
    np.testing.assert_array_equal(state.limit, 4 * best)


def test_solve_is_optimal_from_every_pose():
    """Also in a gap and behind the lava, in a room with two columns."""
    lava, goal = [(2, 4), (4, 1)], (5, 6)
    gaps = {(4, 2), (1, 4)}
    free = [(r, c) for r in range(1, 8) for c in range(1, 8) if c not in (2, 4) or (r, c) in gaps]
    states = [room(9, lava, p, h, goal) for p in free if p != goal for h in range(4)]
    t, success, bound = solved(states)
    best = np.asarray([shortest(s) for s in states])
    assert success.all() and (t == best).all() and (bound == best).all()


def test_no_way_is_longer_than_the_horizon():
    """The worst of each kind: gaps and ends at the top or the bottom of the largest room."""
    ends = (1, 9)
    worst = [
        room(11, [(a, g1), (b, g2), (c, g3)], (r, 1), h, (s, 9))
        for a, b, c in ((2, 4, 6), (2, 5, 8), (4, 6, 8)) for g1 in ends for g2 in ends for g3 in ends
        for r in ends for s in ends for h in range(4)
    ]  # fmt: skip
    longest = solved(worst)[2].max()
    assert 4 * longest <= ENV.horizon


# ---- hand-set rooms ----


def test_hand_set_room_of_size_five():
    """Gap at the bottom: two down, turn left, two forward, and one up to the goal."""
    state = room(5, [(2, 3)], (1, 1), 0, (2, 3))
    t, success, _ = solved([state])
    assert success[0] and t[0] == 8 == shortest(state)
    for name in ("right", "forward", "forward", "left", "forward", "forward", "left"):
        state, out = step(state, np.int32(ACTS.index(name)))
        assert out.valid and not out.terminated
    state, out = step(state, np.int32(FORWARD))
    assert out.terminated and out.reward == 1 and state.pos.tolist() == [2, 3]


def test_hand_set_lava_ends_with_nothing():
    state = room(6, [(3, 2)], (1, 2), 0, (4, 4))
    then, out = step(state, np.int32(FORWARD))
    assert out.valid and out.terminated and out.reward == 0 and then.pos.tolist() == [1, 3]
    ep = episode.advance(ENV, jax.random.key(0), episode.begin(ENV, state), jnp.asarray([FORWARD]))
    assert ep.terminated and not ep.truncated and ep.ret == 0  # unlike a timeout, which is truncated
    through_gap, out = step(room(6, [(3, 2)], (2, 2), 0, (4, 4)), np.int32(FORWARD))
    assert out.valid and not out.terminated and through_gap.pos.tolist() == [2, 3]


@pytest.mark.parametrize("name", ["done", "pickup", "drop", "toggle", "forward"])
def test_actions_without_effect_are_invalid(name):
    state = room(6, [(3, 2)], (1, 1), 3, (4, 4))  # facing the wall
    then, out = step(state, np.int32(ACTS.index(name)))
    assert not out.valid and not out.terminated
    jax.tree.map(np.testing.assert_array_equal, then, state)


def test_view_and_facts_of_a_hand_set_room():
    state = room(7, [(3, 2)], (4, 1), 0, (2, 5))
    say = jax.jit(lambda s: [text.close(t)[0] for t in (ENV.text_obs(s), ENV.text_state(s))])
    obs, facts = (bytes(b for b in np.asarray(t) if b).decode() for t in say(state))
    assert facts == "gaps in the lava before you: 2 ahead, 2 left. Goal 4 ahead, 2 left"
    # Straight ahead lies the lava; the row above it in the text is the column beyond.
    assert obs.splitlines()[1:8] == [
        "? ? ? ? ? ? ?", "# # # # # # ?", ". G . . . # ?", ". . . . . # ?", "L . L L L # ?", ". . . . . # ?",
        ". . . A . # ?",
    ]  # fmt: skip
    behind = jax.jit(ENV.text_state)(room(7, [(3, 2)], (4, 4), 0, (2, 5)))
    assert bytes(b for b in np.asarray(behind) if b) == b"no lava left to cross. Goal 1 ahead, 2 left"


# ---- texts and instances ----


def test_texts_alone_lead_to_the_goal():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), 12)
    keys = jax.random.split(jax.random.key(8), len(level))
    goal = lambda facts: explorer.offsets(facts)[-1]  # noqa: E731
    assert (explorer.play(ENV, keys, level, goal, deadly="L") == 1).all()


@pytest.mark.parametrize(
    "reply", ["forward", "Forward", " FORWARD. ", "[forward]", '"forward"', "move forward"]
)
def test_lenient_answers(reply):
    assert codec.read(ENV.answer, f"<answer>{reply}</answer>").tolist() == [FORWARD]


@pytest.mark.parametrize("reply", ["ahead", "", "2", "forward forward", "left, forward"])
def test_other_words_are_no_action(reply):
    assert (codec.read(ENV.answer, f"<answer>{reply}</answer>") == codec.UNREADABLE).all()


def test_instances_follow_their_level_and_differ():
    """Upstream has 3, 8 and 15 rooms of sizes 5 to 7, always with the same start and goal."""
    level, state = starts(1000, 2)
    assert (state.limit <= ENV.horizon).all() and (state.limit >= 4).all()
    # Of size 5 to 8 with one column there are (gap rows) x (starts) x (goals) x (headings).
    space = [
        (n - 2) * 4 * sum((n - 2) * (col - 1) * (n - 2) * (n - 2 - col) for col in range(2, n - 2))
        for n in SIZES
    ]
    assert space[:4] == [108, 1024, 5000, 17280]
    for k, size in enumerate(SIZES):
        one = at(state, level == k)
        count = ENV.levels["columns"][k][0]
        columns, inner = one.columns[:, :count], size - 2
        assert (one.size == size).all() and not one.columns[:, count:].any()
        assert columns.min() == 2 and columns.max() == inner - 1
        assert (np.diff(columns, axis=1) >= 2).all()
        assert set(one.gaps[:, :count].reshape(-1)) == set(range(1, inner + 1))
        assert (one.pos[:, 1] < columns[:, 0]).all() and (one.goal[:, 1] > columns[:, -1]).all()
        for place in (one.pos, one.goal):
            assert place.min() >= 1 and place.max() <= inner
            assert set(place[:, 0]) == set(range(1, inner + 1))
        assert set(one.heading) == {0, 1, 2, 3}
        whole = np.concatenate([columns, one.gaps, one.pos, one.goal, one.heading[:, None]], axis=1)
        distinct = len(np.unique(whole, axis=0))
        # At least nine tenths of what a uniform draw from the space would give (the columns are not uniform).
        expected = space[k] * (1 - (1 - 1 / space[k]) ** 1000)
        assert distinct >= (990 if k >= 4 else 0.9 * expected)
    mean = [state.limit[level == k].mean() for k in range(ENV.num_levels)]
    assert (np.diff(mean) > 0).all()


def test_constant_answers_seldom_reach_the_goal():
    level = np.repeat(np.arange(ENV.num_levels, dtype=np.int32), 1000)

    def play(key, level):
        turn = lambda ep, key: (episode.advance(ENV, key, ep, jnp.int32([FORWARD])), None)  # noqa: E731
        return lax.scan(turn, episode.start(ENV, key, level), jax.random.split(key, 12))[0].ret

    earned = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(3), len(level)), level)
    assert np.asarray(earned).reshape(-1, 1000).mean(axis=1).max() < 0.1
