// clang-format off
// Kernels of test_emulator_checks.py. `//:` begins a kernel: its name or, for a mistake, the kinds of
// the error and its name. A body may use t, the thread of 256, the results o, the operands a and n.

//: early return
S(int, s, 256); if (t >= n) return; s[t] = a[t]; SYNC; o[t] = s[t];
//: early return in half a warp
S(int, s, 256); if (t % 32 >= 16) return; s[t] = a[t]; SYNC; o[t] = s[t ^ 1];
//: return with work
S(int, s, 256); if (t >= n) { o[t] = -1; return; } s[t] = a[t]; SYNC; o[t] = s[n - 1 - t];
//: returns of two kinds
S(int, s, 256); if (t == 3) return; if (a[t] == 7) return; s[t] = t; SYNC;
if (t > 9) o[t] = s[t - (t - 1 == 7 ? 2 : 1)];
//: barriers after returns in a loop
S(int, s, 256); if (t >= n) return; for (int k = 0; k < 3; ++k) { s[t] = k; SYNC;
o[t] = s[(t + 1) % n]; SYNC; }
//: return, then syncwarp
S(int, s, 256); if (t >= n) return; s[t] = t; __syncwarp(); o[t] = s[t ^ 1];
//: return, then shuffle
if (t % 32 > 20) return; o[t] = __shfl_sync(FULL, t, t & 16);
//: return, then ballot
if (t >= n) return; o[t] = __popc(__ballot_sync(FULL, t & 1));
//: whole warps return
S(int, s, 256); if (t >= 128) return; s[t] = t; SYNC; o[t] = s[127 - t];
//: barrier in a uniform branch
S(int, s, 256); s[t] = t; if (n > 5) SYNC; o[t] = s[255 - t];
//: barrier in a uniform loop
S(int, s, 256); int x = t; for (int d = 128; d > 0; d /= 2) { s[t] = x; SYNC;
if (t < d) x += s[t + d]; SYNC; } if (t == 0) o[0] = x;
//: uniform break
S(int, s, 256); for (int k = 0;; ++k) { s[t] = k; SYNC; if (s[0] == 3) break; SYNC; } o[t] = s[t];
//: count
o[t] = __syncthreads_count(t % 3 == 0);
//: or and and
o[t] = __syncthreads_or(t == 5) + 2 * __syncthreads_and(t >= 0);
//: named barriers of warps
S(int, s, 256); s[t] = t; if (t < 64) { asm volatile("bar.sync 1, 64;" ::: "memory");
o[t] = s[63 - t]; }
//: producers and consumers
S(int, s, 256); if (t < 128) { s[t] = t; asm volatile("bar.arrive 2, 256;" ::: "memory"); } else {
asm volatile("bar.sync 2, 256;" ::: "memory"); o[t] = s[t - 128]; }
//: barrier 15
asm volatile("bar.sync 15;"); o[t] = 1;
//: work before a uniform barrier
S(int, s, 256); if (t & 1) s[t] = a[t]; else s[t] = -a[t]; SYNC; o[t] = s[255 - t];
//: syncwarp
S(int, s, 256); s[t] = t; __syncwarp(); o[t] = s[t ^ 31];
//: halves of a warp
S(int, s, 256); unsigned half = t & 16 ? 0xffff0000u : 0xffffu; s[t] = t; __syncwarp(half);
o[t] = s[t ^ 15];
//: halves that take turns
S(int, s, 256); s[t] = t; __syncwarp(); if (t & 16) { o[t] = s[t ^ 1]; __syncwarp(0xffff0000u);
s[t] = 1; __syncwarp(0xffff0000u); o[t] += s[t ^ 2]; }
//: tiles of 16
S(int, s, 256); auto tile = cg::tiled_partition<16>(cg::this_thread_block()); s[t] = t;
tile.sync(); o[t] = s[t ^ 8]; tile.sync(); s[t] = 2; tile.sync(); o[t] += s[t ^ 4];
//: copies, syncwarp
S(int, s, 256); if (t & 1) { s[t] = 3 * t; __syncwarp(); o[t] = s[t ^ 1]; } else { s[t] = 5 * t;
__syncwarp(); o[t] = s[t ^ 1] + 1; }
//: copies, shuffle in a helper
auto left = [&](int x) { return __shfl_up_sync(FULL, x, 1); };
if (t % 3 == 0) o[t] = left(2 * t) * 3; else o[t] = left(t + 7) - 1;
//: copies, ballot
if (t & 4) o[t] = __ballot_sync(FULL, t % 3 == 0) ^ 1; else o[t] = __ballot_sync(FULL, t % 5 == 0);
//: copies, any
if (t & 4) o[t] = __any_sync(FULL, t == 70) + 3; else o[t] = 2 * __any_sync(FULL, t == 33);
//: copies, sum
if (t % 32 < 10) o[t] = __reduce_add_sync(FULL, t); else o[t] = -__reduce_add_sync(FULL, 3 * t);
//: copies, match of 64 bits
const long long high = 1ll << 40;
if (t & 1) o[t] = __match_any_sync(FULL, t % 4 * high); else o[t] = ~__match_any_sync(FULL, t % 6 * high);
//: copies, match of all
int p = 0; if (t & 1) o[t] = __match_all_sync(FULL, t / 64, &p); else {
__match_all_sync(FULL, t / 32 / 2, &p); o[t] = 2 * p; }
//: copies, butterfly
int x = a[t]; for (int d = 16; d; d /= 2) { if (t & 16) x = x * 3 - __shfl_xor_sync(FULL, x, d);
else x = __shfl_xor_sync(FULL, x + 1, d) ^ x; } o[t] = x;
//: copies, nested branches
int x; if (t & 1) { if (t & 2) x = __shfl_down_sync(FULL, t, 3) + 1;
else x = __shfl_down_sync(FULL, 2 * t, 3) * 2; } else { if (t & 8)
x = __shfl_down_sync(FULL, 3 * t, 3) - 5; else x = __shfl_down_sync(FULL, 4 * t, 3) ^ 7; }
o[t] = __shfl_xor_sync(FULL, x, 1);
//: copies, loop
int x = t; for (int k = 0; k < 4; ++k) { if ((t + k) % 3) { x += __shfl_xor_sync(FULL, x, 5); continue; }
x = a[k] - __shfl_xor_sync(FULL, 2 * x, 5); } o[t] = x;
//: copies, two masks
const unsigned half = t & 16 ? 0xffff0000u : 0xffffu;
if (t & 1) o[t] = __shfl_xor_sync(half, t, 9) * 2; else o[t] = __shfl_xor_sync(half, 5 * t, 9) + 3;
//: copies, some lanes first
int x = t; if (t & 1) x = __shfl_xor_sync(FULL, x, 1); else { x = __shfl_xor_sync(0x55555555u, x, 6);
x = __shfl_xor_sync(FULL, 2 * x, 1) + 1; } o[t] = x;
//: copies, shuffles before copies of a barrier
int x = t; if (t & 1) { o[t] = x; SYNC; } else { o[t] = __shfl_xor_sync(0x55555555u, x, 2); SYNC; }
//: copies, after a return
if (t >= n) return; if (t & 1) o[t] = __reduce_max_sync(FULL, t); else o[t] = __reduce_max_sync(FULL, 2 * t);
//: copies, elected lane
auto elect = [] { int yes; asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; "
"selp.s32 %0, 1, 0, p; }" : "=r"(yes)); return yes; };
if (t & 1) o[t] = elect() + 2; else o[t] = 5 * elect();
//: shuffles in half a warp
if (t % 32 < 16) o[t] = __shfl_xor_sync(0xffffu, t, 8);
//: vote in a loop
int x = t % 7; while (__any_sync(FULL, x > 0)) { --x; } o[t] = x;
//: active lanes
if (t % 3) { unsigned m = __activemask(); o[t] = __popc(__ballot_sync(m, 1)); }
//: match
unsigned m = __match_any_sync(FULL, t % 4); o[t] = __reduce_add_sync(m, 1);
//: warp sum
int x = a[t]; for (int d = 16; d; d /= 2) x += __shfl_down_sync(FULL, x, d);
if (t % 32 == 0) o[t] = x;
//: 255 of 255
S(int, h, 255); if (t < 255) h[t] = t; SYNC; if (t < 255) o[t] = h[254 - t];
//: odd sizes
S(char, c, 7); S(int, s, 3); if (t < 7) c[t] = t; if (t < 3) s[t] = t; SYNC;
o[t] = c[t % 7] + s[t % 3];
//: two buffers
S(int, x, 256); S(int, y, 256); int *p = x, *q = y; p[t] = t; for (int k = 0; k < 3; ++k) { SYNC;
q[t] = p[(t + 1) % 256]; int* r = p; p = q; q = r; } o[t] = p[t];
//: a chosen array
S(int, x, 256); S(int, y, 256); int* p = a[t] % 2 ? x : y; p[t] = t; SYNC; o[t] = p[t];
//: before the array
S(int, s, 256); int* p = s - 64; p[t + 64] = t; SYNC; o[t] = p[64 + (t ^ 1)];
//: vectors
__shared__ int4 v[64]; if (t < 64) v[t] = make_int4(t, t, t, t); SYNC;
o[t] = reinterpret_cast<int*>(v)[t];
//: bytes of words
S(int, s, 256); s[t] = t; SYNC; o[t] = reinterpret_cast<unsigned char*>(s)[4 * (t ^ 1)];
//: two dimensions
__shared__ int s[16][17]; s[t / 16][t % 16] = t; SYNC; o[t] = s[t % 16][t / 16];
//: a struct
__shared__ struct { int x[100]; float y[156]; } s; if (t < 100) s.x[t] = t; else s.y[t - 100] = t;
SYNC; o[t] = t < 100 ? s.x[99 - t] : int(s.y[t - 100]);
//: a scalar
__shared__ int c; if (t == 0) c = n; SYNC; o[t] = c;
//: the same value
__shared__ int c; c = 5; SYNC; o[t] = c;
//: parts of dynamic memory
extern __shared__ int d[]; int* e = d + 256; float* f = reinterpret_cast<float*>(e + 256);
d[t] = t; e[t] = 2 * t; f[t] = 3; SYNC; o[t] = d[255 - t] + e[t ^ 1] + int(f[t]);
//: static and dynamic
extern __shared__ int d[]; S(int, s, 5); if (t < 5) s[t] = t; d[t] = t; SYNC;
o[t] = d[255 - t] + s[t % 5];
//: column by column
S(int, s, 256); s[t] = a[t]; SYNC; if (t < 16) { int x = 0; for (int k = 0; k < 16;
++k) x += s[16 * k + t]; o[t] = x; }
//: histogram
S(int, h, 64); if (t < 64) h[t] = 0; SYNC; atomicAdd(&h[a[t] % 64], 1); SYNC;
if (t < 64) o[t] = h[t];
//: a thread's own counter
S(int, s, 256); s[t] = 1; atomicAdd(&s[t], 2); SYNC; o[t] = s[255 - t];
//: atomic maximum
__shared__ int m; if (t == 0) m = 0; SYNC; atomicMax(&m, a[t]); SYNC; o[t] = m;
//: exchange
__shared__ int m; if (t == 0) m = 0; SYNC; int old = atomicExch(&m, t); SYNC; o[t] = old >= 0;
//: flag with fences
__shared__ volatile int flag; S(int, s, 32); if (t == 0) flag = 0; SYNC; if (t < 32) {
if (t == 0) { for (int k = 0; k < 32; ++k) s[k] = k; __threadfence_block(); flag = 1; } } else {
while (flag == 0) { } __threadfence_block(); o[t] = s[t % 32]; }
//: atomic flag
__shared__ int flag; S(int, s, 1); if (t == 0) flag = 0; SYNC; if (t == 64) { s[0] = 9;
__threadfence_block(); atomicExch(&flag, 1); } if (t == 0) { while (atomicAdd(&flag, 0) == 0) { }
__threadfence_block(); o[t] = s[0]; }
//: cuda::atomic
__shared__ int flag, x; if (t == 0) flag = 0; SYNC;
cuda::atomic_ref<int, cuda::thread_scope_block> f(flag); if (t == 32) { x = 7;
f.store(1, cuda::memory_order_release); } if (t == 0) {
while (f.load(cuda::memory_order_acquire) == 0) { } o[0] = x; }
//: two flags and a counter
__shared__ cuda::atomic<int, cuda::thread_scope_block> f[2], c; __shared__ int x[2]; if (t == 0) f[0] = f[1] = c = 0; SYNC;
c.fetch_add(1, cuda::memory_order_acq_rel); if (t == 0) for (int k = 0; k < 2; ++k) {
while (f[k].load(cuda::memory_order_acquire) == 0) { } o[k] = x[k]; }
if (t == 32 || t == 64) { x[t / 64] = a[t]; f[t / 64].store(1, cuda::memory_order_release); } c.fetch_add(1, cuda::memory_order_relaxed);
//: lock of std::atomic_flag
__shared__ cuda::std::atomic_flag f; __shared__ int x; if (t == 0) { f.clear(); x = 0; } SYNC;
if (t % 32 == 0) { while (f.test_and_set(cuda::memory_order_acquire)) { } x += a[t]; f.clear(cuda::memory_order_release); } SYNC; o[t] = x;
//: last warp adds
__shared__ unsigned c; S(int, x, 256); if (t == 0) c = 0; SYNC; x[t] = a[t]; __threadfence_block(); __syncwarp(); unsigned v = 0;
if (t % 32 == 0) v = atomicAdd(&c, 1u); v = __shfl_sync(FULL, v, 0); if (v == 7) { __threadfence_block(); o[t % 32] = x[8 * (t % 32)]; }
//: locks of warps
__shared__ int lock, sum; if (t == 0) lock = sum = 0; SYNC; if (t % 32 == 0) {
while (atomicCAS(&lock, 0, 1) != 0) { } __threadfence_block(); sum += t; __threadfence_block();
atomicExch(&lock, 0); } SYNC; o[t] = sum;
//: locks of lanes
__shared__ int lock, sum; if (t == 0) lock = sum = 0; SYNC; bool done = false; while (!done) {
if (atomicCAS(&lock, 0, 1) == 0) { __threadfence_block(); sum += t; __threadfence_block();
atomicExch(&lock, 0); done = true; } } SYNC; o[t] = sum;
//: lock that lanes poll
__shared__ int lock, sum; if (t == 0) lock = sum = 0; SYNC; if (t < 32) {
while (atomicCAS(&lock, 0, 1) != 0) { } __threadfence_block(); sum += t; __threadfence_block();
atomicExch(&lock, 0); } SYNC; o[t] = sum;
//: lane that sets a flag
__shared__ volatile int flag; if (t == 0) flag = 0; SYNC; if (t % 32 != 5) { while (flag == 0) { }
} else { flag = 1; __threadfence_block(); } SYNC; o[t] = flag;
//: one barrier in two copies
S(int, s, 256); if (n > t) { s[t] = a[t] * 3; } else { s[t] = 1; } SYNC;
if (n > t) o[t] = s[255 - t]; else o[t] = s[0];
//: asynchronous copy
S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit();
__pipeline_wait_prior(0); SYNC; o[t] = s[255 - t];
//: own copy
S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit();
__pipeline_wait_prior(0); o[t] = s[t];
//: local array
int x[8]; for (int k = 0; k < 8; ++k) x[k] = k * t; o[t] = x[a[t] % 8];
//: long double buffer
S(long long, s, 256); s[t] = t; SYNC; o[t] = int(s[t ^ 3]);
//: half precision
S(__half, s, 256); s[t] = __int2half_rn(t); SYNC; o[t] = __half2int_rz(hsqrt(s[t ^ 1]));
//: switch
S(int, s, 256); switch (t % 4) { case 0: s[t] = 1; break; case 1: s[t] = 2; break;
default: s[t] = 3; } SYNC; o[t] = s[t ^ 1];
//: loops of different length
int x = 0; for (int k = 0; k < t % 5; ++k) x += k; S(int, s, 256); s[t] = x; SYNC;
o[t] = s[255 - t];
//: printf
if (t == 0) o[0] = printf("%5d %s %-8.3f|%%\n", n, "text", 1.5);
//: last write of a thread
S(int, s, 256); s[t] = 1; s[t] = 2; SYNC; o[t] = s[t ^ 1];
//: reads of all
S(int, s, 256); s[t] = a[t]; SYNC; int x = 0; for (int k = 0; k < 256; ++k) x += s[k]; o[t] = x;
//: race: no barrier
S(int, s, 256); s[t] = t; o[t] = s[255 - t];
//: race: no barrier in a loop
S(int, s, 256); for (int k = 0; k < 3; ++k) { s[t] = k + t; SYNC; o[t] = s[255 - t]; }
//: race: no barrier after a read
S(int, s, 256); s[t] = t; SYNC; int x = s[(t + 1) % 256]; s[t] = x; SYNC; o[t] = s[t];
//: race: no syncwarp
S(int, s, 256); s[t] = t; o[t] = s[t ^ 1];
//: race: no barrier in a sum
S(int, s, 256); s[t] = t; SYNC; for (int d = 128; d > 0; d /= 2) if (t < d) s[t] += s[t + d];
o[0] = 1;
//: race: no barrier before a broadcast
__shared__ int c; if (t == 0) c = n; o[t] = c;
//: race: two writers
__shared__ int c; c = t; SYNC; o[t] = c;
//: race: writers of one cell
S(int, s, 256); s[t / 2] = t; SYNC; o[t] = s[t / 2];
//: race: initialised by one, added by all
__shared__ int c; if (t == 0) c = 0; atomicAdd(&c, 1); SYNC; o[t] = c;
//: race: added by all, read by one
__shared__ int c; if (t == 0) c = 0; SYNC; atomicAdd(&c, 1); if (t == 0) o[0] = c;
//: race: halves that do not wait
S(int, s, 256); s[t] = t; __syncwarp(t & 16 ? 0xffff0000u : 0xffffu); o[t] = s[t ^ 16];
//: race: tiles that exchange
S(int, s, 256); auto tile = cg::tiled_partition<16>(cg::this_thread_block()); s[t] = t;
tile.sync(); o[t] = s[t ^ 16];
//: race: syncwarp between warps
S(int, s, 256); s[t] = t; __syncwarp(); o[t] = s[t ^ 32];
//: race: volatile without syncwarp
__shared__ volatile int s[64]; if (t < 64) s[t] = t; SYNC; if (t < 32) { s[t] += s[t + 32];
s[t] += s[t + 16]; } o[t] = 0;
//: race: fence instead of a barrier
S(int, s, 256); s[t] = t; __threadfence_block(); o[t] = s[255 - t];
//: race: flag without a fence
__shared__ volatile int flag; S(int, s, 1); if (t == 0) flag = 0; SYNC; if (t == 32) { s[0] = 1;
flag = 1; } if (t == 0) { while (flag == 0) { } o[0] = s[0]; }
//: race: bytes of one word
S(char, s, 256); s[t / 2 * 2] = t; SYNC; o[t] = s[t / 2 * 2];
//: race|deadlock: barrier of half of the warps
S(int, s, 256); s[t] = t; asm volatile("bar.arrive 1, 256;" ::: "memory"); o[t] = s[255 - t];
if (t < 32) SYNC;
//: race: overlapping stencil
S(int, s, 258); s[t + 1] = t; SYNC; s[t + 1] = s[t] + s[t + 2]; SYNC; o[t] = s[t + 1];
//: race: scan in place
S(int, s, 256); s[t] = 1; SYNC; for (int d = 1; d < 256; d *= 2) { if (t >= d) s[t] += s[t - d];
SYNC; } o[t] = s[t];
//: race: transpose without a barrier
__shared__ int s[16][17]; s[t / 16][t % 16] = t; o[t] = s[t % 16][t / 16];
//: race: copy without a barrier
S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit();
__pipeline_wait_prior(0); o[t] = s[255 - t];
//: divergent barrier: barrier in a branch
if (t % 2) SYNC; o[t] = 1;
//: divergent barrier: barrier in one lane
if (t == 0) SYNC; o[t] = 1;
//: divergent barrier: warps at barriers of two branches
S(int, s, 256); s[t] = t; if (t < 128) {
SYNC; o[t] = s[255 - t]; } else {
SYNC; o[t] = s[255 - t] + 1; }
//: divergent barrier: two barriers
S(int, s, 256); if (t % 2) { s[t] = 1;
SYNC;
o[t] = 1; } else { s[t] = 2;
SYNC;
o[t] = s[t ^ 2]; }
//: divergent barrier: barrier in a divergent loop
for (int k = 0; k < t % 4; ++k) SYNC; o[t] = 1;
//: invalid barrier: barrier 17
asm volatile("bar.sync 17;"); o[t] = 1;
//: invalid barrier: barrier of 100 threads
asm volatile("bar.sync 1, 100;"); o[t] = 1;
//: deadlock: warps that miss a barrier
if (t < 32) asm volatile("bar.sync 1, 64;"); o[t] = 1;
//: missing thread: syncwarp in a branch
if (t % 2) __syncwarp(); o[t] = 1;
//: missing thread: shuffle in a branch
int x = t; if (t % 2) x = __shfl_sync(FULL, t, 1); o[t] = x;
//: missing thread: shuffle from an inactive lane
int x = t; if (t % 2) x = __shfl_sync(0xaaaaaaaau, t, 0); o[t] = x;
//: missing thread: vote of missing lanes
int x = t; if (t % 32 < 5) x = __any_sync(FULL, 1); o[t] = x;
//: invalid mask: mask without the lane
o[t] = __shfl_sync(1u, t, 0);
//: missing thread: warp sum in a branch
int x = t; if (t < n) for (int d = 16; d; d /= 2) x += __shfl_down_sync(FULL, x, d); o[t] = x;
//: invalid mask: copies, lane outside of its mask
if (t & 1) o[t] = __shfl_xor_sync(FULL, t, 1); else o[t] = __shfl_xor_sync(0xaaaaaaaau, 2 * t, 1) + 1;
//: missing thread: copies, different masks
if (t & 1) o[t] = __shfl_xor_sync(FULL, t, 2); else o[t] = __shfl_xor_sync(0x55555555u, 2 * t, 2) + 1;
//: missing thread: copies, overlapping masks
if (t & 16) o[t] = __ballot_sync(0xffff8000u, t & 2); else o[t] = __ballot_sync(0x1ffffu, t & 4) + 1;
//: missing thread: copies, different shuffles
if (t & 1) o[t] = __shfl_up_sync(FULL, t, 2); else o[t] = __shfl_down_sync(FULL, 2 * t, 2) + 1;
//: missing thread: copies, different order
if (t & 1) { __syncwarp(); o[t] = __ballot_sync(FULL, t & 2); } else {
o[t] = __ballot_sync(FULL, t & 4) + 1; __syncwarp(); }
//: missing thread: copies, once and twice
int x; if (t & 1) x = __shfl_xor_sync(FULL, t, 1); else {
x = __shfl_xor_sync(FULL, 2 * t, 1); x = __shfl_xor_sync(FULL, x, 1) + 1; } o[t] = x;
//: missing thread|divergent barrier: copies, other lanes at a barrier
if (t & 1) { o[t] = 1; __syncwarp(); } else { o[t] = 2; SYNC; }
//: missing thread: copies, other lanes end
if (t & 1) { o[t] = 2; __threadfence(); o[t] = 3; return; } __syncwarp(); o[t] = 1;
//: race: copies, write after syncwarp
S(int, s, 256); s[t] = 0; __syncwarp(); if (t & 1) { __syncwarp(); o[t] = s[t ^ 1]; } else {
__syncwarp(); s[t] = t; o[t] = 1; }
//: deadlock: endless wait
__shared__ volatile int flag; if (t == 0) flag = 0; SYNC; while (flag == 0) { } o[t] = 1;
//: out of bounds: beyond the result
o[t + 1] = 1;
//: out of bounds: before the operand
o[t] = a[t - 1];
//: out of bounds: null
int* p; asm("mov.u64 %0, 0;" : "=l"(p)); p[t] = 1;
//: out of bounds: before null
int* p; asm("mov.u64 %0, 0;" : "=l"(p)); o[t] = p[-1];
//: out of bounds: atomic before null
int* p; asm("mov.u64 %0, 0;" : "=l"(p)); atomicAdd(p - 1, 1);
//: out of bounds: last of 255
S(int, h, 255); h[t] = t; SYNC; o[t] = h[t];
//: out of bounds: atomic on the last of 255
S(int, h, 255); if (t < 255) h[t] = 0; SYNC; atomicAdd(&h[t], 1);
//: out of bounds: into the next array
S(int, x, 128); S(int, y, 256); x[t] = t; y[t] = t; SYNC; o[t] = x[t & 127] + y[t];
//: out of bounds: before an array
S(int, x, 256); S(int, y, 256); x[t] = t; y[t] = t; SYNC; o[t] = y[t - 1] + x[t - (t > 0)];
//: out of bounds: beyond dynamic memory
extern __shared__ int d[]; d[3 * 256 + t] = t; o[t] = 1;
//: out of bounds: before dynamic memory
extern __shared__ int d[]; S(int, s, 256); s[t] = t; SYNC; o[t] = d[t - 256] + s[t ^ 1];
//: out of bounds: beyond a local array
int x[4] = {1, 2, 3, 4}; for (int k = 0; k < 4; ++k) x[k] += a[t]; o[t] = x[a[t] % 8 + 100];
//: read-only|out of bounds: read only
const_cast<int*>(a)[256] = 1; o[t] = 1;
//: misaligned: misaligned
o[t] = *reinterpret_cast<const int*>(reinterpret_cast<const char*>(a) + 1 + 4 * (t % 8));
//: misaligned: misaligned vector
const int4 v = reinterpret_cast<const int4*>(a + 1)[t % 8]; o[t] = v.x + v.y + v.z + v.w;
//: misaligned: misaligned in shared memory
S(int, s, 256); s[t] = t; SYNC; o[t] = *reinterpret_cast<long long*>(&s[1 + t % 8]);
//: out of bounds: copy beyond
S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t + 1], 4); __pipeline_commit();
__pipeline_wait_prior(0); o[t] = s[t];
//: out of bounds: column of the wrong width
__shared__ int s[16][16]; s[t / 16][t % 16] = t; SYNC; o[t] = (&s[0][0])[(t % 16) * 17 + t / 16];
//: uninitialised: shared memory without a value
S(int, s, 256); if (t < 128) s[t] = t; SYNC; o[t] = s[t];
//: uninitialised: a counter without a value
__shared__ int c; atomicAdd(&c, 1); SYNC; o[t] = c;
//: uninitialised: the end of a histogram
S(int, h, 300); h[t] = 0; SYNC; atomicAdd(&h[t + 40], 1); SYNC; o[t] = h[t];
//: uninitialised: a result that is read
o[t] += 1;
//: missing wait: copy without a wait
S(int, s, 256); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit(); SYNC; o[t] = s[t];
//: missing wait: the newest copy
S(int, s, 512); __pipeline_memcpy_async(&s[t], &a[t], 4); __pipeline_commit();
__pipeline_memcpy_async(&s[t + 256], &a[t], 4); __pipeline_commit(); __pipeline_wait_prior(1);
SYNC; o[t] = s[t + 256];
//: invalid printf: a string that is no address
if (t == 0) printf("%s", reinterpret_cast<const char*>(8));
//: invalid printf: printf that writes
if (t == 0) printf("%ln", reinterpret_cast<long*>(o));
//: invalid printf: a wide field
if (t == 0) printf("%*d", 1 << 30, 1);
//: trap: trap
if (t == 5) asm volatile("trap;"); o[t] = 1;
