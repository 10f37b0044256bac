"""The ladders of notebooks/08_matrix_product.ipynb: products of matrices in FP32 and in FP16."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import adokernels as ado

FOLDER = Path(__file__).parent
#: Lengths m, k, n: smaller than a tile, no multiple of a vector, several tiles.
CHECKED = ((1, 1, 1), (5, 3, 7), (33, 65, 31), (128, 32, 128), (130, 72, 136), (129, 100, 260))


def matrices(m: int, k: int, n: int, dtype: str = "float32") -> tuple[NDArray[Any], ...]:
    """Two random matrices."""
    random = np.random.default_rng(8)
    shapes = ((m, k), (k, n))
    return tuple(random.standard_normal(shape, np.float32).astype(dtype) for shape in shapes)


def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The product of two matrices, computed in double precision."""
    return a.astype(np.float64) @ b.astype(np.float64)


def ladder(name: str, dtype: str) -> Any:
    """A ladder without variants for matrices of a type."""
    return ado.ladder(
        name,
        reference=product,
        signature="(m,k),(k,n)->(m,n)",
        dtype=dtype,
        flops=lambda a, b: 2 * a.size * b.shape[1],
        problems=lambda: [matrices(*lengths, dtype) for lengths in CHECKED],
    )


def add(to: Any, name: str, tile: tuple[int, int], block: Any, changes: str, **more: Any) -> None:
    """Add the kernel of a file to a ladder. Its blocks compute tiles of the result.

    A block loads its rows of a and its columns of b. With a tile of (1, 1), each thread does.
    """
    path, (rows, cols) = FOLDER / f"{name}.cu", tile
    settings: dict[str, Any] = {
        "grid": lambda a, b: (-(-b.shape[1] // cols), -(-len(a) // rows)),
        "bytes": lambda a, b: a.itemsize * b.shape[1] * (a.size * (1 / rows + 1 / cols) + len(a)),
    }
    source = {"source": path.read_text(encoding="utf-8"), "file": path.name}
    to.cuda_variant(
        name, **source, kernel="matrix_product", block=block, changes=changes, **settings | more
    )


fp32, fp16 = ladder("matrix_product", "float32"), ladder("matrix_product_fp16", "float16")
add(
    fp32, "naive", (1, 1), (32, 8), "One result per thread; a warp computes a column.",
    grid=lambda a, b: (-(-len(a) // 32), -(-b.shape[1] // 8)),
)  # fmt: skip
add(
    fp32, "coalesced", (1, 1), (32, 8), "A warp computes a row.",
    grid=lambda a, b: (-(-b.shape[1] // 32), -(-len(a) // 8)),
)  # fmt: skip
add(fp32, "tiled", (32, 32), (32, 32), "Keeps tiles of both matrices in shared memory.")
add(fp32, "column", (64, 64), 512, "Each thread computes 8 results of a column.")
add(fp32, "square", (128, 128), 256, "Each thread computes 8 x 8 results.")
add(fp32, "vectorised", (128, 128), 256, "Accesses 16 bytes at a time, without bank conflicts.")
add(fp32, "pipelined", (128, 128), 256, "Copies the next tiles during the products.")
add(fp16, "tensor_cores", (128, 128), 256, "Multiplies squares of 16 x 16 on tensor cores.")
add(fp16, "tensor_pipelined", (128, 128), 256, "Copies the next tiles during the products.")
