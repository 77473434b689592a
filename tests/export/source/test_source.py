"""Every way to name a model, and every way in which it can go wrong."""

import sys
import textwrap

import pytest
import torch

from edgex.errors import CaptureError, UsageError
from edgex.export.source.naming import command_name
from edgex.export.source.source import find_model, wrap_model

NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.linear = torch.nn.Linear(4, width)
    def forward(self, x, scale=None):
        y = self.linear(x)
        return y if scale is None else y * scale
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="model.py", net=True):
        path = tmp_path / name
        path.write_text((NET if net else "") + textwrap.dedent(text))
        return str(path)

    return write_file


@pytest.fixture(autouse=True)
def restore_imports(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("edgex_model_", "helper_", "pkg_")):
            del sys.modules[name]


def usage_error(spec, **options):
    with pytest.raises(UsageError) as caught:
        find_model(spec, **options)
    assert caught.value.exit_code == 2
    return caught.value


def test_get_model_and_get_args(write):
    path = write("""
        def get_model(): return Net(5)
        def get_args(): return (torch.ones(2, 4),)
        model, example_inputs = Net(7), (torch.zeros(1, 4),)
    """)
    source = find_model(path)
    assert source.module.linear.out_features == 5
    assert source.args[0].shape == (2, 4)
    assert source.kwargs == {}
    assert (source.name, source.description) == ("model", "model.py:get_model")
    assert source.notices[0] == "model: model.py:get_model, example inputs: get_args()"
    assert source.parameters == 25
    assert source.source_root.samefile(path.rpartition("/")[0])


def test_model_and_example_inputs_come_before_get_eager_model(write):
    source = find_model(
        write("""
        model, example_inputs = Net(7), (torch.ones(1, 4),)
        def get_eager_model(): return Net(9)
        def get_example_inputs(): return (torch.ones(3, 4),)
    """)
    )
    assert source.module.linear.out_features == 7
    assert source.args[0].shape == (1, 4)


def test_get_eager_model_and_get_example_inputs(write):
    source = find_model(
        write("""
        def get_eager_model(): return Net(9)
        def get_example_inputs(): return (torch.ones(3, 4),)
    """)
    )
    assert source.module.linear.out_features == 9
    assert source.args[0].shape == (3, 4)


def test_the_only_class_without_arguments(write):
    source = find_model(
        write("""
        class Block(torch.nn.Module):
            def __init__(self, width):
                super().__init__()
        example_inputs = {"x": torch.ones(2, 4)}
    """)
    )
    assert source.description == "model.py:Net"
    assert source.args == ()
    assert list(source.kwargs) == ["x"]


def test_an_instance_stands_for_its_class(write):
    source = find_model(write("net = Net(6)\ndef get_args(): return torch.ones(2, 4)"))
    assert source.description == "model.py:net"
    assert source.args[0].shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "width"), [("Net", 3), ("small", 2), ("make", 8), ("make_with_inputs", 9), ("get_model", 5)]
)
def test_a_given_name_wins(write, name, width):
    path = write("""
        def get_model(): return Net(5)
        def get_args(): return (torch.ones(2, 4),)
        def make(): return Net(8)
        def make_with_inputs(): return Net(9), (torch.ones(6, 4),)
        small = Net(2)
    """)
    source = find_model(f"{path}:{name}")
    assert source.module.linear.out_features == width
    assert source.args[0].shape == ((6, 4) if name == "make_with_inputs" else (2, 4))
    assert source.name == name


def test_inputs_of_all_forms(write):
    path = write("""
        def both(): return Net(), ((torch.ones(1, 4),), {"scale": torch.ones(1)})
        def by_name(): return Net(), {"x": torch.ones(2, 4)}
        def one(): return Net(), torch.ones(3, 4)
        def listed(): return Net(), [torch.ones(4, 4), torch.ones(1)]
    """)
    both = find_model(f"{path}:both")
    assert both.args[0].shape == (1, 4)
    assert list(both.kwargs) == ["scale"]
    assert find_model(f"{path}:by_name").kwargs["x"].shape == (2, 4)
    assert find_model(f"{path}:one").args[0].shape == (3, 4)
    assert len(find_model(f"{path}:listed").args) == 2


def test_module_by_dotted_name(tmp_path, monkeypatch):
    package = tmp_path / "pkg_dotted"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text(NET + "def get_args(): return (torch.ones(2, 4),)\n")
    monkeypatch.chdir(tmp_path)
    source = find_model("pkg_dotted.nets:Net")
    assert (source.name, source.description) == ("Net", "pkg_dotted.nets:Net")
    assert source.source_root.samefile(package)


def test_exported_program(tmp_path):
    program = torch.export.export(torch.nn.Linear(4, 3), (torch.ones(2, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    source = find_model(str(tmp_path / "net.pt2"))
    assert isinstance(source.module, torch.export.ExportedProgram)
    assert (source.name, source.parameters) == ("net", 15)


def test_extras_are_read(write):
    source = find_model(
        write("""
        batch = torch.export.Dim("batch", min=1, max=8)
        def get_model(): return Net()
        def get_args(): return (torch.ones(2, 4),)
        dynamic_shapes = {"x": {0: batch}, "scale": None}
        def calibration_data(): yield from ()
        def evaluate(run): return 0.5
        model_card = {"labels": ["cat"]}
        example_sequence = [(torch.ones(2, 4),), {"x": torch.zeros(2, 4)}]
    """)
    )
    assert source.dynamic_shapes["x"][0].__name__ == "batch"
    assert source.calibration_data.__name__ == "calibration_data"
    assert source.evaluate(None) == 0.5
    assert source.model_card["labels"] == ["cat"]
    assert [len(args) for args, _ in source.example_sequence] == [1, 0]


def test_extras_of_the_wrong_kind(write):
    assert (
        "model_card" in usage_error(write("model = Net()\nexample_inputs = torch.ones(1, 4)\nmodel_card = 'cat'")).what
    )
    assert "evaluate" in usage_error(write("model = Net()\nexample_inputs = torch.ones(1, 4)\nevaluate = 3")).what


def test_imports_beside_the_file_and_inside_functions(write, tmp_path):
    (tmp_path / "helper_early.py").write_text("WIDTH = 6\n")
    (tmp_path / "helper_late.py").write_text("ROWS = 2\n")
    source = find_model(
        write("""
        from helper_early import WIDTH
        def get_model(): return Net(WIDTH)
        def get_args():
            from helper_late import ROWS
            return (torch.ones(ROWS, 4),)
    """)
    )
    assert source.module.linear.out_features == 6
    assert str(tmp_path) in sys.path


def test_prints_do_not_reach_stdout(write, capsys):
    find_model(write("print('loading')\nmodel = Net()\nexample_inputs = torch.ones(1, 4)"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loading" in captured.err


def test_training_mode_is_left_with_a_notice(write):
    source = find_model(
        write("""
        model = torch.nn.Sequential(Net(), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3))
        example_inputs = torch.ones(2, 4)
    """)
    )
    assert not source.module.training
    assert (
        source.notices[-1]
        == "the model was in training mode and has been put in eval mode; this changes 1 (Dropout), 2 (BatchNorm1d)"
    )


def test_input_shape_makes_seeded_inputs(write):
    path = write("model = Net()")
    first, second = (find_model(path, input_shapes={"x": (2, 4)}) for _ in range(2))
    assert first.kwargs["x"].shape == (2, 4)
    assert first.kwargs["x"].dtype == torch.float32
    assert torch.equal(first.kwargs["x"], second.kwargs["x"])
    assert any("random float32 with seed 0: x (2, 4)" in notice for notice in first.notices)


def test_input_shape_draws_a_given_float_anew(write):
    path = write("model = Net()\nexample_inputs = (torch.ones(2, 4), {'a': torch.ones(1)})")
    source = find_model(path, input_shapes={"x": (5, 4)})
    assert source.args[0].shape == (5, 4)
    assert source.args[0].std() > 0.5
    assert torch.equal(source.args[1]["a"], torch.ones(1))
    assert any("input x is random" in notice for notice in source.notices)


def test_input_shape_of_an_unknown_or_integer_input(write):
    path = write("model = Net()\nexample_inputs = {'x': torch.ones(2, 4), 'scale': torch.ones(1, dtype=torch.int64)}")
    error = usage_error(path, input_shapes={"scal": (1,)})
    assert "there is no such input" in error.what
    assert "did you mean 'scale'?" in error.why
    assert "int64" in usage_error(path, input_shapes={"scale": (3,)}).what


def test_no_example_inputs(write):
    error = usage_error(write("model = Net()"))
    assert error.what == "model.py:model has no example inputs for x"
    assert "def get_args():" in error.fix
    assert "--input-shape x=" in error.fix


def test_example_inputs_of_a_decoder_are_no_images(write):
    error = usage_error(
        write(
            "class Decoder(Net):\n    def forward(self, tokens, position):\n        return tokens\n\nmodel = Decoder()"
        )
    )
    assert error.fix.startswith("--llm --context N takes a decoder with its cache, and needs none; ")
    assert "return (torch.zeros(1, 8, dtype=torch.int64), torch.zeros(1, dtype=torch.int64),)" in error.fix
    assert "--input-shape" not in error.fix


def test_no_such_file(write, tmp_path):
    write("", name="resnet.py")
    error = usage_error(str(tmp_path / "resnt.py"))
    assert "no such file" in error.what
    assert "did you mean 'resnet.py'?" in error.why
    assert "no such file" in usage_error(str(tmp_path / "missing.pt2")).what


@pytest.mark.parametrize("name", ["model.onnx", "notes.txt"])
def test_neither_py_nor_pt2(tmp_path, name):
    (tmp_path / name).write_text("x")
    assert usage_error(str(tmp_path / name)).what == f"{name} is neither a .py nor a .pt2 file"


def test_a_name_that_no_file_can_define(tmp_path):
    (tmp_path / "net.py").write_text("")
    error = usage_error(f"{tmp_path / 'net.py'}:nets.small")
    assert (error.what, error.where) == ("nets.small is no name that a Python file can define", "net.py")


def test_nothing_of_that_name():
    assert usage_error("torch.nn").fix.startswith("name it: torch.nn:get_model")
    assert "no such model" in usage_error("resnet18").what
    assert "cannot be imported" in usage_error("torch.no_such_module:get_model").what


def test_syntax_error(write):
    error = usage_error(write("def get_model(:\n    pass\n", net=False))
    assert "model.py has a syntax error" in error.what
    assert error.where.startswith("model.py:1: def get_model(:")


def test_missing_package(write):
    error = usage_error(write("import surely_missing.part\n", net=False))
    assert error.what == "model.py imports surely_missing, which is not installed"
    assert error.where == "model.py:1: import surely_missing.part"
    assert "pip install" not in error.fix and "surely_missing" in error.fix


def test_a_name_to_install_is_given_only_where_our_own_requirements_have_it(monkeypatch):
    from edgex.export.source.user_code.user_failure import install_advice

    assert install_advice("PIL") == "pip install pillow"
    assert install_advice("transformers") == "pip install transformers"
    assert "pip install" not in install_advice("cv2")


def test_what_an_exception_was_raised_from_is_told(write):
    """As transformers does it: its own message names no module, and hides what is missing."""
    body = """
    try:
        import surely_missing
    except ImportError as error:
        raise ModuleNotFoundError("Could not import module 'Model'") from error
    """
    error = usage_error(write(body, net=False))
    assert error.what == "model.py imports surely_missing, which is not installed"
    assert error.why.splitlines() == [
        "ModuleNotFoundError: Could not import module 'Model'",
        "caused by ModuleNotFoundError: No module named 'surely_missing'",
    ]
    body = """
    try:
        int("x")
    except ValueError as error:
        raise RuntimeError("no weights") from error
    """
    why = usage_error(write(body, net=False)).why
    assert why.startswith("RuntimeError: no weights\ncaused by ValueError: invalid literal")


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the code runs")
@pytest.mark.parametrize("call", ["torch.nn.Linear(2, 2).cuda()", "torch.zeros(2, device='cuda')"])
def test_code_that_wants_a_gpu_is_told_how_to_do_without(call, write):
    error = usage_error(write(f"def get_model():\n    return {call}\n"))
    assert "map_location='cpu'" in error.fix and ".cuda()" in error.fix


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it loads")
def test_a_checkpoint_saved_on_a_gpu_is_told_map_location(write, tmp_path):
    import zipfile

    torch.save({"w": torch.zeros(2)}, tmp_path / "cpu.pt")
    with zipfile.ZipFile(tmp_path / "cpu.pt") as old, zipfile.ZipFile(tmp_path / "gpu.pt", "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            # The pickle says where a storage lay: a string of three letters becomes one of four.
            new.writestr(entry, data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"))
    error = usage_error(write(f"torch.load({str(tmp_path / 'gpu.pt')!r})\n"))
    assert "Attempting to deserialize" in error.why
    assert error.fix == "torch.load(..., map_location='cpu')"


def test_missing_name_in_a_package(write):
    error = usage_error(write("\nfrom torch import surely_missing\n", net=False))
    assert error.what == "model.py cannot be imported"
    assert error.where == "model.py:2: from torch import surely_missing"
    assert "surely_missing" in error.why


def test_the_file_fails(write):
    error = usage_error(write("x = 1\ny = x / 0\n", net=False))
    assert error.what == "model.py fails"
    assert error.where == "model.py:2: y = x / 0"
    assert error.why == "ZeroDivisionError: division by zero"


def test_get_model_fails_inside_torch(write):
    error = usage_error(write("def get_model():\n    return torch.nn.Linear(-1, 3)\n"))
    assert error.what == "model.py:get_model() fails"
    assert error.where.endswith("return torch.nn.Linear(-1, 3)")


def test_the_file_calls_exit(write):
    error = usage_error(write("import sys\nsys.exit(3)\n", net=False))
    assert "calls sys.exit" in error.what
    assert "__main__" in error.fix


def test_no_model(write):
    error = usage_error(write("x = 1\n", net=False))
    assert error.what == "no model found in model.py"
    assert "def get_model():" in error.fix


def test_no_model_because_of_arguments(write):
    text = "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, width): super().__init__()\n"
    assert usage_error(write(text, net=False)).why == "Net needs arguments: width"


def test_two_candidates(write):
    error = usage_error(write("class Other(Net): pass\n"))
    assert error.what == "model.py holds 2 models: Net, Other"
    assert "model.py:Net" in error.fix
    assert "model.py:Other" in error.fix


def test_name_not_in_file(write):
    error = usage_error(write("def get_model(): return Net()\n") + ":get_modle")
    assert error.what == "model.py has no 'get_modle'"
    assert "did you mean 'get_model'?" in error.why


def test_name_is_no_model(write):
    path = write("""
        number = 3
        def text(): return "model"
        def needs(width): return Net(width)
        scripted = torch.jit.script(Net())
        example_inputs = torch.ones(1, 4)
    """)
    assert "is of type int, not a torch.nn.Module" in usage_error(f"{path}:number").what
    assert "is of type str, not a torch.nn.Module" in usage_error(f"{path}:text").what
    assert "needs arguments: width" in usage_error(f"{path}:needs").what
    assert "TorchScript" in usage_error(f"{path}:scripted").what


def test_example_inputs_of_the_wrong_kind(write):
    assert (
        "gives an object of type int as example inputs" in usage_error(write("model = Net()\nexample_inputs = 3")).what
    )
    assert "put it into a tuple" in usage_error(write("model = Net()\nexample_inputs = {3: torch.ones(1)}")).fix


def test_damaged_program(tmp_path):
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 3), (torch.ones(2, 4),)), path)
    path.write_bytes(path.read_bytes()[:700])
    error = usage_error(str(path))
    assert error.what == "net.pt2 cannot be read as an exported program"
    assert "torch.export.save" in error.fix


def test_shapes_of_an_exported_program_are_fixed(tmp_path):
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 3), (torch.ones(2, 4),)), path)
    assert "fixed" in usage_error(str(path), input_shapes={"input": (1, 4)}).what


def test_wrap_model():
    source = wrap_model(torch.nn.Linear(4, 3), (torch.ones(1, 4),), {})
    assert (source.name, source.description) == ("linear", "Linear")
    assert "put in eval mode" in source.notices[0]
    with pytest.raises(UsageError, match=r"not a torch\.nn\.Module"):
        wrap_model("model.py", (), {})


def test_meta_weights_are_refused():
    from edgex.export.capture.program import capture

    with torch.device("meta"):
        module = torch.nn.Linear(4, 3).eval()
    with pytest.raises(CaptureError, match=r"weight weight, weight bias are on the meta device") as caught:
        capture(module, (torch.ones(1, 4),), source_root=None)
    assert caught.value.exit_code == 3


def test_a_command_names_a_model_below_the_current_folder_with_the_way_to_it(tmp_path, monkeypatch):
    folder = tmp_path / "nets"
    folder.mkdir()
    (folder / "net.py").touch()
    monkeypatch.chdir(tmp_path)
    assert command_name("net.py:get_model", folder) == "nets/net.py"
    assert command_name("net.py:small", folder) == "nets/net.py:small"
    assert command_name("package.net:small", folder) == "package.net:small"
    assert command_name("Net", folder) == "MODEL"
    monkeypatch.chdir(folder)
    assert command_name("net.py:get_model", folder) == "net.py"
