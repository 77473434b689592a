"""The library's README: how to bring it into an existing app, in ten lines of Kotlin, and what it has."""

from __future__ import annotations

from edgex.export.android.library.kotlin_class import ModelClass, describe_tensor

_TEXT = """\
# {name}, as an Android library

{about}

It runs on the device, with {engine}, without network or permission. One class is for your code,
`{class_name}`; what it is made of lies beside it.

## In an existing app

1. Put this folder into the project, here as `{module}`, and name it in `settings.gradle.kts`: `include(":{module}")`.
2. In the app's `build.gradle.kts`:

```kotlin
android {{
    defaultConfig {{ ndk {{ abiFilters += listOf("arm64-v8a", "x86_64") }} }} // what the engine exists for
    androidResources {{ noCompress += listOf("{suffix}", "bin") }} // stored, the model is copied faster
}}
dependencies {{ implementation(project(":{module}")) }}
```

3. Where it is used, from any coroutine:

```kotlin
import dev.edgex.model.{class_name}

class {stem}ViewModel(application: Application) : AndroidViewModel(application) {{
    private val model = {class_name}(application)

{use}

    override fun onCleared() = model.close()
}}
```

The project needs Android's Gradle plugin 9 or later, which compiles Kotlin itself; with 8, add `kotlin("android")` to
this module's plugins. `./gradlew :{module}:assembleRelease` writes the AAR, for other builds; whoever uses that file
alone also needs the dependency that `build.gradle.kts` names.

## What it has

| call | does |
|---|---|
{calls}

Inputs and outputs are arrays in C order:

| | name | holds |
|---|---|---|
{tensors}

Everything native happens on one thread of its own: any thread may call, one call runs after the other, and none blocks
its caller. A run that has begun is finished, also where its coroutine was cancelled. What does not fit is refused by
name (`TensorException`), and what the engine refuses is an `EngineException` that says why.

A second model in the same app: generate it with `edgex android --library-only`, and copy its class and its folder in
`src/main/assets/edgex` into this module; the other sources are the same for every model of one version of edgex.
"""


def write_readme(model: ModelClass, module: str, engine: str, suffix: str) -> str:
    """The README of a library.

    Args:
        model: What is written about the model.
        module: The library's name in a Gradle project.
        engine: What runs the model, for people.
        suffix: The model file's, without the dot.
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
    return _TEXT.format(
        name=document["model"]["name"],
        about=document["model"]["description"] or "A model that edgex exported and proved.",
        engine=engine,
        class_name=model.name,
        module=module,
        suffix=suffix,
        stem=model.name.removesuffix("Model"),
        use=_show_use(model),
        calls="\n".join(f"| `{call}` | {does} |" for call, does in _list_calls(model)),
        tensors="\n".join(rows),
    )


def _show_use(model: ModelClass) -> str:
    """A function of a view model that does what the model is for."""
    if model.detects:
        lines = ['model.detect(picture).forEach { Log.i(TAG, "${it.label} at ${it.left}, ${it.top}") }']
        parameter = "picture: Bitmap"
    elif model.classifies and model.picture is not None:
        lines = ["val best = model.classify(picture).first()", 'Log.i(TAG, "${best.label}: ${best.probability}")']
        parameter = "picture: Bitmap"
    elif model.paints:
        lines = ["shown.value = model.transform(picture)"]
        parameter = "picture: Bitmap"
    else:
        given = ", ".join([*model.inputs, *model.sizes.values()])
        if model.classifies:
            lines = [f"val best = model.classify({given}).first()", 'Log.i(TAG, "${best.label}: ${best.probability}")']
        else:
            lines = [f"val {model.outputs[0]} = model.run({given}).{model.outputs[0]}"]
        parameter = ", ".join(model.parameters())
    body = "\n".join(f"        {line}" for line in lines)
    return f"    fun use({parameter}) = viewModelScope.launch {{\n{body}\n    }}"


def _list_calls(model: ModelClass) -> list[tuple[str, str]]:
    calls = [("run(…)", "runs once, on arrays")]
    if model.classifies:
        calls.append(("classify(…)", "the likeliest classes, with probabilities"))
    if model.detects:
        calls.append(("detect(picture)", "what is in a picture, with boxes"))
    if model.paints:
        calls.append(("transform(picture)", "the picture that the model makes of a picture"))
    if model.document["model"]["stateful"]:
        calls.append(("reset()", "forgets what the model kept from run to run"))
    calls += [
        ("verifyOnDevice()", "replays the golden data of the export, and says whether this device computes the same"),
        ("measure()", "load, first and steady latency, memory"),
        ("load()", "loads now, rather than with the first run"),
        ("close()", "gives the memory back; runs that were begun before are finished"),
    ]
    return calls
