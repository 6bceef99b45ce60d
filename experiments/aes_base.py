"""The base policy of the AES study as a model folder for `aes.collect` and `aes.conflict`; made first if it is missing.

Prints the environments that the study can draw: what to give `aes.collect --envs`.
"""

from pathlib import Path

import tyro

from experiments import export
from experiments.aes_studies import PRESETS
from experiments.run import compilation_cache
from experiments.store import Store
from experiments.studies import PresetName


def main(
    preset: PresetName = "nano",
    out: Path = Path("runs/base"),
    resolution: int | None = None,
    runs: Path = Path("runs"),
) -> None:
    """Write config.json, model.safetensors and tokenizer.json.

    Args:
        preset: which study.
        out: the model folder, which is created.
        resolution: of the pictures in pixels, in place of the preset's.
        runs: holds the store.
    """
    study = PRESETS[preset](*([] if resolution is None else [resolution]))
    base = study.base
    if base.model.path is not None:
        raise SystemExit(f"the base of {preset} is a model folder already: {base.model.path}")
    compilation_cache()
    store = Store(runs / "store")
    export.save(store.setup(base.experiment), store.params(base), out)
    print(f"{out}: {len(base.envs)} environments at {study.resolution} px\n{' '.join(base.envs)}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
