"""One contender with one model: `python -m benchmarks.onednn.child CONTENDER MODEL PRECISION THREADS ARTIFACTS`."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from pathlib import Path

import torch

from benchmarks.peers import contenders
from benchmarks.peers.serving import serve


def main() -> None:
    """Prepare, then serve; see `benchmarks.peers.serving`."""
    contender, model, precision, threads, artifacts = sys.argv[1:6]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    contenders.prepare_process(int(threads))
    from benchmarks.zoo import MODELS

    with torch.inference_mode(contender not in ("inductor",)), torch.no_grad():
        module, args = MODELS[model]()
        case = contenders.Case(module, args, precision, int(threads), Path(artifacts), model)
        started = time.perf_counter()
        call = contenders.CONTENDERS[contender](case)
        prepared = time.perf_counter()
        call()
        facts = {"prepare_seconds": prepared - started, "first_seconds": time.perf_counter() - prepared}
        serve(call, facts)


if __name__ == "__main__":
    main()
