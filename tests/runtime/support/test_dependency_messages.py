"""What dependencies log: off the terminal, on our debug log; the user's own logs and warnings stay."""

import io
import logging
import os
import warnings

import pytest

from edgex.runtime.support.dependency_messages import quiet_dependencies, quiet_import, quiet_loggers


@pytest.fixture
def terminal():
    """A handler where a program's own would be."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize("name", ["torchao", "torchao.utils", "torch.utils._pytree", "executorch.exir", "onnxscript.x"])
def test_what_a_dependency_logs_goes_to_the_debug_log(name, terminal, caplog):
    with caplog.at_level(logging.DEBUG, "edgex.dependencies"), quiet_loggers():
        logging.getLogger(name).warning("optional library missing")
    assert "optional library missing" not in terminal.getvalue().replace(f"{name}: optional library missing", "")
    assert [record.name for record in caplog.records] == ["edgex.dependencies"]
    assert logging.getLogger(name.partition(".")[0]).handlers == _handlers(name.partition(".")[0])


def _handlers(name):
    return [h for h in logging.getLogger(name).handlers if type(h).__name__ != "_Divert"]


def test_errors_and_the_users_own_logs_stay(terminal):
    with quiet_loggers():
        logging.getLogger("torchao").error("that concerns you")
        logging.getLogger("my.model").warning("mine")
    assert terminal.getvalue().splitlines() == ["that concerns you", "mine"]


def test_where_errors_come_as_exceptions_they_are_not_logged_too(terminal):
    with quiet_dependencies(everything=True):
        logging.getLogger("torch.onnx").error("raised as well")
    assert terminal.getvalue() == ""


def test_deprecations_are_kept_off_and_other_warnings_stay():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with quiet_dependencies():
            warnings.warn("old call", FutureWarning, stacklevel=1)
            warnings.warn("overflow in cast", RuntimeWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["overflow in cast"]


def test_handlers_that_an_import_adds_to_the_root_are_taken_off():
    root = logging.getLogger()
    before = list(root.handlers), root.level
    with quiet_import():
        root.addHandler(logging.StreamHandler())
        root.setLevel(logging.INFO)
        os.write(2, b"banner\n")
    assert (list(root.handlers), root.level) == before


def test_a_banner_of_native_code_is_on_the_debug_log(caplog):
    with caplog.at_level(logging.DEBUG, "edgex.dependencies"), quiet_import():
        os.write(2, b"compiled without AVX\n")
    assert caplog.messages == ["compiled without AVX"]
