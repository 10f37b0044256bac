// Largest sums on the GPU, the steps: out[p] = max(0, max_k(big[k][p] + small[k])). Read one_block
// to whole_device beside the post "Boosting Application Performance with GPU Memory Access Tuning"
// (NVIDIA, 2022), and the steps from scalar_batched on beside the post "Boosting Application
// Performance with GPU Memory Prefetching". engine/ has the variants of the default call.
//
// Each element of big is used once, for one addition and one comparison, so the kernels are
// memory-bound. Their time depends on the number of bytes in flight and on the order of the
// accesses. All arrays are packed in row-major order.
#include "common/async_copy.cuh"
#include "common/read_ceiling.cuh"
#include "max_plus/operands.cuh"

namespace ado::cuda {
namespace {

constexpr int kUnrolledTerms = 8;  // terms per iteration of an unrolled loop

#ifdef __CUDACC__

// Launches the kernel for the element type.
template <void (*kOfFloat)(MaxPlusOperands<float>), void (*kOfDouble)(MaxPlusOperands<double>)>
void run(const MaxPlus& p, const Launch& go) {
  if (p.big.type == kFloat32)
    launch(go, kOfFloat, operands_of<float>(p));
  else
    launch(go, kOfDouble, operands_of<double>(p));
}

#endif

// ---- read ---------------------------------------------------------------------------------------
// The ceiling (common/read_ceiling.cuh).
constexpr auto kRead = read_row<MaxPlus, &MaxPlus::big>("Reads big and nothing else.");

// ---- one_block, one_block_bounded, two_blocks ---------------------------------------------------
// One point per thread and iteration of the grid-stride loop, one element per load. The post
// simplifies its application to one block, so its kernels launch one or two blocks.
constexpr int kOneBlockThreads = 1024;
constexpr int kTwoBlocksThreads = 512;  // per block

template <unsigned kBlocks>
Extent few_blocks(const MaxPlus& p, Extent) {
  return {p.points() > 0 ? kBlocks : 0};
}

#ifdef __CUDACC__
__device__ std::int64_t grid_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

template <class T>
__device__ void max_plus_scalar_loads(const MaxPlusOperands<T>& p) {
  for (std::int64_t point = thread_x(); point < p.points; point += grid_threads()) {
    T best = 0;
#pragma unroll kUnrolledTerms
    for (std::int64_t k = 0; k < p.terms; ++k)
      best = larger(best, p.big[k * p.points + point] + p.small[k]);
    p.out[point] = best;
  }
}
#endif

// ---- one_block ----------------------------------------------------------------------------------
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kOneBlockThreads) max_plus_one_block(MaxPlusOperands<T> p) {
  max_plus_scalar_loads(p);
}
#endif

constexpr Variant<MaxPlus> kOneBlock = {
    .name = "one_block",
    .changes = "Computes one point per thread and iteration, in one block of 1024 threads.",
    .blocks = {{{kOneBlockThreads}}},
    .grid = few_blocks<1>,
    .run = ADO_RUN(run<max_plus_one_block<float>, max_plus_one_block<double>>)};

// ---- vector_load_small, vector_load_small_bounded -----------------------------------------------
// All threads of a warp load the same element of small. A 16-byte load also loads the next elements
// (float64: two terms per load):
//
//   small   | k  k+1 | k+2 k+3 | ...       one vector load per two terms
//   big     row k    | . . . point . . .   one scalar load per term
//           row k+1  | . . . point . . .
#ifdef __CUDACC__
template <class T>
__device__ void max_plus_vector_loads_of_small(const MaxPlusOperands<T>& p) {
  constexpr int kLength = kVectorLength<T>;
  for (std::int64_t point = thread_x(); point < p.points; point += grid_threads()) {
    const T* const column = p.big + point;
    // If small is not aligned to vectors, all its terms are loaded one by one. The number is
    // computed inside the loop on purpose: if it is hoisted, nvcc 13.0 generates a third more
    // instructions for sm_90.
    const std::int64_t vector_terms = starts_at_vector(p.small) ? p.terms / kLength * kLength : 0;
    T best = 0;
#pragma unroll(kUnrolledTerms / kLength)
    for (std::int64_t k = 0; k < vector_terms; k += kLength) {
      const auto some = *reinterpret_cast<const WideVector<T>*>(p.small + k);
#pragma unroll
      for (int i = 0; i < kLength; ++i)
        best = larger(best, column[(k + i) * p.points] + some.at[i]);
    }
#pragma unroll 1
    for (std::int64_t k = vector_terms; k < p.terms; ++k)
      best = larger(best, column[k * p.points] + p.small[k]);
    p.out[point] = best;
  }
}
#endif

// ---- vector_load_small --------------------------------------------------------------------------
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kOneBlockThreads)
    max_plus_vector_load_small(MaxPlusOperands<T> p) {
  max_plus_vector_loads_of_small(p);
}
#endif

constexpr Variant<MaxPlus> kVectorLoadSmall = {
    .name = "vector_load_small",
    .changes = {"Loads small in vectors of 16 bytes.", Step::kWider},
    .blocks = {{{kOneBlockThreads}}},
    .grid = few_blocks<1>,
    .run = ADO_RUN(run<max_plus_vector_load_small<float>, max_plus_vector_load_small<double>>)};

// ---- vector_load_both, vector_load_both_bounded -------------------------------------------------
// A thread computes the neighbouring points of one vector of big. All rows must start at multiples
// of a vector (float64: two points per thread):
//
//   row k   | thread 0 | thread 1 | thread 2 | ...   16 bytes per thread and load,
//   row k+1 | thread 0 | thread 1 | thread 2 | ...   512 contiguous bytes per warp
const char* why_not_vectors(const MaxPlus& p) {
  return rows_aligned(p) ? nullptr
                         : "rows of big or out are not aligned to 16 bytes, so only small can be "
                           "loaded in vectors";
}

#ifdef __CUDACC__
template <class T>
__device__ void max_plus_vector_loads_of_both(const MaxPlusOperands<T>& p) {
  constexpr int kLength = kVectorLength<T>;
  using Points = WideVector<T>;
  const std::int64_t row_vectors = p.points * sizeof(T) / sizeof(Points);
  for (std::int64_t vector = thread_x(); vector < row_vectors; vector += grid_threads()) {
    const Points* const column = reinterpret_cast<const Points*>(p.big) + vector;
    const std::int64_t pitch = p.points / kLength;  // from row to row, in vectors
    const std::int64_t vector_terms = starts_at_vector(p.small) ? p.terms / kLength * kLength : 0;
    Points best = {};
    const auto add = [&](std::int64_t k, T term) {
      const Points some = column[k * pitch];
#pragma unroll
      for (int i = 0; i < kLength; ++i) best.at[i] = larger(best.at[i], some.at[i] + term);
    };
#pragma unroll(kUnrolledTerms / kLength)
    for (std::int64_t k = 0; k < vector_terms; k += kLength) {
      const auto some = *reinterpret_cast<const WideVector<T>*>(p.small + k);
#pragma unroll
      for (int i = 0; i < kLength; ++i) add(k + i, some.at[i]);
    }
#pragma unroll 1
    for (std::int64_t k = vector_terms; k < p.terms; ++k) add(k, p.small[k]);
    reinterpret_cast<Points*>(p.out)[vector] = best;
  }
}
#endif

// ---- vector_load_both ---------------------------------------------------------------------------
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kOneBlockThreads)
    max_plus_vector_load_both(MaxPlusOperands<T> p) {
  max_plus_vector_loads_of_both(p);
}
#endif

constexpr Variant<MaxPlus> kVectorLoadBoth = {
    .name = "vector_load_both",
    .changes =
        {"Also loads big in vectors of 16 bytes, so that a thread computes neighbouring points.",
         Step::kWider},
    .why_not = why_not_vectors,
    .blocks = {{{kOneBlockThreads}}},
    .grid = few_blocks<1>,
    .run = ADO_RUN(run<max_plus_vector_load_both<float>, max_plus_vector_load_both<double>>)};

// ---- one_block_bounded --------------------------------------------------------------------------
// Registers: with a bound of 1024 threads alone, up to 64 registers per thread are possible. For
// float64 on sm_90, the compiler uses only 32 to 44 of them, so loads wait until previously loaded
// values have been used. With launch bounds for one block per multiprocessor, the same loops use 56
// to 64 registers, so more loads are in flight, and vector loads gain nothing.
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kOneBlockThreads, 1)
    max_plus_one_block_bounded(MaxPlusOperands<T> p) {
  max_plus_scalar_loads(p);
}
#endif

constexpr Variant<MaxPlus> kOneBlockBounded = {
    .name = "one_block_bounded",
    .changes = {"Runs one_block with launch bounds for one block per multiprocessor, which allow "
                "64 registers per thread.",
                Step::kInFlight},
    .blocks = {{{kOneBlockThreads}}},
    .grid = few_blocks<1>,
    .run = ADO_RUN(run<max_plus_one_block_bounded<float>, max_plus_one_block_bounded<double>>)};

// ---- vector_load_small_bounded ------------------------------------------------------------------
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kOneBlockThreads, 1)
    max_plus_vector_load_small_bounded(MaxPlusOperands<T> p) {
  max_plus_vector_loads_of_small(p);
}
#endif

constexpr Variant<MaxPlus> kVectorLoadSmallBounded = {
    .name = "vector_load_small_bounded",
    .changes = {"Adds vector loads of small to the launch bounds.", Step::kWider},
    .blocks = {{{kOneBlockThreads}}},
    .grid = few_blocks<1>,
    .run = ADO_RUN(run<max_plus_vector_load_small_bounded<float>,
                       max_plus_vector_load_small_bounded<double>>)};

// ---- vector_load_both_bounded -------------------------------------------------------------------
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kOneBlockThreads, 1)
    max_plus_vector_load_both_bounded(MaxPlusOperands<T> p) {
  max_plus_vector_loads_of_both(p);
}
#endif

constexpr Variant<MaxPlus> kVectorLoadBothBounded = {
    .name = "vector_load_both_bounded",
    .changes = {"Adds vector loads of big to the launch bounds.", Step::kWider},
    .why_not = why_not_vectors,
    .blocks = {{{kOneBlockThreads}}},
    .grid = few_blocks<1>,
    .run = ADO_RUN(
        run<max_plus_vector_load_both_bounded<float>, max_plus_vector_load_both_bounded<double>>)};

// ---- two_blocks ---------------------------------------------------------------------------------
// Half the threads per block, the same number of registers per thread.
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kTwoBlocksThreads, 2) max_plus_two_blocks(MaxPlusOperands<T> p) {
  max_plus_scalar_loads(p);
}
#endif

constexpr Variant<MaxPlus> kTwoBlocks = {
    .name = "two_blocks",
    .changes = {"Uses scalar loads in two blocks of 512 threads, with launch bounds for two blocks "
                "per multiprocessor.",
                Step::kParallelism, Step::kOccupancy},
    .blocks = {{{kTwoBlocksThreads}}},
    .grid = few_blocks<2>,
    .run = ADO_RUN(run<max_plus_two_blocks<float>, max_plus_two_blocks<double>>)};

// ---- whole_device -------------------------------------------------------------------------------
// After the post: the scalar loop with one thread per point, so every multiprocessor has work.
Extent grid_of_points(const MaxPlus& p, Extent block) {
  return grid_of(ceil_div(p.points(), block.x), 1);
}

#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kTwoBlocksThreads, 2)
    max_plus_whole_device(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  T best = 0;
#pragma unroll kUnrolledTerms
  for (std::int64_t k = 0; k < p.terms; ++k)
    best = larger(best, p.big[k * p.points + point] + p.small[k]);
  p.out[point] = best;
}
#endif

constexpr Variant<MaxPlus> kWholeDevice = {
    .name = "whole_device",
    .changes = {"Starts one thread per point, so that all multiprocessors have work.",
                Step::kParallelism},
    .blocks = {{{kTwoBlocksThreads}, {256}, {128}}},
    .grid = grid_of_points,
    .run = ADO_RUN(run<max_plus_whole_device<float>, max_plus_whole_device<double>>)};

// ---- scalar_batched, shared_batched -------------------------------------------------------------
// The post on prefetching: six ways to load elements of big before they are needed, with one point
// per thread. On an H200, with enough warps to hide the latency, none is faster than whole_device.
//
// Batched: a thread loads kPrefetched elements together and then uses them one after another. No
// load is in flight while it uses the last one.
//
//   load 0 1 2 3 4 5 | use 0 1 2 3 4 5 | load 6 7 8 9 10 11 | use 6 7 8 9 10 11 | ...
constexpr int kPrefetched = 6;  // elements loaded but not used yet; the fastest number in the post
constexpr int kPrefetchThreads = 512;  // the largest block
constexpr Blocks kPrefetchBlocks = {{{256}, {128}, {kPrefetchThreads}}};

#ifdef __CUDACC__
template <class T, class Slots>
__device__ void max_plus_batched(const MaxPlusOperands<T>& p, std::int64_t point, Slots& slots) {
  T best = 0;
  std::int64_t k = 0;
#pragma unroll 1
  for (; k + kPrefetched <= p.terms; k += kPrefetched) {
    T loaded[kPrefetched];
#pragma unroll
    for (int i = 0; i < kPrefetched; ++i) loaded[i] = p.big[(k + i) * p.points + point];
#pragma unroll
    for (int i = 0; i < kPrefetched; ++i) slots[i] = loaded[i];
#pragma unroll
    for (int i = 0; i < kPrefetched; ++i) best = larger(best, slots[i] + p.small[k + i]);
  }
#pragma unroll 1
  for (; k < p.terms; ++k) best = larger(best, p.big[k * p.points + point] + p.small[k]);
  p.out[point] = best;
}
#endif

// ---- scalar_batched -----------------------------------------------------------------------------
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_scalar_batched(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  T slots[kPrefetched];  // in registers
  max_plus_batched(p, point, slots);
}
#endif

constexpr Variant<MaxPlus> kScalarBatched = {
    .name = "scalar_batched",
    .changes = {"Loads six elements together and then uses them one after another, in a loop that "
                "is not unrolled further.",
                Step::kInFlight},
    .blocks = kPrefetchBlocks,
    .grid = grid_of_points,
    .run = ADO_RUN(run<max_plus_scalar_batched<float>, max_plus_scalar_batched<double>>)};

// ---- shared_batched, shared_rolling, async_rolling, padded --------------------------------------
// Until its use, an element is in a slot of shared memory. Slots are private to a thread, so
// threads need no synchronisation. kPitch is the distance in elements between the first slots of
// two neighbouring threads. The slots are volatile. Otherwise the compiler could keep the elements
// in registers, or read a slot before the wait for the copy to it.
template <int kPitch>
std::size_t slot_bytes(const MaxPlus& p, Extent block) {
  return block.x * kPitch * static_cast<std::size_t>(p.big.type.size);
}

#ifdef __CUDACC__
template <class T, int kPitch>
__device__ volatile T* private_slots() {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  return reinterpret_cast<T*>(shared) + threadIdx.x * kPitch;
}

// The slots form a ring.
__device__ int next_slot(int slot) { return slot + 1 == kPrefetched ? 0 : slot + 1; }
#endif

// ---- shared_batched -----------------------------------------------------------------------------
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_shared_batched(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kPrefetched>();
  max_plus_batched(p, point, slots);
}
#endif

constexpr Variant<MaxPlus> kSharedBatched = {
    .name = "shared_batched",
    .changes = {"Keeps the prefetched elements in shared memory until they are used.",
                Step::kOccupancy, Step::kInFlight},
    .blocks = kPrefetchBlocks,
    .grid = grid_of_points,
    .shared_bytes = slot_bytes<kPrefetched>,
    .run = ADO_RUN(run<max_plus_shared_batched<float>, max_plus_shared_batched<double>>)};

// ---- scalar_rolling -----------------------------------------------------------------------------
// Rolling: as soon as an element has been used, the next one is loaded into its slot. Registers
// cannot be indexed at run time, so one iteration of the loop uses each of them once.
//
//   load 0 1 2 3 4 5 | use 0, load 6 | use 1, load 7 | use 2, load 8 | ...
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_scalar_rolling(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  T slots[kPrefetched] = {};  // in registers
#pragma unroll
  for (int i = 0; i < kPrefetched; ++i)
    if (i < p.terms) slots[i] = p.big[i * p.points + point];
  T best = 0;
#pragma unroll 1
  for (std::int64_t first = 0; first < p.terms; first += kPrefetched) {
#pragma unroll
    for (int i = 0; i < kPrefetched; ++i) {
      const std::int64_t k = first + i;
      if (k >= p.terms) break;
      best = larger(best, slots[i] + p.small[k]);
      if (k + kPrefetched < p.terms) slots[i] = p.big[(k + kPrefetched) * p.points + point];
    }
  }
  p.out[point] = best;
}
#endif

constexpr Variant<MaxPlus> kScalarRolling = {
    .name = "scalar_rolling",
    .changes = {"Keeps the prefetched elements in registers, and loads the next element whenever "
                "one has been used.",
                Step::kInFlight},
    .blocks = kPrefetchBlocks,
    .grid = grid_of_points,
    .run = ADO_RUN(run<max_plus_scalar_rolling<float>, max_plus_scalar_rolling<double>>)};

// ---- shared_rolling -----------------------------------------------------------------------------
// An element is stored to shared memory from a register. The store waits for the load of this
// register.
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_shared_rolling(MaxPlusOperands<T> p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kPrefetched>();
#pragma unroll
  for (int i = 0; i < kPrefetched; ++i)
    if (i < p.terms) slots[i] = p.big[i * p.points + point];
  T best = 0;
  int slot = 0;
  for (std::int64_t k = 0; k < p.terms; ++k) {
    best = larger(best, slots[slot] + p.small[k]);
    if (k + kPrefetched < p.terms) slots[slot] = p.big[(k + kPrefetched) * p.points + point];
    slot = next_slot(slot);
  }
  p.out[point] = best;
}
#endif

constexpr Variant<MaxPlus> kSharedRolling = {
    .name = "shared_rolling",
    .changes = {"Keeps the prefetched elements in shared memory, and loads the next one whenever "
                "one has been used.",
                Step::kOccupancy, Step::kInFlight},
    .blocks = kPrefetchBlocks,
    .grid = grid_of_points,
    .shared_bytes = slot_bytes<kPrefetched>,
    .run = ADO_RUN(run<max_plus_shared_rolling<float>, max_plus_shared_rolling<double>>)};

// ---- async_rolling, padded ----------------------------------------------------------------------
// An asynchronous copy bypasses the registers. Each copy is a separate group. Past the last term,
// the groups are empty. So the copy of the next element is always in the oldest of kPrefetched
// groups, and the other groups may still be in flight.
#ifdef __CUDACC__
template <int kPitch, class T>
__device__ void max_plus_async_copies(const MaxPlusOperands<T>& p) {
  const std::int64_t point = thread_x();
  if (point >= p.points) return;
  volatile T* const slots = private_slots<T, kPitch>();
  const auto fetch = [&](std::int64_t k, int slot) {
    if (k < p.terms) copy_element_async(const_cast<T*>(slots + slot), p.big + k * p.points + point);
    commit_copies();
  };
#pragma unroll
  for (int i = 0; i < kPrefetched; ++i) fetch(i, i);
  T best = 0;
  int slot = 0;
  for (std::int64_t k = 0; k < p.terms; ++k) {
    wait_for_copies<kPrefetched - 1>();
    best = larger(best, slots[slot] + p.small[k]);
    fetch(k + kPrefetched, slot);
    slot = next_slot(slot);
  }
  p.out[point] = best;
}
#endif

// ---- async_rolling ------------------------------------------------------------------------------
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_async_rolling(MaxPlusOperands<T> p) {
  max_plus_async_copies<kPrefetched>(p);
}
#endif

constexpr Variant<MaxPlus> kAsyncRolling = {
    .name = "async_rolling",
    .changes = {"Copies to shared memory asynchronously, without passing through registers.",
                Step::kInFlight},
    .blocks = kPrefetchBlocks,
    .grid = grid_of_points,
    .shared_bytes = slot_bytes<kPrefetched>,
    .run = ADO_RUN(run<max_plus_async_rolling<float>, max_plus_async_rolling<double>>)};

// ---- padded -------------------------------------------------------------------------------------
// The threads of a warp access slots with the same index at the same time. The post pads the slots
// of a thread from six to nine. Bank of each thread's slot for float32, for which a slot occupies
// one of the 32 banks:
//
//   thread          0   1   2   3   4   5 ...  15  16  17 ...
//   pitch 6 (even)  0   6  12  18  24  30 ...  26   0   6 ...   16 banks, two threads in each
//   pitch 9 (odd)   0   9  18  27   4  13 ...   7  16  25 ...   32 banks, no conflict
//
// float64 is accessed by half a warp at a time, and the same holds for its 16 pairs of banks.
constexpr int kPaddedPitch = 9;

#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kPrefetchThreads) max_plus_padded(MaxPlusOperands<T> p) {
  max_plus_async_copies<kPaddedPitch>(p);
}
#endif

constexpr Variant<MaxPlus> kPadded = {
    .name = "padded",
    .changes = {"Pads each thread's slots from six to nine, so that a warp accesses all banks "
                "without conflicts.",
                Step::kBankConflicts},
    .blocks = kPrefetchBlocks,
    .grid = grid_of_points,
    .shared_bytes = slot_bytes<kPaddedPitch>,
    .run = ADO_RUN(run<max_plus_padded<float>, max_plus_padded<double>>)};

// -------------------------------------------------------------------------------------------------

constexpr Variant<MaxPlus> kSteps[] = {kRead,
                                       kOneBlock,
                                       kVectorLoadSmall,
                                       kVectorLoadBoth,
                                       kOneBlockBounded,
                                       kVectorLoadSmallBounded,
                                       kVectorLoadBothBounded,
                                       kTwoBlocks,
                                       kWholeDevice,
                                       kScalarBatched,
                                       kSharedBatched,
                                       kScalarRolling,
                                       kSharedRolling,
                                       kAsyncRolling,
                                       kPadded};

}  // namespace

Ladder<MaxPlus> max_plus_steps() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

int main() {
  using namespace ado;
  MaxPlus p;
  p.big = cuda::random_array(kFloat64, {64, 1 << 20});
  p.small = cuda::random_array(kFloat64, {64});
  p.out = cuda::random_array(kFloat64, {1 << 20});
  return cuda::run_ladder(cuda::max_plus_steps(), p, [](const MaxPlus& p) {
    for (std::int64_t point = 0; point < p.points(); ++point) {
      double best = 0;
      for (std::int64_t k = 0; k < p.terms(); ++k)
        best = std::max(
            best, p.big.as<const double>()[k * p.points() + point] + p.small.as<const double>()[k]);
      p.out.as<double>()[point] = best;
    }
  });
}
#endif
