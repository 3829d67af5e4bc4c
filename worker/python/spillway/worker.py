"""One rank of a job."""

from __future__ import annotations

import collections
import ctypes
import os
import threading
import weakref
from types import TracebackType
from typing import Any, Deque, Optional, Type, Union

from . import _library, buffers
from .errors import ClosedError, InvalidError, SpillwayError
from .request import SLICE, Request
from .waiter import Callback, Waiter

PathLike = Union[str, "os.PathLike[str]"]


class Worker:
    """One rank of a job, as join returns it. As a context manager it leaves the job at the end.

    All ranks must issue the same collectives in the same order. Methods may be called from several threads, but then that order is the caller's to keep.
    """

    def __init__(self, handle: int) -> None:
        self._lib = _library.library()
        self._handle: Optional[int] = handle
        self._pid = os.getpid()
        self._rank = self._lib.spillway_rank(handle)
        self._size = self._lib.spillway_size(handle)
        self._lock = threading.Lock()  # over what follows
        self._flight: Deque[Request] = collections.deque()
        self._waiter: Optional[Waiter] = None
        # A worker that is dropped, or that the process ends with, leaves: before the arrays go that the library works on.
        self._end = weakref.finalize(self, _leave_quietly, handle, self._pid)

    @property
    def rank(self) -> int:
        """This worker's rank, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """How many ranks the job has."""
        return self._size

    @property
    def closed(self) -> bool:
        """Whether the worker has left the job."""
        return self._handle is None

    def all_reduce(self, data: Any, op: str = "sum") -> None:
        """Replaces the elements of an array or tensor, at every rank, by their reduction over all ranks.

        op is "sum", "avg", "max" or "min". Elements are float32, float64, float16, bfloat16 or int32 (no "avg"; and no "max" and "min" of float64). The
        result has the same bits at every rank. After an error the content is undefined.
        """
        self.all_reduce_async(data, op).wait()

    def all_reduce_async(self, data: Any, op: str = "sum") -> Request:
        """Issues an all-reduce and returns at once. Several may be in flight; they complete in the order of issue."""
        return self._issue(data, op, None)

    def all_reduce_then(self, data: Any, callback: Callback, op: str = "sum") -> Request:
        """Is all_reduce_async, and has callback called in a thread of the worker when it is complete: with what went wrong, or None. It must not raise."""
        return self._issue(data, op, callback)

    def _issue(self, data: Any, op: str, callback: Optional[Callback]) -> Request:
        _library.refuse_child(self._pid, "all_reduce")
        found, dtype, number = buffers.reducible(data, op)
        handle = ctypes.c_void_p()
        with self._lock:
            _library.check(self._lib.spillway_all_reduce_async(self._open(), found.address, found.elements, dtype, number, ctypes.byref(handle)))
            request = Request(handle.value or 0, data)
            # The library works on memory that the caller may have dropped, so requests are held here until they are complete.
            while self._flight and self._flight[0].done():
                self._flight.popleft()
            self._flight.append(request)
            if callback is not None:
                if self._waiter is None:
                    self._waiter = Waiter(f"spillway rank {self._rank}")
                self._waiter.add(request, callback)
        return request

    def barrier(self) -> None:
        """Returns when all ranks have called it."""
        _library.refuse_child(self._pid, "barrier")
        _library.check(self._lib.spillway_barrier(self._open()))

    def broadcast(self, data: Any, root: int = 0) -> None:
        """Replaces the array or tensor, of any type of elements, by that of the rank root. For small data: each byte costs two on every link."""
        _library.refuse_child(self._pid, "broadcast")
        found = buffers.buffer(data)
        _library.check(self._lib.spillway_broadcast(self._open(), found.address, found.size, root))

    def all_gather(self, data: Any) -> Any:
        """Returns the arrays or tensors of all ranks, of one shape and any type of elements, stacked along a new first dimension. For small data, as broadcast."""
        _library.refuse_child(self._pid, "all_gather")
        found = buffers.buffer(data, write=False)
        shape = (self._size, *data.shape)
        if type(data).__module__.startswith("torch"):
            every = data.new_empty(shape)
        else:
            import numpy

            every = numpy.empty(shape, data.dtype)
        _library.check(self._lib.spillway_all_gather(self._open(), found.address, found.size, buffers.buffer(every).address))
        return every

    def leave(self) -> None:
        """Leaves the job; collectives in flight end with a ClosedError. To leave twice is harmless."""
        _library.refuse_child(self._pid, "leave")
        with self._lock:
            handle, self._handle = self._handle, None
            waiter, self._waiter = self._waiter, None
        if handle is None:
            return
        self._end.detach()
        try:
            _library.check(self._lib.spillway_leave(handle))
        finally:
            if waiter is not None:
                waiter.close()
            while self._flight:
                self._flight.popleft().outcome()

    def _open(self) -> int:
        if self._handle is None:
            raise ClosedError("the worker has left the job; join again")
        return self._handle

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if os.getpid() == self._pid:  # a fork inside the block left the worker to its parent
            self.leave()

    def __reduce__(self) -> Any:
        raise InvalidError("a worker cannot be pickled: it belongs to this process; join in the other one, with a rank of its own")

    def __repr__(self) -> str:
        return f"<spillway.Worker rank {self._rank} of {self._size}{', left' if self.closed else ''}>"


def _leave_quietly(handle: int, owner: int) -> None:
    if os.getpid() == owner:
        _library.library().spillway_leave(handle)


def join(
    addr: str,
    job: str,
    rank: int,
    *,
    address: Optional[str] = None,
    ca: Optional[PathLike] = None,
    cert: Optional[PathLike] = None,
    key: Optional[PathLike] = None,
    timeout: Optional[float] = None,
    patience: Optional[float] = None,
    transport: Optional[str] = None,
    busy_poll: Optional[float] = None,
) -> Worker:
    """Joins a job as one rank, and waits until all of its ranks have.

    addr is the appliance's: "host:port", or "unix:" and the path of a socket; where there are several appliances, the addresses of all with commas between
    them, so that one that leads is found whichever is away. ca, cert and key are PEM files for TLS: the authority of the appliance's
    certificate, this worker's certificate and its key; all three, or none for a connection without TLS. address is the IPv4 address to send from, which
    is else that of the connection to the appliance. timeout is how many seconds to wait for the other ranks, without end if None; patience
    how long to go on trying while the appliance cannot be reached, 10 seconds if None.

    transport is how packets are moved: "auto", "udp" or "af_xdp"; if None, what SPILLWAY_TRANSPORT in the environment says, else "auto". busy_poll is for how many
    seconds, at most 0.1, to look again and again for packets before sleeping, which makes small collectives faster and costs a core; if None, what SPILLWAY_BUSY_POLL
    says (like "50us"), else not at all.
    """
    options = _library.Options(
        size=ctypes.sizeof(_library.Options),
        addr=_text("addr", addr),
        job=_text("job", job),
        rank=rank,
        address=_text("address", address),
        ca=_text("ca", ca),
        cert=_text("cert", cert),
        key=_text("key", key),
        timeout=_seconds("timeout", timeout),
        patience=_seconds("patience", patience),
        transport=_text("transport", transport),
        busy_poll=_seconds("busy_poll", busy_poll),
    )
    attempt = _Join(options)
    try:
        return attempt.result()
    except BaseException:
        attempt.abandon()
        raise


class _Join(threading.Thread):
    """A join in a thread of its own: it may take for ever, and Python sees a Ctrl-C between two calls only."""

    def __init__(self, options: _library.Options) -> None:
        super().__init__(name="spillway join", daemon=True)
        self._options = options
        self._lib = _library.library()
        self._lock = threading.Lock()
        self._abandoned = False
        self._handle: Optional[int] = None
        self._error: Optional[SpillwayError] = None
        self.start()

    def run(self) -> None:
        handle = ctypes.c_void_p()
        try:
            _library.check(self._lib.spillway_join(ctypes.byref(self._options), ctypes.byref(handle)))
        except SpillwayError as error:
            self._error = error.with_traceback(None)
            return
        with self._lock:
            self._handle = handle.value
            abandoned = self._abandoned
        if abandoned:
            self._lib.spillway_leave(self._handle)

    def result(self) -> Worker:
        while self.is_alive():
            self.join(SLICE)
        if self._error is not None:
            raise self._error.again()
        assert self._handle is not None
        return Worker(self._handle)

    def abandon(self) -> None:
        """Has the thread leave again what it joins after all."""
        with self._lock:
            self._abandoned = True


def _text(name: str, value: Optional[PathLike]) -> Optional[bytes]:
    if value is None:
        return None
    text = os.fsencode(value)
    if b"\0" in text:
        raise InvalidError(f"{name} has a zero byte in it")
    return text


def _seconds(name: str, value: Optional[float]) -> float:
    if value is None:
        return 0.0
    if not value > 0:
        raise InvalidError(f"{name} is {value}; want seconds above 0, or None for the default")
    return float(value)
