"""`edgex devices`: what `--device` can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import common_options
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.runtime.execute.request import DeviceInfo


@make_command("devices")
@option(
    "--device",
    "asked",
    multiple=True,
    metavar="DEVICE",
    group="Device",
    help="Look at this one too: ssh:[USER@]HOST[:PORT]; repeatable.",
)
@common_options()
def command(asked: tuple[str, ...], timeout: float | None, as_json: bool, quiet: bool, verbose: bool) -> None:
    """List devices: this machine, phones that adb sees, and the hosts given with --device.

    Exit code 8 if one that was asked for cannot be used.
    """

    def body() -> int:
        from edgex.errors import DeviceError
        from edgex.runtime.execute.address import parse_address
        from edgex.runtime.execute.listing import list_devices

        addresses = [parse_address(text) for text in asked]
        found = list_devices(addresses)
        if as_json:
            print_json({"schema": "edgex.devices/1", "devices": [info.to_json() for info in found]})
        else:
            _print(found, quiet=quiet)
        wanted = {str(address) for address in addresses}

        def is_wanted(info: DeviceInfo) -> bool:
            return info.address in wanted or ("adb" in wanted and info.kind == "adb")

        return DeviceError.exit_code if any(info.problems for info in found if is_wanted(info)) else 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _print(found: list[DeviceInfo], *, quiet: bool) -> None:
    from edgex.cli.render import bold
    from edgex.runtime.report.figures import format_bytes

    for info in found:
        click.echo(f"{bold(info.address)}  {info.model or ('cannot be used' if info.problems else 'unknown')}")
        memory = None if info.free_memory_bytes is None else f"{format_bytes(info.free_memory_bytes)} free"
        parts = [info.soc if info.soc != info.model else None, info.abi, info.os, info.libc, memory]
        if any(parts) and not quiet:
            click.echo("  " + " · ".join(part for part in parts if part))
        for problem in info.problems:
            click.echo(click.style("  problem: ", fg="yellow") + problem)
