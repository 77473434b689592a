"""What the generator knows of an engine, the same for each."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgex.export.android.edits import Edits


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
        variant: Folder of `samples/android/variants` whose files take the place of the sample's, or None.
        left_out: Files of the sample that a project of this engine does not have.
        edits: What else differs from the sample.
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
    variant: str | None = None
    left_out: tuple[str, ...] = ()
    edits: Edits = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    @property
    def model_file(self) -> str:
        """What the model is called in the assets."""
        return f"model{self.suffix}"

    @property
    def dependency(self) -> str:
        """As Gradle writes it, `org.pytorch:executorch-android:1.5.1`."""
        return f"{self.group}:{self.library}:{self.version}"
