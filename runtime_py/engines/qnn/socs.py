"""The SoCs that can be named: model number and version of the HTP.

From the table of ExecuTorch 1.5, `backends/qualcomm/serialization/qc_schema.py` (`QcomChipset` and `_soc_info_table`),
whose numbers are those of `QnnTypes.h` in Qualcomm's SDK; tests/runtime/engines/qnn compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# The simulator computes in float32 for this version, so that it would prove nothing about a device in float16:
# measured with onnxruntime-qnn 2.7.0, where tanh(x @ w) is 147 dB from float64, and 44 to 69 dB for the others.
_WITHOUT_FLOAT16 = 68


@dataclass(frozen=True)
class Soc:
    """A system on a chip.

    Attributes:
        name: As `--option soc=` takes it.
        model: Its number in Qualcomm's SDK.
        htp: Version of its HTP: 75 is v75.
        sold_as: What people call it; None where only the number is known.
    """

    name: str
    model: int
    htp: int
    sold_as: str | None = None

    @property
    def has_float16(self) -> bool:
        """Whether what is computed in float16 on it can be proved."""
        return self.htp > _WITHOUT_FLOAT16

    def __str__(self) -> str:
        return f"{self.name} (HTP v{self.htp})"


_TABLE = (
    Soc("qcm6490", 93, 68),
    Soc("qcs9100", 77, 73),
    Soc("sa8255", 52, 73),
    Soc("sa8295", 39, 68),
    Soc("sa8797", 72, 81),
    Soc("sar2230p", 95, 81),
    Soc("sc8380xp", 60, 73, "Snapdragon X Elite"),
    Soc("sm8350", 30, 68, "Snapdragon 888"),
    Soc("sm8450", 36, 69, "Snapdragon 8 Gen 1"),
    Soc("sm8475", 42, 69, "Snapdragon 8+ Gen 1"),
    Soc("sm8550", 43, 73, "Snapdragon 8 Gen 2"),
    Soc("sm8650", 57, 75, "Snapdragon 8 Gen 3"),
    Soc("sm8750", 69, 79, "Snapdragon 8 Elite"),
    Soc("sm8845", 97, 81),
    Soc("sm8850", 87, 81, "Snapdragon 8 Elite Gen 5"),
    Soc("ssg2115p", 46, 73),
    Soc("ssg2125p", 58, 73),
    Soc("sw6100", 96, 81),
    Soc("sxr1230p", 45, 73),
    Soc("sxr2230p", 53, 69),
    Soc("sxr2330p", 75, 79),
)
SOCS: Mapping[str, Soc] = {soc.name: soc for soc in _TABLE}
