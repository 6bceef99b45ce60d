"""A run's newest checkpoint as a model folder in the Hugging Face layout: `python -m experiments.export --help`.

What reads such folders (`aes.collect`, `--model.path`, a server) then needs neither the run nor its config.
"""

from pathlib import Path

import tyro

from agents import hf
from agents.policy import Params
from agents.tokenizer import SHIPPED
from experiments.configs import CLI, DEFAULT, Preset
from experiments.setup import Setup, build, load_params


def main(
    experiment: Preset = DEFAULT,
    run_dir: Path = Path("runs/quickstart"),
    out: Path = Path("model"),
    stage: str = "train",
) -> None:
    """Write config.json, model.safetensors and tokenizer.json.

    Args:
        experiment: a preset with flags.
        run_dir: the run folder; its config must be `experiment`'s.
        out: the model folder, which is created.
        stage: which checkpoints of the run, `train` or `clone`.
    """
    setup = build(experiment)
    try:
        params = load_params(setup, run_dir / "checkpoints" / stage)
    except FileNotFoundError as error:
        raise SystemExit(str(error)) from None
    save(setup, params, out)


def save(setup: Setup, params: Params, out: Path) -> None:
    """A model folder with these parameters."""
    hf.save_pretrained(params, setup.policy.config, out)
    path = setup.config.model.path
    tokenizer = SHIPPED if path is None else path / "tokenizer.json"
    (out / "tokenizer.json").write_bytes(tokenizer.read_bytes())


if __name__ == "__main__":
    tyro.cli(main, description=__doc__, config=CLI)
