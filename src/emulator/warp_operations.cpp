// Instructions that exchange values between the lanes of a warp, and calls of the host: printf,
// assert, clocks.
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

const std::uint32_t* words(const Warp& warp, std::uint32_t r) {
  return reinterpret_cast<const std::uint32_t*>(warp.at(r));
}

// The lanes that an instruction names must be those that execute it.
bool check_members(Worker& worker, const Warp& warp, int line, const std::uint32_t* members,
                   std::uint32_t mask, const char* what) {
  if (!worker.launch.options.synccheck) return true;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const std::uint32_t named = members[lane];
    if (!((named >> lane) & 1))
      return report(worker, warp, line, lane, "invalid mask",
                    std::string(what) + ": the mask does not contain the calling thread");
    if (const std::uint32_t missing = named & warp.alive & ~mask; missing != 0)
      return report(worker, warp, line, std::countr_zero(missing), "missing thread",
                    std::string(what) +
                        ": the mask names this thread, which does not execute the instruction with "
                        "the others");
  }
  return true;
}

// Stores a result for the lanes of `mask`.
void set_words(Worker& worker, Warp& warp, std::uint32_t d, const std::uint32_t* values,
               std::uint32_t mask) {
  worker.launch.functions.blend(warp.at(d), values, mask, 4);
}
void set_predicate(Warp& warp, std::uint32_t d, std::uint32_t value, std::uint32_t mask) {
  auto& predicate = *reinterpret_cast<std::uint32_t*>(warp.at(d));
  predicate = (predicate & ~mask) | (value & mask);
}

bool shuffle(Worker& worker, Warp& warp, const Inst& inst, int line, std::uint32_t mask) {
  const Extra& e = worker.program.extras[inst.aux];
  const std::uint32_t *value = words(warp, e[1]), *lane_or_mask = words(warp, e[2]),
                      *clamp = words(warp, e[3]);
  if (!check_members(worker, warp, line, words(warp, e[4]), mask, "shfl.sync")) return false;
  const auto mode = static_cast<ShuffleMode>(inst.mode);
  alignas(64) std::uint32_t out[kLanes];
  std::uint32_t valid = 0, missing = 0;
  for (int i = 0; i < kLanes; ++i) {
    const int b = static_cast<int>(lane_or_mask[i] & 31),
              segment = static_cast<int>((clamp[i] >> 8) & 31),
              limit = static_cast<int>(clamp[i] & 31);
    const int most = (i & segment) | (limit & ~segment), least = i & segment;
    int from = mode == ShuffleMode::kUp          ? i - b
               : mode == ShuffleMode::kDown      ? i + b
               : mode == ShuffleMode::kButterfly ? i ^ b
                                                 : least | (b & ~segment);
    const bool in_range = mode == ShuffleMode::kUp ? from >= most : from <= most;
    if (!in_range) from = i;
    out[i] = value[from & 31];
    valid |= static_cast<std::uint32_t>(in_range) << i;
    missing |= static_cast<std::uint32_t>(!((mask >> (from & 31)) & 1)) << i;
  }
  if (worker.launch.options.synccheck && (missing & mask) != 0)
    return report(worker, warp, line, std::countr_zero(missing & mask), "missing thread",
                  "shfl.sync reads from a lane that does not execute it");
  set_words(worker, warp, inst.d, out, mask);
  if (e[0] != kNone) set_predicate(warp, e[0], valid, mask);
  return true;
}

bool vote(Worker& worker, Warp& warp, const Inst& inst, int line, std::uint32_t mask) {
  const Extra& e = worker.program.extras[inst.aux];
  const std::uint32_t* members = words(warp, e[2]);
  if (!check_members(worker, warp, line, members, mask, "vote.sync")) return false;
  const std::uint32_t predicate = warp.predicate(e[1]);
  std::uint32_t out[kLanes] = {}, bits = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const std::uint32_t group = members[lane] & mask, yes = predicate & group;
    out[lane] = yes;
    const bool all = yes == group, any = yes != 0;
    const auto mode = static_cast<VoteMode>(inst.mode);
    const bool result = mode == VoteMode::kAll ? all : mode == VoteMode::kAny ? any : all || !any;
    bits |= static_cast<std::uint32_t>(result) << lane;
  }
  if (static_cast<VoteMode>(inst.mode) == VoteMode::kBallot)
    set_words(worker, warp, inst.d, out, mask);
  else
    set_predicate(warp, inst.d, bits, mask);
  return true;
}

bool match(Worker& worker, Warp& warp, const Inst& inst, int line, std::uint32_t mask) {
  const Extra& e = worker.program.extras[inst.aux];
  const std::uint32_t* members = words(warp, e[2]);
  if (!check_members(worker, warp, line, members, mask, "match.sync")) return false;
  const int bytes = inst.mode & 2 ? 8 : 4;
  const std::uint8_t* values = warp.at(e[1]);
  std::uint32_t out[kLanes] = {}, all_equal = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const std::uint32_t group = members[lane] & mask;
    std::uint32_t same = 0;
    for (std::uint32_t others = group; others != 0; others &= others - 1) {
      const int other = std::countr_zero(others);
      if (std::memcmp(values + lane * bytes, values + other * bytes,
                      static_cast<std::size_t>(bytes)) == 0)
        same |= 1u << other;
    }
    const bool all = same == group;
    all_equal |= static_cast<std::uint32_t>(all) << lane;
    out[lane] = inst.mode & 1 ? (all ? group : 0) : same;
  }
  set_words(worker, warp, inst.d, out, mask);
  if (e[0] != kNone) set_predicate(warp, e[0], all_equal, mask);
  return true;
}

bool reduce(Worker& worker, Warp& warp, const Inst& inst, int line, std::uint32_t mask) {
  const Extra& e = worker.program.extras[inst.aux];
  const std::uint32_t *values = words(warp, e[1]), *members = words(warp, e[2]);
  if (!check_members(worker, warp, line, members, mask, "redux.sync")) return false;
  const bool is_signed = inst.mode & 16;
  std::uint32_t out[kLanes] = {};
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const std::uint32_t group = members[lane] & mask;
    std::uint32_t sum = values[std::countr_zero(group)];
    for (std::uint32_t others = group & (group - 1); others != 0; others &= others - 1) {
      const std::uint32_t x = values[std::countr_zero(others)];
      const bool less =
          is_signed ? static_cast<std::int32_t>(x) < static_cast<std::int32_t>(sum) : x < sum;
      switch (static_cast<ReduceMode>(inst.mode & 15)) {
        case ReduceMode::kAdd:
          sum += x;
          break;
        case ReduceMode::kMin:
          sum = less ? x : sum;
          break;
        case ReduceMode::kMax:
          sum = less ? sum : x;
          break;
        case ReduceMode::kAnd:
          sum &= x;
          break;
        case ReduceMode::kOr:
          sum |= x;
          break;
        case ReduceMode::kXor:
          sum ^= x;
          break;
      }
    }
    out[lane] = sum;
  }
  set_words(worker, warp, inst.d, out, mask);
  return true;
}

std::uint64_t wide(const Warp& warp, std::uint32_t r, int lane) {
  std::uint64_t value;
  std::memcpy(&value, warp.at(r) + lane * 8, sizeof value);
  return value;
}

// A string in the kernel's memory, or a note if it is not readable.
std::string text_at(Worker& worker, Warp& warp, std::uint64_t address, int lane) {
  std::string text;
  for (;; ++address) {
    const std::uint8_t* c = resolve(worker, warp, address, 1, lane);
    if (c == nullptr) return text + "(unreadable)";
    if (*c == 0) return text;
    text += static_cast<char>(*c);
  }
}

// printf's format with arguments in a buffer: 4 or 8 bytes each, aligned to their size.
std::string formatted(Worker& worker, Warp& warp, const std::string& format,
                      std::uint64_t arguments, int lane) {
  std::string out;
  std::uint64_t at = 0;
  const auto next = [&](unsigned bytes) {
    at = (at + bytes - 1) / bytes * bytes;
    std::uint64_t value = 0;
    if (const std::uint8_t* from =
            resolve(worker, warp, arguments + at, static_cast<int>(bytes), lane))
      std::memcpy(&value, from, bytes);
    at += bytes;
    return value;
  };
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    std::string spec = "%";
    bool is_long = false;
    for (++i; i < format.size(); ++i) {
      const char c = format[i];
      if (c == 'l' || c == 'j' || c == 'z' || c == 't') {
        is_long = true;
      } else if (c == '*') {
        spec += std::to_string(static_cast<std::int32_t>(next(4)));
      } else if (c != 'h') {
        spec += c;
        if (!std::strchr("-+ #0123456789.", c)) break;
      }
    }
    char text[512];
    const char kind = spec.back();
    if (kind == '%') {
      out += '%';
      continue;
    }
    if (std::strchr("fFeEgGaA", kind)) {
      std::snprintf(text, sizeof text, spec.c_str(), std::bit_cast<double>(next(8)));
    } else if (kind == 's') {
      std::snprintf(text, sizeof text, spec.c_str(), text_at(worker, warp, next(8), lane).c_str());
    } else if (kind == 'p') {
      std::snprintf(text, sizeof text, spec.c_str(), reinterpret_cast<void*>(next(8)));
    } else if (kind == 'c') {
      std::snprintf(text, sizeof text, spec.c_str(), static_cast<int>(next(4)));
    } else {
      spec.insert(spec.size() - 1, "ll");
      const std::uint64_t bits = next(is_long ? 8 : 4);
      const bool is_signed = kind == 'd' || kind == 'i';
      std::snprintf(text, sizeof text, spec.c_str(),
                    !is_long && is_signed ? static_cast<long long>(static_cast<std::int32_t>(bits))
                                          : static_cast<long long>(bits));
    }
    out += text;
  }
  return out;
}

void print(Worker& worker, Warp& warp, const Inst& inst, std::uint32_t mask) {
  const Extra& e = worker.program.extras[inst.aux];
  std::string text;
  std::uint32_t counts[kLanes] = {};
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const std::string format = text_at(worker, warp, wide(warp, e[1], lane), lane);
    text += formatted(worker, warp, format, wide(warp, e[2], lane), lane);
  }
  const std::lock_guard guard(worker.launch.lock);
  worker.launch.result.output += text;
  set_words(worker, warp, e[0], counts, mask);
}

}  // namespace

bool warp_operation(Worker& worker, Warp& warp, const Inst& inst, int line, std::uint32_t mask) {
  switch (inst.op) {
    case Op::kShuffle:
      return shuffle(worker, warp, inst, line, mask);
    case Op::kVote:
      return vote(worker, warp, inst, line, mask);
    case Op::kMatch:
      return match(worker, warp, inst, line, mask);
    case Op::kWarpReduce:
      return reduce(worker, warp, inst, line, mask);
    case Op::kWarpBarrier:
      if (!check_members(worker, warp, line, words(warp, inst.a), mask, "__syncwarp")) return false;
      warp_synchronised(warp);
      return true;
    case Op::kElect: {
      const Extra& e = worker.program.extras[inst.aux];
      const std::uint32_t* members = words(warp, e[1]);
      if (!check_members(worker, warp, line, members, mask, "elect.sync")) return false;
      const std::uint32_t leader = static_cast<std::uint32_t>(std::countr_zero(mask));
      std::uint32_t lanes[kLanes];
      for (std::uint32_t& lane : lanes) lane = leader;
      set_words(worker, warp, inst.d, lanes, mask);
      set_predicate(warp, e[0], 1u << leader, mask);
      return true;
    }
    case Op::kActiveMask: {
      std::uint32_t lanes[kLanes];
      for (std::uint32_t& lane : lanes) lane = mask;
      set_words(worker, warp, inst.d, lanes, mask);
      return true;
    }
    case Op::kMapRank: {
      std::uint64_t out[kLanes];
      std::uint32_t narrow[kLanes];
      const std::uint32_t* ranks = words(warp, inst.b);
      for (int i = 0; i < kLanes; ++i) {
        const std::uint64_t address =
            inst.bytes == 8 ? wide(warp, inst.a, i) : words(warp, inst.a)[i];
        const std::uint64_t within = address & ((1u << kRankShift) - 1);
        out[i] = (address & ~std::uint64_t{0xffffffff}) |
                 (std::uint64_t{ranks[i]} + 1) << kRankShift | within;
        narrow[i] = static_cast<std::uint32_t>(out[i]);
      }
      worker.launch.functions.blend(
          warp.at(inst.d), inst.bytes == 8 ? static_cast<void*>(out) : narrow, mask, inst.bytes);
      return true;
    }
    case Op::kSpacePredicate: {
      std::uint32_t bits = 0;
      for (int i = 0; i < kLanes; ++i) {
        const std::uint64_t window = wide(warp, inst.a, i) >> 48;
        const auto space = static_cast<Space>(inst.mode);
        const bool yes = space == Space::kShared  ? window == kSharedWindow >> 48
                         : space == Space::kLocal ? window == kLocalWindow >> 48
                                                  : space == Space::kGlobal && window == 0;
        bits |= static_cast<std::uint32_t>(yes) << i;
      }
      set_predicate(warp, inst.d, bits, mask);
      return true;
    }
    case Op::kClock: {
      warp.polled = 0;
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      const auto time = static_cast<ClockMode>(inst.mode) == ClockMode::kNanoseconds
                            ? static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count())
                            : static_cast<std::uint64_t>(worker.executed);
      std::uint64_t out[kLanes];
      for (std::uint64_t& value : out) value = time;
      worker.launch.functions.blend(warp.at(inst.d), out, mask, 8);
      return true;
    }
    case Op::kPrint:
      print(worker, warp, inst, mask);
      return true;
    case Op::kAssertFail: {
      const Extra& e = worker.program.extras[inst.aux];
      const int lane = std::countr_zero(mask);
      return report(worker, warp, line, lane, "assertion",
                    "assertion failed: " + text_at(worker, warp, wide(warp, e[1], lane), lane) +
                        " (" + text_at(worker, warp, wide(warp, e[2], lane), lane) + ":" +
                        std::to_string(words(warp, e[3])[lane]) + ")");
    }
    default:
      return report(worker, warp, line, std::countr_zero(mask), "trap",
                    inst.mode == 1
                        ? "the called address is not that of a function with these parameters"
                        : "the kernel executed trap");
  }
}

}  // namespace ado::emulator
