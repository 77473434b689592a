"""The bytes of tensors, whatever their strides say."""

import pytest
import torch

from edgex.delegates.graph.schema import content_of


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.arange(12)[3::2],
        torch.tensor([1.5], dtype=torch.bfloat16),
        torch.arange(9.0).as_strided((1, 1), (5, 3), 4),
        torch.zeros(3, 0),
        torch.tensor([1 + 2j, 3 - 1j]).conj(),
    ],
    ids=["transposed", "every_other", "one", "one_with_strides", "none", "conjugated"],
)
def test_content_is_that_of_a_contiguous_copy(tensor):
    copy = tensor.clone(memory_format=torch.contiguous_format).resolve_conj()
    assert bytes(content_of(tensor).tolist()) == bytes(copy.untyped_storage().tolist())
