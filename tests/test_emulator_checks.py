"""Correct kernels, about which the emulator must not complain, and mistakes that it must find.

A kernel has the parameters `int* o, const int* a, int n`: 256 results, 256 operands, n = 200. It
runs as one block of 256 threads; t is the thread and i is t, too. Line 1 of its source is its body.
"""

import numpy as np
import pytest
from test_emulator import device_array, launch

from adokernels import _core
from adokernels.model import compiler

HEAD = """#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;
"""
#: Names that bodies use: S(int, x, 256) declares a shared array.
MACROS = """#define S(T, name, size) __shared__ T name[size]
#define SYNC __syncthreads()
#define FULL 0xffffffffu
"""

CORRECT = {
    # threads that end early
    "early return": "S(int, s, 256); if (t >= n) return; s[t] = a[t]; SYNC; o[t] = s[t];",
    "early return in half a warp": "S(int, s, 256); if (t % 32 >= 16) return; s[t] = a[t]; SYNC; o[t] = s[t ^ 1];",
    "return with work": "S(int, s, 256); if (t >= n) { o[t] = -1; return; } s[t] = a[t]; SYNC; o[t] = s[n - 1 - t];",
    "returns of two kinds": "S(int, s, 256); if (t == 3) return; if (a[t] == 7) return; s[t] = t; SYNC; if (t > 9) o[t] = s[t - (t - 1 == 7 ? 2 : 1)];",
    "barriers after returns in a loop": "S(int, s, 256); if (t >= n) return; for (int k = 0; k < 3; ++k) { s[t] = k; SYNC; o[t] = s[(t + 1) % n]; SYNC; }",
    "return, then syncwarp": "S(int, s, 256); if (t >= n) return; s[t] = t; __syncwarp(); o[t] = s[t ^ 1];",
    "return, then shuffle": "if (t % 32 > 20) return; o[t] = __shfl_sync(FULL, t, t & 16);",
    "return, then ballot": "if (t >= n) return; o[t] = __popc(__ballot_sync(FULL, t & 1));",
    "whole warps return": "S(int, s, 256); if (t >= 128) return; s[t] = t; SYNC; o[t] = s[127 - t];",
    # barriers in branches
    "barrier in a uniform branch": "S(int, s, 256); s[t] = t; if (n > 5) SYNC; o[t] = s[255 - t];",
    "barrier in a uniform loop": "S(int, s, 256); int x = t; for (int d = 128; d > 0; d /= 2) { s[t] = x; SYNC; if (t < d) x += s[t + d]; SYNC; } if (t == 0) o[0] = x;",
    "uniform break": "S(int, s, 256); for (int k = 0;; ++k) { s[t] = k; SYNC; if (s[0] == 3) break; SYNC; } o[t] = s[t];",
    "count": "o[t] = __syncthreads_count(t % 3 == 0);",
    "or and and": "o[t] = __syncthreads_or(t == 5) + 2 * __syncthreads_and(t >= 0);",
    "named barriers of warps": 'S(int, s, 256); s[t] = t; if (t < 64) { asm volatile("bar.sync 1, 64;" ::: "memory"); o[t] = s[63 - t]; }',
    "producers and consumers": 'S(int, s, 256); if (t < 128) { s[t] = t; asm volatile("bar.arrive 2, 256;" ::: "memory"); } else { asm volatile("bar.sync 2, 256;" ::: "memory"); o[t] = s[t - 128]; }',
    "barrier 15": 'asm volatile("bar.sync 15;"); o[t] = 1;',
    "work before a uniform barrier": "S(int, s, 256); if (t & 1) s[t] = a[t]; else s[t] = -a[t]; SYNC; o[t] = s[255 - t];",
    # warps
    "syncwarp": "S(int, s, 256); s[t] = t; __syncwarp(); o[t] = s[t ^ 31];",
    "halves of a warp": "S(int, s, 256); unsigned half = t & 16 ? 0xffff0000u : 0xffffu; s[t] = t; __syncwarp(half); o[t] = s[t ^ 15];",
    "halves that take turns": "S(int, s, 256); s[t] = t; __syncwarp(); if (t & 16) { o[t] = s[t ^ 1]; __syncwarp(0xffff0000u); s[t] = 1; __syncwarp(0xffff0000u); o[t] += s[t ^ 2]; }",
    "tiles of 16": "S(int, s, 256); auto tile = cg::tiled_partition<16>(cg::this_thread_block()); s[t] = t; tile.sync(); o[t] = s[t ^ 8]; tile.sync(); s[t] = 2; tile.sync(); o[t] += s[t ^ 4];",
    "shuffles in half a warp": "if (t % 32 < 16) o[t] = __shfl_xor_sync(0xffffu, t, 8);",
    "vote in a loop": "int x = t % 7; while (__any_sync(FULL, x > 0)) { --x; } o[t] = x;",
    "active lanes": "if (t % 3) { unsigned m = __activemask(); o[t] = __popc(__ballot_sync(m, 1)); }",
    "match": "unsigned m = __match_any_sync(FULL, t % 4); o[t] = __reduce_add_sync(m, 1);",
    "warp sum": "int x = a[t]; for (int d = 16; d; d /= 2) x += __shfl_down_sync(FULL, x, d); if (t % 32 == 0) o[t] = x;",
    # shared memory
    "255 of 255": "S(int, h, 255); if (t < 255) h[t] = t; SYNC; if (t < 255) o[t] = h[254 - t];",
    "odd sizes": "S(char, c, 7); S(int, s, 3); if (t < 7) c[t] = t; if (t < 3) s[t] = t; SYNC; o[t] = c[t % 7] + s[t % 3];",
    "two buffers": "S(int, x, 256); S(int, y, 256); int *p = x, *q = y; p[t] = t; for (int k = 0; k < 3; ++k) { SYNC; q[t] = p[(t + 1) % 256]; int* r = p; p = q; q = r; } o[t] = p[t];",
    "a chosen array": "S(int, x, 256); S(int, y, 256); int* p = a[t] % 2 ? x : y; p[t] = t; SYNC; o[t] = p[t];",
    "before the array": "S(int, s, 256); int* p = s - 64; p[t + 64] = t; SYNC; o[t] = p[64 + (t ^ 1)];",
    "vectors": "__shared__ int4 v[64]; if (t < 64) v[t] = make_int4(t, t, t, t); SYNC; o[t] = reinterpret_cast<int*>(v)[t];",
    "bytes of words": "S(int, s, 256); s[t] = t; SYNC; o[t] = reinterpret_cast<unsigned char*>(s)[4 * (t ^ 1)];",
    "two dimensions": "__shared__ int s[16][17]; s[t / 16][t % 16] = t; SYNC; o[t] = s[t % 16][t / 16];",
    "a struct": "__shared__ struct { int x[100]; float y[156]; } s; if (t < 100) s.x[t] = t; else s.y[t - 100] = t; SYNC; o[t] = t < 100 ? s.x[99 - t] : int(s.y[t - 100]);",
    "a scalar": "__shared__ int c; if (t == 0) c = n; SYNC; o[t] = c;",
    "the same value": "__shared__ int c; c = 5; SYNC; o[t] = c;",
    "parts of dynamic memory": "extern __shared__ int d[]; int* e = d + 256; float* f = reinterpret_cast<float*>(e + 256); d[t] = t; e[t] = 2 * t; f[t] = 3; SYNC; o[t] = d[255 - t] + e[t ^ 1] + int(f[t]);",
    "static and dynamic": "extern __shared__ int d[]; S(int, s, 5); if (t < 5) s[t] = t; d[t] = t; SYNC; o[t] = d[255 - t] + s[t % 5];",
    "column by column": "S(int, s, 256); s[t] = a[t]; SYNC; if (t < 16) { int x = 0; for (int k = 0; k < 16; ++k) x += s[16 * k + t]; o[t] = x; }",
    # atomics and flags
    "histogram": "S(int, h, 64); if (t < 64) h[t] = 0; SYNC; atomicAdd(&h[a[t] % 64], 1); SYNC; if (t < 64) o[t] = h[t];",
    "a thread's own counter": "S(int, s, 256); s[t] = 1; atomicAdd(&s[t], 2); SYNC; o[t] = s[255 - t];",
    "atomic maximum": "__shared__ int m; if (t == 0) m = 0; SYNC; atomicMax(&m, a[t]); SYNC; o[t] = m;",
    "exchange": "__shared__ int m; if (t == 0) m = 0; SYNC; int old = atomicExch(&m, t); SYNC; o[t] = old >= 0;",
    "flag with fences": "__shared__ volatile int flag; S(int, s, 32); if (t == 0) flag = 0; SYNC; if (t < 32) { if (t == 0) { for (int k = 0; k < 32; ++k) s[k] = k; __threadfence_block(); flag = 1; } } else { while (flag == 0) { } __threadfence_block(); o[t] = s[t % 32]; }",
    "atomic flag": "__shared__ int flag; S(int, s, 1); if (t == 0) flag = 0; SYNC; if (t == 64) { s[0] = 9; __threadfence_block(); atomicExch(&flag, 1); } if (t == 0) { while (atomicAdd(&flag, 0) == 0) { } __threadfence_block(); o[t] = s[0]; }",
    "cuda::atomic": "__shared__ int flag, x; if (t == 0) flag = 0; SYNC; cuda::atomic_ref<int, cuda::thread_scope_block> f(flag); if (t == 32) { x = 7; f.store(1, cuda::memory_order_release); } if (t == 0) { while (f.load(cuda::memory_order_acquire) == 0) { } o[0] = x; }",
    "locks of warps": "__shared__ int lock, sum; if (t == 0) lock = sum = 0; SYNC; if (t % 32 == 0) { while (atomicCAS(&lock, 0, 1) != 0) { } __threadfence_block(); sum += t; __threadfence_block(); atomicExch(&lock, 0); } SYNC; o[t] = sum;",
    "locks of lanes": "__shared__ int lock, sum; if (t == 0) lock = sum = 0; SYNC; bool done = false; while (!done) { if (atomicCAS(&lock, 0, 1) == 0) { __threadfence_block(); sum += t; __threadfence_block(); atomicExch(&lock, 0); done = true; } } SYNC; o[t] = sum;",
    "lock that lanes poll": "__shared__ int lock, sum; if (t == 0) lock = sum = 0; SYNC; if (t < 32) { while (atomicCAS(&lock, 0, 1) != 0) { } __threadfence_block(); sum += t; __threadfence_block(); atomicExch(&lock, 0); } SYNC; o[t] = sum;",
    "lane that sets a flag": "__shared__ volatile int flag; if (t == 0) flag = 0; SYNC; if (t % 32 != 5) { while (flag == 0) { } } else { flag = 1; __threadfence_block(); } SYNC; o[t] = flag;",
    "one barrier in two copies": "S(int, s, 256); if (n > t) { s[t] = a[t] * 3; } else { s[t] = 1; } SYNC; if (n > t) o[t] = s[255 - t]; else o[t] = s[0];",
    # others
    "asynchronous copy": "S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit(); __pipeline_wait_prior(0); SYNC; o[t] = s[255 - t];",
    "own copy": "S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit(); __pipeline_wait_prior(0); o[t] = s[t];",
    "local array": "int x[8]; for (int k = 0; k < 8; ++k) x[k] = k * t; o[t] = x[a[t] % 8];",
    "long double buffer": "S(long long, s, 256); s[t] = t; SYNC; o[t] = int(s[t ^ 3]);",
    "half precision": "S(__half, s, 256); s[t] = __int2half_rn(t); SYNC; o[t] = __half2int_rz(hsqrt(s[t ^ 1]));",
    "switch": "S(int, s, 256); switch (t % 4) { case 0: s[t] = 1; break; case 1: s[t] = 2; break; default: s[t] = 3; } SYNC; o[t] = s[t ^ 1];",
    "loops of different length": "int x = 0; for (int k = 0; k < t % 5; ++k) x += k; S(int, s, 256); s[t] = x; SYNC; o[t] = s[255 - t];",
    "printf": 'if (t == 0) o[0] = printf("%5d %s %-8.3f|%%\\n", n, "text", 1.5);',
    "last write of a thread": "S(int, s, 256); s[t] = 1; s[t] = 2; SYNC; o[t] = s[t ^ 1];",
    "reads of all": "S(int, s, 256); s[t] = a[t]; SYNC; int x = 0; for (int k = 0; k < 256; ++k) x += s[k]; o[t] = x;",
}

#: name: (kind of the error, body)
MISTAKES = {
    "no barrier": ("race", "S(int, s, 256); s[t] = t; o[t] = s[255 - t];"),
    "no barrier in a loop": ("race", "S(int, s, 256); for (int k = 0; k < 3; ++k) { s[t] = k + t; SYNC; o[t] = s[255 - t]; }"),
    "no barrier after a read": ("race", "S(int, s, 256); s[t] = t; SYNC; int x = s[(t + 1) % 256]; s[t] = x; SYNC; o[t] = s[t];"),
    "no syncwarp": ("race", "S(int, s, 256); s[t] = t; o[t] = s[t ^ 1];"),
    "no barrier in a sum": ("race", "S(int, s, 256); s[t] = t; SYNC; for (int d = 128; d > 0; d /= 2) if (t < d) s[t] += s[t + d]; o[0] = 1;"),
    "no barrier before a broadcast": ("race", "__shared__ int c; if (t == 0) c = n; o[t] = c;"),
    "two writers": ("race", "__shared__ int c; c = t; SYNC; o[t] = c;"),
    "writers of one cell": ("race", "S(int, s, 256); s[t / 2] = t; SYNC; o[t] = s[t / 2];"),
    "initialised by one, added by all": ("race", "__shared__ int c; if (t == 0) c = 0; atomicAdd(&c, 1); SYNC; o[t] = c;"),
    "added by all, read by one": ("race", "__shared__ int c; if (t == 0) c = 0; SYNC; atomicAdd(&c, 1); if (t == 0) o[0] = c;"),
    "halves that do not wait": ("race", "S(int, s, 256); s[t] = t; __syncwarp(t & 16 ? 0xffff0000u : 0xffffu); o[t] = s[t ^ 16];"),
    "tiles that exchange": ("race", "S(int, s, 256); auto tile = cg::tiled_partition<16>(cg::this_thread_block()); s[t] = t; tile.sync(); o[t] = s[t ^ 16];"),
    "syncwarp between warps": ("race", "S(int, s, 256); s[t] = t; __syncwarp(); o[t] = s[t ^ 32];"),
    "volatile without syncwarp": ("race", "__shared__ volatile int s[64]; if (t < 64) s[t] = t; SYNC; if (t < 32) { s[t] += s[t + 32]; s[t] += s[t + 16]; } o[t] = 0;"),
    "fence instead of a barrier": ("race", "S(int, s, 256); s[t] = t; __threadfence_block(); o[t] = s[255 - t];"),
    "flag without a fence": ("race", "__shared__ volatile int flag; S(int, s, 1); if (t == 0) flag = 0; SYNC; if (t == 32) { s[0] = 1; flag = 1; } if (t == 0) { while (flag == 0) { } o[0] = s[0]; }"),
    "bytes of one word": ("race", "S(char, s, 256); s[t / 2 * 2] = t; SYNC; o[t] = s[t / 2 * 2];"),
    "barrier of half of the warps": ("race|deadlock", 'S(int, s, 256); s[t] = t; asm volatile("bar.arrive 1, 256;" ::: "memory"); o[t] = s[255 - t]; if (t < 32) SYNC;'),
    "overlapping stencil": ("race", "S(int, s, 258); s[t + 1] = t; SYNC; s[t + 1] = s[t] + s[t + 2]; SYNC; o[t] = s[t + 1];") ,
    "scan in place": ("race", "S(int, s, 256); s[t] = 1; SYNC; for (int d = 1; d < 256; d *= 2) { if (t >= d) s[t] += s[t - d]; SYNC; } o[t] = s[t];"),
    "transpose without a barrier": ("race", "__shared__ int s[16][17]; s[t / 16][t % 16] = t; o[t] = s[t % 16][t / 16];"),
    "copy without a barrier": ("race", "S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit(); __pipeline_wait_prior(0); o[t] = s[255 - t];"),
    # barriers
    "barrier in a branch": ("divergent barrier", "if (t % 2) SYNC; o[t] = 1;"),
    "barrier in one lane": ("divergent barrier", "if (t == 0) SYNC; o[t] = 1;"),
    "two barriers": ("divergent barrier", "S(int, s, 256); if (t % 2) { s[t] = 1;\n SYNC;\n o[t] = 1; } else { s[t] = 2;\n SYNC;\n o[t] = s[t ^ 2]; }"),
    "barrier in a divergent loop": ("divergent barrier", "for (int k = 0; k < t % 4; ++k) SYNC; o[t] = 1;"),
    "barrier 17": ("invalid barrier", 'asm volatile("bar.sync 17;"); o[t] = 1;'),
    "barrier of 100 threads": ("invalid barrier", 'asm volatile("bar.sync 1, 100;"); o[t] = 1;'),
    "warps that miss a barrier": ("deadlock", 'if (t < 32) asm volatile("bar.sync 1, 64;"); o[t] = 1;'),
    "syncwarp in a branch": ("missing thread", "if (t % 2) __syncwarp(); o[t] = 1;"),
    "shuffle in a branch": ("missing thread", "int x = t; if (t % 2) x = __shfl_sync(FULL, t, 1); o[t] = x;"),
    "shuffle from an inactive lane": ("missing thread", "int x = t; if (t % 2) x = __shfl_sync(0xaaaaaaaau, t, 0); o[t] = x;"),
    "vote of missing lanes": ("missing thread", "int x = t; if (t % 32 < 5) x = __any_sync(FULL, 1); o[t] = x;"),
    "mask without the lane": ("invalid mask", "o[t] = __shfl_sync(1u, t, 0);"),
    "warp sum in a branch": ("missing thread", "int x = t; if (t < n) for (int d = 16; d; d /= 2) x += __shfl_down_sync(FULL, x, d); o[t] = x;"),
    "endless wait": ("deadlock", "__shared__ volatile int flag; if (t == 0) flag = 0; SYNC; while (flag == 0) { } o[t] = 1;"),
    # bounds
    "beyond the result": ("out of bounds", "o[t + 1] = 1;"),
    "before the operand": ("out of bounds", "o[t] = a[t - 1];"),
    "null": ("out of bounds", "int* p = o; if (n == 200) p = nullptr; p[t] = 1;"),
    "before null": ("out of bounds", "const int* p = a; if (n == 200) p = nullptr; o[t] = p[-1];"),
    "atomic before null": ("out of bounds", "int* p = o; if (n == 200) p = nullptr; atomicAdd(p - 1, 1);"),
    "last of 255": ("out of bounds", "S(int, h, 255); h[t] = t; SYNC; o[t] = h[t];"),
    "atomic on the last of 255": ("out of bounds", "S(int, h, 255); if (t < 255) h[t] = 0; SYNC; atomicAdd(&h[t], 1);"),
    "into the next array": ("out of bounds", "S(int, x, 128); S(int, y, 256); x[t] = t; y[t] = t; SYNC; o[t] = x[t & 127] + y[t];"),
    "before an array": ("out of bounds", "S(int, x, 256); S(int, y, 256); x[t] = t; y[t] = t; SYNC; o[t] = y[t - 1] + x[t - (t > 0)];"),
    "beyond dynamic memory": ("out of bounds", "extern __shared__ int d[]; d[3 * 256 + t] = t; o[t] = 1;"),
    "before dynamic memory": ("out of bounds", "extern __shared__ int d[]; S(int, s, 256); s[t] = t; SYNC; o[t] = d[t - 256] + s[t ^ 1];"),
    "beyond a local array": ("out of bounds", "int x[4] = {1, 2, 3, 4}; for (int k = 0; k < 4; ++k) x[k] += a[t]; o[t] = x[a[t] % 8 + 100];"),
    "read only": ("read-only|out of bounds", "const_cast<int*>(a)[256] = 1; o[t] = 1;"),
    "misaligned": ("misaligned", "o[t] = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(a) + 1 + 4 * (t % 8));"),
    "misaligned vector": ("misaligned", "o[t] = reinterpret_cast<const int4*>(a + 1)[t % 8].x;"),
    "misaligned in shared memory": ("misaligned", "S(int, s, 256); s[t] = t; SYNC; o[t] = *reinterpret_cast<long long*>(&s[1 + t % 8]);"),
    "copy beyond": ("out of bounds", "S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t + 1], 4); __pipeline_commit(); __pipeline_wait_prior(0); o[t] = s[t];"),
    "column of the wrong width": ("out of bounds", "__shared__ int s[16][16]; s[t / 16][t % 16] = t; SYNC; o[t] = (&s[0][0])[(t % 16) * 17 + t / 16];"),
    # initialisation
    "shared memory without a value": ("uninitialised", "S(int, s, 256); if (t < 128) s[t] = t; SYNC; o[t] = s[t];"),
    "a counter without a value": ("uninitialised", "__shared__ int c; atomicAdd(&c, 1); SYNC; o[t] = c;"),
    "the end of a histogram": ("uninitialised", "S(int, h, 300); h[t] = 0; SYNC; atomicAdd(&h[t + 40], 1); SYNC; o[t] = h[t];"),
    "a result that is read": ("uninitialised", "o[t] += 1;"),
    "copy without a wait": ("missing wait", "S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit(); SYNC; o[t] = s[t];"),
    "the newest copy": ("missing wait", "S(int, s, 512); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit(); __pipeline_memcpy_async(&s[t + 256], &a[t], 4); __pipeline_commit(); __pipeline_wait_prior(1); SYNC; o[t] = s[t + 256];"),
    # calls
    "a string that is no address": ("invalid printf", 'if (t == 0) printf("%s", reinterpret_cast<const char*>(8));'),
    "printf that writes": ("invalid printf", 'if (t == 0) printf("%ln", reinterpret_cast<long*>(o));'),
    "a wide field": ("invalid printf", 'if (t == 0) printf("%*d", 1 << 30, 1);'),
    "trap": ("trap", 'if (t == 5) asm volatile("trap;"); o[t] = 1;'),
}


def source():
    kernels = {**CORRECT, **{name: body for name, (_, body) in MISTAKES.items()}}
    parts = [HEAD, MACROS]
    for index, body in enumerate(kernels.values()):
        parts.append(f'#line 1\nextern "C" __global__ void k{index}(int* o, const int* a, int n) {{')
        parts.append(f"const int t = threadIdx.x, i = t; (void)i; {body} }}")
    return "\n".join(parts), list(kernels)


@pytest.fixture(scope="module")
def module():
    if reason := compiler.why_no_compiler():
        pytest.skip(reason)
    text, _ = source()
    code = compiler.compile_cuda(text, "k0", arch="compute_90", options=["-w"]).code.decode()
    return _core.EmulatedModule(code)


def result_of(module, name):
    _, names = source()
    a, out = device_array(256, "i4", np.arange(256)), device_array(256, "i4", -77)
    arguments = out, a, np.int32(200)
    return launch(
        module, f"k{names.index(name)}", (1,), (256,), *arguments, outputs=[out], shared_bytes=3072
    )


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_kernel(module, name):
    error = result_of(module, name)["error"]
    assert error is None, error["text"]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake(module, name):
    error = result_of(module, name)["error"]
    assert error is not None
    kinds = MISTAKES[name][0].split("|")
    if "race" in kinds:
        kinds.append("uninitialised")  # before the other thread has written
    assert error["kind"] in kinds, error["text"]
