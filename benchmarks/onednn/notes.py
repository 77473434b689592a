"""Why a goal of the onednn page was missed: the cause as measured, and what was tried.

A rerun of the benchmark prints them beside its own figures. Figures in float32 are of two cores with AVX-512 and no
bfloat16, those in bfloat16 of cores with AMX; "log" is oneDNN's own (`ONEDNN_VERBOSE=1`), "counters" are OpenVINO's
(`PERF_COUNT`).
"""

from __future__ import annotations

# Precision -> model -> why it is behind the best peer. Shown where it is more than a quarter behind.
BEHIND = {
    "fp32": {
        "mobilenet_v2": (
            "The partition that costs most is `convolution+hardtanh`. Its kernels are the peer's: oneDNN's log and "
            "OpenVINO's counters both name the AVX-512 kernels `brgconv_1x1` and, for depthwise layers, the `brgemm` "
            "one; none is a reference kernel, and layouts are channels-innermost throughout. With 2 threads and "
            "nothing else on the cores the kernels took 5.40 ms by the log and the whole call 5.4 to 5.9 ms, where "
            "the best peer's run took 5.43. With 1 thread it is level. So what is behind with 2 threads is not in a "
            "kernel; that it is the 54 hand-overs between threads on a machine with other work is a conclusion, not a "
            "measurement. Tried: the ten residuals were copied before each sum (0.08 ms); they are written over now."
        ),
        "distilgpt2": (
            "Outside of the partitions: GPT-2's GELU is written with a cube, which ExecuTorch's portable kernel "
            "computed, 26.5 of 138 ms in a trace. It is inside the region now. oneDNN then fused `tanh` with the sum "
            "behind it, for which it has only its reference kernel (some 45 ms a layer); such a partition is ended at "
            "export. Both together: 209 ms of processor time with 1 thread instead of 248. Left is the `linear` of "
            "50,257 words, 45 of the 103 ms of all kernels in the log: 9.9 GFLOP at 219 GFLOP/s, the rate of every "
            "other product in this model, so that no layout would help it."
        ),
        "whisper_tiny_encoder": (
            "Two partitions. The sum of the second convolution's result and the positions read one operand row by row "
            "and the other by channels, for which oneDNN 3.2 has its reference kernel only: 33 to 50 ms of 269 to 364 "
            "in the log. Both lie in one order now. Then attention: 54 MB of scores (6 heads) passed through memory "
            "between product, softmax and product. Blocks of a head's rows go through all three while they are in the "
            "cache; the two products of them run at 110 GFLOP/s of each thread, as fast as any other product here. "
            "Left is their softmax, about 38 ms of a run with 2 threads."
        ),
    },
    "bf16": {
        "resnet50": (
            "Noise of the machine. With 1 thread its rounds took 11.2 to 30.3 ms, those of LLGA 11.2 to 31.4, because "
            "the core multiplied at one of two speeds (see onednn-summary.md); the quickest rounds of both are level, "
            "11.20 and 11.17."
        ),
        "distilgpt2": (
            "Noise of the machine, and the product with 50,257 words. By oneDNN's log that product took 8.7 ms when "
            "the cores were quick, which is 1,130 GFLOP/s and leaves nothing to gain, and 16.5 ms when they were "
            "slow. The same row once more was 30.2 ms beside 31.3 of Inductor. What peers do not do: the result is "
            "float32, whose conversion takes 1.7 ms."
        ),
        "whisper_tiny_encoder": (
            "Attention over 1,500 places. With one core 53 of 107 ms were oneDNN's kernels by its log; the other half "
            "was the softmax of 54 million scores and what lies around 1,700 small products. Both were improved after "
            "the table with AMX: on a core with AVX-512 BF16 and no AMX the whole model takes 202 instead of 220 ms. "
            "Not measured with AMX again. Tried and rejected: writing the weights as bfloat16 in the loop that "
            "computes them, which the compiler there did not vectorize (143 ms)."
        ),
    },
}

LOAD = (
    "What load is made of, with 2 threads on a quiet Xeon: oneDNN forms partitions (20 ms for mobilenet_v2, 37 for "
    "resnet50, 51 for bert_base, 21 for whisper_tiny_encoder: about as much as it compiles, and not counted as "
    "compiling), compiles them (24, 58, 40, 43 ms), and runs each partition with weights once. Its C interface brings "
    "constants into the processor's layout only while it runs, so that one run is the floor: 18 ms of mobilenet_v2's "
    "first run were constants, 86 of resnet50's, some 190 of bert_base's 340 MB, most of it the system's making new "
    "pages (a reorder of 9.4 MB took 4.4 ms into new memory, 1.7 into memory that was there). Tried and kept: no "
    "second run; pages of the file are released only where oneDNN has its own copy; of partitions that are equal but "
    "for small constants one runs. bert_base loaded in 479 ms instead of 623 by that, whisper_tiny_encoder in 268 "
    "instead of 944. Tried and rejected: weights in the file in another order (reorders took the same time). Kept "
    "since onednn.md was measured: all threads make the pages for constants ahead, 32 MB at a time. Most constants "
    "are smaller than a huge page, so that one thread made it while the others waited, or made it too. In new "
    "processes, before and after in turns on two cores of a Zen 4, medians of five: resnet50 248 and 123 ms, "
    "vit_small 222 and 116, bert_base 750 and 283, distilgpt2 585 and 247, whisper_tiny_encoder 240 and 183, "
    "mobilenet_v2 59 and 47. What is left of resnet50's is 11 ms of forming, 19 of compiling, 37 of its own run, 35 "
    "of reorders, some 20 of new pages. There, compiling and one run of every partition, which the interface asks "
    "for, take three times compiling by themselves for resnet50, and more for vit_small, bert_base, distilgpt2 and "
    "whisper_tiny_encoder: under 3x is out of reach for these. How dear new memory is depends on the machine: 100 MB "
    "took 10 ms on this one where its host had given them to it before, and 240 where not."
)
