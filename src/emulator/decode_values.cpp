// Decodes instructions that compute values per lane: arithmetic, moves, conversions, comparisons.
#include <algorithm>

#include "emulator/decoder.hpp"

namespace ado::emulator {

void Decoder::element_wise(const Words& w) {
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
  const bool flushes = ftz && type.starts_with("f16");
  if (ftz && type.find("16") == std::string_view::npos) name.push_back("ftz");
  std::string typed(type);
  static constexpr std::string_view kUntyped[] = {"and",  "or",  "xor",  "not", "cnot", "shl",
                                                  "selp", "mov", "popc", "clz", "brev"};
  if (std::find(std::begin(kUntyped), std::end(kUntyped), name[0]) != std::end(kUntyped))
    typed = bits_type(type);
  if (name[0] == "prmt" && w.size() > 2) typed = "b32." + std::string(w[2]), name = {"prmt"};
  name.push_back(typed);
  const AluEntry* entry = find(joined(name));
  if (entry == nullptr) unknown();
  u32 operands[3] = {kNone, kNone, kNone};
  for (int i = 0; i < 3; ++i)
    if (entry->bytes[i + 1] != 0) operands[i] = value(o.at(i + 1), entry->bytes[i + 1]);
  // Flushing and saturation are instructions of their own.
  const std::string flush = "flush." + std::string(type);
  for (u32& operand : operands)
    if (flushes && operand != kNone) operand = computed(flush, operand);
  const Operand& d = o.at(0);
  u32 out = flushes || sat ? temporary(entry->bytes[0]) : result(d, entry->bytes[0]);
  emit_alu(*entry, out, operands[0], operands[1], operands[2]);
  if (flushes) out = computed(flush, out);
  if (sat) out = computed("sat." + std::string(type), out);
  if (flushes || sat)
    emit_alu("mov.b" + std::to_string(8 * entry->bytes[0]), result(d, entry->bytes[0]), out);
}

void Decoder::move(const Words& w, const Operand& d, const Operand& a) {
  const int bytes = size_of_type(w.back());
  const bool splits = d.kind == Kind::kVector, packs = a.kind == Kind::kVector;
  if (!splits && !packs)
    return emit_alu("mov." + bits_type(w.back()), result(d, bytes), value(a, bytes));
  const auto& parts = splits ? d.parts : a.parts;
  const int part = bytes / std::max(static_cast<int>(parts.size()), 1);
  const bool four = parts.size() == 4;
  if ((splits && packs) || part < 2 || bytes > 8 || (parts.size() != 2 && !four)) unknown();
  if (splits) {
    const u32 whole = value(a, bytes);
    const u32 halves[] = {four ? computed("low.b64", whole) : whole,
                          four ? computed("high.b64", whole) : kNone};
    const std::string of = part == 4 ? ".b64" : ".b32";
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].kind != Kind::kSink)
        emit_alu((i % 2 == 0 ? "low" : "high") + of, result(parts[i], part), halves[i / 2]);
    return;
  }
  std::vector<u32> values;
  for (const Operand& o : parts) values.push_back(value(o, part));
  if (four)
    values = {computed("pack.b32", values[0], values[1]),
              computed("pack.b32", values[2], values[3])};
  emit_alu(bytes == 8 ? "pack.b64" : "pack.b32", result(d, bytes), values[0], values[1]);
}

void Decoder::convert(const Words& w) {
  const auto& o = s_->operands;
  const std::string to(w[w.size() - 2]), from(w.back());
  const auto stored = [](std::string_view type) { return std::max(size_of_type(type), 2); };
  if (w[1] == "pack") return pack_saturated(w);
  bool ftz = false, sat = false;
  std::string rounding;  // and other modifiers
  for (std::size_t i = 1; i + 2 < w.size(); ++i) {
    if (w[i] == "ftz")
      ftz = true;
    else if (w[i] == "sat")
      sat = true;
    else
      rounding += (rounding.empty() ? "" : ".") + std::string(w[i]);
  }
  if (o.size() == 3) {  // two float32 to a pair
    const AluEntry* entry = find("cvt." + rounding + "." + to + "." + from);
    if (entry == nullptr || sat) unknown();
    return emit_alu(*entry, result(o[0], entry->bytes[0]), value(o[1], 4), value(o[2], 4), kNone);
  }
  const u32 negative_zero = immediate(0x80000000u, 4);
  const auto flushed = [&](u32 x) { return computed("add.ftz.f32", x, negative_zero); };
  u32 source;
  const int source_bytes = bytes_of(o[1]);
  if (source_bytes > stored(from))
    source = computed(
        "cvt.u" + std::to_string(8 * stored(from)) + ".u" + std::to_string(8 * source_bytes),
        reg(o[1].reg));
  else
    source = value(o[1], stored(from));
  if (ftz && from == "f32") source = flushed(source);
  const bool integer = !is_float_type(to) && !is_float_type(from);
  if (!is_float_type(to) && is_float_type(from)) sat = false;  // always clamped
  if (to == from && is_float_type(to) && (rounding == "rn")) rounding.clear();
  std::string name = "cvt";
  if (!rounding.empty()) name += "." + rounding;
  if (sat && integer) name += ".sat";
  const AluEntry* entry = find(name + "." + to + "." + from);
  if (entry == nullptr) unknown();
  const int bytes = o[0].kind == Kind::kRegister ? bytes_of(o[0]) : stored(to);
  const bool extend = bytes > stored(to), clamp = sat && !integer, flush = ftz && to == "f32";
  if (!extend && !clamp && !flush)
    return emit_alu(*entry, result(o[0], bytes), source, kNone, kNone);
  u32 d = computed(entry->name, source);
  if (flush && clamp) d = flushed(d);
  const std::string sign = is_signed_type(to) ? "s" : "u";
  const auto type = [&](int size) { return sign + std::to_string(8 * size); };
  if (clamp || extend)
    emit_alu(clamp ? "sat." + to : "cvt." + type(bytes) + "." + type(stored(to)),
             result(o[0], bytes), d);
  else
    emit_alu("add.ftz.f32", result(o[0], bytes), d, negative_zero);
}

void Decoder::compare(const Words& w) {
  const auto& o = s_->operands;
  const bool pair = o.at(0).kind == Kind::kVector, combined = o.size() == 4;
  if (w.back().ends_with("16x2") && pair && !combined)
    return compare_halves(w, result(o[0].parts[0], 1), result(o[0].parts[1], 1));
  const u32 p = pair ? result(o[0].parts[0], 1) : result(o[0], 1);
  const u32 q = pair ? result(o[0].parts[1], 1) : kNone;
  const std::string boolean = combined ? std::string(w[2]) + ".pred" : "";
  const u32 third = combined ? value(o[3], 1) : kNone;
  const u32 plain = combined || pair ? temporary(1) : p;
  comparison(w, plain, o.at(1), o.at(2));
  if (q != kNone) {
    const u32 inverse = combined ? temporary(1) : q;
    emit_alu("not.pred", inverse, plain);
    if (combined) emit_alu(boolean, q, inverse, third);
  }
  if (combined)
    emit_alu(boolean, p, plain, third);
  else if (pair)
    emit_alu("mov.pred", p, plain);
}

void Decoder::comparison(const Words& w, u32 d, const Operand& a, const Operand& b) {
  const std::string_view type = w.back();
  std::string op(w[1]);
  static const std::map<std::string, std::string> kUnsigned = {
      {"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
  if (const auto u = kUnsigned.find(op); u != kUnsigned.end()) op = u->second;
  const bool ftz = contains(w, "ftz") && type == "f32";
  const AluEntry* entry = find("setp." + op + (ftz ? ".ftz." : ".") + std::string(type));
  if (entry == nullptr) unknown();
  emit_alu(*entry, d, value(a, entry->bytes[1]), value(b, entry->bytes[2]), kNone);
}

void Decoder::compare_halves(const Words& w, u32 low, u32 high) {
  const auto& o = s_->operands;
  const AluEntry* entry = find("setp." + std::string(w[1]) + "." +
                               std::string(w.back().substr(0, w.back().size() - 2)));
  if (entry == nullptr || contains(w, "ftz")) unknown();
  const u32 a = value(o.at(1), 4), b = value(o.at(2), 4);
  emit_alu(*entry, low, computed("low.b32", a), computed("low.b32", b), kNone);
  emit_alu(*entry, high, computed("high.b32", a), computed("high.b32", b), kNone);
}

void Decoder::compare_to_value(const Words& w) {
  const auto& o = s_->operands;
  const std::string_view to = w[w.size() - 2], from = w.back();
  const bool halves = from.ends_with("16x2");
  const int bytes = size_of_type(to), part = halves ? 2 : bytes;
  if (o.size() != 3 || bytes < 2 || bytes > 4 || (halves && bytes != 4)) unknown();
  const u64 yes = to == "f32"              ? 0x3f800000u
                  : to.starts_with("f16")  ? 0x3c00
                  : to.starts_with("bf16") ? 0x3f80
                                           : 0xffffffffu;
  u32 p[] = {temporary(1), temporary(1)}, values[] = {temporary(part), temporary(part)};
  if (halves)
    compare_halves(w, p[0], p[1]);
  else
    comparison(w, p[0], o[1], o[2]);
  for (int i = 0; i <= halves; ++i)
    emit_alu("selp.b" + std::to_string(8 * part), values[i], immediate(yes, part),
             immediate(0, part), p[i]);
  if (halves) return emit_alu("pack.b32", result(o[0], 4), values[0], values[1]);
  emit_alu("mov.b" + std::to_string(8 * part), result(o[0], part), values[0]);
}

// cvt.pack.sat.to.s32 d, a, b and, to 8 bits, c, whose lower half becomes d's upper half
void Decoder::pack_saturated(const Words& w) {
  const auto& o = s_->operands;
  const std::string to(w[3]);
  const u64 bits = 8 * size_of_type(to), mask = bits == 16 ? 0xffff : 0xff;
  if (w[4] != "s32" || (bits != 16 && bits != 8) || (bits == 8) != (o.size() == 4)) unknown();
  u32 sum = bits == 8 ? computed("shl.b32", value(o[3], 4), immediate(16, 4)) : immediate(0, 4);
  for (const int i : {1, 2}) {
    const u32 wide = computed("cvt.u32.u16", computed("cvt.sat." + to + ".s32", value(o[i], 4)));
    const u32 part = computed("and.b32", wide, immediate(mask, 4));
    sum = computed("or.b32", sum, computed("shl.b32", part, immediate(i == 1 ? bits : 0, 4)));
  }
  emit_alu("mov.b32", result(o[0], 4), sum);
}

void Decoder::logic3() {
  const auto& o = s_->operands;
  const u32 in[3] = {value(o.at(1), 4), value(o.at(2), 4), value(o.at(3), 4)};
  const u64 table = o.at(4).value;
  u32 not_in[3], sum = immediate(0, 4);
  for (int i = 0; i < 3; ++i) not_in[i] = computed("not.b32", in[i]);
  for (int row = 0; row < 8; ++row) {
    if (!((table >> row) & 1)) continue;
    const u32 ab = computed("and.b32", row & 4 ? in[0] : not_in[0], row & 2 ? in[1] : not_in[1]);
    sum = computed("or.b32", sum, computed("and.b32", ab, row & 1 ? in[2] : not_in[2]));
  }
  emit_alu("mov.b32", result(o[0], 4), sum);
}

void Decoder::bit_insert(const Words& w) {
  const auto& o = s_->operands;
  const int bytes = size_of_type(w.back());
  const bool known = o.at(3).kind == Kind::kImmediate && o.at(4).kind == Kind::kImmediate;
  const u32 where = known ? immediate((o[3].value & 0xff) | (o[4].value & 0xff) << 8, 4)
                          : computed("bfi.where", value(o[3], 4), value(o[4], 4));
  emit_alu("bfi.b" + std::to_string(8 * bytes), result(o[0], bytes), value(o[1], bytes),
           value(o[2], bytes), where);
}

void Decoder::carry(const Words& w) {
  const auto& o = s_->operands;
  const std::string_view type = w.back();
  const int bytes = size_of_type(type);
  const std::string bits = ".b" + std::to_string(8 * bytes);
  if (bytes < 4) unknown();
  if (carry_ == kNone) carry_ = temporary(1);
  const bool subtract = w[0].starts_with("sub"), multiply = w[0].starts_with("mad"),
             carries_in = w[0].ends_with('c');
  u32 a = value(o.at(1), bytes), b = value(o.at(2), bytes);
  if (multiply) {
    a = computed("mul." + std::string(contains(w, "hi") ? "hi." : "lo.") + std::string(type), a, b);
    b = value(o.at(3), bytes);
  }
  if (subtract) b = computed("not" + bits, b);
  // After a subtraction the flag holds the carry of a + ~b + 1, the inverse of the borrow.
  const u32 in = carries_in ? carry_ : immediate(subtract ? 1 : 0, 1);
  const u32 out = temporary(1), sum = temporary(bytes);
  if (contains(w, "cc")) emit_alu("carry" + bits, out, a, b, in);
  emit_alu("addc" + bits, sum, a, b, in);
  if (contains(w, "cc")) emit_alu("mov.pred", carry_, out);
  emit_alu("mov" + bits, result(o[0], bytes), sum);
}

}  // namespace ado::emulator
