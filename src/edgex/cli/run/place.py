"""Where a command runs its artifacts: in this process, or where `--device` says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgex.cli.options.command import option
from edgex.errors import UsageError

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.execute.base import Executor, Progress
    from edgex.runtime.execute.request import Address, DeviceOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Place:
    """Where the flags say that artifacts run, checked.

    Attributes:
        address: Which device; None for this process.
        options: How a device is used; None for this process.
    """

    address: Address | None = None
    options: DeviceOptions | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is this process."""
        return self.address is None

    @contextmanager
    def opened(self, artifacts: Sequence[Artifact], *, tuned: bool = False) -> Iterator[Executor]:
        """The executor, released at the end.

        Args:
            artifacts: What is to run there.
            tuned: In this process: take the threads and settings that a pick or a sweep found quickest, where none are
                asked for.

        Raises:
            UsageError: A flag was given that none of the artifacts has a use for.
            DeviceError: It cannot be reached.
        """
        if self.address is None or self.options is None:
            from edgex.runtime.execute.here.in_process import InProcess

            yield InProcess(tuned=tuned)
            return
        from edgex.runtime.execute.address import open_executor, refuse_idle_options

        refuse_idle_options(self.options, [artifact.manifest.engine for artifact in artifacts])
        with open_executor(self.address, self.options) as executor:
            yield executor

    @contextmanager
    def opened_elsewhere(self) -> Iterator[Executor | None]:
        """The device, released at the end, for artifacts that are yet to be made; None for this process.

        Raises:
            DeviceError: It cannot be reached.
        """
        if self.address is None:
            yield None
            return
        from edgex.runtime.execute.address import open_executor

        with open_executor(self.address, self.options) as executor:
            yield executor

    @contextmanager
    def progress(self, *, quiet: bool = False) -> Iterator[Progress]:
        """Shows the stages of a device on stderr; a run in this process is over before anybody reads of it."""
        if self.is_here or quiet:
            yield lambda _stage, _detail: None
            return
        from edgex.cli.progress import StageProgress

        with StageProgress() as progress:
            yield progress


def device_flags(command: _Command) -> _Command:
    """Add `--device` and what goes with it to a command."""
    declare = functools.partial(option, group="Device")
    keep: Mapping[str, Any] = {"callback": _keep, "expose_value": False}
    for declared in (
        declare(
            "--app",
            metavar="APP",
            help="adb: an APK, a project of edgex android, or the id of an installed app; default: the installed one.",
            **keep,
        ),
        declare(
            "--device-python",
            metavar="PATH",
            help="The device's Python with onnxruntime; default: python3.",
            **keep,
        ),
        declare(
            "--executorch-wheel",
            type=click.Path(path_type=Path),
            help="executorch's wheel for the device's architecture, where it is not this machine's; needed once.",
            **keep,
        ),
        declare("--device", metavar="DEVICE", help="adb[:SERIAL], ssh:[USER@]HOST[:PORT] or local-native."),
    ):
        command = declared(command)
    return command


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta[f"{__name__}.{parameter.name}"] = value


def read_place(device: str | None, refused: Mapping[str, object]) -> Place:
    """The place that the flags name.

    Args:
        device: `--device`.
        refused: Flags that mean nothing on a device, with what they were given.

    Raises:
        UsageError: The address has another form, or a flag goes without or against it.
    """
    kept = click.get_current_context().meta
    wheel, python, app = (kept[f"{__name__}.{name}"] for name in ("executorch_wheel", "device_python", "app"))
    if device is None:
        for flag, given in (("--executorch-wheel", wheel), ("--device-python", python), ("--app", app)):
            if given is not None:
                kind = "adb" if flag == "--app" else "ssh:HOST"
                raise UsageError(f"{flag} is for a device", fix=f"add --device {kind}")
        return Place()
    from edgex.runtime.execute.address import check_options, parse_address
    from edgex.runtime.execute.request import DeviceOptions

    address = parse_address(device)
    for flag, value in refused.items():
        if value:
            raise UsageError(f"{flag} does not go with --device {address}", fix=f"leave {flag} out")
    options = DeviceOptions(wheel, python, app)
    check_options(address, options)
    if wheel is not None:
        from edgex.runtime.execute.kit.wheel import check_wheel

        check_wheel(wheel)
    return Place(address, options)
