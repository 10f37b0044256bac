// Parser of PTX text.
//
// A module is scanned once for its functions and variables. The body of a function is parsed when
// it is first needed, because a program usually launches few of a module's kernels. Strings are
// views of the module's text.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ado::emulator {

// Text that is not valid PTX, or PTX that the emulator does not support.
struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A vector whose [] throws std::out_of_range, because texts may lack words and operands.
template <class T>
struct Checked : std::vector<T> {
  using std::vector<T>::vector;
  const T& operator[](std::size_t i) const { return this->at(i); }
  T& operator[](std::size_t i) { return this->at(i); }
};

enum class Space : std::uint8_t { kGeneric, kGlobal, kShared, kLocal, kConst, kParam };

// A position in CUDA source: the innermost one, and the outermost one into which it was inlined.
struct Line {
  int file = 0, line = 0;
  int outer_file = 0, outer_line = 0;
  friend auto operator<=>(const Line&, const Line&) = default;
};

// The size in bytes of a fundamental type such as "u32" or "pred" (1); 0 for other text.
int size_of_type(std::string_view type);
bool is_float_type(std::string_view type);
bool is_signed_type(std::string_view type);

struct Variable {
  std::string_view name = {};
  Space space = Space::kGlobal;
  int align = 1;
  std::int64_t bytes = 0;  // 0: array of unknown size (dynamic shared memory)
  bool external = false;
  std::string_view initial = {};  // the text between { and }, or one value
  int element_bytes = 1;
  std::int64_t offset = -1;  // within its space, set when memory is laid out
};

struct Operand {
  enum class Kind : std::uint8_t {
    kRegister,
    kImmediate,
    kSpecial,   // %tid.x
    kVariable,  // its address, plus `value`
    kName,      // a label or a function
    kVector,    // {a, b}, a|b or (a, b)
    kAddress,   // [parts[0] + value]
    kSink,      // _
  };
  Kind kind;
  bool negated = false;
  bool is_double = false;  // 0d or a decimal fraction
  int reg = -1;
  std::uint64_t value = 0;
  std::string_view name = {};
  int variable = -1;  // index of a variable of the function; -1: a variable of the module
  Checked<Operand> parts = {};
};

struct Statement {
  Checked<std::string_view> opcode;  // split at the dots
  std::string_view text;
  Checked<Operand> operands;
  int guard = -1;  // a predicate register
  bool guard_negated = false;
  int line = 0;      // index of Function::lines
  int ptx_line = 0;  // line of the module's text
};

struct Register {
  std::string_view type;
  int bytes;  // 1 for predicates
};

struct Function {
  std::string_view name;
  bool entry = false;
  std::vector<Variable> params, results;
  std::string_view body;  // empty: a declaration
  int body_line = 0;
  // The rest is set by parse_body.
  bool parsed = false;
  std::vector<Register> registers;
  std::vector<Variable> variables;
  std::vector<Statement> statements;
  std::unordered_map<std::string_view, int> labels;  // statement that follows
  std::deque<std::string> scoped_labels;             // their names in `labels`
  std::unordered_map<std::string_view, std::vector<std::string_view>> branch_tables;
  std::vector<Line> lines;
  std::vector<int> required_threads;  // .reqntid
  std::vector<int> max_threads;       // .maxntid
  std::vector<int> cluster;           // .reqnctapercluster
};

struct Text {
  std::string ptx;
  std::unordered_map<std::string_view, Function> functions;
  std::vector<std::string_view> entries;  // in order of the text
  std::vector<Variable> variables;
  std::unordered_map<std::string_view, int> variable_of_name;
  std::map<int, std::string> files;
  std::vector<std::string_view> callable;  // functions with a body that are not kernels
  bool uses_groups = false;                // contains wgmma.mma_async
};

// For example "header.h:3, inlined at kernel.cu:5, "; empty if the line has no position.
std::string place_of(const Text& text, const Line& line);

void parse_module(Text& text);
void parse_body(const Text& text, Function& function);

// The bytes of a variable's initial value. `address_of` returns the address of a variable or of a
// function.
std::vector<std::uint8_t> initial_bytes(
    const Variable& variable, const std::function<std::uint64_t(std::string_view)>& address_of);

}  // namespace ado::emulator
