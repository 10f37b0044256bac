// Max plus, engine: variants for any alignment and for few points, and the choice among all
// variants. The default is the last variant that can solve the problem and has no reason below.
#include "common/ladder.cuh"
#include "max_plus/engine/split_terms.cuh"

namespace ado::cuda {

Ladder<MaxPlus> max_plus_steps();

namespace {

// Without a split, each thread would process its own columns, as in `vectorised`.
const char* why_split_slower(const MaxPlus& p, const Hardware& gpu) {
  constexpr std::int64_t kMinTerms = 4;
  if (p.terms() < kMinTerms) return "there are too few terms to split";
  const TermSplit split = term_split_of(p, gpu);
  if (split.blocks_y > 1 || split.lanes < kColumnThreads) return nullptr;
  return split.blocks_x >= busy_blocks(gpu)
             ? "every multiprocessor already has enough blocks without splitting the terms"
             : "there are too few terms to split";
}

const char* why_one_barrier_slower(const MaxPlus& p, const Hardware& gpu) {
  constexpr double kBytesPerMultiprocessor = 127101;  // H100: 16 MiB
  const std::int64_t points = p.points(), resident = resident_blocks(gpu);
  if (points > kOneBarrierThreads * resident)
    return "with this many points, the device is busy without splitting the terms";
  // If the points alone occupy half of the device, the terms are split over few blocks, so merging
  // is cheap. In short unaligned rows, split_terms loads single elements as well.
  const bool half_busy = 2 * points >= kWarpSize * resident;
  const bool narrow = points <= 2 * kWarpSize && !rows_aligned(p);
  if (half_busy || narrow ||
      static_cast<double>(p.big.bytes()) <= kBytesPerMultiprocessor * gpu.multiprocessors)
    return nullptr;
  return "with this many elements, wider loads save more time than merging takes";
}

constexpr Choice<MaxPlus> kChoices[] = {{"split_terms", why_split_slower},
                                        {"one_barrier", why_one_barrier_slower}};

constexpr Variant<MaxPlus> kEngine[] = {kVectorised, kSplitTerms, kOneBarrier};

}  // namespace

Ladder<MaxPlus> max_plus_ladder() {
  static const auto ladder = with_engine(max_plus_steps(), kEngine, kChoices);
  return {ladder.data(), ladder.size()};
}

}  // namespace ado::cuda
