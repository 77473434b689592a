"""`manifest.json`: what an artifact is, needs, contains and has proved. Format `edgex.artifact/1`.

```
{"format": "edgex.artifact/1", "name": "digits", "target": "xnnpack", "engine": "executorch",
 "precision": "fp32", "quantization": null,
 "methods": [{"name": "forward", "inputs": [TensorSpec…], "outputs": [TensorSpec…], "state": [StateSpec…]}],
 "files": [{"path": "model.pte", "bytes": 159232, "sha256": "…"}],         # every file but this one, sorted by path
 "producer": {"edgex": "0.1.0", "torch": "2.13.0", …},
 "delegation": {"fraction": 1.0, …}, "verification": {"passed": true, …},
 "status": "verified", "status_reason": null,          # or "simulated", "assembled", with a reason
 "requirements": {"engine": "executorch", "minimum_version": "1.5", "isa": [], "plugins": []},
 "rewrites": […], "options": {…}, "settings": {"exclude": [], "rewrite": true},
 "model": {"source": "digits.py:get_model", "parameters": 9098, "card": {…}},
 "llm": {…}}                                                               # language models: see `LanguageModel`
```

A method whose entry in the native file has another name says so: `"native": "forward"`. Several methods may share one.
Where each has a native file of its own, it names that: `"file": "encode.onnx"`. `"by_size": true` says that the methods
are one model at several fixed sizes, of which a Session takes the one that its inputs have.

No durations, no timestamps, no absolute paths: two exports of one model give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from edgex.errors import ArtifactError, RunError, nearest_name
from edgex.runtime.artifact.language_model import POSITION, TOKENS, LanguageModel
from edgex.runtime.artifact.shapes import MANIFEST, PROVED
from edgex.runtime.artifact.specs import StateSpec, TensorSpec
from edgex.runtime.support.json.reading import parse_json

FORMAT = "edgex.artifact/1"
MANIFEST_FILE = "manifest.json"
PROCESSOR_FOLDER = "processor"
# Folders that no engine loads anything from.
_BESIDE = ("golden/", "debug/", f"{PROCESSOR_FOLDER}/")
# Who runs the built-in targets. A file must not choose another engine than the one that its target was proved on.
ENGINES = {
    "aoti": "aoti",
    "xnnpack": "executorch",
    "onednn": "executorch",
    "onnx-cpu": "onnxruntime",
    "onnx-qnn": "onnxruntime",
    "onnx-rocm": "onnxruntime",
    "openvino": "openvino",
    "litert": "litert",
    "coreai": "coreai",
    "reference": "torch",
}


@dataclass(frozen=True)
class FileEntry:
    """One file of the artifact: path relative to its folder, with `/`, size in bytes, SHA-256 in hex."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Method:
    """One callable of the native file.

    Attributes:
        name: `forward` for ordinary models.
        inputs: What the caller gives, in call order.
        outputs: What the caller gets, in order.
        state: What the Session carries between runs; methods of one artifact share what has one name.
        native: The entry of the native file; None where it has the method's name.
        file: The native file that holds it; None where all methods are in one.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    state: tuple[StateSpec, ...] = ()
    native: str | None = None
    file: str | None = None

    @property
    def entry(self) -> str:
        """What the native file calls it."""
        return self.native or self.name

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields as they are named here."""
        return {
            "name": self.name,
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
            "state": [spec.to_json() for spec in self.state],
            **({} if self.native is None else {"native": self.native}),
            **({} if self.file is None else {"file": self.file}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Method:
        """The inverse of `to_json`."""
        return cls(
            str(data["name"]),
            tuple(TensorSpec.from_json(spec) for spec in data["inputs"]),
            tuple(TensorSpec.from_json(spec) for spec in data["outputs"]),
            tuple(StateSpec.from_json(spec) for spec in data["state"]),
            data.get("native"),
            data.get("file"),
        )


@dataclass(frozen=True)
class Requirements:
    """What the machine that runs the artifact must have.

    Attributes:
        engine: Name of the engine.
        minimum_version: Oldest version of the engine's package that is known to run it, for example `1.5`.
        isa: Instruction sets that must be present, for example `avx512_bf16`.
        plugins: Libraries that the engine must load first.
    """

    engine: str
    minimum_version: str | None = None
    isa: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`; see the module's docstring for each field.

    `edited` is no part of it: whether the text that was read had another checksum than its content, so that somebody
    changed it after the export. It says nothing of malice, which would have changed the checksum too. Nor is
    `selected`: the name of the method that is meant where any could be; None is the first.
    """

    name: str
    target: str
    engine: str
    precision: str
    methods: tuple[Method, ...]
    files: tuple[FileEntry, ...]
    producer: Mapping[str, str]
    delegation: Mapping[str, Any]
    requirements: Requirements
    quantization: Mapping[str, Any] | None = None
    verification: Mapping[str, Any] | None = None
    status: str = "assembled"
    status_reason: str | None = None
    rewrites: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    llm: LanguageModel | None = None
    by_size: bool = False
    edited: bool = False
    selected: str | None = None

    @property
    def method(self) -> Method:
        """The method that a Session runs: the selected one, else the first, which is `forward` in most artifacts."""
        return self.methods[0] if self.selected is None else self.find_method(self.selected)

    @property
    def language_method(self) -> LanguageModel | None:
        """What bounds tokens and positions of the method that is meant; None where it takes others, as an encoder."""
        return self.llm if self.llm is not None and self.method.name in (self.llm.prefill, self.llm.decode) else None

    def find_method(self, name: str) -> Method:
        """The method of a name.

        Raises:
            RunError: There is none.
        """
        for method in self.methods:
            if method.name == name:
                return method
        known = [method.name for method in self.methods]
        raise RunError(f"the artifact {self.name} has no method {name!r}", why=nearest_name(name, known))

    def select(self, name: str | None) -> Manifest:
        """The same with another method that is meant; None leaves it.

        Raises:
            RunError: There is no such method.
        """
        return self if name is None else replace(self, selected=self.find_method(name).name)

    @property
    def native_files(self) -> tuple[FileEntry, ...]:
        """What the engine loads: neither golden data nor what leads back to the source."""
        return tuple(entry for entry in self.files if not entry.path.startswith(_BESIDE))

    @property
    def model_bytes(self) -> int:
        """Size of the native files: what a device has to hold."""
        return sum(entry.bytes for entry in self.native_files)

    @property
    def golden_bytes(self) -> int:
        """Size of the proof's inputs and answers."""
        return sum(entry.bytes for entry in self.files if entry.path.startswith("golden/"))

    @property
    def total_bytes(self) -> int:
        """Size of the whole artifact, this document included."""
        return sum(entry.bytes for entry in self.files) + len(self.dumps().encode())

    @property
    def recipe(self) -> str | None:
        """What it is quantized to, for example `int8`; None for float artifacts."""
        return None if self.quantization is None else str(self.quantization["recipe"])

    def file(self, suffix: str) -> FileEntry:
        """The file of the method that is meant, where it has its own; else the first whose path ends with `suffix`.

        Raises:
            ArtifactError: There is none.
        """
        own = self.method.file
        for entry in self.files:
            if entry.path.endswith(suffix) and (own is None or not own.endswith(suffix) or entry.path == own):
                return entry
        raise ArtifactError(f"the artifact has no {suffix} file", fix="export the model again")

    def to_json(self) -> dict[str, Any]:
        """The document, in the order in which it is written."""
        return {
            "format": FORMAT,
            "name": self.name,
            "target": self.target,
            "engine": self.engine,
            "precision": self.precision,
            "quantization": self.quantization,
            "methods": [method.to_json() for method in self.methods],
            "files": [asdict(entry) for entry in self.files],
            "producer": dict(self.producer),
            "delegation": dict(self.delegation),
            "verification": self.verification,
            "status": self.status,
            "status_reason": self.status_reason,
            "requirements": {
                **asdict(self.requirements),
                "isa": list(self.requirements.isa),
                "plugins": list(self.requirements.plugins),
            },
            "rewrites": [dict(rewrite) for rewrite in self.rewrites],
            "options": dict(self.options),
            "settings": dict(self.settings),
            "model": dict(self.model),
            **({} if self.llm is None else {"llm": self.llm.to_json()}),
            **({"by_size": True} if self.by_size else {}),
        }

    def dumps(self) -> str:
        """The text of `manifest.json`, with a checksum of its content at the end."""
        document = self.to_json()
        document["checksum"] = _checksum(document)
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def parse_manifest(text: bytes | str, where: str) -> Manifest:
    """Read a manifest.

    Args:
        text: Content of `manifest.json`.
        where: The artifact, for error messages.

    Raises:
        ArtifactError: It is not JSON, not a manifest, or of a format that this version does not know.
    """
    again = "export the model again, or copy the artifact again from where it came"
    try:
        data = parse_json(text)
    except ValueError as error:
        raise ArtifactError("manifest.json is not valid JSON", where, again, why=str(error)) from error
    if not isinstance(data, dict) or not isinstance(data.get("format"), str):
        raise ArtifactError("manifest.json is not an edgex manifest: it has no `format`", where, again)
    if data["format"] != FORMAT:
        maker = (
            data.get("producer", {}).get("edgex", "another version") if isinstance(data.get("producer"), dict) else "?"
        )
        raise ArtifactError(
            f"the artifact's format is {data['format']!r}; this edgex reads {FORMAT!r}",
            where,
            f"install the edgex that wrote it ({maker}) or export the model again with this one",
        )
    try:
        MANIFEST.check(data, "the manifest")
        _check_together(data)
    except ValueError as error:
        raise ArtifactError("manifest.json is damaged", where, again, why=str(error)) from error
    required = data["requirements"]
    return Manifest(
        name=data["name"],
        target=data["target"],
        engine=data["engine"],
        precision=data["precision"],
        quantization=data["quantization"],
        methods=tuple(Method.from_json(method) for method in data["methods"]),
        files=tuple(FileEntry(f["path"], f["bytes"], f["sha256"]) for f in data["files"]),
        producer=data["producer"],
        delegation=data["delegation"],
        verification=data["verification"],
        status=data["status"],
        status_reason=data["status_reason"],
        requirements=Requirements(
            required["engine"], required["minimum_version"], tuple(required["isa"]), tuple(required["plugins"])
        ),
        rewrites=data["rewrites"],
        options=data["options"],
        model=data["model"],
        settings=data.get("settings", {}),
        llm=None if data.get("llm") is None else LanguageModel.from_json(data["llm"]),
        by_size=data.get("by_size", False),
        edited="checksum" in data and data["checksum"] != _checksum(data),
    )


def _checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of what a document says, whatever its layout; its own `checksum` does not count."""
    said = json.loads(json.dumps({key: value for key, value in document.items() if key != "checksum"}))
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _check_together(data: Mapping[str, Any]) -> None:
    """What must fit together in a manifest of the right shape."""
    target, engine = data["target"], data["engine"]
    if ENGINES.get(target, engine) != engine or data["requirements"]["engine"] != engine:
        raise ValueError(f"its target is {target!r}, which {engine!r} does not run")
    found = set(PROVED) & set(data["verification"] or ())
    if found and found != set(PROVED):
        raise ValueError(f"its verification has no {min(set(PROVED) - found)!r}")
    _refuse_twice("file", (entry["path"].lower() for entry in data["files"]))
    _refuse_twice("method", (method["name"] for method in data["methods"]))
    if data.get("llm") is not None:
        _check_language_model(data["llm"], {method["name"]: method for method in data["methods"]})
    if data.get("by_size"):
        _check_sizes(data["methods"])
    files = {entry["path"] for entry in data["files"]}
    for method in data["methods"]:
        if files and method.get("file") is not None and method["file"] not in files:
            raise ValueError(f"its method {method['name']!r} is in {method['file']!r}, which is not there")
        for group in ("inputs", "outputs", "state"):
            _refuse_twice(f"entry of {group}", (spec["name"] for spec in method[group]))
        for spec in method["inputs"] + method["outputs"]:
            for dim in spec["shape"]:
                if isinstance(dim, dict) and dim["min"] > dim["max"]:
                    raise ValueError(f"{spec['name']!r} has a dimension of {dim['min']}..{dim['max']}")


def _check_language_model(llm: Mapping[str, Any], methods: Mapping[str, Mapping[str, Any]]) -> None:
    """Its methods are there, and take and give what language models take and give."""
    for name in (llm["prefill"], llm["decode"]):
        if name not in methods:
            raise ValueError(f"its llm names a method {name!r}, which is not there")
        inputs, outputs = methods[name]["inputs"], methods[name]["outputs"]
        if [(spec["name"], spec["dtype"], len(spec["shape"])) for spec in inputs] != [
            (TOKENS, "int64", 2),
            (POSITION, "int64", 1),
        ]:
            raise ValueError(f"its method {name!r} does not take {TOKENS} and {POSITION}")
        if [spec["shape"] for spec in outputs] != [[1, llm["vocabulary"]]]:
            raise ValueError(f"its method {name!r} does not give scores of {llm['vocabulary']} tokens")
    if llm.get("encode") is not None and llm["encode"] not in methods:
        raise ValueError(f"its llm names a method {llm['encode']!r}, which is not there")
    if llm["chunk"] > llm["context"]:
        raise ValueError(f"its chunk of {llm['chunk']} is larger than its context of {llm['context']}")
    if any(token >= llm["vocabulary"] for token in (*llm["eos"], *llm.get("start", ()), llm["bos"] or 0)):
        raise ValueError("it begins or ends texts with a token outside its vocabulary")


def _check_sizes(methods: Sequence[Mapping[str, Any]]) -> None:
    """Methods of which one is chosen by its sizes take the same inputs, each with other fixed sizes."""
    shapes = []
    for method in methods:
        specs = method["inputs"]
        if [(s["name"], s["dtype"], len(s["shape"])) for s in specs] != [
            (s["name"], s["dtype"], len(s["shape"])) for s in methods[0]["inputs"]
        ]:
            raise ValueError(f"its method {method['name']!r} takes other inputs, and is chosen by their sizes")
        if any(isinstance(dim, dict) for spec in specs for dim in spec["shape"]):
            raise ValueError(f"its method {method['name']!r} has sizes that vary, and is chosen by fixed ones")
        shapes.append([spec["shape"] for spec in specs])
    if any(shape in shapes[:at] for at, shape in enumerate(shapes)):
        raise ValueError("two of its methods take the same sizes, by which one is chosen")


def _refuse_twice(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the {what} {name!r} is there twice")
        seen.add(name)
