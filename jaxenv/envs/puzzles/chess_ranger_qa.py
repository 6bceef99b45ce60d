"""Answer a question on a Chess Ranger board: every move captures, and one piece must be left in the end."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import BLANK, Words
from jaxenv.core import Env, outcome
from jaxenv.gen.chess_ranger import FEWEST, MOST, bank
from jaxenv.sprites import Canvas

COUNT, FIND, AT, CAPTURES, KEEP = range(5)  # kinds of question
PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING, NOTHING = range(7)
KINDS = ("pawn", "knight", "bishop", "rook", "queen", "king")
OPTIONS = 4  # captures to choose from
RANK, FILE, CORNER = 14, 22, 30  # sprites, behind seven contents of a light and a dark square
_ZERO = 8  # the place of digit 0 among the characters of an answer, behind a .. h


@struct.dataclass
class State:
    square: Array  # i32[MOST] 8 * row + col of each piece, row 0 is rank 8; -1 behind the last piece
    kind: Array  # i32[MOST] PAWN .. KING
    question: Array  # i32[] COUNT .. KEEP
    asked: Array  # i32[] COUNT and FIND: a kind of piece; AT: a square
    options: Array  # i32[OPTIONS, 2] KEEP: captures, by the numbers of the two pieces
    good: Array  # bool[OPTIONS] KEEP: the board can still be solved after it


class ChessRangerQA(Env[State]):
    """Game-RL's questions on solvable boards that are built backwards, by un-capturing.

    Upstream's first question, how many moves are left, is always the number of pieces minus one; here it is how
    many captures are possible at once. Upstream compares letters in order, and its answer format tells whether
    there is one letter or more; here any order is right and one format serves all questions. Pieces have no
    colours and stand as letters. The number of pieces, or what is asked for, is drawn before the square or kind
    that has it. Boards and the captures that keep them solvable come from a bank of 1,280 boards for each
    number of pieces; moving all pieces alike and mirroring left and right changes neither.
    """

    category = "puzzles"
    source = ("Gym-V Puzzles/ChessRanger-QA-v0", "Game-RL ChessRanger")
    question = "The picture shows a Chess Ranger board. Answer the question about it."
    rules = (
        "Pieces are letters: P pawn, N knight, B bishop, R rook, Q queen, K king. They have no colours: any piece may "
        "capture any other one, kings too. They move as in chess, but every move must be a capture. Pawns "
        "capture one square diagonally towards rank 8 and are never promoted; only knights jump. The board "
        "is solved when one piece is left. Squares are named by file a to h and rank 1 to 8, like e4. Where "
        "letters are asked for, all right ones and no others must be given, in any order. A right answer earns "
        "full reward, any other nothing. One answer ends the episode."
    )
    answer = Words(
        "abcdefgh0123456789",
        OPTIONS,
        "a number, a square like e4, or one or more letters like BD",
        ("e", "4"),
    )
    levels = {
        "pieces": ((3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)),
        "question": ((COUNT, AT), *[(COUNT, KEEP)] * 5),
    }
    eval_level = 5
    min_resolution = (72,) * 6

    def reset(self, key: Array, scale) -> State:
        boards, table = bank()
        k_board, k_place, k_noise = jax.random.split(key, 3)
        at = scale["pieces"] - FEWEST, jax.random.randint(k_board, (), 0, boards.shape[1], jnp.int32)
        piece, good = jnp.asarray(boards)[at], jnp.asarray(table)[at]
        present = piece >= 0
        kind, row, col = piece // 64, piece // 8 % 8, piece % 8
        last = [jnp.where(present, x, 0).max() for x in (row, col)]
        place = jax.random.uniform(k_place, (3,))
        col = jnp.where(place[2] < 0.5, last[1] - col, col)
        row, col = (x + _below(p, 8 - end) for x, p, end in zip((row, col), place, last))
        square = jnp.where(present, 8 * row + col, -1)
        kind = jnp.where(present, kind, NOTHING)
        noise, few = jnp.split(jax.random.uniform(k_noise, (2 * 64 + 64 + 9 + 1,)), (128,))
        state = State(
            square,
            kind,
            scale["question"],
            jnp.int32(0),
            jnp.zeros((OPTIONS, 2), jnp.int32),
            jnp.zeros(OPTIONS, bool),
        )
        # What is asked for: first the number (COUNT) or the content (AT), then a kind or square that has it.
        counts = jnp.pad(_counts(state), (0, 58), constant_values=-1)
        values = jnp.where(state.question == AT, _board(state), counts)
        values = jnp.where(state.question == FIND, jnp.where(counts == 1, 0, -1), values)
        same = values[None, :] == np.arange(9, dtype=np.int32)[:, None]
        asked = _pick(few[:64], same[_pick(few[64:73], same.any(axis=1))])
        options, right = _options(noise.reshape(2, 64), few[73], _legal(state), good)
        keep, other = state.question == KEEP, state.question >= CAPTURES
        return state.replace(
            asked=jnp.where(other, 0, asked), options=jnp.where(keep, options, 0), good=right & keep
        )

    def text_question(self, state: State) -> Array:
        plural = [f"How many {name}s are on the board?" for name in KINDS]
        single = [f"On which square is the {name}?" for name in KINDS]
        contents = "".join(f" {x}. {name}" for x, name in zip("ABCDEFG", (*KINDS, "nothing")))
        captures = text.join(
            text.lit("\n"), text.lit("ABCD")[:, None], text.lit(". "),
            _square(state.square[state.options[:, 0]]), text.lit(" takes "),
            _square(state.square[state.options[:, 1]]),
        )  # fmt: skip
        asked = jnp.minimum(state.asked, KING)
        parts = [
            text.choose(asked, plural),
            text.choose(asked, single),
            text.join(text.lit("What is on "), _square(state.asked), text.lit("?" + contents)),
            text.lit("How many captures are possible now?"),
            text.join(
                text.lit("After which of these captures can the board still be solved?"), captures.reshape(-1)
            ),
        ]
        return text.join(
            text.lit("The picture shows a Chess Ranger board. "),
            *[text.when(state.question == k, part) for k, part in enumerate(parts)],
        )

    def step(self, key: Array, state: State, action: Array):
        letter = (action >= 0) & (action < _ZERO)
        digit = (action >= _ZERO) & (action < _ZERO + 10)
        blank = action == BLANK
        number = digit[0] & (digit[1] | blank[1])
        square = letter[0] & digit[1]
        rest = blank[2] & blank[3]
        shapes = [number & rest, square & rest, letter[0] & blank[1] & rest, number & rest]
        shapes.append(letter[0] & jnp.all(blank | (letter & (action < OPTIONS))))
        valid = jnp.stack(shapes)[state.question]
        chosen = (action[None, :] == np.arange(OPTIONS, dtype=np.int32)[:, None]).sum(axis=1)
        right = jnp.where(
            state.question == KEEP,
            jnp.all(chosen == state.good.astype(jnp.int32)),
            jnp.all(action == self.solve(state)),
        )
        return state, outcome(valid & right, True, valid)

    def solve(self, state: State) -> Array:
        blank = jnp.int32(BLANK)
        pair = lambda first, second: jnp.stack([first, second, blank, blank])  # noqa: E731
        count = _counts(state)[jnp.minimum(state.asked, KING)]
        where = state.square[jnp.argmax(state.kind == state.asked)]
        possible = _legal(state).sum(dtype=jnp.int32)
        tens = jnp.where(possible > 9, _ZERO + possible // 10, _ZERO + possible)
        letters = jnp.sort(jnp.where(state.good, np.arange(OPTIONS, dtype=np.int32), OPTIONS))
        answers = [
            pair(_ZERO + count, blank),
            pair(where % 8, _ZERO + 8 - where // 8),
            pair(_board(state)[state.asked], blank),
            pair(tens, jnp.where(possible > 9, _ZERO + possible % 10, blank)),
            jnp.where(letters == OPTIONS, blank, letters),
        ]
        return jnp.stack(answers)[state.question]

    def render(self, state: State) -> Array:
        sprites = draw.sheet(self.resolution, (9,), _paint, _PAPER)
        row, col = np.mgrid[:8, :8].astype(np.int32)
        codes = 2 * _board(state).reshape(8, 8) + (row + col) % 2
        index = np.arange(8, dtype=np.int32)
        codes = jnp.concatenate([jnp.asarray(RANK + index)[:, None], codes], axis=1)
        below = np.concatenate([[np.int32(CORNER)], FILE + index])
        return draw.tiles(sprites, jnp.concatenate([codes, jnp.asarray(below)[None]]), 9, 9)

    def text_obs(self, state: State) -> Array:
        pieces = text.join(text.choose(state.kind, (*KINDS, "")), text.lit(" "), _square(state.square))
        return text.items(pieces, state.square >= 0)

    def text_state(self, state: State) -> Array:
        first, second = (_square(state.square[k]) for k in np.indices((MOST, MOST)).reshape(2, -1))
        captures = text.items(text.join(first, text.lit("x"), second), _legal(state).reshape(-1))
        told = state.question != CAPTURES
        return text.join(
            text.num((state.square >= 0).sum(dtype=jnp.int32), 1), text.lit(" pieces"),
            text.when(told, text.join(text.lit("; possible captures: "), captures)),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        find = "Letters below the board name files, numbers on the left name ranks; go through the board rank by rank."
        count = "For each piece follow every direction in which it moves up to the first piece that it meets."
        keep = (
            "Imagine the board after each capture. Every piece must be captured but one, so look for pieces "
            "that nothing can reach any more and that reach nothing."
        )
        return text.choose(jnp.asarray(np.asarray([0, 0, 0, 1, 2]))[state.question], [find, count, keep])


_PAPER = (236, 236, 238)


def _legal(state: State) -> Array:
    """bool[MOST, MOST]: whether the first piece can capture the second one."""
    row, col, present = state.square // 8, state.square % 8, state.square >= 0
    dr, dc = row[None, :] - row[:, None], col[None, :] - col[:, None]
    far = jnp.maximum(jnp.abs(dr), jnp.abs(dc))
    straight, diagonal = (dr == 0) | (dc == 0), jnp.abs(dr) == jnp.abs(dc)
    # A piece stands between two others if it lies on the line from one to the other, before its end.
    to_r, to_c = dr[:, None, :], dc[:, None, :]  # [from, other, to]
    by_r, by_c = dr[:, :, None], dc[:, :, None]
    inner = by_r * to_r + by_c * to_c
    between = (by_r * to_c == by_c * to_r) & (inner > 0) & (inner < to_r * to_r + to_c * to_c)
    free = ~jnp.any(between & present[None, :, None], axis=1)
    kind = state.kind[:, None]
    moves = [
        (dr == -1) & (jnp.abs(dc) == 1), jnp.abs(dr * dc) == 2, diagonal & free, straight & free,
        (diagonal | straight) & free, far == 1,
    ]  # fmt: skip
    can = jnp.any(jnp.stack([(kind == k) & move for k, move in enumerate(moves)]), axis=0)
    return can & (far > 0) & present[:, None] & present[None, :]


def _options(noise: Array, few: Array, legal: Array, good: Array) -> tuple[Array, Array]:
    """i32[OPTIONS, 2] different captures, at least one of them good, shuffled; bool[OPTIONS] which are good."""
    legal, good = legal.reshape(-1), good.reshape(-1)
    count, bad = (x.sum(dtype=jnp.int32) for x in (good, legal & ~good))
    low, high = jnp.maximum(OPTIONS - bad, 1), jnp.minimum(count, OPTIONS)
    wanted = low + _below(few, high - low + 1)
    rank = lambda mask: (jnp.where(mask, noise[0], -1.0)[None, :] > noise[0][:, None]).sum(axis=1)  # noqa: E731
    chosen = (good & (rank(good) < wanted)) | (legal & ~good & (rank(legal & ~good) < OPTIONS - wanted))
    order = jnp.argsort(jnp.where(chosen, noise[1], 2.0))[:OPTIONS].astype(jnp.int32)
    return jnp.stack([order // MOST, order % MOST], axis=1), good[order]


def _board(state: State) -> Array:
    """i32[64]: what is on each square."""
    here = state.square[None, :] == np.arange(64, dtype=np.int32)[:, None]
    return jnp.where(here, state.kind[None, :] - NOTHING, 0).sum(axis=1, dtype=jnp.int32) + NOTHING


def _counts(state: State) -> Array:
    """i32[6]: pieces of each kind."""
    return (state.kind[None, :] == np.arange(6, dtype=np.int32)[:, None]).sum(axis=1, dtype=jnp.int32)


def _below(noise: Array, count: Array) -> Array:
    """i32[]: a number from 0 to count - 1 for noise in [0, 1)."""
    return jnp.minimum((noise * count.astype(jnp.float32)).astype(jnp.int32), count - 1)


def _pick(noise: Array, mask: Array) -> Array:
    """i32[]: the index with the largest noise where the mask holds."""
    return jnp.argmax(jnp.where(mask, noise, -1.0)).astype(jnp.int32)


def _square(square: Array) -> Array:
    """u8[..., 2]: the name of a square."""
    file, rank = ord("a") + square % 8, ord("8") - square // 8
    return jnp.stack([file, rank], axis=-1).astype(jnp.uint8)


def _paint(side: int) -> np.ndarray:
    """Seven contents of a light and a dark square, ranks 8 to 1, files a to h, paper."""
    pixel = max(1, side // 32) / side

    def square(content, dark):
        canvas = Canvas(side, (206, 208, 214) if dark else (250, 250, 248))
        canvas.rect(1 - pixel, 0, 1, 1, (150, 152, 160)).rect(0, 1 - pixel, 1, 1, (150, 152, 160))
        return canvas if content == NOTHING else canvas.text("PNBRQK"[content], (20, 22, 30))

    squares = [square(content, dark) for content in range(7) for dark in (False, True)]
    labels = [Canvas(side, _PAPER).text(c, (150, 90, 60)) for c in "87654321ABCDEFGH"]
    return np.stack([c.done() for c in (*squares, *labels, Canvas(side, _PAPER))])


ENV = ChessRangerQA()
