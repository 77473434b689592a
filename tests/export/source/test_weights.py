"""Weights that are not numbers are refused by name; infinity in a buffer is legal."""

import pytest
import torch

from edgex.errors import CaptureError
from edgex.export.source.weights import check_weights, put_in_eval


def make_model():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).eval()
    model.register_buffer("mask", torch.tensor([0.0, float("-inf")]))
    return model


def test_infinity_in_a_buffer_is_legal():
    check_weights(make_model())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_parameters_are_named(value):
    model = make_model()
    with torch.no_grad():
        model[0].weight[1, 2] = value
    with pytest.raises(CaptureError, match=r"hold (NaN|Inf) in 0\.weight\n") as caught:
        check_weights(model)
    assert caught.value.exit_code == 3


def test_nan_in_a_buffer_is_refused():
    model = make_model()
    model[1].running_var[0] = float("nan")
    with pytest.raises(CaptureError, match=r"NaN in 1\.running_var"):
        check_weights(model)


def test_exported_program():
    model = make_model()
    with torch.no_grad():
        model[0].bias[0] = float("nan")
    program = torch.export.export(model, (torch.ones(2, 4),))
    with pytest.raises(CaptureError, match=r"NaN in 0\.bias"):
        check_weights(program)


def test_sums_that_overflow_are_not_infinite_weights():
    model = torch.nn.Linear(4, 4, dtype=torch.float16)
    with torch.no_grad():
        model.weight.fill_(60000.0)
    check_weights(model)


def test_many_names_are_shortened():
    model = torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(8)])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(CaptureError, match="and 11 more"):
        check_weights(model)


def test_eval_mode_says_nothing_when_it_was():
    assert put_in_eval(make_model()) == ()


def test_layers_for_which_the_mode_matters_are_named():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GRU(4, 4, 2, dropout=0.5), torch.nn.GRU(4, 4))
    assert put_in_eval(model) == ("the model was in training mode and has been put in eval mode; this changes 1 (GRU)",)
    assert not any(part.training for part in model.modules())


def test_the_module_of_an_exported_program_has_one_mode():
    assert put_in_eval(torch.export.export(make_model(), (torch.ones(2, 4),)).module()) == ()
