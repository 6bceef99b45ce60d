"""The plug-in's own code with stand-ins for vLLM: nothing touches the model before the file has passed its checks."""

import sys
import types

import numpy as np
import pytest
from fake_server import expected_of, read_checked
from safetensors import SafetensorError
from safetensors.numpy import save_file

TENSORS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b.bias": np.ones(4, np.float16)}


def write(file, **changes):
    save_file({**TENSORS, **{k.replace("_", "."): v for k, v in changes.items()}}, file)
    return str(file)


def test_a_file_that_fits_is_read_whole(tmp_path):
    expected = expected_of(write(tmp_path / "model.safetensors") and tmp_path)
    assert expected == {"a.weight": ((2, 3), "F32"), "b.bias": ((4,), "F16")}
    for name, value in read_checked(write(tmp_path / "next.safetensors"), expected, "np"):
        np.testing.assert_array_equal(value, TENSORS[name])


def test_what_does_not_fit_is_named(tmp_path):
    write(tmp_path / "model.safetensors")
    expected = expected_of(tmp_path)
    file = tmp_path / "bad"
    for change, message in (
        (
            {"a_weight": np.zeros((3, 2), np.float32)},
            r"a\.weight is \(\(3, 2\), 'F32'\), not \(\(2, 3\), 'F32'\)",
        ),
        ({"b_bias": np.ones(4, np.float32)}, r"b\.bias is .*'F32'.*, not .*'F16'"),
        ({"c_bias": np.ones(1, np.float32)}, r"unknown c\.bias"),
        ({f"x{i}": np.ones(1, np.float32) for i in range(8)}, "and 3 more"),
    ):
        with pytest.raises(ValueError, match=message):
            read_checked(write(file, **change), expected, "np")
    save_file({"a.weight": TENSORS["a.weight"]}, file)
    with pytest.raises(ValueError, match=r"missing b\.bias"):
        read_checked(str(file), expected, "np")
    whole = (tmp_path / "model.safetensors").read_bytes()
    for size in (len(whole) - 1, 20, 0):
        file.write_bytes(whole[:size])
        with pytest.raises(SafetensorError):
            read_checked(str(file), expected, "np")
    with pytest.raises(ValueError, match="local folder"):
        expected_of("Qwen/Qwen3-VL-4B-Instruct")


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """The engine on stand-ins, which log what happens to the model."""
    done = []

    class Base:
        def __class_getitem__(cls, kinds):
            return cls

        def __init__(self, model, model_config):
            self.model, self.model_config = model, model_config

        def parse_update_info(self, info):
            return self.update_info_cls(**info)

    class Factory:
        known = {}

        @classmethod
        def register_engine(cls, name, module, class_name):
            if name in cls.known:
                raise ValueError(f"Weight transfer engine '{name}' is already registered.")
            cls.known[name] = (module, class_name)

    def module(name, **content):
        made = types.ModuleType(name)
        made.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, made)

    module("torch", accelerator=types.SimpleNamespace(is_available=lambda: False))
    for name in ("vllm", "vllm.distributed", "vllm.model_executor", "vllm.model_executor.model_loader"):
        module(name)
    module("vllm.distributed.weight_transfer", WeightTransferEngineFactory=Factory)
    empty = {n: type(n, (), {}) for n in ("WeightTransferInitInfo", "WeightTransferUpdateInfo")}
    module("vllm.distributed.weight_transfer.base", WeightTransferEngine=Base, **empty)
    module(
        "vllm.model_executor.model_loader.reload",
        initialize_layerwise_reload=lambda model: done.append("prepare"),
        finalize_layerwise_reload=lambda model, config: done.append("finish"),
    )
    monkeypatch.delitem(sys.modules, "jaxenv_vllm_engine", raising=False)
    import jaxenv_vllm_engine as under_test

    monkeypatch.setattr(
        under_test, "read_checked", lambda path, expected: read_checked(path, expected, "np")
    )  # torch is not here
    write(tmp_path / "model.safetensors")
    model = types.SimpleNamespace(load_weights=lambda weights: done.append(sorted(n for n, _ in weights)))
    made = under_test.SafetensorsFile(model, types.SimpleNamespace(model=str(tmp_path)))
    yield made, done, Factory
    sys.modules.pop("jaxenv_vllm_engine")


def test_a_bad_file_never_reaches_the_model(engine, tmp_path):
    one, done, _ = engine
    for bad in (str(tmp_path / "nowhere"), write(tmp_path / "bad", c=np.ones(1, np.float32))):
        one.start_weight_update()
        with pytest.raises((FileNotFoundError, ValueError)):
            one.update_weights({"path": bad})
    assert done == []
    one.start_weight_update()
    one.update_weights({"path": write(tmp_path / "good")})
    one.finish_weight_update()
    assert done == ["prepare", ["a.weight", "b.bias"], "finish"]


def test_it_registers_once_in_every_process(engine):
    import importlib

    import jaxenv_vllm_plugin as plugin

    _, _, factory = engine
    plugin.register()
    plugin.register()
    module, name = factory.known[plugin.BACKEND]
    assert getattr(importlib.import_module(module), name).__name__ == "SafetensorsFile"
