"""The threads and engine settings that a pick or a sweep found quickest, kept in the user's cache.

```
$XDG_CACHE_HOME/edgex/tuned/<artifact digest>/<host fingerprint>.json
    {"format": "edgex.tuned/1", "threads": 2, "options": {"allow_spinning": false}, …}
```

`options` is left out where there are none. It all belongs to one artifact on one machine, so it is never written into
the artifact.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgex.errors import RunError
from edgex.runtime.support.cache import CACHE_FIX, user_cache
from edgex.runtime.support.machine.host import read_host
from edgex.runtime.support.publish import disk_errors, write_text

FORMAT = "edgex.tuned/1"


@dataclass(frozen=True)
class Tuning:
    """What runs an artifact quickest on this machine.

    Attributes:
        threads: Of one run.
        options: Engine settings other than the defaults, by name.
    """

    threads: int
    options: Mapping[str, Any] = field(default_factory=dict)


def tuning_folder() -> Path:
    """Where results are kept: `edgex/tuned` in the user's cache folder."""
    return user_cache("tuned")


def read_tuning(digest: str) -> Tuning | None:
    """What is kept for an artifact on this machine.

    Args:
        digest: `Artifact.digest`.

    Returns:
        None where nothing is kept. A damaged entry counts as none and gives a Python warning.
    """
    folder = tuning_folder() / digest
    # Describing the machine takes a millisecond; most artifacts were never tuned.
    if not folder.is_dir():
        return None
    path = folder / f"{read_host().fingerprint}.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        threads, options = data["threads"], data.get("options", {})
        if data["format"] != FORMAT or type(threads) is not int or threads < 1 or not isinstance(options, dict):
            raise ValueError("not an edgex.tuned/1 with a number of threads")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        warnings.warn(f"the tuned threads in {path} are damaged and not used: {error}", stacklevel=3)
        return None
    return Tuning(threads, options)


def write_tuning(digest: str, tuning: Tuning, found: Mapping[str, Any]) -> Path:
    """Keep a tuning of an artifact on this machine, in place of an earlier one.

    Args:
        digest: `Artifact.digest`.
        tuning: What is kept.
        found: What else to write down, for people.

    Raises:
        RunError: The cache cannot be written.
    """
    path = tuning_folder() / digest / f"{read_host().fingerprint}.json"
    options = {"options": dict(tuning.options)} if tuning.options else {}
    text = json.dumps({"format": FORMAT, "threads": tuning.threads, **options, **found}, indent=2, ensure_ascii=False)
    with disk_errors(RunError, "the number of threads cannot be kept", str(path.parent), CACHE_FIX):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text + "\n")
    return path
