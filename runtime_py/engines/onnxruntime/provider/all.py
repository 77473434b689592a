"""The providers that edgex knows, by the name in a manifest."""

from __future__ import annotations

from collections.abc import Mapping

from edgex.runtime.engines.onnxruntime.provider.known import Provider
from edgex.runtime.engines.qnn.provider import QNN
from edgex.runtime.engines.rocm.provider import MIGRAPHX

PROVIDERS: Mapping[str, Provider] = {provider.name: provider for provider in (MIGRAPHX, QNN)}
