"""Builds the bank of boards that `jaxenv/envs/puzzles/chess_ranger_qa.py` draws from: `python scripts/make_chess_ranger.py`.

Boards are built backwards from one piece: a piece goes back to a square from which it could have captured, and a
random piece is left where it stood, so every board can be solved. What remains solvable after each capture is found
by search. Boards are moved up and left as far as they go, and those that are mirror images or equal count once:
solving does not depend on where on the board the pieces stand, nor on left and right. Some minutes of one core.
"""

import random
import sys
from functools import cache
from pathlib import Path

import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent.parent))

from jaxenv.gen.chess_ranger import BANK, FEWEST, MOST

ENTRIES = 1280  # per number of pieces
SEED = 0
PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(6)
STRAIGHT, DIAGONAL = [(0, 1), (0, -1), (1, 0), (-1, 0)], [(1, 1), (1, -1), (-1, 1), (-1, -1)]
STEPS = {
    PAWN: [(-1, -1), (-1, 1)],
    KNIGHT: [(r, c) for r in (-2, -1, 1, 2) for c in (-2, -1, 1, 2) if abs(r) != abs(c)],
    BISHOP: DIAGONAL,
    ROOK: STRAIGHT,
    QUEEN: STRAIGHT + DIAGONAL,
    KING: STRAIGHT + DIAGONAL,
}
Board = dict[int, int]  # square -> kind


@cache
def rays(kind: int, square: int, back: bool) -> list[list[int]]:
    """The squares that a piece passes in each direction; `back`: those from which it comes."""
    out = []
    for r, c in STEPS[kind]:
        r, c = (-r, -c) if back else (r, c)
        row, col, ray = square // 8 + r, square % 8 + c, []
        while 0 <= row < 8 and 0 <= col < 8:
            ray.append(8 * row + col)
            if kind in (PAWN, KNIGHT, KING):
                break
            row, col = row + r, col + c
        out.append(ray)
    return out


def captures(board: Board) -> list[tuple[int, int]]:
    """All (from, to)."""
    out = []
    for square, kind in board.items():
        for ray in rays(kind, square, False):
            for target in ray:
                if target in board:
                    out.append((square, target))
                    break
    return out


def capture(board: Board, move: tuple[int, int]) -> Board:
    then = {square: kind for square, kind in board.items() if square not in move}
    then[move[1]] = board[move[0]]
    return then


def solvable(board: Board, known: dict[frozenset, bool]) -> bool:
    if len(board) == 1:
        return True
    key = frozenset(board.items())
    if key not in known:
        known[key] = any(solvable(capture(board, move), known) for move in captures(board))
    return known[key]


def build(rng: random.Random, count: int) -> Board | None:
    """A solvable board, or None where no piece can go back."""
    board = {rng.randrange(64): rng.randrange(6)}
    while len(board) < count:
        options = []
        for square, kind in board.items():
            for ray in rays(kind, square, True):
                for origin in ray:
                    if origin in board:
                        break
                    options.append((square, origin))
        if not options:
            return None
        square, origin = rng.choice(options)
        board[origin] = board[square]
        board[square] = rng.randrange(6)
    return board


def corner(board: Board) -> Board:
    """The board moved up and left as far as it goes, in the order of squares."""
    up, left = min(s // 8 for s in board), min(s % 8 for s in board)
    return dict(sorted((square - 8 * up - left, kind) for square, kind in board.items()))


def mirrored(board: Board) -> Board:
    return corner({8 * (square // 8) + 7 - square % 8: kind for square, kind in board.items()})


def bank(rng: random.Random, count: int) -> tuple[np.ndarray, np.ndarray]:
    """u16[ENTRIES, MOST] and u8[ENTRIES, MOST]: boards and captures as `jaxenv.gen.chess_ranger.bank` says."""
    seen: set[tuple] = set()
    pieces = np.full((ENTRIES, MOST), 0xFFFF, np.uint16)
    good = np.zeros((ENTRIES, MOST, MOST), bool)
    with tqdm(total=ENTRIES, desc=f"{count} pieces") as bar:
        while bar.n < ENTRIES:
            board = build(rng, count)
            if board is None:
                continue
            board = corner(board)
            kinds = list(board.values())
            moves = captures(board)
            name = min(tuple(board.items()), tuple(mirrored(board).items()))
            # Some kind occurs once, so that it can be asked for; from four pieces on there are captures to choose from.
            if name in seen or 1 not in map(kinds.count, kinds) or (count > FEWEST and len(moves) < 4):
                continue
            known: dict[frozenset, bool] = {}
            right = [solvable(capture(board, move), known) for move in moves]
            if count > FEWEST and all(right):
                continue
            seen.add(name)
            place = {square: k for k, square in enumerate(board)}
            for (origin, target), fine in zip(moves, right):
                good[bar.n, place[origin], place[target]] = fine
            pieces[bar.n, :count] = [64 * kind + square for square, kind in board.items()]
            bar.update()
    return pieces, np.packbits(good.reshape(ENTRIES, -1), axis=-1)


def main() -> None:
    rng = random.Random(SEED)
    boards = [bank(rng, count) for count in range(FEWEST, MOST + 1)]
    pieces, good = (np.stack(x) for x in zip(*boards))
    np.savez_compressed(BANK, pieces=pieces, good=good)


if __name__ == "__main__":
    main()
