"""The one place that calls TorchInductor: an exported program becomes a package of AOTInductor.

TorchInductor writes C++, the user's compiler a library of it. What it would leave of this machine in the library is
kept out: a small program that stands in for the compiler maps its folders to `.`, and no headers are precompiled,
as their place is part of the generated source.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.json.reading import parse_json
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.native_stderr import capture_native_stderr

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

MODEL_FILE = "model.pt2"
_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
# By instruction set: what GCC calls the processors that have it, and the width of its vectors in bits.
_PROCESSORS: Mapping[str, tuple[str, int]] = {"avx512": ("x86-64-v4", 512), "avx2": ("x86-64-v3", 256)}
# What TorchInductor uses beside the vectors where this machine has it, by its own names.
_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "AVX512_VNNI": ("avx512_vnni",),
    "AMX_TILE": ("amx_tile", "amx_bf16", "amx_int8"),
}

# Put before every source. A macro is expanded in pragmas, and does not expand itself again.
_THREADS = """\
#if defined(_OPENMP) && defined(__cplusplus)
#include <omp.h>
static inline int _edgex_threads(int most) {
  int wanted = omp_get_max_threads();
  return wanted < most ? wanted : most;
}
#define num_threads(most) num_threads(_edgex_threads(most))
#endif
"""


@dataclass(frozen=True)
class Package:
    """What was compiled.

    Attributes:
        content: The bytes of the package; the same program on the same host gives the same.
        extras: Instruction sets that the code uses beside those that were asked for, by Linux's names.
    """

    content: bytes
    extras: tuple[str, ...]


def find_compiler() -> str | None:
    """The compiler that TorchInductor would take: that of `CXX`, else g++."""
    return shutil.which(os.environ.get("CXX") or "g++")


def compile_package(exported: ExportedProgram, compiler: str, instruction_set: str) -> Package:
    """Compile a program without state.

    Args:
        exported: The program; its weights become part of the package.
        compiler: Path of the C++ compiler.
        instruction_set: A key of `edgex.runtime.engines.aoti.machine.INSTRUCTION_SETS`.

    Raises:
        Exception: TorchInductor or the compiler fails, of no common kind; see `edgex.delegates.aoti.refusals`.
    """
    import torch

    with scratch_folder("aoti") as folder, _quiet(folder / "cache"):
        from torch._inductor import aot_compile
        from torch._inductor.package.package import package_aoti

        stand_in = _stand_in(compiler, folder)
        module: Any = exported.module(check_guards=False)
        # Without gradients TorchInductor freezes the weights: folds batch norms, packs them as kernels read them.
        with torch.no_grad():
            made: Any = aot_compile(module, _example_of(exported), options=_settings(stand_in, instruction_set))
        # The generated source names places of this machine; the library is all that runs.
        files: list[Any] = sorted(file for file in map(str, made) if file.endswith((".so", ".json")))
        path = folder / MODEL_FILE
        package_aoti(str(path), files)
        described = next(Path(file) for file in files if file.endswith("metadata.json"))
        isa = str(parse_json(described.read_bytes())["AOTI_CPU_ISA"]).split()
        extras = tuple(name for taken in isa for name in _EXTRAS.get(taken, ()))
        return Package(path.read_bytes(), extras)


def _settings(compiler: Path, instruction_set: str) -> dict[str, Any]:
    """TorchInductor's settings, by the names of `torch._inductor.config`."""
    processor, bits = _PROCESSORS[instruction_set]
    return {
        "freezing": True,
        # Processes that compile ahead would outlive the export.
        "compile_threads": 1,
        "cpp.cxx": (None, str(compiler)),
        "cpp.march": processor,
        "cpp.simdlen": bits,
        # What the processor has is known; to find out, it compiles and loads a library for each instruction set.
        "cpp.vec_isa_ok": True,
        # The most threads of a loop, see `_stand_in`; not what the process happens to be set to. `dynamic_threads`
        # would leave the number open too, but makes a parallel region of the smallest loop.
        "cpp.threads": default_threads(),
        "cpp_cache_precompile_headers": False,
        "aot_inductor.precompile_headers": False,
        "aot_inductor.enable_line_tables": False,
        "aot_inductor.model_name_for_generated_files": "model",
        "aot_inductor.package": True,
    }


def _stand_in(compiler: str, folder: Path) -> Path:
    """A program that runs the compiler without the names of this machine's folders, and for any number of threads.

    TorchInductor tells compilers apart by their name too, so that it keeps it.

    ```
    before:  #pragma omp parallel num_threads(4)                    # as if no session could ask for fewer
    after:   #pragma omp parallel num_threads(_edgex_threads(4))    # the session's number, 4 at most
    ```
    """
    header = folder / "threads.h"
    header.write_text(_THREADS)
    roots = {str(folder), str(folder.resolve()), *(sysconfig.get_path(name) for name in ("purelib", "platlib"))}
    maps = " ".join(shlex.quote(f"-ffile-prefix-map={root}=.") for root in sorted(roots))
    include = f"-include {shlex.quote(str(header))}"
    path = folder / "bin" / Path(compiler).name
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(compiler)} "$@" {maps} {include}\n')
    path.chmod(0o700)
    return path


def _example_of(exported: ExportedProgram) -> tuple[torch.Tensor, ...]:
    """Tensors for the user's inputs: TorchInductor takes their count and device, and the sizes from the graph."""
    import torch

    wanted = exported.graph_signature.user_inputs
    values = {node.name: node.meta["val"] for node in exported.graph.nodes if node.op == "placeholder"}
    return tuple(
        torch.empty([size if isinstance(size, int) else 2 for size in values[name].shape], dtype=values[name].dtype)
        for name in wanted
    )


@contextmanager
def _quiet(cache: Path) -> Iterator[None]:
    """TorchInductor without a word on the terminal, its cache in a folder that goes."""
    before = os.environ.get(_CACHE_VARIABLE)
    os.environ[_CACHE_VARIABLE] = str(cache)
    try:
        with quiet_dependencies(everything=True), capture_native_stderr():
            yield
    finally:
        if before is None:
            del os.environ[_CACHE_VARIABLE]
        else:
            os.environ[_CACHE_VARIABLE] = before
