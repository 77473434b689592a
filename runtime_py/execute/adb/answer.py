"""The app's answer, document `edgex.device-answer/1`: unpacked, and compared with what was asked.

On its way it is JSON, compressed with zlib, in base64. An answer to another run, or about another model, is refused.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any

from edgex.errors import DeviceError, EdgexError, RunError
from edgex.runtime.engines.executorch.errors import explain_error
from edgex.runtime.support.json.reading import parse_json
from edgex.runtime.support.printable import escape_document

SCHEMA = "edgex.device-answer/1"
ERROR_SCHEMA = "edgex.device-error/1"

# Version of the protocol between edgex and the app: tasks, job.json, this document.
PROTOCOL = 1

# How large an answer may become: a hundred thousand samples are two MiB.
_MAX_BYTES = 64 * 2**20


def unpack(text: str, where: str) -> dict[str, Any]:
    """The document that came in pieces through `am instrument`.

    Raises:
        DeviceError: It is damaged.
    """
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.b64decode(text, validate=True), _MAX_BYTES)
        if not unpacker.eof:
            raise ValueError("it is cut off, or too large")
        return _object(content)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise damaged(where, str(error)) from error


def parse(content: bytes, where: str) -> dict[str, Any]:
    """The document that came as a file.

    Raises:
        DeviceError: It is damaged.
    """
    try:
        return _object(content)
    except ValueError as error:
        raise damaged(where, str(error)) from error


def damaged(where: str, why: str) -> DeviceError:
    """The error for an answer that cannot be read."""
    return DeviceError("the device's answer is damaged", where, "run the command again", why=why)


def require_run(document: Mapping[str, Any], run_id: str, where: str) -> None:
    """Refuse an answer that is not this run's, and raise the app's own refusal.

    Raises:
        DeviceError: It belongs to another run, or is of an unknown schema; or the app could not do what was asked.
        RunError: The engine refused.
    """
    schema = document.get("schema")
    if schema not in (SCHEMA, ERROR_SCHEMA):
        raise DeviceError(
            f"the device's answer is of schema {schema!r}, not {SCHEMA!r}", where,
            "build the app with this edgex: edgex android",
        )  # fmt: skip
    if document.get("run_id") != run_id:
        raise DeviceError(
            f"the device answered for another run: {document.get('run_id')!r} instead of {run_id!r}",
            where,
            "run the command again, and nothing else on the device meanwhile",
        )
    if schema == ERROR_SCHEMA:
        raise refusal(document.get("kind"), document.get("message"), where)


def refusal(kind: Any, message: Any, where: str) -> EdgexError:
    """The error for what the app refused: the engine's refusals are RunError, as they are on this machine."""
    said = str(message or "it does not say why")
    if kind == "engine":
        # The app says what the code means; the fix of the entry here is for this machine.
        known = explain_error(said)
        return RunError(
            "ExecuTorch on the device refused", where, None if known is None else f"edgex explain {known[0]}", why=said
        )
    if kind == "digest":
        return DeviceError("the model on the device is not the one that was sent", where, "run it again", why=said)
    if kind == "space":
        return DeviceError("the device has no room left", where, "free some space on the device", why=said)
    return DeviceError("the app on the device could not do it", where, "adb logcat may say more", why=said)


def require_model(document: Mapping[str, Any], sha256: str, where: str) -> str:
    """The digest of the model that ran, if it is the wanted one.

    Raises:
        DeviceError: It is not.
    """
    found = str(document.get("model_sha256"))
    if found != sha256:
        raise DeviceError(
            f"another model ran on the device: SHA-256 {found[:12]}…, asked for was {sha256[:12]}…",
            where,
            "run the command again: the model is sent anew",
        )
    return found


def _object(content: bytes) -> dict[str, Any]:
    document = escape_document(parse_json(content))
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return document
