"""Plays the MiniGrid environments from their texts alone: a map drawn by dead reckoning, and the shortest way on it."""

import re
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np

from jaxenv import episode, text
from jaxenv.core import Env

AHEAD = ((0, 1), (1, 0), (0, -1), (-1, 0))  # by heading: right, down, left, up


class Explorer:
    """Its own start is (0, 0) and its first heading 3, up. Unseen cells are taken for free until seen."""

    def __init__(self, doors: str = "", deadly: str = ""):
        self.closed, self.blocked = doors, "#" + deadly
        self.pos, self.heading, self.known = (0, 0), 3, {}

    def look(self, rows: list[str]) -> None:
        """Seven lines of glyphs, the explorer in the middle of the last one."""
        for r, row in enumerate(rows):
            for c, glyph in enumerate(row.split()):
                if glyph != "?":
                    self.known[self.place(6 - r, c - 3)] = glyph

    def place(self, ahead: int, right: int) -> tuple[int, int]:
        (ar, ac), (rr, rc) = AHEAD[self.heading], AHEAD[(self.heading + 1) % 4]
        return self.pos[0] + ahead * ar + right * rr, self.pos[1] + ahead * ac + right * rc

    def next_action(self, target: tuple[int, int]) -> str:
        """The first action of a shortest way on the map."""
        todo, seen = deque([(self.pos, self.heading, "")]), {(self.pos, self.heading)}
        while todo:
            pos, heading, first = todo.popleft()
            if pos == target:
                return first
            ahead = (pos[0] + AHEAD[heading][0], pos[1] + AHEAD[heading][1])
            glyph = self.known.get(ahead, ".")
            options = [("left", pos, (heading - 1) % 4), ("right", pos, (heading + 1) % 4)]
            if glyph not in self.blocked and max(map(abs, ahead)) < 25:
                options.insert(0, ("toggle" if glyph in self.closed else "forward", ahead, heading))
            for name, *then in options:
                if tuple(then) not in seen:
                    seen.add(tuple(then))
                    todo.append((*then, first or name))
        raise AssertionError("the target cannot be reached on the map")

    def did(self, name: str) -> None:
        if name == "forward":
            self.pos = self.place(1, 0)
        self.heading = (self.heading + {"left": -1, "right": 1}.get(name, 0)) % 4


def offsets(facts: str) -> list[tuple[int, int]]:
    """(ahead, right) of every '2 behind, 1 left' in a text."""
    found = re.findall(r"(\d+) (ahead|behind), (\d+) (right|left)", facts)
    return [
        (int(a) * (1 if x == "ahead" else -1), int(b) * (1 if y == "right" else -1)) for a, x, b, y in found
    ]


def play(env: Env, keys: jax.Array, level: np.ndarray, target, **explorer) -> np.ndarray:
    """f32[B] returns of explorers that read text_obs and go to the place `target(text_state) -> (ahead, right)`."""

    @jax.jit
    @jax.vmap
    def texts(ep):
        return text.close(env.text_obs(ep.state))[0], text.close(env.text_state(ep.state))[0]

    @jax.jit
    @jax.vmap
    def advance(key, ep, act):
        return episode.advance(env, key, ep, act[None])

    eps = jax.jit(jax.vmap(lambda k, lv: episode.start(env, k, lv)))(keys, level)
    minds = [Explorer(**explorer) for _ in level]
    names = env.answer.names
    while not np.asarray(eps.done).all():
        obs, facts = map(text.decode, texts(eps))
        acts = np.zeros(len(level), np.int32)
        for i in np.flatnonzero(~np.asarray(eps.done)):
            minds[i].look(obs[i].splitlines()[1:8])
            name = minds[i].next_action(minds[i].place(*target(facts[i])))
            minds[i].did(name)
            acts[i] = names.index(name)
        eps = advance(keys, eps, jnp.asarray(acts))
    return np.asarray(eps.ret)
