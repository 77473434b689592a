"""Writes that torch.export does not see, or refuses: through `tensor.data`, and to weights.

```
energies.data.masked_fill_(mask, -inf)       # Tacotron 2
before:  a tensor that is no part of the program is written to, and energies keep their values
after:   detach = aten.detach.default(energies);  aten.masked_fill_.Scalar(detach, mask, -inf)

self.conv.weight.data = torch.renorm(self.conv.weight.data, 2, 0, maxnorm=1.0)        # EEGNet
before:  refused: forward changes a parameter
after:   y = aten.conv2d.default(x, p_conv_weight)      # the weight as the first run leaves it
```

The second is right where the weights are settled: a run leaves them as it finds them, on other inputs too. Then what it
writes depends on weights alone, and the program needs none of it.

Nor does it need a layer to be brought where it is, `expert.to(x.device)`, which sets the data of each weight to itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from edgex.errors import CaptureError
from edgex.export.capture.torch_internals import writes_to

_GET = torch.Tensor.data.__get__  # type: ignore[attr-defined]  # an object of its own at every access, but equal
_SET = torch.Tensor.data.__set__  # type: ignore[attr-defined]
# Maxnorm and the like scale once more by what the first time rounded.
_ROUNDS = 3


class DataAsView(TorchFunctionMode):
    """Reads `tensor.data` as `tensor.detach()`: the same memory, which writes reach.

    Args:
        module: What is traced.
        settled: Names of its parameters and buffers of which the program needs no writes.
    """

    def __init__(self, module: torch.nn.Module, settled: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._module = module
        self._settled = frozenset(settled)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        if self._settled and args and self._is_settled(args[0]):
            if func == _GET:
                return args[0].detach().clone()  # writes end here
            if func == _SET:
                return None
            if _is_in_place(func):
                func(args[0].detach().clone(), *args[1:], **(kwargs or {}))
                return args[0]
        if func == _GET:
            return args[0].detach()
        return func(*args, **(kwargs or {}))

    def _is_settled(self, value: Any) -> bool:
        """Whether it is such a weight; while torch.export traces, others stand in for the module's own."""
        if not isinstance(value, torch.Tensor):
            return False
        return any(name in self._settled and tensor is value for name, tensor in weights_of(self._module))


def _is_in_place(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    return name == "__setitem__" or (name.endswith("_") and not name.startswith("_") and name != "requires_grad_")


def weights_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """All parameters and buffers, under all their names."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


class WeightWatch(TorchFunctionMode):
    """Sees which parameters a run writes to, and which weights it writes to through `.data`, which counts no version.

    Args:
        module: What runs inside of the block.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module
        self._before = {name: _state_of(parameter) for name, parameter in module.named_parameters()}
        self._weights = {id(tensor) for _, tensor in weights_of(module)}
        self._views: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        self._set: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        before = _place_of(args[0]) if func == _SET else None
        result = func(*args, **(kwargs or {}))
        if func in (_GET, _SET) and id(args[0]) in self._weights:
            if func == _SET:
                if before != _place_of(args[0]):
                    self._set.append(args[0])
            elif isinstance(args[0], torch.nn.Parameter):  # a buffer that is written to is state
                self._views.append((args[0], result, writes_to(result)))
        return result

    def changed(self) -> list[str]:
        """Parameters that were written to, or that have other memory now."""
        return [name for name, one in self._module.named_parameters() if self._before.get(name) != _state_of(one)]

    def written(self) -> list[str]:
        """These, those written to through `.data`, and buffers whose `.data` was set; by all names."""
        through = [*self._set, *(tensor for tensor, view, version in self._views if writes_to(view) != version)]
        touched = {id(tensor) for tensor in through}
        changed = set(self.changed())
        return [name for name, one in weights_of(self._module) if name in changed or id(one) in touched]


def _state_of(parameter: torch.Tensor) -> tuple[int, int]:
    return writes_to(parameter), parameter.data_ptr()


def _place_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Which numbers are a tensor's."""
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


_CONVERSIONS = {
    "cpu": torch.device("cpu"),
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
}


@contextlib.contextmanager
def idle_conversions_skipped() -> Iterator[None]:
    """Within it, `module.to`, `cpu`, `float` and the like do nothing where all is as they would have it."""
    before = {name: getattr(torch.nn.Module, name) for name in ("to", *_CONVERSIONS)}

    def skipping(name: str, convert: Callable[..., Any]) -> Callable[..., Any]:
        def convert_or_skip(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            wanted = (_CONVERSIONS[name],) if name in _CONVERSIONS else (*args, *kwargs.values())
            return module if _is_so(module, wanted) else convert(module, *args, **kwargs)

        return convert_or_skip

    for name, convert in before.items():
        setattr(torch.nn.Module, name, skipping(name, convert))
    try:
        yield
    finally:
        for name, convert in before.items():
            setattr(torch.nn.Module, name, convert)


def _is_so(module: torch.nn.Module, wanted: tuple[Any, ...]) -> bool:
    """Whether a module's weights have a device and a dtype already; the dtype is for floating point alone."""
    devices: list[torch.device] = []
    dtypes: list[torch.dtype] = []
    for want in wanted:
        if isinstance(want, torch.Tensor):
            devices.append(want.device)
            dtypes.append(want.dtype)
        elif isinstance(want, str | torch.device):
            devices.append(torch.device(want))
        elif isinstance(want, torch.dtype):
            dtypes.append(want)
        elif want is not None and not isinstance(want, bool):  # whether it may wait
            return False
    tensors = [tensor for _, tensor in weights_of(module)]
    numbers = [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]
    stays = all(tensor.device == device for tensor in tensors for device in devices)
    return stays and all(tensor.dtype == dtype for tensor in numbers for dtype in dtypes)


def are_settled(module: torch.nn.Module, names: list[str], run: Callable[[bool], object]) -> bool:
    """Whether runs on two inputs leave these weights as they find them; some runs more may be needed for it.

    Args:
        module: After one run.
        names: Parameters and buffers that it wrote to.
        run: Runs the module, on the example inputs or, with True, on others of the same sizes.
    """
    for _ in range(_ROUNDS):
        before = {name: tensor.detach().clone() for name, tensor in weights_of(module) if name in names}
        try:
            settled = _leaves(module, before, lambda: run(True))
        except CaptureError:  # the user's code, on inputs that it may not take: nothing is known
            return False
        if _leaves(module, before, lambda: run(False)) and settled:
            return True
    return False


def _leaves(module: torch.nn.Module, before: dict[str, torch.Tensor], run: Callable[[], object]) -> bool:
    """Whether a run leaves weights as they were before."""
    run()
    after = dict(weights_of(module))
    return all(name in after and _same(value, after[name]) for name, value in before.items())


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and torch.equal(torch.nan_to_num(first), torch.nan_to_num(second))
