"""Times training steps of a large model on random data: what the averaging of gradients takes, and the whole step.

Started as digits.py is. The model is a stack of linear layers with --parameters parameters (25.6 million are a ResNet-50's), and its gradients go in
buckets of 25 MB, as DistributedDataParallel makes them. Every rank prints a line of JSON a step, with two times: of the averages alone, with the gradients
all there at once, and of a whole step, in which they overlap with the backward pass.
"""

import argparse
import json
import math
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import spillway.torch

LAYERS = 12
BUCKET = 25 * 1024 * 1024 // 4


def main(options):
    if options.through == "hook":
        worker = spillway.torch.init_from_env()
    else:
        dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    width = round(math.sqrt(options.parameters / LAYERS))
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS))))
    if options.through == "hook":
        model.register_comm_hook(worker, spillway.torch.ddp_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    elements = sum(parameter.numel() for parameter in model.parameters())
    gradients = [torch.randn(min(BUCKET, elements - first)) for first in range(0, elements, BUCKET)]

    def average():
        if options.through == "hook":
            for request in [worker.all_reduce_async(bucket, "avg") for bucket in gradients]:
                request.wait()
            return
        for work in [dist.all_reduce(bucket, async_op=True) for bucket in gradients]:
            work.wait()
        for bucket in gradients:
            bucket /= dist.get_world_size()

    def step():
        optimizer.zero_grad()
        model(rows).sum().backward()
        optimizer.step()

    rows = torch.randn(options.rows, width)
    for number in range(options.steps + 1):  # the first is to warm up
        times = {}
        for name, action in (("communication", average), ("whole", step)):
            dist.barrier()
            began = time.perf_counter()
            if rank == dist.get_world_size() - 1:
                time.sleep(options.straggler)
            action()
            times[name] = time.perf_counter() - began
        if number:
            print(json.dumps({"rank": rank, "step": number, "elements": elements, **times}), flush=True)
    dist.barrier()
    if options.through == "hook":
        worker.leave()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--through", choices=("hook", "gloo"), default="hook", help="who averages the gradients")
    parser.add_argument("--parameters", type=int, default=25_600_000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rows", type=int, default=8, help="of random data a step and rank")
    parser.add_argument("--straggler", type=float, default=0.0, help="seconds for which the last rank pauses before each")
    main(parser.parse_args())
