"""The bill of materials is valid CycloneDX 1.7, says what is in the artifact, and is the same each time."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.supply.sbom import make_sbom


@pytest.fixture(params=["xnnpack", "onnx-cpu", "reference"])
def artifact(exported, request):
    return open_artifact(exported("convnet", request.param))


def test_it_is_valid(artifact):
    """By the library's own copy of the schema: no network."""
    errors = JsonStrictValidator(SchemaVersion.V1_7).validate_str(json.dumps(make_sbom(artifact)))
    assert errors is None, errors


def test_the_schema_refuses_what_is_wrong(exported):
    document = make_sbom(open_artifact(exported("convnet", "onnx-cpu")))
    document["metadata"]["component"]["modelCard"]["accuracy"] = 1
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(json.dumps(document)) is not None


def test_it_says_what_is_in_the_artifact(artifact):
    document = make_sbom(artifact)
    parts = {part["bom-ref"]: part for part in document["components"]}
    for entry in artifact.manifest.files:
        (digest,) = parts[f"file:{entry.path}"]["hashes"]
        assert digest == {"alg": "SHA-256", "content": hash_file(artifact.path / entry.path)}
    for name, version in artifact.manifest.producer.items():
        assert parts[f"pypi:{name}"]["version"] == version
    model = document["metadata"]["component"]
    metrics = model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    example = artifact.manifest.verification["cases"][0]
    assert {"type": "verdict", "value": example["verdict"], "slice": f"example, {example['output']}"} in metrics
    assert {"type": "sqnr_db", "value": f"{example['sqnr_db']:g}", "slice": f"example, {example['output']}"} in metrics
    assert document["dependencies"][0]["dependsOn"] == sorted(parts)


def test_an_engine_has_its_licence_and_the_hashes_of_its_libraries(exported):
    parts = {part["name"]: part for part in make_sbom(open_artifact(exported("convnet", "onnx-cpu")))["components"]}
    engine = parts["onnxruntime"]
    assert "MIT" in json.dumps(engine["licenses"])
    import onnxruntime

    libraries = {library["name"]: library["hashes"][0]["content"] for library in engine["components"]}
    name = next(name for name in libraries if "pybind11_state" in name)
    assert libraries[name] == hash_file(Path(onnxruntime.__file__).parent.parent / name)


def test_another_version_than_the_installed_one_is_not_described_by_it(exported):
    artifact = open_artifact(exported("convnet", "onnx-cpu"))
    producer = {**artifact.manifest.producer, "onnxruntime": "1.0.0", "nowhere": "2"}
    found = make_sbom(replace(artifact, manifest=replace(artifact.manifest, producer=producer)))
    parts = {part["name"]: part for part in found["components"]}
    assert "licenses" not in parts["onnxruntime"] and "components" not in parts["onnxruntime"]
    assert parts["nowhere"]["properties"] == [{"name": "edgex:installed", "value": "no"}]


def test_it_is_the_same_each_time(artifact):
    assert json.dumps(make_sbom(artifact)) == json.dumps(make_sbom(open_artifact(artifact.path)))
