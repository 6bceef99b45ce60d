"""Win Othello against a scripted opponent that answers every move."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array, lax

from jaxenv import draw, text
from jaxenv.codec import Ints
from jaxenv.core import Env, outcome, where
from jaxenv.solve import othello as rules
from jaxenv.solve.othello import N
from jaxenv.sprites import Canvas

RANDOM, GREEDY, CORNERS = range(3)
EMPTY, BLACK, WHITE, LEGAL, YOU_BLACK, YOU_WHITE, DIGIT = range(7)
GLYPHS = ".BW*BW0123456789"
CANDIDATES = 32  # moves that `solve` compares; the rest (hardly ever any) is left out
_PLIES = np.asarray([0, 0, 0, 0, 4, 0, 8, 0, 10, 0, 10], np.int32)  # random opening plies by board size
_TRIES = int(_PLIES.max()) + 3  # plies that may be drawn for the opening, see `reset`
_CLASSES = np.stack([rules.classes(n) for n in range(N + 1)])
_WEIGHTS = np.asarray([30, 4, 0, -6, -12], np.int32)


@struct.dataclass
class State:
    mine: Array  # u32[N] the agent's discs, bit c of row r
    theirs: Array  # u32[N]
    legal: Array  # u32[N] where the agent may play; none once the game is over
    size: Array  # i32[]
    colour: Array  # i32[] of the agent: 0 black, 1 white
    opponent: Array  # i32[] RANDOM, GREEDY or CORNERS


class Othello(Env[State]):
    """TextArena's Othello with the opponent inside `step`: random, most flips, or best place (corners first).

    Games open with 4, 8 or 10 random plies on boards of 4, 6 or more cells a side and one more if the agent
    plays white: the 244 positions that four plies reach on 8 x 8 are too few. The 4 x 4 board has 484
    openings. Upstream's rule of two strikes is replaced by the clock.
    """

    category = "games"
    source = ("Gym-V Games/Othello-v0", "TextArena Othello")
    horizon = 60
    question = "Choose the cell of your next disc."
    rules = (
        "A disc must go on an empty cell so that, in at least one of the eight directions, a straight "
        "unbroken line of opposing discs ends at a disc of yours; all discs so enclosed flip to your "
        "colour. An illegal cell changes nothing but uses up an action. The opponent answers at once; "
        "a side that has no legal move passes automatically. The game ends when neither side can "
        "move. More discs win: full reward for a win, half for a draw, none for a loss or an "
        "unfinished game."
    )
    answer = Ints(2, 0, N - 1, "the row and column of a legal cell, counted from 0 at the top left", (2, 3))
    levels = {
        "board_size": ((4, 4), (4, 4), (6, 6), (6, 6), (8, 8), (8, 8), (10, 10)),
        "opponent": ((0, 0), (1, 1), (0, 0), (1, 1), (0, 0), (2, 2), (0, 0)),
    }
    eval_level = 2
    min_resolution = (40, 40, 56, 56, 72, 72, 88)
    solvable = False

    def reset(self, key: Array, scale) -> State:
        k_colour, k_open = jax.random.split(key)
        size = scale["board_size"]
        board = rules.board(size)
        low, high = size // 2 - 1, size // 2
        black = rules.cell(low, high) | rules.cell(high, low)
        white = rules.cell(low, low) | rules.cell(high, high)
        plies = jnp.asarray(_PLIES)[size] + jax.random.bernoulli(k_colour).astype(jnp.int32)
        chance = jax.random.bits(k_open, (_TRIES,))

        def ply(k, carry):
            mover, other, legal, done = carry
            after, next_mover = rules.play(mover, other, _draw(chance[k], legal))
            next_legal, _ = rules.legal(next_mover, after, board)
            # A ply after which the next side would have to pass is not made: the side to move always can.
            made = (done < plies) & jnp.any(next_legal != 0)
            return where(made, (next_mover, after, next_legal, done + 1), carry)

        start = (black, white, rules.legal(black, white, board)[0], jnp.int32(0))
        mine, theirs, legal, done = lax.fori_loop(0, _TRIES, ply, start)
        return State(mine, theirs, legal, size, done % 2, scale["opponent"])

    def limit(self, state: State) -> Array:
        """Half the cells and one action a row to spare: enough for all moves and a few illegal ones."""
        return state.size * state.size // 2 + state.size

    def step(self, key: Array, state: State, action: Array):
        move = rules.cell(action[0], action[1]) & state.legal
        mine, theirs = rules.play(state.mine, state.theirs, move)
        mine, theirs, legal = _reply(key, mine, theirs, state.size, state.opponent)
        over = jnp.all(legal == 0)
        lead = jnp.sign(rules.count(mine) - rules.count(theirs)).astype(jnp.float32)
        reward = jnp.where(over, (lead + 1.0) / 2.0, 0.0)
        return state.replace(mine=mine, theirs=theirs, legal=legal), outcome(reward, over, jnp.any(move != 0))

    def solve(self, state: State) -> Array:
        """The best next position by places and mobility, by discs at the end: strong, not perfect."""
        board, places = rules.board(state.size), jnp.asarray(_CLASSES)[state.size]

        def value(k):
            at = rules.nth(state.legal, k)
            mine, theirs = rules.play(state.mine, state.theirs, rules.cell(at[0], at[1]))
            my_moves, their_moves = (rules.count(x) for x in rules.legal(mine, theirs, board))
            discs = rules.count(mine) - rules.count(theirs)
            place = jnp.sum(
                _WEIGHTS * (rules.count(mine[None] & places) - rules.count(theirs[None] & places))
            )
            empty = rules.count(board) - rules.count(mine | theirs)
            score = place + 3 * (my_moves - their_moves) + jnp.where(empty < 2 * state.size, discs, 0)
            return jnp.where(my_moves + their_moves == 0, 1000 * discs, score), at

        scores, cells = jax.vmap(value)(jnp.arange(CANDIDATES))
        possible = np.arange(CANDIDATES) < rules.count(state.legal)
        return cells[jnp.argmax(jnp.where(possible, scores, np.int32(-(1 << 30))))]

    def render(self, state: State) -> Array:
        sizes = tuple(n + 1 for (n, _) in dict.fromkeys(self.levels["board_size"]))  # with the indices
        sprites = draw.sheet(self.resolution, sizes, _paint, (24, 32, 28))
        return draw.tiles(sprites, _codes(state), state.size + 1, state.size + 1)

    def text_question(self, state: State) -> Array:
        colours = ["You play Othello as black against white. ", "You play Othello as white against black. "]
        return text.join(text.choose(state.colour, colours), text.lit(self.question))

    def text_obs(self, state: State) -> Array:
        legend = "B black, W white, * empty and legal for you, . other empty cells; indices above and left, "
        table = text.table(_codes(state), GLYPHS, state.size + 1, state.size + 1)
        return text.join(text.lit(legend + "your colour in the corner\n"), table)

    def text_state(self, state: State) -> Array:
        planes = rules.gains(state.mine, state.theirs, rules.board(state.size))
        flips = sum(rules.bits(p).astype(jnp.int32) << k for k, p in enumerate(planes)).reshape(-1)
        row, col = np.divmod(np.arange(N * N, dtype=np.int32), N)
        move = text.join(
            text.lit("("),
            text.num(row, 1),
            text.lit(","),
            text.num(col, 1),
            text.lit(")"),
            text.num(flips, 2),
        )
        habits = ["plays at random", "flips as many discs as it can", "takes the best place, corners first"]
        return text.join(
            text.lit("you have "), text.num(rules.count(state.mine), 2), text.lit(" discs, the opponent "),
            text.num(rules.count(state.theirs), 2), text.lit(" and "), text.choose(state.opponent, habits),
            text.lit("; legal cells (row,col) and discs flipped: "),
            text.items(move, rules.bits(state.legal).reshape(-1)),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Corners can never be flipped and edges seldom; do not open the way to a corner. "
            "Count at the end."
        )


def _draw(chance: Array, cells: Array) -> Array:
    """u32[N]: one cell of a set by a random u32, none if the set is empty."""
    total = jnp.maximum(rules.count(cells), 1)
    at = rules.nth(cells, (chance % total.astype(jnp.uint32)).astype(jnp.int32))
    return rules.cell(at[0], at[1]) & cells


def _reply(key: Array, mine: Array, theirs: Array, size: Array, opponent: Array):
    """Plays the opponent until the agent can move or nobody can; both sets and the agent's legal cells."""
    board = rules.board(size)

    def turn(carry):
        mine, theirs, _, options, _, key = carry
        key, k_chance = jax.random.split(key)
        planes = rules.gains(theirs, mine, board)
        # Only the greedy one looks at flips: for the others all values are equal.
        best = rules.greatest(options, [jnp.where(opponent == GREEDY, p, jnp.uint32(0)) for p in planes])
        for place in jnp.asarray(_CLASSES)[size][::-1]:
            better = options & place
            best = jnp.where((opponent == CORNERS) & jnp.any(better != 0), better, best)
        theirs, mine = rules.play(theirs, mine, _draw(jax.random.bits(k_chance), best))
        return mine, theirs, *rules.legal(mine, theirs, board), jnp.bool_(False), key

    def more(carry):
        _, _, legal, options, first, _ = carry
        return jnp.any(options != 0) & (first | jnp.all(legal == 0))

    start = (mine, theirs, *rules.legal(mine, theirs, board), jnp.bool_(True), key)
    return lax.while_loop(more, turn, start)[:3]


def _codes(state: State) -> Array:
    """i32[N + 1, N + 1]: the board with indices above and left of it and the agent's colour in the corner."""
    mine, theirs, legal = (rules.bits(x) for x in (state.mine, state.theirs, state.legal))
    cells = jnp.where(
        mine, BLACK + state.colour, jnp.where(theirs, WHITE - state.colour, jnp.where(legal, LEGAL, EMPTY))
    )
    index = DIGIT + np.arange(N, dtype=np.int32)
    top = jnp.concatenate([(YOU_BLACK + state.colour)[None], index])
    return jnp.concatenate([top[None, :], jnp.concatenate([index[:, None], cells], axis=1)])


def _paint(side: int) -> np.ndarray:
    """Sprites EMPTY, BLACK, WHITE, LEGAL, the agent's colour twice and ten indices."""
    black, white, gold, line = (18, 18, 20), (245, 245, 240), (250, 215, 60), (10, 60, 35)

    def field():
        edge = 1 / side  # lines one pixel wide, whole pixels
        return Canvas(side, line).rect(0, 0, 1 - edge, 1 - edge, (34, 139, 84))

    def frame():
        return Canvas(side, (24, 32, 28))

    cells = [
        field(),
        field().disc(0.47, 0.47, 0.39, black),
        field().disc(0.47, 0.47, 0.39, white),
        field().disc(0.47, 0.47, 0.15, gold),
        frame().disc(0.47, 0.47, 0.47, gold).disc(0.47, 0.47, 0.34, black),
        frame().disc(0.47, 0.47, 0.47, gold).disc(0.47, 0.47, 0.34, white),
    ]
    cells += [frame().text(str(k), (200, 205, 200)) for k in range(N)]
    return np.stack([c.done() for c in cells])


ENV = Othello()
