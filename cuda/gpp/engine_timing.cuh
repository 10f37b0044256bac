// The predicted time of a call, by which single_launch, two_rows and moments are chosen:
//
//   seconds = launches + aqsn and aqsm through memory + passes x cycles of a pass / hertz
//
// The constants were fitted for cold calls with gpp_operands, in which 3 % of the terms take the
// second branch. For 170 random shapes from (8, 8, 64, 1) to si214 (benchmarks/random_shapes.py,
// H200, 2026), the chosen variant is at most 3 % slower than the fastest one for 162 of them, and
// at most 9 % slower for the others.
#pragma once

#include "core/variant.hpp"
#include "gpp/passes.cuh"

namespace ado::cuda::gpp {

inline constexpr Tuned<double> kSecondsPerLaunch{.value = 9.6e-6, .device = "H200"};
// The share of the DRAM bandwidth with which aqsn and aqsm are read or written once.
inline constexpr Tuned<double> kShareOfBandwidth{.value = 0.256, .device = "H200"};
// Cycles per FP64 instruction of a lane, with bank conflicts of the registers.
inline constexpr Tuned<double> kCyclesPerInstruction{.value = 1.1, .device = "H200"};

// FP64 lanes per multiprocessor: CUDA C++ Programming Guide, arithmetic throughput.
constexpr int fp64_lanes(const Hardware& gpu) {
  if (gpu.compute == 90 || gpu.compute == 100) return 64;
  return gpu.compute == 80 ? 32 : 2;
}

// The time of a variant per pass. `instructions`: FP64, per (band, igp, ig, frequency), if half of
// the bands are occupied.
struct PassTime {
  double instructions;
  double other_cycles;  // of a multiprocessor per (band, igp, ig): loads, m, loop
  double setup;         // the constants and sums of a pair take as long as this number of bands
  // Blocks with many terms of the second branch end later, by `tail` times the time in which the
  // resident blocks process the bands of one block.
  double tail;
};

// The launches of a variant, and its division of pairs and bands among blocks.
struct TiledWork {
  int launches_per_call, launches_per_pass, operand_copies;  // copies: reads and writes of aqsn
  std::int64_t pairs, bands_of_block;                        // pairs of whole tiles
  int resident_pairs;                                        // per multiprocessor
};

// Cycles of a multiprocessor per (band, igp, ig) of a pass.
inline double cycles_of(const PassTime& time, const Hardware& gpu, int frequencies) {
  return time.other_cycles +
         frequencies * time.instructions * kCyclesPerInstruction.on(gpu) / fp64_lanes(gpu);
}

inline double seconds_of(const Gpp& p, const Hardware& gpu, const TiledWork& work,
                         const PassTime& time) {
  const auto bands = static_cast<double>(p.bands()), pairs = static_cast<double>(work.pairs);
  const auto operand_bytes = static_cast<double>(p.aqsn.bytes() + p.aqsm.bytes());
  const auto bands_of_block = static_cast<double>(std::min(work.bands_of_block, p.bands()));
  const double bands_of_multiprocessor = pairs * (bands + time.setup) / gpu.multiprocessors +
                                         time.tail * bands_of_block * work.resident_pairs;
  const auto seconds_of_passes = [&](std::int64_t passes, int frequencies) {
    return static_cast<double>(passes) *
           (work.launches_per_pass * kSecondsPerLaunch.on(gpu) +
            bands_of_multiprocessor * cycles_of(time, gpu, frequencies) / gpu.core_hertz);
  };
  return work.launches_per_call * kSecondsPerLaunch.on(gpu) +
         work.operand_copies * operand_bytes / (kShareOfBandwidth.on(gpu) * gpu.memory_bandwidth) +
         seconds_of_passes(p.frequencies() / kMaxFrequencies, kMaxFrequencies) +
         seconds_of_passes(p.frequencies() % kMaxFrequencies, 1);
}

}  // namespace ado::cuda::gpp
