"""Whether a generated library makes the ids of a text that the tokenizer of the export makes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from word_pieces import TEXTS, make_tokenizer

HERE = Path(__file__).parent


def make_reader(folder):
    """The library of a classifier of texts, exported with its tokenizer; its folder."""
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "models" / "reader.py", folder)
    (folder / "tokenizer.json").write_text(json.dumps(make_tokenizer()))
    edgex = [sys.executable, "-m", "edgex"]
    subprocess.run([*edgex, "export", "reader.py", "-t", "xnnpack", "-q"], cwd=folder, check=True, stdout=sys.stderr)
    command = [*edgex, "android", "reader.xnnpack.edgex", "-o", "library", "--library-only"]
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
    return folder / "library"


def compare_ids(folder, run):
    """Compare with Hugging Face's tokenizers; how many texts were compared.

    Args:
        folder: Of the library; the texts are written beside it.
        run: Runs `WordPieceRunKt` with arguments, and gives what it prints.
    """
    import tokenizers

    reference = tokenizers.Tokenizer.from_str(json.dumps(make_tokenizer()))
    reference.enable_truncation(32)
    texts = folder.parent / "texts.txt"
    texts.write_text("".join(json.dumps([text]) + "\n" for text in TEXTS))
    printed = run(folder / "src" / "main" / "assets" / "edgex" / "reader", texts).splitlines()
    for text, line in zip(TEXTS, printed, strict=True):
        ids, mask = ([int(word) for word in part.split(",")] for part in line.split(";"))
        wanted = reference.encode(text).ids
        assert ids == wanted, f"{text!r}: {ids}, not {wanted}"
        assert mask == [1] * len(wanted), f"{text!r}: the mask is {mask}"
    return len(printed)
