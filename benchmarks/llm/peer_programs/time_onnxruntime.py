"""Run by a Python that has onnxruntime-genai: a folder of its model builder, timed as llama-bench does.

time_onnxruntime.py FOLDER THREADS VOCABULARY    # prints {"pp512": …, "tg128": …, "tg128@d1024": …}
"""

import json
import sys
import time

import numpy
import onnxruntime_genai

folder, threads, vocabulary = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = onnxruntime_genai.Config(folder)
config.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
model = onnxruntime_genai.Model(config)
random = numpy.random.default_rng(0)


def measure(prompt: int, new: int) -> tuple[float, float]:
    """Seconds to the first token behind a prompt, and those of `new` further ones; the likeliest is taken."""
    parameters = onnxruntime_genai.GeneratorParams(model)
    length = prompt + new + 1
    parameters.set_search_options(max_length=length, min_length=length, do_sample=False)
    generator = onnxruntime_genai.Generator(model, parameters)
    ids = random.integers(1, vocabulary, (prompt,)).astype(numpy.int32)
    started = time.perf_counter()
    generator.append_tokens(ids)
    generator.generate_next_token()
    first = time.perf_counter()
    for _ in range(new):
        generator.generate_next_token()
    return first - started, time.perf_counter() - first


measure(64, 8)
prompt, text, deep = measure(512, 0)[0], measure(1, 128)[1], measure(1024, 128)[1]
print(json.dumps({"pp512": 512 / prompt, "tg128": 128 / text, "tg128@d1024": 128 / deep}))
