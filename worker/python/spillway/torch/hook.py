"""The communication hook for DistributedDataParallel."""

# Annotations are evaluated here: torch looks whether those of a hook are the types that it wants.
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from ..errors import InvalidError, SpillwayError
from ..request import Request
from ..worker import Worker


def ddp_hook(worker: Worker, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages a bucket of gradients over all ranks, in place: model.register_comm_hook(worker, spillway.torch.ddp_hook).

    Every bucket is issued as soon as its gradients are there, so that several are in flight while the backward pass goes on. What goes
    wrong is raised from backward() as the SpillwayError it is.
    """
    gradients = bucket.buffer()
    if not isinstance(worker, Worker):
        raise InvalidError(f"the state of spillway.torch.ddp_hook is {worker!r}; register it with the worker: model.register_comm_hook(worker, spillway.torch.ddp_hook)")
    if dist.is_initialized() and dist.get_world_size() != worker.size:
        raise InvalidError(f"torch.distributed has {dist.get_world_size()} ranks and the job {worker.size}; both must be the same")
    result: torch.futures.Future[Any] = torch.futures.Future()
    checked = result.then(_value)

    def complete(error: Optional[SpillwayError]) -> None:
        result.set_result(gradients if error is None else error)

    request = worker.all_reduce_then(gradients, complete, "avg")
    _raise_at_the_end(request)
    return checked


def _value(result: torch.futures.Future[Any]) -> torch.Tensor:
    """The bucket. A future of torch 1.13 knows errors of its callbacks only: one that is set would be taken for a value."""
    value = result.value()
    if isinstance(value, SpillwayError):
        raise value.again()
    return value


def _raise_at_the_end(request: Request) -> None:
    """Waits for the bucket at the end of the backward pass, just before DistributedDataParallel does, because it would make
    a RuntimeError of every error. (In the first pass with static_graph the hooks run after this place; then a RuntimeError it is.)"""
    torch.autograd.Variable._execution_engine.queue_callback(request.wait)


__all__: List[str] = ["ddp_hook"]
