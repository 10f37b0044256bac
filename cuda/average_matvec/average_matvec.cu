// Averages of vectors times a matrix on the GPU: out = matrix * mean(vectors)^T, from one block to
// the time that reading the vectors takes.
//
// Nearly all bytes are the vectors', each of which is used once: reading them bounds the time, as
// long as the product with its L / M operations a sample is hidden or quick. First more blocks
// read, then warps read side by side. Then the product reads the matrix a few times instead of once
// a set, and in the end it runs while the vectors still stream in.
//
// Times in the comments are for N = L = M = 1024 in float32 on an H200, L2 flushed, where the
// ceiling is 923 us.
#include "routines/average_matvec.hpp"

#include <algorithm>
#include <climits>
#include <cmath>

#include "average_matvec/product_tile.cuh"
#include "average_matvec/row_averages.cuh"
#include "common/cublas.cuh"
#include "common/read_ceiling.cuh"

namespace ado::cuda {
namespace {

constexpr int kMostThreads = 1024;  // of a block
constexpr Extent kRow{kMostThreads}, kSquare{32, 32};

// As many blocks as a grid can have, if they are too many: they take turns.
Extent blocks_for(std::int64_t items) {
  return {static_cast<unsigned>(items < INT_MAX ? items : INT_MAX)};
}

#ifdef __CUDACC__

template <class T>
struct Operands {
  const T *vectors, *matrix;
  T* out;
  std::int64_t sets, length, samples;

  __device__ const T* row(std::int64_t set, std::int64_t element) const {
    return vectors + (set * length + element) * samples;
  }
};

template <class T>
Operands<T> operands_of(const AverageMatvec& p) {
  return {p.vectors.as<const T>(),
          p.matrix.as<const T>(),
          p.out.as<T>(),
          p.sets(),
          p.length(),
          p.samples()};
}

// Of every step-th sample.
template <class T>
__device__ T sum_of_samples(const T* row, std::int64_t samples, int first, int step) {
  CompensatedSum<T> sum;
  for (std::int64_t sample = first; sample < samples; sample += step) sum.add(row[sample]);
  return sum.total();
}

// Column `set` of out, by a block of kMostThreads that has the average's elements a thread each (0
// where there is none): row by row a sum over the block, halved and halved again.
template <class T>
__device__ void multiply_by_sweeps(const Operands<T>& p, std::int64_t set, int element, T average,
                                   T (&product)[kMostThreads]) {
  for (std::int64_t row = 0; row < p.length; ++row) {
    __syncthreads();  // the row before has been added up
    product[element] = element < p.length ? average * p.matrix[row * p.length + element] : T(0);
    for (int half = kMostThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (element < half) product[element] += product[element + half];
    }
    if (element == 0) p.out[row * p.sets + set] = product[0];
  }
}

template <class T>
__device__ void average_and_multiply(const Operands<T>& p) {
  __shared__ T product[kMostThreads];
  const int element = threadIdx.x;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    T average = 0;
    if (element < p.length)
      average = sum_of_samples(p.row(set, element), p.samples, 0, 1) / static_cast<T>(p.samples);
    multiply_by_sweeps(p, set, element, average, product);
  }
}

// ---------------------------------------------------------------------------------------------
// One block for everything, a thread an element. Neighbours read a whole row apart.
template <class T>
__global__ void __launch_bounds__(kMostThreads) average_matvec_one_block(Operands<T> p) {
  average_and_multiply(p);
}

// ---------------------------------------------------------------------------------------------
// The sets are independent: a block each.
template <class T>
__global__ void __launch_bounds__(kMostThreads) average_matvec_block_per_set(Operands<T> p) {
  average_and_multiply(p);
}

// ---------------------------------------------------------------------------------------------
// A warp reads an element's samples side by side and adds up its lanes' sums by shuffles.

// By a block of 32 warps: the averages of a set's elements.
template <class T>
__device__ void average_by_warps(const Operands<T>& p, std::int64_t set, T* average) {
  for (int element = threadIdx.y; element < p.length; element += 32) {
    const T sum = sum_over_lanes<32>(
        sum_of_samples(p.row(set, element), p.samples, static_cast<int>(threadIdx.x), 32));
    if (threadIdx.x == 0) average[element] = sum / static_cast<T>(p.samples);
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kMostThreads) average_matvec_warp_average(Operands<T> p) {
  __shared__ T average[kMostThreads], product[kMostThreads];
  const int element = threadIdx.y * 32 + threadIdx.x;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    average_by_warps(p, set, average);
    multiply_by_sweeps(p, set, element, element < p.length ? average[element] : T(0), product);
  }
}

// ---------------------------------------------------------------------------------------------
// The sums of the product are shuffled as well: two barriers a row instead of eleven.
template <class T>
__global__ void __launch_bounds__(kMostThreads) average_matvec_warp_shuffle(Operands<T> p) {
  __shared__ T average[kMostThreads], part[32];
  const int lane = threadIdx.x, warp = threadIdx.y, element = warp * 32 + lane;
  for (std::int64_t set = blockIdx.x; set < p.sets; set += gridDim.x) {
    average_by_warps(p, set, average);
    const bool exists = element < p.length;
    const T own = exists ? average[element] : T(0);
    for (std::int64_t row = 0; row < p.length; ++row) {
      const T sum = sum_over_lanes<32>(exists ? own * p.matrix[row * p.length + element] : T(0));
      if (lane == 0) part[warp] = sum;
      __syncthreads();
      if (warp == 0) {
        const T all = sum_over_lanes<32>(part[lane]);
        if (lane == 0) p.out[row * p.sets + set] = all;
      }
      __syncthreads();  // or the next sums would overtake the first warp
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Apart from the product, averaging needs no block of its own for a set: a warp a row, anywhere.
// And the product of all sets is one of matrices, which reads the matrix a few times instead of N.
template <class T>
__global__ void __launch_bounds__(kAveragingThreads)
    average_matvec_average(Operands<T> p, T* averages) {
  const std::int64_t rows = p.sets * p.length;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kAveragingWarps; first < rows;
       first += std::int64_t{gridDim.x} * kAveragingWarps) {
    const std::int64_t row = first + threadIdx.x / 32;
    if (row >= rows) return;
    const T sum = sum_over_lanes<32>(sum_of_samples(p.vectors + row * p.samples, p.samples,
                                                    static_cast<int>(threadIdx.x % 32), 32));
    if (threadIdx.x % 32 == 0) averages[row] = sum / static_cast<T>(p.samples);
  }
}

// ---------------------------------------------------------------------------------------------
// 16 bytes a load, eight loads in flight, and as many lanes a row as its length needs
// (average_rows.cuh); then an own product. The averages take 937 us, 13 of them for their few
// stores.
template <int kLanes, class T>
__global__ void __launch_bounds__(kAveragingThreads, 4)
    average_matvec_wide_average(Rows<T> rows, T* averages) {
  __shared__ T part[kAveragingWarps];
  average_rows_of<kLanes>(rows, blockIdx.x, part,
                          [&](std::int64_t row, T average) { averages[row] = average; });
}

template <class Tile, class T>
__global__ void __launch_bounds__(kAveragingThreads, 2) average_matvec_product(Product<T> p) {
  extern __shared__ __align__(kVectorBytes) std::byte shared[];
  multiply_tile<Tile, false>(p, static_cast<int>(blockIdx.y) * Tile::kRows,
                             std::int64_t{blockIdx.x} * Tile::kSets, reinterpret_cast<T*>(shared));
}
#endif

// Of the rung with two launches.
template <class T>
using WideTile = ProductTile<T, 64, 16 * kVectorBytes / sizeof(T), 256>;

// Of the overlapped rung: small, so that few sets are late, and smaller still for the last sets,
// which all multiprocessors share.
template <class T>
using MainTile = ProductTile<T, 32, 32, 512>;
template <class T>
using LastTile = ProductTile<T, 8, 16, 512>;

// ---------------------------------------------------------------------------------------------
// One launch, in which blocks of different kinds follow one another: those that average the rows of
// a group of sets, and, a little later, those that multiply that group's tiles, while the blocks
// that average go on with the next groups. The product of the last sets comes after them all.
//
// A block waits only for blocks with lower numbers, and those have been started before it: blocks
// start in the order of their numbers, as CUB's scans rely on, too. Blocks that average are as
// short as in the rung below: with tickets instead of the blocks' order, and fences and counters
// instead of published words, averaging alone took 1122 to 1167 us.
struct Schedule {
  std::int64_t group_sets;
  unsigned groups;         // before the last sets
  unsigned group_streams;  // blocks that average the rows of a group
  unsigned group_tiles;    // blocks that multiply them
  unsigned lag;            // blocks that average between a group's last one and its product
  unsigned first_last;     // the first block of the last sets' product
  unsigned tiles_down, last_tiles_down;
  unsigned blocks;
};

constexpr std::int64_t kLeastLastSets = 16;
constexpr std::int64_t kLeastGroupStreams = 64;
constexpr std::int64_t kLag = 400;  // about as many blocks as an H200 holds

template <int kLanes, class T>
Schedule schedule_of(const AverageMatvec& p) {
  const std::int64_t rows_per_block =
      sharing_of<kLanes>(p.samples() * std::int64_t{sizeof(T)}).rows_per_block;
  const auto streams = [&](std::int64_t sets) {
    return ceil_div(sets * p.length(), rows_per_block);
  };
  using Main = MainTile<T>;
  using Last = LastTile<T>;
  // Sets of short vectors are so quickly read that a group has more than a tile of them.
  const std::int64_t across =
      ceil_div(kLeastGroupStreams, std::max<std::int64_t>(streams(Main::kSets), 1));
  const std::int64_t group_sets = across * Main::kSets;
  const std::int64_t groups =
      p.sets() > kLeastLastSets ? (p.sets() - kLeastLastSets) / group_sets : 0;
  const std::int64_t last_sets = p.sets() - groups * group_sets;
  const std::int64_t tiles_down = ceil_div(p.length(), Main::kRows);
  const std::int64_t last_tiles_down = ceil_div(p.length(), Last::kRows);
  const std::int64_t group_streams = streams(group_sets), group_tiles = across * tiles_down;
  const std::int64_t lag = std::min(kLag, streams(last_sets));
  const std::int64_t averaging = std::max(streams(p.sets()), lag + groups * group_streams);
  const std::int64_t first_last = averaging + groups * group_tiles;
  const std::int64_t blocks = first_last + last_tiles_down * ceil_div(last_sets, Last::kSets);
  const auto narrow = [](std::int64_t x) { return static_cast<unsigned>(x); };
  return {.group_sets = group_sets,
          .groups = narrow(groups),
          .group_streams = narrow(group_streams),
          .group_tiles = narrow(group_tiles),
          .lag = narrow(lag),
          .first_last = narrow(first_last),
          .tiles_down = narrow(tiles_down),
          .last_tiles_down = narrow(last_tiles_down),
          .blocks = narrow(blocks)};
}

#ifdef __CUDACC__

template <int kLanes, class T>
__global__ void __launch_bounds__(kAveragingThreads, 3)
    average_matvec_overlapped(Rows<T> rows, Product<T> p, T* averages, Schedule schedule) {
  extern __shared__ __align__(kVectorBytes) std::byte bytes[];
  T* const shared = reinterpret_cast<T*>(bytes);
  const unsigned block = blockIdx.x;
  if (block >= schedule.first_last) {
    using Tile = LastTile<T>;
    const unsigned tile = block - schedule.first_last, down = schedule.last_tiles_down;
    multiply_tile<Tile, true>(
        p, static_cast<int>(tile % down) * Tile::kRows,
        schedule.groups * schedule.group_sets + std::int64_t{tile / down} * Tile::kSets, shared);
    return;
  }
  unsigned stream = block;
  if (block >= schedule.lag) {
    const unsigned since = block - schedule.lag,
                   period = schedule.group_streams + schedule.group_tiles;
    const unsigned group = min(since / period, schedule.groups), rest = since - group * period;
    if (group < schedule.groups && rest >= schedule.group_streams) {
      using Tile = MainTile<T>;
      const unsigned tile = rest - schedule.group_streams, down = schedule.tiles_down;
      multiply_tile<Tile, true>(
          p, static_cast<int>(tile % down) * Tile::kRows,
          group * schedule.group_sets + std::int64_t{tile / down} * Tile::kSets, shared);
      return;
    }
    stream -= group * schedule.group_tiles;
  }
  average_rows_of<kLanes>(rows, stream, shared, [&](std::int64_t row, T average) {
    Published<T>::store(averages + row, average);
  });
}

// What the kernels take.
template <int kLanes, class T>
Rows<T> rows_of(const AverageMatvec& p) {
  return {p.vectors.as<const T>(), p.sets() * p.length(), p.samples(),
          sharing_of<kLanes>(p.samples() * std::int64_t{sizeof(T)})};
}

template <class T>
Product<T> product_of(const AverageMatvec& p, const T* averages) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(p.matrix.data) % kVectorBytes == 0 &&
                       p.length() * std::int64_t{sizeof(T)} % kVectorBytes == 0;
  return {p.matrix.as<const T>(),       averages, p.out.as<T>(), p.sets(),
          static_cast<int>(p.length()), aligned};
}

template <class T>
T* scratch_of(const Launch& go) {
  return reinterpret_cast<T*>(go.scratch);
}

#endif

// Calls `visit` with a zero of the elements' type and with what with_lanes gives.
template <class Visit>
auto with_kernel(const AverageMatvec& p, Visit visit) {
  return with_real(p.vectors.type, [&](auto zero) {
    return with_lanes(p.samples() * std::int64_t{sizeof zero},
                      [&](auto lanes) { return visit(zero, lanes); });
  });
}

// In two launches: the averages, then tiles of the product.
Extent averaging_grid(const AverageMatvec& p) {
  return with_kernel(p, [&](auto zero, auto lanes) {
    const auto sharing = sharing_of<lanes>(p.samples() * std::int64_t{sizeof zero});
    return Extent{static_cast<unsigned>(ceil_div(p.sets() * p.length(), sharing.rows_per_block))};
  });
}

#ifdef __CUDACC__
void run_two_launches(const AverageMatvec& p, const Launch& go) {
  with_kernel(p, [&]<class T>(T, auto lanes) {
    using Tile = WideTile<T>;
    T* const averages = scratch_of<T>(go);
    launch(go, average_matvec_wide_average<lanes, T>, rows_of<lanes, T>(p), averages);
    Launch product = go;
    product.grid = {static_cast<unsigned>(ceil_div(p.sets(), Tile::kSets)),
                    static_cast<unsigned>(ceil_div(p.length(), Tile::kRows))};
    product.shared_bytes = Tile::kSharedBytes;
    launch(product, average_matvec_product<Tile, T>, product_of<T>(p, averages));
  });
}
#endif

// Whether the stream is long enough to hide the product. Where not, two launches are 1.07 to 1.35
// times as fast (L = 1024, M = 64; L = M = 64; L = 4096, M = 16; L = 256, M = 1).
bool product_hides(const AverageMatvec& p) {
  constexpr std::int64_t kFewestSamples = 256, kMostElementsPerSample = 8;
  return p.samples() >= kFewestSamples && p.length() <= kMostElementsPerSample * p.samples();
}

// --- What rungs ask for, and what it costs ------------------------------------------------------

const char* why_not_long(const AverageMatvec& p) {
  return p.length() > kMostThreads ? "a vector has more than 1024 elements, and a block no more "
                                     "threads"
                                   : nullptr;
}

const char* why_not_library(const AverageMatvec& p) {
  if (p.sets() > INT_MAX || p.length() > INT_MAX)
    return "a length is beyond what cuBLAS counts in 32 bits";
  return cublas::why_missing();
}

Extent one_block(const AverageMatvec&, Extent) { return {1}; }
Extent block_per_set(const AverageMatvec& p, Extent) { return blocks_for(p.sets()); }

std::size_t bytes_of_averages(const AverageMatvec& p) {
  return static_cast<std::size_t>(p.sets() * p.length() * p.vectors.type.size);
}

// As the problem has them, to count with.
struct Counts {
  double sets, length, samples, size;
  explicit Counts(const AverageMatvec& p)
      : sets(static_cast<double>(p.sets())),
        length(static_cast<double>(p.length())),
        samples(static_cast<double>(p.samples())),
        size(p.vectors.type.size) {}
  double rows() const { return sets * length; }
};

constexpr double kFlopsOfAdd = CompensatedSum<double>::kFlopsOfAdd;
constexpr double kFlopsOfShuffles = 32 * 5;          // of a sum over a warp
constexpr double kFlopsOfSweeps = kMostThreads - 1;  // of a sum over a block

// The averages, each sample added on its own by `lanes` lanes a row.
double flops_of_averages(const Counts& n, double lanes) {
  const double reduction = lanes > 1 ? kFlopsOfShuffles : 0;
  return n.rows() * (kFlopsOfAdd * n.samples + lanes + reduction + 1);
}

template <int kLanes>
double flops_by_sweeps(const AverageMatvec& p) {
  const Counts n(p);
  return flops_of_averages(n, kLanes) + n.rows() * (n.length + kFlopsOfSweeps);
}

// Those by trees over what a lane has in flight.
double flops_of_wide_averages(const Counts& n) {
  const double flight = kVectorsPerThread * kVectorBytes / n.size;
  return n.rows() * n.samples * (1 + kFlopsOfAdd / flight);
}

double flops_of_product(const Counts& n) { return 2 * n.rows() * n.length; }

double flops_of_wide_loads(const AverageMatvec& p) {
  const Counts n(p);
  return flops_of_wide_averages(n) + flops_of_product(n);
}

// The vectors once, and the matrix for every set.
double bytes_by_sets(const AverageMatvec& p) {
  const Counts n(p);
  return n.size * n.rows() * (n.samples + n.length + 1);
}

// The vectors once, the averages written, and then tiles of the product.
template <template <class> class Tile>
double bytes_by_tiles(const AverageMatvec& p) {
  const Counts n(p);
  return with_real(p.vectors.type, [&]<class T>(T) {
    const double averages_read = std::ceil(n.length / Tile<T>::kRows) * n.rows();
    const double matrix_read = std::ceil(n.sets / Tile<T>::kSets) * n.length * n.length;
    return n.size * (n.rows() * (n.samples + 2) + averages_read + matrix_read);
  });
}

constexpr Variant<AverageMatvec> kVariants[] = {
    read_row<AverageMatvec, &AverageMatvec::vectors>("Reads the vectors once, and does nothing."),
    {.name = "one_block",
     .changes = "One block with a thread an element, for one set after another.",
     .device = Device::kCuda,
     .why_not = why_not_long,
     .blocks = {{kRow}},
     .grid = one_block,
     .flops = flops_by_sweeps<1>,
     .bytes = bytes_by_sets,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type,
                 [&]<class T>(T) { launch(go, average_matvec_one_block<T>, operands_of<T>(p)); });
     })},
    {.name = "block_per_set",
     .changes = "A block for each set.",
     .device = Device::kCuda,
     .why_not = why_not_long,
     .blocks = {{kRow}},
     .grid = block_per_set,
     .flops = flops_by_sweeps<1>,
     .bytes = bytes_by_sets,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type, [&]<class T>(T) {
         launch(go, average_matvec_block_per_set<T>, operands_of<T>(p));
       });
     })},
    {.name = "warp_average",
     .changes = "A warp averages an element, its lanes side by side.",
     .device = Device::kCuda,
     .why_not = why_not_long,
     .blocks = {{kSquare}},
     .grid = block_per_set,
     .flops = flops_by_sweeps<32>,
     .bytes = bytes_by_sets,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type, [&]<class T>(T) {
         launch(go, average_matvec_warp_average<T>, operands_of<T>(p));
       });
     })},
    {.name = "warp_shuffle",
     .changes = "Adds up the product's rows by shuffles in two stages instead of sweeps.",
     .device = Device::kCuda,
     .why_not = why_not_long,
     .blocks = {{kSquare}},
     .grid = block_per_set,
     .flops =
         [](const AverageMatvec& p) {
           const Counts n(p);
           return flops_of_averages(n, 32) + n.rows() * (n.length + 33 * kFlopsOfShuffles);
         },
     .bytes = bytes_by_sets,
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type, [&]<class T>(T) {
         launch(go, average_matvec_warp_shuffle<T>, operands_of<T>(p));
       });
     })},
    {.name = "average_then_gemm",
     .changes = "Averages all sets first and leaves the product to cuBLAS.",
     .device = Device::kCuda,
     .why_not = why_not_library,
     .blocks = {{{kAveragingThreads}}},
     .grid = [](const AverageMatvec& p,
                Extent) { return blocks_for(ceil_div(p.sets() * p.length(), kAveragingWarps)); },
     .scratch_bytes = bytes_of_averages,
     .flops =
         [](const AverageMatvec& p) {
           const Counts n(p);
           return flops_of_averages(n, 32) + flops_of_product(n);
         },
     .bytes =
         [](const AverageMatvec& p) {
           const Counts n(p);  // the product as if it read its operands once
           return n.size * (n.rows() * (n.samples + 3) + n.length * n.length);
         },
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       with_real(p.vectors.type, [&]<class T>(T) {
         T* const averages = scratch_of<T>(go);
         launch(go, average_matvec_average<T>, operands_of<T>(p), averages);
         cublas::gemm(go, cublas::Product<T>{.left = p.matrix.as<const T>(),
                                             .right_transposed = averages,
                                             .out = p.out.as<T>(),
                                             .rows = p.length(),
                                             .cols = p.sets(),
                                             .depth = p.length()});
       });
     })},
    {.name = "wide_average",
     .changes = "Loads 16 bytes at a time, eight in flight a lane, and needs no library.",
     .device = Device::kCuda,
     .blocks = {{{kAveragingThreads}}},
     .grid = [](const AverageMatvec& p, Extent) { return averaging_grid(p); },
     .scratch_bytes = bytes_of_averages,
     .flops = flops_of_wide_loads,
     .bytes = bytes_by_tiles<WideTile>,
     .run = ADO_RUN(run_two_launches)},
    {.name = "overlapped",
     .changes = "Multiplies what has been averaged while the next sets still stream in, if the "
                "product is short enough.",
     .device = Device::kCuda,
     .blocks = {{{kAveragingThreads}}},
     .grid =
         [](const AverageMatvec& p, Extent) {
           if (!product_hides(p)) return averaging_grid(p);
           return with_kernel(
               p, [&]<class T>(T, auto lanes) { return Extent{schedule_of<lanes, T>(p).blocks}; });
         },
     .shared_bytes =
         [](const AverageMatvec& p, Extent) {
           if (!product_hides(p)) return std::size_t{0};
           return with_real(p.vectors.type, []<class T>(T) {
             return std::max(MainTile<T>::kSharedBytes, LastTile<T>::kSharedBytes);
           });
         },
     .scratch_bytes = bytes_of_averages,
     .flops = flops_of_wide_loads,
     .bytes =
         [](const AverageMatvec& p) {
           if (!product_hides(p)) return bytes_by_tiles<WideTile>(p);
           return bytes_by_tiles<MainTile>(p) + static_cast<double>(bytes_of_averages(p));
         },
     .run = ADO_RUN([](const AverageMatvec& p, const Launch& go) {
       if (!product_hides(p)) return run_two_launches(p, go);
       with_kernel(p, [&]<class T>(T, auto lanes) {
         T* const averages = scratch_of<T>(go);
         clear(go, averages, bytes_of_averages(p));
         launch(go, average_matvec_overlapped<lanes, T>, rows_of<lanes, T>(p),
                product_of<T>(p, averages), averages, schedule_of<lanes, T>(p));
       });
     })},
};

}  // namespace

Ladder<AverageMatvec> average_matvec_ladder() { return ladder_of(kVariants); }

}  // namespace ado::cuda
