"""The C library: where it is, and its functions as spillway.h declares them."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import List, NoReturn

from .errors import ForkedError, LibraryNotFoundError, from_status

NAME = "libspillway.so.1"
VARIABLE = "SPILLWAY_LIBRARY"

OK = 0
TIMEOUT = 3

# spillway_dtype
FLOAT32, INT32, FLOAT64, FLOAT16, BFLOAT16 = 1, 2, 3, 4, 5

# spillway_op
OPS = {"sum": 0, "max": 1, "min": 2, "avg": 3}


class Options(ctypes.Structure):
    """spillway_options."""

    _fields_ = [
        ("size", c_size_t),
        ("addr", c_char_p),
        ("job", c_char_p),
        ("rank", c_int),
        ("address", c_char_p),
        ("ca", c_char_p),
        ("cert", c_char_p),
        ("key", c_char_p),
        ("timeout", c_double),
        ("patience", c_double),
        ("transport", c_char_p),
        ("busy_poll", c_double),
    ]


# Name, result and arguments of every function. Workers and requests are numbers in the form of a pointer.
FUNCTIONS = {
    "spillway_join": (c_int, [POINTER(Options), POINTER(c_void_p)]),
    "spillway_rank": (c_int, [c_void_p]),
    "spillway_size": (c_int, [c_void_p]),
    "spillway_all_reduce_async": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, POINTER(c_void_p)]),
    "spillway_wait": (c_int, [c_void_p, c_double]),
    "spillway_test": (c_int, [c_void_p, POINTER(c_int)]),
    "spillway_barrier": (c_int, [c_void_p]),
    "spillway_broadcast": (c_int, [c_void_p, c_void_p, c_size_t, c_int]),
    "spillway_all_gather": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "spillway_leave": (c_int, [c_void_p]),
    "spillway_last_error": (c_char_p, []),
    "spillway_last_error_code": (c_int, []),
    "spillway_last_error_ranks": (c_uint64, []),
    "spillway_last_error_broken": (c_int, []),
    "spillway_version": (c_char_p, []),
}


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, loaded at the first use, so that what only reads types or documentation does not need it."""
    loaded = _load()
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise LibraryNotFoundError(
                f"{loaded._name} has no function {name}: it is older than this package; install the same version of both (libspillway1, python3-spillway)"
            ) from None
        function.restype, function.argtypes = result, arguments
    return loaded


def _load() -> ctypes.CDLL:
    told = os.environ.get(VARIABLE)
    if told:
        try:
            return ctypes.CDLL(told)
        except OSError as error:
            raise LibraryNotFoundError(f"{VARIABLE} names {told}, which cannot be loaded: {error}; correct it, or unset it to have {NAME} looked for") from error
    beside = Path(__file__).resolve().parent / NAME
    tried: List[str] = []
    for place in ([str(beside)] if beside.exists() else []) + [NAME]:
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            tried.append(str(error))
    raise LibraryNotFoundError(
        f"{NAME} cannot be loaded ({'; '.join(tried)}): install the Debian package libspillway1, or set {VARIABLE} to the path of the library ('make lib' builds one)"
    )


def fail(status: int) -> NoReturn:
    """Raises what the last function that failed in this thread said."""
    lib = library()
    text = lib.spillway_last_error().decode("utf-8", "replace")
    raise from_status(status, text, lib.spillway_last_error_ranks(), bool(lib.spillway_last_error_broken()))


def check(status: int) -> None:
    """Raises unless the status is OK."""
    if status != OK:
        fail(status)


def refuse_child(owner: int, what: str) -> None:
    """Raises in another process than owner, before anything is touched that a thread of the parent may have held at the fork."""
    if os.getpid() != owner:
        raise ForkedError(
            f"{what} in the child of a fork: the worker belongs to process {owner}; use it there only, and start processes that need a worker of their own with "
            "multiprocessing's 'spawn'"
        )
