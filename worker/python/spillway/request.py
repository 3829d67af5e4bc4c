"""A collective in flight."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import Any, Optional

from . import _library
from .errors import SpillwayError, TimeoutError

# How long one call of the C library waits: Python runs signal handlers, and so Ctrl-C, between two of them.
SLICE = 0.25


class Request:
    """A collective in flight. Its array must be left alone until wait has returned or raised.

    The request holds the array, and the worker holds the request, so that the memory stays while the library works on it.
    """

    def __init__(self, handle: int, data: Any) -> None:
        self._handle = handle
        self._data: Optional[Any] = data
        self._pid = os.getpid()
        self._turn = threading.Lock()  # the C library lets one thread wait at a time
        self._error: Optional[SpillwayError] = None
        self._complete = False

    def done(self) -> bool:
        """Whether the collective is complete; wait then returns at once."""
        _library.refuse_child(self._pid, "done")
        if self._complete:
            return True
        # Who waits in another thread uses the handle up, so it may be looked at in turn only.
        if not self._turn.acquire(blocking=False):
            return self._complete
        try:
            if self._complete:
                return True
            done = ctypes.c_int()
            _library.check(_library.library().spillway_test(self._handle, ctypes.byref(done)))
            if done.value:
                self._finish(_library.library().spillway_wait(self._handle, -1.0))
            return self._complete
        finally:
            self._turn.release()

    def wait(self, timeout: Optional[float] = None) -> None:
        """Returns when the collective is complete, or raises what went wrong with it.

        After timeout seconds it raises a TimeoutError; the collective is still in flight then, and may be waited for again.
        """
        self._await(timeout)
        if self._error is not None:
            raise self._error.again()

    def outcome(self) -> Optional[SpillwayError]:
        """Waits, and returns what went wrong; None if nothing did."""
        self._await(None)
        return self._error

    def _await(self, timeout: Optional[float]) -> None:
        _library.refuse_child(self._pid, "wait")
        if self._complete:
            return
        end = None if timeout is None else time.monotonic() + timeout
        if not self._turn.acquire(timeout=-1 if end is None else max(0.0, timeout or 0.0)):
            raise self._late(timeout)
        try:
            while not self._complete:
                left = SLICE if end is None else min(SLICE, max(0.0, end - time.monotonic()))
                status = _library.library().spillway_wait(self._handle, left)
                if status != _library.TIMEOUT:
                    self._finish(status)
                elif end is not None and time.monotonic() >= end:
                    raise self._late(timeout)
        finally:
            self._turn.release()

    def _finish(self, status: int) -> None:
        """Takes the outcome down. The array is let go of: it is the caller's again."""
        try:
            _library.check(status)
        except SpillwayError as error:
            self._error = error.with_traceback(None)
        self._data = None
        self._complete = True

    @staticmethod
    def _late(timeout: Optional[float]) -> TimeoutError:
        return TimeoutError(f"the collective is not complete after {timeout} s; it is still in flight, and may be waited for again")
