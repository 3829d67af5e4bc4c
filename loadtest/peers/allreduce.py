"""A rank of Gloo (torch.distributed) or Open MPI (mpi4py) that spill-load compares Spillway with.

spill-load speaks to it as to its own workers, in lines of JSON, one question, one answer: over stdin and stdout, or over the Unix socket that --socket names,
where the first line says the rank. The first question is the setup, the others are orders: load memory for tensors, fill them in, all-reduce them one after
the other, check the results. Contents and what their sum must be, within what bound, lie in memory of spill-load, which the order to load names files of.
"""

import argparse
import json
import os
import socket
import sys
import time

BLOCK = 1 << 18  # elements that are checked at a time
VARIANTS = 8  # iterations differ by a power of two, as the pattern of spill-load does


class Gloo:
    def __init__(self, setup):
        import datetime
        import torch
        import torch.distributed
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", init_method="tcp://" + setup["address"], rank=setup["rank"], world_size=setup["workers"],
                                             timeout=datetime.timedelta(seconds=120))
        self.versions = {"torch": torch.__version__}
        self.tensor = torch.from_numpy
        self.all_reduce = torch.distributed.all_reduce
        self.close = lambda: None


class OpenMPI:
    def __init__(self, setup):
        import mpi4py
        from mpi4py import MPI
        if MPI.COMM_WORLD.Get_rank() != setup["rank"] or MPI.COMM_WORLD.Get_size() != setup["workers"]:
            raise RuntimeError("rank %d of %d in the world of Open MPI, not %d of %d" % (
                MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size(), setup["rank"], setup["workers"]))
        self.versions = {"mpi": MPI.Get_library_version().split(",")[0], "mpi4py": mpi4py.__version__}
        self.mpi = MPI
        self.close = MPI.Finalize

    def tensor(self, array):
        return array

    def all_reduce(self, array):
        self.mpi.COMM_WORLD.Allreduce(self.mpi.IN_PLACE, array)


class Rank:
    def __init__(self, peer):
        self.peer = peer

    def load(self, order):
        import numpy
        self.numpy = numpy
        elements = order["elements"]
        self.arrays = numpy.zeros((order["batch"], elements), numpy.float32)
        self.tensors = [self.peer.tensor(array) for array in self.arrays]
        self.input = numpy.memmap(order["input"], numpy.float32, "r", shape=(elements,))
        self.sum = numpy.memmap(order["sum"], numpy.float64, "r", shape=(elements,))
        self.bound = numpy.memmap(order["bound"], numpy.float64, "r", shape=(elements,))
        return {}

    def fill(self, order):
        self.first, self.count = order.get("first", 0), order["count"]
        for i in range(self.count):
            self.numpy.multiply(self.input, self.numpy.float32(2 ** ((self.first + i) % VARIANTS)), out=self.arrays[i])
        return {}

    def start(self, order):
        spans = []
        all_reduce, clock = self.peer.all_reduce, time.monotonic_ns
        wait = order["at"] - clock()
        if wait > 0:
            time.sleep(wait / 1e9)
        for tensor in self.tensors[:self.count]:
            begin = clock()
            all_reduce(tensor)
            spans.append({"start": begin, "end": clock()})
        return {"spans": spans}

    def check(self, order):
        wrong = []
        for i in range(self.count):
            at = self.wrong(i)
            if at >= 0:
                wrong.append({"rank": self.peer.rank, "iteration": self.first + i, "element": at})
        return {"wrong": wrong}

    def wrong(self, i):
        """The first element that is further from the exact sum than float32 can be blamed for, or -1."""
        numpy = self.numpy
        scale = 2.0 ** -((self.first + i) % VARIANTS)
        for begin in range(0, len(self.sum), BLOCK):
            part = slice(begin, begin + BLOCK)
            right = numpy.abs(self.arrays[i][part] * scale - self.sum[part]) <= self.bound[part]
            if not right.all():
                return begin + int(numpy.argmin(right))
        return -1


def streams(path):
    if path is None:
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what a library prints is no answer
        return sys.stdin, answers
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    answers = connection.makefile("w")
    say(answers, {"rank": int(os.environ["OMPI_COMM_WORLD_RANK"])})
    return connection.makefile("r"), answers


def say(answers, answer):
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=["gloo", "openmpi"])
    parser.add_argument("--socket")
    options = parser.parse_args()
    questions, answers = streams(options.socket)
    setup = json.loads(questions.readline())
    peer = {"gloo": Gloo, "openmpi": OpenMPI}[options.system](setup)
    peer.rank = setup["rank"]
    rank = Rank(peer)
    say(answers, {"versions": peer.versions})
    for line in questions:
        order = json.loads(line)
        say(answers, {"load": rank.load, "fill": rank.fill, "start": rank.start, "check": rank.check}[order["do"]](order))
    peer.close()
    os._exit(0)  # the interpreter would take seconds to take torch down


if __name__ == "__main__":
    main()
