"""Walk over a frozen lake to the goal without stepping into a hole."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import Choice
from jaxenv.core import Env, outcome, where
from jaxenv.gen.choice import pick, subset
from jaxenv.gen.paths import random_path
from jaxenv.solve.grid import FAR, MOVES, neighbours, steps
from jaxenv.sprites import Canvas

N = 8
ICE, HOLE, GOAL, AGENT = range(4)
GLYPHS = ".HGP"


@struct.dataclass
class State:
    cells: Array  # i32[N, N] ICE, HOLE or GOAL; ICE beyond size
    size: Array  # i32[]
    pos: Array  # i32[2] (row, col)
    limit: Array  # i32[] moves


class FrozenLake(Env[State]):
    """Gym-V's lake with random start and goal (upstream: opposite corners) and holes off a random winding path.

    Each move goes the chosen way with probability 1 - slip, otherwise to one of the two sides, as in Gymnasium.
    """

    category = "games"
    source = ("Gym-V Games/FrozenLake-v0", "TextArena FrozenLake", "Gymnasium FrozenLake-v1")
    horizon = 64
    question = "Walk over the frozen lake from your place to the goal flag. Choose the next move."
    rules = (
        "You move one cell up, down, left or right. Leaving the board is an illegal move and changes nothing. "
        "Stepping into a hole ends the episode without reward. Reaching the goal ends it with full reward."
    )
    answer = Choice(
        ("up", "down", "left", "right"),
        {"w": "up", "s": "down", "a": "left", "d": "right", "u": "up", "l": "left", "r": "right"},
    )
    levels = {
        "size": ((3, 3), (4, 4), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)),
        "holes": ((1, 1), (3, 3), (5, 5), (6, 6), (9, 9), (14, 14), (20, 20)),
    }
    eval_level = 2
    min_resolution = (32, 32, 32, 40, 48, 56, 64)
    settings = ("slip",)
    slip: float = 0.0

    @property
    def solvable(self) -> bool:
        return self.slip == 0.0

    def reset(self, key: Array, scale) -> State:
        k_start, k_goal, k_path, k_hole = jax.random.split(key, 4)
        size = scale["size"]
        row, col = np.mgrid[:N, :N].astype(np.int32)
        board = (row < size) & (col < size)
        start = pick(k_start, board.reshape(-1))
        start_row, start_col = start // N, start % N
        distance = jnp.abs(row - start_row) + jnp.abs(col - start_col)
        # At least size - 1 moves apart: from any cell of the board some corner is that far away.
        goal = pick(k_goal, (board & (distance >= size - 1)).reshape(-1))
        is_start = (row == start_row) & (col == start_col)
        is_goal = (row == goal // N) & (col == goal % N)
        path = random_path(k_path, board, is_start, is_goal)
        holes = subset(k_hole, board & ~path, scale["holes"])
        cells = jnp.where(is_goal, jnp.int32(GOAL), jnp.where(holes, jnp.int32(HOLE), jnp.int32(ICE)))
        pos = jnp.stack([start_row, start_col])
        shortest = steps(board & ~holes, is_goal)[start_row, start_col]
        return State(cells, size, pos, jnp.minimum(2 * shortest + 2, self.horizon))

    def edit(self, key: Array, state: State) -> State:
        """One hole moves to another place, unless that would leave no way to the goal."""
        k_from, k_to = jax.random.split(key)
        row, col = np.mgrid[:N, :N].astype(np.int32)
        board = (row < state.size) & (col < state.size)
        goal, hole = state.cells == GOAL, state.cells == HOLE
        start = (row == state.pos[0]) & (col == state.pos[1])
        gone, new = pick(k_from, hole.reshape(-1)), pick(k_to, (board & ~goal & ~hole & ~start).reshape(-1))
        cells = state.cells.reshape(-1).at[gone].set(ICE).at[new].set(HOLE).reshape(N, N)
        shortest = steps(board & (cells != HOLE), goal)[state.pos[0], state.pos[1]]
        edited = state.replace(cells=cells, limit=jnp.minimum(2 * shortest + 2, self.horizon))
        return where(shortest < FAR, edited, state)

    def limit(self, state: State) -> Array:
        return state.limit

    def progress(self, state: State) -> Array:
        """Share of the shortest way that is done; a walk that came no nearer earns nothing."""
        whole = (state.limit - 2) // 2
        left = self._to_goal(state)[state.pos[0], state.pos[1]]
        return jnp.clip(1.0 - left.astype(jnp.float32) / whole.astype(jnp.float32), 0.0, 0.95)

    def step(self, key: Array, state: State, action: Array):
        move = action[0]
        if self.slip:
            # Sideways of up/down is left/right and the other way round.
            side = jnp.where(move < 2, 2, 0) + jax.random.bernoulli(key, 0.5).astype(jnp.int32)
            move = jnp.where(jax.random.bernoulli(jax.random.fold_in(key, 1), self.slip), side, move)
        known = (action[0] >= 0) & (action[0] < 4)
        target = state.pos + jnp.asarray(MOVES)[jnp.clip(move, 0, 3)]
        on_board = jnp.all((target >= 0) & (target < state.size))
        chosen = state.pos + jnp.asarray(MOVES)[jnp.clip(action[0], 0, 3)]
        valid = known & jnp.all((chosen >= 0) & (chosen < state.size))
        pos = jnp.where(on_board, target, state.pos)  # slipping against the border: stay
        cell = state.cells[pos[0], pos[1]]
        return state.replace(pos=pos), outcome(cell == GOAL, (cell == GOAL) | (cell == HOLE), valid)

    def solve(self, state: State) -> Array:
        near = neighbours(self._to_goal(state), FAR)[:, state.pos[0], state.pos[1]]
        return jnp.argmin(near).astype(jnp.int32)[None]

    def render(self, state: State) -> Array:
        cells = state.cells.at[state.pos[0], state.pos[1]].add(AGENT)  # ICE, HOLE or GOAL under the agent
        sprites = draw.sheet(self.resolution, tuple(range(3, N + 1)), _paint, (24, 32, 48))
        return draw.tiles(sprites, cells, state.size, state.size)

    def text_obs(self, state: State) -> Array:
        cells = state.cells.at[state.pos[0], state.pos[1]].set(AGENT)
        return text.join(
            text.lit("P you, G goal, H hole, . ice\n"), text.table(cells, GLYPHS, state.size, state.size)
        )

    def text_state(self, state: State) -> Array:
        goal = jnp.argmax(state.cells.reshape(-1) == GOAL).astype(jnp.int32)
        target = state.pos[None, :] + MOVES
        inside = jnp.all((target >= 0) & (target < state.size), axis=1)
        near = state.cells[jnp.clip(target[:, 0], 0, N - 1), jnp.clip(target[:, 1], 0, N - 1)]
        near = jnp.where(inside, near, AGENT)
        sides = text.join(
            *[
                text.join(text.lit(f", {name} "), text.choose(near[k], ["ice", "hole", "goal", "border"]))
                for k, name in enumerate(self.answer.names)
            ]
        )
        return text.join(
            text.lit("you at "), text.coordinates(state.pos, 1),
            text.lit(", goal at "), text.coordinates(jnp.stack([goal // N, goal % N]), 1), sides,
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Find yourself, the goal and the holes, then plan a way around the holes before moving."
        )

    def _to_goal(self, state: State) -> Array:
        row, col = np.mgrid[:N, :N]
        board = (row < state.size) & (col < state.size)
        return steps(board & (state.cells != HOLE), state.cells == GOAL)


def _paint(side: int) -> np.ndarray:
    """Sprites ICE, HOLE, GOAL and the agent on each of them."""

    def ice():
        return Canvas(side, (150, 190, 215)).rect(0.04, 0.04, 0.96, 0.96, (215, 236, 247))

    def hole():
        return ice().disc(0.5, 0.5, 0.40, (20, 60, 110)).disc(0.5, 0.54, 0.33, (10, 35, 75))

    def goal():
        return (
            ice().rect(0.28, 0.12, 0.38, 0.92, (90, 60, 30))
            .polygon([(0.38, 0.12), (0.88, 0.32), (0.38, 0.54)], (20, 150, 60))
        )  # fmt: skip

    def agent(canvas):
        return canvas.disc(0.5, 0.30, 0.17, (240, 190, 150)).polygon(
            [(0.5, 0.36), (0.80, 0.92), (0.20, 0.92)], (200, 30, 40)
        )

    return np.stack([c.done() for c in (ice(), hole(), goal(), agent(ice()), agent(hole()), agent(goal()))])


ENV = FrozenLake()
