"""Spillway for torch: two lines more in a script that trains with DistributedDataParallel.

    import spillway.torch

    worker = spillway.torch.init_from_env()                       # after torchrun; also initialises torch.distributed, with gloo
    model = DistributedDataParallel(model)
    model.register_comm_hook(worker, spillway.torch.ddp_hook)     # gradients are averaged by Spillway

Or, for scripts that call torch.distributed themselves: importing this module registers the backend "spillway", see backend.
"""

from .backend import SpillwayProcessGroup, register_backend
from .environment import init_from_env, join_from_env
from .hook import ddp_hook

register_backend()

__all__ = ["SpillwayProcessGroup", "ddp_hook", "init_from_env", "join_from_env", "register_backend"]
