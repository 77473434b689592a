"""Imports the model libraries that are installed: once, before the processes that export are forked."""

from __future__ import annotations

import contextlib
import warnings

warnings.simplefilter("ignore")

with contextlib.suppress(ImportError):
    # XNNPACK's passes export a few patterns to look for, once a process: seconds.
    from executorch.backends.xnnpack.partition.graphs import bilinear_2d

    import edgex.delegates.xnnpack.partitioner

    bilinear_2d.get_graphs()
with contextlib.suppress(ImportError):
    import edgex.delegates.onnxruntime.lowering  # noqa: F401
with contextlib.suppress(ImportError):
    from benchmarks.zoo import _torchvision

    _torchvision()
with contextlib.suppress(ImportError):
    import transformers  # noqa: F401
with contextlib.suppress(ImportError):
    import timm  # noqa: F401
