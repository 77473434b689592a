"""The Kotlin class of one model: its inputs, outputs and sizes by their names, as Kotlin's own types.

All it does is in the library's `EdgeModel`; a class of thirty lines is what a caller reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgex.export.android.library.kotlin_names import make_class_name, make_names
from edgex.export.android.library.kotlin_text import wrap_call, wrap_doc

PACKAGE = "dev.edgex.model"
# dtype -> (Kotlin's array, the library's function that makes one of a tensor)
_ARRAYS = {
    "float32": ("FloatArray", "floats"),
    "float16": ("FloatArray", "floats"),
    "float64": ("DoubleArray", "doubles"),
    "int8": ("ByteArray", "bytes"),
    "uint8": ("ByteArray", "bytes"),
    "int32": ("IntArray", "ints"),
    "int64": ("LongArray", "longs"),
}
# What the class calls its own values in functions that take the inputs.
_TAKEN_NAMES = frozenset({"model", "found", "sizes", "count"})


class ModelClass:
    """What is written about one model, from the manifest of its library.

    Attributes:
        name: The class, for example `DigitsModel`.
        inputs: A name in Kotlin for each input.
        outputs: Likewise for each output.
        sizes: Names of dynamic dimensions -> their names in Kotlin.
        picture: The only input, where it is a picture.
        classifies: Whether an output has a score for each label.
        detects: Whether the model card says how boxes are coded.
        paints: Whether the model card says that an output is a picture.
        reads_text: Whether the library makes all inputs of a text.
        generates: Whether it is a language model.
        takes_prompts: Whether the library has its tokenizer.
    """

    def __init__(self, document: Mapping[str, Any], folder: str) -> None:
        self.document, self.folder = document, folder
        self.name = make_class_name(document["model"]["name"])
        self.inputs = make_names([entry["name"] for entry in document["inputs"]], _TAKEN_NAMES)
        self.outputs = make_names([entry["name"] for entry in document["outputs"]])
        dims = {d["name"]: None for entry in document["inputs"] for d in entry["shape"] if isinstance(d, dict)}
        self.sizes = dict(zip(dims, make_names(list(dims), {*self.inputs, *_TAKEN_NAMES, "picture"}), strict=True))
        inputs = document["inputs"]
        self.picture = inputs[0] if len(inputs) == 1 and inputs[0]["image"] is not None else None
        self.classifies = any(entry["activation"] for entry in document["outputs"])
        self.detects = document["detection"] is not None and self.picture is not None
        self.reads_text = document.get("text") is not None
        generation = document.get("generation")
        self.generates = generation is not None
        self.takes_prompts = generation is not None and generation["tokenizer"] is not None
        self.paints = self.picture is not None and any(entry["image"] for entry in document["outputs"])

    def write(self) -> str:
        """The file."""
        parts = [self._head(), self._outputs(), self._run()]
        parts += [self._run_text()] if self.reads_text else []
        parts += [self._generate()] if self.generates else []
        parts += [self._classify()] if self.classifies else []
        parts += [self._detect()] if self.detects else []
        parts += [self._paint()] if self.paints else []
        parts.append(self._tail())
        body = "\n\n".join(parts)
        return f"package {PACKAGE}\n\n{self._imports(body)}\n\n{body}\n"

    def _imports(self, body: str) -> str:
        found = {"android.content.Context", "java.io.Closeable"}
        found |= {f"{PACKAGE}.measure.{name}" for name in ("BenchmarkResult", "BenchmarkSettings", "ParityReport")}
        found |= {f"{PACKAGE}.tensor.{function}" for _, function in _ARRAYS.values() if f".{function}()" in body}
        found |= {f"{PACKAGE}.tensor.TensorData", f"{PACKAGE}.tensor.tensorOf"}
        found |= {"android.graphics.Bitmap"} if "Bitmap" in body else set()
        found |= {f"{PACKAGE}.image.Detection"} if self.detects else set()
        if self.generates:
            found |= {f"{PACKAGE}.text.{name}" for name in ("Sampling", "Token", "generate")}
            found |= {f"{PACKAGE}.text.idsOf"} if self.takes_prompts else set()
            found |= {"kotlinx.coroutines.flow.Flow", "kotlinx.coroutines.flow.flow"}
        return "\n".join(f"import {name}" for name in sorted(found))

    def _head(self) -> str:
        model = self.document["model"]
        about = (model["description"] or f"{model['name']}, on the device.").strip()
        # Neither may end the comment, nor begin one within it.
        about = about.replace("*/", "* /").replace("/*", "/ *")
        lines = [
            "/**",
            *(f" * {line}".rstrip() for line in about.splitlines()),
            " *",
            " * Any thread may call; one call runs after the other. The first one loads the model, [close] frees it.",
            f" * Written by edgex {self.document['versions']['edgex']} for {model['target']}, {model['precision']}.",
            " */",
            f"class {self.name}(context: Context, threads: Int = 0) : Closeable {{",
            f'    private val model = EdgeModel.open(context, "{self.folder}", threads)',
        ]
        if self.document["labels"]:
            lines += [
                "",
                "    /** Names of the classes, in the order of the scores. */",
                "    val labels: List<String> get() = model.manifest.labels",
            ]
        if self.generates:
            lines += [
                "",
                "    /** How the model's makers choose tokens; a copy with a seed gives the same text each time. */",
                "    val sampling: Sampling get() = model.generation.sampling",
            ]
        return "\n".join(lines)

    def _outputs(self) -> str:
        fields, notes = [], []
        for name, entry in zip(self.outputs, self.document["outputs"], strict=True):
            fields.append(f"val {name}: {_ARRAYS[entry['dtype']][0]}")
            notes.append(f"[{name}] is {describe_tensor(entry)}")
            if _is_dynamic(entry):
                fields.append(f"val {_shape_of(name)}: IntArray")
        doc = wrap_doc(f"What one run gave, in C order: {', '.join(notes)}.", "    ")
        return f"{doc}\n{wrap_call('    class Outputs', fields, '')}"

    def _run(self) -> str:
        inputs = self.document["inputs"]
        notes = [f"[{n}] is {describe_tensor(e)}" for n, e in zip(self.inputs, inputs, strict=True)]
        state = (
            " What the model keeps goes on from run to run, see [reset]." if self.document["model"]["stateful"] else ""
        )
        doc = wrap_doc(f"Runs once on values in C order: {', '.join(notes)}.{state}", "    ")
        lines = [doc, wrap_call("    suspend fun run", self.parameters(), ": Outputs {")]
        if self.reads_text:
            lines[-1] = wrap_call("    suspend fun run", self.parameters(), ": Outputs =")
            lines.append(f"        outputsOf(model.run({self._tensors()}).outputs)")
            lines += ["", "    private fun outputsOf(found: List<TensorData>): Outputs {"]
        else:
            lines.append(f"        val found = model.run({self._tensors()}).outputs")
        values = []
        for at, entry in enumerate(self.document["outputs"]):
            values.append(f"found[{at}].{_ARRAYS[entry['dtype']][1]}()")
            values += [f"found[{at}].shape"] if _is_dynamic(entry) else []
        return "\n".join([*lines, wrap_call("        return Outputs", values, ""), "    }"])

    def _run_text(self) -> str:
        lines = [
            wrap_doc("Runs once on a text, of which the tokenizer makes ids; cut at what the model takes.", "    "),
            "    suspend fun run(text: String): Outputs = outputsOf(model.run(model.tensorsOf(text)).outputs)",
        ]
        if self.classifies:
            lines += [
                "",
                "    /** The likeliest classes of a text. */",
                "    suspend fun classify(text: String, count: Int = 5): List<Guess> =",
                "        model.guesses(model.run(model.tensorsOf(text)), count)",
            ]
        return "\n".join(lines)

    def _generate(self) -> str:
        how = ["maxNew: Int = 128", "sampling: Sampling = this.sampling"]
        ends = "an id that ends texts, [maxNew] tokens, or no room for more"
        lines = [
            wrap_doc(
                "The tokens that follow a prompt of ids, each as soon as it is known, up to "
                f"{ends}. Each call begins a text, which ends any other; cancelling ends it between two tokens.",
                "    ",
            ),
            wrap_call("    fun generate", ["prompt: IntArray", *how], ": Flow<Token> ="),
            "        flow { model.generate(prompt.asList(), maxNew, sampling) { emit(it) } }",
        ]
        if self.takes_prompts:
            lines += [
                "",
                "    /** The same for a text; special tokens in it, such as those of a chat, are read as such. */",
                wrap_call("    fun generate", ["prompt: String", *how], ": Flow<Token> ="),
                "        flow { model.generate(model.idsOf(prompt), maxNew, sampling) { emit(it) } }",
            ]
        return "\n".join(lines)

    def parameters(self) -> list[str]:
        """Of `run`: an array for each input, then the sizes of dynamic dimensions."""
        entries = zip(self.inputs, self.document["inputs"], strict=True)
        return [f"{n}: {_ARRAYS[e['dtype']][0]}" for n, e in entries] + [f"{size}: Int" for size in self.sizes.values()]

    def _tensors(self) -> str:
        """The call of the private function that makes tensors of those parameters."""
        return f"tensors({', '.join([*self.inputs, *self.sizes.values()])})"

    def _make_tensors(self) -> str:
        made = []
        for name, entry in zip(self.inputs, self.document["inputs"], strict=True):
            made.append(f"{_input_of(entry)}.spec.tensorOf({name}{', sizes' if _is_dynamic(entry) else ''})")
        head = "    private fun tensors"
        if not self.sizes:
            opened = wrap_call(head, self.parameters(), ": List<TensorData> =")
            return f"{opened}\n{wrap_call('        listOf', made, '')}"
        lines = [wrap_call(head, self.parameters(), ": List<TensorData> {")]
        lines.append(f"        val sizes = mapOf({self._sizes(self.sizes)})")
        return "\n".join([*lines, wrap_call("        return listOf", made, ""), "    }"])

    def _sizes(self, names: Mapping[str, str]) -> str:
        return ", ".join(f'"{name}" to {kotlin}' for name, kotlin in names.items())

    def picture_sizes(self) -> dict[str, str]:
        """Names of the sizes that a picture leaves open -> their names in Kotlin; the batch is one."""
        shape = [] if self.picture is None else self.picture["shape"][1:]
        return {d["name"]: self.sizes[d["name"]] for d in shape if isinstance(d, dict)}

    def _picture_parameters(self) -> tuple[list[str], str]:
        """Parameters and arguments for what a picture leaves open."""
        names = self.picture_sizes()
        return [f"{kotlin}: Int" for kotlin in names.values()], f", mapOf({self._sizes(names)})" if names else ""

    def _classify(self) -> str:
        if self.picture is not None:
            parameters, sizes = self._picture_parameters()
            given = ["picture: Bitmap", *parameters, "count: Int = 5"]
            tensor = f"{_input_of(self.picture)}.tensorOf(picture{sizes})"
            return "\n".join(
                [
                    "    /** The likeliest classes of a picture, resized and normalised as the model card says. */",
                    wrap_call("    suspend fun classify", given, ": List<Guess> ="),
                    f"        model.guesses(model.run(listOf({tensor})), count)",
                ]
            )
        return "\n".join(
            [
                "    /** The likeliest classes, by the first row of scores. */",
                wrap_call("    suspend fun classify", [*self.parameters(), "count: Int = 5"], ": List<Guess> ="),
                f"        model.guesses(model.run({self._tensors()}), count)",
            ]
        )

    def _detect(self) -> str:
        assert self.picture is not None
        parameters, sizes = self._picture_parameters()
        return "\n".join(
            [
                "    /** What is in a picture, best first; boxes are in shares of its width and height. */",
                wrap_call("    suspend fun detect", ["picture: Bitmap", *parameters], ": List<Detection> {"),
                f"        val input = {_input_of(self.picture)}.tensorOf(picture{sizes})",
                "        return model.detections(model.run(listOf(input)), input)",
                "    }",
            ]
        )

    def _paint(self) -> str:
        assert self.picture is not None
        parameters, sizes = self._picture_parameters()
        return "\n".join(
            [
                "    /** The picture that the model makes of a picture. */",
                wrap_call("    suspend fun transform", ["picture: Bitmap", *parameters], ": Bitmap ="),
                f"        model.picture(model.run(listOf({_input_of(self.picture)}.tensorOf(picture{sizes}))))",
            ]
        )

    def _tail(self) -> str:
        reset = [
            "    /** Forgets what the model kept from the runs before. */",
            "    suspend fun reset() = model.reset()",
            "",
        ]
        return "\n".join(
            [
                *(reset if self.document["model"]["stateful"] else []),
                "    /** Loads the model now, rather than with the first run. */",
                "    suspend fun load() = model.load()",
                "",
                "    /** Whether this device computes what PyTorch did: replays the golden data of the export. */",
                "    suspend fun verifyOnDevice(): ParityReport = model.verifyOnDevice()",
                "",
                "    /** Load, first and steady latency and memory, on the golden data. */",
                "    suspend fun measure(settings: BenchmarkSettings = BenchmarkSettings()): BenchmarkResult = "
                "model.measure(settings)",
                "",
                "    override fun close() = model.close()",
                "",
                self._make_tensors(),
                "}",
            ]
        )


def describe_tensor(entry: Mapping[str, Any]) -> str:
    """For people: `float32[batch 1..8, 3]`."""
    dims = [d if isinstance(d, int) else f"{d['name']} {d['min']}..{d['max']}" for d in entry["shape"]]
    return f"{entry['dtype']}[{', '.join(map(str, dims))}]"


def _input_of(entry: Mapping[str, Any]) -> str:
    name = entry["name"].replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'model.input("{name}")'


def _is_dynamic(entry: Mapping[str, Any]) -> bool:
    return any(isinstance(dim, dict) for dim in entry["shape"])


def _shape_of(name: str) -> str:
    return f"{name.strip('`')}Shape"
