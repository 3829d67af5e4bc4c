"""Trains a small convolutional network on handwritten digits, with DistributedDataParallel, on as many ranks as torchrun starts.

    torchrun --nnodes 4 --nproc_per_node 1 --node_rank R --master_addr HOST --master_port 29500 digits.py --data digits.csv.gz

with SPILLWAY_ADDR, SPILLWAY_JOB and the certificates in the environment (docs/pytorch.md). --through chooses who averages the gradients: Spillway as a
communication hook ("hook"), Spillway as the backend of torch.distributed ("backend"), or gloo, to compare with.

The data is the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998), UCI Machine Learning Repository,
https://doi.org/10.24432/C50P49, licensed under CC BY 4.0: 1,797 rows of 64 pixel values from 0 to 16 and a label.
"""

import argparse
import hashlib
import json
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import spillway.torch

TEST_ROWS = 360


def load(path):
    """The pictures as 1 x 8 x 8 tensors with a mean near 0 and a variance near 1, and the labels, for training and for the test; the same split at every rank."""
    rows = torch.from_numpy(numpy.loadtxt(path, delimiter=",", dtype=numpy.int64))
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(1998))]
    pictures, labels = (rows[:, :64].float().reshape(-1, 1, 8, 8) / 16 - 0.3) / 0.37, rows[:, 64]
    return (pictures[TEST_ROWS:], labels[TEST_ROWS:]), (pictures[:TEST_ROWS], labels[:TEST_ROWS])


def network():
    """Two convolutions and two linear layers: 151,306 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def fingerprint(model):
    """SHA-256 of all weights."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


def train(options):
    if options.through == "hook":
        worker = spillway.torch.init_from_env()
    else:
        dist.init_process_group("spillway" if options.through == "backend" else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if options.batch % size:
        raise SystemExit(f"--batch {options.batch} cannot be dealt to {size} ranks alike; choose a multiple")

    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # else how sums are divided, and so their last bits, may differ from run to run
    torch.use_deterministic_algorithms(True)
    (pictures, labels), test = load(options.data)
    model = DistributedDataParallel(network(), bucket_cap_mb=options.bucket_mb)
    if options.through == "hook":
        model.register_comm_hook(worker, spillway.torch.ddp_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.5)

    order = torch.Generator().manual_seed(options.seed)  # the same at every rank, which takes its part of each batch
    for epoch in range(1, options.epochs + 1):
        began, losses = time.perf_counter(), torch.zeros(2, dtype=torch.float64)
        for batch in torch.randperm(len(labels), generator=order).split(options.batch):
            if len(batch) < options.batch:
                break  # the average over ranks is the batch's only if all have as many rows
            first = (rank + options.order) % size
            mine = batch[first::size]
            loss = cross_entropy(model(pictures[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses += torch.tensor([loss.item() * len(mine), len(mine)])
        took = time.perf_counter() - began
        dist.all_reduce(losses)
        with torch.no_grad():
            right = (model.module(test[0]).argmax(1) == test[1]).sum().item()
        report = {
            "rank": rank,
            "epoch": epoch,
            "loss": (losses[0] / losses[1]).item(),
            "test": right / TEST_ROWS,
            "seconds": took,
            "weights": fingerprint(model),
        }
        if options.json:
            print(json.dumps(report), flush=True)
        elif rank == 0:
            print(f"epoch {epoch:3}  loss {report['loss']:.4f}  test {100 * report['test']:.2f}%  {took:.2f} s  weights {report['weights'][:16]}", flush=True)

    dist.barrier()
    if options.through == "hook":
        worker.leave()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="digits.csv.gz, as in loadtest/train/data")
    parser.add_argument("--through", choices=("hook", "backend", "gloo"), default="hook", help="who averages the gradients")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="rows a step, over all ranks")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bucket-mb", type=float, default=0.25, help="size of DistributedDataParallel's buckets; small, for this model would fit into one")
    parser.add_argument("--order", type=int, default=0, help="deals the rows by so many ranks further: the same sums, in another order")
    parser.add_argument("--json", action="store_true", help="every rank prints a line of JSON an epoch")
    train(parser.parse_args())
