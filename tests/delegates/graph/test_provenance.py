"""The user's line of an operator, and none where only torch or edgex has one."""

from __future__ import annotations

from pathlib import Path

import torch

from edgex.delegates.graph.provenance import source_in_trace

USER = 'File "/home/me/net.py", line 12, in forward\n    return x + 1\n'


def test_what_torch_says_of_itself_is_no_line_of_the_users():
    made_up = 'File "torch/fx/passes/runtime_assert.py", line 24, in insert_deferred_runtime_asserts\n'
    installed = f'File "{Path(torch.__file__).parent / "nn/functional.py"}", line 3, in linear\n'
    for trace in (made_up, installed, made_up + installed):
        assert source_in_trace(trace, Path("/home/me")) is None
        assert source_in_trace(USER + trace, Path("/home/me")) == "net.py:12"


def test_a_folder_of_the_users_may_be_called_torch():
    trace = 'File "/home/me/torch/net.py", line 7, in forward\n'
    assert source_in_trace(trace, Path("/home/me")) == "torch/net.py:7"
