"""Imports what an export, a proof and a run need, and then only forks: see `warm_processes.py`.

Each request is answered by two processes: one that becomes what was asked for, and one that waits for it, says how it
ended, and kills it where the client has gone.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import edgex.cli.main as cli
from edgex.delegates.onnxruntime.graph.torch_registry import translations_kept
from edgex.runtime.support.process import child, serving
from edgex.runtime.support.process.lifetime import end_with_parent

sys.path.append(str(Path(__file__).parent))
import warm_processes

sys.path.pop()

# What takes the time of an export, of a proof and of a run.
IMPORTED = (
    "torch",
    "torch._dynamo",
    "torch._inductor.standalone_compile",
    "torch.export._trace",
    "torch.onnx._internal.exporter._core",
    "torch.onnx._internal.exporter._registration",
    "onnx",
    "onnxruntime",
    "onnxscript.function_libs.torch_lib.ops",
    "executorch.backends.xnnpack.partition.xnnpack_partitioner",
    "executorch.exir",
    "executorch.extension.flat_tensor.serialize.serialize",
    "executorch.extension.pybindings._C",
    "edgex.cli.export.export",
    "edgex.cli.render",
    "edgex.delegates.onednn.partitioner",
    "edgex.delegates.onnxruntime.cpu",
    "edgex.delegates.reference.delegate",
    "edgex.delegates.xnnpack.partitioner",
    "edgex.export.api",
    "edgex.export.bisect",
    "edgex.export.language_model.methods",
    "edgex.export.pipeline",
    "edgex.export.quantization.budget.stage",
    "edgex.export.rewrites",
    "edgex.runtime.engines.torch.engine",
    "edgex.runtime.execute.here.worker",
    "edgex.runtime.report",
)


def serve(address: str) -> NoReturn:
    """Import, and fork for each client, until stdin ends: the process that started this one has ended."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + address)  # no file: Linux forgets the name with the process
        listener.listen()
        for name in IMPORTED:
            importlib.import_module(name)
        _read_translations()
        gc.collect()
        gc.freeze()  # a fork's collector need not look at, and so copy, what was imported
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _wait_for_one(client)
            client.close()
    os._exit(0)


def _read_translations() -> None:
    """Have the sources of ONNX's translations read, which takes an export to ONNX two seconds more."""
    from torch.onnx._internal._lazy_import import onnxscript_apis

    with translations_kept():
        onnxscript_apis.get_torchlib_ops()


def _wait_for_one(client: socket.socket) -> NoReturn:
    """Fork what the client asks for, and send how it ended."""
    end_with_parent(os.getppid())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    said, files, _, _ = socket.recv_fds(client, 1 << 16, 3)
    more = said
    while more and not said.endswith(b"\n"):
        said += (more := client.recv(1 << 16))
    if not more:  # it only looked whether there is anybody, or has ended
        os._exit(0)
    wanted = json.loads(said)
    process = os.fork()
    if process == 0:
        client.close()
        end_with_parent(os.getppid())
        _become(wanted, files)
    for file in files:
        os.close(file)
    ended = os.pidfd_open(process)
    ready, _, _ = select.select([ended, client], [], [])
    if ended not in ready:  # the client says nothing more: it has gone
        os.kill(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError):
        client.sendall(str(code).encode())
    os._exit(0)


def _become(wanted: dict[str, Any], files: list[int]) -> NoReturn:
    """Live in the client's folder, with its variables and files, as what it asked for."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["variables"])
    code = 1
    try:
        code = _run(wanted["what"], wanted["arguments"])
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = code or 120  # as Python does
        os._exit(code)


def _run(what: str, arguments: list[str]) -> int:
    """Do what Python does before it runs a script, and run it."""
    child.start_python = warm_processes.start_python
    first = {"edgex": Path(sys.executable).parent, "python": Path(arguments[0]).resolve().parent, "child": None}[what]
    packages = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [*([str(first)] if first else []), *packages]
    sys.argv = ["edgex", *arguments] if what == "edgex" else arguments
    importlib.invalidate_caches()
    if what == "child":
        serving.main(arguments[0], str(os.getppid()), serving.MAIN_THREAD)
    elif what == "python":
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        cli.main()
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])
