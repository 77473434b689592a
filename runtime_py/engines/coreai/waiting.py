"""Wait for Core AI's coroutines without asyncio's own loop, which costs 30 us a call.

Core AI asks for the running loop, makes a future of it, and has the loop set its result from a thread of its own. All
that a call needs of a loop is therefore that future and a queue:

```
this thread    coroutine.send(None) -> future          take from the queue: future.set_result(outputs) -> StopIteration
Core AI's                            computes -> loop.call_soon_threadsafe(future.set_result, outputs)
```

asyncio's loop would make a task, watch a socket and be woken through it. Nothing else may be awaited here.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Coroutine
from typing import Any


class CallLoop:
    """What stands as the running loop of this thread while one coroutine is waited for; asyncio asks no more of one."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.SimpleQueue()

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The coroutine's result; another loop that runs in this thread stands still meanwhile."""
        before = asyncio._get_running_loop()
        as_loop: Any = self
        asyncio._set_running_loop(as_loop)
        try:
            while True:
                try:
                    future = coroutine.send(None)
                except StopIteration as ended:
                    return ended.value
                # What a task does with what it is handed: says that it waits, and waits.
                future._asyncio_future_blocking = False
                while not future.done():
                    call, arguments = self._calls.get()
                    call(*arguments)
        finally:
            asyncio._set_running_loop(before)

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        as_loop: Any = self
        return asyncio.Future(loop=as_loop)

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> None:
        """Have the waiting thread call something."""
        self._calls.put((callback, args))

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> None:
        """The same, from any thread."""
        self._calls.put((callback, args))

    def get_debug(self) -> bool:
        """No."""
        return False

    def is_closed(self) -> bool:
        """It has nothing to close."""
        return False
