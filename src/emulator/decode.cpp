// Translates parsed PTX to instructions of the interpreter.
//
// Element-wise instructions are looked up in the tables of lanes/ by their name, without modifiers
// that do not affect the emulator. Instructions with several results, several roundings or more
// than three operands become several entries.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "emulator/program.hpp"

namespace ado::emulator {
namespace {

using Kind = Operand::Kind;
using Words = std::vector<std::string_view>;

struct Tables {
  std::unordered_map<std::string_view, const AluEntry*> alu;
  const LaneFunctions* functions;

  explicit Tables(const LaneFunctions& f) : functions(&f) {
    for (const AluTable& table : {f.integers, f.floats, f.halves, f.conversions})
      for (std::size_t i = 0; i < table.count; ++i)
        alu.emplace(table.entries[i].name, &table.entries[i]);
  }
};

const Tables& tables_of(Isa isa) {
  static const Tables tables[] = {Tables(lane_functions(Isa::kBaseline)),
                                  Tables(lane_functions(Isa::kAvx2)),
                                  Tables(lane_functions(Isa::kAvx512))};
  return tables[static_cast<int>(isa)];
}

bool contains(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
std::string joined(const Words& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ".") + std::string(word);
  return text;
}
// u32 -> b32 for instructions that do not interpret the bits.
std::string bits_type(std::string_view type) {
  return type == "pred" ? "pred" : "b" + std::to_string(8 * size_of_type(type));
}

// Values of %name registers that do not depend on the thread.
const std::map<std::string_view, std::uint8_t> kBlockNames = {
    {"%ntid", kThreads},
    {"%ctaid", kBlockIndex},
    {"%nctaid", kBlocks},
    {"%clusterid", kClusterIndex},
    {"%nclusterid", kClusters},
    {"%cluster_ctaid", kIndexInCluster},
    {"%cluster_nctaid", kClusterBlocks},
    {"%cluster_ctarank", kRank},
    {"%cluster_nctarank", kClusterSize},
    {"%smid", kMultiprocessor},
    {"%nsmid", kMultiprocessors},
    {"%dynamic_smem_size", kDynamicShared},
    {"%total_smem_size", kTotalShared},
    {"%envreg1", kWorkspaceHigh},
    {"%envreg2", kWorkspaceLow}};
const std::map<std::string_view, ThreadValue> kThreadNames = {
    {"%laneid", ThreadValue::kLane},
    {"%warpid", ThreadValue::kWarp},
    {"%lanemask_eq", ThreadValue::kMaskEqual},
    {"%lanemask_lt", ThreadValue::kMaskLess},
    {"%lanemask_le", ThreadValue::kMaskLessEqual},
    {"%lanemask_gt", ThreadValue::kMaskGreater},
    {"%lanemask_ge", ThreadValue::kMaskGreaterEqual}};
constexpr int kThreadValues = 10;
const Variable kReserved{.name = "%reserved_smem_offset_1",
                         .space = Space::kShared,
                         .align = 16,
                         .bytes = Program::kReservedBytes};

class Decoder {
 public:
  Decoder(Text& text, const ModuleAddresses& addresses, Isa isa)
      : text_(text), addresses_(addresses), tables_(tables_of(isa)) {}

  Program run(Function& entry) {
    p_.name = std::string(entry.name);
    for (int i = 0; i < kThreadValues; ++i) {
      p_.thread_registers.push_back({static_cast<ThreadValue>(i), 0});
      registers_.push_back(4);
    }
    p_.lines.emplace_back();
    if (!entry.params.empty()) {
      const Variable& last = entry.params.back();
      p_.param_bytes = static_cast<std::uint32_t>(last.offset + last.bytes);
    }
    const auto product = [](const std::vector<int>& v) {
      int n = 1;
      for (int x : v) n *= x;
      return n;
    };
    if (!entry.max_threads.empty()) p_.max_threads = product(entry.max_threads);
    if (!entry.required_threads.empty()) p_.required_threads = product(entry.required_threads);
    for (std::size_t i = 0; i < entry.cluster.size(); ++i) p_.cluster[i] = entry.cluster[i];
    Frame frame{.function = &entry, .entry = true};
    function(frame);
    finish_shared();
    finish_program(p_, registers_, labels_, costs_);
    return std::move(p_);
  }

 private:
  // One inlined call.
  struct Frame {
    Function* function;
    bool entry = false;
    std::uint32_t first_register = 0;
    int first_line = 0;
    int end_label = -1;
    std::vector<std::int64_t> variables = {};                        // local offsets, by variable
    std::unordered_map<std::string_view, std::int64_t> params = {};  // local offsets
    std::unordered_map<std::string_view, int> labels = {};
    int depth = 0;
  };

  // --- Emission ----------------------------------------------------------------------------------

  std::uint32_t temporary(int bytes) {
    registers_.push_back(static_cast<std::uint8_t>(bytes));
    return static_cast<std::uint32_t>(registers_.size() - 1);
  }
  std::uint32_t constant(Source source, int bytes, std::uint64_t bits, int read_bytes = 0,
                         bool sign = false) {
    if (bytes < 8 && source == Source::kBits) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
    if (bytes == 1 && source == Source::kBits) bits = bits != 0;
    const auto key = std::tuple{source, bytes, bits, read_bytes, sign};
    const auto [at, added] =
        constants_.emplace(key, static_cast<std::uint32_t>(p_.constants.size()));
    if (added)
      p_.constants.push_back({source, static_cast<std::uint8_t>(bytes),
                              static_cast<std::uint8_t>(read_bytes), sign, bits});
    return at->second | kConstantBit;
  }
  std::uint32_t immediate(std::uint64_t bits, int bytes) {
    return constant(Source::kBits, bytes, bits);
  }

  Inst& emit(Op op) {
    Inst inst;
    inst.op = op;
    inst.guard = guard_;
    inst.guard_negated = guard_negated_;
    p_.code.push_back(inst);
    p_.line_of_code.push_back(line_);
    return p_.code.back();
  }
  void emit_alu(std::string_view name, std::uint32_t d, std::uint32_t a, std::uint32_t b = kNone,
                std::uint32_t c = kNone) {
    const AluEntry* entry = find(name);
    if (entry == nullptr) unknown();
    emit_alu(*entry, d, a, b, c);
  }
  void emit_alu(const AluEntry& entry, std::uint32_t d, std::uint32_t a, std::uint32_t b,
                std::uint32_t c) {
    Inst& inst = emit(Op::kAlu);
    inst.alu = entry.function;
    inst.d = d, inst.a = a, inst.b = b, inst.c = c;
    inst.bytes = entry.bytes[0];
    inst.mode = std::strncmp(entry.name, "mov.", 4) == 0 ? 1 : 0;
  }
  const AluEntry* find(std::string_view name) const {
    const auto at = tables_.alu.find(name);
    return at == tables_.alu.end() ? nullptr : at->second;
  }
  std::uint32_t extra(std::initializer_list<std::uint32_t> values) {
    Extra e = empty_extra();
    std::copy(values.begin(), values.end(), e.registers.begin());
    return add_extra(e);
  }
  static Extra empty_extra() {
    Extra e;
    e.registers.fill(kNone);
    return e;
  }
  std::uint32_t add_extra(const Extra& e) {
    p_.extras.push_back(e);
    return static_cast<std::uint32_t>(p_.extras.size() - 1);
  }

  int new_label() {
    labels_.push_back(-1);
    return static_cast<int>(labels_.size()) - 1;
  }
  int label_of(std::string_view name) {
    const auto [at, added] = frame_->labels.emplace(name, -1);
    if (added) {
      if (!frame_->function->labels.contains(name)) fail("unknown label " + std::string(name));
      at->second = new_label();
    }
    return at->second;
  }

  // --- Errors ------------------------------------------------------------------------------------

  // "file:line, PTX line 5"
  std::string place() const {
    const Line& line = p_.lines[line_];
    const auto file = text_.files.find(line.file);
    return (file == text_.files.end() ? ""
                                      : file->second + ":" + std::to_string(line.line) + ", ") +
           "PTX line " + std::to_string(s_->ptx_line);
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw PtxError(std::string(frame_->function->name) + ", " + place() + ": " + message + ": " +
                   std::string(s_->text));
  }
  [[noreturn]] void unknown() const { fail("the emulator does not support this instruction"); }

  // --- Operands ----------------------------------------------------------------------------------

  std::uint32_t reg(int index) const {
    return frame_->first_register + static_cast<std::uint32_t>(index);
  }
  int bytes_of(const Operand& o) const {
    return o.kind == Kind::kRegister ? registers_[reg(o.reg)] : 0;
  }

  std::uint32_t result(const Operand& o, int bytes) {
    if (o.kind == Kind::kSink) return temporary(bytes);
    if (o.kind != Kind::kRegister) fail("the result must be a register");
    if (registers_[reg(o.reg)] != bytes) fail("a register of another size was expected");
    return reg(o.reg);
  }

  // The register that holds an operand of `bytes` per lane.
  std::uint32_t value(const Operand& o, int bytes) {
    switch (o.kind) {
      case Kind::kRegister: {
        if (registers_[reg(o.reg)] != bytes) fail("a register of another size was expected");
        if (!o.negated) return reg(o.reg);
        const std::uint32_t inverse = temporary(1);
        emit_alu("not.pred", inverse, reg(o.reg));
        return inverse;
      }
      case Kind::kImmediate: {
        std::uint64_t bits = o.value;
        if (o.is_double && bytes == 4) {
          double x;
          std::memcpy(&x, &bits, sizeof x);
          const float narrow = static_cast<float>(x);
          std::uint32_t word;
          std::memcpy(&word, &narrow, sizeof word);
          bits = word;
        }
        return immediate(bits, bytes);
      }
      case Kind::kSpecial:
        return special(o.name, bytes);
      case Kind::kVariable:
        return address_of(o, bytes);
      case Kind::kName: {
        if (o.name == "WARP_SZ") return immediate(kLanes, bytes);
        const auto at = addresses_.address.find(o.name);
        if (at == addresses_.address.end() || bytes != 8)
          fail("the function is not in this module");
        return immediate(at->second, 8);
      }
      default:
        fail("unexpected operand");
    }
  }

  std::uint32_t special(std::string_view name, int bytes) {
    if (name.starts_with("%clock") || name.starts_with("%globaltimer")) {
      const bool time = name.starts_with("%g");
      const std::uint32_t d = temporary(bytes);
      const std::uint32_t wide = bytes == 8 ? d : temporary(8);
      Inst& inst = emit(Op::kClock);
      inst.d = wide;
      inst.bytes = 8;
      inst.mode = static_cast<std::uint8_t>(time ? ClockMode::kNanoseconds : ClockMode::kCycles);
      if (bytes == 4) emit_alu(name.ends_with("hi") ? "high.b64" : "low.b64", d, wide);
      return d;
    }
    int axis = 0;
    if (name.size() > 2 && name[name.size() - 2] == '.') {
      axis = name.back() - 'x';
      name.remove_suffix(2);
    }
    std::uint32_t r;
    if (name == "%tid")
      r = static_cast<std::uint32_t>(axis);
    else if (const auto thread = kThreadNames.find(name); thread != kThreadNames.end())
      r = static_cast<std::uint32_t>(thread->second);
    else if (const auto block = kBlockNames.find(name); block != kBlockNames.end())
      r = constant(Source::kBlock, 4, block->second + axis);
    else if (name == "%gridid")
      r = immediate(0, 4);
    else if (name == kReserved.name)
      r = immediate(p_.reserved_shared = static_cast<std::uint32_t>(shared_offset(kReserved)), 4);
    else
      fail("the emulator does not support the register " + std::string(name));
    if (bytes == 4) return r;
    const std::uint32_t d = temporary(bytes);
    emit_alu(bytes == 8 ? "cvt.u64.u32" : "cvt.u16.u32", d, r);
    return d;
  }

  const Variable& variable(const Operand& o) const {
    if (o.variable >= 0) return frame_->function->variables[o.variable];
    for (const auto* list : {&frame_->function->params, &frame_->function->results})
      for (const Variable& v : *list)
        if (v.name == o.name) return v;
    return text_.variables[text_.variable_of_name.at(o.name)];
  }

  // The offset in local memory of a variable of this call, or nothing.
  std::optional<std::int64_t> local_offset(const Operand& o) const {
    if (o.variable >= 0 && frame_->variables[o.variable] >= 0) return frame_->variables[o.variable];
    if (o.variable < 0)
      if (const auto at = frame_->params.find(o.name); at != frame_->params.end())
        return at->second;
    return std::nullopt;
  }

  // The address within its space; for global, constant and parameter variables a host address.
  std::uint32_t address_of(const Operand& o, int bytes) {
    if (const auto local = local_offset(o))
      return immediate(static_cast<std::uint64_t>(*local) + o.value, bytes);
    const Variable& v = variable(o);
    if (v.space == Space::kShared) {
      if (v.bytes == 0 && v.external) {
        dynamic_align_ = std::max(dynamic_align_, v.align);
        return constant(Source::kDynamicShared, bytes, o.value);
      }
      return immediate(static_cast<std::uint64_t>(shared_offset(v)) + o.value, bytes);
    }
    if (v.space == Space::kParam)
      return constant(Source::kParamAddress, 8, static_cast<std::uint64_t>(v.offset) + o.value);
    return immediate(addresses_.address.at(v.name) + o.value, 8);
  }

  std::int64_t shared_offset(const Variable& v) {
    const auto [at, added] = shared_.emplace(v.name, 0);
    if (added) {
      at->second = (p_.static_shared + v.align - 1) / v.align * v.align;
      p_.static_shared = static_cast<std::uint32_t>(at->second + v.bytes);
    }
    return at->second;
  }

  // Dynamic shared memory begins after the static one, whose size is known only at the end.
  void finish_shared() {
    const auto align = static_cast<std::uint32_t>(dynamic_align_);
    p_.static_shared = (p_.static_shared + align - 1) / align * align;
    for (Constant& c : p_.constants) {
      if (c.source != Source::kDynamicShared) continue;
      c.source = Source::kBits;
      c.bits += p_.static_shared;
    }
  }

  // --- Functions ---------------------------------------------------------------------------------

  std::int64_t allocate_local(const Variable& v) {
    const std::int64_t align = std::max(v.align, 4);
    const std::int64_t at = (p_.local_bytes + align - 1) / align * align;
    p_.local_bytes = static_cast<std::uint32_t>(at + v.bytes);
    return at;
  }

  void function(Frame& frame) {
    Function& f = *frame.function;
    if (!f.parsed) parse_body(text_, f);
    frame.first_register = static_cast<std::uint32_t>(registers_.size());
    for (const Register& r : f.registers)
      registers_.push_back(static_cast<std::uint8_t>(r.type == "pred" ? 1 : std::max(r.bytes, 2)));
    frame.first_line = static_cast<int>(p_.lines.size());
    p_.lines.insert(p_.lines.end(), f.lines.begin(), f.lines.end());
    for (const Variable& v : f.variables)
      frame.variables.push_back(
          v.space == Space::kLocal || v.space == Space::kParam ? allocate_local(v) : -1);
    frame.end_label = new_label();
    Frame* const outer = frame_;
    frame_ = &frame;
    std::vector<int> begin(f.statements.size() + 1);
    for (std::size_t i = 0; i < f.statements.size(); ++i) {
      begin[i] = static_cast<int>(p_.code.size());
      statement(f.statements[i]);
    }
    begin.back() = static_cast<int>(p_.code.size());
    for (const auto& [name, label] : frame.labels) labels_[label] = begin[f.labels.at(name)];
    labels_[frame.end_label] = begin.back();
    guard_ = kNone;
    emit(frame.entry ? Op::kExit : Op::kNop);
    frame_ = outer;
  }

  void statement(const Statement& s) {
    s_ = &s;
    line_ = frame_->first_line + s.line;
    guard_ = s.guard >= 0 ? reg(s.guard) : kNone;
    guard_negated_ = s.guard_negated;
    const std::size_t before = p_.code.size();
    const int line = line_;
    if (const int compute = compute_of(s.opcode); compute > p_.newest.compute)
      p_.newest = {compute, std::string(s.text) + " (" + place() + ")"};
    instruction(s.opcode);
    if (p_.code.size() == before) emit(Op::kNop);
    costs_.push_back(cost_of(s.opcode, static_cast<int>(before), line));
  }

  // The compute capability, times ten, that an instruction needs, or 0 if all supported GPUs have
  // it. Instructions that do nothing on an older GPU are not listed: griddepcontrol, and barriers
  // and addresses of clusters, which have one block there.
  static int compute_of(const Words& w) {
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

  static Cost cost_of(const Words& w, int position, int line) {
    Cost cost{position, line};
    const auto add = [&](Counted counted, int amount = 1) {
      cost.operations[static_cast<int>(counted)] += amount;
    };
    const std::string_view type = w.back(), op = w[0];
    const bool f64 = type == "f64", f32 = type == "f32",
               half = type.find("f16") != std::string_view::npos;
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

  void call(const Statement& s) {
    // call (results), name, (parameters); both lists are optional
    std::size_t i = 0;
    const std::vector<Operand> none;
    const std::vector<Operand>* results = &none;
    const std::vector<Operand>* params = &none;
    if (s.operands[i].kind == Kind::kVector) results = &s.operands[i++].parts;
    const Operand& callee = s.operands[i++];
    if (i < s.operands.size() && s.operands[i].kind == Kind::kVector) params = &s.operands[i].parts;
    if (callee.name == "vprintf" || callee.name == "__assertfail") {
      std::vector<std::uint32_t> values;
      for (const Operand& o : *params) {
        const Variable& v = variable(o);
        values.push_back(temporary(static_cast<int>(v.bytes)));
        load_local(*local_offset(o), values.back());
      }
      if (callee.name == "__assertfail") {
        const std::uint32_t e =
            extra({kNone, values.at(0), values.at(1), values.at(2), values.at(3)});
        emit(Op::kAssertFail).aux = e;
        return;
      }
      const std::uint32_t count = temporary(4);
      const std::uint32_t e = extra({count, values.at(0), values.at(1)});
      emit(Op::kPrint).aux = e;
      if (!results->empty()) store_local(*local_offset(results->at(0)), count);
      return;
    }
    if (frame_->depth > 30) fail("recursive calls are not supported");
    const int end = new_label();
    if (guard_ != kNone) {
      guard_negated_ = !guard_negated_;
      branch(end);
      guard_ = kNone;
    }
    if (callee.kind == Kind::kName) {
      const auto at = text_.functions.find(callee.name);
      if (at == text_.functions.end() || at->second.body.empty())
        fail("the called function is not in this module");
      inlined(at->second, *params, *results);
    } else {
      call_through(value(callee, 8), *params, *results, end);
    }
    labels_[end] = static_cast<int>(p_.code.size());
  }

  void inlined(Function& target, const std::vector<Operand>& params,
               const std::vector<Operand>& results) {
    if (params.size() != target.params.size() || results.size() != target.results.size())
      fail("wrong number of arguments");
    Frame frame{.function = &target, .entry = false, .depth = frame_->depth + 1};
    for (std::size_t k = 0; k < params.size(); ++k)
      frame.params[target.params[k].name] = *local_offset(params[k]);
    for (std::size_t k = 0; k < results.size(); ++k)
      frame.params[target.results[k].name] = *local_offset(results[k]);
    const Statement* const outer = s_;
    function(frame);
    s_ = outer;
  }

  // A call through a pointer: every function with these parameters may be the target.
  void call_through(std::uint32_t pointer, const std::vector<Operand>& params,
                    const std::vector<Operand>& results, int end) {
    const auto same = [&](const std::vector<Operand>& given, const std::vector<Variable>& wanted) {
      return std::equal(
          given.begin(), given.end(), wanted.begin(), wanted.end(),
          [&](const Operand& o, const Variable& v) { return variable(o).bytes == v.bytes; });
    };
    const int line = line_;
    for (const std::string_view name : text_.callable) {
      Function& target = text_.functions.at(name);
      if (!same(params, target.params) || !same(results, target.results)) continue;
      const std::uint32_t chosen = temporary(1);
      emit_alu("setp.eq.b64", chosen, pointer, immediate(addresses_.address.at(name), 8));
      const int next = new_label();
      guard_ = chosen, guard_negated_ = true;
      branch(next);
      guard_ = kNone;
      inlined(target, params, results);
      line_ = line;
      branch(end);
      labels_[next] = static_cast<int>(p_.code.size());
    }
    emit(Op::kTrap).mode = 1;
  }

  // --- Memory ------------------------------------------------------------------------------------

  std::uint32_t add_access(Access access) {
    access.line = line_;
    p_.accesses.push_back(access);
    return static_cast<std::uint32_t>(p_.accesses.size() - 1);
  }

  MoveFunction move_of(std::string_view type, int register_bytes, bool store) const {
    const MoveTable& moves = tables_.functions->moves;
    const std::string wanted =
        (is_signed_type(type) && !store && size_of_type(type) < register_bytes ? "s" : "b") +
        std::to_string(8 * size_of_type(type));
    for (std::size_t i = 0; i < moves.count; ++i)
      if (moves.entries[i].type == wanted && moves.entries[i].register_bytes == register_bytes)
        return store ? moves.entries[i].store : moves.entries[i].load;
    unknown();
  }

  void load_local(std::int64_t offset, std::uint32_t d) {
    Access access{.space = Space::kLocal};
    access.element_bytes = registers_[d];
    access.move = move_of("b" + std::to_string(8 * registers_[d]), registers_[d], false);
    access.address = immediate(static_cast<std::uint64_t>(offset), 4);
    access.address_bytes = 4;
    access.data[0] = d;
    emit(Op::kLoad).aux = add_access(access);
  }
  void store_local(std::int64_t offset, std::uint32_t value_register) {
    Access access{.space = Space::kLocal, .store = true};
    access.element_bytes = registers_[value_register];
    access.move = move_of("b" + std::to_string(8 * registers_[value_register]),
                          registers_[value_register], true);
    access.address = immediate(static_cast<std::uint64_t>(offset), 4);
    access.address_bytes = 4;
    access.data[0] = value_register;
    emit(Op::kStore).aux = add_access(access);
  }

  static Space space_of(const Words& w) {
    for (const std::string_view word : w) {
      if (word == "global") return Space::kGlobal;
      if (word == "shared" || word.starts_with("shared::")) return Space::kShared;
      if (word == "local") return Space::kLocal;
      if (word == "const") return Space::kConst;
      if (word == "param" || word.starts_with("param::")) return Space::kParam;
    }
    return Space::kGeneric;
  }

  // Fills in the address operand.
  void set_address(Access& access, const Operand& o) {
    if (o.kind != Kind::kAddress || o.parts.empty()) fail("expected an address");
    const Operand& base = o.parts[0];
    access.offset = static_cast<std::int64_t>(o.value);
    if (base.kind == Kind::kRegister) {
      access.address = reg(base.reg);
      access.address_bytes = static_cast<std::uint8_t>(bytes_of(base));
      if (access.address_bytes < 4) fail("addresses must have 32 or 64 bits");
    } else {
      const bool narrow = access.space == Space::kShared || access.space == Space::kLocal;
      access.address = value(base, narrow ? 4 : 8);
      access.address_bytes = narrow ? 4 : 8;
    }
  }

  void load_or_store(const Words& w, bool store) {
    const Statement& s = *s_;
    Access access;
    access.space = space_of(w);
    access.store = store;
    access.strong = contains(w, "volatile") || contains(w, "relaxed") || contains(w, "acquire") ||
                    contains(w, "release") || contains(w, "mmio");
    const Operand& place = s.operands[store ? 0 : 1];
    const Operand& data = s.operands[store ? 1 : 0];
    const std::string_view type = w.back();
    access.element_bytes = static_cast<std::uint8_t>(size_of_type(type));
    const std::vector<Operand> one{data};
    const std::vector<Operand>& list = data.kind == Kind::kVector ? data.parts : one;
    access.count = static_cast<std::uint8_t>(list.size());
    if (access.space == Space::kParam) {
      const Operand& base = place.parts.at(0);
      if (base.kind == Kind::kVariable && !local_offset(base) && !store) {
        for (std::size_t i = 0; i < list.size(); ++i) {
          if (list[i].kind == Kind::kSink) continue;
          const int bytes = bytes_of(list[i]);
          const std::uint64_t at = static_cast<std::uint64_t>(variable(base).offset) + place.value +
                                   i * access.element_bytes;
          emit_alu("mov.b" + std::to_string(8 * bytes), result(list[i], bytes),
                   constant(Source::kParam, bytes, at, access.element_bytes, is_signed_type(type)));
        }
        return;
      }
      // A parameter of an inlined function is local memory; an entry's parameters have host
      // addresses.
      access.space = frame_->entry && !(base.kind == Kind::kVariable && local_offset(base))
                         ? Space::kConst
                         : Space::kLocal;
    }
    int register_bytes = 0;
    for (const Operand& o : list)
      if (o.kind == Kind::kRegister) register_bytes = bytes_of(o);
    if (register_bytes == 0) register_bytes = std::max<int>(access.element_bytes, 2);
    for (std::size_t i = 0; i < list.size(); ++i)
      access.data[i] = store ? value(list[i], register_bytes) : result(list[i], register_bytes);
    access.move = move_of(type, register_bytes, store);
    access.register_bytes = static_cast<std::uint8_t>(register_bytes);
    set_address(access, place);
    if (contains(w, "release")) emit(Op::kFence);
    emit(store ? Op::kStore : Op::kLoad).aux = add_access(access);
    if (contains(w, "acquire")) emit(Op::kFence);
  }

  void atomic(const Words& w, bool reduction) {
    static const std::map<std::string_view, AtomicOp> kOps = {
        {"add", AtomicOp::kAdd},       {"min", AtomicOp::kMin},     {"max", AtomicOp::kMax},
        {"and", AtomicOp::kAnd},       {"or", AtomicOp::kOr},       {"xor", AtomicOp::kXor},
        {"exch", AtomicOp::kExchange}, {"cas", AtomicOp::kCompare}, {"inc", AtomicOp::kIncrement},
        {"dec", AtomicOp::kDecrement}};
    const Statement& s = *s_;
    Access access{.space = space_of(w), .atomic = true, .strong = true};
    bool known = false;
    for (const std::string_view word : w)
      if (const auto at = kOps.find(word); at != kOps.end())
        access.operation = at->second, known = true;
    // atom.add.noftz.f16x2, atom.global.v2.f32.add: the type is not always the last word
    std::string_view type;
    for (const std::string_view word : w)
      if (size_of_type(word) > 0) type = word;
    const int bytes = size_of_type(type);
    access.is_signed = is_signed_type(type), access.is_float = is_float_type(type);
    if (!known || bytes < 2 || bytes > 8) unknown();
    const bool logic =
        access.operation == AtomicOp::kCompare || access.operation == AtomicOp::kExchange;
    if (type.find("f16") != std::string_view::npos && !logic) {
      const AluEntry* entry = find(std::string(access.operation == AtomicOp::kMin   ? "min."
                                               : access.operation == AtomicOp::kMax ? "max."
                                                                                    : "add.") +
                                   std::string(type));
      if (entry == nullptr) unknown();
      access.combine = entry->function;
    } else if (bytes == 2 && !logic) {
      unknown();
    }
    access.element_bytes = static_cast<std::uint8_t>(bytes);
    std::size_t i = reduction ? 0 : 1;
    const bool vector = s.operands.at(i + 1).kind == Kind::kVector;
    if (!reduction && !vector && s.operands[0].kind != Kind::kSink)
      access.result = result(s.operands[0], bytes);
    set_address(access, s.operands.at(i));
    if (vector) {
      const auto& parts = s.operands[i + 1].parts;
      if (parts.size() > Access::kOldValues) unknown();
      access.count = static_cast<std::uint8_t>(parts.size());
      access.data.fill(kNone);
      for (std::size_t k = 0; k < parts.size(); ++k) {
        access.data[k] = value(parts[k], bytes);
        if (!reduction && s.operands[0].kind == Kind::kVector)
          access.data[Access::kOldValues + k] = result(s.operands[0].parts.at(k), bytes);
      }
    } else {
      access.operand = value(s.operands.at(i + 1), bytes);
      if (access.operation == AtomicOp::kCompare)
        access.second = value(s.operands.at(i + 2), bytes);
    }
    emit(Op::kAtomic).aux = add_access(access);
  }

  void copy_async(const Words& w) {
    const Statement& s = *s_;
    if (contains(w, "bulk")) return copy_bulk(w);
    if (contains(w, "mbarrier")) return mbarrier(w);
    if (contains(w, "commit_group")) {
      emit(Op::kCommitGroup);
      return;
    }
    if (contains(w, "wait_group") || contains(w, "wait_all")) {
      // wait_all also waits for copies that are not in a group.
      const std::uint32_t pending =
          contains(w, "wait_all") ? kNone : static_cast<std::uint32_t>(s.operands.at(0).value);
      emit(Op::kWaitGroup).aux = pending;
      return;
    }
    if (space_of(w) != Space::kShared) unknown();
    // [to], [from], bytes {, source bytes | predicate} {, cache policy}
    Access access{.space = Space::kShared, .store = true};
    access.element_bytes = static_cast<std::uint8_t>(s.operands.at(2).value);
    set_address(access, s.operands.at(0));
    Access source{.space = Space::kGlobal};
    set_address(source, s.operands.at(1));
    access.operand = source.address;
    if (source.address_bytes != 8) fail("global addresses must have 64 bits");
    access.source_offset = source.offset;
    const bool hint = contains(w, "L2::cache_hint");
    if (s.operands.size() > (hint ? 4u : 3u)) {
      const Operand& limit = s.operands[3];
      const bool predicate = limit.kind == Kind::kRegister && bytes_of(limit) == 1;
      access.second = value(limit, predicate ? 1 : 4);
      access.is_signed = predicate;  // marks a predicate: true ignores the source
    }
    emit(Op::kCopyAsync).aux = add_access(access);
  }

  // The address of an operand as a generic one, in a register of 64 bits.
  std::uint32_t generic_address(const Operand& o, Space space) {
    Access place{.space = space};
    set_address(place, o);
    std::uint32_t address = place.address;
    if (place.address_bytes == 4) {
      address = temporary(8);
      emit_alu("cvt.u64.u32", address, place.address);
    }
    const std::uint64_t added =
        static_cast<std::uint64_t>(place.offset) + (space == Space::kShared ? kSharedWindow : 0);
    if (added == 0) return address;
    const std::uint32_t sum = temporary(8);
    emit_alu("add.u64", sum, address, immediate(added, 8));
    return sum;
  }

  // mbarrier.* and cp.async.mbarrier.arrive
  void mbarrier(const Words& w) {
    const auto& o = s_->operands;
    Extra e = empty_extra();
    MbarrierMode mode;
    std::uint8_t bytes = 0;
    const auto address = [&](const Operand& place) {
      e.registers[kMbarrierAddress] = generic_address(place, space_of(w));
    };
    if (w[0] == "cp") {
      mode = MbarrierMode::kArriveOfCopies;
      bytes = contains(w, "noinc") ? 1 : 0;
      address(o.at(0));
    } else if (w[1] == "init" || w[1] == "inval") {
      mode = w[1] == "init" ? MbarrierMode::kInit : MbarrierMode::kInvalidate;
      address(o.at(0));
      if (w[1] == "init") e.registers[kMbarrierValue] = value(o.at(1), 4);
    } else if (w[1] == "expect_tx" || w[1] == "complete_tx") {
      mode = w[1] == "expect_tx" ? MbarrierMode::kExpect : MbarrierMode::kComplete;
      address(o.at(0));
      e.registers[kMbarrierBytes] = value(o.at(1), 4);
    } else if (w[1] == "arrive" || w[1] == "arrive_drop") {
      mode = w[1] == "arrive" ? MbarrierMode::kArrive : MbarrierMode::kArriveAndDrop;
      const bool has_state = o.at(0).kind != Kind::kAddress;
      if (has_state && o[0].kind != Kind::kSink) e.registers[kMbarrierResult] = result(o[0], 8);
      const std::size_t at = has_state ? 1 : 0;
      address(o.at(at));
      const bool expects = contains(w, "expect_tx");
      if (o.size() > at + 1)
        e.registers[expects ? kMbarrierBytes : kMbarrierValue] = value(o[at + 1], 4);
    } else if (w[1] == "test_wait" || w[1] == "try_wait") {
      const bool parity = contains(w, "parity");
      mode = parity ? MbarrierMode::kTestParity : MbarrierMode::kTest;
      e.registers[kMbarrierResult] = result(o.at(0), 1);
      address(o.at(1));
      e.registers[kMbarrierValue] = value(o.at(2), parity ? 4 : 8);
    } else if (w[1] == "pending_count") {
      mode = MbarrierMode::kPendingCount;
      e.registers[kMbarrierResult] = result(o.at(0), 4);
      e.registers[kMbarrierAddress] = value(o.at(1), 8);
    } else {
      unknown();
    }
    // Initialising a barrier is a store, the rest synchronises.
    Access access{.space = Space::kShared, .store = true};
    access.atomic = mode != MbarrierMode::kInit && mode != MbarrierMode::kInvalidate;
    access.element_bytes = 8;
    access.extra = add_extra(e);
    Inst& inst = emit(Op::kMbarrier);
    inst.aux = add_access(access);
    inst.mode = static_cast<std::uint8_t>(mode);
    inst.bytes = bytes;
  }

  // cp.async.bulk: copies of bytes and of boxes of tensors between global and shared memory
  void copy_bulk(const Words& w) {
    const auto& o = s_->operands;
    if (contains(w, "prefetch")) return;  // the emulator has no caches
    if (contains(w, "commit_group")) {
      emit(Op::kCommitBulk);
      return;
    }
    if (contains(w, "wait_group")) {
      emit(Op::kWaitBulk).aux = static_cast<std::uint32_t>(o.at(0).value);
      return;
    }
    if (contains(w, "im2col") || w[1] == "reduce") unknown();
    const bool tensor = contains(w, "tensor"), grouped = contains(w, "bulk_group");
    const bool between = !contains(w, "global");
    Extra e = empty_extra();
    const auto set = [&](BulkOperand which, std::uint32_t r) { e.registers[which] = r; };
    // The destination comes first.
    const Operand &to = o.at(0), &from = o.at(1);
    const Operand &shared = grouped ? from : to, &other = grouped ? to : from;
    set(kBulkShared, generic_address(shared, Space::kShared));
    std::size_t next = 2;
    if (tensor) {
      Operand map = other;
      if (map.parts.size() != 2 || map.parts[1].kind != Kind::kVector ||
          map.parts[1].parts.size() > 5)
        unknown();
      const auto& coordinates = map.parts[1].parts;
      for (std::size_t i = 0; i < coordinates.size(); ++i)
        e.registers[kBulkCoordinates + i] = value(coordinates[i], 4);
      map.parts.resize(1);
      set(kBulkOther, generic_address(map, Space::kGeneric));
    } else {
      set(kBulkOther, generic_address(other, between ? Space::kShared : Space::kGeneric));
      set(kBulkBytes, value(o.at(next++), 4));
    }
    if (!grouped) set(kBulkBarrier, generic_address(o.at(next++), Space::kShared));
    if (contains(w, "multicast::cluster")) {
      const std::uint32_t blocks = temporary(4);
      emit_alu("cvt.u32.u16", blocks, value(o.at(next++), 2));
      set(kBulkBlocks, blocks);
    }
    if (contains(w, "cp_mask")) {
      const std::uint32_t bytes = temporary(4);
      emit_alu("cvt.u32.u16", bytes, value(o.back(), 2));
      set(kBulkMask, bytes);
    }
    Access access{.space = Space::kShared, .store = !grouped};
    access.element_bytes = 16;
    access.extra = add_extra(e);
    Inst& inst = emit(Op::kCopyBulk);
    inst.aux = add_access(access);
    inst.mode = static_cast<std::uint8_t>(between   ? BulkMode::kSharedToShared
                                          : grouped ? BulkMode::kStore
                                                    : BulkMode::kLoad);
  }

  // --- Matrices ----------------------------------------------------------------------------------

  struct Shape {
    int m, n, k;
  };
  Shape shape_of(const Words& w) const {
    for (const std::string_view word : w)
      if (Shape s; std::sscanf(std::string(word).c_str(), "m%dn%dk%d", &s.m, &s.n, &s.k) == 3)
        return s;
    unknown();
  }
  std::optional<Number> number_of(std::string_view type) const {
    static const std::map<std::string_view, Number> kNumbers = {
        {"f16", Number::kF16}, {"bf16", Number::kBf16}, {"tf32", Number::kTf32},
        {"f32", Number::kF32}, {"f64", Number::kF64},   {"s8", Number::kS8},
        {"u8", Number::kU8},   {"s32", Number::kS32}};
    const auto at = kNumbers.find(type);
    return at == kNumbers.end() ? std::nullopt : std::optional(at->second);
  }
  static int bytes_of(Number number) {
    switch (number) {
      case Number::kF16:
      case Number::kBf16:
        return 2;
      case Number::kS8:
      case Number::kU8:
        return 1;
      case Number::kF64:
        return 8;
      default:
        return 4;
    }
  }

  void multiply_matrices(const Words& w) {
    const auto& o = s_->operands;
    const Shape shape = shape_of(w);
    std::vector<Number> types;
    for (const std::string_view word : w)
      if (const auto number = number_of(word)) types.push_back(*number);
    // wmma.mma on f16 names d and c only.
    const bool opaque = w[0] == "wmma";
    if (opaque && types.size() == 2) types = {types[0], Number::kF16, Number::kF16, types[1]};
    const bool known = types.size() == 4 && (opaque || (shape.n == 8 && shape.m <= 16));
    const bool volta = !opaque && shape.m == 8 && types.size() == 4 && types[1] == Number::kF16;
    if (!known || volta || o.size() < 4) unknown();
    MatrixProduct product;
    product.m = shape.m, product.n = shape.n, product.k = shape.k;
    product.opaque = opaque;
    product.saturates = contains(w, "satfinite");
    Extra e = empty_extra();
    int next = 0;
    const auto add = [&](const Operand& list, Number type, bool is_result) {
      const std::vector<Operand> one{list};
      const auto& parts = list.kind == Kind::kVector ? list.parts : one;
      const int bytes = std::max(bytes_of(type), 4);
      MatrixProduct::Fragment f{type, next, static_cast<int>(parts.size())};
      for (const Operand& part : parts)
        e.registers.at(next++) = is_result ? result(part, bytes) : value(part, bytes);
      return f;
    };
    product.d = add(o[0], types[0], true);
    e.results = next;
    product.a = add(o[1], types[1], false);
    product.b = add(o[2], types[2], false);
    product.c = add(o[3], types[3], false);
    product.extra = add_extra(e);
    p_.matrices.push_back(product);
    emit(Op::kMatrix).aux = static_cast<std::uint32_t>(p_.matrices.size() - 1);
  }

  // Loads or stores one element per lane. `address` has 64 bits and is in `space`.
  void move_element(Space space, int bytes, std::uint32_t address, std::uint32_t data, bool store) {
    Access access{.space = space, .store = store};
    access.element_bytes = static_cast<std::uint8_t>(bytes);
    access.register_bytes = registers_[data & ~kConstantBit];
    access.move = move_of("b" + std::to_string(8 * bytes), access.register_bytes, store);
    access.address = address;
    access.data[0] = data;
    emit(store ? Op::kStore : Op::kLoad).aux = add_access(access);
  }
  std::uint32_t combined(std::string_view op, int bytes, std::uint32_t a, std::uint32_t b) {
    const std::uint32_t d = temporary(bytes);
    emit_alu(op, d, a, b);
    return d;
  }

  // wmma.load and wmma.store. Slot s of lane l of a fragment holds element s * 32 + l of the
  // matrix, in row-major order; if there are more slots than elements, the elements repeat.
  void move_fragment(const Words& w) {
    const auto& o = s_->operands;
    const bool store = w[1] == "store";
    const Shape shape = shape_of(w);
    const auto type = number_of(w.back());
    if (!type) unknown();
    const bool is_a = w[2] == "a", is_b = w[2] == "b";
    const int rows = is_b ? shape.k : shape.m, columns = is_a ? shape.k : shape.n;
    const bool by_row = contains(w, "row");
    const Operand& list = o.at(store ? 1 : 0);
    const std::vector<Operand> one{list};
    const auto& parts = list.kind == Kind::kVector ? list.parts : one;
    Space space = space_of(w);
    const std::uint32_t base = generic_address(o.at(store ? 0 : 1), space);
    if (space == Space::kShared) space = Space::kGeneric;
    const std::uint32_t pitch =
        o.size() > 2 ? value(o[2], 4) : immediate(by_row ? columns : rows, 4);
    const int bytes = bytes_of(*type), whole = std::max(bytes, 4), per_register = whole / bytes;
    const auto lane = static_cast<std::uint32_t>(ThreadValue::kLane);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<std::uint32_t> elements;
      const std::uint32_t whole_register = store ? value(parts[i], whole) : kNone;
      for (int k = 0; k < per_register; ++k) {
        const auto slot = static_cast<std::uint64_t>(i) * per_register + k;
        const std::uint32_t index =
            combined("and.b32", 4, combined("add.u32", 4, lane, immediate(32 * slot, 4)),
                     immediate(static_cast<std::uint64_t>(rows) * columns - 1, 4));
        const std::uint32_t row = combined("div.u32", 4, index, immediate(columns, 4)),
                            column = combined("rem.u32", 4, index, immediate(columns, 4));
        const std::uint32_t element = temporary(4), offset = temporary(8), address = temporary(8);
        emit_alu("mad.lo.u32", element, by_row ? row : column, pitch, by_row ? column : row);
        emit_alu("mul.wide.u32", offset, element, immediate(bytes, 4));
        emit_alu("add.u64", address, base, offset);
        const std::uint32_t data =
            bytes == whole && store ? whole_register : temporary(std::max(bytes, 2));
        elements.push_back(data);
        if (store && bytes == 2) emit_alu(k == 0 ? "low.b32" : "high.b32", data, whole_register);
        move_element(space, bytes, address, data, store);
      }
      if (store) continue;
      const std::uint32_t d = result(parts[i], whole);
      if (per_register == 1) {
        emit_alu("mov.b" + std::to_string(8 * whole), d, elements[0]);
      } else if (per_register == 2) {
        emit_alu("pack.b32", d, elements[0], elements[1]);
      } else {
        std::uint32_t halves[2];
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t high =
              combined("shl.b16", 2, elements[2 * half + 1], immediate(8, 4));
          halves[half] = combined("or.b16", 2, elements[2 * half], high);
        }
        emit_alu("pack.b32", d, halves[0], halves[1]);
      }
    }
  }

  // ldmatrix and stmatrix: 8 x 8 matrices of 16-bit elements. Lane 8 i + r has the address of row r
  // of matrix i; lane l holds the elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
  void move_matrices(const Words& w) {
    const auto& o = s_->operands;
    const bool store = w[0] == "stmatrix", transposed = contains(w, "trans");
    if (!contains(w, "m8n8") || w.back() != "b16") unknown();
    const Operand& list = o.at(store ? 1 : 0);
    const std::vector<Operand> one{list};
    const auto& parts = list.kind == Kind::kVector ? list.parts : one;
    const std::uint32_t address = generic_address(o.at(store ? 0 : 1), Space::kShared);
    const auto lane = static_cast<std::uint32_t>(ThreadValue::kLane);
    const std::uint32_t low = temporary(4), high = temporary(4);
    emit_alu("low.b64", low, address);
    emit_alu("high.b64", high, address);
    const std::uint32_t fourth = combined("shr.u32", 4, lane, immediate(2, 4)),
                        pair = combined("shl.b32", 4, combined("and.b32", 4, lane, immediate(3, 4)),
                                        immediate(1, 4));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::uint32_t elements[2];
      const std::uint32_t whole = store ? value(parts[i], 4) : kNone;
      for (std::uint64_t k = 0; k < 2; ++k) {
        const std::uint32_t second = combined("add.u32", 4, pair, immediate(k, 4));
        const std::uint32_t row = transposed ? second : fourth,
                            column = transposed ? fourth : second;
        const std::uint32_t from = combined("add.u32", 4, row, immediate(8 * i, 4));
        const std::uint32_t start = temporary(4);
        const std::uint32_t e = extra({kNone, low, from, immediate(31, 4), immediate(~0u, 4)});
        Inst& inst = emit(Op::kShuffle);
        inst.d = start, inst.aux = e, inst.bytes = 4;
        inst.mode = static_cast<std::uint8_t>(ShuffleMode::kIndex);
        const std::uint32_t at = temporary(4), wide = temporary(8);
        emit_alu("mad.lo.u32", at, column, immediate(2, 4), start);
        emit_alu("pack.b64", wide, at, high);
        elements[k] = temporary(2);
        if (store) emit_alu(k == 0 ? "low.b32" : "high.b32", elements[k], whole);
        move_element(Space::kGeneric, 2, wide, elements[k], store);
      }
      if (!store) emit_alu("pack.b32", result(parts[i], 4), elements[0], elements[1]);
    }
  }

  // --- Instructions ------------------------------------------------------------------------------

  void instruction(const Words& w) {
    const std::string_view op = w[0];
    const Statement& s = *s_;
    const auto& o = s.operands;
    if (op == "ld" || op == "ldu") return load_or_store(w, false);
    if (op == "st" && !contains(w, "async") && !contains(w, "bulk")) return load_or_store(w, true);
    if (op == "atom") return atomic(w, false);
    if (op == "red" && !contains(w, "async")) return atomic(w, true);
    if (op == "cp") return copy_async(w);
    if (op == "mbarrier") return mbarrier(w);
    if (op == "mma" || (op == "wmma" && w[1] == "mma")) return multiply_matrices(w);
    if (op == "wmma") return move_fragment(w);
    if (op == "ldmatrix" || op == "stmatrix") return move_matrices(w);
    if (op == "mov" && o.size() == 2) return move(w, o[0], o[1]);
    if (op == "cvt") return convert(w);
    if (op == "cvta") return convert_address(w);
    if (op == "bra") return branch(label_of(o.at(0).name));
    if (op == "brx") return branch_indexed();
    if (op == "call") return call(s);
    if (op == "ret" || op == "exit") {
      if (op == "ret" && !frame_->entry) return branch(frame_->end_label);
      emit(Op::kExit);
      return;
    }
    if (op == "trap" || op == "brkpt") {
      emit(Op::kTrap);
      return;
    }
    if (op == "bar" || op == "barrier") return barrier(w);
    if (op == "shfl") return shuffle(w);
    if (op == "vote") return vote(w);
    if (op == "match") return match(w);
    if (op == "redux") return warp_reduce(w);
    if (op == "elect") {
      const std::uint32_t lane =
          o.at(0).kind == Kind::kVector ? result(o[0].parts[0], 4) : temporary(4);
      const std::uint32_t predicate = result(o[0].kind == Kind::kVector ? o[0].parts[1] : o[0], 1);
      const std::uint32_t e = extra({predicate, value(o.at(1), 4)});
      Inst& inst = emit(Op::kElect);
      inst.d = lane, inst.aux = e, inst.bytes = 4;
      return;
    }
    if (op == "activemask") {
      const std::uint32_t d = result(o.at(0), 4);
      Inst& inst = emit(Op::kActiveMask);
      inst.d = d, inst.bytes = 4;
      return;
    }
    if (op == "mapa") return map_rank(w);
    if (op == "isspacep") {
      const std::uint32_t d = result(o.at(0), 1), a = value(o.at(1), 8);
      Inst& inst = emit(Op::kSpacePredicate);
      inst.d = d, inst.a = a, inst.bytes = 1, inst.mode = static_cast<std::uint8_t>(space_of(w));
      return;
    }
    if (op == "nanosleep") {
      emit(Op::kPause);
      return;
    }
    if (op == "membar" || op == "fence") {
      emit(Op::kFence);
      return;
    }
    // The emulator executes the memory operations of a warp in order and caches nothing.
    if (op == "prefetch" || op == "prefetchu" || op == "griddepcontrol" || op == "applypriority" ||
        op == "discard" || op == "pmevent" || op == "setmaxnreg")
      return;
    if (op == "createpolicy") return emit_alu("mov.b64", result(o.at(0), 8), immediate(0, 8));
    if (op == "setp") return compare(w);
    if (op == "set") return compare_to_value(w);
    if (op == "lop3") return logic3();
    if (op == "bfi") return bit_insert(w);
    if (op == "slct") return select_by_sign(w);
    if (op == "add" || op == "sub" || op == "mad" || op == "addc" || op == "subc" || op == "madc")
      if (op.ends_with('c') || contains(w, "cc")) return carry(w);
    element_wise(w);
  }

  // Instructions that are in the tables.
  void element_wise(const Words& w) {
    const auto& o = s_->operands;
    Words name;
    bool ftz = false, sat = false;
    const std::string_view type = w.back();
    const bool is_float = is_float_type(type);
    for (std::size_t i = 0; i + 1 < w.size(); ++i) {
      if (w[i] == "ftz")
        ftz = true;
      else if (w[i] == "sat" && is_float)
        sat = true;
      else if (w[i] != "rn" || !is_float)
        name.push_back(w[i]);
    }
    if (name[0] == "mad" && is_float) name[0] = "fma";
    if (ftz && type.find("16") == std::string_view::npos) name.push_back("ftz");
    std::string typed(type);
    static constexpr std::string_view kUntyped[] = {"and",  "or",  "xor",  "not", "cnot", "shl",
                                                    "selp", "mov", "popc", "clz", "brev"};
    if (std::find(std::begin(kUntyped), std::end(kUntyped), name[0]) != std::end(kUntyped))
      typed = bits_type(type);
    if (name[0] == "prmt" && w.size() > 2) typed = "b32." + std::string(w[2]), name = {"prmt"};
    name.push_back(typed);
    const AluEntry* entry = find(joined(name));
    if (entry == nullptr && w.size() > 2 && w[0] == "bfind" && w[1] == "shiftamt") {
      const std::uint32_t bit = temporary(4);
      emit_alu("bfind." + std::string(type), bit, value(o.at(1), size_of_type(type)));
      return emit_alu("sub.u32", result(o.at(0), 4), immediate(8 * size_of_type(type) - 1, 4), bit);
    }
    if (entry == nullptr) unknown();
    std::uint32_t operands[3] = {kNone, kNone, kNone};
    for (int i = 0; i < 3; ++i)
      if (entry->bytes[i + 1] != 0) operands[i] = value(o.at(i + 1), entry->bytes[i + 1]);
    const Operand& d = o.at(0);
    if (!sat)
      return emit_alu(*entry, result(d, entry->bytes[0]), operands[0], operands[1], operands[2]);
    if (type != "f32" && type != "f64") unknown();
    const std::uint32_t wide = temporary(entry->bytes[0]);
    emit_alu(*entry, wide, operands[0], operands[1], operands[2]);
    emit_alu("sat." + std::string(type), result(d, entry->bytes[0]), wide);
  }

  void move(const Words& w, const Operand& d, const Operand& a) {
    const int bytes = size_of_type(w.back());
    if (w.back() == "pred") return emit_alu("mov.pred", result(d, 1), value(a, 1));
    if (d.kind != Kind::kVector && a.kind != Kind::kVector)
      return emit_alu(bits_type(w.back()) == "b8" ? "mov.b16" : "mov." + bits_type(w.back()),
                      result(d, bytes), value(a, bytes));
    if (d.kind == Kind::kVector && a.kind == Kind::kVector) unknown();
    const auto& parts = d.kind == Kind::kVector ? d.parts : a.parts;
    const int part = bytes / static_cast<int>(parts.size());
    if (part < 2 || bytes > 8 || (parts.size() != 2 && parts.size() != 4)) unknown();
    if (d.kind == Kind::kVector) {
      std::uint32_t whole = value(a, bytes);
      if (parts.size() == 4) {  // four 16-bit parts of 64 bits
        const std::uint32_t halves[2] = {temporary(4), temporary(4)};
        emit_alu("low.b64", halves[0], whole);
        emit_alu("high.b64", halves[1], whole);
        for (int i = 0; i < 4; ++i)
          if (parts[i].kind != Kind::kSink)
            emit_alu(i % 2 == 0 ? "low.b32" : "high.b32", result(parts[i], 2), halves[i / 2]);
        return;
      }
      // A part may be the same register as the whole.
      const std::string suffix = bytes == 8 ? ".b64" : ".b32";
      const std::uint32_t low = parts[0].kind == Kind::kSink ? kNone : temporary(part);
      if (low != kNone) emit_alu("low" + suffix, low, whole);
      if (parts[1].kind != Kind::kSink) emit_alu("high" + suffix, result(parts[1], part), whole);
      if (low != kNone) emit_alu(part == 4 ? "mov.b32" : "mov.b16", result(parts[0], part), low);
      return;
    }
    std::vector<std::uint32_t> values;
    for (const Operand& o : parts) values.push_back(value(o, part));
    if (parts.size() == 4) {
      const std::uint32_t halves[2] = {temporary(4), temporary(4)};
      emit_alu("pack.b32", halves[0], values[0], values[1]);
      emit_alu("pack.b32", halves[1], values[2], values[3]);
      return emit_alu("pack.b64", result(d, 8), halves[0], halves[1]);
    }
    emit_alu(bytes == 8 ? "pack.b64" : "pack.b32", result(d, bytes), values[0], values[1]);
  }

  void convert(const Words& w) {
    const auto& o = s_->operands;
    const std::string to(w[w.size() - 2]), from(w.back());
    const auto stored = [](std::string_view type) { return std::max(size_of_type(type), 2); };
    bool ftz = false, sat = false, relu = false;
    std::string rounding;
    for (std::size_t i = 1; i + 2 < w.size(); ++i) {
      if (w[i] == "ftz")
        ftz = true;
      else if (w[i] == "sat")
        sat = true;
      else if (w[i] == "relu")
        relu = true;
      else
        rounding = w[i];
    }
    if (o.size() == 3) {  // two float32 to a pair
      const AluEntry* entry = find("cvt." + rounding + "." + to + "." + from);
      if (entry == nullptr || sat || relu) unknown();
      return emit_alu(*entry, result(o[0], 4), value(o[1], 4), value(o[2], 4), kNone);
    }
    std::uint32_t source;
    const int source_bytes = bytes_of(o[1]);
    if (o[1].kind == Kind::kRegister && source_bytes > stored(from)) {
      source = temporary(stored(from));
      emit_alu("cvt.u" + std::to_string(8 * stored(from)) + ".u" + std::to_string(8 * source_bytes),
               source, reg(o[1].reg));
    } else {
      source = value(o[1], stored(from));
    }
    if (ftz && from == "f32") {
      const std::uint32_t flushed = temporary(4);
      emit_alu("add.ftz.f32", flushed, source, immediate(0x80000000u, 4));
      source = flushed;
    }
    const bool integer = !is_float_type(to) && !is_float_type(from);
    if (!is_float_type(to) && is_float_type(from)) sat = false;  // always clamped
    if (to == from && is_float_type(to) && (rounding == "rn")) rounding.clear();
    std::string name = "cvt";
    if (!rounding.empty()) name += "." + rounding;
    if (relu) name += ".relu";
    if (sat && integer) name += ".sat";
    const AluEntry* entry = find(name + "." + to + "." + from);
    if (entry == nullptr) unknown();
    const int bytes = o[0].kind == Kind::kRegister ? bytes_of(o[0]) : stored(to);
    const bool extend = bytes > stored(to), clamp = sat && !integer, flush = ftz && to == "f32";
    std::uint32_t d = extend || clamp || flush ? temporary(stored(to)) : result(o[0], bytes);
    emit_alu(*entry, d, source, kNone, kNone);
    if (flush) {
      const std::uint32_t next = clamp ? temporary(4) : result(o[0], 4);
      emit_alu("add.ftz.f32", next, d, immediate(0x80000000u, 4));
      d = next;
    }
    if (clamp) {
      if (to != "f32" && to != "f64") unknown();
      emit_alu("sat." + to, result(o[0], bytes), d);
    } else if (extend) {
      const char* sign = is_signed_type(to) ? "s" : "u";
      emit_alu(
          "cvt." + (sign + std::to_string(8 * bytes)) + "." + sign + std::to_string(8 * stored(to)),
          result(o[0], bytes), d);
    }
  }

  void convert_address(const Words& w) {
    const auto& o = s_->operands;
    const int bytes = size_of_type(w.back());
    if (bytes != 8) unknown();
    const bool to = contains(w, "to");
    Space space = space_of(w);
    if (space == Space::kParam && !frame_->entry) space = Space::kLocal;
    const std::uint64_t window = space == Space::kShared  ? kSharedWindow
                                 : space == Space::kLocal ? kLocalWindow
                                                          : 0;
    const std::uint32_t d = result(o.at(0), 8), a = value(o.at(1), 8);
    if (window == 0) return emit_alu("mov.b64", d, a);
    emit_alu(to ? "sub.u64" : "add.u64", d, a, immediate(window, 8));
  }

  void branch(int label) { emit(Op::kBranch).aux = static_cast<std::uint32_t>(label); }
  void branch_indexed() {
    const auto& o = s_->operands;
    const auto table = frame_->function->branch_tables.find(o.at(1).name);
    if (table == frame_->function->branch_tables.end() || guard_ != kNone) unknown();
    const std::uint32_t index = value(o[0], 4);
    for (std::size_t i = 0; i < table->second.size(); ++i) {
      guard_ = kNone;
      const std::uint32_t chosen = temporary(1);
      emit_alu("setp.eq.b32", chosen, index, immediate(i, 4));
      if (i + 1 < table->second.size()) guard_ = chosen, guard_negated_ = false;
      branch(label_of(table->second[i]));
    }
  }

  void barrier(const Words& w) {
    const auto& o = s_->operands;
    if (contains(w, "warp")) {
      const std::uint32_t members = value(o.at(0), 4);
      emit(Op::kWarpBarrier).a = members;
      return;
    }
    if (contains(w, "cluster")) {
      emit(contains(w, "arrive") ? Op::kClusterArrive : Op::kClusterWait);
      return;
    }
    std::size_t i = 0;
    Inst inst;
    inst.mode = static_cast<std::uint8_t>(contains(w, "arrive") ? BarrierMode::kArrive
                                                                : BarrierMode::kSync);
    if (contains(w, "red")) {
      inst.mode = static_cast<std::uint8_t>(contains(w, "popc")  ? BarrierMode::kPopulation
                                            : contains(w, "and") ? BarrierMode::kAnd
                                                                 : BarrierMode::kOr);
      inst.bytes = contains(w, "popc") ? 4 : 1;
      inst.d = result(o.at(i++), inst.bytes);
      inst.c = value(o.back(), 1);
    }
    inst.a = value(o.at(i++), 4);
    if (i < o.size() - (inst.c != kNone ? 1 : 0)) inst.b = value(o[i], 4);
    Inst& emitted = emit(Op::kBarrier);
    inst.op = Op::kBarrier, inst.guard = emitted.guard, inst.guard_negated = emitted.guard_negated;
    emitted = inst;
  }

  void shuffle(const Words& w) {
    const auto& o = s_->operands;
    if (!contains(w, "sync")) unknown();
    const bool pair = o.at(0).kind == Kind::kVector;
    const std::uint32_t d = result(pair ? o[0].parts[0] : o[0], 4),
                        predicate = pair ? result(o[0].parts[1], 1) : kNone;
    const std::uint32_t e = extra(
        {predicate, value(o.at(1), 4), value(o.at(2), 4), value(o.at(3), 4), value(o.at(4), 4)});
    Inst& inst = emit(Op::kShuffle);
    inst.d = d, inst.aux = e, inst.bytes = 4;
    inst.mode = static_cast<std::uint8_t>(contains(w, "up")     ? ShuffleMode::kUp
                                          : contains(w, "down") ? ShuffleMode::kDown
                                          : contains(w, "bfly") ? ShuffleMode::kButterfly
                                                                : ShuffleMode::kIndex);
  }
  void vote(const Words& w) {
    const auto& o = s_->operands;
    if (!contains(w, "sync")) unknown();
    const bool ballot = contains(w, "ballot");
    const std::uint32_t d = result(o.at(0), ballot ? 4 : 1);
    const std::uint32_t e = extra({kNone, value(o.at(1), 1), value(o.at(2), 4)});
    Inst& inst = emit(Op::kVote);
    inst.d = d, inst.aux = e, inst.bytes = ballot ? 4 : 1;
    inst.mode = static_cast<std::uint8_t>(ballot               ? VoteMode::kBallot
                                          : contains(w, "all") ? VoteMode::kAll
                                          : contains(w, "any") ? VoteMode::kAny
                                                               : VoteMode::kUniform);
  }
  void match(const Words& w) {
    const auto& o = s_->operands;
    const int bytes = size_of_type(w.back());
    const bool pair = o.at(0).kind == Kind::kVector, all = contains(w, "all");
    const std::uint32_t d = result(pair ? o[0].parts[0] : o[0], 4);
    const std::uint32_t e =
        extra({pair ? result(o[0].parts[1], 1) : kNone, value(o.at(1), bytes), value(o.at(2), 4)});
    Inst& inst = emit(Op::kMatch);
    inst.d = d, inst.aux = e, inst.bytes = 4;
    inst.mode = static_cast<std::uint8_t>((all ? 1 : 0) | (bytes == 8 ? 2 : 0));
  }
  void warp_reduce(const Words& w) {
    const auto& o = s_->operands;
    static const std::map<std::string_view, ReduceMode> kModes = {
        {"add", ReduceMode::kAdd}, {"min", ReduceMode::kMin}, {"max", ReduceMode::kMax},
        {"and", ReduceMode::kAnd}, {"or", ReduceMode::kOr},   {"xor", ReduceMode::kXor}};
    const auto mode = kModes.find(w.at(2));
    if (mode == kModes.end() || is_float_type(w.back())) unknown();
    const std::uint32_t d = result(o.at(0), 4);
    const std::uint32_t e = extra({kNone, value(o.at(1), 4), value(o.at(2), 4)});
    Inst& inst = emit(Op::kWarpReduce);
    inst.d = d, inst.aux = e, inst.bytes = 4;
    inst.mode = static_cast<std::uint8_t>(static_cast<int>(mode->second) |
                                          (is_signed_type(w.back()) ? 16 : 0));
  }
  void map_rank(const Words& w) {
    const auto& o = s_->operands;
    const int bytes = size_of_type(w.back());
    const bool shared = space_of(w) == Space::kShared;
    if (shared && bytes != 4) unknown();
    const std::uint32_t d = result(o.at(0), bytes), a = value(o.at(1), bytes),
                        b = value(o.at(2), 4);
    Inst& inst = emit(Op::kMapRank);
    inst.d = d, inst.a = a, inst.b = b, inst.bytes = static_cast<std::uint8_t>(bytes);
    inst.mode = shared ? 0 : 1;
  }

  // setp.CmpOp{.BoolOp}.type p{|q}, a, b{, c}
  void compare(const Words& w) {
    const auto& o = s_->operands;
    const bool pair = o.at(0).kind == Kind::kVector, combined = o.size() == 4;
    const std::uint32_t p = pair ? result(o[0].parts[0], 1) : result(o[0], 1);
    const std::uint32_t q = pair ? result(o[0].parts[1], 1) : kNone;
    const std::string boolean = combined ? std::string(w[2]) + ".pred" : "";
    const std::uint32_t third = combined ? value(o[3], 1) : kNone;
    const std::uint32_t plain = combined || pair ? temporary(1) : p;
    comparison(w, 1, plain, o.at(1), o.at(2));
    if (q != kNone) {
      const std::uint32_t inverse = combined ? temporary(1) : q;
      emit_alu("not.pred", inverse, plain);
      if (combined) emit_alu(boolean, q, inverse, third);
    }
    if (combined)
      emit_alu(boolean, p, plain, third);
    else if (pair)
      emit_alu("mov.pred", p, plain);
  }
  void comparison(const Words& w, std::size_t at, std::uint32_t d, const Operand& a,
                  const Operand& b, std::string_view type = {}) {
    if (type.empty()) type = w.back();
    std::string op(w[at]);
    static const std::map<std::string, std::string> kUnsigned = {
        {"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
    if (const auto u = kUnsigned.find(op); u != kUnsigned.end()) op = u->second;
    const bool ftz = contains(w, "ftz") && type == "f32";
    const AluEntry* entry = find("setp." + op + (ftz ? ".ftz." : ".") + std::string(type));
    if (entry == nullptr) unknown();
    emit_alu(*entry, d, value(a, entry->bytes[1]), value(b, entry->bytes[2]), kNone);
  }
  // set.CmpOp.dtype.stype
  void compare_to_value(const Words& w) {
    const auto& o = s_->operands;
    const std::string_view to = w[w.size() - 2];
    if (o.size() != 3 || size_of_type(to) != 4) unknown();
    const std::uint32_t p = temporary(1);
    comparison(w, 1, p, o[1], o[2]);
    emit_alu("selp.b32", result(o[0], 4), immediate(to == "f32" ? 0x3f800000u : 0xffffffffu, 4),
             immediate(0, 4), p);
  }
  void logic3() {
    const auto& o = s_->operands;
    const std::uint32_t in[3] = {value(o.at(1), 4), value(o.at(2), 4), value(o.at(3), 4)};
    const std::uint64_t table = o.at(4).value;
    std::uint32_t not_in[3], sum = immediate(0, 4);
    for (int i = 0; i < 3; ++i) emit_alu("not.b32", not_in[i] = temporary(4), in[i]);
    for (int row = 0; row < 8; ++row) {
      if (!((table >> row) & 1)) continue;
      const std::uint32_t ab = temporary(4), abc = temporary(4), next = temporary(4);
      emit_alu("and.b32", ab, row & 4 ? in[0] : not_in[0], row & 2 ? in[1] : not_in[1]);
      emit_alu("and.b32", abc, ab, row & 1 ? in[2] : not_in[2]);
      emit_alu("or.b32", next, sum, abc);
      sum = next;
    }
    emit_alu("mov.b32", result(o[0], 4), sum);
  }
  void bit_insert(const Words& w) {
    const auto& o = s_->operands;
    const int bytes = size_of_type(w.back());
    std::uint32_t where;
    if (o.at(3).kind == Kind::kImmediate && o.at(4).kind == Kind::kImmediate) {
      where = immediate((o[3].value & 0xff) | (o[4].value & 0xff) << 8, 4);
    } else {
      where = temporary(4);
      emit_alu("bfi.where", where, value(o[3], 4), value(o[4], 4));
    }
    emit_alu("bfi.b" + std::to_string(8 * bytes), result(o[0], bytes), value(o[1], bytes),
             value(o[2], bytes), where);
  }
  void select_by_sign(const Words& w) {
    const auto& o = s_->operands;
    const std::string_view type = w[w.size() - 2];
    const bool is_float = w.back() == "f32";
    const std::uint32_t p = temporary(1);
    emit_alu(is_float ? "setp.ge.f32" : "setp.ge.s32", p, value(o.at(3), 4), immediate(0, 4));
    const int bytes = size_of_type(type);
    emit_alu("selp." + bits_type(type), result(o[0], bytes), value(o[1], bytes), value(o[2], bytes),
             p);
  }

  // add.cc, addc, sub.cc, subc, mad.lo.cc, madc.lo and madc.hi: a - b is a + ~b + 1.
  void carry(const Words& w) {
    const auto& o = s_->operands;
    const std::string_view type = w.back();
    const int bytes = size_of_type(type);
    const std::string bits = ".b" + std::to_string(8 * bytes);
    if (bytes < 4) unknown();
    if (carry_ == kNone) carry_ = temporary(1);
    const bool subtract = w[0].starts_with("sub"), multiply = w[0].starts_with("mad"),
               carries_in = w[0].ends_with('c');
    std::uint32_t a = value(o.at(1), bytes), b = value(o.at(2), bytes);
    if (multiply) {
      const std::uint32_t product = temporary(bytes);
      emit_alu("mul." + std::string(contains(w, "hi") ? "hi." : "lo.") + std::string(type), product,
               a, b);
      a = product, b = value(o.at(3), bytes);
    }
    if (subtract) {
      const std::uint32_t inverse = temporary(bytes);
      emit_alu("not" + bits, inverse, b);
      b = inverse;
    }
    // After a subtraction the flag holds the carry of a + ~b + 1, the inverse of the borrow.
    const std::uint32_t in = carries_in ? carry_ : immediate(subtract ? 1 : 0, 1);
    const std::uint32_t out = temporary(1), sum = temporary(bytes);
    if (contains(w, "cc")) emit_alu("carry" + bits, out, a, b, in);
    emit_alu("addc" + bits, sum, a, b, in);
    if (contains(w, "cc")) emit_alu("mov.pred", carry_, out);
    emit_alu("mov" + bits, result(o[0], bytes), sum);
  }

  Text& text_;
  const ModuleAddresses& addresses_;
  const Tables& tables_;
  Program p_;
  std::vector<std::uint8_t> registers_;  // bytes per lane
  std::map<std::tuple<Source, int, std::uint64_t, int, bool>, std::uint32_t> constants_;
  std::vector<int> labels_;
  std::vector<Cost> costs_;
  std::unordered_map<std::string_view, std::int64_t> shared_;
  int dynamic_align_ = 16;  // of dynamic shared memory
  std::uint32_t carry_ = kNone;
  Frame* frame_ = nullptr;
  const Statement* s_ = nullptr;
  int line_ = 0;
  std::uint32_t guard_ = kNone;
  bool guard_negated_ = false;
};

}  // namespace

Program decode(Text& text, Function& entry, const ModuleAddresses& addresses, Isa isa) {
  return Decoder(text, addresses, isa).run(entry);
}

}  // namespace ado::emulator
