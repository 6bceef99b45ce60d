"""Find the key, unlock the door and reach the goal, seen in first person."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import first_person, text
from jaxenv.core import Env, outcome
from jaxenv.first_person import (
    ACTIONS,
    DROP,
    FLOOR,
    FLOOR_COLOUR,
    FORWARD,
    GOAL,
    PICKUP,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    WALL,
)  # fmt: skip
from jaxenv.solve.minigrid import AHEAD, RIGHT, VIEW, turns, walk, window
from jaxenv.sprites import Canvas

KEY, LOCKED, CLOSED, OPEN, AGENT, AGENT_KEY = range(4, 10)
GLYPHS = "?.#GKLDOAA"


@struct.dataclass
class State:
    size: Array  # i32[] side of the room, walls included
    door_at: Array  # i32[2] (row, col); its column is the dividing wall
    door: Array  # i32[] LOCKED, CLOSED or OPEN
    key_at: Array  # i32[2]; of no meaning while the key is carried
    carried: Array  # bool[]
    pos: Array  # i32[2] of the agent
    heading: Array  # i32[] 0 right, 1 down, 2 left, 3 up on the map
    limit: Array  # i32[] actions


class DoorKey(Env[State]):
    """MiniGrid's DoorKey with its generator, dynamics and 7 x 7 view, for any size from 5 to 16.

    Unlike MiniGrid, an action without effect (forward into a wall, pickup of nothing, done, ...) is invalid,
    the reward for the goal is 1 and the clock is four times the shortest way. There are 48 instances of
    size 5, 816 of size 6, 5,120 of size 7 and 20,400 of size 8; as upstream the dividing wall is drawn
    uniformly, so those with a narrow left part are more frequent.

    From every reachable state the goal can be reached: the key stays in the left part until the door is
    unlocked, an unlocked door never locks again, and a key that lies in the way can be picked up.
    """

    category = "spatial2d"
    source = ("Gym-V Spatial/DoorKey-v0", "MiniGrid DoorKey-NxN")
    horizon = 276  # four times the longest shortest way, 69
    question = (
        "You see the part of a room in front of you: you are the red triangle at the bottom, facing "
        "up. Take the key, open the locked door with it and go to the green goal. Choose the next "
        "action."
    )
    rules = (
        "left and right turn you on the spot; forward moves you one cell; pickup takes the key from "
        "the cell ahead; drop puts it on the free cell ahead; toggle unlocks and opens the locked "
        "door ahead if you carry the key, and opens or closes an unlocked one; done does nothing. "
        "Walls, the key and a door that is not open block the way. You cannot see through walls and "
        "doors that are not open. An action that has no effect is illegal and uses up an action. "
        "Reaching the goal ends the episode with full reward."
    )
    answer = ACTIONS
    levels = {"size": ((5, 5), (6, 6), (7, 7), (8, 8), (10, 10), (12, 12), (16, 16))}
    eval_level = 3
    min_resolution = (56,) * 7

    def reset(self, key: Array, scale) -> State:
        k_split, k_door, k_agent, k_key, k_heading = jax.random.split(key, 5)
        size = scale["size"]
        draw_int = lambda k, low, high: jax.random.randint(k, (), low, high, jnp.int32)  # noqa: E731
        split, door_row = draw_int(k_split, 2, size - 2), draw_int(k_door, 1, size - 2)
        inner = size - 2
        cells = inner * (split - 1)  # of the left part, column by column
        agent, at = draw_int(k_agent, 0, cells), draw_int(k_key, 0, cells - 1)
        at = at + (at >= agent).astype(jnp.int32)
        place = lambda cell: jnp.stack([1 + cell % inner, 1 + cell // inner])  # noqa: E731
        state = State(
            size, jnp.stack([door_row, split]), jnp.int32(LOCKED), place(at), jnp.bool_(False), place(agent),
            draw_int(k_heading, 0, 4), jnp.int32(0),
        )  # fmt: skip
        return state.replace(limit=4 * _to_go(state))

    def limit(self, state: State) -> Array:
        return state.limit

    def step(self, key: Array, state: State, action: Array):
        act, ahead = action[0], state.pos + jnp.asarray(AHEAD)[state.heading]
        cell = _cell(state, ahead[0], ahead[1])
        is_door = (cell == LOCKED) | (cell == CLOSED) | (cell == OPEN)
        forward = (act == FORWARD) & ((cell == FLOOR) | (cell == GOAL) | (cell == OPEN))
        pickup = (act == PICKUP) & (cell == KEY)  # a key lies there, so the hands are empty
        drop = (act == DROP) & state.carried & (cell == FLOOR)
        toggle = (act == TOGGLE) & is_door & ((cell != LOCKED) | state.carried)
        turn = (act == TURN_RIGHT).astype(jnp.int32) - (act == TURN_LEFT).astype(jnp.int32)
        moved = state.replace(
            pos=jnp.where(forward, ahead, state.pos),
            heading=(state.heading + turn) % 4,
            carried=(state.carried | pickup) & ~drop,
            key_at=jnp.where(drop, ahead, state.key_at),
            door=jnp.where(toggle, jnp.where(cell == OPEN, jnp.int32(CLOSED), jnp.int32(OPEN)), state.door),
        )
        goal = forward & (cell == GOAL)
        return moved, outcome(goal, goal, forward | pickup | drop | toggle | (turn != 0))

    def solve(self, state: State) -> Array:
        """A best next action (one too many in all, at most, if the key lies in the way)."""

        def cost(act):
            then, out = self.step(jax.random.key(0), state, act[None])
            # Where only the key bars the way, taking it brings the agent no nearer but beats all else.
            left = jnp.where(out.terminated, 0, 2 * _to_go(then) - (act == PICKUP).astype(jnp.int32))
            return jnp.where(out.valid, left, np.int32(1 << 20))

        acts = np.asarray([TURN_LEFT, TURN_RIGHT, PICKUP, TOGGLE, FORWARD], np.int32)
        return jnp.asarray(acts)[jnp.argmin(jax.vmap(cost)(acts))][None]

    def render(self, state: State) -> Array:
        return first_person.picture(self.resolution, _paint, _view(state))

    def text_obs(self, state: State) -> Array:
        legend = (
            "A you, facing up, . floor, # wall, K key, L locked door, D closed door, O open door, G goal, "
            "? unseen\n"
        )
        hands = text.choose(state.carried.astype(jnp.int32), ["You carry nothing.", "You carry the key."])
        return text.join(text.lit(legend), text.table(_view(state), GLYPHS, VIEW, VIEW), hands)

    def text_state(self, state: State) -> Array:
        goal = jnp.stack([state.size - 2, state.size - 2])
        door = text.choose(state.door - LOCKED, ["locked", "closed", "open"])
        key = text.join(
            text.when(state.carried, text.lit("in your hand")),
            text.when(~state.carried, _offset(state, state.key_at)),
        )
        return text.join(
            text.lit("key "), key, text.lit("; "), door, text.lit(" door "), _offset(state, state.door_at),
            text.lit("; goal "), _offset(state, goal),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Turn to see the rest of the room. Face a thing in the next cell before you act on it."
        )


def _cell(state: State, row: Array, col: Array) -> Array:
    """i32[...]: what stands on cells of the map (wall outside the room); the agent is not on it."""
    last = state.size - 1
    is_door = (row == state.door_at[0]) & (col == state.door_at[1])
    is_key = (row == state.key_at[0]) & (col == state.key_at[1]) & ~state.carried
    is_goal = (row == last - 1) & (col == last - 1)
    is_wall = (row <= 0) | (row >= last) | (col <= 0) | (col >= last) | (col == state.door_at[1])
    code = jnp.where(is_wall, jnp.int32(WALL), jnp.where(is_goal, jnp.int32(GOAL), jnp.int32(FLOOR)))
    return jnp.where(is_door, state.door, jnp.where(is_key, jnp.int32(KEY), code))


def _view(state: State) -> Array:
    """i32[7, 7]: the cells ahead as the agent sees them, itself in the middle of the bottom row."""
    cells = _cell(state, *window(state.pos, state.heading))
    opaque = (cells == WALL) | (cells == LOCKED) | (cells == CLOSED)
    return first_person.view(cells, opaque, jnp.where(state.carried, AGENT_KEY, AGENT))


def _offset(state: State, target: Array) -> Array:
    return first_person.offset(state.pos, state.heading, target)


def _to_go(state: State) -> Array:
    """i32[]: fewest actions to the goal, a key on the floor being no obstacle.

    Exact while the door is locked: the best way to the key never leads over it. Else at most one too few.
    """
    door, split, last = state.door_at, state.door_at[1], state.size - 1
    goal = jnp.stack([last - 1, last - 1])
    sides = np.arange(4, dtype=np.int32)
    beyond = (last - 1 - split) + 1 + (last - 1 - door[0])  # from the doorway, facing right, with one turn

    def to_goal(pos, heading):
        shut = (state.door != OPEN).astype(jnp.int32)
        left = walk(pos, heading, door - AHEAD[RIGHT], jnp.int32(RIGHT)) + shut + 1 + beyond
        right = jax.vmap(walk, (None, None, None, 0))(pos, heading, goal, sides).min()
        doorway = turns(heading, jnp.int32(RIGHT)) + beyond
        return jnp.where(pos[1] < split, left, jnp.where(pos[1] > split, right, doorway))

    def by_key(side):  # take the key from one side, facing it
        stand = state.key_at - jnp.asarray(AHEAD)[side]
        room = jnp.all(stand >= 1) & (stand[0] < last) & (stand[1] < split)
        whole = walk(state.pos, state.heading, stand, side) + 1 + to_goal(stand, side)
        return jnp.where(room, whole, np.int32(1 << 10))

    need_key = (state.door == LOCKED) & ~state.carried
    return jnp.where(need_key, jax.vmap(by_key)(sides).min(), to_goal(state.pos, state.heading))


def _paint(side: int) -> np.ndarray:
    """Sprites in the order of the cell codes; lines of whole pixels."""
    yellow, brown, line = (245, 210, 50), (112, 92, 16), 1 / side
    floor = lambda: first_person.floor(side)  # noqa: E731

    def key(canvas, x, y, scale):
        canvas.disc(x, y, 0.21 * scale, yellow).disc(x, y, 0.08 * scale, FLOOR_COLOUR)
        canvas.rect(x - 0.065 * scale, y + 0.18 * scale, x + 0.065 * scale, y + 0.66 * scale, yellow)
        canvas.rect(x - 0.22 * scale, y + 0.34 * scale, x, y + 0.43 * scale, yellow)
        return canvas.rect(x - 0.22 * scale, y + 0.54 * scale, x, y + 0.63 * scale, yellow)

    edge = max(0.09, line)
    frame = lambda inside: Canvas(side, yellow).rect(edge, edge, 1 - edge, 1 - edge, inside)  # noqa: E731
    locked = frame(brown).disc(0.5, 0.42, 0.14, (10, 10, 10)).rect(0.43, 0.45, 0.57, 0.76, (10, 10, 10))
    closed = frame((24, 22, 16)).rect(2 * edge, 2 * edge, 1 - 2 * edge, 1 - 2 * edge, brown)
    closed = closed.disc(0.74, 0.5, 0.10, yellow)
    opened = floor().rect(0, 0, 2 * edge, 1, yellow).rect(1 - edge, 0, 1, 1, yellow)
    sprites = [
        *first_person.basics(side),
        key(floor(), 0.54, 0.27, 1.0),
        locked,
        closed,
        opened,
        first_person.agent(floor()),
        key(first_person.agent(floor()), 0.80, 0.20, 0.8),
    ]
    return np.stack([c.done() for c in sprites])


ENV = DoorKey()
