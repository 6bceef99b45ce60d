"""Go through a chain of rooms, opening the doors between them, to the goal in the last one."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import first_person, text
from jaxenv.core import Env, outcome, where
from jaxenv.first_person import ACTIONS, FLOOR, FORWARD, GOAL, TOGGLE, TURN_LEFT, TURN_RIGHT, WALL
from jaxenv.solve.minigrid import AHEAD, VIEW, through, window

MAP = 25  # cells along a side
ROOMS, DOORS = 6, 5  # at most
SMALL = 4  # side of the smallest room, walls included
TRIES, CANDIDATES, TIGHT = 4, 16, 6  # chains; places for each next room, the last ones with small rooms only
COLOURS = {"red": (225, 60, 60), "blue": (70, 110, 255), "purple": (170, 70, 210), "yellow": (245, 210, 50)}
CLOSED, OPEN, AGENT = 4, 4 + len(COLOURS), 4 + 2 * len(COLOURS)  # codes of the doors by colour
GLYPHS = "?.#GRBPYrbpyA"


@struct.dataclass
class Chain:
    top: Array  # i32[ROOMS, 2] (row, col) of each room's corner
    size: Array  # i32[ROOMS, 2] rows and columns, walls included
    doors: Array  # i32[DOORS, 2] door k leads from room k to room k + 1
    facing: Array  # i32[DOORS] heading on the way to the goal
    count: Array  # i32[] rooms


@struct.dataclass
class State:
    chain: Chain
    colour: Array  # i32[DOORS]
    open: Array  # bool[DOORS]
    pos: Array  # i32[2] (row, col) of the agent
    heading: Array  # i32[] 0 right, 1 down, 2 left, 3 up on the map
    goal: Array  # i32[2]
    limit: Array  # i32[] actions


class MultiRoom(Env[State]):
    """MiniGrid's MultiRoom with its dynamics and 7 x 7 view, and a chain of exactly the rooms asked for.

    Rooms are placed one after another, each at the first of 16 random places where it fits; of four chains
    the first complete one is taken, else a straight one. Unlike in MiniGrid, no two rooms but neighbours share
    walls, doors are red, blue, purple or yellow (its green and grey look like goal and wall), an action without
    effect is invalid, the reward for the goal is 1 and the clock is four times the shortest way.
    """

    category = "spatial2d"
    source = ("Gym-V Spatial/MultiRoom-v0", "MiniGrid MultiRoom")
    horizon = 400  # four times a bound on the shortest way that hardly any instance reaches
    question = (
        "You see the part of a building in front of you: you are the red triangle at the bottom, "
        "facing up. Go through the rooms, opening the coloured doors, to the green goal. Choose the "
        "next action."
    )
    rules = (
        "left and right turn you on the spot; forward moves you one cell; toggle opens or closes the door in the "
        "cell ahead. No door is locked. Walls and closed doors block the way and you cannot see through them. "
        "The goal is in the last of a chain of rooms, you start in the first. pickup, drop and done have no effect "
        "here. An action that has no effect is illegal and uses up an action. Reaching the goal ends the episode "
        "with full reward."
    )
    answer = ACTIONS
    levels = {
        "rooms": ((2, 2), (2, 2), (3, 3), (4, 4), (2, 6), (6, 6)),
        "room": ((4, 4), (6, 6), (6, 6), (8, 8), (10, 10), (10, 10)),  # the largest side, walls included
    }
    eval_level = 4
    min_resolution = (56,) * 6

    def reset(self, key: Array, scale) -> State:
        k_chain, k_colour, k_start, k_goal, k_heading = jax.random.split(key, 5)
        count, largest = scale["rooms"], scale["room"]
        chain = _chain(k_chain, count, largest)
        hues = jax.random.randint(k_colour, (DOORS,), 1, len(COLOURS), jnp.int32)  # neighbours differ

        def inside(key, room):
            return chain.top[room] + jax.random.randint(key, (2,), 1, chain.size[room] - 1, jnp.int32)

        state = State(
            chain, jnp.cumsum(hues) % len(COLOURS), jnp.zeros(DOORS, bool), inside(k_start, 0),
            jax.random.randint(k_heading, (), 0, 4, jnp.int32), inside(k_goal, count - 1), jnp.int32(0),
        )  # fmt: skip
        return state.replace(limit=jnp.minimum(4 * _to_go(state), self.horizon))

    def limit(self, state: State) -> Array:
        return state.limit

    def step(self, key: Array, state: State, action: Array):
        act, ahead = action[0], state.pos + jnp.asarray(AHEAD)[state.heading]
        cell = _cell(state, ahead[0], ahead[1])
        is_door = (cell >= CLOSED) & (cell < AGENT)
        forward = (act == FORWARD) & ((cell == FLOOR) | (cell == GOAL) | (is_door & (cell >= OPEN)))
        toggle = (act == TOGGLE) & is_door
        turn = (act == TURN_RIGHT).astype(jnp.int32) - (act == TURN_LEFT).astype(jnp.int32)
        here = jnp.all(state.chain.doors == ahead[None, :], axis=1) & _used(state.chain)
        moved = state.replace(
            pos=jnp.where(forward, ahead, state.pos),
            heading=(state.heading + turn) % 4,
            open=state.open ^ (here & toggle),
        )
        goal = forward & (cell == GOAL)
        return moved, outcome(goal, goal, forward | toggle | (turn != 0))

    def solve(self, state: State) -> Array:
        """A best next action."""

        def cost(act):
            then, out = self.step(jax.random.key(0), state, act[None])
            return jnp.where(out.valid, jnp.where(out.terminated, 0, _to_go(then)), np.int32(1 << 20))

        acts = np.asarray([TURN_LEFT, TURN_RIGHT, TOGGLE, FORWARD], np.int32)
        return jnp.asarray(acts)[jnp.argmin(jax.vmap(cost)(acts))][None]

    def render(self, state: State) -> Array:
        return first_person.picture(self.resolution, _paint, _view(state))

    def text_obs(self, state: State) -> Array:
        legend = (
            "A you, facing up, . floor, # wall, G goal, R B P Y closed doors (red, blue, purple, yellow), "
            "r b p y open doors, ? unseen\n"
        )
        return text.join(text.lit(legend), text.table(_view(state), GLYPHS, VIEW, VIEW))

    def text_state(self, state: State) -> Array:
        ahead = _ahead(state)
        door = jnp.argmax(ahead)
        to_door = first_person.offset(state.pos, state.heading, state.chain.doors[door])
        status = text.choose(state.open[door].astype(jnp.int32), ["closed", "open"])
        return text.join(
            text.lit("doors to pass: "), text.num(ahead.sum(dtype=jnp.int32), 1),
            text.when(jnp.any(ahead), text.join(text.lit("; next door "), to_door, text.lit(", "), status)),
            text.lit("; goal "), first_person.offset(state.pos, state.heading, state.goal),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Turn to find the doors of a room. Stand in front of a door, facing it, to open it, then go through."
        )


def _chain(key: Array, count: Array, largest: Array) -> Chain:
    """Rooms of sides SMALL .. largest, each behind a door of the one before."""
    k_first, k_more = jax.random.split(key)
    complete, chains = jax.vmap(_wind, (0, None, None))(jax.random.split(k_more, TRIES), count, largest)
    best = jax.tree.map(lambda x: x[jnp.argmax(complete)], chains)
    return where(jnp.any(complete), best, _straight(k_first, count, largest))


def _wind(key: Array, count: Array, largest: Array) -> tuple[Array, Chain]:
    """A chain at random places, and whether all its rooms found one."""
    bits = jax.random.bits(key, (ROOMS, CANDIDATES, 6))
    tight = (np.arange(CANDIDATES) >= CANDIDATES - TIGHT)[None, :, None]
    sides = SMALL + _below(bits[..., :2], jnp.where(tight, 1, largest - SMALL + 1))
    first = _below(bits[0, 0, 2:4], MAP + 1 - sides[0, 0])
    top, size = jnp.zeros((ROOMS, 2), jnp.int32).at[0].set(first), sides[:, 0]
    every = np.arange(ROOMS, dtype=np.int32)

    def place(carry, given):
        top, size, complete = carry
        k, bits, new = given  # u32[CANDIDATES, 6], i32[CANDIDATES, 2]
        old_top, old = top[k - 1][None, :], size[k - 1][None, :]
        facing = _below(bits[:, 5], 4)
        step = jnp.asarray(AHEAD)[facing]
        # Across the way, door and new room are shifted at random; along it, the two rooms share one wall.
        across = step == 0
        door = jnp.where(across, 1 + _below(bits[:, 2:4], old - 2), jnp.where(step > 0, old - 1, 0)) + old_top
        shift = jnp.where(across, 1 + _below(bits[:, 4:5], new - 2), jnp.where(step > 0, 0, new - 1))
        corner = door - shift
        apart = (corner[:, None] + new[:, None] <= top[None]) | (top[None] + size[None] <= corner[:, None])
        free = jnp.all(jnp.any(apart, axis=2) | (every >= k - 1)[None, :], axis=1)
        fits = free & jnp.all((corner >= 0) & (corner + new <= MAP), axis=1)
        chosen = jnp.argmax(fits)
        top, size = top.at[k].set(corner[chosen]), size.at[k].set(new[chosen])
        complete = complete & (jnp.any(fits) | (k >= count))
        return (top, size, complete), (door[chosen], facing[chosen])

    (top, size, complete), (doors, facing) = lax.scan(
        place, (top, size, jnp.bool_(True)), (every[1:], bits[1:], sides[1:])
    )
    return complete, Chain(top, size, doors, facing, count)


def _straight(key: Array, count: Array, largest: Array) -> Chain:
    """A row of narrow rooms from left to right."""
    bits = jax.random.bits(key, (2, ROOMS))
    width, middle = jnp.minimum(largest, 5), (MAP - SMALL) // 2
    col = np.arange(ROOMS, dtype=np.int32) * (width - 1)
    rows = SMALL + _below(bits[0], largest - SMALL + 1)
    row = middle + 1 + _below(bits[1], jnp.int32(SMALL - 2))
    return Chain(
        jnp.stack([jnp.full(ROOMS, middle, jnp.int32), col], axis=1),
        jnp.stack([rows, jnp.full(ROOMS, width, jnp.int32)], axis=1),
        jnp.stack([row, col], axis=1)[1:], jnp.zeros(DOORS, jnp.int32), count,
    )  # fmt: skip


def _below(bits: Array, bound: Array | int) -> Array:
    """i32: random numbers below a (traced) bound from u32 bits; uneven by less than 1 in 10^8."""
    return (bits % jnp.asarray(bound).astype(jnp.uint32)).astype(jnp.int32)


def _used(chain: Chain) -> Array:
    return np.arange(DOORS) < chain.count - 1


def _ahead(state: State) -> Array:
    """bool[DOORS]: doors between the agent and the goal, the one it stands in included."""
    chain, used = state.chain, _used(state.chain)
    pos = state.pos[None, :]
    in_room = jnp.all((pos > chain.top) & (pos < chain.top + chain.size - 1), axis=1)
    in_door = jnp.all(chain.doors == pos, axis=1) & used
    in_room = in_room & (np.arange(ROOMS) < chain.count)
    now = jnp.where(jnp.any(in_door), jnp.argmax(in_door), jnp.argmax(in_room))
    return used & (np.arange(DOORS) >= now)


def _to_go(state: State) -> Array:
    """i32[]: fewest actions to the goal."""
    shut = (~state.open).astype(jnp.int32)
    chain = state.chain
    return through(state.pos, state.heading, chain.doors, chain.facing, shut, _ahead(state), state.goal)


def _cell(state: State, row: Array, col: Array) -> Array:
    """i32[...]: what is on cells of the map (wall outside the rooms)."""
    chain = state.chain
    inside = jnp.zeros(jnp.shape(row), bool)
    for k in range(ROOMS):
        (top, left), (rows, cols) = chain.top[k], chain.size[k]
        room = (row > top) & (row < top + rows - 1) & (col > left) & (col < left + cols - 1)
        inside = inside | (room & (k < chain.count))
    code = jnp.where(inside, jnp.int32(FLOOR), jnp.int32(WALL))
    for k in range(DOORS):
        here = (row == chain.doors[k, 0]) & (col == chain.doors[k, 1]) & (k < chain.count - 1)
        code = jnp.where(here, jnp.where(state.open[k], OPEN, CLOSED) + state.colour[k], code)
    return jnp.where((row == state.goal[0]) & (col == state.goal[1]), jnp.int32(GOAL), code)


def _view(state: State) -> Array:
    """i32[7, 7]: the cells ahead as the agent sees them, itself in the middle of the bottom row."""
    cells = _cell(state, *window(state.pos, state.heading))
    return first_person.view(cells, (cells == WALL) | ((cells >= CLOSED) & (cells < OPEN)), AGENT)


def _paint(side: int) -> np.ndarray:
    """Sprites in the order of the cell codes; edges of whole pixels."""
    edge = max(0.09, 1 / side)

    def closed(colour):
        dark = tuple(c * 2 // 5 for c in colour)
        door = first_person.Canvas(side, colour).rect(edge, edge, 1 - edge, 1 - edge, (24, 22, 16))
        door.rect(2 * edge, 2 * edge, 1 - 2 * edge, 1 - 2 * edge, dark)
        return door.rect(0.62, 0.44, 0.80, 0.56, colour)

    def opened(colour):
        return first_person.floor(side).rect(0, 0, 2 * edge, 1, colour).rect(1 - edge, 0, 1, 1, colour)

    sprites = first_person.basics(side)
    sprites += [closed(c) for c in COLOURS.values()] + [opened(c) for c in COLOURS.values()]
    return np.stack([c.done() for c in [*sprites, first_person.agent(first_person.floor(side))]])


ENV = MultiRoom()
