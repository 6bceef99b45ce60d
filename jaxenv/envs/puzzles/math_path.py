"""Find a path from S to G on a grid of digits such that the digits on it add up to a given sum."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxenv import draw, text
from jaxenv.codec import BLANK, Words
from jaxenv.core import Env, outcome
from jaxenv.gen.choice import pick
from jaxenv.gen.lattice import hamiltonian_path
from jaxenv.solve.grid import MOVES
from jaxenv.sprites import Canvas

N = 6
LENGTH = N * N - 1  # moves of the longest path
LETTERS = "UDLR"  # in the order of MOVES


@struct.dataclass
class State:
    digit: Array  # i32[N * N] 1 .. 9, row by row; anything beyond size
    size: Array  # i32[]
    start: Array  # i32[] cell
    goal: Array  # i32[] cell
    target: Array  # i32[]
    way: Array  # i32[LENGTH] moves of one right path, `BLANK` behind. Never shown


class MathPath(Env[State]):
    """The task that the paper names; its code is not public, so the rules are ours and stated in full.

    A path visits no cell twice and the digits of S and G count. One is drawn first, a piece of a random path
    through all cells, and its sum is the target; it is never a shortest way if a detour of its length exists.
    Every path with the right sum is accepted.
    """

    category = "puzzles"
    source = ("AES paper, Tables 6 and 8: MathPath",)
    question = "Find a path from the green cell S to the red cell G with a given sum of digits."
    rules = (
        "The path goes from cell to cell, up, down, left or right, stays on the board and visits no cell twice. "
        "Every digit on it counts once, those of S and G included. Any path with the exact sum earns full "
        "reward, any other answer nothing. The episode ends with your answer."
    )
    answer = Words(LETTERS, LENGTH, "the moves from S to G, one letter each: U, D, L or R", "RRD")
    levels = {
        "size": ((3, 3), (3, 3), (4, 4), (5, 5), (5, 5), (6, 6)),
        "highest": ((5, 5), (9, 9), (9, 9), (9, 9), (9, 9), (9, 9)),  # digits go from 1 to this
        "cells": ((4, 6), (4, 8), (5, 12), (6, 14), (11, 20), (14, 26)),  # on the path drawn
    }
    eval_level = 2
    min_resolution = (24, 24, 32, 40, 40, 48)

    def reset(self, key: Array, scale) -> State:
        k_digit, k_path, k_piece = jax.random.split(key, 3)
        size, cells = scale["size"], scale["cells"]
        digit = jax.random.randint(k_digit, (N * N,), 1, scale["highest"] + 1, jnp.int32)
        place = hamiltonian_path(k_path, N, size, 3 * N * N)
        index = np.arange(N * N, dtype=np.int32)
        path = jnp.zeros(N * N, jnp.int32).at[jnp.where(place >= 0, place, N * N)].set(index, mode="drop")
        # Where the piece begins: if possible so that its ends are nearer than its length.
        end = path.at[index + cells - 1].get(mode="clip")
        apart = jnp.abs(end // N - path // N) + jnp.abs(end % N - path % N)
        possible = index <= size * size - cells
        detour = possible & (apart < cells - 1)
        first = pick(k_piece, jnp.where(detour.any(), detour, possible))
        piece = path.at[first + index].get(mode="clip")
        step = piece[1:] - piece[:-1]
        way = jnp.select([step == -N, step == N, step == -1], [0, 1, 2], jnp.int32(3))
        target = jnp.where(index < cells, digit[piece], 0).sum()
        goal = piece[cells - 1]
        return State(digit, size, piece[0], goal, target, jnp.where(index[1:] < cells, way, BLANK))

    def step(self, key: Array, state: State, action: Array):
        moving = (action >= 0) & (action < 4)
        move = jnp.where(moving[:, None], jnp.asarray(MOVES)[jnp.clip(action, 0, 3)], 0)
        start = jnp.stack([state.start // N, state.start % N])
        at = start[None, :] + jnp.pad(jnp.cumsum(move, axis=0), ((1, 0), (0, 0)))  # i32[LENGTH + 1, 2]
        inside = jnp.all((at >= 0) & (at < state.size))
        there = jnp.append(jnp.bool_(True), moving)
        cell = jnp.where(there, at[:, 0] * N + at[:, 1], N * N)
        on_path = cell[:, None] == np.arange(N * N, dtype=np.int32)[None, :]
        visits = on_path.sum(axis=0, dtype=jnp.int32)
        whole = jnp.all(moving | (action == BLANK)) & ~jnp.any(moving[1:] & ~moving[:-1]) & moving[0]
        valid = whole & inside & jnp.all(visits <= 1)
        last = at[-1, 0] * N + at[-1, 1]
        right = (last == state.goal) & ((visits * state.digit).sum() == state.target)
        return state, outcome(valid & right, True, valid)

    def solve(self, state: State) -> Array:
        return state.way

    def render(self, state: State) -> Array:
        largest = self.levels["size"][-1][1]  # of the levels that `make` found legible
        index = np.arange(N * N, dtype=np.int32)
        kind = jnp.where(index == state.start, 1, jnp.where(index == state.goal, 2, 0))
        sprites = draw.sheet(self.resolution, tuple(range(3, largest + 1)), _paint, (70, 74, 88))
        cells = (9 * kind + state.digit - 1).reshape(N, N)[:largest, :largest]
        return draw.tiles(sprites, cells, state.size, state.size)

    def text_question(self, state: State) -> Array:
        return text.join(
            text.lit("Find a path from the green cell S to the red cell G that visits no cell twice and whose "),
            text.lit("digits, those of S and G included, add up to "), text.num(state.target, 3), text.lit("."),
        )  # fmt: skip

    def text_obs(self, state: State) -> Array:
        return text.join(
            text.lit("S is at "), _place(state.start), text.lit(", G at "), _place(state.goal),
            text.lit(", as (row, column) from 0 at the top left\n"),
            text.table(state.digit.reshape(N, N), "0123456789", state.size, state.size),
        )  # fmt: skip

    def text_state(self, state: State) -> Array:
        a, b = state.start, state.goal
        apart = jnp.abs(a // N - b // N) + jnp.abs(a % N - b % N)
        between = state.target - state.digit[a] - state.digit[b]
        return text.join(
            text.lit("the digits between S and G must add up to "), text.num(between, 3),
            text.lit("; moves of the shortest way: "), text.num(apart, 2),
            text.lit(", other ways take an even number more"),
        )  # fmt: skip

    def text_hint(self, state: State) -> Array:
        return text.lit(
            "Add up a direct way first. Detours around single cells add two cells at a time; try which of them "
            "bring in what is missing, and prefer large digits if much is missing."
        )


def _place(cell: Array) -> Array:
    return text.coordinates(jnp.stack([cell // N, cell % N]), 1)


def _paint(side: int) -> np.ndarray:
    """Digits 1 to 9 on plain, green and red cells, with a grid line on the right and bottom edge."""
    edge = 1 - max(1, side // 24) / side
    cells = ((247, 246, 240), (24, 26, 34)), ((120, 208, 120), (10, 40, 14)), ((240, 124, 112), (60, 8, 6))
    return np.stack(
        [
            Canvas(side, (150, 152, 162)).rect(0, 0, edge, edge, face).text(str(digit), ink).done()
            for face, ink in cells
            for digit in range(1, 10)
        ]
    )


ENV = MathPath()
