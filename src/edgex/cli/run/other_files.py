"""What to do with a file that `-i` does not read: sound, films, other pictures, tensors of other programs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from edgex.cli.run.pictures import SUFFIXES, can_be_picture
from edgex.errors import UsageError
from edgex.runtime.artifact.specs import Dim, TensorSpec

_PICTURES = (".gif", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".jxl", ".ppm", ".pgm", ".tga", ".svg", ".dng")
_BY_PILLOW = (".gif", ".tif", ".tiff", ".avif", ".jp2", ".ppm", ".pgm", ".tga")
_SOUND = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aiff")
_FILMS = (".mp4", ".mov", ".avi", ".mkv", ".webm")
_SAVE = "np.savez({out!r}, **{{{name!r}: "
_TENSORS = {
    ".pt": "import torch, numpy as np; " + _SAVE + "torch.load({file!r}, map_location='cpu').numpy()}})",
    ".pth": "import torch, numpy as np; " + _SAVE + "torch.load({file!r}, map_location='cpu').numpy()}})",
    ".csv": "import numpy as np; " + _SAVE + "np.loadtxt({file!r}, {dtype!r}, delimiter=',').reshape({shape})}})",
    ".safetensors": "import numpy as np; from safetensors.numpy import load_file; "
    "np.savez({out!r}, **load_file({file!r}))",
}


def is_read(path: Path) -> bool:
    """Whether `-i` takes files of this kind."""
    return path.suffix.lower() in (".npz", ".npy", *SUFFIXES)


def refuse_file(path: Path, name: str | None, inputs: Sequence[TensorSpec]) -> UsageError:
    """The error for a file of another kind, with a command that makes an input of it.

    Args:
        path: The file.
        name: The input that it was given for; None where the user named none.
        inputs: All inputs.
    """
    suffix = path.suffix.lower()
    named = [spec for spec in inputs if spec.name == name]
    if suffix in _PICTURES:
        return _refuse_picture(path, name, named or [spec for spec in inputs if can_be_picture(spec)])
    spec = (named or list(inputs))[0]
    out, again = f"{path.stem}.npz", f"then -i {path.stem}.npz"
    where = f"-i {path}" if name is None else f"-i {name}={path}"
    fields = {"file": str(path), "out": out, "name": spec.name, "dtype": spec.dtype, "shape": _shape_of(spec)}
    general = f"in Python, numpy.savez({out!r}, **{{{spec.name!r}: array}}) writes one; {again}"
    why = "inputs come as in.npz, name=file.npy or name=photo.jpg"
    if suffix in _SOUND:
        line = _read_wave(**fields, spec=spec) if suffix == ".wav" and _takes_samples(spec) else None
        return UsageError(
            f"{path.name}: sound is not read: which sample rate and features it needs, only the model's maker knows",
            where,
            general if line is None else f"for 16-bit samples at the model's own rate: {_python(line)}; {again}",
            why=f"the model takes {spec}{'' if _takes_samples(spec) else '; compute it as in training'}",
        )
    if suffix in _FILMS:
        what = f"{path.name}: films are not read"
        return UsageError(
            what, where, f"save frames as pictures or as an array: {general}", why=f"the model takes {spec}"
        )
    if suffix in _TENSORS:
        what = f"{path.name}: files of {'PyTorch' if suffix.startswith('.pt') else 'this kind'} are not read"
        return UsageError(what, where, f"{_python(_TENSORS[suffix].format(**fields))}; {again}", why=f"{why}; {spec}")
    if suffix == ".txt":
        what = f"{path.name}: text is not read: the model takes numbers, {spec}"
        return UsageError(what, where, f"a language model takes text: edgex generate --prompt; else {general}", why=why)
    kind = f"files ending in {suffix}" if suffix else "files without an ending"
    return UsageError(f"{path.name}: {kind} are not read", where, general, why=f"{why}; the model takes {spec}")


def _refuse_picture(path: Path, name: str | None, fitting: Sequence[TensorSpec]) -> UsageError:
    """A picture in a format that is not read, or one for a model that takes none."""
    png = f"{path.stem}.png"
    given = f"-i {png}" if name is None else f"-i {name}={png}"
    line = f"from PIL import Image; Image.open({str(path)!r}).convert('RGB').save({png!r})"
    fix = f"{_python(line)}; then {given}" if path.suffix.lower() in _BY_PILLOW else f"save it as {png}; then {given}"
    return UsageError(
        f"{path.name}: pictures are read as {', '.join(SUFFIXES)}",
        f"-i {path}",
        fix,
        why=None if fitting else "and none of the model's inputs can be a picture",
    )


def _takes_samples(spec: TensorSpec) -> bool:
    """Whether an input can hold the samples of one channel: floats, of which one dimension only is not 1."""
    wide = [dim for dim in spec.shape if dim != 1]
    return spec.dtype == "float32" and len(wide) == 1 and len(spec.shape) <= 3 and spec.shape[-1] == wide[0]


def _read_wave(*, file: str, out: str, name: str, dtype: str, shape: str, spec: TensorSpec) -> str:
    """A line that makes an input of a .wav: channels are averaged, what is too short is filled with silence."""
    last = spec.shape[-1]
    least, most = (last.min, last.max) if isinstance(last, Dim) else (last, last)
    return (
        f"import wave, numpy as np; w = wave.open({file!r}); "
        "a = np.frombuffer(w.readframes(w.getnframes()), '<i2').reshape(-1, w.getnchannels()).mean(1)[:"
        + f"{most}] / 32768; "
        f"a = np.pad(a, (0, max(0, {least} - len(a)))).astype({dtype!r}); "
        f"np.savez({out!r}, **{{{name!r}: a.reshape({shape})}})"
    )


def _shape_of(spec: TensorSpec) -> str:
    """The shape for `reshape`: -1 for the first dimension that may vary, of others the smallest size."""
    sizes: list[int] = []
    for dim in spec.shape:
        sizes.append(dim if isinstance(dim, int) else dim.min if -1 in sizes else -1)
    return str(tuple(sizes))


def _python(line: str) -> str:
    """A command that can be pasted into a shell, in double quotes where these are safe, which read better."""
    return shlex.join(["python", "-c", line]) if set(line) & set('"$`\\!') else f'python -c "{line}"'
