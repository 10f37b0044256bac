// Averages of vectors times a matrix on the GPU, the steps: out[row][set] = sum over the elements
// of matrix[row][element] * average[set][element]. They are the kernels of the posts
// "Analysis-Driven Optimization with NVIDIA Nsight Compute" (R. Crovella, 2021), in their order;
// the names in the posts are in parentheses. engine/ has the variants of the default call.
//
// Nearly all bytes belong to the vectors, and each byte is used once. So the time is bounded by
// reading the vectors, provided that the product, with its L / M operations per sample, is fast or
// hidden.
#include "average_matvec/library.cuh"
#include "common/read_ceiling.cuh"
#include "core/compensated.hpp"

namespace ado::cuda {
namespace {

#ifdef __CUDACC__

// All arrays are packed in row-major order. As separate parameters, nvcc 13.0 would allocate other
// registers.
template <class T>
struct AverageMatvecOperands {
  const T* vectors;  // (sets, length, samples)
  const T* matrix;   // (length, length)
  T* out;            // (length, sets)
  std::int64_t sets, length, samples;

  // The samples of one element of the vectors of one set. They are contiguous.
  __device__ const T* samples_of(std::int64_t set, std::int64_t element) const {
    return vectors + (set * length + element) * samples;
  }
};

template <class T>
AverageMatvecOperands<T> operands_of(const AverageMatvec& p) {
  return {p.vectors.as<const T>(),
          p.matrix.as<const T>(),
          p.out.as<T>(),
          p.sets(),
          p.length(),
          p.samples()};
}

// Launches the kernel for the element type.
template <void (*kOfFloat)(AverageMatvecOperands<float>),
          void (*kOfDouble)(AverageMatvecOperands<double>)>
void run(const AverageMatvec& p, const Launch& go) {
  if (p.vectors.type == kFloat32)
    launch(go, kOfFloat, operands_of<float>(p));
  else
    launch(go, kOfDouble, operands_of<double>(p));
}

#endif

// ---- read ---------------------------------------------------------------------------------------
// The ceiling (common/read_ceiling.cuh).
constexpr auto kRead =
    read_row<AverageMatvec, &AverageMatvec::vectors>("Reads the vectors once and nothing else.");

// ---- one_block, block_per_set, warp_average, warp_shuffle, average_then_gemm --------------------
// The posts add float32 numbers in plain sums and test 1024 samples, which are 1 or 2. Here, sums
// are compensated, so that the error does not grow with M.
#ifdef __CUDACC__
// The sum of samples first, first + step, ...
template <class T>
__device__ T sum_of_samples(const T* sample, std::int64_t samples, int first, int step) {
  CompensatedSum<T> sum;
  for (std::int64_t i = first; i < samples; i += step) sum.add(sample[i]);
  return sum.total();
}
#endif

// The sizes of a problem as floating-point numbers, and its costs. The FLOPs equal the hardware
// counters of an H200 exactly for N = L = M = 1024 in float32, except that cuBLAS also multiplies
// each result by alpha. They assume that the compiler fuses no multiplication with an addition.
struct Sizes {
  double length, samples, element_bytes, rows;
  explicit Sizes(const AverageMatvec& p)
      : length(static_cast<double>(p.length())),
        samples(static_cast<double>(p.samples())),
        element_bytes(p.vectors.type.size),
        rows(static_cast<double>(p.sets()) * length) {}

  static constexpr double kShuffles = 32 * 5;  // a reduction over a warp

  // Averages with `lanes` lanes per row, one compensated sum per lane and one compensated addition
  // per sample. Lanes without samples also finalise their sum. A division is replaced by operations
  // (SASS of sm_90). The approximate reciprocal is not counted. Its refinement takes five FMAs in
  // float32, and seven FMAs and a multiplication in float64. In float64, one more FMA in float32
  // tests for special cases. Special cases, such as zeros, take more operations.
  double flops_of_averages(double lanes) const {
    const double division = element_bytes == sizeof(float) ? 2 * 5 : 2 * 7 + 1 + 2;
    return rows *
           (CompensatedSum<double>::kFlopsOfAdd * samples +
            CompensatedSum<double>::kFlopsOfTotal * lanes + (lanes > 1 ? kShuffles : 0) + division);
  }
};

// ---- one_block, block_per_set, warp_average, warp_shuffle ---------------------------------------
// A block averages the vectors of a set and multiplies the average by the matrix, so the whole
// matrix is read for every set. It has one thread per element of the average.
constexpr int kSetThreads = 1024;
constexpr Blocks kOneDimensional = {{{kSetThreads}}};
constexpr Blocks kLanesByWarps = {{{kWarpSize, kSetThreads / kWarpSize}}};

const char* why_not_long(const AverageMatvec& p) {
  return p.length() > kSetThreads ? "L exceeds 1024, the number of threads of a block, which has "
                                    "one thread per element of a vector"
                                  : nullptr;
}

Extent block_per_set(const AverageMatvec& p, Extent) { return blocks_for(p.sets()); }

// The vectors are read once, and the matrix once per set.
double bytes_of_set_per_block(const AverageMatvec& p) {
  const Sizes n(p);
  return n.element_bytes * n.rows * (n.samples + n.length + 1);
}

// ---- one_block, block_per_set, warp_average -----------------------------------------------------
// Tree reduction: halves the number of values until values[0] is the total. Only thread 0 may read
// values[0] without a barrier.
//
//   values   0 1 2 3 4 5 6 7
//   half 4   0 1 2 3 <- 4 5 6 7
//   half 2   0 1 <- 2 3
//   half 1   0 <- 1
#ifdef __CUDACC__
template <class T>
__device__ void tree_reduction(T (&values)[kSetThreads], int thread) {
  for (int half = kSetThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) values[thread] += values[thread + half];
  }
}
#endif

// Each row of the matrix takes L multiplications and a tree reduction.
template <int kLanes>
double flops_with_trees(const AverageMatvec& p) {
  const Sizes n(p);
  return n.flops_of_averages(kLanes) + n.rows * (n.length + kSetThreads - 1);
}

// ---- one_block ----------------------------------------------------------------------------------
// (gpu_version1) One block for all sets, one thread per element. Neighbouring threads read samples
// that are one row apart, which is uncoalesced.
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kSetThreads)
    average_matvec_one_block(AverageMatvecOperands<T> p) {
  __shared__ T product[kSetThreads];
  const int element = threadIdx.x;
  for (std::int64_t set = 0; set < p.sets; ++set) {
    T average = 0;
    if (element < p.length)
      average =
          sum_of_samples(p.samples_of(set, element), p.samples, 0, 1) / static_cast<T>(p.samples);
    for (std::int64_t row = 0; row < p.length; ++row) {
      __syncthreads();  // the products of the previous row have been added
      product[element] = element < p.length ? average * p.matrix[row * p.length + element] : T(0);
      tree_reduction(product, element);
      if (element == 0) p.out[row * p.sets + set] = product[0];
    }
  }
}
#endif

constexpr Variant<AverageMatvec> kOneBlock = {
    .name = "one_block",
    .changes =
        "Uses one block with one thread per element, which processes the sets one after another.",
    .why_not = why_not_long,
    .blocks = kOneDimensional,
    .grid = [](const AverageMatvec&, Extent) { return Extent{1}; },
    .flops = flops_with_trees<1>,
    .bytes = bytes_of_set_per_block,
    .run = ADO_RUN(run<average_matvec_one_block<float>, average_matvec_one_block<double>>)};

// ---- block_per_set ------------------------------------------------------------------------------
// (gpu_version2) One block per set, because the sets are independent. If there are more sets than
// blocks in the largest grid, a block processes several.
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kSetThreads)
    average_matvec_block_per_set(AverageMatvecOperands<T> p) {
  __shared__ T product[kSetThreads];
  const int element = threadIdx.x;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    T average = 0;
    if (element < p.length)
      average =
          sum_of_samples(p.samples_of(set, element), p.samples, 0, 1) / static_cast<T>(p.samples);
    for (std::int64_t row = 0; row < p.length; ++row) {
      __syncthreads();  // the products of the previous row have been added
      product[element] = element < p.length ? average * p.matrix[row * p.length + element] : T(0);
      tree_reduction(product, element);
      if (element == 0) p.out[row * p.sets + set] = product[0];
    }
  }
}
#endif

constexpr Variant<AverageMatvec> kBlockPerSet = {
    .name = "block_per_set",
    .changes = {"Starts one block per set.", Step::kParallelism},
    .why_not = why_not_long,
    .blocks = kOneDimensional,
    .grid = block_per_set,
    .flops = flops_with_trees<1>,
    .bytes = bytes_of_set_per_block,
    .run = ADO_RUN(run<average_matvec_block_per_set<float>, average_matvec_block_per_set<double>>)};

// ---- warp_average, warp_shuffle -----------------------------------------------------------------
// One warp averages one element. Its lanes read neighbouring samples (coalesced), and their sums
// are added by shuffles. The block has 32 warps of 32 lanes.
//
//   samples of element e    0     1     2  ...   31     32    33  ...
//   read by              lane 0  lane 1 ...  lane 31  lane 0  lane 1 ...   of warp e % 32
#ifdef __CUDACC__
template <class T>
__device__ void average_by_warps(const AverageMatvecOperands<T>& p, std::int64_t set, T* average) {
  const int lane = threadIdx.x, warp = threadIdx.y;
  for (int element = warp; element < p.length; element += kSetThreads / kWarpSize) {
    const T sum =
        sum_over_lanes(sum_of_samples(p.samples_of(set, element), p.samples, lane, kWarpSize));
    if (lane == 0) average[element] = sum / static_cast<T>(p.samples);
  }
  __syncthreads();
}
#endif

// ---- warp_average -------------------------------------------------------------------------------
// (gpu_version3)
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kSetThreads)
    average_matvec_warp_average(AverageMatvecOperands<T> p) {
  __shared__ T averages[kSetThreads], product[kSetThreads];
  const int element = threadIdx.y * kWarpSize + threadIdx.x;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    average_by_warps(p, set, averages);
    const T average = element < p.length ? averages[element] : T(0);
    for (std::int64_t row = 0; row < p.length; ++row) {
      __syncthreads();  // the products of the previous row have been added
      product[element] = element < p.length ? average * p.matrix[row * p.length + element] : T(0);
      tree_reduction(product, element);
      if (element == 0) p.out[row * p.sets + set] = product[0];
    }
  }
}
#endif

constexpr Variant<AverageMatvec> kWarpAverage = {
    .name = "warp_average",
    .changes = {"Averages each element with one warp, whose lanes read neighbouring samples.",
                Step::kCoalescing},
    .why_not = why_not_long,
    .blocks = kLanesByWarps,
    .grid = block_per_set,
    .flops = flops_with_trees<kWarpSize>,
    .bytes = bytes_of_set_per_block,
    .run = ADO_RUN(run<average_matvec_warp_average<float>, average_matvec_warp_average<double>>)};

// ---- warp_shuffle -------------------------------------------------------------------------------
// (gpu_version4) The products of a row are also added by shuffles: first within each warp, then the
// sums of the 32 warps within the first warp. Two barriers per row instead of eleven.
#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kSetThreads)
    average_matvec_warp_shuffle(AverageMatvecOperands<T> p) {
  __shared__ T averages[kSetThreads], warp_sums[kSetThreads / kWarpSize];
  const int lane = threadIdx.x, warp = threadIdx.y, element = warp * kWarpSize + lane;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    average_by_warps(p, set, averages);
    const bool exists = element < p.length;
    const T average = exists ? averages[element] : T(0);
    for (std::int64_t row = 0; row < p.length; ++row) {
      const T sum = sum_over_lanes(exists ? average * p.matrix[row * p.length + element] : T(0));
      if (lane == 0) warp_sums[warp] = sum;
      __syncthreads();
      if (warp == 0) {
        const T total = sum_over_lanes(warp_sums[lane]);
        if (lane == 0) p.out[row * p.sets + set] = total;
      }
      __syncthreads();  // the first warp has read the sums, so they may be overwritten
    }
  }
}
#endif

constexpr Variant<AverageMatvec> kWarpShuffle = {
    .name = "warp_shuffle",
    .changes = {"Adds the products of a row by shuffles in two stages instead of a tree reduction "
                "in shared memory.",
                Step::kReuse, Step::kBarriers},
    .why_not = why_not_long,
    .blocks = kLanesByWarps,
    .grid = block_per_set,
    .flops =
        [](const AverageMatvec& p) {
          const Sizes n(p);
          return n.flops_of_averages(kWarpSize) + n.rows * (n.length + 33 * Sizes::kShuffles);
        },
    .bytes = bytes_of_set_per_block,
    .run = ADO_RUN(run<average_matvec_warp_shuffle<float>, average_matvec_warp_shuffle<double>>)};

// ---- average_then_gemm --------------------------------------------------------------------------
// (gpu_version5) Averages only, with one warp per row for the rows of all sets. The products of all
// sets then form one matrix product, which cuBLAS computes and which reads the matrix a few times
// instead of once per set. A grid-stride loop covers more rows than a grid has warps.
constexpr int kRowThreads = 256, kRowWarps = kRowThreads / kWarpSize;

#ifdef __CUDACC__
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    average_matvec_average(AverageMatvecOperands<T> p, T* averages) {
  const int lane = threadIdx.x % kWarpSize;
  const std::int64_t rows = p.sets * p.length;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRowWarps; first < rows;
       first += std::int64_t{gridDim.x} * kRowWarps) {
    const std::int64_t row = first + threadIdx.x / kWarpSize;
    if (row >= rows) return;
    const T sum =
        sum_over_lanes(sum_of_samples(p.vectors + row * p.samples, p.samples, lane, kWarpSize));
    if (lane == 0) averages[row] = sum / static_cast<T>(p.samples);
  }
}
#endif

// The product is assumed to consist of L FMAs per element of the result, and to read each operand
// once. cuBLAS selects its kernel at run time: one with tiles also multiplies padding, and one for
// tensor cores executes no FMAs. The averages are written.
constexpr Variant<AverageMatvec> kAverageThenGemm = {
    .name = "average_then_gemm",
    .changes = {"Averages all sets first and computes the product with cuBLAS.", Step::kReuse},
    .why_not = why_not_library,
    .blocks = {{{kRowThreads}}},
    .grid = [](const AverageMatvec& p,
               Extent) { return blocks_for(ceil_div(p.sets() * p.length(), kRowWarps)); },
    .scratch_bytes = bytes_of_averages,
    .flops =
        [](const AverageMatvec& p) {
          const Sizes n(p);
          return n.flops_of_averages(kWarpSize) + 2 * n.rows * n.length;
        },
    .bytes =
        [](const AverageMatvec& p) {
          const Sizes n(p);
          return n.element_bytes * (n.rows * (n.samples + 3) + n.length * n.length);
        },
    .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
      with_real(p.vectors.type, [&]<class T>(T) {
        T* const averages = reinterpret_cast<T*>(go.scratch);
        launch(go, average_matvec_average<T>, operands_of<T>(p), averages);
        multiply_with_library<T>(p, go, averages);
      });
    })};

// -------------------------------------------------------------------------------------------------

constexpr Variant<AverageMatvec> kSteps[] = {kRead,        kOneBlock,    kBlockPerSet,
                                             kWarpAverage, kWarpShuffle, kAverageThenGemm};

}  // namespace

Ladder<AverageMatvec> average_matvec_steps() { return ladder_of(kSteps); }

}  // namespace ado::cuda

#ifdef STANDALONE
#include "common/standalone.cuh"

#include <dlfcn.h>

#include <numeric>

namespace ado::cuda::cublas {

// Loads the function of cuBLAS from the search path of the loader.
template <class Function>
Function* find(const char* name) {
  void* library = dlopen("libcublas.so.13", RTLD_NOW);
  if (library == nullptr) library = dlopen("libcublas.so.12", RTLD_NOW);
  return reinterpret_cast<Function*>(library == nullptr ? nullptr : dlsym(library, name));
}

const char* why_missing() {
  return find<void()>("cublasSgemm_v2") ? nullptr : "cuBLAS is not in LD_LIBRARY_PATH";
}

template <class T>
void multiply(const char* name, const Product<T>& p) {
  static void* const handle = [] {
    void* created = nullptr;
    find<int(void**)>("cublasCreate_v2")(&created);
    return created;
  }();
  const T one = 1, zero = 0;
  const int rows = static_cast<int>(p.rows), cols = static_cast<int>(p.cols),
            depth = static_cast<int>(p.depth);
  // cuBLAS stores columns, so it computes out^T = right * left^T. 1: transposed, 0: as stored.
  find<int(void*, int, int, int m, int n, int k, const T*, const T* a, int lda, const T* b, int ldb,
           const T*, T* c, int ldc)>(name)(handle, 1, 0, cols, rows, depth, &one,
                                           p.right_transposed, depth, p.left, depth, &zero, p.out,
                                           cols);
}

void gemm(const Launch&, const Product<float>& p) { multiply("cublasSgemm_v2", p); }
void gemm(const Launch&, const Product<double>& p) { multiply("cublasDgemm_v2", p); }

}  // namespace ado::cuda::cublas

int main() {
  using namespace ado;
  AverageMatvec p;
  p.vectors = cuda::random_array(kFloat32, {128, 512, 1024});
  p.matrix = cuda::random_array(kFloat32, {512, 512});
  p.out = cuda::random_array(kFloat32, {512, 128});
  return cuda::run_ladder(cuda::average_matvec_steps(), p, [](const AverageMatvec& p) {
    std::vector<double> average(p.length());
    for (std::int64_t set = 0; set < p.sets(); ++set) {
      const float* sample = p.vectors.as<const float>() + set * p.length() * p.samples();
      for (double& element : average) {
        element = std::accumulate(sample, sample + p.samples(), 0.0) / p.samples();
        sample += p.samples();
      }
      for (std::int64_t row = 0; row < p.length(); ++row)
        p.out.as<float>()[row * p.sets() + set] = static_cast<float>(std::inner_product(
            average.begin(), average.end(), p.matrix.as<const float>() + row * p.length(), 0.0));
    }
  });
}
#endif
