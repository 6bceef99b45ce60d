"""The engine behind the backend of `jaxenv_vllm_plugin`; vLLM imports it when it is chosen."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxenv_vllm_plugin import expected_of, read_checked
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload


@dataclass
class Init(WeightTransferInitInfo):
    pass


@dataclass
class Update(WeightTransferUpdateInfo):
    path: str  # of a safetensors file that this machine can read


class SafetensorsFile(WeightTransferEngine[Init, Update]):
    """Loads a whole file. Until it has been read and has passed its checks, the weights in use stay as they are:
    a model that a failed load has left half prepared would end the server at its next request."""

    init_info_cls, update_info_cls = Init, Update

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self._expected = expected_of(self.model_config.model)

    def init_transfer_engine(self, init_info: Init) -> None:
        """There is no connection to set up."""

    def start_weight_update(self) -> None:
        """Nothing yet: the model is prepared when the file has been checked."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():  # a machine without one has nothing to wait for
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: Update) -> None:
        """Raises ValueError or SafetensorError before the model is touched, if the file does not fit it."""
        weights = read_checked(update_info.path, self._expected)
        initialize_layerwise_reload(self.model)
        self.model.load_weights(weights)
        finalize_layerwise_reload(self.model, self.model_config)

    def finish_weight_update(self) -> None:
        """Everything was done by `receive_weights`."""

    def shutdown(self) -> None:
        """Nothing is held."""
