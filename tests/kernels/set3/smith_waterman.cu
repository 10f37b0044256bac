// Scores of local alignments of a query with many sequences, one or two per thread, in the order of
// CUDASW++ (Liu, Maskell and Schmidt 2009 and 2010) and CUDASW++4.0 (Schmidt et al. 2024).
// Letter j of sequence s is letters[j * count + s].
#include <cuda_fp16.h>

constexpr int kLetters = 24, kMost = 128, kMostSequences = 65536, kOpen = 10, kExtend = 2;
constexpr int kRows = 8, kThreads = 128;

// Scores and gaps, per row or per column, of all sequences.
__device__ alignas(8) short2 kept[kMost * kMostSequences];

// The values of a sequence are contiguous or, if kInterleaved, the values of a row.
template <bool kInterleaved>
__device__ short2& place(int i, int sequence, int count) {
  return kInterleaved ? kept[i * count + sequence] : kept[sequence * kMost + i];
}

// Iterates over the letters of a sequence, and updates a whole column of the table per letter.
template <bool kInterleaved>
__device__ void align(const unsigned char* query, const unsigned char* letters, const int* scores,
                      int* best, int rows, int cols, int count) {
  const int s = blockIdx.x * kThreads + threadIdx.x;
  if (s >= count) return;
  for (int i = 0; i < rows; ++i) place<kInterleaved>(i, s, count) = short2{0, 0};
  int most = 0;
  for (int j = 0; j < cols; ++j) {
    const int letter = letters[j * count + s];
    int diagonal = 0, above = 0, gap = 0;
    for (int i = 0; i < rows; ++i) {
      short2& here = place<kInterleaved>(i, s, count);
      const short2 left = here;
      const int along = max(left.y - kExtend, left.x - kOpen);
      gap = max(gap - kExtend, above - kOpen);
      above = max(max(diagonal + scores[query[i] * kLetters + letter], 0), max(along, gap));
      diagonal = left.x;
      most = max(most, above);
      here = short2{static_cast<short>(above), static_cast<short>(along)};
    }
  }
  best[s] = most;
}

__global__ void smith_waterman_contiguous(const unsigned char* query, const unsigned char* letters,
                                          const int* scores, int* best, int rows, int cols,
                                          int count) {
  align<false>(query, letters, scores, best, rows, cols, count);
}

__global__ void smith_waterman_interleaved(const unsigned char* query, const unsigned char* letters,
                                           const int* scores, int* best, int rows, int cols,
                                           int count) {
  align<true>(query, letters, scores, best, rows, cols, count);
}

struct SharedScores {
  int scores[kLetters * kLetters];
  unsigned char query[kMost];

  __device__ void load(const int* all, const unsigned char* whole_query, int rows) {
    for (int i = threadIdx.x; i < kLetters * kLetters; i += kThreads) scores[i] = all[i];
    for (int i = threadIdx.x; i < rows; i += kThreads) query[i] = whole_query[i];
    __syncthreads();
  }

  __device__ void look_up(int (&found)[kRows], int first, int letter) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) found[r] = scores[query[first + r] * kLetters + letter];
  }
};

__global__ void smith_waterman_shared(const unsigned char* query, const unsigned char* letters,
                                      const int* scores, int* best, int rows, int cols, int count) {
  __shared__ SharedScores shared;
  shared.load(scores, query, rows);
  align<true>(shared.query, letters, shared.scores, best, rows, cols, count);
}

// The arithmetic of one cell per register.
struct Plain {
  using Value = int;
  using Border = short2;
  static __device__ int larger(int a, int b) { return max(a, b); }
  static __device__ int gap(int gap, int score) { return max(gap - kExtend, score - kOpen); }
  static __device__ int score(int diagonal, int added, int along, int down) {
    return max(max(diagonal + added, 0), max(along, down));
  }
};

// Two cells per register. Their scores are below 2048, so float16 is exact.
struct Packed {
  using Value = __half2;
  struct alignas(8) Border {
    __half2 x, y;
  };
  static __device__ __half2 larger(__half2 a, __half2 b) { return __hmax2(a, b); }
  static __device__ __half2 gap(__half2 gap, __half2 score) {
    return __hmax2(__hadd2(gap, __float2half2_rn(-kExtend)),
                   __hadd2(score, __float2half2_rn(-kOpen)));
  }
  static __device__ __half2 score(__half2 diagonal, __half2 added, __half2 along, __half2 down) {
    return __hmax2(__hmax2(__hadd2(diagonal, added), __float2half2_rn(0)), __hmax2(along, down));
  }
};

// Iterates over a sequence once per eight rows, with the values of the rows in registers. Only the
// last of the eight rows is stored in global memory. look_up(found, first, j) finds the scores of
// letter j.
template <class Arithmetic, class LookUp>
__device__ typename Arithmetic::Value align_tiles(int rows, int cols, int threads,
                                                  const LookUp& look_up) {
  using Value = typename Arithmetic::Value;
  using Border = typename Arithmetic::Border;
  Border* borders = reinterpret_cast<Border*>(kept) + blockIdx.x * kThreads + threadIdx.x;
  Value most = {};
  for (int first = 0; first < rows; first += kRows) {
    Value left[kRows] = {}, along[kRows] = {}, corner = {};
    for (int j = 0; j < cols; ++j) {
      const Border top = first ? borders[j * threads] : Border{};
      Value added[kRows], diagonal = corner, above = top.x, gap = top.y;
      look_up(added, first, j);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        along[r] = Arithmetic::gap(along[r], left[r]);
        gap = Arithmetic::gap(gap, above);
        above = Arithmetic::score(diagonal, added[r], along[r], gap);
        diagonal = left[r];
        left[r] = above;
        most = Arithmetic::larger(most, above);
      }
      corner = top.x;
      borders[j * threads].x = above;
      borders[j * threads].y = gap;
    }
  }
  return most;
}

template <class Arithmetic, class Scores>
__device__ void align_one(const Scores& shared, const unsigned char* letters, int* best, int rows,
                          int cols, int count) {
  const int s = blockIdx.x * kThreads + threadIdx.x;
  if (s >= count) return;
  best[s] = align_tiles<Arithmetic>(rows, cols, count, [&](int(&found)[kRows], int first, int j) {
    shared.look_up(found, first, letters[j * count + s]);
  });
}

__global__ void smith_waterman_tiles(const unsigned char* query, const unsigned char* letters,
                                     const int* scores, int* best, int rows, int cols, int count) {
  __shared__ SharedScores shared;
  shared.load(scores, query, rows);
  align_one<Plain>(shared, letters, best, rows, cols, count);
}

// The profile of the query: one vector per letter and eight rows, with the scores of the rows.
template <class Vector, class Element>
struct Profile {
  Vector vectors[kMost / kRows * kLetters];

  __device__ void load(const int* scores, const unsigned char* query, int rows) {
    Element* elements = reinterpret_cast<Element*>(vectors);
    for (int i = threadIdx.x; i < rows * kLetters; i += kThreads) {
      const int letter = i / kRows % kLetters, row = i / (kRows * kLetters) * kRows + i % kRows;
      elements[i] = static_cast<Element>(scores[query[row] * kLetters + letter]);
    }
    __syncthreads();
  }

  __device__ Vector at(int first, int letter) const {
    return vectors[first / kRows * kLetters + letter];
  }
};

struct ByteProfile : Profile<int2, signed char> {
  __device__ void look_up(int (&found)[kRows], int first, int letter) const {
    const int2 bytes = at(first, letter);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      found[r] = static_cast<signed char>((r < 4 ? bytes.x : bytes.y) >> r % 4 * 8);
  }
};

__global__ void smith_waterman_profile(const unsigned char* query, const unsigned char* letters,
                                       const int* scores, int* best, int rows, int cols,
                                       int count) {
  __shared__ ByteProfile profile;
  profile.load(scores, query, rows);
  align_one<Plain>(profile, letters, best, rows, cols, count);
}

struct alignas(16) HalfRows {
  __half2 pairs[kRows / 2];
};

// Two sequences per thread, in the halves of each register. The last thread may have only one.
__global__ void smith_waterman_packed(const unsigned char* query, const unsigned char* letters,
                                      const int* scores, int* best, int rows, int cols, int count) {
  __shared__ Profile<HalfRows, __half> profile;
  profile.load(scores, query, rows);
  const int s = blockIdx.x * kThreads + threadIdx.x, threads = (count + 1) / 2;
  if (s >= threads) return;
  const bool is_pair = s + threads < count;
  const int other = is_pair ? s + threads : s;
  const auto look_up = [&](__half2(&found)[kRows], int first, int j) {
    const HalfRows of_one = profile.at(first, letters[j * count + s]),
                   of_other = profile.at(first, letters[j * count + other]);
#pragma unroll
    for (int r = 0; r < kRows; r += 2) {
      found[r] = __lows2half2(of_one.pairs[r / 2], of_other.pairs[r / 2]);
      found[r + 1] = __highs2half2(of_one.pairs[r / 2], of_other.pairs[r / 2]);
    }
  };
  const __half2 most = align_tiles<Packed>(rows, cols, threads, look_up);
  best[s] = __half2int_rn(__low2half(most));
  if (is_pair) best[other] = __half2int_rn(__high2half(most));
}
