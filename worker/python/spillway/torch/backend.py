"""The backend "spillway" of torch.distributed.

    import spillway.torch

    dist.init_process_group("spillway")       # joins the job that the environment names, see environment
    dist.all_reduce(tensor)                   # through Spillway

All-reduces over all ranks go through Spillway if it can carry them (sums, averages, maxima and minima of types that it has); everything else, and groups
of some ranks, goes through gloo.
"""

from __future__ import annotations

import collections
import threading
import weakref
from datetime import timedelta
from typing import Any, Callable, Deque, List, Optional

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from ..buffers import DTYPES
from ..errors import InvalidError, SpillwayError, TimeoutError
from ..worker import Worker
from .environment import join_from_env

NAME = "spillway"

# How many all-reduces are remembered for C++, which keeps a Work but not the Python object that it is: DistributedDataParallel asks for
# the future at once, and waits for one Work that is not followed by others.
REMEMBERED = 64


class SpillwayWork(Work):
    """An all-reduce in flight, as torch.distributed has it."""

    def __init__(self, tensors: List[torch.Tensor]) -> None:
        super().__init__()
        self._tensors = tensors
        self._weak = [weakref.ref(tensor) for tensor in tensors]
        self._copy_back: Optional[Callable[[], Any]] = None
        self._complete = threading.Event()
        self._error: Optional[SpillwayError] = None
        self._lock = threading.Lock()
        self._future: "Optional[torch.futures.Future[Any]]" = None

    def copy_back(self, copy: Callable[[], Any]) -> None:
        """Says how the result gets to where it belongs, if that is not where it comes."""
        self._copy_back = copy

    def complete(self, error: Optional[SpillwayError]) -> None:
        """Is called by the worker's thread."""
        if error is None and self._copy_back is not None:
            self._copy_back()
        self._copy_back = None
        with self._lock:
            self._error = error
            self._complete.set()
            future = self._future
        if future is not None:
            self._settle(future)

    def _settle(self, future: "torch.futures.Future[Any]") -> None:
        future.set_result(self.result() if self._error is None else self._error)
        self._tensors = []

    def is_completed(self) -> bool:
        return self._complete.is_set()

    def is_success(self) -> bool:
        return self._complete.is_set() and self._error is None

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Returns when the all-reduce is complete, or raises what went wrong."""
        seconds = timeout.total_seconds() if timeout else None  # zero means none to torch
        if not self._complete.wait(seconds):
            raise TimeoutError(f"the all-reduce is not complete after {seconds} s; it is still in flight")
        self._tensors = []  # they are the caller's, and this object may be remembered for long
        if self._error is not None:
            raise self._error.again()
        return True

    def get_future(self) -> "torch.futures.Future[List[torch.Tensor]]":
        """A future of the tensors. What goes wrong is a RuntimeError there, with the same text."""
        future: "torch.futures.Future[Any]" = torch.futures.Future()
        checked = future.then(_value)
        with self._lock:
            complete = self._complete.is_set()
            if not complete:
                self._future = future
        if complete:
            self._settle(future)
        return checked

    def result(self) -> List[torch.Tensor]:
        """The tensors, as far as somebody still has them."""
        return self._tensors or [tensor for tensor in (ref() for ref in self._weak) if tensor is not None]


def _value(future: "torch.futures.Future[Any]") -> Any:
    value = future.value()
    if isinstance(value, SpillwayError):
        raise value.again()
    return value


class SpillwayProcessGroup(ProcessGroup):
    """A process group whose all-reduces go through Spillway where they can, and all else through gloo."""

    def __init__(self, gloo: dist.ProcessGroupGloo, rank: int, size: int, worker: Optional[Worker]) -> None:
        super().__init__(rank, size)
        self.gloo = gloo
        self.worker = worker  # None: a group of some ranks
        self._remembered: Deque[SpillwayWork] = collections.deque(maxlen=REMEMBERED)

    def getBackendName(self) -> str:
        return NAME

    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        opts = opts or dist.AllreduceOptions()
        op = self._carried(tensors, opts.reduceOp)
        if self.worker is None or op is None:
            return self.gloo.allreduce(tensors, opts)
        tensor = tensors[0].detach()
        work = SpillwayWork(tensors)
        if not tensor.is_contiguous():
            scattered, tensor = tensor, tensor.contiguous()
            work.copy_back(lambda: scattered.copy_(tensor))
        self.worker.all_reduce_then(tensor, work.complete, op)
        self._remembered.append(work)
        return work

    @staticmethod
    def _carried(tensors: List[torch.Tensor], op: Any) -> Optional[str]:
        """The operation as Spillway calls it; None if it is for gloo. What it decides on is the same at all ranks."""
        tensor = tensors[0]
        dtype = str(tensor.dtype).rpartition(".")[2]
        if len(tensors) != 1 or tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.numel() == 0 or dtype not in DTYPES:
            return None
        for name, number in (("sum", dist.ReduceOp.SUM), ("avg", dist.ReduceOp.AVG), ("max", dist.ReduceOp.MAX), ("min", dist.ReduceOp.MIN)):
            if op == number:
                unable = (name == "avg" and dtype == "int32") or (name in ("max", "min") and dtype == "float64")
                return None if unable else name
        return None


def _handed(name: str) -> Callable[..., Any]:
    def call(self: SpillwayProcessGroup, *args: Any, **named: Any) -> Any:
        return getattr(self.gloo, name)(*args, **named)

    call.__name__ = name
    call.__doc__ = f"{name} is gloo's."
    return call


# The base class has all of these, and refuses: so each is said.
for _name in (
    "_allgather_base",
    "_get_sequence_number_for_group",
    "_reduce_scatter_base",
    "_set_sequence_number_for_group",
    "allgather",
    "allgather_coalesced",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
):
    setattr(SpillwayProcessGroup, _name, _handed(_name))


def create(store: dist.Store, rank: int, size: int, timeout: timedelta) -> SpillwayProcessGroup:
    """Is what torch.distributed calls for init_process_group and new_group. The first group joins the job; others of as many ranks share its worker."""
    gloo = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    if dist.is_initialized():
        world = dist.distributed_c10d._get_default_group()
        shared = world.worker if isinstance(world, SpillwayProcessGroup) and world.size() == size else None
        return SpillwayProcessGroup(gloo, rank, size, shared)
    worker = join_from_env(timeout.total_seconds())
    if (worker.rank, worker.size) != (rank, size):
        worker.leave()
        raise InvalidError(f"init_process_group was called for rank {rank} of {size}, and RANK and WORLD_SIZE are {worker.rank} and {worker.size}; both must be the same")
    return SpillwayProcessGroup(gloo, rank, size, worker)


def register_backend() -> None:
    """Makes the backend known to torch.distributed. Importing spillway.torch does."""
    if not hasattr(dist.Backend, NAME.upper()):
        dist.Backend.register_backend(NAME, create)
