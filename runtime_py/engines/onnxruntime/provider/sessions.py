"""Open a session on an execution provider, in one of two ways, and read back who really runs what.

```
classic    providers=["MIGraphXExecutionProvider"]            built into AMD's wheels
plug-in    register_execution_provider_library, then
           add_provider_for_devices on a device of its own    ONNX Runtime >= 1.24 with a separate library
```

Both kinds quietly become CPU sessions. Strict sessions therefore set both guards, `enable_fallback=0` (against a
provider that does not start) and `session.disable_cpu_ep_fallback` (against operators that it leaves out), and what the
session then reports is compared with what was asked for. Only this module and `libraries` touch these parts of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgex.errors import RunError, TargetUnavailable
from edgex.runtime.engines.onnxruntime.provider.known import Provider
from edgex.runtime.engines.onnxruntime.provider.libraries import LIBRARIES
from edgex.runtime.session.simulation import Simulator

CPU_PROVIDER = "CPUExecutionProvider"
_DISABLE_FALLBACK = "session.disable_cpu_ep_fallback"
_RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"


@dataclass(frozen=True)
class ProviderChoice:
    """What is asked for.

    Attributes:
        provider: Which provider.
        library: A plug-in provider's library; None means the classic provider of the installed build.
        options: The provider's options by our names.
        allow_fallback: Whether the CPU may run what the provider leaves, or everything.
    """

    provider: Provider
    library: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    allow_fallback: bool = False


@dataclass(frozen=True)
class OpenedSession:
    """A session with what it says of itself.

    Attributes:
        session: ONNX Runtime's session.
        nodes: How many nodes of the optimized graph each provider runs; None where this build does not tell.
        providers: The session's providers, in order of preference.
        remark: What should be known of it: why the CPU runs everything, or which simulator runs it.
        simulator: What runs it in place of the device; None where nothing does.
    """

    session: Any
    nodes: Mapping[str, int] | None
    providers: tuple[str, ...]
    remark: str | None = None
    simulator: Simulator | None = None

    @property
    def executed_on(self) -> str:
        """Who runs it: only providers to which nodes are really assigned, with their number."""
        remark = f"; {self.remark}" if self.remark else ""
        if self.nodes is None:
            return f"onnxruntime: {self.providers[0]} (all nodes; this build does not count them){remark}"
        if not self.nodes:
            return f"onnxruntime: {CPU_PROVIDER} (0 nodes){remark}"
        parts = [f"{name} ({count} node{'' if count == 1 else 's'})" for name, count in self.nodes.items()]
        return f"onnxruntime: {', '.join(parts)}{remark}"


def open_cpu(onnxruntime: Any, model: str | bytes, options: Any, remark: str | None = None) -> OpenedSession:
    """A session on the CPU provider, with its nodes counted."""
    _record(options)
    session = onnxruntime.InferenceSession(model, options, providers=[CPU_PROVIDER])
    return OpenedSession(session, _read_assignment(session), tuple(session.get_providers()), remark)


def open_on_provider(onnxruntime: Any, model: str | bytes, options: Any, choice: ProviderChoice) -> OpenedSession:
    """A session on the chosen provider.

    Args:
        onnxruntime: The imported package.
        model: Path or content of the ONNX model.
        options: Session options; the guards are added to them.
        choice: Which provider, and how strictly.

    Raises:
        TargetUnavailable: The provider is not there, or does not start.
        RunError: It does not take every node and no fallback is allowed, or the session is not what was asked for.
    """
    if not choice.allow_fallback:
        options.add_session_config_entry(_DISABLE_FALLBACK, "1")
    _record(options)
    if choice.library is not None:
        expected, session = _open_plugin(onnxruntime, model, options, choice)
    else:
        expected, session = _open_classic(onnxruntime, model, options, choice)
    opened = OpenedSession(session, _read_assignment(session), tuple(session.get_providers()))
    _check(opened, expected, choice)
    return opened


def _record(options: Any) -> None:
    options.add_session_config_entry(_RECORD_ASSIGNMENT, "1")


def _open_classic(onnxruntime: Any, model: str | bytes, options: Any, choice: ProviderChoice) -> tuple[str, Any]:
    available = onnxruntime.get_available_providers()
    known = choice.provider.classic
    name = next((name for name in known if name in available), None)
    if name is None:
        raise TargetUnavailable(
            f"this onnxruntime ({onnxruntime.__version__}) has neither {' nor '.join(known)}"
            if known
            else f"there is no library of the {choice.provider.title} provider",
            why=f"it has {', '.join(available)}",
            fix=choice.provider.install_fix,
        )
    texts = choice.provider.option_texts(choice.options, "classic")
    return name, _create(onnxruntime, model, options, name, providers=[(name, texts)], enable_fallback=0)


def _open_plugin(onnxruntime: Any, model: str | bytes, options: Any, choice: ProviderChoice) -> tuple[str, Any]:
    assert choice.library is not None
    provider = choice.provider
    names = LIBRARIES.register(onnxruntime, provider, choice.library)
    offered = [device for device in onnxruntime.get_ep_devices() if device.ep_name in names]
    kinds = [getattr(onnxruntime.OrtHardwareDeviceType, name) for name in provider.device_types]
    by_kind = ([device for device in offered if device.device.type == kind] for kind in kinds)
    devices = next((found for found in by_kind if found), [])
    if not devices:
        raise TargetUnavailable(
            f"{', '.join(sorted(names)) or choice.library.name} is there, but no {' or '.join(provider.device_types)} "
            "for it",
            choice.library.name,
            "edgex targets shows which check fails",
            why=f"it offers {', '.join(str(d.device.type).rpartition('.')[2] for d in offered) or 'no device'}",
        )
    index = int(choice.options.get("device_id", 0))
    if index >= len(devices):
        raise RunError(f"device_id={index}: there are {len(devices)} devices", fix="device_id counts from 0")
    device = devices[index]
    texts = provider.option_texts({key: v for key, v in choice.options.items() if key != "device_id"}, "plugin")
    options.add_provider_for_devices([device], texts)
    return device.ep_name, _create(onnxruntime, model, options, device.ep_name)


def _create(onnxruntime: Any, model: str | bytes, options: Any, name: str, **arguments: Any) -> Any:
    try:
        return onnxruntime.InferenceSession(model, options, **arguments)
    except Exception as error:  # ONNX Runtime's exception classes have no common public base
        text = str(error)
        if "fallback to CPU EP has been explicitly disabled" in text:
            raise RunError(
                f"{name} does not take every operator of the model, and the rest may not run on the CPU",
                fix="--allow-fallback runs the rest on the CPU and says how much of it",
            ) from error
        raise RunError(f"{name} cannot load the model", why=text, fix="edgex explain with the line above") from error


def _read_assignment(session: Any) -> Mapping[str, int] | None:
    """Nodes by provider, those with most first; None where this build does not tell."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return None
    counts: dict[str, int] = {}
    for part in session.get_provider_graph_assignment_info():
        counts[part.ep_name] = counts.get(part.ep_name, 0) + len(part.get_nodes())
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _check(opened: OpenedSession, expected: str, choice: ProviderChoice) -> None:
    """What the session reports against what was asked for; the guards alone are not trusted."""
    if choice.allow_fallback:
        if opened.nodes is None:
            raise RunError(
                "this build of ONNX Runtime cannot tell which provider runs which node",
                fix="leave --allow-fallback out, or use ONNX Runtime 1.24 or newer",
            )
        return
    others = {name for name in opened.nodes or {} if name != expected}
    if opened.providers[:1] != (expected,) or others:
        raise RunError(
            f"the session was to run on {expected} alone and does not",
            why=f"providers: {', '.join(opened.providers)}; nodes on: {', '.join(opened.nodes or {}) or 'none'}",
            fix="this should be impossible with both guards on: please report it with edgex doctor --json",
        )
