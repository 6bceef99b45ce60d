"""Builds the bank of `jaxenv/gen/matchstick_equation.py`: `python scripts/make_matchstick_equation.py`.

For each setting it marks the numbers whose equation cannot be repaired in fewer moves than broke it and has no
number that begins with 0. A minute or two of one core; needs a C compiler.
"""

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent.parent))

from jaxenv.gen.matchstick_equation import BANK, PLUS, SEEDS, SETTINGS, WINDOW, make

CHUNK = 1 << 12


def compiled():
    """The search function of matchstick_equation.c; needs a C compiler called `cc`."""
    library = Path(tempfile.mkdtemp()) / "matchstick_equation.so"
    source = Path(__file__).with_name("matchstick_equation.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library)).far


FAR = compiled()


def far(symbols: np.ndarray, depth: int) -> np.ndarray:
    """bool[K]: which of the equations i8[K, M] are still false after any `depth` moves."""
    symbols, out = np.ascontiguousarray(symbols, np.int8), np.zeros(len(symbols), np.uint8)
    pointers = symbols.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p)
    FAR(len(symbols), pointers[0], depth, pointers[1])
    return out == 1


def leading_zero(symbols: np.ndarray) -> np.ndarray:
    """bool[K]"""
    digit = symbols < PLUS
    first = np.pad(~digit[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    return ((symbols[:, :-1] == 0) & first[:, :-1] & digit[:, 1:]).any(axis=1)


def main() -> None:
    puzzles = jax.jit(jax.vmap(make, in_axes=(0, None, None, None)))
    rows = []
    for moves, kinds, largest in SETTINGS:
        setting = [jnp.int32(x) for x in (moves, kinds, largest)]
        good = np.zeros(SEEDS, bool)
        for low in tqdm(range(0, SEEDS, CHUNK), desc=f"{moves} moves, {kinds} kinds, up to {largest}"):
            part = slice(low, low + CHUNK)
            puzzle = puzzles(jnp.arange(low, low + CHUNK, dtype=jnp.uint32), *setting)
            symbols = np.asarray(puzzle.symbols)
            good[part] = np.asarray(puzzle.whole) & ~leading_zero(symbols) & far(symbols, moves - 1)
        gaps = np.diff(np.flatnonzero(np.concatenate([good, good[:WINDOW]])), prepend=-1)
        print(f"{good.mean():.0%} are good, at most {gaps.max()} apart")
        assert gaps.max() <= WINDOW
        rows.append(np.packbits(good, bitorder="little").view(np.uint32))
    np.save(BANK, np.stack(rows))


if __name__ == "__main__":
    main()
