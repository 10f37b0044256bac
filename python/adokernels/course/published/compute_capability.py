"""Limits per multiprocessor by compute capability.

They are listed for the GPU of the GTC 2015 talk (3.5) and for an H200 (9.0). The items are those of
the talk that need them.
"""

from __future__ import annotations

from adokernels.course.published.figure import Published

DOCUMENT = "CUDA C++ Programming Guide"


def _limits(
    item: str, quantity: str, title: str, kepler: int, hopper: int
) -> tuple[Published, ...]:
    return tuple(
        Published(
            document=DOCUMENT,
            item=item,
            quantity=quantity,
            value=value,
            unit="",
            device=f"compute capability {capability}",
            variant="",
            source=f"{DOCUMENT}, technical specifications and arithmetic throughput by compute "
            "capability; CUDA occupancy calculator (allocation of registers)",
            title=title,
        )
        for capability, value in (("3.5", kepler), ("9.0", hopper))
    )


FIGURES = (
    *_limits("C24", "resident_blocks", "resident blocks", 16, 32),
    *_limits("C24", "resident_warps", "resident warps", 64, 64),
    *_limits("C24", "register_file", "32-bit registers", 65536, 65536),
    *_limits("C24", "register_unit", "registers that are allocated at a time", 256, 256),
    *_limits("C44", "bank_bytes", "largest width of a bank in bytes", 8, 4),
    *_limits("C45", "float_results", "float32 results per cycle", 192, 128),
    *_limits("C45", "multiply_results", "int32 products per cycle", 32, 64),
)
