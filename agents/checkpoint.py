"""Checkpoints of any pytree of arrays with orbax: written aside and renamed, so that a killed run leaves whole ones."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp


def _named(tree: Any) -> dict[str, Any]:
    """Leaves by their path; typed PRNG keys as their raw bits."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = {}
    for path, leaf in leaves:
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        named[jax.tree_util.keystr(path)] = np.asarray(leaf)
    return named


class Checkpoints:
    """The checkpoints of one run, by step; the newest `keep` are kept."""

    def __init__(self, directory: str | Path, keep: int = 2):
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep, create=True, enable_async_checkpointing=False
        )
        self._manager = ocp.CheckpointManager(Path(directory).absolute(), options=options)

    def save(self, step: int, tree: Any) -> None:
        """Write everything; returns when it is on disk. Saving a step that exists is an error."""
        # Without `force` orbax leaves out steps up to the latest one and says nothing.
        self._manager.save(step, args=ocp.args.StandardSave(_named(tree)), force=True)
        self._manager.wait_until_finished()

    @property
    def latest(self) -> int | None:
        """The newest whole checkpoint's step, or None."""
        return self._manager.latest_step()

    def restore(self, template: Any, step: int | None = None, part: bool = False) -> Any:
        """The tree saved at a step (default: the newest), in the structure of `template`.

        Args:
            part: the template may lack leaves that were saved (parameters alone, say).
        Raises:
            FileNotFoundError: there is no checkpoint.
            ValueError: the saved leaves are not those of the template, by name, shape or dtype.
        """
        step = self.latest if step is None else step
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {self._manager.directory}")
        wanted = _named(template)
        found = self._manager.restore(step, args=ocp.args.StandardRestore())
        missing, unknown = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
        if missing or (unknown and not part):
            raise ValueError(f"checkpoint {step} does not fit: missing {missing[:5]}, unknown {unknown[:5]}")
        leaves, structure = jax.tree_util.tree_flatten_with_path(template)
        out = []
        for path, leaf in leaves:
            name = jax.tree_util.keystr(path)
            value, expected = np.asarray(found[name]), wanted[name]
            if value.shape != expected.shape or value.dtype != expected.dtype:
                raise ValueError(
                    f"checkpoint {step}: {name} is {value.dtype}{value.shape}, not {expected.dtype}{expected.shape}"
                )
            if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                out.append(jax.random.wrap_key_data(jnp.asarray(value), impl=jax.random.key_impl(leaf)))
            else:
                out.append(jnp.asarray(value) if isinstance(leaf, jax.Array) else value)
        return jax.tree_util.tree_unflatten(structure, out)

    def close(self) -> None:
        self._manager.close()
