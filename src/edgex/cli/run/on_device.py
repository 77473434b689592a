"""`--device`: what `run`, `verify`, `profile` and `compare` share when the work is done elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgex.errors import UsageError

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.execute.address import Address
    from edgex.runtime.execute.base import Device, DeviceAnswer, DeviceOptions

# Where the value of --app waits for `read_device`, so that the commands need not hand it on.
_APP = "edgex.cli.run.on_device.app"

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Elsewhere:
    """A device that the flags name, checked.

    Attributes:
        address: Which.
        options: How it is used.
    """

    address: Address
    options: DeviceOptions

    @contextmanager
    def opened(self, artifacts: Sequence[Artifact]) -> Iterator[Device]:
        """The device, let go of at the end.

        Args:
            artifacts: What is to run there.

        Raises:
            UsageError: A flag was given that none of them has a use for.
            DeviceError: It cannot be reached.
        """
        from edgex.runtime.execute.address import open_device, refuse_idle_options

        refuse_idle_options(self.options, [artifact.manifest.engine for artifact in artifacts])
        with open_device(self.address, self.options) as device:
            yield device


def device_flags(command: _Command) -> _Command:
    """Add `--device` and what goes with it to a command."""
    for option in (
        click.option(
            "--app",
            metavar="APP",
            callback=_keep_app,
            expose_value=False,
            help="adb: an APK, a project of edgex android, or the id of an installed app; default: the installed one.",
        ),
        click.option("--device-python", metavar="PATH", help="The device's Python with onnxruntime; default: python3."),
        click.option(
            "--executorch-wheel",
            type=click.Path(path_type=Path),
            help="executorch's wheel for the device's architecture, where it is not this machine's; needed once.",
        ),
        click.option("--device", metavar="DEVICE", help="adb[:SERIAL], ssh:[USER@]HOST[:PORT] or local-native."),
    ):
        command = option(command)
    return command


def _keep_app(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    context.meta[_APP] = value


def read_device(
    device: str | None, wheel: Path | None, python: str | None, refused: Mapping[str, object]
) -> Elsewhere | None:
    """The device that the flags name; None for this machine.

    Args:
        device: `--device`.
        wheel: `--executorch-wheel`.
        python: `--device-python`.
        refused: Flags that mean nothing on a device, with what they were given.

    Raises:
        UsageError: The address has another form, or a flag goes without or against it.
    """
    app = click.get_current_context().meta[_APP]
    if device is None:
        for flag, given in (("--executorch-wheel", wheel), ("--device-python", python), ("--app", app)):
            if given is not None:
                kind = "adb" if flag == "--app" else "ssh:HOST"
                raise UsageError(f"{flag} is for a device", fix=f"add --device {kind}")
        return None
    from edgex.runtime.execute.address import check_options, parse_address
    from edgex.runtime.execute.base import DeviceOptions

    address = parse_address(device)
    for flag, value in refused.items():
        if value:
            raise UsageError(f"{flag} does not go with --device {address}", fix=f"leave {flag} out")
    options = DeviceOptions(wheel, python, app)
    check_options(address, options)
    if wheel is not None:
        from edgex.runtime.execute.kit.wheel import check_wheel

        check_wheel(wheel)
    return Elsewhere(address, options)


def describe_answer(answer: DeviceAnswer) -> dict[str, Any]:
    """The object `device` of the documents: what the device is, and what sending took."""
    return {
        **answer.device.to_json(),
        "run_id": answer.run_id,
        "model_sha256": answer.model_digest,
        "copy_seconds": answer.copy_seconds,
        "copied_bytes": answer.copied_bytes,
    }
