// What instructions cost, and the compute capability that they need.
#include <algorithm>

#include "emulator/decoder.hpp"

namespace ado::emulator {

// The compute capability, times ten, that an instruction needs, or 0 if all supported GPUs have
// it. Instructions that do nothing on an older GPU are not listed: griddepcontrol, and barriers
// and addresses of clusters, which have one block there.
int compute_of(const Words& w) {
  struct Since {
    std::string_view op, word;  // `word`: empty, or a modifier or type
    int compute;
  };
  static constexpr Since kSince[] = {
      {"cp", "bulk", 90},
      {"cp", "async", 80},
      {"mbarrier", "try_wait", 90},
      {"mbarrier", "expect_tx", 90},
      {"mbarrier", "", 80},
      {"fence", "async", 90},
      {"fence", "mbarrier_init", 90},
      {"elect", "", 90},
      {"stmatrix", "", 90},
      {"st", "async", 90},
      {"red", "async", 90},
      {"redux", "", 80},
      {"createpolicy", "", 80},
      {"discard", "", 80},
      {"applypriority", "", 80},
      {"add", "bf16", 90},
      {"mul", "bf16", 90},
      {"sub", "bf16", 90},
      {"atom", "bf16", 90},
      {"red", "bf16", 90},
      {"atom", "v2", 90},
      {"atom", "v4", 90},
      {"red", "v2", 90},
      {"red", "v4", 90},
      {"", "bf16", 80},
      {"", "bf16x2", 80},
      {"", "tf32", 80},
      {"wgmma", "", 90},
      {"mma", "e4m3", 89},
      {"mma", "e5m2", 89},
      {"mma", "f64", 80},
      {"mma", "m16n8k16", 80},
      {"mma", "m16n8k32", 80},
  };
  for (const Since& since : kSince)
    if ((since.op.empty() || w[0] == since.op) && (since.word.empty() || contains(w, since.word)))
      return since.compute;
  return 0;
}
// FLOPs of the instructions that compute a function on sm_90, from the machine code that nvcc 13
// makes (tests/test_emulator.py compares them). Operands that are subnormal, infinite or NaN, and
// results close to such values, take longer. In functions of float32 without .ftz, the compiler
// may execute a multiplication for subnormal operands in all lanes instead of some.
struct Expansion {
  std::string_view op;
  int flop32, flop64;
};
static constexpr Expansion kExpansions[] = {
    {"div.rn.f32", 10, 0},       // 5 FFMA after MUFU.RCP
    {"div.full.f32", 1, 0},      // 1 FMUL
    {"div.approx.f32", 1, 0},    // 1 FMUL
    {"div.rn.f64", 2, 15},       // 7 DFMA, 1 DMUL, and 1 FFMA that tests the result
    {"rcp.rn.f32", 5, 0},        // 2 FFMA, 1 FADD
    {"rcp.approx.f32", 2, 0},    // 2 FMUL that scale subnormal numbers; none with .ftz
    {"rcp.rn.f64", 0, 10},       // 5 DFMA after MUFU.RCP64H
    {"sqrt.rn.f32", 6, 0},       // 2 FFMA, 2 FMUL
    {"sqrt.rn.f64", 0, 13},      // 5 DFMA, 3 DMUL after MUFU.RSQ64H
    {"rsqrt.approx.f64", 0, 8},  // 3 DFMA, 2 DMUL
    {"sin.approx.f32", 1, 0},    // 1 FMUL that divides by 2 pi
    {"cos.approx.f32", 1, 0},
};

Cost cost_of(const Words& w, int position, int line) {
  Cost cost{position, line};
  const auto add = [&](Counted counted, int amount = 1) {
    cost.operations[static_cast<int>(counted)] += amount;
  };
  const std::string_view type = w.back(), op = w[0];
  const bool f64 = type == "f64", f32 = type == "f32",
             half = type.find("f16") != std::string_view::npos;
  static constexpr std::string_view kMoves[] = {"mov", "ld", "st", "selp", "atom", "red"};
  if (contains(w, "f64") && std::ranges::find(kMoves, op) == std::end(kMoves))
    add(Counted::kInstruction64);
  if (op == "cvt" || op == "mov" || !(f64 || f32 || half)) return cost;
  const bool fused = op == "fma" || op == "mad";
  if (fused && !half) add(f64 ? Counted::kFused64 : Counted::kFused32);
  if (op == "add" || op == "sub" || op == "mul" || fused)
    add(f64   ? Counted::kFlop64
        : f32 ? Counted::kFlop32
              : Counted::kFlop16,
        (fused ? 2 : 1) * (type.ends_with("x2") ? 2 : 1));
  else if (op == "div" || op == "rcp")
    add(f64 ? Counted::kDivide64 : Counted::kDivide32);
  else if (op == "sqrt" || op == "rsqrt")
    add(f64 ? Counted::kRoot64 : Counted::kRoot32);
  else if (op == "ex2" || op == "lg2" || op == "sin" || op == "cos" || op == "tanh")
    add(Counted::kSpecial32);
  else
    return cost;
  const bool flushes = contains(w, "ftz");
  Words plain;
  for (const std::string_view word : w)
    if (word != "ftz") plain.push_back(word);
  for (const Expansion& e : kExpansions) {
    if (joined(plain) != e.op || (flushes && e.op == "rcp.approx.f32")) continue;
    if (flushes && f64) continue;
    add(Counted::kExpanded32, e.flop32);
    add(Counted::kExpanded64, e.flop64);
  }
  return cost;
}

}  // namespace ado::emulator
