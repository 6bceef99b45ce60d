"""Builds the bank of car parks that `jaxenv/envs/games/rush_hour.py` draws from: `python scripts/make_rush_hour.py`.

Vehicles are put on random lanes with the red car at the exit. All positions that can be reached from there are
searched, and their exact distances (in moves of one cell) to the nearest solved one. The farthest position is
kept if it is far enough, with a shortest solution: every position along a shortest solution has the rest of it
as its own shortest solution, so that one entry serves all smaller distances. Car parks that are not far enough
get one vehicle changed at a time, as long as that does not make them easier. About a minute of one core; needs
a C compiler.
"""

import ctypes
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent.parent))

from jaxenv.gen.rush_hour import BANK, PLAN, SLOTS

EXIT_LANE, EXIT = 2, 4  # the red car is solved at this offset
ENTRIES = 256  # per number of vehicles
# Fewest moves of an entry, by number of vehicles: the most that a level with so many vehicles asks for.
FARTHEST = {3: 7, 4: 7, 5: 10, 6: 12, 7: 16, 8: 22, 9: 22, 10: 22, 11: 22}
LARGEST = 8_000  # positions; larger car parks are skipped
CHANGES = 60  # of one car park before a new one is drawn
FAMILY = 4  # entries at most that come from one car park
FEW = 4  # vehicles up to which only the very last move may be the red car's: short rests are no puzzles otherwise
STALE = 500  # car parks without a new entry after which the entries are taken to be all there are
SEED = 0

Vehicle = tuple[
    bool, int, int
]  # horizontal, length, lane (row of a horizontal vehicle, column of a vertical one)
Park = tuple[list[Vehicle], list[int]]  # with the offsets of the upper or left ends; the red car comes first
RED_ON = 1  # the code of the move that brings the red car forward
RED: Park = ([(True, 2, EXIT_LANE)], [EXIT])


def cells(vehicle: Vehicle, offset: int) -> int:
    """The 36-bit set of cells of a vehicle whose upper or left end is at `offset`."""
    horizontal, length, lane = vehicle
    return sum(1 << (6 * lane + k if horizontal else 6 * k + lane) for k in range(offset, offset + length))


def place(rng: random.Random, park: Park, count: int) -> Park | None:
    """More vehicles at random until there are `count`; None if there is hardly any room."""
    vehicles, offsets = map(list, park)
    taken = sum(cells(v, o) for v, o in zip(vehicles, offsets))
    for _ in range(50 * count):
        if len(vehicles) == count:
            return vehicles, offsets
        vehicle = (rng.random() < 0.4, rng.choice((2, 2, 3)), rng.randrange(6))
        offset = rng.randrange(7 - vehicle[1])
        if not ((vehicle[0] and vehicle[2] == EXIT_LANE) or taken & cells(vehicle, offset)):
            taken |= cells(vehicle, offset)
            vehicles.append(vehicle)
            offsets.append(offset)
    return None


def change(rng: random.Random, park: Park) -> Park | None:
    """One vehicle, not the red one, replaced by another."""
    out = rng.randrange(1, len(park[0]))
    fewer = [x[:out] + x[out + 1 :] for x in park]
    return place(rng, (fewer[0], fewer[1]), len(park[0]))


def compiled():
    """The search function of rush_hour.c; needs a C compiler called `cc`."""
    library = Path(tempfile.mkdtemp()) / "rush_hour.so"
    source = Path(__file__).with_suffix("").with_name("rush_hour.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library)).search


SEARCH = compiled()


def search(park: Park) -> tuple[list[int], list[int]] | None:
    """Offsets of the farthest position and the codes (2 vehicle + forward) of a shortest solution.

    None if the car park is too large.
    """
    vehicles = bytes(x for v, offset in zip(*park) for x in (*v, offset))
    offsets, plan = ctypes.create_string_buffer(SLOTS), ctypes.create_string_buffer(256)
    moves = SEARCH(len(park[0]), vehicles, LARGEST, offsets, plan)
    return None if moves < 0 else (list(offsets.raw[: len(park[0])]), list(plan.raw[:moves]))


def entry(park: Park, position: list[int], plan: list[int]) -> np.ndarray:
    """u8[SLOTS + PLAN]: a position and its solution, of a long one only the last moves."""
    early = max(0, len(plan) - PLAN)
    for code in plan[:early]:
        position[code // 2] += 2 * (code % 2) - 1
    plan = plan[early:]
    row = np.full(SLOTS + PLAN, 255, np.uint8)
    row[: len(position)] = [
        offset | lane << 3 | (length == 3) << 6 | horizontal << 7
        for (horizontal, length, lane), offset in zip(park[0], position)
    ]
    row[SLOTS : SLOTS + len(plan)] = plan
    return row


def bank(rng: random.Random, count: int, farthest: int) -> np.ndarray:
    """u8[ENTRIES, SLOTS + PLAN]: car parks of `count` vehicles that take at least `farthest` moves.

    They differ unless there are too few, with few vehicles; then they are repeated.
    """
    rows: dict[tuple, np.ndarray] = {}
    stale = 0
    with tqdm(total=ENTRIES, desc=f"{count} vehicles") as bar:
        while len(rows) < ENTRIES and stale < STALE:
            stale += 1
            park, best, family = place(rng, RED, count), 0, 0
            changed = park
            for _ in range(CHANGES):
                found = search(changed) if changed else None
                if found and count <= FEW and found[1][-2:-1] in ([], [RED_ON]):
                    found = None
                if found and len(found[1]) >= min(best, farthest):
                    park, best = changed, len(found[1])
                    key = tuple(sorted((*v, o) for v, o in zip(park[0], found[0])))
                    if best >= farthest and key not in rows and len(rows) < ENTRIES:
                        rows[key] = entry(park, *found)
                        bar.update()
                        family, stale = family + 1, 0
                        if family == FAMILY:
                            break
                if park is None:
                    break
                changed = change(rng, park)
    return np.resize(np.stack(list(rows.values())), (ENTRIES, SLOTS + PLAN))


def main() -> None:
    rng = random.Random(SEED)
    np.save(BANK, np.stack([bank(rng, count, farthest) for count, farthest in FARTHEST.items()]))


if __name__ == "__main__":
    main()
