"""The library's README: how to bring it into an existing app, in ten lines of Kotlin, and what it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgex.export.android.engine.app_engine import AppEngine
from edgex.export.android.library.kotlin_class import PACKAGE, ModelClass, describe_tensor

# What the view model of the example stands on.
_IMPORTS = (
    "android.app.Application",
    "androidx.lifecycle.AndroidViewModel",
    "androidx.lifecycle.viewModelScope",
    "kotlinx.coroutines.launch",
)

_TEXT = """\
# {class_name}: `{name}` as an Android library

{about}

The model runs on the device, with {engine}, without network or permission. Your code calls one class, `{class_name}`.

## In an existing app

1. Copy this folder into the project as `{module}`, and name it in `settings.gradle.kts`: `include(":{module}")`.
2. In the app's `build.gradle.kts`:

```kotlin
android {{
    defaultConfig {{ ndk {{ abiFilters += listOf({abis}) }} }} // 64-bit, as the model was proved
{packaging}    androidResources {{ noCompress += listOf("{suffix}", "bin") }} // loads faster the first time
}}
dependencies {{ implementation(project(":{module}")) }}
```

3. Call it from a coroutine, here in a view model (`androidx.lifecycle:lifecycle-viewmodel-ktx`, which most apps have):

```kotlin
{imports}

class {stem}ViewModel(application: Application) : AndroidViewModel(application) {{
    private val model = {class_name}(application)

{use}

    override fun onCleared() = model.close()
}}
```

The project needs Android's Gradle plugin 9 or later, which compiles Kotlin itself; with 8, add `kotlin("android")` to
this module's plugins. `./gradlew :{module}:assembleRelease` writes an AAR for other builds; an app that takes the AAR
alone also needs the dependency that `build.gradle.kts` names.

## Calls

| call | does |
|---|---|
{calls}

## Inputs and outputs

Arrays in C order (the last dimension varies fastest):

| | name | holds |
|---|---|---|
{tensors}
{scores}
## Threads and errors

Call it from any thread: runs happen one after the other on a thread of the library's own, and none blocks its caller. A
run that has begun is finished, also where its coroutine was cancelled. Values that do not fit the model throw a
`TensorException` with the input's name; what {engine} refuses is an `EngineException` that says why.

## A second model in the same app

Generate it with `edgex android --library-only`, and copy its class and its folder in `src/main/assets/edgex` into this
module; the other sources are the same for every model of one version of edgex.
"""

_PACKAGING = "    packaging { jniLibs { useLegacyPackaging = true } } // QNN reads its libraries as files\n"


def write_readme(model: ModelClass, module: str, engine: AppEngine) -> str:
    """The README of a library.

    Args:
        model: What is written about the model.
        module: The library's name in a Gradle project.
        engine: What runs the model.
    """
    document = model.document
    rows = [
        f"| {kind} | `{name}` | `{describe_tensor(entry)}` |"
        for kind, names, entries in (
            ("input", model.inputs, document["inputs"]),
            ("output", model.outputs, document["outputs"]),
        )
        for name, entry in zip(names, entries, strict=True)
    ]
    use, imported = _show_use(model)
    return _TEXT.format(
        name=document["model"]["name"],
        about=document["model"]["description"] or _describe_origin(document),
        engine=engine.label,
        class_name=model.name,
        module=module,
        suffix=engine.suffix[1:],
        abis=", ".join(f'"{abi}"' for abi in engine.abis),
        packaging=_PACKAGING if engine.provider is not None else "",
        stem=_stem(model),
        imports="\n".join(f"import {name}" for name in sorted({*_IMPORTS, f"{PACKAGE}.{model.name}", *imported})),
        use=use,
        calls="\n".join(f"| `{call}` | {does} |" for call, does in _list_calls(model)),
        tensors="\n".join(rows),
        scores=_describe_scores(model),
    )


def _stem(model: ModelClass) -> str:
    return model.name.removesuffix("Model")


def _describe_origin(document: Mapping[str, Any]) -> str:
    model, edgex = document["model"], document["versions"]["edgex"]
    return f"Exported from PyTorch and proved by edgex {edgex}, for {model['target']} in {model['precision']}."


def _describe_scores(model: ModelClass) -> str:
    """What the scores of classes are, which decides what may be done with them."""
    lines = []
    for name, entry in zip(model.outputs, model.document["outputs"], strict=True):
        if entry["activation"] == "logits":
            lines.append(
                f"`{name}` holds logits, one for each label: `classify` makes probabilities of them with a softmax, "
                "`run` gives them as they are."
            )
        elif entry["activation"]:
            lines.append(
                f"`{name}` holds probabilities, one for each label: `classify` and `run` give them as they are."
            )
    return "".join(f"\n{line}\n" for line in lines)


def _show_use(model: ModelClass) -> tuple[str, set[str]]:
    """A function of a view model that does what the model is for, and what it imports."""
    imported = {"android.util.Log"}
    tag = f'"{_stem(model)}"'
    if model.picture is not None and (model.detects or model.classifies or model.paints):
        imported.add("android.graphics.Bitmap")
        parameters = ["picture: Bitmap", *(f"{size}: Int" for size in model.picture_sizes().values())]
        given = ", ".join(["picture", *model.picture_sizes().values()])
    else:
        parameters, given = model.parameters(), ", ".join([*model.inputs, *model.sizes.values()])
    if model.generates:
        verb, parameters = "write", ["prompt: String" if model.takes_prompts else "prompt: IntArray"]
        shown = '"${it.text}"' if model.takes_prompts else '"${it.id} "'
        lines = [f"model.generate(prompt).collect {{ Log.i({tag}, {shown}) }}"]
    elif model.detects:
        verb = "detect"
        lines = [f'model.detect({given}).forEach {{ Log.i({tag}, "${{it.label}} at ${{it.left}}, ${{it.top}}") }}']
    elif model.classifies:
        verb = "classify"
        lines = [
            f"val best = model.classify({given}).first()",
            f'Log.i({tag}, "${{best.label}}: ${{best.probability}}")',
        ]
    elif model.paints:
        verb = "transform"
        lines = [f"val made = model.transform({given})", f'Log.i({tag}, "${{made.width}} x ${{made.height}} pixels")']
    else:
        verb, output = "run", model.outputs[0]
        lines = [
            f"val found = model.run({given}).{output}",
            f'Log.i({tag}, "${{found.size}} values, the first is ${{found[0]}}")',
        ]
    body = "\n".join(f"        {line}" for line in lines)
    return f"    fun {verb}({', '.join(parameters)}) = viewModelScope.launch {{\n{body}\n    }}", imported


def _list_calls(model: ModelClass) -> list[tuple[str, str]]:
    runs = ", ".join([*model.inputs, *model.sizes.values()])
    seen = ", ".join(["picture", *model.picture_sizes().values()])
    calls = [(f"run({runs})", "runs once, on arrays")]
    if model.classifies:
        given = seen if model.picture is not None else runs
        calls.append(
            (f"classify({given}, count = 5)", "the likeliest classes: `index`, `label` and `probability` of each")
        )
    if model.detects:
        calls.append((f"detect({seen})", "what is in a picture: `label`, `score` and a box for each"))
    if model.paints:
        calls.append((f"transform({seen})", "the picture that the model makes of a picture"))
    if model.reads_text:
        calls.append(("run(text)", "runs once on a text, which the tokenizer of the export makes ids of"))
        calls += [("classify(text, count = 5)", "the likeliest classes of a text")] if model.classifies else []
    if model.generates:
        what = "text or ids" if model.takes_prompts else "ids"
        calls.append(("generate(prompt, maxNew, sampling)", f"a `Flow` of the tokens that follow a prompt: {what}"))
    if model.document["model"]["stateful"]:
        calls.append(("reset()", "forgets what the model kept from run to run"))
    calls += [
        ("verifyOnDevice()", "replays the golden data of the export: does this device compute the same?"),
        ("measure()", "load time, latency of the first and of later runs, memory"),
        ("load()", "loads now, rather than with the first run"),
        ("close()", "frees the memory, once the runs are finished that were begun before"),
    ]
    return calls
