"""ACCEL: robust PLR that also evolves its instances by small edits (Parker-Holder et al., 2022)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from curriculum import plr
from curriculum.base import HARDEST, EditedRequest, check_int


@struct.dataclass
class Instances(plr.Instances):
    """An instance is made from `seed` and then edited."""

    edits: Array  # u32[C, D] one seed per edit, in order; 0 from the first free place on


@struct.dataclass
class State(plr.State):
    """PLR's buffer, with parents to be edited next."""

    parents: Array  # bool[C] replayed in the last update, of an editable environment, with room for an edit


@dataclass(frozen=True, kw_only=True)
class ACCEL(plr.PLR):
    """After a replayed batch comes a batch of its children: each is a parent with one more edit.

    Children are scored without a gradient and enter the buffer by PLR's rule. As in jaxued all instances of the
    replayed batch are parents; one that was drawn twice counts once, and parents take turns to fill the batch. The
    published edits of a child are several at once; here one edit seed is one child's step, and how much it changes is
    up to the environment. Parents whose environment is not `editable`, or that have had `max_edits`, have no
    children; where no parent is left, the batch of children is skipped.

    What the environments must offer: the batch layer makes the instance of a row from its `seed` and level as for
    any request, then applies `request.edits`, u32[B, D], in order:

        for j in range(D):
            edited = env.edit(jax.random.key(edits[j]), state)
            state = jax.tree.map(partial(jnp.where, edits[j] != 0), edited, state)

    `Env.edit(key, state) -> state` is pure, keeps all shapes and types, makes one small random change to the layout
    of an instance that was not yet played, and keeps it solvable: an edit that would break it changes nothing.
    """

    robust: bool = True
    editable: tuple[int, ...] | None = None
    """Indices of the environments that have `edit`; None until they are known, before `init`."""
    max_edits: int = 8
    """D: edits from an instance made by its seed to its youngest descendant."""

    def __post_init__(self) -> None:
        """Raises ValueError for a setting out of range."""
        super().__post_init__()
        check_int("max_edits", self.max_edits, 1, 1024)
        for index in self.editable or ():
            check_int("editable", index, 0, np.iinfo(np.int32).max)

    def init(self, targets: Any) -> State:
        """An empty buffer; see `Curriculum.init`.

        Raises:
            ValueError: an editable environment does not exist, or none is named.
        """
        if self.editable is None:
            raise ValueError("ACCEL needs to know which environments are editable: a tuple of indices")
        base = super().init(targets)
        num_envs = base.target.shape[0]
        if self.editable and max(self.editable) >= num_envs:
            raise ValueError(
                f"editable must be indices below {num_envs}, the number of environments, got {self.editable}"
            )
        edits = jnp.zeros((self.capacity, self.max_edits), jnp.uint32)
        instances = Instances(**vars(base.instances), edits=edits)
        return State(
            **(vars(base) | {"instances": instances}), parents=jnp.zeros((self.capacity,), jnp.bool_)
        )

    @partial(jax.jit, static_argnames=("self", "batch"))
    def sample(self, key: Array, state: State, batch: int) -> EditedRequest:
        """`batch` children if there are parents, else what PLR samples."""
        k_plr, k_edit = jax.random.split(key)
        other = super().sample(k_plr, state, batch)
        # Parents first, in the order of their slots; the batch goes round them.
        order = jnp.argsort(~state.parents, stable=True)
        count = jnp.sum(state.parents, dtype=jnp.int32)
        slot = order[jnp.arange(batch) % jnp.maximum(count, 1)]
        parents = jax.tree.map(lambda x: x[slot], state.instances)
        place = jnp.sum(parents.edits != 0, axis=1)
        edit = jnp.maximum(jax.random.bits(k_edit, (batch,), jnp.uint32), jnp.uint32(1))
        edits = parents.edits.at[jnp.arange(batch), place].set(edit, mode="drop")
        children = self._request(parents.replace(edits=edits), jnp.full((batch,), -1, jnp.int32))
        return jax.tree.map(partial(jnp.where, count > 0), children, other)

    @partial(jax.jit, static_argnames=("self",))
    def update(
        self, state: State, request: EditedRequest, success: Array, reward: Array
    ) -> tuple[State, dict[str, Array]]:
        """PLR's update; then the instances that were replayed in this batch become the parents. See `PLR.update`."""
        state, metrics = super().update(state, request, success, reward)
        editable = np.zeros(state.target.shape[0], bool)
        editable[list(self.editable)] = True
        replayed = self.trains(state, request, success, reward)
        replayed = replayed & jax.vmap(partial(self._holds, state))(request.stage, self._instances(request))
        room = request.edits[:, -1] == 0
        eligible = replayed & room & jnp.asarray(editable)[request.env]
        slot = jnp.where(eligible, request.stage, self.capacity)
        return state.replace(parents=jnp.zeros_like(state.parents).at[slot].set(True, mode="drop")), metrics

    def _instances(self, request: Any) -> Instances:
        edits = request.edits
        if edits.shape[1] == 0:  # a new instance
            edits = jnp.zeros((edits.shape[0], self.max_edits), jnp.uint32)
        return Instances(env=request.env, level=request.level, seed=request.seed, edits=edits)

    def _request(self, instances: Instances, stage: Array) -> EditedRequest:
        return EditedRequest(
            env=instances.env,
            harness=jnp.full_like(instances.env, HARDEST),
            level=instances.level,
            seed=instances.seed,
            stage=stage,
            edit_seeds=instances.edits,
        )


CURRICULUM = ACCEL
