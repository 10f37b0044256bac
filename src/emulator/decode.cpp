// Translates parsed PTX to instructions of the interpreter.
//
// Element-wise instructions are looked up in the tables of lanes/ by their name, without modifiers
// that do not affect the emulator. Instructions with several results, several roundings or more
// than three operands become several entries.
#include <cstdio>
#include <cstring>
#include <set>
#include <stdexcept>

#include "emulator/decoder.hpp"

namespace ado::emulator {
namespace {

// Values of %name registers that do not depend on the thread.
const std::map<std::string_view, u8> kBlockNames = {{"%ntid", kThreads},
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
constexpr u32 kMostStaticShared = 48 << 10;
constexpr s64 kMostLocal = 512 << 10;               // per thread
constexpr std::size_t kMostInstructions = 1 << 20;  // with inlined calls
const Variable kReserved{.name = "%reserved_smem_offset_1",
                         .space = Space::kShared,
                         .align = 16,
                         .bytes = Program::kReservedBytes};

bool uses_carry(const Words& w) {
  return contains(w, "cc") || w[0] == "addc" || w[0] == "subc" || w[0] == "madc";
}

}  // namespace

Program Decoder::run(Function& entry) {
  p_.name = std::string(entry.name);
  registers_.assign(kThreadValues, 4);
  p_.lines.emplace_back();
  if (!entry.params.empty()) {
    const Variable& last = entry.params.back();
    p_.param_bytes = static_cast<u32>(last.offset + last.bytes);
  }
  const auto product = [](const std::vector<int>& v) {
    s64 n = 1;
    for (const int x : v) n = std::clamp<s64>(n * x, 0, 1 << 20);
    return static_cast<int>(n);
  };
  if (!entry.max_threads.empty()) p_.max_threads = product(entry.max_threads);
  if (!entry.required_threads.empty()) p_.required_threads = product(entry.required_threads);
  std::copy_n(entry.cluster.begin(), std::min<std::size_t>(entry.cluster.size(), 3),
              p_.cluster.begin());
  Frame frame{.function = &entry, .entry = true};
  function(frame);
  finish_shared();
  p_.local_bytes = (p_.local_bytes + 15) / 16 * 16;  // each lane's part is aligned
  finish_program(p_, registers_, labels_, costs_);
  return std::move(p_);
}

u32 Decoder::temporary(int bytes) {
  registers_.push_back(static_cast<u8>(bytes));
  return static_cast<u32>(registers_.size() - 1);
}

u32 Decoder::computed(std::string_view name, u32 a, u32 b, u32 c) {
  const AluEntry* entry = find(name);
  if (entry == nullptr) unknown();
  const u32 d = temporary(entry->bytes[0]);
  emit_alu(*entry, d, a, b, c);
  return d;
}

u32 Decoder::constant(Source source, int bytes, u64 bits, int read_bytes, bool sign, u32 variable) {
  if (bytes < 8 && source == Source::kBits) bits &= (u64{1} << (8 * bytes)) - 1;
  if (bytes == 1 && source == Source::kBits) bits = bits != 0;
  const auto key = std::tuple{source, bytes, bits, read_bytes, sign, variable};
  const auto [at, added] = constants_.emplace(key, static_cast<u32>(p_.constants.size()));
  if (added)
    p_.constants.push_back(
        {source, static_cast<u8>(bytes), static_cast<u8>(read_bytes), sign, bits, variable});
  return at->second | kConstantBit;
}

void Decoder::emit(Op op, Inst inst) {
  inst.op = op;
  inst.guard = guard_;
  inst.guard_negated = guard_negated_;
  p_.code.push_back(inst);
  p_.line_of_code.push_back(line_);
}

void Decoder::emit_alu(std::string_view name, u32 d, u32 a, u32 b, u32 c) {
  const AluEntry* entry = find(name);
  if (entry == nullptr) unknown();
  emit_alu(*entry, d, a, b, c);
}

void Decoder::emit_alu(const AluEntry& entry, u32 d, u32 a, u32 b, u32 c) {
  // The functions read and write whole registers.
  const u32 registers[] = {d, a, b, c};
  for (int i = 0; i < 4; ++i)
    if (entry.bytes[i] != 0 &&
        (registers[i] == kNone || lane_bytes(registers[i]) != entry.bytes[i]))
      fail("an operand has another size");
  const bool moves = std::strncmp(entry.name, "mov.", 4) == 0;
  emit(Op::kAlu, {.alu = entry.function,
                  .d = d,
                  .a = a,
                  .b = b,
                  .c = c,
                  .bytes = entry.bytes[0],
                  .mode = moves});
}

const AluEntry* Decoder::find(std::string_view name) const {
  const auto at = tables_.alu.find(name);
  return at == tables_.alu.end() ? nullptr : at->second;
}

u32 Decoder::extra(std::initializer_list<u32> values) {
  Extra e;
  std::copy(values.begin(), values.end(), e.registers.begin());
  return add_extra(e);
}

u32 Decoder::add_extra(const Extra& e) {
  p_.extras.push_back(e);
  return static_cast<u32>(p_.extras.size() - 1);
}

int Decoder::new_label() {
  labels_.push_back(-1);
  return static_cast<int>(labels_.size()) - 1;
}

int Decoder::label_of(std::string_view name) {
  const auto [at, added] = frame_->labels.emplace(name, -1);
  if (added) {
    if (!frame_->function->labels.contains(name)) fail("unknown label " + std::string(name));
    at->second = new_label();
  }
  return at->second;
}

std::string Decoder::place() const {
  return place_of(text_, p_.lines[line_]) + "PTX line " + std::to_string(s_->ptx_line);
}

[[noreturn]] void Decoder::fail(const std::string& message) const {
  throw PtxError(std::string(frame_->function->name) + ", " + place() + ": " + message + ": " +
                 std::string(s_->text));
}

void Decoder::unknown() const {
  static constexpr std::pair<std::string_view, const char*> kReasons[] = {
      {"tex.", "textures, whose layout and filtering are not documented; read global memory"},
      {"tld4.", "textures, whose layout and filtering are not documented; read global memory"},
      {"suld.", "surfaces, whose layout is not documented; read global memory"},
      {"sust.", "surfaces, whose layout is not documented; write to global memory"},
      {".b1.", "products of bits, which GPUs since compute capability 9.0 emulate, too"},
      {"cp.reduce.", "bulk copies that reduce; use atomic operations"},
      {"tcgen05.", "tensor memory; compile for compute capability 9.0"}};
  std::string reason;
  for (const auto& [part, text] : kReasons)
    if (s_->text.find(part) != std::string_view::npos) reason = std::string(" (") + text + ")";
  fail("the emulator does not support this instruction" + reason);
}

u32 Decoder::result(const Operand& o, int bytes) {
  if (o.kind == Kind::kSink) return temporary(bytes);
  if (o.kind != Kind::kRegister) fail("the result must be a register");
  if (registers_[reg(o.reg)] != bytes) fail("a register of another size was expected");
  return reg(o.reg);
}

u32 Decoder::value(const Operand& o, int bytes) {
  switch (o.kind) {
    case Kind::kRegister: {
      if (registers_[reg(o.reg)] != bytes) fail("a register of another size was expected");
      return o.negated ? computed("not.pred", reg(o.reg)) : reg(o.reg);
    }
    case Kind::kImmediate: {
      u64 bits = o.value;
      if (o.is_double && bytes == 4) {
        double x;
        std::memcpy(&x, &bits, sizeof x);
        const float narrow = static_cast<float>(x);
        u32 word;
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
      if (at == addresses_.address.end() || bytes != 8) fail("the function is not in this module");
      return immediate(at->second, 8);
    }
    default:
      fail("unexpected operand");
  }
}

u32 Decoder::special(std::string_view name, int bytes) {
  if (name.starts_with("%clock") || name.starts_with("%globaltimer")) {
    const bool time = name.starts_with("%g");
    const u32 wide = temporary(8);
    const auto mode = static_cast<u8>(time ? ClockMode::kNanoseconds : ClockMode::kCycles);
    emit(Op::kClock, {.d = wide, .bytes = 8, .mode = mode});
    return bytes == 8 ? wide : computed(name.ends_with("hi") ? "high.b64" : "low.b64", wide);
  }
  int axis = 0;
  if (name.size() > 2 && name[name.size() - 2] == '.') {
    axis = name.back() - 'x';
    name.remove_suffix(2);
  }
  u32 r;
  if (name == "%tid")
    r = static_cast<u32>(axis);
  else if (const auto thread = kThreadNames.find(name); thread != kThreadNames.end())
    r = static_cast<u32>(thread->second);
  else if (const auto block = kBlockNames.find(name);
           block != kBlockNames.end() && block->second + axis < kBlockValues)
    r = constant(Source::kBlock, 4, block->second + axis);
  else if (name == "%gridid")
    r = immediate(0, 4);
  else if (name == "%nwarpid")
    r = immediate(64, 4);  // warps that a multiprocessor can hold
  else if (name == kReserved.name)
    r = immediate(p_.reserved_shared = static_cast<u32>(shared_offset(kReserved)), 4);
  else
    fail("the emulator does not support the register " + std::string(name));
  return bytes == 4 ? r : computed(bytes == 8 ? "cvt.u64.u32" : "cvt.u16.u32", r);
}

const Variable& Decoder::variable(const Operand& o) const {
  if (o.variable >= 0) return frame_->function->variables[o.variable];
  for (const auto* list : {&frame_->function->params, &frame_->function->results})
    for (const Variable& v : *list)
      if (v.name == o.name) return v;
  return text_.variables[text_.variable_of_name.at(o.name)];
}

std::optional<s64> Decoder::local_offset(const Operand& o) const {
  if (o.variable >= 0 && frame_->variables[o.variable] >= 0) return frame_->variables[o.variable];
  if (o.variable < 0)
    if (const auto at = frame_->params.find(o.name); at != frame_->params.end()) return at->second;
  return std::nullopt;
}

s64 Decoder::known_local_offset(const Operand& o) const {
  if (o.kind == Kind::kVariable)
    if (const auto offset = local_offset(o)) return *offset;
  fail("parameters of calls must be variables of the function");
}

u32 Decoder::address_of(const Operand& o, int bytes) {
  if (const auto local = local_offset(o))
    return immediate(static_cast<u64>(*local) + o.value, bytes);
  const Variable& v = variable(o);
  if (v.space == Space::kShared) {
    if (v.bytes == 0 && v.external) {
      dynamic_align_ = std::max(dynamic_align_, v.align);
      return constant(Source::kDynamicShared, bytes, o.value, 0, false, shared_variable(v));
    }
    return constant(Source::kBits, bytes, static_cast<u64>(shared_offset(v)) + o.value, 0, false,
                    shared_variable(v));
  }
  if (v.space == Space::kParam)  // cvta.param adds the base to an address of 32 bits
    return bytes == 4 ? immediate(static_cast<u64>(v.offset) + o.value, 4)
                      : constant(Source::kParamAddress, 8, static_cast<u64>(v.offset) + o.value);
  return immediate(addresses_.address.at(v.name) + o.value, 8);
}

s64 Decoder::shared_offset(const Variable& v) {
  const auto [at, added] = shared_.emplace(v.name, 0);
  if (added) {
    at->second = (p_.static_shared + v.align - 1) / v.align * v.align;
    if (v.bytes > kMostLocal - at->second)
      throw PtxError(p_.name + " needs too much shared memory");
    p_.static_shared = static_cast<u32>(at->second + v.bytes);
  }
  return at->second;
}

u32 Decoder::shared_variable(const Variable& v) {
  auto at = p_.variables.begin();
  while (at != p_.variables.end() && at->name != v.name) ++at;
  const auto index = at - p_.variables.begin();
  if (at == p_.variables.end()) {
    p_.variables.push_back({v.name});
    if (v.bytes != 0 || !v.external)
      p_.variables.back().first = shared_offset(v),
      p_.variables.back().last = shared_offset(v) + v.bytes;
  }
  return static_cast<u32>(index) + 1;
}

void Decoder::finish_shared() {
  p_.shared_end = p_.static_shared;
  if (p_.static_shared > kMostStaticShared) {
    char bytes[64];
    std::snprintf(bytes, sizeof bytes, "0x%x bytes, 0x%x max", p_.static_shared, kMostStaticShared);
    // This is an error in the kernel, not a limit of the emulator.
    throw std::runtime_error("ptxas error   : Entry function '" + p_.name +
                             "' uses too much shared data (" + bytes + ")");
  }
  const auto align = static_cast<u32>(dynamic_align_);
  p_.static_shared = (p_.static_shared + align - 1) / align * align;
  for (SharedVariable& v : p_.variables)
    if (v.last == SharedVariable().last) v.first = p_.static_shared;
  const bool fences = std::any_of(p_.code.begin(), p_.code.end(),
                                  [](const Inst& inst) { return inst.op == Op::kFence; });
  std::set<std::pair<u32, s64>> atomics;  // addresses of later atomic operations
  for (auto a = p_.accesses.rbegin(); a != p_.accesses.rend(); ++a) {
    a->synchronises |= a->atomic || (a->strong && fences);
    if (a->atomic) atomics.emplace(a->address, a->offset);
    if (!a->store && !a->strong) a->between_blocks = atomics.contains({a->address, a->offset});
  }
  for (Constant& c : p_.constants) {
    if (c.source != Source::kDynamicShared) continue;
    c.source = Source::kBits;
    c.bits += p_.static_shared;
  }
}

s64 Decoder::allocate_local(const Variable& v) {
  const s64 align = std::max(v.align, 4);
  const s64 at = (p_.local_bytes + align - 1) / align * align;
  if (v.bytes > kMostLocal - at) throw PtxError(p_.name + " needs too much local memory");
  p_.local_bytes = static_cast<u32>(at + v.bytes);
  return at;
}

void Decoder::function(Frame& frame) {
  Function& f = *frame.function;
  if (!f.parsed) parse_body(text_, f);
  frame.first_register = static_cast<u32>(registers_.size());
  for (const Register& r : f.registers)
    registers_.push_back(static_cast<u8>(r.type == "pred" ? 1 : std::max(r.bytes, 2)));
  frame.first_line = static_cast<int>(p_.lines.size());
  p_.lines.insert(p_.lines.end(), f.lines.begin(), f.lines.end());
  for (const Variable& v : f.variables)
    frame.variables.push_back(
        v.space == Space::kLocal || v.space == Space::kParam ? allocate_local(v) : -1);
  frame.end_label = new_label();
  Frame* const outer = frame_;
  frame_ = &frame;
  std::vector<int> begin(f.statements.size() + 1);
  std::vector<bool> leads(f.statements.size() + 1);
  for (const auto& [name, i] : f.labels) leads[i] = true;
  for (std::size_t i = 0; i < f.statements.size(); ++i) {
    begin[i] = static_cast<int>(p_.code.size());
    if (leads[i]) expressions_.clear(), numbers_.clear();
    statement(f.statements[i]);
  }
  begin.back() = static_cast<int>(p_.code.size());
  for (const auto& [name, label] : frame.labels) labels_[label] = begin[f.labels.at(name)];
  labels_[frame.end_label] = begin.back();
  guard_ = kNone;
  emit(frame.entry ? Op::kExit : Op::kNop);
  frame_ = outer;
}

void Decoder::statement(const Statement& s) {
  s_ = &s;
  line_ = frame_->first_line + s.line;
  guard_ = s.guard >= 0 ? reg(s.guard) : kNone;
  guard_negated_ = s.guard_negated;
  if (text_.uses_groups) emit(Op::kNop);  // place for a kGroupCheck
  const std::size_t before = p_.code.size();
  const int line = line_;
  if (const int compute = compute_of(s.opcode); compute > p_.newest.compute)
    p_.newest = {compute, std::string(s.text) + " (" + place() + ")"};
  if (guard_ != kNone && registers_[guard_] != 1) fail("a guard must be a predicate");
  if (p_.code.size() > kMostInstructions) fail("the kernel is too long");
  try {
    instruction(s.opcode);
  } catch (const std::out_of_range&) {
    unknown();
  }
  if (p_.code.size() == before) emit(Op::kNop);
  Cost cost = cost_of(s.opcode, static_cast<int>(before), line);
  if (repeats(s, before)) cost.operations = {};
  costs_.push_back(cost);
}

bool Decoder::repeats(const Statement& s, std::size_t before) {
  const auto begin = p_.code.begin() + static_cast<std::ptrdiff_t>(before);
  bool pure = s.guard < 0 && s.operands.size() > 1 && s.operands[0].kind == Kind::kRegister &&
              !uses_carry(s.opcode) &&
              std::all_of(begin, p_.code.end(), [](const Inst& i) { return i.op == Op::kAlu; });
  std::string expression = joined(s.opcode);
  for (std::size_t i = 1; i < s.operands.size() && pure; ++i) {
    const Operand& o = s.operands[i];
    pure = o.kind == Kind::kRegister || o.kind == Kind::kImmediate;
    expression += o.kind == Kind::kImmediate ? " =" : o.negated ? " !" : " ";
    expression += std::to_string(o.kind == Kind::kImmediate
                                     ? o.value
                                     : numbers_.emplace(reg(o.reg), ++number_).first->second);
  }
  if (pure) {
    const auto [at, added] = expressions_.emplace(std::move(expression), ++number_);
    numbers_[reg(s.operands[0].reg)] = at->second;
    return !added;
  }
  if (!s.operands.empty())
    for (const Operand& o : parts_of(s.operands[0]))
      if (o.kind == Kind::kRegister) numbers_[reg(o.reg)] = ++number_;
  return false;
}

void Decoder::call(const Statement& s) {
  // call (results), name, (parameters); both lists are optional
  std::size_t i = 0;
  const Checked<Operand> none;
  const Checked<Operand>* results = &none;
  const Checked<Operand>* params = &none;
  if (s.operands[i].kind == Kind::kVector) results = &s.operands[i++].parts;
  const Operand& callee = s.operands[i++];
  if (i < s.operands.size() && s.operands[i].kind == Kind::kVector) params = &s.operands[i].parts;
  if (callee.name == "vprintf" || callee.name == "__assertfail") {
    Checked<u32> values;  // pointers, and the line of an assertion
    for (const Operand& o : *params) {
      values.push_back(temporary(values.size() == 2 ? 4 : 8));
      move_local(known_local_offset(o), values.back(), false);
    }
    if (callee.name == "__assertfail")
      return emit(Op::kAssertFail,
                  {.aux = extra({kNone, values.at(0), values.at(1), values.at(2), values.at(3)})});
    const u32 count = temporary(4);
    emit(Op::kPrint, {.aux = extra({count, values.at(0), values.at(1)})});
    if (!results->empty()) move_local(known_local_offset(results->at(0)), count, true);
    return;
  }
  if (frame_->depth > 30)
    fail("recursive calls are not supported, because calls are inlined; use a loop");
  const int end = new_label();
  if (guard_ != kNone) {
    guard_negated_ = !guard_negated_;
    branch(end);
    guard_ = kNone;
  }
  if (callee.kind == Kind::kName) {
    const auto at = text_.functions.find(callee.name);
    if (callee.name == "malloc" || callee.name == "free")
      fail("the emulator has no heap for malloc and new; allocate the memory before the launch");
    if (at == text_.functions.end() || at->second.body.empty())
      fail("the called function is not in this module");
    inlined(at->second, *params, *results);
  } else {
    call_through(value(callee, 8), *params, *results, end);
  }
  labels_[end] = static_cast<int>(p_.code.size());
}

void Decoder::inlined(Function& target, const Checked<Operand>& params,
                      const Checked<Operand>& results) {
  if (params.size() != target.params.size() || results.size() != target.results.size())
    fail("wrong number of arguments");
  Frame frame{.function = &target, .entry = false, .depth = frame_->depth + 1};
  for (std::size_t k = 0; k < params.size(); ++k)
    frame.params[target.params[k].name] = known_local_offset(params[k]);
  for (std::size_t k = 0; k < results.size(); ++k)
    frame.params[target.results[k].name] = known_local_offset(results[k]);
  const Statement* const outer = s_;
  function(frame);
  s_ = outer;
}

void Decoder::call_through(u32 pointer, const Checked<Operand>& params,
                           const Checked<Operand>& results, int end) {
  const auto same = [&](const Checked<Operand>& given, const std::vector<Variable>& wanted) {
    return std::equal(
        given.begin(), given.end(), wanted.begin(), wanted.end(),
        [&](const Operand& o, const Variable& v) { return variable(o).bytes == v.bytes; });
  };
  const int line = line_;
  for (const std::string_view name : text_.callable) {
    Function& target = text_.functions.at(name);
    if (!same(params, target.params) || !same(results, target.results)) continue;
    const u32 chosen = computed("setp.eq.b64", pointer, immediate(addresses_.address.at(name), 8));
    const int next = new_label();
    guard_ = chosen, guard_negated_ = true;
    branch(next);
    guard_ = kNone;
    inlined(target, params, results);
    line_ = line;
    branch(end);
    labels_[next] = static_cast<int>(p_.code.size());
  }
  emit(Op::kTrap, {.mode = 1});
}

void Decoder::instruction(const Words& w) {
  const std::string_view op = w[0];
  const Statement& s = *s_;
  const auto& o = s.operands;
  if (op == "ld" || op == "ldu") return load_or_store(w, false);
  if (op == "st" && !contains(w, "async") && !contains(w, "bulk")) return load_or_store(w, true);
  if (op == "atom") return atomic(w, false);
  if (op == "red" && !contains(w, "async")) return atomic(w, true);
  if (op == "cp") return copy_async(w);
  if (op == "mbarrier") return mbarrier(w);
  if (op == "tensormap") return w[1] == "replace" ? replace_tensor_map(w) : copy_tensor_map(w);
  if (op == "mma" || (op == "wmma" && w[1] == "mma")) return multiply_matrices(w);
  if (op == "wmma") return move_fragment(w);
  if (op == "wgmma") return multiply_in_group(w);
  if (op == "ldmatrix" || op == "stmatrix") return move_matrices(w);
  if (op == "mov" && o.size() == 2) return move(w, o[0], o[1]);
  if (op == "cvt") return convert(w);
  if (op == "cvta") return convert_address(w);
  if (op == "bra") return branch(label_of(o.at(0).name));
  if (op == "brx") return branch_indexed();
  if (op == "call") return call(s);
  if (op == "ret" || op == "exit") {
    if (op == "ret" && !frame_->entry) return branch(frame_->end_label);
    return emit(Op::kExit);
  }
  if (op == "trap" || op == "brkpt") return emit(Op::kTrap);
  if (op == "bar" || op == "barrier") return barrier(w);
  if (op == "shfl") return shuffle(w);
  if (op == "vote") return vote(w);
  if (op == "match") return match(w);
  if (op == "redux") return warp_reduce(w);
  if (op == "elect") {
    const u32 lane = o.at(0).kind == Kind::kVector ? result(o[0].parts[0], 4) : temporary(4);
    const u32 predicate = result(o[0].kind == Kind::kVector ? o[0].parts[1] : o[0], 1);
    const u32 e = extra({predicate, value(o.at(1), 4)});
    return emit(Op::kElect, {.d = lane, .aux = e, .bytes = 4});
  }
  if (op == "activemask") return emit(Op::kActiveMask, {.d = result(o.at(0), 4), .bytes = 4});
  if (op == "mapa") return map_rank(w);
  if (op == "isspacep") {
    const u32 d = result(o.at(0), 1), a = value(o.at(1), 8);
    return emit(Op::kSpacePredicate,
                {.d = d, .a = a, .bytes = 1, .mode = static_cast<u8>(space_of(w))});
  }
  if (op == "nanosleep") return emit(Op::kPause);
  if (op == "membar" || op == "fence") return fence(w);
  // The emulator executes the memory operations of a warp in order and caches nothing.
  if (op == "prefetch" || op == "prefetchu" || op == "griddepcontrol" || op == "applypriority" ||
      op == "discard" || op == "pmevent" || op == "setmaxnreg")
    return;
  if (op == "createpolicy") return emit_alu("mov.b64", result(o.at(0), 8), immediate(0, 8));
  if (op == "setp") return compare(w);
  if (op == "testp") {
    const u32 a = value(o.at(1), size_of_type(w.back()));
    return emit_alu(joined(w), result(o.at(0), 1), a, a);
  }
  if (op == "set") return compare_to_value(w);
  if (op == "lop3") return logic3();
  if (op == "bfi") return bit_insert(w);
  if (uses_carry(w)) return carry(w);
  element_wise(w);
}

void Decoder::branch_indexed() {
  const auto& o = s_->operands;
  const auto table = frame_->function->branch_tables.find(o.at(1).name);
  if (table == frame_->function->branch_tables.end() || guard_ != kNone) unknown();
  const u32 index = value(o[0], 4);
  for (std::size_t i = 0; i < table->second.size(); ++i) {
    guard_ = kNone;
    const u32 chosen = computed("setp.eq.b32", index, immediate(i, 4));
    if (i + 1 < table->second.size()) guard_ = chosen, guard_negated_ = false;
    branch(label_of(table->second[i]));
  }
}

Program decode(Text& text, Function& entry, const ModuleAddresses& addresses) {
  static const Tables tables(lane_functions());
  return Decoder(text, addresses, tables).run(entry);
}

}  // namespace ado::emulator
