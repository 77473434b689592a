"""One case of the fuzzer: which it is follows from seed and number alone, so a failure can be made again."""

from __future__ import annotations

import random
import traceback
import warnings

from edgex.errors import EdgexError
from fuzz.mutators import MARKER
from fuzz.subjects import SUBJECTS, Corpus


def subject_of(seed: int, number: int) -> str:
    """What a case changes."""
    rng = random.Random(f"{seed}:{number}")
    return rng.choices(list(SUBJECTS), list(SUBJECTS.values()))[0].__name__


def run_case(corpus: Corpus, seed: int, number: int) -> tuple[str, str]:
    """Run a case.

    Returns:
        `ran`, `refused` or `failed`, and what to say of it.
    """
    rng = random.Random(f"{seed}:{number}")
    subject = rng.choices(list(SUBJECTS), list(SUBJECTS.values()))[0]
    run = subject(rng, corpus)
    MARKER.unlink(missing_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
        outcome, said = "ran", ""
    except EdgexError as error:
        outcome, said = "refused", f"{type(error).__name__}: {error.what}"
    except Exception:  # whatever it is, it is ours
        outcome, said = "failed", traceback.format_exc()
    if MARKER.exists():
        MARKER.unlink()
        outcome, said = "failed", "CODE FROM THE INPUT WAS EXECUTED"
    return outcome, said
