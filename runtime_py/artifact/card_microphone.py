"""The `microphone` entry of a model card: which input is sound, so that an app may offer to record it.

```python
model_card = {"microphone": {"input": "waveform", "sample_rate": 16000}}
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgex.errors import UsageError, nearest_name
from edgex.runtime.artifact.specs import Dim, TensorSpec

_FORM = "'microphone': {'input': 'waveform', 'sample_rate': 16000}"
_WHAT = "the model card's `microphone` entry"
# What Android's AudioRecord takes.
_RATES = range(4000, 192001)


@dataclass(frozen=True)
class MicrophoneCard:
    """An input of sound, one channel with values from -1 to 1.

    Attributes:
        input: The input's name.
        sample_rate: Values a second.
    """

    input: str
    sample_rate: int

    def to_json(self) -> dict[str, Any]:
        """What an app's manifest says of it."""
        return asdict(self)


def read_microphone_card(card: Mapping[str, Any], where: str) -> MicrophoneCard | None:
    """The `microphone` entry of a model card; None where there is none.

    Raises:
        UsageError: The entry is not as it must be.
    """
    entry = card.get("microphone")
    if entry is None:
        return None
    if not isinstance(entry, Mapping):
        raise UsageError(f"{_WHAT} is of type {type(entry).__name__}", where, _FORM)
    known = tuple(MicrophoneCard.__dataclass_fields__)
    for key in entry:
        if key not in known:
            raise UsageError(f"{_WHAT} has a key {key!r}", where, _FORM, why=nearest_name(str(key), known))
    if not isinstance(entry.get("input"), str):
        raise UsageError(f"{_WHAT} does not name its input", where, _FORM)
    rate = entry.get("sample_rate")
    if isinstance(rate, bool) or not isinstance(rate, int) or rate not in _RATES:
        raise UsageError(f"{_WHAT} has the sample_rate {rate!r}", where, _FORM, why="4000 to 192000 values a second")
    return MicrophoneCard(entry["input"], rate)


def parse_microphone(text: str, flag: str = "--microphone") -> MicrophoneCard:
    """`name:rate`, for example `waveform:16000`.

    Raises:
        UsageError: The text has another form.
    """
    found = re.fullmatch(r"(.+):(\d{1,7})", text)
    if found is None or int(found[2]) not in _RATES:
        raise UsageError(
            f"{flag} {text}: expected name:rate, of 4000 to 192000 values a second", fix=f"{flag} waveform:16000"
        )
    return MicrophoneCard(found[1], int(found[2]))


def check_microphone(microphone: MicrophoneCard, inputs: Sequence[TensorSpec], where: str) -> None:
    """The input must be one channel of sound: float32 with one dimension of more than one value, at most an hour of it.

    Raises:
        UsageError: There is no such input, or it is something else.
    """
    spec = next((spec for spec in inputs if spec.name == microphone.input), None)
    if spec is None:
        names = [spec.name for spec in inputs]
        raise UsageError(f"no input is called {microphone.input!r}", where, why=nearest_name(microphone.input, names))
    sizes = [dim.max if isinstance(dim, Dim) else dim for dim in spec.shape]
    long = [size for size in sizes if size != 1]
    if spec.dtype != "float32" or len(long) != 1 or long[0] > 3600 * microphone.sample_rate:
        raise UsageError(
            f"{spec} is no sound of a microphone",
            where,
            "let the model take float32[1, n]: values from -1 to 1, and compute features within forward",
        )
