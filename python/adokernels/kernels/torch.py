"""The emulated GPU in ``torch.cuda``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from adokernels import _core
from adokernels.kernels.interception import replaced
from adokernels.kernels.launch import know_address


@contextmanager
def intercepted(compute: int) -> Iterator[None]:
    """Describe the emulated GPU. At the exit, the functions of torch are restored.

    Kernels can use the result of ``data_ptr()``, for example from a tensor of addresses.
    """
    data_ptr = torch.Tensor.data_ptr

    def known_address(tensor: Any) -> int:
        if tensor.device.type == "cpu":
            storage = tensor.untyped_storage()
            reference, low = StorageWeakRef(storage), storage.data_ptr()
            know_address(low, low + storage.nbytes(), lambda: not reference.expired())
        address: int = data_ptr(tensor)
        return address

    found = _core.cuda_properties("emulator")
    major, minor = divmod(compute, 10)
    properties = SimpleNamespace(
        name=found["name"],
        major=major,
        minor=minor,
        multi_processor_count=found["multiprocessors"],
        total_memory=found["memory_bytes"],
        L2_cache_size=found["l2_bytes"],
        max_threads_per_multi_processor=found["threads_per_multiprocessor"],
        shared_memory_per_block_optin=found["shared_bytes"],
        shared_memory_per_multiprocessor=found["shared_bytes_per_multiprocessor"],
        regs_per_multiprocessor=65536,
        warp_size=32,
    )
    cuda = replaced(
        torch.cuda,
        get_device_capability=lambda device=None: (major, minor),
        get_device_properties=lambda device=None: properties,
        get_device_name=lambda device=None: properties.name,
        synchronize=lambda device=None: None,
    )
    with cuda, replaced(torch.Tensor, data_ptr=known_address):
        yield
