"""`edgex run -i photo.png`: pictures of every kind become the input that the card, or `--image`, describes."""

import json
import shlex
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edgex.cli.run.other_files import is_read, refuse_file
from edgex.cli.run.pictures import can_be_picture, rank_labels, read_picture
from edgex.errors import UsageError
from edgex.runtime.artifact.card import ImageInput, check_card, check_card_labels, fit_image, parse_image_input
from edgex.runtime.artifact.specs import Dim, TensorSpec

ZERO, ONE = (0.0,) * 3, (1.0,) * 3


@pytest.fixture
def photo(tmp_path):
    """A picture of 6 x 4 pixels with three different channels."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png", pixels


def spec_of(*shape, dtype="float32"):
    return TensorSpec("x", dtype, shape)


def test_channels_come_in_the_order_that_the_card_says(photo):
    path, pixels = photo
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    for color, ordered in (("RGB", pixels), ("BGR", pixels[:, :, ::-1])):
        want = (ordered / 255.0 - np.array(mean)) / np.array(std)
        nhwc = read_picture(path, ImageInput("x", "NHWC", color, mean, std), spec_of(1, 4, 6, 3))
        nchw = read_picture(path, ImageInput("x", "NCHW", color, mean, std), spec_of(1, 3, 4, 6))
        np.testing.assert_allclose(nhwc[0], want, rtol=1e-5)
        np.testing.assert_allclose(nchw[0], np.moveaxis(want, -1, 0), rtol=1e-5)
        assert nchw.flags.c_contiguous


def test_one_channel_is_grey(photo, tmp_path):
    path, pixels = photo
    luma = pixels @ np.array([0.299, 0.587, 0.114])
    grey = read_picture(path, ImageInput("x", "NCHW", "RGB", ZERO, ONE), spec_of(1, 1, 4, 6, dtype="uint8"))
    np.testing.assert_allclose(grey[0, 0], luma, atol=0.51)
    Image.fromarray(pixels[:, :, 0]).save(tmp_path / "grey.png")
    same = read_picture(tmp_path / "grey.png", ImageInput("x", "NHWC", "BGR", (0.5,) * 3, ONE), spec_of(1, 4, 6, 1))
    np.testing.assert_allclose(same[0, :, :, 0], pixels[:, :, 0] / 255.0 - 0.5, atol=1e-6)


def test_a_batch_gets_the_picture_in_each_item(photo):
    path, pixels = photo
    image = ImageInput("x", "NHWC", "RGB", ZERO, ONE)
    batch = read_picture(path, image, spec_of(3, 4, 6, 3, dtype="uint8"))
    assert batch.shape == (3, 4, 6, 3)
    assert (batch == pixels).all()
    assert read_picture(path, image, spec_of(Dim("n", 2, 8), 5, 7, 3)).shape == (2, 5, 7, 3)


H, W, SIDE = Dim("h", 5, 64), Dim("w", 5, 64), Dim("side", 5, 64)


@pytest.mark.parametrize(
    ("height", "width", "asked", "size", "says"),
    [
        (4, 6, None, (4, 6), None),
        (8, 12, None, (8, 12), "becomes 8x12: the size of x"),
        (8, 8, None, (8, 8), "stretches it: the size of x"),
        (Dim("h", 2, 64), W, None, (4, 6), "takes a height of h=2..64 and a width of w=5..64. For another size"),
        (H, W, None, (5, 6), "becomes 5x6"),
        (Dim("h", 1, 2), Dim("w", 1, 64), None, (2, 3), "becomes 2x3"),
        (32, Dim("w", 8, 640), None, (32, 48), "becomes 32x48"),
        (SIDE, SIDE, None, (5, 5), "stretches it"),
        (H, W, (20, 30), (20, 30), "becomes 20x30: as --image says"),
    ],
)
def test_the_size_that_a_picture_gets_is_said(photo, height, width, asked, size, says):
    notes = []
    for layout, spec in (("NHWC", spec_of(1, height, width, 3)), ("NCHW", spec_of(1, 3, height, width))):
        values = read_picture(photo[0], ImageInput("x", layout, "RGB", ZERO, ONE, asked), spec, notes.append)
        assert values.shape == ((1, *size, 3) if layout == "NHWC" else (1, 3, *size))
    assert (notes == []) if says is None else (len(notes) == 2 and says in notes[0])


def test_a_size_that_the_input_does_not_take_is_refused():
    for text, why in (("x:0,1,4x32", "it takes 5 to 64"), ("x:0,1,32x16", "it takes 32")):
        with pytest.raises(UsageError) as caught:
            fit_image(parse_image_input(text), [spec_of(1, 3, H, 32)], "--image")
        assert caught.value.why == why


def test_the_shape_tells_the_layout_unless_it_could_be_both():
    image = parse_image_input("x:0,1")
    assert fit_image(image, [spec_of(1, 3, 8, 8)], "--image").layout == "NCHW"
    assert fit_image(image, [spec_of(1, 8, 8, 1)], "--image").layout == "NHWC"
    for shape, what in (((1, 3, 8, 3), "does not tell the layout"), ((1, 8, 8, 8), "cannot become")):
        with pytest.raises(UsageError, match=what):
            fit_image(image, [spec_of(*shape)], "--image")
    with pytest.raises(UsageError) as caught:
        fit_image(parse_image_input("x:0,1,NCHW"), [spec_of(1, 8, 8, 3)], "--image")
    assert "NHWC: leave the layout out" in caught.value.fix


def test_a_photograph_is_turned_upright(photo, tmp_path):
    path, pixels = photo
    with Image.open(path) as picture:
        exif = picture.getexif()
        exif[0x0112] = 6  # turn by 90 degrees to see it
        picture.save(tmp_path / "turned.png", exif=exif)
    got = read_picture(
        tmp_path / "turned.png", ImageInput("x", "NHWC", "RGB", ZERO, ONE), spec_of(1, 6, 4, 3, dtype="uint8")
    )
    assert (got[0] == np.rot90(pixels, -1)).all()


def test_what_is_no_picture_of_8_bits_is_refused(tmp_path):
    image = ImageInput("x", "NCHW", "RGB", ZERO, ONE)
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    with pytest.raises(UsageError, match="cannot be read as a picture"):
        read_picture(tmp_path / "broken.png", image, spec_of(1, 3, 4, 4))
    Image.fromarray(np.full((4, 4), 40_000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(UsageError, match="8 bits"):
        read_picture(tmp_path / "deep.png", image, spec_of(1, 3, 4, 4))


@pytest.mark.parametrize(
    ("card", "says"),
    [
        ({"lables": ["a"]}, "did you mean 'labels'"),
        ({"Image": {"input": "x"}}, "did you mean 'image'"),
        ({"image": {"input": "x", "meen": [0.5]}}, "did you mean 'mean'"),
        ({"image": {"layout": "NCHW"}}, "does not name its input"),
        ({"image": {"input": "x", "layout": "CHW"}}, "did you mean 'NCHW'"),
        ({"image": {"input": "x", "color": "GBR"}}, "known: BGR, RGB"),
        ({"image": {"input": "x", "std": [0.5, 0, 0.5]}}, "nothing can be scaled by it"),
        ({"image": {"input": "x", "mean": "0.5"}}, "mean '0.5'"),
        ({"image": "x"}, "of type str"),
        ({"labels": "cat"}, "not a list"),
        ({"classes": {1, 2}}, "JSON"),
    ],
)
def test_a_card_of_which_something_would_not_count_is_refused(card, says):
    with pytest.raises(UsageError) as caught:
        check_card(card, "net.py")
    assert says in str(caught.value)


def test_cards_with_keys_of_their_own_are_taken():
    check_card({"labels": ["a", "b"], "licence": "BSD", "input_size": [224, 224]}, "net.py")


def test_image_flag_has_an_order_of_colours():
    image = parse_image_input("a.b:0.5,0.1/0.2/0.3,nhwc,bgr")
    assert image == ImageInput("a.b", "NHWC", "BGR", (0.5,) * 3, (0.1, 0.2, 0.3))
    assert parse_image_input("x:0,1,BGR,240x320") == ImageInput("x", None, "BGR", ZERO, ONE, (240, 320))
    for text in (
        *("x:0.5", "x:0.5,0.5,NCHW,RGB,1", "0.5,0.5,NCHW", "x:a,1,NCHW", "x:0,1,NCWH", "x:0,1,NCHW,GBR"),
        *("x:0,1,NCHW,NHWC", "x:0,1,0x5", "x:0,1,4x4,5x5"),
    ):
        with pytest.raises(UsageError):
            parse_image_input(text)
    with pytest.raises(UsageError, match="4x4"):
        parse_image_input("x:0,1,4x4", "--image-input")


def test_labels_are_ranked_by_row():
    spec = TensorSpec("scores", "float32", (2, 3))
    top = rank_labels(["a", "b", "c"], spec, np.array([[0.1, 0.7, 0.2], [3, 2, 1]], np.float32))
    assert [[best["label"] for best in row] for row in top] == [["b", "c", "a"], ["a", "b", "c"]]
    assert top[1][0] == {"label": "a", "index": 0, "value": 3.0}
    assert rank_labels(["a", "b"], spec, np.zeros((2, 3))) is None
    maps = TensorSpec("maps", "float32", (1, 4, 4, 3))
    assert rank_labels(["a", "b", "c"], maps, np.zeros((1, 4, 4, 3))) is None


GREY = """
import torch
from torch import nn

class Grey(nn.Module):
    def forward(self, x):
        return torch.stack([x.mean((1, 2, 3)), x.amax((1, 2, 3)), x.amin((1, 2, 3))], 1)

model, example_inputs = Grey().eval(), (torch.rand(1, 1, 8, 8),)
model_card = CARD
"""


@pytest.mark.usefixtures("photo")
def test_a_picture_runs_and_its_labels_are_named(edgex, model_file):
    card = {"labels": ["mean", "most", "least"], "image": {"input": "x"}}
    bad = {**card, "image": {"input": "y"}}
    refused = edgex("export", str(model_file(GREY.replace("CARD", repr(bad)), "bad")), "-t", "onnx-cpu", "-q")
    assert refused.returncode == 2
    assert "no input 'y' for a picture" in refused.stderr
    done = edgex("export", str(model_file(GREY.replace("CARD", repr(card)), "grey")), "-t", "onnx-cpu", "-q")
    assert done.returncode == 0, done.stderr
    few = edgex("export", str(model_file(GREY.replace("CARD", repr({"labels": ["a"]})), "few")), "-t", "onnx-cpu", "-q")
    assert few.returncode == 2
    assert "model_card has 1 label, and the model scores 3 classes" in few.stderr
    assert "few.py:10" in few.stderr
    shown = edgex("run", "grey.onnx-cpu.edgex", "-i", "photo.png")
    assert "top 3       most " in shown.stdout
    assert "note: photo.png has 4x6 pixels (height x width) and becomes 8x8, which stretches it" in shown.stderr
    document = json.loads(edgex("run", "grey.onnx-cpu.edgex", "-i", "x=photo.png", "--json").stdout)
    assert [best["label"] for best in document["outputs"][0]["top"][0]] == ["most", "mean", "least"]
    scaled = json.loads(
        edgex("run", "grey.onnx-cpu.edgex", "-i", "photo.png", "--image", "x:0.5,0.25,NCHW", "--json", "-q").stdout
    )
    assert scaled["notes"] == document["notes"] != []
    before, after = (d["outputs"][0]["max"] for d in (document, scaled))
    assert after == pytest.approx((before - 0.5) / 0.25, abs=1e-5)
    assert "3 labels: mean, most, least" in edgex("inspect", "grey.onnx-cpu.edgex").stdout
    strange = edgex("run", "grey.onnx-cpu.edgex", "-i", "photo.png", "--image", "y:0.5,0.25,NCHW")
    assert strange.returncode == 2
    assert "no input 'y' for a picture" in strange.stderr
    Path("x.wav").write_bytes(b"")
    assert "sound is not read" in edgex("run", "grey.onnx-cpu.edgex", "-i", "x.wav").stderr
    useless = edgex("run", "grey.onnx-cpu.edgex", "--image", "x:0.5,0.25,NCHW")
    assert useless.returncode == 2
    assert "none is given" in useless.stderr


@pytest.mark.usefixtures("photo")
def test_a_picture_without_a_card_gets_the_flag_that_says_how(edgex, own_copy):
    path = own_copy("convnet", "onnx-cpu").rename("two words.edgex")
    folder = Path("in")
    folder.mkdir()
    typed = str(path.rename(folder / path.name))
    bare = edgex("run", typed, "-i", "photo.png", "--json")
    assert bare.returncode == 2
    error = json.loads(bare.stdout)
    assert "no model_card that says how photo.png becomes the input 'x'" in error["what"]
    program, *pasted = shlex.split(error["fix"])
    assert (program, pasted[:4]) == ("edgex", ["run", typed, "-i", "x=photo.png"])
    done = edgex(*pasted)
    assert done.returncode == 0, done.stderr


LABELS = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("shapes", "verdict"),
    [
        ([("float32", 1, 4)], "fit"),
        ([("float32", 1, 8, 8), ("float32", 1, 4)], "fit"),
        ([("float32", 1, 4, 8, 8)], "fit"),  # a segmentation: the classes are channels
        ([("float32", 1, 7, 4)], "fit"),  # letters over time
        ([("float32", 1, 10)], "refused"),
        ([("float32", 10)], "refused"),
        ([("float32", 1, 3, 8, 8)], "refused"),
        ([("float32", 1, 10), ("int64", 1)], "unsure"),  # labels may be for the class numbers
        ([("int64", 1)], "unsure"),
        ([("float32", 1, Dim("n", 2, 8))], "unsure"),
    ],
)
def test_labels_must_be_as_many_as_the_classes(shapes, verdict):
    outputs = [TensorSpec(f"output_{at}", dtype, tuple(shape)) for at, (dtype, *shape) in enumerate(shapes)]
    card = {"labels": LABELS}
    if verdict == "refused":
        with pytest.raises(UsageError, match="4 labels") as caught:
            check_card_labels(card, outputs, "net.py:3")
        assert caught.value.where == "net.py:3"
        assert str(outputs[0]) in caught.value.why
    else:
        assert (check_card_labels(card, outputs, "net.py:3") is None) == (verdict == "fit")


def test_two_labels_may_name_one_score():
    assert "2 labels" in check_card_labels({"labels": ["no", "yes"]}, [TensorSpec("p", "float32", (1, 1))], "net.py")


def run_line(fix):
    """Run the command that a fix begins with, in the current folder."""
    program, *words = shlex.split(fix.partition("; then ")[0].partition("rate: ")[2] or fix.partition("; then ")[0])
    assert program == "python", fix
    subprocess.run([sys.executable, *words], check=True)


@pytest.mark.parametrize(("frames", "shape"), [(6, (1, 8)), (20, (1, 1, 8)), (6, (1, Dim("n", 4, 8)))])
def test_a_sound_file_gets_the_line_that_makes_an_input_of_it(tmp_path, monkeypatch, frames, shape):
    monkeypatch.chdir(tmp_path)
    with wave.open("x.wav", "wb") as sound:
        sound.setparams((2, 2, 16_000, frames, "NONE", ""))
        sound.writeframes(np.arange(2 * frames, dtype="<i2").tobytes())
    error = refuse_file(Path("x.wav"), "x", [spec_of(*shape)])
    assert "only the model's maker knows" in error.what
    assert str(spec_of(*shape)) in error.why
    run_line(error.fix)
    got = np.load("x.npz")["x"]
    want = np.pad(np.arange(frames) * 2 + 0.5, (0, 8))[: frames if isinstance(shape[-1], Dim) else 8] / 32768
    np.testing.assert_allclose(got.ravel(), want, rtol=1e-6)
    assert (got.dtype, got.ndim) == (np.float32, len(shape))


def test_a_picture_of_another_format_gets_the_line_that_converts_it(photo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Image.open(photo[0]) as picture:
        picture.save("a $b.gif")
    error = refuse_file(Path("a $b.gif"), None, [spec_of(1, 3, 4, 6)])
    assert ".jpg, .jpeg, .png, .bmp, .webp" in error.what
    run_line(error.fix)
    assert is_read(Path("a $b.png"))
    assert Path("a $b.png").is_file()


def test_other_files_get_what_to_do_with_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("1,2\n3,4\n")
    run_line(refuse_file(Path("t.csv"), "x", [spec_of(1, 4)]).fix)
    assert np.load("t.npz")["x"].tolist() == [[1, 2, 3, 4]]
    for name, words in (
        ("x.mp3", "numpy.savez('x.npz', **{'x': array})"),
        ("x.heic", "save it as x.png"),
        ("x.pt", "torch.load('x.pt', map_location='cpu')"),
        ("x.safetensors", "load_file('x.safetensors')"),
        ("x.mp4", "save frames"),
        ("x.txt", "edgex generate --prompt"),
        ("x.bin", "numpy.savez('x.npz'"),
        ("x", "numpy.savez('x.npz'"),
    ):
        assert words in refuse_file(Path(name), None, [spec_of(1, 16, 16)]).fix


def test_what_cannot_be_a_picture_is_told_so():
    assert can_be_picture(spec_of(1, 3, 8, 8)) and can_be_picture(spec_of(Dim("n", 1, 4), 8, 8, 1, dtype="uint8"))
    for spec in (spec_of(1, 16), spec_of(1, 4, 8, 8), spec_of(1, 3, 8, 8, dtype="int64")):
        assert not can_be_picture(spec)
