// Instructions that exchange values between the lanes of a warp, and calls of the host: printf,
// assert, clocks.
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

const u32* words(const Warp& warp, u32 r) { return reinterpret_cast<const u32*>(warp.at(r)); }

// Stores a result for the lanes of `mask`.
void set_words(Worker& worker, Warp& warp, u32 d, const u32* values, u32 mask) {
  worker.launch.functions.blend(warp.at(d), values, mask, 4);
}
void set_all(Worker& worker, Warp& warp, u32 d, u32 value, u32 mask) {
  std::array<u32, kLanes> values;
  values.fill(value);
  set_words(worker, warp, d, values.data(), mask);
}
void set_predicate(Warp& warp, u32 d, u32 value, u32 mask) {
  auto& predicate = *reinterpret_cast<u32*>(warp.at(d));
  predicate = (predicate & ~mask) | (value & mask);
}

bool shuffle(Worker& worker, Warp& warp, const Inst& inst, const Extra& e, int line, u32 mask) {
  const u32 *value = words(warp, e[2]), *lane_or_mask = words(warp, e[3]),
            *clamp = words(warp, e[4]);
  const auto mode = static_cast<ShuffleMode>(inst.mode);
  alignas(64) u32 out[kLanes];
  u32 valid = 0, missing = 0;
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
    valid |= static_cast<u32>(in_range) << i;
    missing |= static_cast<u32>(!((mask >> (from & 31)) & 1)) << i;
  }
  if (worker.launch.options.checks.synccheck && (missing & mask) != 0)
    return report(worker, warp, line, std::countr_zero(missing & mask), "missing thread",
                  "shfl.sync reads from a lane that does not execute it");
  set_words(worker, warp, inst.d, out, mask);
  if (e[0] != kNone) set_predicate(warp, e[0], valid, mask);
  return true;
}

bool vote(Worker& worker, Warp& warp, const Inst& inst, const Extra& e, u32 mask) {
  const u32* members = words(warp, e[1]);
  const u32 predicate = warp.predicate(e[2]);
  const auto mode = static_cast<VoteMode>(inst.mode);
  u32 out[kLanes] = {}, bits = 0;
  for (const int lane : Lanes{mask}) {
    const u32 group = members[lane] & mask, yes = predicate & group;
    out[lane] = yes;
    const bool all = yes == group, any = yes != 0;
    const bool result = mode == VoteMode::kAll ? all : mode == VoteMode::kAny ? any : all || !any;
    bits |= static_cast<u32>(result) << lane;
  }
  if (mode == VoteMode::kBallot)
    set_words(worker, warp, inst.d, out, mask);
  else
    set_predicate(warp, inst.d, bits, mask);
  return true;
}

bool match(Worker& worker, Warp& warp, const Inst& inst, const Extra& e, u32 mask) {
  const u32* members = words(warp, e[1]);
  const int bytes = inst.mode & 2 ? 8 : 4;
  const u8* values = warp.at(e[2]);
  u32 out[kLanes] = {}, all_equal = 0;
  for (const int lane : Lanes{mask}) {
    const u32 group = members[lane] & mask;
    u32 same = 0;
    for (const int other : Lanes{group}) {
      if (std::memcmp(values + lane * bytes, values + other * bytes,
                      static_cast<std::size_t>(bytes)) == 0)
        same |= 1u << other;
    }
    const bool all = same == group;
    all_equal |= static_cast<u32>(all) << lane;
    out[lane] = inst.mode & 1 ? (all ? group : 0) : same;
  }
  set_words(worker, warp, inst.d, out, mask);
  if (e[0] != kNone) set_predicate(warp, e[0], all_equal, mask);
  return true;
}

bool reduce(Worker& worker, Warp& warp, const Inst& inst, const Extra& e, u32 mask) {
  const u32 *members = words(warp, e[1]), *values = words(warp, e[2]);
  const auto op = static_cast<AtomicOp>(inst.mode & 15);
  u32 out[kLanes] = {};
  for (const int lane : Lanes{mask}) {
    const u32 group = members[lane] & mask;
    if (group == 0) continue;  // an invalid mask, without synccheck
    u32 sum = values[first_of(group)];
    for (const int other : Lanes{group & (group - 1)})
      sum = inst.mode & 16 ? static_cast<u32>(combine(op, static_cast<s32>(sum),
                                                      static_cast<s32>(values[other]), 0))
                           : combine(op, sum, values[other], 0u);
    out[lane] = sum;
  }
  set_words(worker, warp, inst.d, out, mask);
  return true;
}

bool exchange(Worker& worker, Warp& warp, const Inst& inst, const Extra& e, int line, u32 mask) {
  if (inst.op == Op::kShuffle) return shuffle(worker, warp, inst, e, line, mask);
  if (inst.op == Op::kVote) return vote(worker, warp, inst, e, mask);
  if (inst.op == Op::kMatch) return match(worker, warp, inst, e, mask);
  if (inst.op == Op::kWarpReduce) return reduce(worker, warp, inst, e, mask);
  if (inst.op == Op::kWarpBarrier) {
    warp_synchronised(warp, words(warp, e[1]), mask);
    return true;
  }
  const u32 leader = static_cast<u32>(std::countr_zero(mask));  // kElect
  set_all(worker, warp, inst.d, leader, mask);
  set_predicate(warp, e[0], 1u << leader, mask);
  return true;
}

// Exchanges values between this path and the paths that wait at copies of the instruction. If lanes
// in the mask of this path have not arrived at a copy, it does nothing and returns kParked.
Arrival meet(Worker& worker, Warp& warp, const Inst& inst, int line, u32 mask, u32 awaited) {
  const Program& p = worker.program;
  struct Copy {
    const Inst* inst;
    u32 lanes, awaits;
    StackEntry* path;  // null: the current path
    const Extra& extra(const Program& p) const { return p.extras[inst->aux]; }
  };
  std::vector<Copy> copies{{&inst, mask, awaited, nullptr}};
  for (StackEntry& path : warp.stack)
    if (const Inst& other = p.code[std::max(path.pc, 0)];
        path.awaits != 0 && other.op == inst.op && other.mode == inst.mode)
      copies.push_back({&other, path.mask & warp.alive, path.awaits, &path});
  // Registers that hold the operands and results of all copies, in the order of Extra.
  constexpr u32 kBytes = 8 * kLanes, kResult = 5;
  alignas(64) u8 registers[kResult + 1][kBytes] = {};
  const auto blend = [&](void* to, const void* from, u32 lanes, int bytes) {
    worker.launch.functions.blend(to, from, lanes, bytes);
  };
  const bool wide = inst.op == Op::kMatch && (inst.mode & 2) != 0;
  for (const Copy& c : copies)
    for (std::size_t i = 1; i < kResult && c.extra(p)[i] != kNone; ++i)
      blend(registers[i], warp.at(c.extra(p)[i]), c.lanes,
            i != 2                 ? 4
            : inst.op == Op::kVote ? 1
            : wide                 ? 8
                                   : 4);
  auto* const members = reinterpret_cast<u32*>(registers[1]);
  u32 all = 0;
  const auto lacks_lanes = [&](const Copy& c) {
    for (const int lane : Lanes{c.lanes})
      for (const int other : Lanes{members[lane] & (warp.alive | c.awaits)})
        if (!((all >> other) & 1) || members[other] != members[lane]) return true;
    return false;
  };
  do {
    all = 0;
    for (const Copy& c : copies) all |= c.lanes;
  } while (std::erase_if(copies, lacks_lanes) != 0);
  if (copies.empty() || copies[0].path != nullptr) return Arrival::kParked;
  Inst joint = inst;
  joint.d = kResult * kBytes;
  Extra operands;
  for (u32 i = 0; i < kResult; ++i) operands.registers[i] = i * kBytes;
  u8* const own = std::exchange(warp.bases[0], registers[0]);
  const bool fine = exchange(worker, warp, joint, operands, line, all);
  warp.bases[0] = own;
  for (const Copy& c : copies) {
    if (c.inst->d != kNone) blend(warp.at(c.inst->d), registers[kResult], c.lanes, inst.bytes);
    if (const u32 to = c.extra(p)[0]; to != kNone) blend(warp.at(to), registers[0], c.lanes, 1);
    if (c.path != nullptr) ++c.path->pc, c.path->awaits = 0;
  }
  return fine ? Arrival::kArrived : Arrival::kFailed;
}

// Reads a string in the kernel's memory. Returns false if it is not readable.
bool read_text(Worker& worker, Warp& warp, u64 address, int lane, std::string& text) {
  for (;; ++address) {
    const u8* c = resolve(worker, warp, address, 1, lane);
    if (c == nullptr) return false;
    if (*c == 0) return true;
    text += static_cast<char>(*c);
  }
}
std::string text_at(Worker& worker, Warp& warp, u64 address, int lane) {
  std::string text;
  return read_text(worker, warp, address, lane, text) ? text : text + "(unreadable)";
}

// printf for one lane. The arguments are in a buffer: 4 or 8 bytes each, aligned to their size.
class Printer {
 public:
  Printer(Worker& worker, Warp& warp, u64 arguments, int lane)
      : worker_(worker), warp_(warp), arguments_(arguments), lane_(lane) {}

  // Appends the text to `out`. Returns the error, or nothing.
  std::string print(const std::string& format, std::string& out) {
    for (at_ = format.c_str(); *at_ != 0;) {
      if (*at_ != '%') {
        out += *at_++;
      } else if (*++at_ == '%') {
        out += *at_++;
      } else if (const std::string problem = field(out); !problem.empty()) {
        return problem;
      }
    }
    return "";
  }
  int count() const { return count_; }

 private:
  static constexpr int kLongest = 1 << 20;  // width and precision

  u64 next(unsigned bytes) {
    position_ = (position_ + bytes - 1) / bytes * bytes;
    u64 value = 0;
    if (const u8* from =
            resolve(worker_, warp_, arguments_ + position_, static_cast<int>(bytes), lane_))
      std::memcpy(&value, from, bytes);
    position_ += bytes;
    ++count_;
    return value;
  }
  // A number in the format or, for *, an argument.
  s64 number() {
    if (*at_ == '*') return ++at_, static_cast<s32>(next(4));
    s64 value = 0;
    while (*at_ >= '0' && *at_ <= '9')
      value = std::min<s64>(10 * value + (*at_++ - '0'), INT32_MAX);
    return value;
  }
  // A field after its %. The host's printf only gets formats that consist of the parts below.
  std::string field(std::string& out) {
    std::string spec = "%";
    for (; *at_ != 0 && std::strchr("-+ #0", *at_) != nullptr; ++at_)
      if (spec.find(*at_) == std::string::npos) spec += *at_;
    s64 width = number();
    if (width < 0) spec += '-', width = -width;
    const bool precise = *at_ == '.';
    if (precise) ++at_;
    const s64 precision = precise ? number() : -1;
    bool is_long = false;
    for (; *at_ != 0 && std::strchr("hljztL", *at_) != nullptr; ++at_)
      is_long = is_long || (*at_ != 'h' && *at_ != 'L');
    const char kind = *at_;
    if (kind == 0 || std::strchr("diouxXcspfFeEgGaA", kind) == nullptr)
      return std::string("printf: unknown conversion ") +
             (kind == 0 ? "at the end" : std::string("%") + kind);
    ++at_;
    if (width > kLongest || precision > kLongest) return "printf: the field is too wide";
    spec += "*.*";
    const int sizes[] = {static_cast<int>(width), static_cast<int>(precision)};
    const auto append = [&](auto value) {
      const int bytes = std::snprintf(nullptr, 0, spec.c_str(), sizes[0], sizes[1], value);
      std::string text(static_cast<std::size_t>(std::max(bytes, 0)) + 1, 0);
      std::snprintf(text.data(), text.size(), spec.c_str(), sizes[0], sizes[1], value);
      out.append(text, 0, text.size() - 1);
    };
    const bool integer = std::strchr("diouxX", kind) != nullptr;
    spec += (integer ? "ll" : "") + std::string(1, kind);
    if (kind == 's') {
      std::string text;
      if (!read_text(worker_, warp_, next(8), lane_, text))
        return "printf: the string of %s is not readable";
      append(text.c_str());
    } else if (kind == 'p') {
      append(reinterpret_cast<void*>(next(8)));
    } else if (kind == 'c') {
      append(static_cast<int>(next(4)));
    } else if (integer) {
      const u64 bits = next(is_long ? 8 : 4);
      const bool is_signed = kind == 'd' || kind == 'i';
      append(is_long || !is_signed ? static_cast<long long>(bits) : static_cast<s32>(bits) + 0LL);
    } else {
      append(std::bit_cast<double>(next(8)));
    }
    return "";
  }

  Worker& worker_;
  Warp& warp_;
  u64 arguments_, position_ = 0;
  int lane_, count_ = 0;
  const char* at_ = nullptr;
};

// Returns the number of arguments, as CUDA's printf does, or -1 without a format.
bool print(Worker& worker, Warp& warp, const Inst& inst, int line, u32 mask) {
  const Extra& e = worker.program.extras[inst.aux];
  std::string text;
  u32 counts[kLanes] = {};
  for (const int lane : Lanes{mask}) {
    const u64 address = warp.value(e[1], lane, 8);
    counts[lane] = ~0u;
    if (address == 0) continue;
    Printer printer(worker, warp, warp.value(e[2], lane, 8), lane);
    std::string format;
    const std::string problem = read_text(worker, warp, address, lane, format)
                                    ? printer.print(format, text)
                                    : "printf: the format is not readable";
    if (!problem.empty()) return report(worker, warp, line, lane, "invalid printf", problem);
    counts[lane] = static_cast<u32>(printer.count());
  }
  const std::lock_guard guard(worker.launch.lock);
  worker.launch.result.output += text;
  set_words(worker, warp, e[0], counts, mask);
  return true;
}

// Operations that do not wait for other lanes.
bool lane_operation(Worker& worker, Warp& warp, const Inst& inst, int line, u32 mask) {
  switch (inst.op) {
    case Op::kActiveMask:
      set_all(worker, warp, inst.d, mask, mask);
      return true;
    case Op::kMapRank: {
      u64 out[kLanes];
      u32 narrow[kLanes];
      const u32* ranks = words(warp, inst.b);
      for (int i = 0; i < kLanes; ++i) {
        const u64 address = inst.bytes == 8 ? warp.value(inst.a, i, 8) : words(warp, inst.a)[i];
        const u64 within = address & ((1u << kRankShift) - 1);
        out[i] = (address & ~u64{0xffffffff}) | (u64{ranks[i]} + 1) << kRankShift | within;
        narrow[i] = static_cast<u32>(out[i]);
      }
      worker.launch.functions.blend(
          warp.at(inst.d), inst.bytes == 8 ? static_cast<void*>(out) : narrow, mask, inst.bytes);
      return true;
    }
    case Op::kSpacePredicate: {
      u32 bits = 0;
      for (int i = 0; i < kLanes; ++i) {
        const u64 window = warp.value(inst.a, i, 8) >> 48;
        const auto space = static_cast<Space>(inst.mode);
        const bool yes = space == Space::kShared  ? window == kSharedWindow >> 48
                         : space == Space::kLocal ? window == kLocalWindow >> 48
                                                  : space == Space::kGlobal && window == 0;
        bits |= static_cast<u32>(yes) << i;
      }
      set_predicate(warp, inst.d, bits, mask);
      return true;
    }
    case Op::kClock: {
      warp.polled = 0;
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      const auto time = static_cast<ClockMode>(inst.mode) == ClockMode::kNanoseconds
                            ? static_cast<u64>(std::chrono::nanoseconds(now).count())
                            : static_cast<u64>(worker.executed);
      u64 out[kLanes];
      for (u64& value : out) value = time;
      worker.launch.functions.blend(warp.at(inst.d), out, mask, 8);
      return true;
    }
    case Op::kPrint:
      return print(worker, warp, inst, line, mask);
    case Op::kAssertFail: {
      const Extra& e = worker.program.extras[inst.aux];
      const int lane = std::countr_zero(mask);
      return report(worker, warp, line, lane, "assertion",
                    "assertion failed: " + text_at(worker, warp, warp.value(e[1], lane, 8), lane) +
                        " (" + text_at(worker, warp, warp.value(e[2], lane, 8), lane) + ":" +
                        std::to_string(words(warp, e[3])[lane]) + ")");
    }
    default:
      return report(worker, warp, line, std::countr_zero(mask), "trap",
                    inst.mode == 1 ? "the called address is not a function with these parameters"
                                   : "the kernel executed trap");
  }
}

}  // namespace

std::string waits_at(const Worker& worker, const Warp& warp, int lane) {
  for (const StackEntry& path : warp.stack) {
    if (path.awaits == 0 || !((path.mask >> lane) & 1)) continue;
    return "; it waits for other threads at " +
           source_line(worker.launch, worker.program.line_of_code[path.pc]).text();
  }
  return "";
}

Arrival warp_operation(Worker& worker, Warp& warp, const Inst& inst, int position, u32 mask) {
  const int line = worker.program.line_of_code[position];
  const auto arrival = [](bool fine) { return fine ? Arrival::kArrived : Arrival::kFailed; };
  if (inst.op < Op::kShuffle || inst.op > Op::kWarpBarrier)
    return arrival(lane_operation(worker, warp, inst, line, mask));
  const auto name = [&] {
    static constexpr const char* kNames[] = {"shfl.sync",  "vote.sync",  "match.sync",
                                             "redux.sync", "elect.sync", "__syncwarp"};
    return std::string(kNames[static_cast<int>(inst.op) - static_cast<int>(Op::kShuffle)]);
  };
  const Extra& e = worker.program.extras[inst.aux];
  const bool checks = worker.launch.options.checks.synccheck;
  // Lanes that have ended since this path began to wait for them are missing, too.
  const u32 awaited = std::exchange(warp.awaited, 0);
  u32 missing = 0;
  if (checks || (warp.alive | awaited) != mask) {
    const u32* const members = words(warp, e[1]);
    u32 named = 0, own = 0;
    for (const int lane : Lanes{mask}) named |= members[lane], own |= members[lane] & 1u << lane;
    if (checks && own != mask)
      return arrival(report(worker, warp, line, std::countr_zero(mask & ~own), "invalid mask",
                            name() + ": the mask does not contain the calling thread"));
    if ((named & warp.alive & ~mask) != 0) end_idle_lanes(worker.program, warp);
    missing = named & (warp.alive | awaited) & ~mask;
  }
  if (missing != 0) {
    const Arrival met = meet(worker, warp, inst, line, mask, awaited);
    if (met != Arrival::kParked) return met;
    if (mask == warp.mask && run_others_first(warp, position, missing)) return met;
    u32 elsewhere = missing;
    for (const StackEntry& path : warp.stack)
      if (path.awaits != 0 && worker.program.code[path.pc].op == inst.op) elsewhere &= ~path.mask;
    const int lane = std::countr_zero(elsewhere != 0 ? elsewhere : missing);
    if (checks)
      return arrival(report(worker, warp, line, lane, "missing thread",
                            name() +
                                ": the mask names this thread, which does not execute the "
                                "instruction with the others" +
                                waits_at(worker, warp, lane)));
  }
  return arrival(exchange(worker, warp, inst, e, line, mask));
}

}  // namespace ado::emulator
