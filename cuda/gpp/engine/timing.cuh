// Predicts the time of a call, to choose among single_launch, two_rows and moments. The prediction
// excludes the costs of all three: the first launch of each pass, and reading the operands once.
//
//   seconds = further launches + copies of aqsn and aqsm + passes x cycles of a pass / hertz
//
// The constants were fitted for cold calls with gpp_operands, in which 3 % of the terms take the
// second branch. For 217 random shapes from (8, 8, 64, 1) to 2e9 terms
// (benchmarks/random_shapes.py, H100, 2026), the chosen variant is at most 3 % slower than the
// fastest one, tiled included, for 210 of them, and at most 9 % slower for the others. With
// constants fitted to a random half of the shapes, it is at most 3 % slower for 97 % of the other
// half, and at most 13 % slower for the others.
#pragma once

#include "core/variant.hpp"
#include "gpp/passes.cuh"

namespace ado::cuda::gpp {

inline constexpr double kSecondsPerLaunch = 4.9e-6;
// The share of the DRAM bandwidth with which the sorted copies of aqsn and aqsm are accessed.
inline constexpr double kShareOfBandwidth = 0.75;
// Cycles per FP64 instruction of a lane, with bank conflicts of the registers.
inline constexpr double kCyclesPerInstruction = 1.05;
// Computing the constants and sums of a pair takes as long as this number of bands, per kernel and
// segment.
inline constexpr double kBandsOfSetup = 12;
// Blocks with many terms of the second branch end later than others, by this share of the time in
// which the resident blocks process the bands of one block.
inline constexpr double kTail = 0.55;

// FP64 lanes per multiprocessor: CUDA C++ Programming Guide, arithmetic throughput.
constexpr int fp64_lanes(const Hardware& gpu) {
  if (gpu.compute == 90 || gpu.compute == 100) return 64;
  return gpu.compute == 80 ? 32 : 2;
}

// The time of a variant per (band, igp, ig) of a pass.
struct PassTime {
  double instructions;  // FP64, per frequency, if half of the bands are occupied: costs.cuh
  double other_cycles;  // of a multiprocessor: loads, m, loop
};

// The launches of a variant, and its division of pairs and bands among blocks.
struct TiledWork {
  int launches_per_call, operand_copies;  // copies: sequential accesses to sorted aqsn and aqsm
  int launches_per_pass;                  // after the first
  int kernels;                            // over bands, per pass
  std::int64_t bands, pairs;              // with padding
  std::int64_t segments, segment_length;
  int resident_pairs;  // per multiprocessor
};

// Cycles of a multiprocessor per (band, igp, ig) of a pass.
inline double cycles_of(const PassTime& time, const Hardware& gpu, int frequencies) {
  return time.other_cycles +
         frequencies * time.instructions * kCyclesPerInstruction / fp64_lanes(gpu);
}

inline double seconds_of(const Gpp& p, const Hardware& gpu, const TiledWork& work,
                         const PassTime& time) {
  const auto operand_bytes = static_cast<double>(p.aqsn.bytes() + p.aqsm.bytes());
  const double bands = static_cast<double>(work.bands) +
                       kBandsOfSetup * work.kernels * static_cast<double>(work.segments);
  const auto bands_of_block = static_cast<double>(std::min(work.segment_length, p.bands()));
  const double bands_of_multiprocessor =
      static_cast<double>(work.pairs) * bands / gpu.multiprocessors +
      kTail * bands_of_block * work.resident_pairs;
  const auto seconds_of_passes = [&](std::int64_t passes, int frequencies) {
    return static_cast<double>(passes) *
           (work.launches_per_pass * kSecondsPerLaunch +
            bands_of_multiprocessor * cycles_of(time, gpu, frequencies) / gpu.core_hertz);
  };
  return work.launches_per_call * kSecondsPerLaunch +
         work.operand_copies * operand_bytes / (kShareOfBandwidth * gpu.memory_bandwidth) +
         seconds_of_passes(p.frequencies() / kMaxFrequencies, kMaxFrequencies) +
         seconds_of_passes(p.frequencies() % kMaxFrequencies, 1);
}

}  // namespace ado::cuda::gpp
