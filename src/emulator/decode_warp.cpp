// Decodes barriers and exchanges between the lanes of a warp or the blocks of a cluster.

#include "emulator/decoder.hpp"

namespace ado::emulator {

void Decoder::barrier(const Words& w) {
  const auto& o = s_->operands;
  if (contains(w, "warp"))
    return emit(Op::kWarpBarrier, {.aux = extra({kNone, value(o.at(0), 4)})});
  if (contains(w, "cluster"))
    return emit(contains(w, "arrive") ? Op::kClusterArrive : Op::kClusterWait);
  std::size_t i = 0;
  Inst inst;
  inst.mode = static_cast<u8>(contains(w, "arrive") ? BarrierMode::kArrive : BarrierMode::kSync);
  if (contains(w, "red")) {
    inst.mode = static_cast<u8>(contains(w, "popc")  ? BarrierMode::kPopulation
                                : contains(w, "and") ? BarrierMode::kAnd
                                                     : BarrierMode::kOr);
    inst.bytes = contains(w, "popc") ? 4 : 1;
    inst.d = result(o.at(i++), inst.bytes);
    inst.c = value(o.at(o.size() - 1), 1);
  }
  inst.a = value(o.at(i++), 4);
  if (i + (inst.c != kNone ? 1 : 0) < o.size()) inst.b = value(o[i], 4);
  emit(Op::kBarrier, inst);
}

void Decoder::shuffle(const Words& w) {
  const auto& o = s_->operands;
  if (!contains(w, "sync")) unknown();
  const bool pair = o.at(0).kind == Kind::kVector;
  const u32 d = result(pair ? o[0].parts[0] : o[0], 4),
            predicate = pair ? result(o[0].parts[1], 1) : kNone;
  const u32 e = extra(
      {predicate, value(o.at(4), 4), value(o.at(1), 4), value(o.at(2), 4), value(o.at(3), 4)});
  const auto kind = contains(w, "up")     ? ShuffleMode::kUp
                    : contains(w, "down") ? ShuffleMode::kDown
                    : contains(w, "bfly") ? ShuffleMode::kButterfly
                                          : ShuffleMode::kIndex;
  emit(Op::kShuffle, {.d = d, .aux = e, .bytes = 4, .mode = static_cast<u8>(kind)});
}

void Decoder::vote(const Words& w) {
  const auto& o = s_->operands;
  if (!contains(w, "sync")) unknown();
  const bool ballot = contains(w, "ballot");
  const u32 d = result(o.at(0), ballot ? 4 : 1);
  const u32 e = extra({kNone, value(o.at(2), 4), value(o.at(1), 1)});
  const auto kind = ballot               ? VoteMode::kBallot
                    : contains(w, "all") ? VoteMode::kAll
                    : contains(w, "any") ? VoteMode::kAny
                                         : VoteMode::kUniform;
  emit(Op::kVote,
       {.d = d, .aux = e, .bytes = static_cast<u8>(ballot ? 4 : 1), .mode = static_cast<u8>(kind)});
}

void Decoder::match(const Words& w) {
  const auto& o = s_->operands;
  const int bytes = size_of_type(w.back());
  const bool pair = o.at(0).kind == Kind::kVector, all = contains(w, "all");
  if (bytes != 4 && bytes != 8) unknown();
  const u32 d = result(pair ? o[0].parts[0] : o[0], 4);
  const u32 e =
      extra({pair ? result(o[0].parts[1], 1) : kNone, value(o.at(2), 4), value(o.at(1), bytes)});
  const auto kind = (all ? 1 : 0) | (bytes == 8 ? 2 : 0);
  emit(Op::kMatch, {.d = d, .aux = e, .bytes = 4, .mode = static_cast<u8>(kind)});
}

void Decoder::warp_reduce(const Words& w) {
  const auto& o = s_->operands;
  const auto mode = kAtomicOps.find(w.at(2));
  if (mode == kAtomicOps.end() || mode->second > AtomicOp::kXor || is_float_type(w.back()))
    unknown();
  const u32 d = result(o.at(0), 4);
  const u32 e = extra({kNone, value(o.at(2), 4), value(o.at(1), 4)});
  const auto kind = static_cast<int>(mode->second) | (is_signed_type(w.back()) ? 16 : 0);
  emit(Op::kWarpReduce, {.d = d, .aux = e, .bytes = 4, .mode = static_cast<u8>(kind)});
}

void Decoder::map_rank(const Words& w) {
  const auto& o = s_->operands;
  const int bytes = size_of_type(w.back());
  const bool shared = space_of(w) == Space::kShared;
  if (bytes != (shared ? 4 : 8)) unknown();
  const u32 d = result(o.at(0), bytes), a = value(o.at(1), bytes), b = value(o.at(2), 4);
  emit(Op::kMapRank, {.d = d, .a = a, .b = b, .bytes = static_cast<u8>(bytes)});
}

}  // namespace ado::emulator
