"""oneDNN Graph beside its peers on a machine that has torch but neither edgex, ExecuTorch nor a compiler.

`python -m benchmarks.onednn.amx pack FOLDER`, where edgex is installed, exports the models and gathers what runs them:
ExecuTorch's libraries, oneDNN, the compiled backend and `native_runner`. There, with FOLDER and this package copied,
`python -m benchmarks.onednn.amx run FOLDER RESULT` runs them beside the torch of that machine: each contender in a
process of its own, in turns, bf16 and fp32, 4 and 16 threads.

Weights repeat a short stretch of random numbers, so that the archive stays small; no dense kernel looks at them.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.models import Bottleneck, ResNet
from benchmarks.peers.serving import Server, serve, time_in_turns
from benchmarks.processes import ROOT
from benchmarks.publish import publish, read_origin, render_origin

Example = tuple[nn.Module, tuple[torch.Tensor, ...]]
NATIVE = "onednn"
PEERS = ("llga", "inductor", "eager")
THREADS = (4, 16)
PRECISIONS = ("bf16", "fp32")
ROUNDS = 7
SECONDS_EACH = 0.15
HOW = (
    "Written by `python -m benchmarks.onednn.amx`: one bottleneck block of each stage of ResNet-50, the whole "
    "network, and one layer of BERT-base at 128 tokens, batch 1. The column *edgex* is the artifact's `.pte` in a "
    "native program without Python; its inputs and outputs are float32, and its time includes the conversions. The "
    "peers take the precision of the table directly, images in channels_last: `torch.jit` with LLGA, Inductor with "
    "freezing, eager. Each contender is a process of its own, timed in turns; times are medians. *Best peer* says how "
    "many times longer the fastest peer takes, *SQNR* compares edgex's output with eager's in float32."
)
# A prime: rows of a weight matrix must not be equal.
_STRETCH = 4093
_NORMS = (nn.BatchNorm2d, nn.LayerNorm)


def _repeat_weights(module: nn.Module) -> nn.Module:
    numbers = torch.from_numpy(np.random.RandomState(0).randn(_STRETCH).astype(np.float32))
    start = 0
    with torch.no_grad():
        for layer in module.modules():
            for parameter in layer.parameters(recurse=False):
                if isinstance(layer, _NORMS):
                    continue
                places = (torch.arange(parameter.numel()) + start) % _STRETCH
                start += 997
                gain = 0.1 if parameter.dim() == 1 else math.sqrt(1.5 / parameter[0].numel())
                parameter.copy_((numbers[places] * gain).reshape(parameter.shape))
    return module.eval()


def _image(*shape: int) -> tuple[torch.Tensor, ...]:
    return (torch.from_numpy(np.random.RandomState(1).randn(*shape).astype(np.float32)),)


def _bottleneck(channels: int, size: int) -> Callable[[], Example]:
    return lambda: (
        _repeat_weights(Bottleneck(channels, channels // 4, 1)),
        _image(1, channels, size, size),
    )


def _resnet50() -> Example:
    return _repeat_weights(ResNet((3, 4, 6, 3))), _image(1, 3, 224, 224)


class BertLayer(nn.Module):
    """BERT's encoder layer: 768 wide, 12 heads."""

    def __init__(self) -> None:
        super().__init__()
        self.projection, self.out = nn.Linear(768, 3 * 768), nn.Linear(768, 768)
        self.up, self.down = nn.Linear(768, 3072), nn.Linear(3072, 768)
        self.norm_attention, self.norm_output = nn.LayerNorm(768), nn.LayerNorm(768)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[1, 128, 768]` to the same."""
        query, key, value = (part.view(1, -1, 12, 64).transpose(1, 2) for part in self.projection(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(x.shape)
        x = self.norm_attention(x + self.out(mixed))
        result: torch.Tensor = self.norm_output(x + self.down(functional.gelu(self.up(x))))
        return result


MODELS: dict[str, Callable[[], Example]] = {
    "bottleneck_56": _bottleneck(256, 56),
    "bottleneck_28": _bottleneck(512, 28),
    "bottleneck_14": _bottleneck(1024, 14),
    "bottleneck_7": _bottleneck(2048, 7),
    "resnet50": _resnet50,
    "bert_layer": lambda: (_repeat_weights(BertLayer()), _image(1, 128, 768)),
}
CONVNETS = tuple(name for name in MODELS if name != "bert_layer")


def pack(folder: Path) -> None:
    """Export, and gather; needs edgex, executorch, oneDNN and a compiler."""
    import shutil

    import edgex
    from edgex.runtime.engines.onednn.build import built_backend
    from edgex.runtime.engines.onednn.library import find_executorch, find_library
    from edgex.runtime.session.numerics import Tolerance

    folder.mkdir(parents=True, exist_ok=True)
    executorch = find_executorch()
    for name in ("libexecutorch.so", "libexecutorch_kernels_optimized.so", "libexecutorch_threadpool.so"):
        shutil.copy(executorch / "lib" / name, folder)
    shutil.copy(find_library(), folder / "libdnnl.so.3")
    shutil.copy(built_backend(), folder)
    source = ROOT / "benchmarks" / "peers" / "native_runner.cpp"
    includes = [f"{executorch}/include", f"{executorch}/include/executorch/runtime/core/portable_type/c10"]
    subprocess.run(
        [
            *("g++", "-std=c++17", "-O2", str(source), "-o", str(folder / "native_runner")),
            *("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"),
            *(part for include in includes for part in ("-isystem", include)),
            *(f"-L{executorch}/lib", "-Wl,--no-as-needed", "-lexecutorch", "-lexecutorch_kernels_optimized", "-ldl"),
            *("-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"),
        ],
        check=True,
    )
    for name, make in MODELS.items():
        module, args = make()
        with torch.no_grad():
            np.save(folder / f"{name}.expected.npy", module(*args).numpy())
        (folder / f"{name}.bin").write_bytes(args[0].numpy().tobytes())
        for precision in PRECISIONS:
            if (folder / f"{name}.{precision}.pte").exists():
                continue
            options = {"allow_emulated": True} if precision == "bf16" else {}
            # Large stress inputs drive attention in bf16 to its edge; the run compares the example itself.
            tolerance = Tolerance(15.0) if precision == "bf16" else None
            path = folder / f"{name}.onednn.edgex"
            shutil.rmtree(path, ignore_errors=True)
            edgex.export_model(
                module,
                args,
                target="onednn",
                output=path,
                precision=precision,
                options=options,
                tolerance=tolerance,
            )
            (path / "model.pte").rename(folder / f"{name}.{precision}.pte")
            shutil.rmtree(path)
        print(name, file=sys.stderr, flush=True)


def run(folder: Path, result: Path, seconds: float) -> None:
    """Measure until the time is over; the tables are rewritten after each case."""
    ends = time.monotonic() + seconds
    document: dict[str, Any] = {"machine": _machine(), "origin": read_origin(), "cases": []}
    for precision in PRECISIONS:
        cores = os.cpu_count() or 1
        for threads in [n for n in THREADS if n <= cores] or [cores]:
            if time.monotonic() > ends:
                document["cut"] = f"the time was over before {precision}, {threads} threads"
                break
            for case in _measure_models(folder, precision, threads, ends, result):
                document["cases"].append(case)
                publish("onednn-amx", document, render(document), result)


def _measure_models(folder: Path, precision: str, threads: int, ends: float, result: Path) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        log = stack.enter_context((result / f"log-{precision}-{threads}.txt").open("w"))
        # All of them get ready at the same time, which takes a machine of many cores as long as the slowest.
        servers: dict[str, list[Server]] = {}
        for model in (name for name in MODELS if (folder / f"{name}.{precision}.pte").exists()):
            servers[model] = []
            for contender in (NATIVE, *PEERS):
                server = _start(folder, contender, model, precision, threads, log)
                stack.callback(server.close)
                servers[model].append(server)
        ready = {model: {s.name: s.wait() for s in members} for model, members in servers.items()}
        for model, members in servers.items():
            if time.monotonic() > ends:
                return
            able = [server for server in members if ready[model][server.name] is not None]
            found = time_in_turns(able, ROUNDS, SECONDS_EACH)
            yield {
                "model": model,
                "precision": precision,
                "threads": threads,
                "sqnr_db": _sqnr_db(folder, model, precision, threads),
                "prepare_seconds": {name: facts and facts["prepare_seconds"] for name, facts in ready[model].items()},
                "seconds": {name: [round(t, 9) for turn in turns for t in turn] for name, turns in found.items()},
                "median_seconds": {name: median(median(turn) for turn in turns) for name, turns in found.items()},
            }


def _start(folder: Path, contender: str, model: str, precision: str, threads: int, log: Any) -> Server:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    if contender == NATIVE:
        environment["LD_LIBRARY_PATH"] = f"{folder}:{environment.get('LD_LIBRARY_PATH', '')}"
        files = (f"{model}.{precision}.pte", f"{model}.bin", _output_name(model, precision, threads))
        command = [str(folder / "native_runner"), *(str(folder / name) for name in files)]
        command.append(str(folder / "libedgex_onednn.so"))
    else:
        command = [sys.executable, "-m", "benchmarks.onednn.amx", "serve", contender, model, precision, str(threads)]
    return Server(contender, command, environment, log)


def _output_name(model: str, precision: str, threads: int) -> str:
    return f"{model}.{precision}.{threads}.out"


def _sqnr_db(folder: Path, model: str, precision: str, threads: int) -> float | None:
    """Of the native runner's first output, beside eager's in float32."""
    expected = np.load(folder / f"{model}.expected.npy").astype(np.float64).ravel()
    path = folder / _output_name(model, precision, threads)
    if not path.exists():
        return None
    found = np.fromfile(path, np.float32).astype(np.float64)
    noise = float(np.mean((expected - found) ** 2))
    return round(10 * math.log10(float(np.mean(expected**2)) / noise), 1) if noise else 300.0


def serve_peer(contender: str, model: str, precision: str, threads: int) -> None:
    """One peer in this process."""
    from benchmarks.peers import contenders

    contenders.prepare_process(threads)
    module, args = MODELS[model]()
    with torch.no_grad():
        case = contenders.Case(module, args, precision, threads, Path(), model)
        started = time.perf_counter()
        call = contenders.CONTENDERS[contender](case)
        prepared = time.perf_counter()
        call()
        facts = {"prepare_seconds": prepared - started, "first_seconds": time.perf_counter() - prepared}
        serve(call, facts)


def render(document: dict[str, Any]) -> str:
    """The page: how, when and where, the table, the mean of the convnets."""
    machine = document["machine"]
    lines = ["# onednn on a processor with AMX", "", HOW, ""]
    lines += [
        f"{render_origin(document['origin'])} Machine: {machine['cpu']} · {machine['cores']} cores · "
        f"{machine['isa']} · torch {machine['torch']}. Raw figures: [data/onednn-amx.json](data/onednn-amx.json).",
        "",
    ]
    lines += ["| model | precision | threads | edgex | " + " | ".join(PEERS) + " | best peer | SQNR |"]
    lines += ["|---|---|---:|---:|" + "---:|" * (len(PEERS) + 2)]
    for case in document["cases"]:
        times = case["median_seconds"]
        peers = {name: times[name] for name in PEERS if name in times}
        own = times.get(NATIVE)
        best = min(peers, key=lambda name: peers[name]) if peers else None
        cells = [case["model"], case["precision"], str(case["threads"]), _show(own)]
        cells += [_show(times.get(name)) for name in PEERS]
        cells += [f"{best} {peers[best] / own:.2f}x" if best and own else "", f"{case['sqnr_db']} dB"]
        lines.append(f"| {' | '.join(cells)} |")
    for precision in PRECISIONS:
        for threads in sorted({case["threads"] for case in document["cases"]}):
            ratios = [
                min(times[name] for name in PEERS if name in times) / times[NATIVE]
                for case in document["cases"]
                if (case["precision"], case["threads"]) == (precision, threads) and case["model"] in CONVNETS
                for times in [case["median_seconds"]]
                if NATIVE in times and len(times) > 1
            ]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                lines += ["", f"{precision}, {threads} threads, convnets: {mean:.2f}x over the best peer (geomean)."]
    for key in ("cut", "note"):
        lines += ["", document[key]] if key in document else []
    return "\n".join(lines) + "\n"


def _show(seconds: float | None) -> str:
    return "failed" if seconds is None else f"{seconds * 1e3:.3f} ms"


def _machine() -> dict[str, Any]:
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    known = {name.strip(): value.strip() for name, value in fields.items()}
    wanted = ("avx512_bf16", "amx_bf16", "amx_int8", "avx512_vnni")
    isa = [name for name in wanted if name in known.get("flags", "").split()]
    return {
        "cpu": known.get("model name", "unknown"),
        "cores": os.cpu_count(),
        "isa": " ".join(isa),
        "torch": torch.__version__,
    }


def main() -> None:
    """See the module's description."""
    verb, *rest = sys.argv[1:]
    if verb == "pack":
        pack(Path(rest[0]))
    elif verb == "run":
        run(Path(rest[0]), Path(rest[1]), float(rest[2]) if len(rest) > 2 else 400)
    else:
        serve_peer(rest[0], rest[1], rest[2], int(rest[3]))


if __name__ == "__main__":
    main()
