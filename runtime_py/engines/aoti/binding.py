"""The one place that calls torch's loader of AOTInductor's packages, below the class that torch wraps around it.

`torch._inductor.aoti_load_package` imports all of TorchInductor for what is one native call, and takes inputs apart
again, as a pytree, at every run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# The name under which AOTInductor packs the only model of a package.
_MODEL = "model"


class CompiledModel:
    """A loaded package. The loader unpacks the library to a folder of its own, which goes when this object does."""

    def __init__(self, path: Path) -> None:
        """Load the library, which runs its initialisers: the file must be one that may run.

        Raises:
            RuntimeError: torch refuses the file, or the system the library.
        """
        from torch._C._aoti import AOTIModelPackageLoader

        # False: not only for one thread ever, 1: one run at a time, -1: the device that it was compiled for.
        self._loader: Any = AOTIModelPackageLoader(str(path), _MODEL, False, 1, -1)

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Run once; the list of inputs is emptied."""
        outputs: list[torch.Tensor] = self._loader.boxed_run(inputs)
        return outputs
