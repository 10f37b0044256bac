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

std::optional<Number> Decoder::number_of(std::string_view type) const {
  static const std::map<std::string_view, Number> kNumbers = {
      {"f16", Number::kF16}, {"bf16", Number::kBf16}, {"tf32", Number::kTf32},
      {"f32", Number::kF32}, {"f64", Number::kF64},   {"s8", Number::kS8},
      {"u8", Number::kU8},   {"s32", Number::kS32}};
  const auto at = kNumbers.find(type);
  return at == kNumbers.end() ? std::nullopt : std::optional(at->second);
}

int Decoder::bytes_of(Number number) {
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

void Decoder::multiply_matrices(const Words& w) {
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
  const bool sparse = w.size() > 1 && w[1].starts_with("sp");
  if (!known || volta || sparse || o.size() < 4) unknown();
  MatrixProduct product;
  product.m = shape.m, product.n = shape.n, product.k = shape.k;
  product.opaque = opaque;
  product.saturates = contains(w, "satfinite");
  Extra e = empty_extra();
  int next = 0;
  const auto add = [&](const Operand& list, Number type, int elements, bool is_result = false) {
    const std::span<const Operand> parts = parts_of(list);
    const int bytes = std::max(bytes_of(type), 4);
    const int held = static_cast<int>(parts.size()) * (bytes / bytes_of(type)) * kLanes;
    if (opaque ? held < elements : held != elements) fail("a fragment has another size");
    MatrixProduct::Fragment f{type, next, static_cast<int>(parts.size())};
    for (const Operand& part : parts)
      e.registers.at(next++) = is_result ? result(part, bytes) : value(part, bytes);
    return f;
  };
  product.d = add(o[0], types[0], shape.m * shape.n, true);
  e.results = next;
  product.a = add(o[1], types[1], shape.m * shape.k);
  product.b = add(o[2], types[2], shape.k * shape.n);
  product.c = add(o[3], types[3], shape.m * shape.n);
  product.extra = add_extra(e);
  p_.matrices.push_back(product);
  emit(Op::kMatrix, {.aux = static_cast<u32>(p_.matrices.size() - 1)});
}

u32 Decoder::combined(std::string_view op, int bytes, u32 a, u32 b) {
  const u32 d = temporary(bytes);
  emit_alu(op, d, a, b);
  return d;
}

void Decoder::move_fragment(const Words& w) {
  const auto& o = s_->operands;
  const bool store = w[1] == "store";
  const Shape shape = shape_of(w);
  const auto type = number_of(w.back());
  if (!type) unknown();
  const bool is_a = w[2] == "a", is_b = w[2] == "b";
  const int rows = is_b ? shape.k : shape.m, columns = is_a ? shape.k : shape.n;
  const bool by_row = contains(w, "row");
  const std::span<const Operand> parts = parts_of(o.at(store ? 1 : 0));
  Space space = space_of(w);
  const u32 base = generic_address(o.at(store ? 0 : 1), space);
  if (space == Space::kShared) space = Space::kGeneric;
  const u32 pitch = o.size() > 2 ? value(o[2], 4) : immediate(by_row ? columns : rows, 4);
  const int bytes = bytes_of(*type), whole = std::max(bytes, 4), per_register = whole / bytes;
  const auto lane = static_cast<u32>(ThreadValue::kLane);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<u32> elements;
    const u32 whole_register = store ? value(parts[i], whole) : kNone;
    for (int k = 0; k < per_register; ++k) {
      const auto slot = static_cast<u64>(i) * per_register + k;
      const u32 index =
          combined("and.b32", 4, combined("add.u32", 4, lane, immediate(32 * slot, 4)),
                   immediate(static_cast<u64>(rows) * columns - 1, 4));
      const u32 row = combined("div.u32", 4, index, immediate(columns, 4)),
                column = combined("rem.u32", 4, index, immediate(columns, 4));
      const u32 element = temporary(4), offset = temporary(8), address = temporary(8);
      emit_alu("mad.lo.u32", element, by_row ? row : column, pitch, by_row ? column : row);
      emit_alu("mul.wide.u32", offset, element, immediate(bytes, 4));
      emit_alu("add.u64", address, base, offset);
      const u32 data = bytes == whole && store ? whole_register : temporary(std::max(bytes, 2));
      elements.push_back(data);
      if (store && bytes == 2) emit_alu(k == 0 ? "low.b32" : "high.b32", data, whole_register);
      move_element(space, bytes, address, data, store);
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
        const u32 high = combined("shl.b16", 2, elements[2 * half + 1], immediate(8, 4));
        halves[half] = combined("or.b16", 2, elements[2 * half], high);
      }
      emit_alu("pack.b32", d, halves[0], halves[1]);
    }
  }
}

void Decoder::move_matrices(const Words& w) {
  const auto& o = s_->operands;
  const bool store = w[0] == "stmatrix", transposed = contains(w, "trans");
  if (!contains(w, "m8n8") || w.back() != "b16") unknown();
  const std::span<const Operand> parts = parts_of(o.at(store ? 1 : 0));
  const u32 address = generic_address(o.at(store ? 0 : 1), Space::kShared);
  const auto lane = static_cast<u32>(ThreadValue::kLane);
  const u32 low = temporary(4), high = temporary(4);
  emit_alu("low.b64", low, address);
  emit_alu("high.b64", high, address);
  const u32 fourth = combined("shr.u32", 4, lane, immediate(2, 4)),
            pair = combined("shl.b32", 4, combined("and.b32", 4, lane, immediate(3, 4)),
                            immediate(1, 4));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    u32 elements[2];
    const u32 whole = store ? value(parts[i], 4) : kNone;
    for (u64 k = 0; k < 2; ++k) {
      const u32 second = combined("add.u32", 4, pair, immediate(k, 4));
      const u32 row = transposed ? second : fourth, column = transposed ? fourth : second;
      const u32 from = combined("add.u32", 4, row, immediate(8 * i, 4));
      const u32 start = temporary(4);
      const u32 e = extra({kNone, immediate(~0u, 4), low, from, immediate(31, 4)});
      emit(Op::kShuffle,
           {.d = start, .aux = e, .bytes = 4, .mode = static_cast<u8>(ShuffleMode::kMatrix)});
      const u32 at = temporary(4), wide = temporary(8);
      emit_alu("mad.lo.u32", at, column, immediate(2, 4), start);
      emit_alu("pack.b64", wide, at, high);
      elements[k] = temporary(2);
      if (store) emit_alu(k == 0 ? "low.b32" : "high.b32", elements[k], whole);
      move_element(Space::kGeneric, 2, wide, elements[k], store);
    }
    if (!store) emit_alu("pack.b32", result(parts[i], 4), elements[0], elements[1]);
  }
}

}  // namespace ado::emulator
