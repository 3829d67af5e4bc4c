"""What can go wrong, an exception for each kind.

All are SpillwayErrors, and those are RuntimeErrors, which is what torch makes of an error in a backward pass. The text is the library's own and
says what to do. Each status of the C library (spillway.h) has one class, by its number.
"""

from __future__ import annotations

from typing import ClassVar, Dict, Tuple, Type


class SpillwayError(RuntimeError):
    """The base of all errors of this package.

    ranks are the ranks that the error is about, for example those that sent nothing; () if it is about none.
    broken says that the worker can take no further part and must leave and join again; else the next collective may succeed.
    """

    status: ClassVar[int] = 0

    def __init__(self, text: str, ranks: Tuple[int, ...] = (), broken: bool = False) -> None:
        super().__init__(text)
        self.ranks = ranks
        self.broken = broken

    def again(self) -> "SpillwayError":
        """A copy to raise in another thread: one exception raised twice would collect the traces of both."""
        return type(self)(str(self), self.ranks, self.broken)


class LibraryNotFoundError(SpillwayError, ImportError):
    """libspillway.so.1 is not installed, or is not one that this package can use."""


class DtypeError(SpillwayError, TypeError):
    """The elements have a type that cannot be reduced, or the object is no array and no tensor."""


class LayoutError(SpillwayError, ValueError):
    """The elements do not lie one after the other in memory that may be written to, or there are none."""


class DeviceError(SpillwayError, ValueError):
    """The tensor is not in the CPU's memory."""


class InvalidError(SpillwayError, ValueError):
    """An argument is wrong; nothing was issued."""

    status = 1


class BadHandleError(SpillwayError):
    """The worker or the request was used up already."""

    status = 2


class TimeoutError(SpillwayError, TimeoutError):  # noqa: A001 - it is one, by the name that callers expect
    """The time was over. A request is still in flight; after a join, the text says what was waited for."""

    status = 3


class UnreachableError(SpillwayError, ConnectionError):
    """No appliance answers at the address."""

    status = 4


class RefusedError(SpillwayError):
    """The appliance said no; the text says why, and what to do."""

    status = 5


class MissingRanksError(SpillwayError):
    """Ranks sent nothing for longer than the job's silence. ranks names them."""

    status = 6


class HomeSilentError(SpillwayError):
    """The aggregator did not answer for longer than the job's silence."""

    status = 7


class DisagreementError(SpillwayError):
    """The ranks issued different collectives: another length, type or operation."""

    status = 8


class NonFiniteError(SpillwayError):
    """A rank contributed a NaN or an infinity to a sum. ranks names those that did."""

    status = 9


class SaturatedError(SpillwayError):
    """An int32 sum left its range."""

    status = 10


class BrokenError(SpillwayError):
    """The job is broken at this worker for another reason, which the text says."""

    status = 11


class ClosedError(SpillwayError):
    """The worker has left the job."""

    status = 12


class ForkedError(SpillwayError):
    """The call was made in the child of a fork, where the library does not work."""

    status = 13


class PartialError(SpillwayError):
    """A sum was released without some ranks. ranks names them."""

    status = 14


class InternalError(SpillwayError):
    """A bug, or a failure of the operating system."""

    status = 15


class DeadRanksError(SpillwayError):
    """The appliance says that ranks are dead: their calls to it broke, and were not made again. ranks names them, and the text says who each of them was."""

    status = 16


KINDS: Dict[int, Type[SpillwayError]] = {kind.status: kind for kind in SpillwayError.__subclasses__() if kind.status}


def from_status(status: int, text: str, ranks: int = 0, broken: bool = False) -> SpillwayError:
    """The exception for a status of the C library; ranks is its bitmap."""
    kind = KINDS.get(status)
    if kind is None:  # of a newer library
        kind, text = SpillwayError, f"{text} (status {status})"
    return kind(text, tuple(rank for rank in range(64) if ranks >> rank & 1), broken)
