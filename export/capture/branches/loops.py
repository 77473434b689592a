"""Loops over the places of a vector that are not zero, which may as well go over all of them.

```
for expert in hit.nonzero():                     # only experts that a token chose: mixtures of experts
    tokens = torch.where(chosen[expert])[0]      # of others there are none
    y.index_add_(0, tokens, self.experts[expert](x[tokens]))
```

How often such a loop runs depends on values, and a program has one path. Over all places it runs equally often; where
that gives the same for every input that was tried, the program has it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.export.capture.branches.deciding import Site
from edgex.export.capture.branches.runs import Call, Run, alike, run_listening
from edgex.export.source.user_code.user_line import line_at

if TYPE_CHECKING:
    import torch

# Each is tried by itself. The layers of a mixture of experts share one.
_MOST_SITES = 8


def find_whole_loops(module: torch.nn.Module, calls: Sequence[Call], state: Collection[str]) -> tuple[Site, ...]:
    """Sites of `nonzero` for which all places give the same as those that are not zero.

    Args:
        module: The model; its buffers are what they were afterwards.
        calls: Arguments to try, the example's in front. Each site has to leave out places for one of them.
        state: Names of buffers that forward writes to.
    """
    natural = [run_listening(module, calls[0], {}, state, lazy_items=False)]
    sites = tuple(natural[0].hits)
    if not 0 < len(sites) <= _MOST_SITES:
        return ()
    natural += [run_listening(module, call, {}, state, lazy_items=False) for call in calls[1:]]
    return tuple(site for site in sites if _holds(site, module, calls, state, natural))


def _holds(
    site: Site, module: torch.nn.Module, calls: Sequence[Call], state: Collection[str], natural: Sequence[Run]
) -> bool:
    tried = [at for at, run in enumerate(natural) if run.outputs is not None and run.hits.get(site, False)]
    return bool(tried) and all(
        alike(natural[at], run_listening(module, calls[at], {}, state, lazy_items=False, whole=[site])) for at in tried
    )


def describe_loops(sites: Sequence[Site], source_root: Path) -> list[str]:
    """What the user should know of them, a sentence each."""
    lines = [line_at(site.file, site.line, source_root) for site in sites]
    return [
        f"the places at {line.place}{f' ({line.text})' if line.text else ''} are all of the vector's, not only those "
        "that are not zero: inputs with few of them give the same, as far as they were tried"
        for line in lines
    ]
