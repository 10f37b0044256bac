// Decodes products of matrices in fragments (mma, wmma), and moves of fragments.
#include <algorithm>

#include "emulator/decoder.hpp"

namespace ado::emulator {

Decoder::Shape Decoder::shape_of(const Words& w) const {
  static const std::map<std::string_view, Shape> kShapes = {
      {"m16n16k16", {16, 16, 16}}, {"m8n32k16", {8, 32, 16}}, {"m32n8k16", {32, 8, 16}},
      {"m16n16k8", {16, 16, 8}},   {"m8n8k4", {8, 8, 4}},     {"m16n8k4", {16, 8, 4}},
      {"m16n8k8", {16, 8, 8}},     {"m16n8k16", {16, 8, 16}}, {"m16n8k32", {16, 8, 32}},
      {"m8n8k16", {8, 8, 16}}};
  for (const std::string_view word : w)
    if (const auto at = kShapes.find(word); at != kShapes.end()) return at->second;
  unknown();
}

std::vector<Number> Decoder::numbers_in(const Words& w) {
  static const std::map<std::string_view, Number> kNumbers = {
      {"f16", Number::kF16}, {"bf16", Number::kBf16}, {"tf32", Number::kTf32},
      {"f32", Number::kF32}, {"f64", Number::kF64},   {"s8", Number::kS8},
      {"u8", Number::kU8},   {"e4m3", Number::kE4m3}, {"e5m2", Number::kE5m2},
      {"s32", Number::kS32}};
  std::vector<Number> found;
  for (const std::string_view word : w)
    if (const auto at = kNumbers.find(word); at != kNumbers.end()) found.push_back(at->second);
  return found;
}

MatrixProduct::Fragment Decoder::add_fragment(Extra& e, int& next, const Operand& list, Number type,
                                              int elements, bool is_result) {
  const std::span<const Operand> parts = parts_of(list);
  const int count = static_cast<int>(parts.size()), bytes = std::max(element_bytes(type), 4);
  const int held = count * (bytes / element_bytes(type)) * kLanes;
  if (s_->opcode[0] == "wmma" ? held < elements : held != elements)
    fail("a fragment has another size");
  e.registers.resize(std::max<std::size_t>(e.registers.size(), next + count + 3), kNone);
  const MatrixProduct::Fragment f{.type = type, .first = next, .count = count};
  for (const Operand& part : parts)
    e.registers[next++] = is_result ? result(part, bytes) : value(part, bytes);
  return f;
}

void Decoder::multiply_matrices(const Words& w) {
  const auto& o = s_->operands;
  const Shape shape = shape_of(w);
  std::vector<Number> types = numbers_in(w);
  // wmma.mma on f16 names d and c only.
  const bool opaque = w[0] == "wmma";
  if (opaque && types.size() == 2) types = {types[0], Number::kF16, Number::kF16, types[1]};
  const bool known = types.size() == 4 && (opaque || (shape.n == 8 && shape.m <= 16));
  const bool volta = !opaque && shape.m == 8 && types.size() == 4 && types[1] == Number::kF16;
  const bool sparse = w.size() > 1 && w[1].starts_with("sp");
  if (!known || volta || sparse || o.size() < 4) unknown();
  MatrixProduct product;
  product.m = shape.m, product.n = shape.n, product.k = shape.k;
  product.opaque = opaque;
  product.saturates = contains(w, "satfinite");
  Extra e;
  int next = 0;
  product.d = add_fragment(e, next, o[0], types[0], shape.m * shape.n, true);
  e.results = next;
  product.a = add_fragment(e, next, o[1], types[1], shape.m * shape.k);
  product.b = add_fragment(e, next, o[2], types[2], shape.k * shape.n);
  product.c = add_fragment(e, next, o[3], types[3], shape.m * shape.n);
  add_product(product, e);
}

void Decoder::add_product(MatrixProduct product, const Extra& e) {
  product.extra = add_extra(e);
  p_.matrices.push_back(product);
  emit(Op::kMatrix, {.aux = static_cast<u32>(p_.matrices.size() - 1)});
}

void Decoder::move_fragment(const Words& w) {
  const auto& o = s_->operands;
  const bool store = w[1] == "store";
  const Shape shape = shape_of(w);
  const std::vector<Number> types = numbers_in({w.back()});
  if (types.empty()) unknown();
  const bool is_a = w[2] == "a", is_b = w[2] == "b";
  const int rows = is_b ? shape.k : shape.m, columns = is_a ? shape.k : shape.n;
  const bool by_row = contains(w, "row");
  const std::span<const Operand> parts = parts_of(o.at(store ? 1 : 0));
  Space space = space_of(w);
  const u32 base = generic_address(o.at(store ? 0 : 1), space);
  if (space == Space::kShared) space = Space::kGeneric;
  const u32 pitch = o.size() > 2 ? value(o[2], 4) : immediate(by_row ? columns : rows, 4);
  const int bytes = element_bytes(types[0]), whole = std::max(bytes, 4),
            per_register = whole / bytes;
  const auto lane = static_cast<u32>(ThreadValue::kLane);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<u32> elements;
    const u32 whole_register = store ? value(parts[i], whole) : kNone;
    for (int k = 0; k < per_register; ++k) {
      const auto slot = static_cast<u64>(i) * per_register + k;
      const u32 index = computed("and.b32", computed("add.u32", lane, immediate(32 * slot, 4)),
                                 immediate(static_cast<u64>(rows) * columns - 1, 4));
      const u32 row = computed("div.u32", index, immediate(columns, 4)),
                column = computed("rem.u32", index, immediate(columns, 4));
      const u32 element =
          computed("mad.lo.u32", by_row ? row : column, pitch, by_row ? column : row);
      const u32 address =
          computed("add.u64", base, computed("mul.wide.u32", element, immediate(bytes, 4)));
      const u32 data = bytes == whole && store ? whole_register : temporary(std::max(bytes, 2));
      elements.push_back(data);
      if (store && bytes == 2) emit_alu(k == 0 ? "low.b32" : "high.b32", data, whole_register);
      move_element({.space = space, .store = store, .address = address}, bytes, data);
    }
    if (store) continue;
    const u32 d = result(parts[i], whole);
    if (per_register == 1) {
      emit_alu("mov.b" + std::to_string(8 * whole), d, elements[0]);
    } else if (per_register == 2) {
      emit_alu("pack.b32", d, elements[0], elements[1]);
    } else {
      u32 halves[2];
      for (int half = 0; half < 2; ++half) {
        const u32 high = computed("shl.b16", elements[2 * half + 1], immediate(8, 4));
        halves[half] = computed("or.b16", elements[2 * half], high);
      }
      emit_alu("pack.b32", d, halves[0], halves[1]);
    }
  }
}

void Decoder::multiply_in_group(const Words& w) {
  const auto& o = s_->operands;
  if (!contains(w, "aligned") || contains(w, "sp")) unknown();
  p_.uses_groups = true;
  if (w[1] == "fence") return emit(Op::kGroupFence);
  if (w[1] == "commit_group") return emit(Op::kGroupCommit);
  if (w[1] == "wait_group") return emit(Op::kGroupWait, {.aux = static_cast<u32>(o.at(0).value)});
  const std::vector<Number> types = numbers_in(w);
  int n = 0;
  for (const std::string_view word : w)
    if (word.starts_with("m64n")) n = std::atoi(word.data() + 4);
  if (w[1] != "mma_async" || types.size() != 3 || n < 8 || n > 256 || n % 8 != 0) unknown();
  const int bytes = element_bytes(types[1]), k = 32 / bytes;
  if (!contains(w, "m64n" + std::to_string(n) + "k" + std::to_string(k))) unknown();
  // Integers have no operands for signs. Only types of 16 bits have operands that transpose a
  // matrix.
  const bool is_shared = o.at(1).kind != Kind::kVector;
  const std::size_t signs = types[0] == Number::kS32 ? 0 : 2,
                    orders = bytes == 2 ? 1 + is_shared : 0;
  if (o.size() != 4 + signs + orders) unknown();
  MatrixProduct product;
  product.m = 16, product.n = n, product.k = k;  // the rows of one warp
  product.saturates = contains(w, "satfinite");
  Extra e;
  int next = 0;
  product.d = add_fragment(e, next, o[0], types[0], product.m * n, true);
  e.results = next;
  const auto add_operand = [&](const Operand& operand, Number type) {
    if (operand.kind == Kind::kVector) return add_fragment(e, next, operand, type, product.m * k);
    e.registers[next] = value(operand, 8);
    return MatrixProduct::Fragment{.type = type, .first = next++, .count = 1, .shared = true};
  };
  product.a = add_operand(o[1], types[1]);
  product.b = add_operand(o[2], types[2]);
  e.registers[product.scale = next++] = value(o[3], 1);
  product.c = add_fragment(e, next, o[0], types[0], product.m * n);
  if (signs != 0) product.negated = (o[4].value == 1) != (o[5].value == 1);
  if (orders == 2) product.a.transposed = o[6].value != 0;
  if (orders != 0) product.b.transposed = o[5 + orders].value != 0;
  Access access{.space = Space::kShared};
  access.element_bytes = 16;
  product.access = add_access(access);
  add_product(product, e);
}

// Lane 8 i + r loads or stores row r of matrix i, 16 bytes; another instruction exchanges the
// elements between the lanes.
void Decoder::move_matrices(const Words& w) {
  const auto& o = s_->operands;
  const bool store = w[0] == "stmatrix";
  if (!contains(w, "m8n8") || w.back() != "b16") unknown();
  const std::span<const Operand> parts = parts_of(o.at(store ? 1 : 0));
  if (parts.size() != 1 && parts.size() != 2 && parts.size() != 4) unknown();
  Access access{.space = space_of(w), .store = store};
  access.element_bytes = access.register_bytes = access.count = 4;
  access.lanes = parts.size() == 4 ? kAllLanes : (1u << 8 * parts.size()) - 1;
  access.move = move_of("b32", 4, store);
  set_address(access, o.at(store ? 0 : 1));
  Extra e;
  std::size_t next = 0;
  const auto add_rows = [&] {
    for (int i = 0; i < 4; ++i) e.registers[next++] = access.data[i];
  };
  for (int i = 0; i < 4; ++i) access.data[i] = temporary(4);
  if (store) add_rows();
  for (const Operand& part : parts)
    e.registers.at(next++) = store ? value(part, 4) : result(part, 4);
  e.results = static_cast<int>(store ? 4 : parts.size());
  if (!store) add_rows();
  if (!store) emit(Op::kLoad, {.aux = add_access(access)});
  emit(Op::kTransposeRows,
       {.aux = add_extra(e),
        .bytes = static_cast<u8>(parts.size()),
        .mode = static_cast<u8>(store * kRowsStored | contains(w, "trans") * kRowsTransposed)});
  if (store) emit(Op::kStore, {.aux = add_access(access)});
}

}  // namespace ado::emulator
