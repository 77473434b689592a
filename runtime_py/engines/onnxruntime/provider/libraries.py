"""Plug-in libraries of ONNX Runtime in this process, which takes each once."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

from edgex.errors import TargetUnavailable
from edgex.runtime.engines.onnxruntime.provider.known import Provider
from edgex.runtime.support.machine.c_library import find_newer, suggest_fix


class Libraries:
    """Provider libraries that are registered in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[Path, frozenset[str]] = {}

    def register(self, onnxruntime: Any, provider: Provider, library: Path) -> frozenset[str]:
        """Names of the providers that the library brings.

        Raises:
            TargetUnavailable: It is missing, does not load, or is no provider.
        """
        with self._lock:
            path = library.resolve()
            if path not in self._names:
                self._names[path] = self._register_new(onnxruntime, provider, path)
            return self._names[path]

    def _register_new(self, onnxruntime: Any, provider: Provider, path: Path) -> frozenset[str]:
        if not hasattr(onnxruntime, "register_execution_provider_library"):
            raise TargetUnavailable(
                f"onnxruntime {onnxruntime.__version__} takes no plug-in providers",
                fix="pip install 'onnxruntime>=1.24'",
            )
        if not path.is_file():
            raise TargetUnavailable(
                f"the provider library {path.name} does not exist", str(path.parent), provider.install_fix
            )
        before = {device.ep_name for device in onnxruntime.get_ep_devices()}
        unique = f"edgex_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
        try:
            onnxruntime.register_execution_provider_library(
                provider.name if provider.takes_its_name else unique, str(path)
            )
        except Exception as error:  # ONNX Runtime's exception classes have no common public base
            text = str(error)
            what = "is no plug-in provider" if "CreateEpFactories" in text else "cannot be loaded"
            raise TargetUnavailable(
                f"the provider library {path.name} {what}",
                fix=suggest_fix(text, provider.install_fix)
                if find_newer(text)
                else f"ldd {path}, or {provider.install_fix}",
                why=text,
            ) from error
        return frozenset(device.ep_name for device in onnxruntime.get_ep_devices()) - before


LIBRARIES = Libraries()
