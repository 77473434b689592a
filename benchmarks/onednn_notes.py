"""What is behind a goal of the onednn page that was missed: the cause as it was measured, and what was tried.

A rerun of the benchmark prints them beside its own figures. Figures here are of two cores with AVX-512 and no bfloat16;
"log" is oneDNN's own (`ONEDNN_VERBOSE=1`), "counters" are OpenVINO's (`PERF_COUNT`).
"""

from __future__ import annotations

# Model -> why it is behind the best peer. Shown where it is more than a quarter behind.
BEHIND = {
    "mobilenet_v2": (
        "The partition that costs most is `convolution+hardtanh`. Its kernels are the peer's: oneDNN's log and "
        "OpenVINO's counters both name the AVX-512 kernels `brgconv_1x1` and, for depthwise layers, the `brgemm` one; "
        "none is a reference kernel, and layouts are channels-innermost throughout. With 2 threads and nothing else on "
        "the cores the kernels took 5.40 ms by the log and the whole call 5.4 to 5.9 ms, where the best peer's run "
        "took 5.43. With 1 thread it is level. So what is behind with 2 threads is not in a kernel; that it is the 54 "
        "hand-overs between threads on a machine with other work is a conclusion, not a measurement. Tried: the ten "
        "residuals were copied before each sum (0.08 ms); they are written over now."
    ),
    "distilgpt2": (
        "Outside of the partitions: GPT-2's GELU is written with a cube, which ExecuTorch's portable kernel computed, "
        "26.5 of 138 ms in a trace. It is inside the region now. oneDNN then fused `tanh` with the sum behind it, for "
        "which it has only its reference kernel (some 45 ms a layer); such a partition is ended at export. Both "
        "together: 209 ms of processor time with 1 thread instead of 248. Left is the `linear` of 50,257 words, 45 of "
        "the 103 ms of all kernels in the log: 9.9 GFLOP at 219 GFLOP/s, the rate of every other product in this "
        "model, so that no layout would help it."
    ),
    "whisper_tiny_encoder": (
        "The partitions of `scaled_dot_product_attention`. oneDNN 3.2 makes three of it, between which 54 MB of scores "
        "(6 heads) pass through memory: product 15 to 20 ms, softmax 10 to 16, product 9 to 11, in the log, for each "
        "of four layers. The kernels themselves are no reference ones. Tried: blocks of a head's rows through all "
        "three while they are in the cache, by oneDNN's primitives: 24 ms a layer with 2 threads, and 45 instead of 68 "
        "with 1. That is what runs now where scores are larger than 4 MB; the whole encoder took 0.85 of the time with "
        "1 thread and 0.89 with 2 (387 and 457 ms, 334 and 376 ms, the best of runs in turns), which leaves it behind "
        "OpenVINO. Smaller scores (vit_small, bert_base) took the same time in blocks. Left: softmax, 11 of a layer's "
        "45 ms with 1 thread."
    ),
}

LOAD = (
    "What load is made of, with 2 threads on a quiet machine: oneDNN forms partitions (20 ms for mobilenet_v2, 37 for "
    "resnet50, 51 for bert_base, 21 for whisper_tiny_encoder: about as much as it compiles, and not counted as "
    "compiling), compiles them (24, 58, 40, 43 ms), and runs each partition with weights once. Its C interface brings "
    "constants into the processor's layout only while it runs, so that one run is the floor: 18 ms of mobilenet_v2's "
    "first run were constants, 86 of resnet50's, some 190 of bert_base's 340 MB, most of it the system's making new "
    "pages (a reorder of 9.4 MB took 4.4 ms into new memory, 1.7 into memory that was there; huge pages did not help). "
    "Tried and kept: no second run; pages of the file are let go only where oneDNN has its own copy; of partitions "
    "that are equal but for small constants one runs. bert_base loaded in 479 ms instead of 623 by that, "
    "whisper_tiny_encoder in 268 instead of 944. Tried and left: weights in the file in another order (reorders took "
    "the same time)."
)
