"""The state of a program is what eager changes, and its initial values are the model's."""

import numpy as np
import pytest
import torch
from capture_checks import HERE, X, assert_signature_holds_from_fresh, captured, module_of, names
from torch import nn

from edgex.errors import CaptureError
from edgex.export.capture.program import capture
from edgex.runtime.artifact.specs import StateSpec


class TestState:
    def test_buffers_that_change(self):
        def forward(self, x):
            self.count += 1
            self.cache[0] = x[0]
            return self.linear(x) * self.count + self.cache.sum() + self.frozen

        buffers = {"count": torch.tensor(5.0), "cache": torch.zeros(2, 4), "frozen": torch.ones(4)}
        result = captured(forward, (X,), **buffers)
        assert result.program.state == (StateSpec("count", "float32", ()), StateSpec("cache", "float32", (2, 4)))
        assert torch.equal(result.program.exported.state_dict["count"], torch.tensor(5.0))
        assert_signature_holds_from_fresh(result)

    def test_replaced_buffer(self):
        def forward(self, x):
            self.count = self.count + 1
            return x * self.count

        result = captured(forward, (X,), count=torch.tensor(5))
        assert names(result.program.state) == ["count"]
        assert_signature_holds_from_fresh(result)

    def test_a_buffer_that_the_first_run_fills_is_captured_filled(self):
        def forward(self, x):
            if self.table.shape[0] != x.shape[0]:
                self.table = torch.arange(float(x.shape[0]))[:, None] + 1
            self.count += 1
            return x * self.table * self.count

        result = captured(forward, (X,), table=torch.zeros(1, 1), count=torch.tensor(5.0))
        assert names(result.program.state) == ["count"]
        assert any("fills table" in notice for notice in result.notices)
        assert_signature_holds_from_fresh(result)

    def test_a_buffer_that_every_run_makes_of_weights_is_captured_filled(self):
        def forward(self, x):
            self.table = torch.tanh(self.weight)
            self.count += 1
            return torch.from_numpy(np.tanh(x.numpy())) * self.table * self.count  # NumPy: in strict mode

        result = captured(forward, (X,), table=torch.zeros(4), weight=torch.randn(4), count=torch.tensor(5.0))
        assert names(result.program.state) == ["count"]
        assert any("fills table" in notice for notice in result.notices)
        assert_signature_holds_from_fresh(result)

    def test_a_buffer_that_is_read_before_it_is_filled_is_state(self):
        def forward(self, x):
            y = x * self.table
            self.table = self.weight * 2
            return y

        result = captured(forward, (X,), table=torch.zeros(4), weight=torch.randn(4))
        assert names(result.program.state) == ["table"]
        assert_signature_holds_from_fresh(result)

    @pytest.mark.parametrize("of", ["values", "every run"])
    def test_what_only_looks_like_a_table_is_refused(self, of):
        def forward(self, x):
            if of == "every run" or self.table.shape[0] != x.shape[0]:
                self.table = (x if of == "values" else self.table.sum() + torch.ones_like(x)).clone()
            return x * self.table

        with pytest.raises(CaptureError, match=r"gives buffer table another shape: \[1, 1\] becomes \[3, 4\]"):
            captured(forward, (X,), table=torch.zeros(1, 1))

    def test_strict_capture_that_loses_a_replaced_buffer_is_refused(self):
        def forward(self, x):
            self.count = self.count + 1
            return torch.from_numpy(np.tanh(x.numpy())) * self.count

        with pytest.raises(CaptureError, match="lost the change that forward makes to buffer count") as caught:
            captured(forward, (X,), count=torch.tensor(5))
        assert "self.count.copy_(value)" in caught.value.fix

    def test_non_persistent_and_shared_buffers(self):
        class Part(nn.Module):
            def __init__(self, cache):
                super().__init__()
                self.register_buffer("cache", cache, persistent=False)

            def forward(self, x):
                self.cache.add_(x)
                return self.cache * 2

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                cache = torch.full((3, 4), 7.0)
                self.one, self.two = Part(cache), Part(cache)

            def forward(self, x):
                return self.one(x) + self.two(x)

        result = capture(Model().eval(), (X,), source_root=HERE)
        assert names(result.program.state) in (["one.cache"], ["two.cache"])
        assert_signature_holds_from_fresh(result)

    @pytest.mark.parametrize("calls", [1, 2])
    @pytest.mark.parametrize("form", ["a piece", "the old one is read later", "two, of each other", "only where long"])
    def test_buffers_that_layers_assign(self, form, calls):
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("past", torch.full((3, 2), 0.5))
                self.register_buffer("count", torch.full((3, 2), 3.0))

            def forward(self, x):
                if form == "a piece":
                    x = torch.cat((self.past, x), -1)
                    self.past = x[..., -2:]
                    return x[..., :4] * 2
                if form == "the old one is read later":
                    before = self.past
                    self.past = before * 0.5 + x[:, :2]
                    return x * torch.cat((before, self.past), -1)
                if form == "two, of each other":
                    self.past, self.count = self.count + x[:, :2], self.past * 2
                    return x + torch.cat((self.past, self.count), -1)
                if x.shape[1] > 2:
                    self.past = self.past + x[:, 2:]
                return x * self.past.sum()

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([Layer(), Layer()])

            def forward(self, x):
                for layer in self.layers:
                    for _ in range(calls):
                        x = layer(x).sin()
                return x

        result = capture(Model().eval(), (X,), source_root=HERE)
        changed = ["past", "count"] if form == "two, of each other" else ["past"]
        assert set(names(result.program.state)) == {f"layers.{at}.{name}" for at in (0, 1) for name in changed}
        assert_signature_holds_from_fresh(result)

    def test_a_view_that_is_written(self):
        def forward(self, x):
            self.cache.view(8)[:4].add_(x[0])
            return self.cache * 2

        result = captured(forward, (X,), cache=torch.zeros(2, 4))
        assert names(result.program.state) == ["cache"]
        assert_signature_holds_from_fresh(result)

    def test_a_copy_that_is_written_is_no_state(self):
        def forward(self, x):
            return self.table.t().reshape(8).mul_(2) + x.sum()

        result = captured(forward, (X,), table=torch.ones(2, 4))
        assert result.program.state == ()

    def test_batch_norm_counts_no_version(self):
        def forward(self, x):
            return nn.functional.batch_norm(x, self.mean, self.var, training=True) + self.mean

        result = captured(forward, (X,), mean=torch.zeros(4), var=torch.ones(4))
        assert names(result.program.state) == ["mean", "var"]
        assert_signature_holds_from_fresh(result)

    def test_unchanged_values_are_state_all_the_same(self):
        def forward(self, x):
            self.cache[0] = x[0]
            return self.cache + x

        result = captured(forward, (torch.zeros(3, 4),), cache=torch.zeros(3, 4))
        assert names(result.program.state) == ["cache"]

    def test_a_buffer_that_is_moved_to_where_it_is_is_no_state(self):
        def forward(self, x):
            self.table = self.table.to(x.device, x.dtype)
            self.other = self.other.contiguous().type_as(x)
            return x + self.table + self.other

        result = captured(forward, (X,), table=torch.randn(4), other=torch.randn(4))
        assert names(result.program.state) == []
        assert "aten.copy_.default" not in {str(node.target) for node in result.program.exported.graph.nodes}

    def test_a_buffer_that_is_written_before_it_is_moved_is_state(self):
        def forward(self, x):
            self.table.add_(1)
            self.table = self.table.to(x.device)
            return x + self.table

        result = captured(forward, (X,), table=torch.randn(4))
        assert names(result.program.state) == ["table"]
        assert_signature_holds_from_fresh(result)

    def test_a_copy_from_before_a_write_is_no_write_of_a_tensor_into_itself(self):
        def forward(self, x):
            before = self.table.to(x.dtype, False, True)
            self.table[:2].add_(1)
            y = x + self.table
            self.table.copy_(before)
            return y

        exported = captured(forward, (X,), table=torch.randn(4)).program.exported
        assert torch.equal(exported.module()(X)[0], exported.module()(X)[0])
        assert "aten.copy_.default" in {str(node.target) for node in exported.graph.nodes}

    def test_under_autocast_regions(self):
        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                self.count.add_(1)
            return x * self.count

        result = captured(forward, (X,), count=torch.tensor(5.0))
        assert names(result.program.state) == ["count"]

    def test_of_an_exported_program(self, tmp_path):
        def forward(self, x):
            self.count += 1
            return x * self.count

        torch.export.save(torch.export.export(module_of(forward, count=torch.tensor(5.0)), (X,)), tmp_path / "n.pt2")
        result = capture(torch.export.load(tmp_path / "n.pt2"), source_root=tmp_path)
        assert names(result.program.state) == ["count"]
        assert_signature_holds_from_fresh(result)
