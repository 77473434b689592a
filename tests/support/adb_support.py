"""Debian's real adb on a server of the tests' own, and artifacts made by hand."""

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager

import numpy as np
import pytest
from manifest_support import NO_DELEGATION
from standin_app import make_program

from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.artifact.golden import Case, Step, write_golden
from edgex.runtime.artifact.manifest import FileEntry, Manifest, Method, Requirements
from edgex.runtime.artifact.specs import StateSpec, TensorSpec

ADB = shutil.which("adb")
needs_adb = pytest.mark.skipif(ADB is None, reason="adb is not installed: apt-get install adb")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def private_server(home):
    """The environment of an adb server that is nobody's but this test's; it ends with it."""
    environment = {
        name: value for name, value in os.environ.items()
        if name not in ("ADB_SERVER_SOCKET", "ANDROID_SERIAL", "ADB", "ANDROID_ADB_SERVER_ADDRESS")
    }  # fmt: skip
    environment |= {"ANDROID_ADB_SERVER_PORT": str(free_port()), "HOME": str(home), "ADB_MDNS_AUTO_CONNECT": "0"}
    # Its log would go to a place that all users share.
    environment["TMPDIR"] = str(home)
    subprocess.run([ADB, "start-server"], env=environment, check=True, capture_output=True)
    try:
        yield environment
    finally:
        subprocess.run([ADB, "kill-server"], env=environment, check=False, capture_output=True)


def adb(environment, *arguments):
    done = subprocess.run([ADB, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout + done.stderr


def make_artifact(folder, *, state=False, dtype="float32", engine="executorch", plugins=(), executorch="1.5.1",
                  backend="XnnpackBackend", size=0):  # fmt: skip
    """An artifact whose model doubles x[2, 3], with its golden data; with state it sums up first."""
    path = folder / "doubler.xnnpack.edgex"
    path.mkdir(parents=True)
    (path / "model.pte").write_bytes(make_program(backend, size))
    first = np.arange(6, dtype=dtype).reshape(2, 3)
    second = first[::-1] + 1
    if state:
        cases = [
            Case(
                "row",
                "compare",
                (Step({"x": first}, {"y": 2 * first}), Step({"x": second}, {"y": 2 * (first + second)})),
            )
        ]
    else:
        cases = [
            Case(n, "compare", (Step({"x": x}, {"y": 2 * x}),)) for n, x in (("example", first), ("other", second))
        ]
    write_golden(path, cases)
    spec = {"dtype": dtype, "shape": (2, 3)}
    method = Method(
        "forward", (TensorSpec("x", **spec),), (TensorSpec("y", **spec),),
        (StateSpec("total", dtype, (2, 3)),) if state else (),
    )  # fmt: skip
    files = [p for p in sorted(path.rglob("*")) if p.is_file()]
    target = "onnx-cpu" if engine == "onnxruntime" else "xnnpack"
    manifest = Manifest(
        name="doubler", target=target, engine=engine, precision="fp32", methods=(method,),
        files=tuple(FileEntry(str(p.relative_to(path)), p.stat().st_size, hash_file(p)) for p in files),
        producer={"edgex": "0.1.0", "executorch": executorch}, delegation=NO_DELEGATION, options={},
        requirements=Requirements(engine, plugins=tuple(plugins)),
        verification={"tolerance": {"min_sqnr_db": 80.0, "atol": 1e-4, "rtol": 1e-4}},
    )  # fmt: skip
    (path / "manifest.json").write_text(manifest.dumps())
    return open_artifact(path)
