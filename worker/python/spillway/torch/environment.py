"""Joining with what torchrun, and whoever starts it, put into the environment."""

from __future__ import annotations

import os
from typing import Optional

import torch.distributed as dist

from ..errors import InvalidError
from ..worker import Worker, join

VARIABLES = (
    "SPILLWAY_ADDR (of the appliance, host:port; of several, with commas) and SPILLWAY_JOB (the job's name) must be there, and with TLS SPILLWAY_CA, "
    "SPILLWAY_CERT and SPILLWAY_KEY (PEM files); SPILLWAY_ADDRESS (to send from), SPILLWAY_TIMEOUT (seconds to wait for the other ranks), "
    "SPILLWAY_TRANSPORT (auto, udp or af_xdp) and SPILLWAY_BUSY_POLL (like 50us) may. RANK and "
    "WORLD_SIZE are torchrun's, as are MASTER_ADDR and MASTER_PORT, which torch.distributed needs"
)


def join_from_env(timeout: Optional[float] = None) -> Worker:
    """Joins the job that the environment names, and leaves torch.distributed alone."""
    rank, size = _number("RANK"), _number("WORLD_SIZE")
    if timeout is None and "SPILLWAY_TIMEOUT" in os.environ:
        timeout = _seconds("SPILLWAY_TIMEOUT")
    worker = join(
        _text("SPILLWAY_ADDR"),
        _text("SPILLWAY_JOB"),
        rank,
        address=os.environ.get("SPILLWAY_ADDRESS"),
        ca=os.environ.get("SPILLWAY_CA"),
        cert=os.environ.get("SPILLWAY_CERT"),
        key=os.environ.get("SPILLWAY_KEY"),
        timeout=timeout,
    )
    if worker.size != size:
        worker.leave()
        raise InvalidError(
            f"the job {os.environ['SPILLWAY_JOB']} has {worker.size} ranks and WORLD_SIZE is {size}; start as many processes as the job has workers "
            f"(torchrun --nnodes, --nproc_per_node), or create the job anew (spillctl job create --workers {size})"
        )
    return worker


def init_from_env(timeout: Optional[float] = None) -> Worker:
    """Joins the job that the environment names and, unless the script has done so already, initialises torch.distributed with gloo.

    DistributedDataParallel needs a process group to compare the model's shapes and to send the first weights; it is not used for
    gradients that ddp_hook takes. timeout is how many seconds to wait for the other ranks of the job.
    """
    worker = join_from_env(timeout)
    try:
        if not dist.is_initialized():
            _text("MASTER_ADDR"), _number("MASTER_PORT")
            dist.init_process_group("gloo")
        if dist.get_rank() != worker.rank or dist.get_world_size() != worker.size:
            raise InvalidError(
                f"this process is rank {dist.get_rank()} of {dist.get_world_size()} in torch.distributed and rank {worker.rank} of {worker.size} in the job; "
                "both must be the same"
            )
    except BaseException:
        worker.leave()
        raise
    return worker


def _text(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise InvalidError(f"{name} is not set in the environment; {VARIABLES}")
    return value


def _number(name: str) -> int:
    text = _text(name)
    if not text.isdecimal():
        raise InvalidError(f"{name} is {text!r} in the environment; want a whole number; {VARIABLES}")
    return int(text)


def _seconds(name: str) -> float:
    try:
        return float(os.environ[name])
    except ValueError:
        raise InvalidError(f"{name} is {os.environ[name]!r} in the environment; want seconds; {VARIABLES}") from None
