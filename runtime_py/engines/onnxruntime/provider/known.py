"""What is known of an execution provider before it is opened: its names, its kinds of device, its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgex.errors import RunError, nearest_name

# How a provider comes into a session: built into the wheel of ONNX Runtime, or as a library of its own.
Route = Literal["classic", "plugin"]


@dataclass(frozen=True)
class Option:
    """One option of a provider.

    Attributes:
        kind: Type of its value.
        plugin: Its name in the plug-in form; None where that form does not have it.
        classic: Its name in the form that is built in; None where it does not have it.
    """

    kind: type
    plugin: str | None
    classic: str | None = None


@dataclass(frozen=True)
class Provider:
    """An execution provider.

    Attributes:
        name: As an artifact's manifest names it.
        title: What it is called in sentences.
        install_fix: What helps where it is missing.
        options: Its options by our names, which are those of the manifest.
        classic: Its names where it is built in, best first; empty where it is a plug-in only.
        device_types: Kinds of device that its plug-in must offer one of, best first: `GPU`, `NPU` or `CPU`.
        takes_its_name: It is called what its library is registered as, so that is registered under `name`.
        packages: What pip installs for it, with the oldest version of each that will do; empty where pip has nothing.
    """

    name: str
    title: str
    install_fix: str
    options: Mapping[str, Option] = field(default_factory=dict)
    classic: tuple[str, ...] = ()
    device_types: tuple[str, ...] = ("GPU",)
    takes_its_name: bool = False
    packages: Mapping[str, str] = field(default_factory=dict)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Check names and types.

        Raises:
            RunError: A name is unknown, or a value has another type.
        """
        for name, value in options.items():
            if name not in self.options:
                raise RunError(
                    f"the {self.title} provider has no option {name!r}", why=nearest_name(name, self.options)
                )
            kind = self.options[name].kind
            if type(value) is not kind:
                raise RunError(f"provider option {name}={value!r}: expected {kind.__name__}")

    def option_texts(self, options: Mapping[str, Any], route: Route) -> dict[str, str]:
        """The options as the provider takes them: its own names, values as text.

        Raises:
            RunError: An option is unknown, or this form of the provider does not have it.
        """
        self.check_options(options)
        texts = {}
        for name, value in options.items():
            option = self.options[name]
            native = option.classic if route == "classic" else option.plugin
            if native is None:
                form = "built-in" if route == "classic" else "plug-in"
                raise RunError(
                    f"the {form} form of the {self.title} provider has no option {name!r}",
                    fix="export again without it, or use the other form of the provider",
                )
            texts[native] = str(int(value)) if isinstance(value, bool) else str(value)
        return texts
