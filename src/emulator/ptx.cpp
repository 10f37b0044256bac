#include "emulator/ptx.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ado::emulator {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A position in the text that knows its line.
class Cursor {
 public:
  Cursor(std::string_view text, int line)
      : at_(text.data()), end_(at_ + text.size()), line_(line) {}

  int line() const { return line_; }
  [[noreturn]] void fail(const std::string& message) const {
    throw PtxError("PTX line " + std::to_string(line_) + ": " + message);
  }
  const char* position() const { return at_; }

  // Skips white space and comments.
  void skip() {
    while (at_ < end_) {
      if (*at_ == '\n') {
        ++line_, ++at_;
      } else if (*at_ == ' ' || *at_ == '\t' || *at_ == '\r') {
        ++at_;
      } else if (at_ + 1 < end_ && *at_ == '/' && at_[1] == '/') {
        skip_line();
      } else if (at_ + 1 < end_ && *at_ == '/' && at_[1] == '*') {
        for (at_ += 2; at_ + 1 < end_ && !(*at_ == '*' && at_[1] == '/'); ++at_)
          line_ += *at_ == '\n';
        at_ = std::min(at_ + 2, end_);
      } else {
        return;
      }
    }
  }
  void skip_line() { at_ = std::find(at_, end_, '\n'); }
  bool done() {
    skip();
    return at_ == end_;
  }
  char peek() {
    skip();
    return at_ < end_ ? *at_ : '\0';
  }
  // The next character without skipping white space.
  char direct(int distance = 0) const { return at_ + distance < end_ ? at_[distance] : '\0'; }
  void advance() { ++at_; }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c))
      fail(std::string("expected '") + c + "', got '" +
           std::string(at_, std::min<std::ptrdiff_t>(20, end_ - at_)) + "'");
  }
  std::string_view name() {
    skip();
    return while_true(is_name_char);
  }
  // An opcode or a directive with its suffixes: add.rn.f32, .param, L2::cache_hint.
  std::string_view dotted() {
    skip();
    const char* const begin = at_;
    return while_true([&](char c) {
      return is_name_char(c) || c == '.' ||
             (c == ':' && (direct(1) == ':' || (at_ > begin && at_[-1] == ':')));
    });
  }
  // A directive without the ones that follow: .reg of .reg.b32.
  std::string_view directive() {
    skip();
    const char* const begin = at_;
    return while_true([&](char c) { return is_name_char(c) || (c == '.' && at_ == begin); });
  }
  std::string_view until(char end) {
    return while_true([&](char c) { return c != end; });
  }
  // The text between a { that has been taken and its }.
  std::string_view braces() {
    const char* begin = at_;
    for (int depth = 1; at_ < end_; ++at_) {
      line_ += *at_ == '\n';
      if (*at_ == '/' && direct(1) == '/') {
        skip_line();
        --at_;
        continue;
      }
      if (*at_ == '"') {
        for (++at_; at_ < end_ && *at_ != '"'; ++at_) line_ += *at_ == '\n';
        if (at_ == end_) break;
        continue;
      }
      if (*at_ == '{') ++depth;
      if (*at_ == '}' && --depth == 0) break;
    }
    const std::string_view text(begin, at_ - begin);
    if (at_ < end_) ++at_;
    return text;
  }

 private:
  // The text up to the first character that does not belong to it.
  template <class Belongs>
  std::string_view while_true(const Belongs& belongs) {
    const char* const begin = at_;
    while (at_ < end_ && belongs(*at_)) line_ += *at_++ == '\n';
    return {begin, static_cast<std::size_t>(at_ - begin)};
  }

  const char* at_;
  const char* end_;
  int line_;
};

// Parses a number: decimal, 0x, 0f, 0d, a fraction; the cursor is at its first character.
Operand number(Cursor& c) {
  Operand operand{Operand::Kind::kImmediate};
  const bool negative = c.take('-');
  const std::string text(c.name());
  if (text.size() > 2 && text[0] == '0' && std::strchr("fFdD", text[1]) != nullptr) {
    operand.is_double = text[1] == 'd' || text[1] == 'D';
    operand.value = std::strtoull(text.c_str() + 2, nullptr, 16);
    return operand;
  }
  if (c.direct() == '.' && is_digit(c.direct(1))) {
    c.advance();
    const double value = std::strtod((text + "." + std::string(c.name())).c_str(), nullptr);
    operand.is_double = true;
    operand.value = bits_of(negative ? -value : value);
    return operand;
  }
  if (text.empty() || !is_digit(text[0])) c.fail("expected a number, got '" + text + "'");
  operand.value = std::strtoull(text.c_str(), nullptr, 0);
  if (negative) operand.value = -operand.value;
  return operand;
}

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;  // of a variable

std::uint64_t in_range(Cursor& c, std::uint64_t least, std::uint64_t most) {
  const std::uint64_t value = number(c).value;
  if (value < least || value > most) c.fail("unexpected number " + std::to_string(value));
  return value;
}

// Parses a declaration after its space: ".align 4 .b8 name[16] = {1, 2}".
Variable declaration(Cursor& c, Space space) {
  Variable v{.space = space};
  while (c.peek() == '.') {
    const std::string_view word = c.directive();
    if (word == ".align") {
      v.align = static_cast<int>(in_range(c, 1, 1024));
    } else if (word == ".ptr") {  // .ptr .global .align 4: attributes of a parameter
      while (c.peek() == '.')
        if (c.directive() == ".align") number(c);
    } else if (word == ".v2" || word == ".v4") {
      v.bytes = word[2] - '0';
    } else if (const int size = size_of_type(word.substr(1)); size > 0) {
      v.element_bytes = size;
    } else {
      c.fail("unknown attribute " + std::string(word));
    }
  }
  v.align = std::max(v.align, v.element_bytes);
  v.bytes = std::max<std::int64_t>(v.bytes, 1) * v.element_bytes;
  v.name = c.name();
  if (v.name.empty() || v.align != (v.align & -v.align)) c.fail("expected a name and an alignment");
  while (c.take('[')) {
    if (c.peek() == ']')
      v.bytes = 0;
    else
      v.bytes *= static_cast<std::int64_t>(
          in_range(c, 0, kMostBytes / std::max<std::uint64_t>(v.bytes, 1)));
    c.expect(']');
  }
  if (c.take('=')) {
    if (c.take('{')) {
      v.initial = c.braces();
    } else {
      c.skip();
      v.initial = c.until(';');
    }
  }
  return v;
}

Space space_of(std::string_view word) {
  if (word == ".global") return Space::kGlobal;
  if (word == ".shared") return Space::kShared;
  if (word == ".local") return Space::kLocal;
  if (word == ".const") return Space::kConst;
  if (word == ".param") return Space::kParam;
  return Space::kGeneric;
}

std::vector<int> numbers(Cursor& c) {
  std::vector<int> values;
  do {
    values.push_back(static_cast<int>(number(c).value));
  } while (c.take(','));
  return values;
}

std::vector<Variable> parameter_list(Cursor& c) {
  std::vector<Variable> list;
  c.expect('(');
  while (!c.take(')')) {
    if (c.take(',')) continue;
    c.directive();  // .param or .reg
    Variable v = declaration(c, Space::kParam);
    std::int64_t end = list.empty() ? 0 : list.back().offset + list.back().bytes;
    v.offset = (end + v.align - 1) / v.align * v.align;
    list.push_back(v);
  }
  return list;
}

class BodyParser {
  static constexpr std::size_t kMostRegisters = 1 << 20;
  static constexpr int kMostNested = 8;  // lists and addresses
  static constexpr std::size_t kMostNestedCalls = 64;

 public:
  BodyParser(const Text& text, Function& f) : text_(text), f_(f), c_(f.body, f.body_line) {}

  void run() {
    scopes_.emplace_back();
    f_.lines.emplace_back();
    try {
      while (!c_.done()) statement();
    } catch (const PtxError& error) {
      throw PtxError(std::string(f_.name) + ", " + place_of(text_, f_.lines.back()) + error.what());
    }
    f_.parsed = true;
  }

 private:
  using Kind = Operand::Kind;
  struct Range {
    int first, count;
  };
  struct Scope {
    std::unordered_map<std::string_view, int> registers, variables;
    std::unordered_map<std::string_view, Range> ranges;
    std::vector<std::pair<std::string_view, int>> labels;  // with the statement that follows
    std::size_t first = 0;                                 // statement
  };

  // Renames the labels of a block, because other blocks may have labels of the same name.
  void rename_labels(const Scope& scope) {
    for (const auto& [name, target] : scope.labels) {
      const std::string_view unique = f_.scoped_labels.emplace_back(
          std::string(name) + "@" + std::to_string(f_.scoped_labels.size()));
      f_.labels[unique] = target;
      for (std::size_t i = scope.first; i < f_.statements.size(); ++i)
        if (Statement& s = f_.statements[i]; s.opcode[0] == "bra")
          for (Operand& o : s.operands)
            if (o.name == name) o.name = unique;
    }
  }

  void statement() {
    if (c_.take('{')) {
      scopes_.emplace_back().first = f_.statements.size();
      return;
    }
    if (c_.take('}')) {
      rename_labels(scopes_.back());
      scopes_.pop_back();
      if (scopes_.empty()) fail("unexpected '}'");
      return;
    }
    if (c_.take(';')) return;
    if (c_.peek() == '.') return directive();
    Statement s;
    s.line = static_cast<int>(f_.lines.size()) - 1;
    if (c_.take('@')) {
      s.guard_negated = c_.take('!');
      const Operand guard = named(c_.name());
      if (guard.kind != Kind::kRegister) fail("a guard must be a register");
      s.guard = guard.reg;
    }
    const char* begin = (c_.skip(), c_.position());
    s.ptx_line = c_.line();
    const std::string_view word = c_.dotted();
    if (word.empty()) fail("expected an instruction");
    if (c_.peek() == ':') {
      c_.advance();
      const auto next = static_cast<int>(f_.statements.size());
      if (scopes_.size() > 1)
        scopes_.back().labels.emplace_back(word, next);
      else
        f_.labels[word] = next;
      last_label_ = word;
      return;
    }
    for (std::size_t from = 0; from <= word.size();) {
      const std::size_t dot = std::min(word.find('.', from), word.size());
      s.opcode.push_back(word.substr(from, dot - from));
      from = dot + 1;
    }
    while (c_.peek() != ';') {
      if (c_.take(',')) continue;
      if (c_.done()) fail("expected ';'");
      s.operands.push_back(operand());
    }
    s.text = {begin, static_cast<std::size_t>(c_.position() - begin)};
    c_.advance();
    f_.statements.push_back(std::move(s));
  }

  void directive() {
    const std::string_view word = c_.directive();
    if (word == ".loc") {
      Line line;
      line.file = static_cast<int>(number(c_).value);
      line.line = static_cast<int>(number(c_).value);
      number(c_);
      while (c_.take(',')) {
        if (c_.name() == "inlined_at") {
          line.outer_file = static_cast<int>(number(c_).value);
          line.outer_line = static_cast<int>(number(c_).value);
          number(c_);
        } else {  // function_name label [+ offset]
          c_.name();
          if (c_.take('+')) number(c_);
        }
      }
      // Earlier entries have the positions of nested calls. The outermost position is kept.
      for (std::size_t back = 1; back <= kMostNestedCalls && back <= f_.lines.size(); ++back) {
        const Line& call = f_.lines[f_.lines.size() - back];
        if (call.file != line.outer_file || call.line != line.outer_line) continue;
        if (call.outer_file != 0)
          line.outer_file = call.outer_file, line.outer_line = call.outer_line;
        break;
      }
      // Line 0 marks code without a position; the last position is kept.
      if (line.line != 0) f_.lines.push_back(line);
    } else if (word == ".reg") {
      const std::string_view dot = c_.directive(),
                             type = dot.substr(std::min<std::size_t>(1, dot.size()));
      const int bytes = size_of_type(type);
      if (bytes == 0) fail("unknown type of registers");
      do {
        const std::string_view name = c_.name();
        int count = 1;
        if (c_.take('<')) {
          count = static_cast<int>(in_range(c_, 0, kMostRegisters - f_.registers.size()));
          c_.expect('>');
          scopes_.back().ranges[name] = {static_cast<int>(f_.registers.size()), count};
        } else {
          scopes_.back().registers[name] = static_cast<int>(f_.registers.size());
        }
        f_.registers.insert(f_.registers.end(), static_cast<std::size_t>(count), {type, bytes});
        if (f_.registers.size() >= kMostRegisters) fail("too many registers");
      } while (c_.take(','));
      c_.expect(';');
    } else if (word == ".pragma" || word == ".callprototype") {
      c_.until(';');
      c_.expect(';');
    } else if (word == ".section" || word == ".file") {
      c_.skip_line();
    } else if (word == ".branchtargets") {
      do {
        f_.branch_tables[last_label_].push_back(c_.name());
      } while (c_.take(','));
      c_.expect(';');
    } else if (const Space space = space_of(word); space != Space::kGeneric) {
      Variable v = declaration(c_, space);
      c_.expect(';');
      scopes_.back().variables[v.name] = static_cast<int>(f_.variables.size());
      f_.variables.push_back(v);
    } else {
      fail("unknown directive " + std::string(word));
    }
  }

  Operand operand() {
    Operand first = single();
    if (c_.peek() != '|') return first;
    c_.advance();
    Operand pair{Kind::kVector};
    pair.parts.push_back(std::move(first));
    pair.parts.push_back(single());
    return pair;
  }

  Operand single(int depth = 0) {
    const char c = c_.peek();
    if (depth > kMostNested) fail("too many brackets");
    if (c == '{' || c == '(') {
      c_.advance();
      Operand list{Kind::kVector};
      const char close = c == '{' ? '}' : ')';
      while (!c_.take(close)) {
        if (c_.take(',')) continue;
        list.parts.push_back(single(depth + 1));
      }
      return list;
    }
    if (c == '[') {
      c_.advance();
      Operand address{Kind::kAddress};
      do {
        address.parts.push_back(single(depth + 1));
        while (c_.peek() == '+' || c_.peek() == '-') {  // [%rd+-8]
          const bool minus = !c_.take('+') && c_.take('-');
          const std::uint64_t offset = number(c_).value;
          address.value += minus ? -offset : offset;
        }
      } while (c_.take(','));
      c_.expect(']');
      return address;
    }
    if (c == '!') {
      c_.advance();
      Operand o = single(depth + 1);
      o.negated = true;
      return o;
    }
    if (c == '-' || is_digit(c)) return number(c_);
    return named(c_.name());
  }

  Operand named(std::string_view name) {
    if (name.empty()) fail("expected an operand");
    if (name == "_") return {Kind::kSink};
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->registers.find(name); found != scope->registers.end())
        return {.kind = Kind::kRegister, .reg = found->second};
      if (const auto found = scope->variables.find(name); found != scope->variables.end())
        return {.kind = Kind::kVariable, .name = name, .variable = found->second};
      std::size_t digits = name.size();
      while (digits > 0 && is_digit(name[digits - 1])) --digits;
      if (const auto range = scope->ranges.find(name.substr(0, digits));
          digits < name.size() && range != scope->ranges.end()) {
        const auto index = std::strtoull(std::string(name.substr(digits)).c_str(), nullptr, 10);
        if (index < static_cast<std::uint64_t>(range->second.count))
          return {.kind = Kind::kRegister, .reg = range->second.first + static_cast<int>(index)};
      }
    }
    const auto is_named = [&](const Variable& v) { return v.name == name; };
    if (std::any_of(f_.params.begin(), f_.params.end(), is_named) ||
        std::any_of(f_.results.begin(), f_.results.end(), is_named) ||
        text_.variable_of_name.contains(name))
      return {.kind = Kind::kVariable, .name = name};
    if (name[0] != '%') return {.kind = Kind::kName, .name = name};
    if (c_.direct() == '.' && c_.direct(1) >= 'x' && c_.direct(1) <= 'z') {
      c_.advance(), c_.advance();
      name = {name.data(), name.size() + 2};
    }
    return {.kind = Kind::kSpecial, .name = name};
  }

  [[noreturn]] void fail(const std::string& message) const { c_.fail(message); }

  const Text& text_;
  Function& f_;
  Cursor c_;
  std::vector<Scope> scopes_;
  std::string_view last_label_;
};

}  // namespace

int size_of_type(std::string_view type) {
  if (type == "pred" || type == "b8" || type == "u8" || type == "s8") return 1;
  if (type == "f16" || type == "bf16" || type == "e4m3x2" || type == "e5m2x2") return 2;
  if (type == "tf32") return 4;
  if (type == "f16x2" || type == "bf16x2") return 4;
  if (type.size() < 3 || std::string_view("busf").find(type[0]) == std::string_view::npos) return 0;
  if (type.substr(1) == "16") return 2;
  if (type.substr(1) == "32") return 4;
  if (type.substr(1) == "64") return 8;
  if (type == "b128") return 16;
  return 0;
}
bool is_float_type(std::string_view type) {
  return type.starts_with('f') || type.starts_with("bf");
}
bool is_signed_type(std::string_view type) { return type.starts_with('s'); }

std::string place_of(const Text& text, const Line& line) {
  const auto words = [&](int number, int at) {
    const auto file = text.files.find(number);
    return file == text.files.end() ? "" : file->second + ":" + std::to_string(at) + ", ";
  };
  const std::string outer = words(line.outer_file, line.outer_line);
  return words(line.file, line.line) + (outer.empty() ? "" : "inlined at " + outer);
}

void parse_module(Text& text) {
  text.uses_groups = text.ptx.find("wgmma.mma_async") != std::string::npos;
  Cursor c(text.ptx, 1);
  bool external = false;
  while (!c.done()) {
    if (c.peek() != '.') c.fail("expected a directive");
    const std::string_view word = c.directive();
    if (word == ".version" || word == ".target" || word == ".address_size") {
      c.skip_line();
    } else if (word == ".file") {
      const int number_of_file = static_cast<int>(number(c).value);
      c.expect('"');
      text.files[number_of_file] = std::string(c.until('"'));
      c.skip_line();
    } else if (word == ".section") {
      c.until('{');
      c.expect('{');
      c.braces();
    } else if (word == ".visible" || word == ".weak" || word == ".common") {
      external = false;
    } else if (word == ".extern") {
      external = true;
    } else if (word == ".entry" || word == ".func") {
      Function f;
      f.entry = word == ".entry";
      while (c.peek() == '.') c.directive();  // .attribute, .noreturn
      if (!f.entry && c.peek() == '(') f.results = parameter_list(c);
      f.name = c.name();
      if (c.peek() == '(') f.params = parameter_list(c);
      while (c.peek() == '.') {
        const std::string_view directive = c.directive();
        if (directive == ".maxntid")
          f.max_threads = numbers(c);
        else if (directive == ".reqntid")
          f.required_threads = numbers(c);
        else if (directive == ".reqnctapercluster")
          f.cluster = numbers(c);
        else if (is_digit(c.peek()))
          numbers(c);  // .minnctapersm 4
      }
      if (c.take('{')) {
        f.body_line = c.line();
        f.body = c.braces();
      } else {
        c.expect(';');
      }
      if (f.entry)
        text.entries.push_back(f.name);
      else if (!f.body.empty())
        text.callable.push_back(f.name);
      if (!f.body.empty() || !text.functions.contains(f.name))
        text.functions[f.name] = std::move(f);
      external = false;
    } else if (const Space space = space_of(word); space != Space::kGeneric) {
      Variable v = declaration(c, space);
      c.expect(';');
      v.external = external;
      external = false;
      const auto known = text.variable_of_name.find(v.name);
      if (known != text.variable_of_name.end()) {
        text.variables[known->second] = v;
      } else {
        text.variable_of_name[v.name] = static_cast<int>(text.variables.size());
        text.variables.push_back(v);
      }
    } else {
      c.skip_line();  // .pragma and similar directives
    }
  }
}

void parse_body(const Text& text, Function& function) {
  if (function.body.empty())
    throw PtxError("function " + std::string(function.name) + " has no body in this module");
  BodyParser(text, function).run();
}

std::vector<std::uint8_t> initial_bytes(
    const Variable& variable, const std::function<std::uint64_t(std::string_view)>& address_of) {
  std::vector<std::uint8_t> bytes;
  Cursor c(variable.initial, 0);
  // name, name + 4, generic(name)
  const auto address = [&] {
    std::string_view name = c.name();
    const bool generic = name == "generic" && c.take('(');
    if (generic) name = c.name();
    std::uint64_t value = address_of(name);
    if (c.take('+')) value += number(c).value;
    if (generic) c.expect(')');
    return value;
  };
  while (!c.done()) {
    if (c.take(',') || c.take('{') || c.take('}')) continue;
    std::uint64_t value;
    if (c.peek() == '-' || is_digit(c.peek())) {
      value = number(c).value;
      if (c.take('(')) {  // 0xFF00(name): the bytes of an address that the mask selects
        const int shift = value == 0 ? 0 : __builtin_ctzll(value);
        value = (address() & value) >> shift;
        c.expect(')');
      }
    } else {
      value = address();
    }
    const auto* raw = reinterpret_cast<const std::uint8_t*>(&value);
    bytes.insert(bytes.end(), raw,
                 raw + std::min<std::size_t>(variable.element_bytes, sizeof value));
  }
  bytes.resize(variable.bytes);
  return bytes;
}

}  // namespace ado::emulator
