"""Cross columns of lava through their gaps and reach the goal, seen in first person."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import first_person, text
from jaxenv.core import Env, outcome
from jaxenv.first_person import ACTIONS, FLOOR, FORWARD, GOAL, TURN_LEFT, TURN_RIGHT, WALL
from jaxenv.gen.choice import pick, subset
from jaxenv.solve.minigrid import AHEAD, RIGHT, VIEW, through, window

COLUMNS = 3  # of lava, at most
INNER = 9  # cells along a side of the largest room, without walls
LAVA, AGENT = range(4, 6)
GLYPHS = "?.#GLA"


@struct.dataclass
class State:
    size: Array  # i32[] side of the room, walls included
    columns: Array  # i32[COLUMNS] of lava, from left to right; 0 where there is none
    gaps: Array  # i32[COLUMNS] the row without lava in each
    pos: Array  # i32[2] (row, col) of the agent
    heading: Array  # i32[] 0 right, 1 down, 2 left, 3 up on the map
    goal: Array  # i32[2]
    limit: Array  # i32[] actions


class LavaGap(Env[State]):
    """MiniGrid's LavaGap with its dynamics and 7 x 7 view.

    Unlike MiniGrid's, which has 3, 8 and 15 rooms of size 5, 6 and 7, a room has its start anywhere left of
    the lava and its goal anywhere right of it, the agent faces any way and large rooms have several columns of
    lava: 108, 1,024, 5,000 and 17,280 instances of size 5, 6, 7 and 8, more than 100,000 beyond. An action
    without effect is invalid, the reward for the goal is 1 and the clock is four times the shortest way.
    """

    category = "spatial2d"
    source = ("Gym-V Spatial/LavaGap-v0", "MiniGrid LavaGapS5/S6/S7")
    horizon = 200  # four times a bound on the longest shortest way
    question = (
        "You see the part of a room in front of you: you are the red triangle at the bottom, facing "
        "up. Go to the green goal and never step into the orange lava. Choose the next action."
    )
    rules = (
        "left and right turn you on the spot; forward moves you one cell; walls block the way and hide what is "
        "behind them. Every column of lava has one gap, a free cell. Stepping into lava ends the episode without "
        "reward. pickup, drop, toggle and done have no effect here. An action that has no effect is illegal and "
        "uses up an action. Reaching the goal ends the episode with full reward."
    )
    answer = ACTIONS
    levels = {
        "size": ((5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (11, 11)),
        "columns": ((1, 1), (1, 1), (1, 1), (1, 1), (2, 2), (3, 3)),
    }
    eval_level = 2
    min_resolution = (56,) * 6

    def reset(self, key: Array, scale) -> State:
        k_columns, k_gaps, k_start, k_goal, k_heading = jax.random.split(key, 5)
        inner, count = scale["size"] - 2, scale["columns"]
        index, place = np.arange(COLUMNS, dtype=np.int32), np.arange(INNER, dtype=np.int32)
        # No two columns touch each other or the wall: shift a plain subset of fewer places apart.
        chosen = subset(k_columns, place < inner - 1 - count, count)
        rank = jnp.cumsum(chosen.astype(jnp.int32)) - 1
        at = jnp.where(chosen[None, :] & (rank[None, :] == index[:, None]), place[None, :], 0).sum(axis=1)
        used = index < count
        columns = jnp.where(used, at + 2 + index, 0)
        gaps = jnp.where(used, jax.random.randint(k_gaps, (COLUMNS,), 1, inner + 1, jnp.int32), 0)

        def cell(key, low, high):  # in columns low .. high - 1
            high = jnp.stack([inner + 1, high])
            return jax.random.randint(key, (2,), jnp.stack([jnp.int32(1), low]), high, jnp.int32)

        state = State(
            scale["size"], columns, gaps, cell(k_start, jnp.int32(1), columns[0]),
            jax.random.randint(k_heading, (), 0, 4, jnp.int32), cell(k_goal, columns.max() + 1, inner + 1),
            jnp.int32(0),
        )  # fmt: skip
        return state.replace(limit=4 * _to_go(state))

    def edit(self, key: Array, state: State) -> State:
        """The gap of one column moves to another row."""
        k_column, k_row = jax.random.split(key)
        column = pick(k_column, state.columns > 0)
        shift = jax.random.randint(k_row, (), 1, jnp.maximum(state.size - 2, 2), jnp.int32)
        gap = (state.gaps[column] - 1 + shift) % (state.size - 2) + 1
        edited = state.replace(gaps=state.gaps.at[column].set(gap))
        return edited.replace(limit=4 * _to_go(edited))

    def limit(self, state: State) -> Array:
        return state.limit

    def step(self, key: Array, state: State, action: Array):
        act, ahead = action[0], state.pos + jnp.asarray(AHEAD)[state.heading]
        cell = _cell(state, ahead[0], ahead[1])
        forward = (act == FORWARD) & (cell != WALL)
        turn = (act == TURN_RIGHT).astype(jnp.int32) - (act == TURN_LEFT).astype(jnp.int32)
        moved = state.replace(pos=jnp.where(forward, ahead, state.pos), heading=(state.heading + turn) % 4)
        goal, lava = forward & (cell == GOAL), forward & (cell == LAVA)
        return moved, outcome(goal, goal | lava, forward | (turn != 0))

    def solve(self, state: State) -> Array:
        """A best next action."""

        def cost(act):
            then, out = self.step(jax.random.key(0), state, act[None])
            left = jnp.where(out.reward > 0, 0, _to_go(then))
            return jnp.where(out.valid & (out.terminated <= (out.reward > 0)), left, np.int32(1 << 20))

        acts = np.asarray([TURN_LEFT, TURN_RIGHT, FORWARD], np.int32)
        return jnp.asarray(acts)[jnp.argmin(jax.vmap(cost)(acts))][None]

    def render(self, state: State) -> Array:
        return first_person.picture(self.resolution, _paint, _view(state))

    def text_obs(self, state: State) -> Array:
        legend = "A you, facing up, . floor, # wall, L lava, G goal, ? unseen\n"
        return text.join(text.lit(legend), text.table(_view(state), GLYPHS, VIEW, VIEW))

    def text_state(self, state: State) -> Array:
        ahead = state.columns > state.pos[1]
        places = jax.vmap(first_person.offset, (None, None, 0))(
            state.pos, state.heading, jnp.stack([state.gaps, state.columns], axis=1)
        )
        return text.join(
            text.when(jnp.any(ahead), text.lit("gaps in the lava before you: ")),
            text.items(places, ahead, "; "),
            text.when(~jnp.any(ahead), text.lit("no lava left to cross")),
            text.lit(". Goal "), first_person.offset(state.pos, state.heading, state.goal),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit("Turn to see the rest of the room. Stand in line with a gap before you go forward.")


def _cell(state: State, row: Array, col: Array) -> Array:
    """i32[...]: what is on cells of the map (wall outside the room)."""
    last = state.size - 1
    is_wall = (row <= 0) | (row >= last) | (col <= 0) | (col >= last)
    is_goal = (row == state.goal[0]) & (col == state.goal[1])
    lava = [(col == state.columns[k]) & (row != state.gaps[k]) for k in range(COLUMNS)]
    code = jnp.where(jnp.any(jnp.stack(lava), axis=0), jnp.int32(LAVA), jnp.int32(FLOOR))
    return jnp.where(is_wall, jnp.int32(WALL), jnp.where(is_goal, jnp.int32(GOAL), code))


def _view(state: State) -> Array:
    """i32[7, 7]: the cells ahead as the agent sees them, itself in the middle of the bottom row."""
    cells = _cell(state, *window(state.pos, state.heading))
    return first_person.view(cells, cells == WALL, AGENT)


def _to_go(state: State) -> Array:
    """i32[]: fewest actions to the goal."""
    gates = jnp.stack([state.gaps, state.columns], axis=1)
    facing, none = np.full(COLUMNS, RIGHT, np.int32), np.zeros(COLUMNS, np.int32)
    return through(state.pos, state.heading, gates, facing, none, state.columns >= state.pos[1], state.goal)


def _paint(side: int) -> np.ndarray:
    """Sprites in the order of the cell codes."""
    lava, line = first_person.floor(side), 1 / side
    lava.rect(line, line, 1, 1, (255, 128, 0))
    for y in (0.3, 0.55, 0.8):
        lava.fill(np.abs(lava.y - y - 0.05 * np.sin(4 * np.pi * lava.x)) < 0.035, (120, 40, 0))
    sprites = [*first_person.basics(side), lava, first_person.agent(first_person.floor(side))]
    return np.stack([c.done() for c in sprites])


ENV = LavaGap()
