// clang-format off
// Bodies of kernels for tests/test_emulator_checks.py, as 8 blocks of 64 threads: t is the thread, b
// the block, i the thread of the grid. x and f begin with zeros. A line such as "//: race: name"
// precedes each body.

//: own elements
o[i] = a[i];
//: own elements, read again
o[i] = a[i]; SYNC; x[i] = o[b * 64 + 63 - t];
//: bytes of one word
((char*)x)[b * 2 + (t & 1)] = b;
//: halves of a word
((short*)x)[i] = b; SYNC; o[i] = ((short*)x)[i ^ 1];
//: words with halves of other blocks
((short*)x)[b] = b; SYNC; o[i] = ((volatile int*)o)[i] + (x[b / 2] >> 16 * (b % 2) & 0xffff);
//: vectors
((int4*)x)[i] = make_int4(t, t, t, t); o[i] = x[4 * i + 3];
//: columns
for (int k = 0; k < 8; ++k) x[t * 64 + b * 8 + k] = k; o[i] = x[t * 64 + b * 8 + 7];
//: the same value
x[0] = 1; x[1 + t] = t; SYNC; o[i] = x[0] + x[1 + t];
//: histogram
atomicAdd(&x[a[i] % 16], 1);
//: own counters
atomicAdd_block(&x[b], 1); SYNC; o[i] = x[b];
//: maximum, checked first
if (x[0] < a[i]) atomicMax(&x[0], a[i]);
//: loop with atomicCAS
int old = x[0], assumed;
do { assumed = old; old = atomicCAS(&x[0], assumed, assumed + a[i]); } while (assumed != old);
//: tickets
S(int, tile, 1); if (t == 0) tile[0] = atomicAdd(&f[0], 1); SYNC; o[tile[0] * 64 + t] = b;
//: last block
S(bool, last, 1); x[i] = a[i]; SYNC;
if (t == 0) { __threadfence(); last[0] = atomicInc(&f[0], 7) == 7; } SYNC;
if (last[0]) for (int k = 0; k < 8; ++k) o[k * 64 + t] = x[k * 64 + 63 - t];
//: last block, all threads fence
S(bool, last, 1); x[i] = a[i]; __threadfence(); SYNC;
if (t == 0) last[0] = atomicAdd(&f[0], 1) == 7; SYNC;
if (last[0]) { __threadfence(); o[t] = x[511 - t]; if (t == 0) f[0] = 0; }
//: race: a block that is not the last one
if (t == 0) { __threadfence(); if (atomicAdd(&f[0], 1) == 6) f[0] = 0; }
//: last warp
if (t < 32) { x[b * 32 + t] = a[i]; __threadfence(); __syncwarp();
int last = t == 0 ? atomicAdd(&f[0], 1) == 7 : 0; last = __shfl_sync(FULL, last, 0);
if (last) { __threadfence(); o[t] = x[t] + x[224 + t]; } }
//: volatile flag
if (b == 0) { x[t] = t; __threadfence(); SYNC; if (t == 0) *(volatile unsigned*)f = 1; }
else { if (t == 0) { while (*(volatile unsigned*)f == 0); __threadfence(); } SYNC; o[i] = x[63 - t]; }
//: volatile data
volatile int* v = x; v[t] = b; o[i] = v[63 - t];
//: cuda::atomic_ref
cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(f[0]);
if (b == 7) { x[t] = t; SYNC; if (t == 0) flag.store(1, cuda::memory_order_release); }
else { while (flag.load(cuda::memory_order_acquire) == 0); o[i] = x[63 - t]; }
//: cuda::atomic_thread_fence
cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(f[0]);
if (b == 0) { x[t] = t; SYNC; if (t == 0) { cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
flag.store(1, cuda::memory_order_relaxed); } }
else { while (flag.load(cuda::memory_order_relaxed) == 0); cuda::atomic_thread_fence(cuda::memory_order_acquire,
cuda::thread_scope_device); o[i] = x[t]; }
//: wait and notify
cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(f[0]);
if (t == 0) { if (b == 0) { x[0] = 5; flag.store(1); flag.notify_all(); } else { flag.wait(0); o[b] = x[0]; } }
//: release and acquire in PTX
if (t == 0) { if (b == 0) { x[9] = 5; asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(f) : "memory"); }
else { unsigned v; do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(f) : "memory");
while (v == 0); o[b] = x[9]; } }
//: flag of a block after the flag of another block
volatile unsigned* g = f; __shared__ volatile int near; if (t == 0) near = 0; SYNC; if (b == 0) { x[t] = t; __threadfence(); SYNC; if (t == 0) g[0] = 1; }
else { if (t == 0) { while (g[0] == 0); __threadfence(); g[b] = 1; near = 1; }
if (t == 32) { while (g[b] == 0); __threadfence_block(); o[i] = x[t]; } if (t == 33) { while (near == 0); __threadfence_block(); o[i] = x[t]; } }
//: barrier of a block after an mbarrier
__shared__ cuda::barrier<cuda::thread_scope_block> bar; if (t == 0) init(&bar, 64); SYNC; volatile unsigned* g = f;
if (b == 0) { x[t] = t; __threadfence(); SYNC; if (t == 0) g[0] = 1; } else { if (t == 0) { while (g[0] == 0); __threadfence(); }
bar.arrive_and_wait(); o[i] = x[63 - t]; }
//: barrier in global memory
auto* bar = (cuda::barrier<cuda::thread_scope_device>*)(x + 1024); if (b == 0 && t == 0) { init(bar, 512); __threadfence(); *(volatile unsigned*)f = 1; }
if (t == 0) { while (*(volatile unsigned*)f == 0); __threadfence(); } SYNC; x[i] = t; bar->arrive_and_wait(); o[i] = x[511 - i];
//: semaphore and latch in global memory
auto* s = (cuda::counting_semaphore<cuda::thread_scope_device>*)(x + 1024); auto* l = (cuda::latch<cuda::thread_scope_device>*)(x + 1056);
if (b == 0 && t == 0) { new (s) cuda::counting_semaphore<cuda::thread_scope_device>(1); new (l) cuda::latch<cuda::thread_scope_device>(8);
__threadfence(); *(volatile unsigned*)f = 1; }
if (t == 0) { while (*(volatile unsigned*)f == 0); __threadfence(); s->acquire(); x[0] += b; s->release(); l->arrive_and_wait(); o[b] = x[0]; }
//: stack
if (t == 0) { int old; do { old = *(volatile int*)&x[0]; x[8 + b] = old; __threadfence(); } while (atomicCAS(&x[0], old, b + 1) != old);
int top = atomicExch(&x[0], 0); __threadfence(); for (; top > 0; top = x[7 + top]) o[b] += top; }
//: lock
if (t == 0) { while (atomicCAS(&f[0], 0u, 1u)); __threadfence(); x[0] += b; x[1] = x[0]; __threadfence(); atomicExch(&f[0], 0u); }
//: lock of cuda::atomic_ref
cuda::atomic_ref<unsigned, cuda::thread_scope_device> lock(f[0]);
if (t == 0) { while (lock.exchange(1, cuda::memory_order_acquire)); x[0] += b; lock.store(0, cuda::memory_order_release); }
//: chain of blocks
volatile unsigned* ready = f; S(int, s, 1);
if (t == 0) { if (b > 0) { while (ready[b - 1] == 0); __threadfence(); } s[0] = b ? x[b - 1] : 0; if (b > 1) s[0] += x[b - 2];
x[b] = s[0] + b; __threadfence(); ready[b] = 1; } SYNC; o[i] = x[0] + x[b];
//: look-back with a packed state
S(int, s, 1); unsigned long long* state = (unsigned long long*)x;
if (t == 0) { int sum = 0; atomicExch(&state[b], (unsigned long long)b << 32 | (b ? 1 : 2));
for (int k = b - 1; k >= 0; --k) { unsigned long long v; do v = atomicAdd(&state[k], 0ull); while (!(v & 3));
sum += v >> 32; if (v & 2) break; } atomicExch(&state[b], (unsigned long long)(sum + b) << 32 | 2); s[0] = sum; } SYNC; o[i] = s[0];
//: look-back with fences
volatile unsigned* state = f; S(int, s, 1);
if (t == 0) { x[b] = b; __threadfence(); state[b] = 1; int sum = b, k = b - 1;
for (; k >= 0; --k) { unsigned v; while ((v = state[k]) == 0); __threadfence(); if (v == 2) { sum += x[64 + k]; break; } sum += x[k]; }
x[64 + b] = sum; __threadfence(); state[b] = 2; s[0] = sum; } SYNC; o[i] = s[0];
//: grid barrier
x[i] = a[i]; cg::this_grid().sync(); o[i] = x[511 - i]; cg::this_grid().sync(); x[511 - i] = o[i];
//: barrier of blocks with generations
volatile unsigned* generation = f + 1; for (int k = 0; k < 3; ++k) { x[(i + 64 * k) % 512] = i; SYNC;
if (t == 0) { unsigned g = *generation; __threadfence(); if (atomicAdd(&f[0], 1) == 7) { f[0] = 0; __threadfence(); *generation = g + 1; }
else while (*generation == g); __threadfence(); } SYNC; }
//: barrier of blocks with a master, as in CUB
for (int k = 0; k < 3; ++k) { x[(i + 64 * k) % 512] = i + k; __threadfence(); SYNC; volatile unsigned* g = f;
if (b == 0) { if (t == 0) g[0] = 1; SYNC; if (t < 8) while (__ldcg(&f[t]) == 0) __threadfence_block(); SYNC; if (t < 8) g[t] = 0; }
else { if (t == 0) { g[b] = 1; while (__ldcg(&f[b]) == 1) __threadfence_block(); } SYNC; } }
//: wavefront of blocks
volatile unsigned* g = f; if (t == 0 && b > 0) while (g[b - 1] == 0); SYNC; o[i] = b ? o[i - 64] + 1 : t; __threadfence(); SYNC;
if (t == 0) g[b] = 1;
//: sequence lock
cuda::atomic_ref<unsigned, cuda::thread_scope_device> s(f[0]); cuda::atomic_ref<int, cuda::thread_scope_device> d(x[0]);
if (t == 0) { if (b == 0) { s.fetch_add(1); d.store(5); s.fetch_add(1); } else { unsigned v; int r;
do { v = s.load(); r = d.load(); } while ((v & 1) || s.load() != v); o[b] = r; } }
//: master that polls a counter
S(int, s, 1); x[i] = t; SYNC; if (t == 0) { __threadfence(); atomicAdd(&f[0], 1); } if (b == 0) {
if (t == 0) { while (*(volatile unsigned*)f < 8); __threadfence(); f[0] = 0; } SYNC; o[t] = x[448 + t]; }
//: queue
if (t == 0) { unsigned slot = atomicAdd(&f[0], 1); x[slot] = b; __threadfence(); atomicExch(&f[1 + slot], 1u);
if (slot > 0) { while (atomicAdd(&f[slot], 0u) == 0); __threadfence(); o[slot] = x[slot - 1]; } }
//: hints of other caches
o[i] = __ldg(&a[511 - i]); __stcg(&x[i], t); SYNC; o[i] += __ldcg(&x[b * 64 + 63 - t]);
//: asynchronous copy
S(int, s, 64); __pipeline_memcpy_async(&s[t], &a[i], 4); __pipeline_commit(); __pipeline_wait_prior(0); SYNC; o[i] = s[63 - t];
//: bulk copy of an operand
BULK_LOAD(s, a + 64 * (7 - b), 256); o[i] = s[63 - t];
//: bulk copies of one tile
BULK_LOAD(s, a, 256); BULK_STORE(o + 64 * b, s, 256);
//: bulk copy after a flag
volatile unsigned* g = f; x[i] = t; __threadfence(); SYNC; if (t == 0) { g[b] = 1; while (g[b ^ 1] == 0); __threadfence(); } SYNC;
BULK_LOAD(s, x + 64 * (b ^ 1), 256); o[i] = s[t];
//: bulk copy of a vector while another block writes a part of it
if (t == 0) x[64 * b + 1] = b; SYNC; BULK_LOAD(s, x + 64 * b, 272); o[i] = s[t];
//: bulk copy, then a flag
__shared__ __align__(16) int s[64]; S(bool, last, 1); s[t] = t; SYNC; BULK_STORE(x + 64 * b, s, 256);
if (t == 0) { __threadfence(); last[0] = atomicAdd(&f[0], 1) == 7; __threadfence(); } SYNC; if (last[0]) o[t] = x[8 * t];

//: race: bulk copy of the next block's result
x[i] = a[i]; SYNC; BULK_LOAD(s, x + 64 * (b ^ 1), 256); o[i] = s[t];
//: race: bulk copies to one place
__shared__ __align__(16) int s[64]; s[t] = i; SYNC; BULK_STORE(x, s, 256);
//: race: bulk copy, flag before its end
__shared__ __align__(16) int s[64]; S(bool, last, 1); s[t] = t; SYNC; if (t == 0) { BULK_START(x + 64 * b, s, 256); __threadfence();
last[0] = atomicAdd(&f[0], 1) == 7; __threadfence(); BULK_END; } SYNC; if (last[0]) o[t] = x[8 * t];
//: race: bulk copy of a tile and a store beside it
__shared__ __align__(16) int s[64]; s[t] = t; SYNC; BULK_STORE(x + 64 * b, s, 256); if (t == 0) x[(64 * b + 64) % 512] = 1;
//: race: total without an atomic
if (t == 0) x[0] += a[i];
//: race: zeroed by one block, added by all
if (b == 0 && t < 16) x[t] = 0; SYNC; atomicAdd(&x[a[i] % 16], 1);
//: race: cuda::atomic_ref and a plain store
cuda::atomic_ref<unsigned, cuda::thread_scope_device> c(f[0]); if (i == 0) f[0] = 0; c.fetch_add(1);
//: race: result of the block before
x[i] = a[i]; SYNC; o[i] = x[i ? i - 1 : 0];
//: race: result of the next block
x[i] = a[i]; SYNC; o[i] = x[i < 511 ? i + 1 : i];
//: race: last block without a fence
S(bool, last, 1); x[i] = a[i]; SYNC; if (t == 0) last[0] = atomicAdd(&f[0], 1) == 7; SYNC; if (last[0]) o[t] = x[t] + x[448 + t];
//: race: last block, fence of one block
S(bool, last, 1); x[i] = a[i]; SYNC; if (t == 0) { if (b) __threadfence_block(); else __threadfence();
last[0] = atomicAdd(&f[0], 1) == 7; } SYNC; if (last[0]) for (int k = 0; k < 8; ++k) o[k * 64 + t] = x[k * 64 + t] + x[t];
//: race: flag after a fence of the block
if (t == 0) { if (b == 0) { x[0] = 5; __threadfence_block(); *(volatile unsigned*)f = 1; }
else { while (*(volatile unsigned*)f == 0); __threadfence(); o[b] = x[0]; } }
//: race: flag without a fence before it
if (t == 0) { if (b == 0) { x[0] = 5; *(volatile unsigned*)f = 1; } else { while (*(volatile unsigned*)f == 0); __threadfence(); o[b] = x[0]; } }
//: race: flag without a fence after it
if (t == 0) { if (b == 0) { x[0] = 5; __threadfence(); *(volatile unsigned*)f = 1; } else { while (*(volatile unsigned*)f == 0); o[b] = x[0]; } }
//: race: flag without a barrier after it
if (b == 0) { x[t] = t; __threadfence(); SYNC; if (t == 0) *(volatile unsigned*)f = 1; }
else { if (t == 0) { while (*(volatile unsigned*)f == 0); __threadfence(); } o[i] = x[63 - t]; }
//: race: fence after the flag
if (t == 0) { if (b == 0) { x[0] = 5; *(volatile unsigned*)f = 1; __threadfence(); } else { while (*(volatile unsigned*)f == 0); __threadfence(); o[b] = x[0]; } }
//: race: data after the fence
if (t == 0) { if (b == 0) { x[1] = 4; __threadfence(); x[0] = 5; *(volatile unsigned*)f = 1; }
else { while (*(volatile unsigned*)f == 0); __threadfence(); o[b] = x[0]; } }
//: race: atomic_ref of the block's scope
cuda::atomic_ref<unsigned, cuda::thread_scope_block> flag(f[0]);
if (t == 0) { if (b == 0) { x[0] = 5; flag.store(1, cuda::memory_order_release); } else { while (flag.load(cuda::memory_order_acquire) == 0); o[b] = x[0]; } }
//: race: relaxed atomic_ref
cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(f[0]);
if (t == 0) { if (b == 0) { x[0] = 5; flag.store(1, cuda::memory_order_relaxed); } else { while (flag.load(cuda::memory_order_acquire) == 0); o[b] = x[0]; } }
//: race: the wrong flag
if (t == 0) { x[b] = b; __threadfence(); *(volatile unsigned*)&f[b] = 1; while (*(volatile unsigned*)&f[b ? 0 : 1] == 0); __threadfence();
o[b] = x[(b + 2) % 8]; }
//: race: overlapping tiles
for (int k = t; k < 66; k += 64) x[b * 64 + k] = b;
//: race: halo of both blocks
x[i + 1] = t; if (t == 0) x[b * 64] = a[i]; if (t == 63) x[i + 2] = a[i];
//: race: stencil in place
int left = x[i], right = x[i + 2]; SYNC; x[i + 1] = left + right + 1;
//: race: a flag released before the result
volatile unsigned* g = f; if (t == 0 && b > 0) { while (g[b - 1] == 0); __threadfence(); } SYNC;
if (t == 0) { __threadfence(); g[b] = 1; } o[i] = b ? o[i - 64] + 1 : t;
//: race: reversed in place
int v = x[511 - i]; SYNC; x[i] = v + i;
//: race: transpose in place
int v = x[t * 8 + b]; SYNC; x[i] = v + 1;
//: race: histogram without atomics
x[a[i] % 4] = x[a[i] % 4] + 1;
//: race: histogram with atomics of the block
atomicAdd_block(&x[a[i] % 16], 1);
//: race: histogram that is read
atomicAdd(&x[a[i] % 16], 1); SYNC; o[i] = x[t % 16];
//: race: counter that is read
if (t == 0) { atomicAdd(&f[0], 1u); o[b] = f[0]; }
//: race: words and bytes
if (b == 0) x[t] = t; else ((char*)x)[b] = 77;
//: race: vectors that overlap
if (t < 8) { int* y = x + 4 * (b % 2) + 8 * t; *(int4*)y = make_int4(b, b, b, b); }
//: race: one element too far
x[i + 1] = i; if (t == 0) x[b * 64] = -1;
//: race: different values
if (t == 0) x[0] = b;
//: race: lock without a fence
if (t == 0) { while (atomicCAS(&f[0], 0u, 1u)); x[0] += b; atomicExch(&f[0], 0u); }
//: race: lock of the writers only
if (t == 0) { if (b) { while (atomicCAS(&f[0], 0u, 1u)); __threadfence(); x[0] += b; __threadfence(); atomicExch(&f[0], 0u); } else o[0] = x[0]; }
//: race: two locks
if (t == 0) { unsigned* lock = &f[b % 2]; while (atomicCAS(lock, 0u, 1u)); __threadfence(); x[0] += b; __threadfence(); atomicExch(lock, 0u); }
//: race: barrier of blocks without fences
x[i] = t; SYNC; if (t == 0) { atomicAdd(&f[0], 1u); while (*(volatile unsigned*)f < 8); } SYNC; o[i] = x[511 - i];
//: race: two phases without a barrier
x[i] = a[i]; SYNC; o[i] = x[511 - i];
//: race: after a grid barrier
x[i] = a[i]; cg::this_grid().sync(); x[511 - i] = x[i] + 1;
//: race: asynchronous copy of another block's result
S(int, s, 64); x[i] = a[i]; SYNC; __pipeline_memcpy_async(&s[t], &x[511 - i], 4); __pipeline_commit(); __pipeline_wait_prior(0); SYNC; o[i] = s[t];
//: race: plain flag
if (t == 0) { if (b == 0) { x[0] = 5; __threadfence(); f[0] = 1; } else { while (*(volatile unsigned*)f == 0); __threadfence(); o[b] = x[0]; } }
