"""A bill of materials of an artifact, as CycloneDX 1.7 has it for machine learning (ECMA-424).

The model is a component with a model card, its files are components with their hashes, and so are the packages that
made it. The same artifact in the same environment gives the same document: no date, and a serial number made of it.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from edgex._version import __version__
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import FileEntry
from edgex.runtime.artifact.specs import TensorSpec

SPECIFICATION = "1.7"
_SCHEMA = "http://cyclonedx.org/schema/bom-1.7.schema.json"

# Of a package: what runs the native file. Its Python files are listed by its own record.
_LIBRARIES = (".so", ".dylib", ".pyd")


def make_sbom(artifact: Artifact) -> dict[str, Any]:
    """The document.

    Args:
        artifact: Opened; its hashes are those of its manifest.
    """
    manifest = artifact.manifest
    packages = [_describe_package(name, version) for name, version in sorted(manifest.producer.items())]
    files = [_describe_file(entry) for entry in manifest.files]
    model = _describe_model(artifact)
    document: dict[str, Any] = {
        "$schema": _SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "edgex", "version": __version__}]},
            "component": model,
        },
        "components": [*files, *packages],
        "dependencies": [
            {"ref": model["bom-ref"], "dependsOn": sorted(part["bom-ref"] for part in (*files, *packages))},
            *({"ref": part["bom-ref"]} for part in (*files, *packages)),
        ],
    }
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document))}"
    return document


def _describe_model(artifact: Artifact) -> dict[str, Any]:
    """The artifact as a model with its card: what goes in and out, and what its proof has measured."""
    manifest = artifact.manifest
    verification = manifest.verification or {}
    parameters: dict[str, Any] = {
        "inputs": [{"format": _format(spec)} for spec in manifest.method.inputs],
        "outputs": [{"format": _format(spec)} for spec in manifest.method.outputs],
    }
    return {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": manifest.name,
        "version": artifact.digest[:16],
        "hashes": [{"alg": "SHA-256", "content": artifact.digest}],
        "modelCard": {
            "bom-ref": "model-card",
            "modelParameters": parameters,
            "quantitativeAnalysis": {"performanceMetrics": _list_metrics(verification)},
        },
        "properties": _properties(
            {
                "target": manifest.target,
                "engine": manifest.engine,
                "precision": manifest.precision,
                "recipe": manifest.recipe,
                "status": manifest.status,
                "parameters": manifest.model.get("parameters"),
                "executed_on": verification.get("executed_on"),
                "verified_on": verification.get("verified_on"),
            }
        ),
    }


def _list_metrics(verification: Mapping[str, Any]) -> list[dict[str, str]]:
    """The proof's figures, each with the case and output that it is of."""
    found: list[dict[str, str]] = []
    for case in verification.get("cases", ()):
        part = f"{case['name']}, {case['output']}" if case["output"] else case["name"]
        if case.get("reference", "eager") != "eager":
            part += " (against the quantized program)"
        for name in ("max_abs_error", "sqnr_db"):
            if case[name] is not None:
                found.append({"type": name, "value": f"{case[name]:g}", "slice": part})
        found.append({"type": "verdict", "value": case["verdict"], "slice": part})
    return found


def _describe_file(entry: FileEntry) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": f"file:{entry.path}",
        "name": entry.path,
        "hashes": [{"alg": "SHA-256", "content": entry.sha256}],
        "properties": _properties({"bytes": entry.bytes}),
    }


def _describe_package(name: str, version: str) -> dict[str, Any]:
    """A package that made the artifact; licence and libraries where the same version is installed here."""
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": f"pypi:{name}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower()}@{version.replace('+', '%2B')}",
    }
    try:
        found = metadata.distribution("edgex-toolchain" if name == "edgex" else name)
    except metadata.PackageNotFoundError:
        return component | {"properties": _properties({"installed": "no"})}
    if found.version != version:
        return component | {"properties": _properties({"installed": found.version})}
    licences = _read_licences(found.metadata)
    libraries = [
        {"type": "file", "name": str(file), "hashes": [{"alg": "SHA-256", "content": _as_hex(file.hash.value)}]}
        for file in sorted(found.files or (), key=str)
        if file.hash is not None and file.hash.mode == "sha256" and _is_library(file.name)
    ]
    return component | ({"licenses": licences} if licences else {}) | ({"components": libraries} if libraries else {})


def _is_library(name: str) -> bool:
    return name.endswith(_LIBRARIES) or ".so." in name


def _as_hex(value: str) -> str:
    """A hash of a wheel's record: base64 for URLs, without padding."""
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()


def _read_licences(found: metadata.PackageMetadata) -> list[dict[str, Any]]:
    """As the package says: an SPDX expression, or the names that it gives."""
    expressions = found.get_all("License-Expression") or []
    if expressions:
        return [{"expression": str(expressions[0])}]
    names = [
        entry.rpartition("::")[2].strip()
        for entry in found.get_all("Classifier") or ()
        if entry.startswith("License ::")
    ]
    text = "".join(map(str, found.get_all("License") or [])).strip()
    if not names and text and "\n" not in text:
        names = [text]
    return [{"license": {"name": name}} for name in sorted(set(names))]


def _format(spec: TensorSpec) -> str:
    """`x: float32[batch=1..8,3]`."""
    return f"{spec.name}: {spec.dtype}[{','.join(map(str, spec.shape))}]"


def _properties(values: Mapping[str, object]) -> list[dict[str, str]]:
    return [{"name": f"edgex:{name}", "value": str(value)} for name, value in values.items() if value is not None]
