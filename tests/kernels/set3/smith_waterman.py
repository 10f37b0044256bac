"""Local alignments: CUDASW++ (Liu, Maskell and Schmidt 2009, 2010), CUDASW++4.0 (Schmidt 2024)."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
OPEN, EXTEND = 10, 2


def reference(query, letters, scores):
    """The best score of a local alignment of the query with each sequence (column of letters)."""
    score = np.zeros((len(query), letters.shape[1]), np.int16)
    along, best = np.zeros_like(score), np.zeros_like(score[0])
    for column in letters:
        np.maximum(along - EXTEND, score - OPEN, out=along)
        known = np.maximum(along, 0)
        known[0] = np.maximum(known[0], scores[query[0], column])
        known[1:] = np.maximum(known[1:], score[:-1] + scores[query[1:, None], column])
        down = np.zeros_like(best)
        for row, above in zip(known[1:], known[:-1], strict=True):
            np.maximum(down - EXTEND, above - OPEN, out=down)
            np.maximum(row, down, out=row)
        score = known
        np.maximum(best, score.max(axis=0), out=best)
    return best.astype(np.int32)


def sequences(rng, rows, cols, count):
    """A random query, random sequences, and a symmetric matrix of the scores of letters."""
    scores = rng.integers(-4, 4, (24, 24), dtype=np.int32)
    scores = np.minimum(scores, scores.T)
    scores[range(24), range(24)] = rng.integers(4, 12, 24)
    query = rng.integers(0, 24, rows, dtype=np.uint8)
    return query, rng.integers(0, 24, (cols, count), dtype=np.uint8), scores


def operands(rng, small=False):
    """The operands of a problem."""
    return sequences(rng, 16, 13, 133) if small else sequences(rng, 128, 128, 65536)


def refuses(query, letters, scores):
    """The reason if a problem exceeds the memory of the kernels, or None."""
    if query.size % 8 or max(query.size, len(letters)) > 128 or letters.shape[1] > 65536:
        return "needs a multiple of 8 rows, at most 128 rows, 128 columns and 65536 sequences"
    return None


def blocks(each):
    """The grid for blocks of 128 threads, with `each` sequences per thread."""
    return lambda query, letters, scores: -(-letters.shape[1] // (128 * each))


ladder = ado.ladder(
    "smith_waterman",
    reference=reference,
    dtype="int32",
    signature="(rows),(cols,count),(24,24)->(count)",
    problems=lambda rng: [
        sequences(rng, *s) for s in ((8, 1, 1), (24, 40, 2), (16, 7, 259), (128, 128, 3))
    ],
)
_common = {"source": SOURCE, "file": "smith_waterman.cu", "block": 128, "refuses": refuses}
_one = _common | {"grid": blocks(1)}
ladder.cuda_variant(
    "contiguous", kernel="smith_waterman_contiguous", **_one,
    changes="One sequence per thread, which keeps a column of scores contiguous in global memory.",
)  # fmt: skip
ladder.cuda_variant(
    "interleaved", kernel="smith_waterman_interleaved", **_one,
    changes="Interleaves the columns of neighbouring threads.",
    steps=["coalesce accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "shared", kernel="smith_waterman_shared", **_one,
    changes="Keeps the query and the scores of pairs of letters in shared memory.",
    steps=["reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "tiles", kernel="smith_waterman_tiles", **_one,
    changes="Computes eight rows per pass in registers, and stores only the last of these rows.",
    steps=["less DRAM traffic", "reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "profile", kernel="smith_waterman_profile", **_one,
    changes="Precomputes a profile of the query. One vector load gives the scores of eight rows.",
    steps=["fewer or cheaper operations", "wider accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "packed", kernel="smith_waterman_packed", grid=blocks(2), **_common,
    changes="Two sequences per thread, with one float16 pair per register and instruction.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
