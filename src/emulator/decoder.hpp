// The translation of one kernel from parsed PTX to instructions of the interpreter (decode.cpp).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "emulator/program.hpp"

namespace ado::emulator {

using Kind = Operand::Kind;
using Words = Checked<std::string_view>;

// The element-wise instructions of an instruction set, by name.
struct Tables {
  std::unordered_map<std::string_view, const AluEntry*> alu;
  const LaneFunctions* functions;

  explicit Tables(const LaneFunctions& f) : functions(&f) {
    for (const AluTable& table : {f.integers, f.floats, f.halves, f.conversions})
      for (std::size_t i = 0; i < table.count; ++i)
        alu.emplace(table.entries[i].name, &table.entries[i]);
  }
};

inline bool contains(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
inline std::string joined(const Words& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : ".") + std::string(word);
  return text;
}
// u32 -> b32 for instructions that do not interpret the bits.
inline std::string bits_type(std::string_view type) {
  return type == "pred" ? "pred" : "b" + std::to_string(8 * size_of_type(type));
}

// Atomic operations by their names in PTX.
inline const std::map<std::string_view, AtomicOp> kAtomicOps = {
    {"add", AtomicOp::kAdd},       {"min", AtomicOp::kMin},     {"max", AtomicOp::kMax},
    {"and", AtomicOp::kAnd},       {"or", AtomicOp::kOr},       {"xor", AtomicOp::kXor},
    {"exch", AtomicOp::kExchange}, {"cas", AtomicOp::kCompare}, {"inc", AtomicOp::kIncrement},
    {"dec", AtomicOp::kDecrement}};

// decode_costs.cpp
int compute_of(const Words& w);
Cost cost_of(const Words& w, int position, int line);

class Decoder {
 public:
  Decoder(Text& text, const ModuleAddresses& addresses, const Tables& tables)
      : text_(text), addresses_(addresses), tables_(tables) {}
  Program run(Function& entry);

 private:
  // One inlined call.
  struct Frame {
    Function* function;
    bool entry = false;
    u32 first_register = 0;
    int first_line = 0;
    int end_label = -1;
    std::vector<s64> variables = {};                        // local offsets, by variable
    std::unordered_map<std::string_view, s64> params = {};  // local offsets
    std::unordered_map<std::string_view, int> labels = {};
    int depth = 0;
  };

  // --- Emission ----------------------------------------------------------------------------------

  u32 temporary(int bytes);
  // A new register with the result of an element-wise instruction.
  u32 computed(std::string_view name, u32 a, u32 b = kNone, u32 c = kNone);
  u32 constant(Source source, int bytes, u64 bits, int read_bytes = 0, bool sign = false,
               u32 variable = 0);
  u32 immediate(u64 bits, int bytes) { return constant(Source::kBits, bytes, bits); }
  // Appends an instruction with these fields and the guard of the statement.
  void emit(Op op, Inst inst = {});
  void emit_alu(std::string_view name, u32 d, u32 a, u32 b = kNone, u32 c = kNone);
  void emit_alu(const AluEntry& entry, u32 d, u32 a, u32 b, u32 c);
  const AluEntry* find(std::string_view name) const;
  u32 extra(std::initializer_list<u32> values);
  u32 add_extra(const Extra& e);
  int new_label();
  int label_of(std::string_view name);

  // --- Errors ------------------------------------------------------------------------------------

  // "file:line, PTX line 5"
  std::string place() const;
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void unknown() const;

  // --- Operands ----------------------------------------------------------------------------------

  u32 reg(int index) const { return frame_->first_register + static_cast<u32>(index); }
  int bytes_of(const Operand& o) const {
    return o.kind == Kind::kRegister ? registers_[reg(o.reg)] : 0;
  }
  // Bytes per lane of a register or a constant.
  u8 lane_bytes(u32 r) const {
    return r & kConstantBit ? p_.constants[r & ~kConstantBit].bytes : registers_[r];
  }
  // The elements of a vector, or the operand itself.
  static std::span<const Operand> parts_of(const Operand& o) {
    return o.kind == Kind::kVector ? std::span(o.parts) : std::span(&o, 1);
  }
  u32 result(const Operand& o, int bytes);

  // The register that holds an operand of `bytes` per lane.
  u32 value(const Operand& o, int bytes);
  u32 special(std::string_view name, int bytes);
  const Variable& variable(const Operand& o) const;

  // The offset in local memory of a variable of this call, or nothing.
  std::optional<s64> local_offset(const Operand& o) const;
  s64 known_local_offset(const Operand& o) const;

  // The address within its space; for global, constant and parameter variables a host address.
  u32 address_of(const Operand& o, int bytes);
  s64 shared_offset(const Variable& v);
  u32 shared_variable(const Variable& v);  // 1 + index of Program::variables

  // Dynamic shared memory begins after the static one, whose size is known only at the end.
  void finish_shared();

  // --- Functions ---------------------------------------------------------------------------------

  s64 allocate_local(const Variable& v);
  void function(Frame& frame);
  void statement(const Statement& s);
  // Returns true if the statement repeats an expression of its basic block. Its code begins at
  // `before`. The compiler's front end leaves such repetitions in PTX, and ptxas removes them.
  bool repeats(const Statement& s, std::size_t before);
  void call(const Statement& s);
  void inlined(Function& target, const Checked<Operand>& params, const Checked<Operand>& results);

  // A call through a pointer: every function with these parameters may be the target.
  void call_through(u32 pointer, const Checked<Operand>& params, const Checked<Operand>& results,
                    int end);

  // --- Memory ------------------------------------------------------------------------------------

  u32 add_access(Access access);
  MoveFunction move_of(std::string_view type, int register_bytes, bool store) const;
  // Loads or stores one element per lane. The access has an address.
  void move_element(Access access, int bytes, u32 data);
  // Loads or stores a register in local memory.
  void move_local(s64 offset, u32 data, bool store);
  static Space space_of(const Words& w);

  // Fills in the address operand.
  void set_address(Access& access, const Operand& o);
  void load_or_store(const Words& w, bool store);
  void fence(const Words& w);
  void atomic(const Words& w, bool reduction);
  int mentions_of(int reg) const;
  void copy_async(const Words& w);

  // The address of an operand as a generic one, in a register of 64 bits.
  u32 generic_address(const Operand& o, Space space);

  // mbarrier.* and cp.async.mbarrier.arrive
  void mbarrier(const Words& w);

  // cp.async.bulk: copies of bytes and of boxes of tensors between global and shared memory
  void copy_bulk(const Words& w);
  void replace_tensor_map(const Words& w);
  void copy_tensor_map(const Words& w);

  // --- Matrices ----------------------------------------------------------------------------------

  struct Shape {
    int m, n, k;
  };
  Shape shape_of(const Words& w) const;
  // The types of elements among the words.
  static std::vector<Number> numbers_in(const Words& w);
  // The registers of a fragment with `elements` elements, appended to an Extra.
  MatrixProduct::Fragment add_fragment(Extra& e, int& next, const Operand& list, Number type,
                                       int elements, bool is_result = false);
  void add_product(MatrixProduct product, const Extra& e);
  void multiply_matrices(const Words& w);
  // wgmma.*: each warp computes its 16 rows of the product when it starts it. The checks of
  // registers (flow.cpp) report a use before wgmma.wait_group.
  void multiply_in_group(const Words& w);

  // wmma.load and wmma.store. Slot s of lane l of a fragment holds element s * 32 + l of the
  // matrix, in row-major order; if there are more slots than elements, the elements repeat.
  void move_fragment(const Words& w);

  // ldmatrix and stmatrix: 8 x 8 matrices of 16-bit elements. Lane 8 i + r has the address of row r
  // of matrix i; lane l holds the elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
  void move_matrices(const Words& w);

  // --- Instructions ------------------------------------------------------------------------------

  void instruction(const Words& w);

  // Instructions that are in the tables.
  void element_wise(const Words& w);
  void move(const Words& w, const Operand& d, const Operand& a);
  void convert(const Words& w);
  void convert_address(const Words& w);
  void branch(int label) { emit(Op::kBranch, {.aux = static_cast<u32>(label)}); }
  void branch_indexed();
  void barrier(const Words& w);
  void shuffle(const Words& w);
  void vote(const Words& w);
  void match(const Words& w);
  void warp_reduce(const Words& w);
  void map_rank(const Words& w);

  // setp.CmpOp{.BoolOp}.type p{|q}, a, b{, c}
  void compare(const Words& w);
  // The halves of f16x2 and bf16x2, compared one after another.
  void compare_halves(const Words& w, u32 low, u32 high);
  void comparison(const Words& w, u32 d, const Operand& a, const Operand& b);
  // set.CmpOp.dtype.stype
  void compare_to_value(const Words& w);
  void pack_saturated(const Words& w);
  void logic3();
  void bit_insert(const Words& w);

  // add.cc, addc, sub.cc, subc, mad.lo.cc, madc.lo and madc.hi: a - b is a + ~b + 1.
  void carry(const Words& w);

  Text& text_;
  const ModuleAddresses& addresses_;
  const Tables& tables_;
  Program p_;
  std::vector<u8> registers_;  // bytes per lane
  std::map<std::tuple<Source, int, u64, int, bool, u32>, u32> constants_;
  std::vector<int> labels_;
  std::vector<Cost> costs_;
  // Value numbers of the basic block's expressions and of registers.
  std::unordered_map<std::string, u64> expressions_;
  std::unordered_map<u32, u64> numbers_;
  u64 number_ = 0;
  std::unordered_map<std::string_view, s64> shared_;
  int dynamic_align_ = 16;  // of dynamic shared memory
  u32 carry_ = kNone;
  Frame* frame_ = nullptr;
  const Statement* s_ = nullptr;
  int line_ = 0;
  u32 guard_ = kNone;
  bool guard_negated_ = false;
};

}  // namespace ado::emulator
