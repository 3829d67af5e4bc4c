"""The thread that says when requests are complete."""

from __future__ import annotations

import queue
import threading
from typing import Callable, Optional, Tuple

from .errors import SpillwayError
from .request import Request

Callback = Callable[[Optional[SpillwayError]], None]


class Waiter:
    """A thread that waits for requests in the order of issue, which is the order in which they complete, and calls back."""

    def __init__(self, name: str) -> None:
        self._queue: "queue.SimpleQueue[Optional[Tuple[Request, Callback]]]" = queue.SimpleQueue()
        # A daemon, so that a process whose main thread fails can end without having left.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, request: Request, callback: Callback) -> None:
        """Has callback called in the thread, with what went wrong or None, when the request is complete. It must not raise."""
        self._queue.put((request, callback))

    def close(self) -> None:
        """Ends the thread after what it was given so far."""
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            request, callback = item
            callback(request.outcome())
            # Or the last array would stay until the next one comes.
            del item, request, callback
