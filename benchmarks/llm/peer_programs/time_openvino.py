"""Run by a Python that has OpenVINO GenAI: a folder of `optimum-cli export openvino`, timed as llama-bench does.

time_openvino.py FOLDER THREADS VOCABULARY    # prints {"pp512": …, "tg128": …, "tg128@d1024": …}
"""

import json
import sys

import numpy
import openvino
import openvino_genai

folder, threads, vocabulary = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pipeline = openvino_genai.LLMPipeline(folder, "CPU", INFERENCE_NUM_THREADS=threads)
random = numpy.random.default_rng(0)


def measure(prompt: int, new: int) -> tuple[float, float]:
    """Seconds to the first token behind a prompt, and those between further ones, by the library's own clock."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = new, True, False
    ids = random.integers(1, vocabulary, (1, prompt)).astype(numpy.int64)
    metrics = pipeline.generate(openvino.Tensor(ids), config).perf_metrics
    return metrics.get_ttft().mean / 1e3, metrics.get_tpot().mean / 1e3


measure(64, 8)
prompt, text, deep = measure(512, 1)[0], measure(1, 129)[1], measure(1024, 129)[1]
print(json.dumps({"pp512": 512 / prompt, "tg128": 1 / text, "tg128@d1024": 1 / deep}))
