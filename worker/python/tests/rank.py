"""One rank of a job, for tests in a rack: python3 -m tests.rank SCENARIO. The environment is init_from_env's; each scenario prints lines of JSON."""

import gc
import json
import multiprocessing
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import spillway
import spillway.torch


def say(**what):
    print(json.dumps(what), flush=True)


def said(action):
    """What an action raises, in words for the test."""
    try:
        action()
    except Exception as error:
        return {"kind": type(error).__name__, "text": str(error), "ranks": list(getattr(error, "ranks", ())), "is_runtime_error": isinstance(error, RuntimeError)}
    return None


def collectives(_):
    """Every collective, in every type, with arrays and with tensors, on this process's own memory."""
    with spillway.torch.join_from_env() as worker:
        n, mine = worker.size, float(worker.rank + 1)
        total, right = n * (n + 1) / 2, {}
        for dtype in ("float32", "float64", "float16", "int32"):
            array = numpy.full((3, 1000), mine, dtype)
            worker.all_reduce(array)
            right["numpy " + dtype] = bool((array == total).all())
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32):
            tensor = torch.full((3, 1000), mine).to(dtype)
            at = tensor.data_ptr()
            worker.all_reduce(tensor)
            right[f"torch {dtype}"] = bool((tensor == total).all()) and tensor.data_ptr() == at
        for op, want in (("avg", total / n), ("max", n), ("min", 1)):
            tensor = torch.full((1000,), mine)
            worker.all_reduce(tensor, op)
            right[op] = bool((tensor == want).all())
        requests = [(k, tensor, worker.all_reduce_async(tensor)) for k in range(20) for tensor in (torch.full((10_000,), mine * k),)]
        for k, tensor, request in requests:
            request.wait(60)
            right[f"async {k}"] = request.done() and bool((tensor == total * k).all())
        # Dropped by the caller in flight: the memory must stay until the library has done with it.
        for _ in range(50):
            worker.all_reduce_async(torch.full((10_000,), mine))
            gc.collect()
        worker.barrier()
        data = numpy.array(["from", str(worker.rank)], dtype="U8")
        worker.broadcast(data, root=n - 1)
        right["broadcast"] = list(data) == ["from", str(n - 1)]
        every = worker.all_gather(torch.tensor([worker.rank, 7]))
        right["all_gather"] = every.tolist() == [[rank, 7] for rank in range(n)]
        every = worker.all_gather(numpy.array([worker.rank], dtype="int64"))
        right["all_gather numpy"] = every.tolist() == [[rank] for rank in range(n)]
    right["leave"] = worker.closed and said(lambda: worker.all_reduce(torch.ones(3)))["kind"] == "ClosedError"
    say(wrong=[name for name, holds in right.items() if not holds], checks=len(right))


def mistakes(_):
    """What goes wrong in a job that works, and that the job goes on where it can."""
    with spillway.torch.join_from_env() as worker:
        say(
            noncontiguous=said(lambda: worker.all_reduce(torch.ones(4, 4)[:, 1])),
            dtype=said(lambda: worker.all_reduce(numpy.arange(4))),
            device=said(lambda: worker.all_reduce(torch.ones(4, device="meta"))),
            saturated=said(lambda: worker.all_reduce(numpy.full(10, 2**31 - 1, "int32"))),
            non_finite=said(lambda: worker.all_reduce(torch.full((10,), float("nan") if worker.rank == 1 else 1.0))),
            after=said(lambda: worker.all_reduce(torch.ones(10))),
            pickled=said(lambda: __import__("pickle").dumps(worker)),
            forked=in_fork(worker),
            afterwards=said(lambda: worker.all_reduce(torch.ones(10))),
            disagreement=said(lambda: worker.all_reduce(torch.ones(10 + worker.rank))),
        )


def in_fork(worker):
    """What the child of a fork, as a DataLoader's worker is, gets of each call."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child():
        answers.put(
            [
                said(lambda: worker.all_reduce(torch.ones(3))),
                said(worker.barrier),
                said(worker.leave),
                said(lambda: spillway.join("127.0.0.1:1", "x", 0, patience=1)),
            ]
        )

    process = context.Process(target=child)
    process.start()
    got = answers.get()
    process.join()
    return got


def endless(_):
    """All-reduces without end, until a rank is killed; then what the others get."""
    worker = spillway.torch.join_from_env()
    tensor, began = torch.ones(100_000), None
    say(started=worker.rank)
    try:
        while True:
            began = time.monotonic()
            worker.all_reduce(tensor, "avg")
    except spillway.SpillwayError as error:
        say(kind=type(error).__name__, text=str(error), ranks=list(error.ranks), broken=error.broken, after=time.monotonic() - began)
    worker.leave()


def endless_ddp(_):
    """Training without end, until a rank is killed; then what the others get out of backward()."""
    worker = spillway.torch.init_from_env()
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(100, 100) for _ in range(4))), bucket_cap_mb=0.05)
    model.register_comm_hook(worker, spillway.torch.ddp_hook)
    say(started=worker.rank)
    while True:
        began = time.monotonic()
        got = said(lambda: model(torch.randn(8, 100)).sum().backward())
        if got is not None:
            say(**got, after=time.monotonic() - began)
            break
    worker.leave()
    # torch.distributed's own store may be gone with the rank that was killed.
    os._exit(0)


def backend(_):
    """A script that knows of torch.distributed only."""
    dist.init_process_group("spillway")
    rank, n, right = dist.get_rank(), dist.get_world_size(), {}
    group = dist.distributed_c10d._get_default_group()
    carried = []
    inner = group.worker.all_reduce_then
    group.worker.all_reduce_then = lambda *arguments: (carried.append(arguments[2]), inner(*arguments))[1]
    for op, want in ((dist.ReduceOp.SUM, n * (n + 1) / 2), (dist.ReduceOp.AVG, (n + 1) / 2), (dist.ReduceOp.MAX, n), (dist.ReduceOp.MIN, 1)):
        tensor = torch.full((5, 7), float(rank + 1))
        dist.all_reduce(tensor, op)
        right[f"all_reduce {want}"] = bool((tensor == want).all())
    right["through Spillway"] = carried == ["sum", "avg", "max", "min"]
    scattered = torch.full((6, 6), float(rank + 1)).t()[1:]
    work = dist.all_reduce(scattered, async_op=True)
    work.wait()
    right["not contiguous"] = bool((scattered == n * (n + 1) / 2).all()) and work.is_completed()
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    right["future"] = future.wait()[0].tolist() == [n] * 3
    whole = torch.tensor([2**40 + rank])
    dist.all_reduce(whole, dist.ReduceOp.MAX)
    right["int64 by gloo"] = whole.item() == 2**40 + n - 1 and len(carried) == 6
    box = [None] * n
    dist.all_gather_object(box, {"rank": rank})
    right["all_gather_object"] = [one["rank"] for one in box] == list(range(n))
    value = torch.tensor([rank])
    dist.broadcast(value, 1)
    right["broadcast"] = value.item() == 1
    value = torch.tensor([1])
    dist.reduce(value, 0)
    right["reduce"] = rank != 0 or value.item() == n
    pair = dist.new_group([0, 1])
    if rank < 2:
        tensor = torch.ones(4)
        dist.all_reduce(tensor, group=pair)
        right["some ranks by gloo"] = tensor.tolist() == [2] * 4
    model = DistributedDataParallel(torch.nn.ModuleList([torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4)])[0])
    model(torch.full((1, 4), float(rank))).sum().backward()
    right["DistributedDataParallel"] = bool((model.module.weight.grad == (n - 1) / 2).all())
    non_finite = said(lambda: dist.all_reduce(torch.full((4,), float("inf") if rank == 0 else 1.0)))
    right["errors have their kind"] = non_finite is not None and non_finite["kind"] == "NonFiniteError" and non_finite["ranks"] == [0]
    dist.barrier()
    dist.destroy_process_group()
    say(wrong=[name for name, holds in right.items() if not holds], checks=len(right))


def flat(count):
    """Many small all-reduces: memory and descriptors before and after, when all that is made once has been."""
    with spillway.torch.join_from_env() as worker:
        tensor = torch.ones(256)

        def batch(times):
            for k in range(times):
                if k % 10:
                    worker.all_reduce(tensor, "avg")
                else:  # through the thread, too
                    worker.all_reduce_then(tensor, lambda error: None, "avg").wait()
            gc.collect()
            with open("/proc/self/statm") as statm:
                return {"memory": int(statm.read().split()[1]) * 4096, "descriptors": len(os.listdir("/proc/self/fd")), "threads": len(os.listdir("/proc/self/task"))}

        before, began = batch(1000), time.monotonic()
        after = batch(int(count))
        say(before=before, after=after, seconds=time.monotonic() - began)


if __name__ == "__main__":
    torch.set_num_threads(1)
    {run.__name__: run for run in (collectives, mistakes, endless, endless_ddp, backend, flat)}[sys.argv[1]](*sys.argv[2:] or [None])
