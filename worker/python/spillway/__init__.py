"""Collectives over Spillway's in-network aggregation.

    import numpy, spillway

    with spillway.join("aggregator:9690", "train", rank, ca="ca.crt", cert="worker.crt", key="worker.key") as worker:
        gradient = numpy.ones(1_000_000, "float32")
        worker.all_reduce(gradient, "avg")        # in place, the same bits at every rank

spillway.torch is for torch: a communication hook for DistributedDataParallel, and a backend of torch.distributed.

The package needs libspillway.so.1: the file that the environment's SPILLWAY_LIBRARY names, else one beside this file, else what the
loader finds, as from the Debian package libspillway1. It is loaded at the first join.
"""

from .errors import (
    BadHandleError,
    BrokenError,
    ClosedError,
    DeadRanksError,
    DeviceError,
    DisagreementError,
    DtypeError,
    ForkedError,
    HomeSilentError,
    InternalError,
    InvalidError,
    LayoutError,
    LibraryNotFoundError,
    MissingRanksError,
    NonFiniteError,
    PartialError,
    RefusedError,
    SaturatedError,
    SpillwayError,
    TimeoutError,
    UnreachableError,
)
from .request import Request
from .worker import Worker, join

__version__ = "0.4.0"


def library_version() -> str:
    """The version of the C library that is in use."""
    from ._library import library

    return library().spillway_version().decode()


__all__ = [
    "BadHandleError",
    "BrokenError",
    "ClosedError",
    "DeadRanksError",
    "DeviceError",
    "DisagreementError",
    "DtypeError",
    "ForkedError",
    "HomeSilentError",
    "InternalError",
    "InvalidError",
    "LayoutError",
    "LibraryNotFoundError",
    "MissingRanksError",
    "NonFiniteError",
    "PartialError",
    "RefusedError",
    "Request",
    "SaturatedError",
    "SpillwayError",
    "TimeoutError",
    "UnreachableError",
    "Worker",
    "join",
    "library_version",
]
