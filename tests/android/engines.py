"""The engines beside ExecuTorch: their libraries compile; ONNX Runtime's runs on its build for Linux."""

import json
import shutil
import sys
from pathlib import Path

from byte_pairs import PROMPTS, QUESTIONS, TEXTS, make_tokenizer
from process import export, join, require, run
from tools import JSON

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent
RUNS = HERE / "runs"
EDGEX = (sys.executable, "-m", "edgex")
ASSETS = Path("model") / "src" / "main" / "assets" / "edgex"
ENGINE = Path("src") / "main" / "kotlin" / "dev" / "edgex" / "model" / "engine"


def run_onnxruntime(check):
    """Apps of `onnx-cpu` artifacts: without state, and with some that the library carries from run to run."""
    # Of all the sources only a model's class differs, so one library serves three models' assets.
    app = make_app(check, ROOT / "samples" / "small_language_model.py", "--llm", "--context", "64", "--chunk", "8")
    runs = (RUNS / f"{name}.kt" for name in ("OnnxRuntimeRun", "LanguageRun", "Desktop"))
    library = compile_library(check, app, *runs)
    told = []
    for name in ("digits", "decoder"):
        assets = age(make_app(check, ROOT / "samples" / f"{name}.py") / ASSETS / name)
        report = check.work / f"onnx-{name}.json"
        printed = check.java("-cp", join([library, *on_linux(check)]), "OnnxRuntimeRunKt", assets, report)
        check.report(report)
        told.append(f"{name}, {printed.splitlines()[-1]}")
    screens = check.classes_of("onnx-app")
    shared = [check.work / name for name in ("stubs", "r")]
    check.kotlin(screens, app / "app" / "src" / "main" / "kotlin", [*shared, library, *on_linux(check)])
    return f"the app with ONNX Runtime compiles, and its library replays on Linux: {'; '.join(told)}"


def run_language(check):
    """A language model's library: ids of texts, and generated texts, as edgex makes them on a computer."""
    import tokenizers

    import edgex
    from edgex.runtime.generation.sampling import Sampling

    name = "small_language_model"
    library, assets = check.work / "onnx-classes", age(check.work / "onnx" / f"app-{name}" / ASSETS / name)

    def ask(folder, questions):
        path = check.work / "questions.txt"
        path.write_text("".join(f"{json.dumps(question)}\n" for question in questions))
        class_path = join([library, *on_linux(check), check.coroutines])
        return [json.loads(line) for line in check.java("-cp", class_path, "LanguageRunKt", folder, path).splitlines()]

    with edgex.load(check.work / "onnx" / "small_language_model.onnx-cpu.edgex") as session:
        generator = session.generator()
        tokenizer = generator.tokenizer
        asked = [{"prompt": tokenizer.encode(prompt), **question} for prompt in PROMPTS for question in QUESTIONS]
        for question, (ids, text) in zip(asked, ask(assets, asked), strict=True):
            generator.reset()
            sampling = {key: question[key] for key in ("temperature", "top_k", "top_p", "repetition_penalty", "seed")}
            chosen = Sampling(**sampling)
            expected = list(generator.stream(question["prompt"], max_new=question["max_new"], sampling=chosen))
            require(ids == expected, f"{question}: {ids}, not {expected}")
            whole = tokenizer.decode(expected).rstrip("\ufffd")
            require(text.startswith(whole), f"{question}: {text!r}, not {whole!r}")
        for text, ids in zip(TEXTS, ask(assets, [{"ids": text} for text in TEXTS]), strict=True):
            require(ids == tokenizer.encode(text), f"{text!r}: {ids}, not {tokenizer.encode(text)}")
    for kind in ("split", "digits"):
        data = make_tokenizer(kind)
        reference = tokenizers.Tokenizer.from_str(json.dumps(data))
        for text, ids in zip(TEXTS, ask(with_tokenizer(assets, data), [{"ids": text} for text in TEXTS]), strict=True):
            wanted = reference.encode(text).ids
            require(ids == wanted, f"{kind}, {text!r}: {ids}, not {wanted}")
    return (
        f"a language model's library writes {len(asked)} texts as edgex does, greedily and with seeds, and makes "
        f"the ids of {len(TEXTS)} texts by three tokenizers as Hugging Face's do"
    )


def with_tokenizer(assets, tokenizer):
    """A copy of a model's assets with another tokenizer."""
    from edgex.export.android.library.byte_pairs import MERGES_FILE, VOCABULARY_FILE, describe_byte_pairs

    folder = assets.with_name("other")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(assets, folder)
    entry, tokens, merges, begins = describe_byte_pairs(tokenizer)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["generation"] |= {"tokenizer": entry, "begins": begins}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for name, lines in ((VOCABULARY_FILE, tokens), (MERGES_FILE, merges)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


def run_litert(check):
    """LiteRT's library compiles, and its state goes on, with stand-ins of its classes: no registry here has them."""
    app = make_stand_in(check, "litert", {"engine": "litert", "target": "litert"}, ".tflite")
    library = compile_library(check, app, RUNS / "LiteRtRun.kt")
    class_path = join([library, check.work / "stubs", JSON, check.stdlib])
    model = app / ASSETS / "digits" / "model.tflite"
    printed = check.java("-cp", class_path, "LiteRtRunKt", model)
    return f"the library with LiteRT compiles; with a stand-in, {printed.strip()}"


def run_qnn(check):
    """What QNN adds to ONNX Runtime's library compiles with what its classes have in addition."""
    options = {"provider_options": {"soc_model": 57, "htp_arch": 75, "enable_htp_fp16_precision": True}}
    app = make_stand_in(check, "qnn", {"target": "onnx-qnn", "options": options}, ".onnx")
    stubs, made = check.classes_of("qnn-stubs"), check.classes_of("qnn-classes")
    run("javac", "-nowarn", "-d", stubs, HERE / "stubs_qnn" / "ai" / "onnxruntime" / "OrtSession.java")
    check.kotlin(made, app / "model" / ENGINE / "OnnxRuntimeProvider.kt", [stubs, check.work / "library", check.stdlib])
    published = (check.tools.onnxruntime / "ai" / "onnxruntime" / "OrtSession$SessionOptions.class").read_bytes()
    require(b"addConfigEntry" in published, "ONNX Runtime has no addConfigEntry")
    manifest = json.loads((app / ASSETS / "digits" / "manifest.json").read_text())
    require(manifest["provider"] == {"enable_htp_fp16_precision": "1"}, f"{manifest['provider']}")
    return "what QNN adds to the library compiles, with stand-ins for what its classes have in addition"


def make_app(check, source, *flags):
    folder = check.classes_of("onnx")
    app = folder / f"app-{source.stem}"
    run(*EDGEX, "android", export(source, "onnx-cpu", folder, *flags), "-o", app, "--force")
    return app


def make_stand_in(check, name, changes, suffix):
    """The app of the digits' ONNX artifact, called one of another target: for what is written of it."""
    folder = check.work / name / f"{name}.edgex"
    folder.parent.mkdir(exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(check.work / "onnx" / "digits.onnx-cpu.edgex", folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= changes
    manifest["requirements"] |= {"engine": manifest["engine"], "minimum_version": None}
    for file in manifest["files"]:
        if file["path"] == "model.onnx":
            file["path"] = f"model{suffix}"
            (folder / "model.onnx").rename(folder / file["path"])
    (folder / "manifest.json").write_text(json.dumps(manifest))
    app = check.work / name / "app"
    run(*EDGEX, "android", folder, "-o", app, "--force")
    return app


def compile_library(check, app, *runs):
    """The library with its engine, and programs that use it."""
    made = check.classes_of(f"{app.parent.name}-classes")
    sources = [app / "model" / "src" / "main" / "kotlin", *runs]
    check.kotlin(made, sources, [check.work / "stubs", *on_linux(check), check.coroutines])
    return made


def on_linux(check):
    return [check.tools.onnxruntime, JSON, check.stdlib]


def age(assets):
    """The classes' release reads the same operators, and files of an older container."""
    import onnx

    model = onnx.load(assets / "model.onnx")
    model.ir_version = 9
    onnx.save(model, assets / "model.onnx")
    return assets
