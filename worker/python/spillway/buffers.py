"""NumPy arrays and torch tensors as memory that the C library may work on, without a copy.

Neither package is imported: an object of theirs cannot come in unless the caller has.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, NamedTuple, Tuple

from . import _library
from .errors import DeviceError, DtypeError, LayoutError

# Types that can be reduced, by the name that NumPy and torch have in common.
DTYPES: Dict[str, Tuple[int, int]] = {
    "float32": (_library.FLOAT32, 4),
    "float64": (_library.FLOAT64, 8),
    "float16": (_library.FLOAT16, 2),
    "bfloat16": (_library.BFLOAT16, 2),
    "int32": (_library.INT32, 4),
}

FLOATS = ("float32", "float64", "float16", "bfloat16")


class Buffer(NamedTuple):
    """Elements in memory. owner keeps them there."""

    owner: Any
    address: int
    elements: int
    dtype: str
    itemsize: int

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.elements * self.itemsize


def buffer(data: Any, *, write: bool = True) -> Buffer:
    """Looks an array or tensor over, of whatever type of elements; write asks for memory that may be written to."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(data, torch.Tensor):
        found = _of_tensor(torch, data)
    elif numpy is not None and isinstance(data, numpy.ndarray):
        found = _of_array(data, write)
    else:
        kind = f"{type(data).__module__}.{type(data).__qualname__}"
        raise DtypeError(f"{kind} is neither a NumPy array nor a torch tensor; make one of it (numpy.asarray, torch.as_tensor)")
    if found.elements == 0:
        raise LayoutError(f"there are no elements in {_described(data)}; leave the call out, at all ranks")
    return found


def reducible(data: Any, op: str) -> Tuple[Buffer, int, int]:
    """A buffer whose elements the operation takes, and both as numbers of the C library."""
    number = _library.OPS.get(op)
    if number is None:
        raise DtypeError(f"there is no operation {op!r}; there are {', '.join(map(repr, _library.OPS))}")
    found = buffer(data)
    known = DTYPES.get(found.dtype)
    if known is None:
        raise DtypeError(f"elements of {found.dtype} cannot be reduced, only {', '.join(DTYPES)}; convert them (x.astype('float32') in NumPy, x.float() in torch)")
    if op == "avg" and found.dtype == "int32":
        raise DtypeError("an average of int32 would not be whole; use 'sum' and divide, or convert to float32")
    if op in ("max", "min") and found.dtype == "float64":
        raise DtypeError(f"{op!r} of float64 is not offered, because not all of its bits fit; convert to float32")
    return found, known[0], number


def _of_tensor(torch: Any, data: Any) -> Buffer:
    if data.layout != torch.strided:
        raise LayoutError(f"{_described(data)} has the layout {data.layout}; make it dense with x.to_dense()")
    if data.device.type != "cpu":
        raise DeviceError(
            f"{_described(data)} is on the device {data.device}, and Spillway sends from the CPU's memory; pass x.cpu() and copy the result back with x.copy_()"
        )
    if data.is_conj() or data.is_neg():
        raise LayoutError(f"{_described(data)} is a view that is computed when read; pass x.resolve_conj().resolve_neg()")
    if not data.is_contiguous():
        raise LayoutError(
            f"{_described(data)} is not contiguous (strides {tuple(data.stride())}); pass x.contiguous() and copy the result back with x.copy_()"
        )
    return Buffer(data, data.data_ptr(), data.numel(), str(data.dtype).rpartition(".")[2], data.element_size())


def _of_array(data: Any, write: bool) -> Buffer:
    if data.dtype.hasobject:
        raise DtypeError(f"{_described(data)} holds Python objects; convert it with x.astype('float32')")
    if not data.dtype.isnative:
        raise DtypeError(f"{_described(data)} has the other byte order ({data.dtype.str}); convert it with x.astype(x.dtype.newbyteorder('='))")
    if not data.flags.c_contiguous:
        raise LayoutError(f"{_described(data)} is not C-contiguous (strides {data.strides}); pass numpy.ascontiguousarray(x) and copy the result back with x[...] =")
    if not data.flags.aligned:
        raise LayoutError(f"{_described(data)} is not aligned to its type; pass x.copy()")
    if write and not data.flags.writeable:
        raise LayoutError(f"{_described(data)} may not be written to, and the result takes the place of what it holds; pass x.copy()")
    return Buffer(data, data.ctypes.data, data.size, data.dtype.name, data.dtype.itemsize)


def _described(data: Any) -> str:
    kind = "tensor" if type(data).__module__.startswith("torch") else "array"
    return f"the {kind} of shape {tuple(data.shape)} and type {str(data.dtype).rpartition('.')[2]}"
