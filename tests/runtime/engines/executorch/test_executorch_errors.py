"""What ExecuTorch's messages and codes mean to the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgex.runtime.engines.executorch.errors import ERROR_CODES, engine_error, explain_error


def test_a_failed_kernel_is_named_without_its_argument_list():
    tail = "[op.cpp:7] Check failed (x): too big\n[method.cpp:1] KernelCall failed\n[method.cpp:2] arg 0 with type id 1"
    error = engine_error("run the program", RuntimeError("error 0x12"), tail, "a.edgex")
    assert error.why == "[op.cpp:7] Check failed (x): too big\n[method.cpp:1] KernelCall failed"


@pytest.mark.parametrize("text", ["failed with error 0x14", "error: 0x:14", "Error 0x14."])
def test_codes_are_found_however_they_are_written(text):
    code, entry = explain_error(text)
    assert (code, entry.name) == ("0x14", "OperatorMissing")


def test_a_text_without_a_code_is_passed_on():
    assert explain_error("something else, 0xdeadbeef") is None
    error = engine_error("load the program", RuntimeError("something else"), "", "a.edgex")
    assert (error.what, error.why) == ("ExecuTorch could not load the program", "something else")


def test_a_file_without_its_data_is_not_the_fault_of_the_installation():
    tail = (
        "[program.cpp:639] No mutable data segments in program\n[method.cpp:602] Failed parsing tensor at index 3: 0x20"
    )
    error = engine_error("load the program's method", RuntimeError("failed with error 0x20"), tail, "a.edgex")
    assert "data that the program begins with is not in its file (NotFound, 0x20)" in error.what
    assert error.fix == "export the model again with the installed versions"


def test_the_table_holds_every_code_of_the_installed_runtime():
    import executorch

    header = Path(next(iter(executorch.__path__))) / "include/executorch/runtime/core/error.h"
    import re

    codes = {
        int(code, 16): name for name, code in re.findall(r"^\s+(\w+) = (0x[0-9a-fA-F]+),", header.read_text(), re.M)
    }
    del codes[0]
    assert {code: entry.name for code, entry in ERROR_CODES.items()} == codes
