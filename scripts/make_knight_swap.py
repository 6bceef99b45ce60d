"""Builds the bank of boards that `jaxenv/envs/puzzles/knight_swap.py` draws from: `python scripts/make_knight_swap.py`.

All connected sets of squares with all placements of knights are searched, one of each family of reflections and
exchanged colours; of the largest families only a random part. About ten minutes of one core; needs a C compiler.
"""

import ctypes
import itertools
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent.parent))

from jaxenv.gen.knight_swap import BANK, EDGES, HALF, REFLECTIONS, SQUARES, pack

# By pieces and squares: the shortest and longest solutions that are kept, the share of boards that is looked at.
KEPT = {
    (1, 6): (2, 10, 1.0), (1, 7): (2, 10, 1.0), (2, 6): (4, 10, 1.0), (2, 7): (4, 14, 1.0), (2, 8): (4, 14, 1.0),
    (2, 9): (6, 20, 1.0), (2, 10): (8, 24, 0.8), (2, 11): (12, 24, 1.0), (2, 12): (12, 24, 1.0),
    (3, 10): (12, 30, 0.15), (3, 11): (12, 30, 0.6), (3, 12): (12, 30, 0.4),
}  # fmt: skip
MOST, IMPOSSIBLE = 6_000, 2_000  # boards with and without a solution at most, by pieces and squares
SEED = 0


def compiled():
    """The search function of knight_swap.c; needs a C compiler called `cc`."""
    library = Path(tempfile.mkdtemp()) / "knight_swap.so"
    source = Path(__file__).with_name("knight_swap.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library)).search


SEARCH = compiled()
NEIGHBOURS = [sum(1 << int(t) for s, t in EDGES if s == square) for square in range(SQUARES)]
_NEIGHBOURS = (ctypes.c_uint16 * SQUARES)(*NEIGHBOURS)
_IMAGES = [
    [sum(1 << int(p[s]) for s in range(SQUARES) if mask >> s & 1) for mask in range(1 << SQUARES)]
    for p in REFLECTIONS
]


def search(allowed: int, white: int, black: int, first: int) -> list[tuple[int, int]] | None:
    """A shortest solution as pairs of squares, None if there is none."""
    plan = ctypes.create_string_buffer(512)
    moves = SEARCH(_NEIGHBOURS, allowed, white, black, first, plan)
    return None if moves < 0 else [(plan.raw[2 * k], plan.raw[2 * k + 1]) for k in range(moves)]


def connected(allowed: int) -> bool:
    reached, grown = 0, allowed & -allowed
    while grown != reached:
        reached = grown
        for s in range(SQUARES):
            grown |= NEIGHBOURS[s] & allowed if reached >> s & 1 else 0
    return reached == allowed


def first_of_family(allowed: int, white: int, black: int, first: int) -> bool:
    images = [(i[allowed], i[white], i[black]) for i in _IMAGES]
    family = [(a, w, b, first) for a, w, b in images] + [(a, b, w, 1 - first) for a, w, b in images]
    return min(family) == (allowed, white, black, first)


def boards(pieces: int, squares: int):
    """All connected boards with all placements, one of each family: masks of squares, white, black, who begins."""
    for chosen in itertools.combinations(range(SQUARES), squares):
        allowed = sum(1 << s for s in chosen)
        if not connected(allowed) or min(i[allowed] for i in _IMAGES) != allowed:
            continue
        for white in itertools.combinations(chosen, pieces):
            for black in itertools.combinations([s for s in chosen if s not in white], pieces):
                for first in range(2):
                    board = (allowed, sum(1 << s for s in white), sum(1 << s for s in black), first)
                    if first_of_family(*board):
                        yield board


def encode(allowed: int, white: int, black: int, first: int, plan: list[tuple[int, int]]) -> list[int] | None:
    """Two numbers from which `jaxenv.gen.knight_swap.unpack` follows the solution; None if they get too large."""
    colours, moves = [white, black], []
    for s, t in plan:
        free = allowed & ~(colours[0] | colours[1])
        legal = [(a, b) for a, b in EDGES.tolist() if colours[first] >> a & 1 and free >> b & 1]
        moves.append((legal.index((s, t)), len(legal)))
        colours[first] ^= 1 << s | 1 << t
        first = 1 - first
    codes = []
    for part in (moves[:HALF], moves[HALF:]):
        code = 0
        for rank, count in reversed(part):
            code = code * count + rank
        codes.append(code)
    return codes if max(codes) < 1 << 32 else None


def main() -> None:
    rng = random.Random(SEED)
    rows, impossible = [], []
    for (pieces, squares), (low, high, share) in KEPT.items():
        solved, without = [], []
        for board in tqdm(list(boards(pieces, squares)), desc=f"{pieces} and {pieces} on {squares}"):
            if rng.random() >= share:
                continue
            plan = search(*board)
            if plan is None:
                without.append(pack(*board))
            elif low <= len(plan) <= high and (codes := encode(*board, plan)):
                solved.append((pieces, squares, len(plan), pack(*board), *codes))
        rows += random.Random(SEED).sample(sorted(solved), min(len(solved), MOST))
        impossible += sorted(rng.sample(without, min(len(without), IMPOSSIBLE)))
    table = np.asarray(sorted(rows), np.uint32)
    np.savez_compressed(
        BANK, moves=table[:, 2].astype(np.uint8), board=table[:, 3], plan=table[:, 4:].T,
        impossible=np.asarray(impossible, np.uint32),
    )  # fmt: skip


if __name__ == "__main__":
    main()
