"""What the generator knows of an engine, the same for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgex.errors import UsageError
from edgex.export.android.edits import Edits
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.artifact import Artifact


@dataclass(frozen=True)
class AppEngine:
    """What runs one model in an app.

    Attributes:
        name: As in the artifact's manifest, for example `executorch`.
        label: For people, for example `ExecuTorch`.
        group: Of its library for Android on Maven Central, for example `org.pytorch`.
        library: The library there, for example `executorch-android`.
        version: The library's version.
        exporter: Version of the engine that proved the model.
        flavor: Which of the engine's libraries it is.
        suffix: Of the model's file, with the dot.
        backends: What computes the model, once for each region of it.
        portable_operators: How many operators run outside the backends; None for engines without that distinction.
        planned_arena_bytes: Memory that the file plans for activations; None where it plans none.
        selected_operators: Text of `selected_operators.yaml`, or None.
        variants: Folders of `samples/android/variants` with files in place of the sample's; the last of a name counts.
        left_out: Files of the sample that a project of this engine does not have.
        edits: What else differs from the sample.
        weights: A second file of the artifact that holds weights, or None.
        provider: Options of what computes in place of the CPU, as the engine spells them; None where nothing does.
        abis: Processors that the library exists for.
        notices: What the user should know.
    """

    name: str
    label: str
    group: str
    library: str
    version: str
    exporter: str
    flavor: str
    suffix: str
    backends: tuple[str, ...]
    portable_operators: int | None = None
    planned_arena_bytes: int | None = None
    selected_operators: str | None = None
    variants: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    edits: Edits = field(default_factory=dict)
    weights: str | None = None
    provider: Mapping[str, str] | None = None
    abis: tuple[str, ...] = ("arm64-v8a", "x86_64")
    notices: tuple[str, ...] = ()

    @property
    def model_file(self) -> str:
        """What the model is called in the assets."""
        return f"model{self.suffix}"

    @property
    def dependency(self) -> str:
        """As Gradle writes it, `org.pytorch:executorch-android:1.5.1`."""
        return f"{self.group}:{self.library}:{self.version}"


def refuse_flavor(artifact: Artifact, options: AppOptions, label: str) -> None:
    """Flavors are ExecuTorch's.

    Raises:
        UsageError: One is asked for.
    """
    if options.flavor != "xnnpack":
        raise UsageError(
            f"--flavor {options.flavor} is one of ExecuTorch's libraries, and {label} runs {artifact.path.name}",
            fix="leave --flavor out, or: edgex export MODEL -t xnnpack",
        )
