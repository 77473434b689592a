"""What `manifest.json` and `golden/index.json` must look like before anything is read from them."""

from __future__ import annotations

from edgex.runtime.artifact.names import LABEL, NAME, PATH, VERSION, WORD
from edgex.runtime.artifact.specs import NUMPY_DTYPES
from edgex.runtime.support.json.shapes import (
    Anything,
    Either,
    Integer,
    List,
    Map,
    Number,
    Object,
    OneOf,
    Optional,
    Text,
    Truth,
)

MAX_MANIFEST_BYTES = 64 << 20
# The largest file of an artifact; more would keep a machine busy for minutes with hashing alone.
MAX_FILE_BYTES = 64 << 30
# A case is at most 32 MiB when it is written.
MAX_CASE_BYTES = 1 << 30
MAX_STEPS = 100_000
# What inputs hold that is no ordinary number: stress cases, and what manifests say of them.
SPECIAL_INPUTS = ("NaN", "infinity")
_MAX_SIZE = 1 << 40
_MAX_RANK = 32

_SENTENCE = Text(lines=True)
_SIZE = Integer(0, _MAX_SIZE)
_DIM = Object({"name": LABEL, "min": _SIZE, "max": _SIZE})
_TENSOR = Object({"name": LABEL, "dtype": OneOf(NUMPY_DTYPES), "shape": List(Either(_SIZE, _DIM), most=_MAX_RANK)})
_STATE = Object(
    {"name": LABEL, "dtype": OneOf(NUMPY_DTYPES), "shape": List(_SIZE, most=_MAX_RANK)}
    | {"input": Optional(LABEL), "output": Optional(LABEL)},
    {"in_place": Truth()},
)
_METHOD = Object(
    {"name": LABEL, "inputs": List(_TENSOR), "outputs": List(_TENSOR), "state": List(_STATE)},
    {"native": Optional(LABEL), "file": Optional(PATH)},
)
# Empty while the artifact is being made: its files are hashed last.
_FILE = Object({"path": PATH, "bytes": Integer(0, MAX_FILE_BYTES), "sha256": Text(r"(?:[0-9a-f]{64})?")})

_FALLBACK = Object({"op": LABEL, "count": Integer(0), "code": LABEL, "reason": _SENTENCE, "source": Optional(LABEL)})
DELEGATION = Object(
    {"fraction": Optional(Number()), "work_fraction": Optional(Number())}
    | {"delegated_ops": Integer(0), "total_ops": Integer(0), "delegate_calls": Integer(0)}
    | {"fallbacks": List(_FALLBACK)}
)

_TOLERANCE = Object(
    {"min_sqnr_db": Number(), "atol": Optional(Number(0)), "rtol": Optional(Number(0))},
    {"min_equal": Number(0, 1)},
)
_VERDICT = Object(
    {"name": LABEL, "output": Optional(LABEL), "verdict": OneOf(("pass", "fail", "warning", "inconclusive", "skipped"))}
    | {key: Optional(Number()) for key in ("max_abs_error", "sqnr_db", "reference_max")}
    | {"reason": Optional(_SENTENCE)},
    {"reference": OneOf(("eager", "quantized")), "method": LABEL},
)
_SPECIAL = Object(
    dict.fromkeys(("input", "output", "eager", "engine"), LABEL),
    {"count": Integer(1), "op": Optional(LABEL), "source": Optional(LABEL), "method": LABEL},
)
_REFUSED = Object({"values": OneOf(SPECIAL_INPUTS), "inputs": List(LABEL)}, {"method": LABEL})
_DIFFERENCE = Object(
    {"case": LABEL, "output": Optional(LABEL), "max_abs_difference": Optional(Number(0)), "verdict": WORD}
)
_REPEAT = Object(
    {"how": OneOf(("again", "together", "threads")), "runs": Integer(1), "threads": Optional(Integer(1))}
    | {"sequences": Integer(0), "reason": Optional(_SENTENCE), "differences": List(_DIFFERENCE)}
)
# The tolerance is asked for before the proof; what the proof found is added when it is done.
PROVED = ("passed", "executed_on", "cases", "max_abs_error", "min_sqnr_db")
_VERIFICATION = Object(
    {"tolerance": _TOLERANCE},
    {"quantized_tolerance": Optional(_TOLERANCE), "allow_inconclusive": Truth()}
    | {"passed": Truth(), "executed_on": _SENTENCE, "cases": List(_VERDICT)}
    | {"max_abs_error": Optional(Number()), "min_sqnr_db": Optional(Number())}
    | {"reason": Optional(_SENTENCE), "verified_on": OneOf(("target", "simulator", "cpu-reference"))}
    | {"simulator": Optional(_SENTENCE)}
    | {"assignment": Optional(Map(Integer(0))), "nan_inf": List(_SPECIAL), "repeats": Optional(List(_REPEAT))}
    | {"refuses": List(_REFUSED), "constant_outputs": List(LABEL)},
)

# What an accuracy budget came to.
_ACCURACY = Object(
    {"metric": WORD, "holds": Truth(), "kept_float": List(LABEL)}
    | dict.fromkeys(("baseline", "reached", "max_drop"), Number())
)
_QUANTIZATION = Object(
    {"recipe": WORD}, {"group_size": Optional(Integer(0)), "observer": Optional(WORD), "accuracy": _ACCURACY}
)
_REWRITE = Object({"name": LABEL, "count": Integer(0), "detail": _SENTENCE}, {"won": Optional(Integer(0))})
_REQUIREMENTS = Object({"engine": WORD, "minimum_version": Optional(VERSION), "isa": List(WORD), "plugins": List(WORD)})
_MODEL = Object({}, {"source": Optional(LABEL), "parameters": Optional(Integer(0)), "card": Map(Anything())})

_COUNT = Integer(1, _MAX_SIZE)
_TOKEN = Integer(0, _MAX_SIZE)
_LLM = Object(
    {"vocabulary": _COUNT, "context": _COUNT, "chunk": _COUNT, "cache_bytes": _SIZE}
    | {"bos": Optional(_TOKEN), "eos": List(_TOKEN, most=10_000)}
    | {"cache_dtype": OneOf(NUMPY_DTYPES), "prefill": LABEL, "decode": LABEL},
    {"encode": LABEL, "start": List(_TOKEN, most=10_000), "rewinds": Truth()},
)

MANIFEST = Object(
    {"name": NAME, "target": WORD, "engine": WORD, "precision": WORD, "quantization": Optional(_QUANTIZATION)}
    | {"methods": List(_METHOD, least=1, most=100), "files": List(_FILE, most=100_000)}
    | {"producer": Map(LABEL), "delegation": DELEGATION, "verification": Optional(_VERIFICATION)}
    | {"status": OneOf(("verified", "assembled", "simulated")), "status_reason": Optional(_SENTENCE)}
    | {"requirements": _REQUIREMENTS, "rewrites": List(_REWRITE), "model": _MODEL}
    | {"options": Object({}, {"provider_options": Map(Anything()), "execution_provider": Optional(WORD)})},
    {"settings": Object({}, {"exclude": List(LABEL), "rewrite": Truth()}), "llm": Optional(_LLM), "by_size": Truth()},
)

_CASE = Object(
    {"name": LABEL, "kind": OneOf(("compare", "refuse", "report", "skipped")), "steps": Integer(0, MAX_STEPS)}
    | {"layout": OneOf(("contiguous", "transposed", "channels_last")), "reason": Optional(_SENTENCE)}
    | {"seed": Optional(Integer()), "file": Optional(PATH)},
    {"reference": OneOf(("eager", "quantized")), "min_sqnr_db": Optional(Number()), "method": Optional(LABEL)}
    | {"step_methods": List(Optional(LABEL), most=MAX_STEPS)},
)
GOLDEN_INDEX = Object({"format": LABEL, "cases": List(_CASE, most=10_000)})
