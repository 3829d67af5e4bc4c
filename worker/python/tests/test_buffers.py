"""Bad input, each with the exception that says what to do; without a job and without the library."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import numpy
import torch

import spillway
import spillway.torch
from spillway import buffers, errors


class Accepted(unittest.TestCase):
    def test_no_copy(self):
        array = numpy.arange(6, dtype="float32").reshape(2, 3)
        found, _, _ = buffers.reducible(array, "sum")
        self.assertEqual((found.address, found.elements, found.size), (array.ctypes.data, 6, 24))
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32):
            tensor = torch.zeros(5, dtype=dtype)
            found, _, _ = buffers.reducible(tensor, "sum")
            self.assertEqual((found.address, found.elements, found.size), (tensor.data_ptr(), 5, 5 * tensor.element_size()))

    def test_numbers_are_the_headers(self):
        header = (Path(__file__).resolve().parents[2] / "capi" / "spillway.h").read_text()
        for name, (number, _) in buffers.DTYPES.items():
            self.assertRegex(header, rf"SPILLWAY_{name.upper()} = {number}\b")
        for name, number in buffers._library.OPS.items():
            self.assertRegex(header, rf"SPILLWAY_{name.upper()} = {number}\b")
        for number, kind in errors.KINDS.items():
            name = "".join("_" + letter if letter.isupper() else letter for letter in kind.__name__[: -len("Error")])
            self.assertRegex(header, rf"SPILLWAY{name.upper()} = {number}\b")
        for name in buffers._library.FUNCTIONS:
            self.assertIn(f"{name}(", header)


class Refused(unittest.TestCase):
    def refused(self, kind, says, data, op="sum"):
        with self.assertRaisesRegex(kind, says) as caught:
            buffers.reducible(data, op)
        self.assertIsInstance(caught.exception, spillway.SpillwayError)

    def test_types(self):
        self.refused(spillway.DtypeError, "int64 cannot be reduced, only float32.*convert", numpy.arange(3))
        self.refused(spillway.DtypeError, "int64 cannot be reduced, only float32.*convert", torch.arange(3))
        self.refused(TypeError, "list is neither.*numpy.asarray", [1.0])
        self.refused(TypeError, "bool cannot be reduced", torch.ones(3, dtype=torch.bool))
        self.refused(TypeError, "Python objects", numpy.array([object()]))
        self.refused(TypeError, "other byte order", numpy.ones(3, ">f4"))
        self.refused(TypeError, "average of int32", torch.ones(3, dtype=torch.int32), "avg")
        self.refused(TypeError, "'max' of float64", torch.ones(3, dtype=torch.float64), "max")
        self.refused(TypeError, "no operation 'median'", torch.ones(3), "median")

    def test_layouts(self):
        self.refused(spillway.LayoutError, "not C-contiguous.*ascontiguousarray", numpy.ones((4, 4), "float32")[:, 1])
        self.refused(spillway.LayoutError, "not contiguous.*contiguous()", torch.ones(4, 4).t()[1:])
        self.refused(ValueError, "no elements", torch.ones(0))
        self.refused(ValueError, "to_dense", torch.ones(3).to_sparse())
        frozen = numpy.ones(3, "float32")
        frozen.flags.writeable = False
        self.refused(ValueError, "may not be written to", frozen)
        self.refused(ValueError, "not aligned", numpy.frombuffer(bytearray(13), "uint8")[1:].view("float32"))

    def test_devices(self):
        # The only device beside the CPU that every torch has; a GPU's tensor is refused by the same look at device.type.
        self.refused(spillway.DeviceError, r"on the device meta.*x\.cpu\(\)", torch.ones(3, device="meta"))


class Environment(unittest.TestCase):
    def run_in(self, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPILLWAY") and name not in ("RANK", "WORLD_SIZE")}
        return subprocess.run(
            [sys.executable, "-c", "import spillway.torch; spillway.torch.init_from_env()"], env={**kept, **environment}, capture_output=True, text=True
        ).stderr

    def test_what_is_missing_is_named(self):
        self.assertRegex(self.run_in(), "InvalidError: RANK is not set.*torchrun")
        self.assertRegex(self.run_in(RANK="x", WORLD_SIZE="2"), "InvalidError: RANK is 'x'.*whole number")
        self.assertRegex(self.run_in(RANK="0", WORLD_SIZE="2"), "InvalidError: SPILLWAY_ADDR is not set")

    def test_library_not_found(self):
        said = self.run_in(RANK="0", WORLD_SIZE="2", SPILLWAY_ADDR="127.0.0.1:9", SPILLWAY_JOB="x", SPILLWAY_LIBRARY="/nowhere/libspillway.so.1")
        self.assertRegex(said, "LibraryNotFoundError: SPILLWAY_LIBRARY names /nowhere/libspillway.so.1")
        said = self.run_in(RANK="0", WORLD_SIZE="2", SPILLWAY_ADDR="127.0.0.1:9", SPILLWAY_JOB="x", SPILLWAY_LIBRARY=torch._C.__file__)
        self.assertRegex(said, "LibraryNotFoundError: .*has no function spillway_join.*same version")


class NoServer(unittest.TestCase):
    def test_nobody_answers(self):
        with self.assertRaisesRegex(spillway.UnreachableError, "127.0.0.1:1"):
            spillway.join("127.0.0.1:1", "train", 0, patience=0.5)

    def test_arguments(self):
        with self.assertRaises(spillway.InvalidError):
            spillway.join("127.0.0.1:1", "train", -1)
        with self.assertRaisesRegex(spillway.InvalidError, "timeout is 0"):
            spillway.join("127.0.0.1:1", "train", 0, timeout=0)
        with self.assertRaisesRegex(spillway.InvalidError, 'transport "pigeon"'):
            spillway.join("127.0.0.1:1", "train", 0, transport="pigeon")
        with self.assertRaisesRegex(spillway.InvalidError, "busy_poll is 0.2"):
            spillway.join("127.0.0.1:1", "train", 0, busy_poll=0.2)
        with self.assertRaises(spillway.SpillwayError):
            spillway.join("127.0.0.1:1", "train", 0, ca="/nowhere/ca.crt", cert="/nowhere/a.crt", key="/nowhere/a.key", patience=0.5)


class Package(unittest.TestCase):
    def test_version_is_that_of_the_sources(self):
        self.assertEqual(spillway.__version__, (Path(__file__).resolve().parents[3] / "appliance" / "packaging" / "VERSION").read_text().strip())


if __name__ == "__main__":
    unittest.main()
