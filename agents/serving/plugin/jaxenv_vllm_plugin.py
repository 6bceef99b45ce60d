"""A vLLM plug-in: weight updates from a safetensors file in Hugging Face names, checked before the model is touched.

This module and `jaxenv_vllm_engine` live in vLLM's environment (`pip install ./agents/serving/plugin`) and import nothing of the project. vLLM finds
`register` by its entry point; `--weight-transfer-config '{"backend":"safetensors_file"}'` chooses it, and
`POST /update_weights {"update_info": {"path": FILE}}` runs it. Written for vLLM 0.32 and 0.33.
"""

from pathlib import Path

BACKEND = "safetensors_file"
MOST_NAMED = 5  # tensors that an error names


def tensors_of(opened) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of every tensor, by name, of an open safetensors file. No tensor is read."""
    found = {}
    for name in opened.keys():  # noqa: SIM118 (not a dict)
        part = opened.get_slice(name)
        found[name] = (tuple(part.get_shape()), str(part.get_dtype()))
    return found


def expected_of(folder: str | Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """What the model folder holds that the server was started from. Raises ValueError if that is no folder."""
    from safetensors import safe_open

    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise ValueError(f"{BACKEND}: the model must be a local folder with safetensors, not {folder!r}")
    expected = {}
    for file in files:
        with safe_open(file, framework="np") as opened:
            expected |= tensors_of(opened)
    return expected


def check(found: dict, expected: dict, path: str) -> None:
    """Raises ValueError that names tensors which are missing, unknown, or of another shape or dtype."""
    problems = [f"missing {name}" for name in sorted(expected.keys() - found.keys())]
    problems += [f"unknown {name}" for name in sorted(found.keys() - expected.keys())]
    problems += [
        f"{name} is {found[name]}, not {expected[name]}"
        for name in sorted(found.keys() & expected.keys())
        if found[name] != expected[name]
    ]
    if problems:
        more = f" and {len(problems) - MOST_NAMED} more" if len(problems) > MOST_NAMED else ""
        raise ValueError(f"{path} does not fit the model: {'; '.join(problems[:MOST_NAMED])}{more}")


def read_checked(path: str, expected: dict, framework: str = "pt") -> list[tuple]:
    """All tensors of a file that fits `expected`. A truncated file does not open: safetensors compares its size."""
    from safetensors import safe_open

    with safe_open(path, framework=framework) as opened:
        check(tensors_of(opened), expected, path)
        return [(name, opened.get_tensor(name)) for name in sorted(expected)]


def register() -> None:
    """Called by vLLM in each of its processes, more than once in some."""
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    try:
        WeightTransferEngineFactory.register_engine(BACKEND, "jaxenv_vllm_engine", "SafetensorsFile")
    except ValueError as error:
        if "already registered" not in str(error):
            raise
