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
  const auto apply = [&](std::string_view op, u32 a) {
    const u32 d = temporary(lane_bytes(a));
    emit_alu(std::string(op) + std::string(type), d, a);
    return d;
  };
  for (u32& operand : operands)
    if (flushes && operand != kNone) operand = apply("flush.", operand);
  const Operand& d = o.at(0);
  u32 out = flushes || sat ? temporary(entry->bytes[0]) : result(d, entry->bytes[0]);
  emit_alu(*entry, out, operands[0], operands[1], operands[2]);
  if (flushes) out = apply("flush.", out);
  if (sat) out = apply("sat.", out);
  if (flushes || sat)
    emit_alu("mov.b" + std::to_string(8 * entry->bytes[0]), result(d, entry->bytes[0]), out);
}

void Decoder::move(const Words& w, const Operand& d, const Operand& a) {
  const int bytes = size_of_type(w.back());
  if (w.back() == "pred") return emit_alu("mov.pred", result(d, 1), value(a, 1));
  if (d.kind != Kind::kVector && a.kind != Kind::kVector)
    return emit_alu(bits_type(w.back()) == "b8" ? "mov.b16" : "mov." + bits_type(w.back()),
                    result(d, bytes), value(a, bytes));
  if (d.kind == Kind::kVector && a.kind == Kind::kVector) unknown();
  const auto& parts = d.kind == Kind::kVector ? d.parts : a.parts;
  const int part = bytes / std::max(static_cast<int>(parts.size()), 1);
  if (part < 2 || bytes > 8 || (parts.size() != 2 && parts.size() != 4)) unknown();
  if (d.kind == Kind::kVector) {
    u32 whole = value(a, bytes);
    if (parts.size() == 4) {  // four 16-bit parts of 64 bits
      const u32 halves[2] = {temporary(4), temporary(4)};
      emit_alu("low.b64", halves[0], whole);
      emit_alu("high.b64", halves[1], whole);
      for (int i = 0; i < 4; ++i)
        if (parts[i].kind != Kind::kSink)
          emit_alu(i % 2 == 0 ? "low.b32" : "high.b32", result(parts[i], 2), halves[i / 2]);
      return;
    }
    // A part may be the same register as the whole.
    const std::string suffix = bytes == 8 ? ".b64" : ".b32";
    const u32 low = parts[0].kind == Kind::kSink ? kNone : temporary(part);
    if (low != kNone) emit_alu("low" + suffix, low, whole);
    if (parts[1].kind != Kind::kSink) emit_alu("high" + suffix, result(parts[1], part), whole);
    if (low != kNone) emit_alu(part == 4 ? "mov.b32" : "mov.b16", result(parts[0], part), low);
    return;
  }
  std::vector<u32> values;
  for (const Operand& o : parts) values.push_back(value(o, part));
  if (parts.size() == 4) {
    const u32 halves[2] = {temporary(4), temporary(4)};
    emit_alu("pack.b32", halves[0], values[0], values[1]);
    emit_alu("pack.b32", halves[1], values[2], values[3]);
    return emit_alu("pack.b64", result(d, 8), halves[0], halves[1]);
  }
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
  u32 source;
  const int source_bytes = bytes_of(o[1]);
  if (o[1].kind == Kind::kRegister && source_bytes > stored(from)) {
    source = temporary(stored(from));
    emit_alu("cvt.u" + std::to_string(8 * stored(from)) + ".u" + std::to_string(8 * source_bytes),
             source, reg(o[1].reg));
  } else {
    source = value(o[1], stored(from));
  }
  if (ftz && from == "f32") {
    const u32 flushed = temporary(4);
    emit_alu("add.ftz.f32", flushed, source, immediate(0x80000000u, 4));
    source = flushed;
  }
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
  u32 d = extend || clamp || flush ? temporary(stored(to)) : result(o[0], bytes);
  emit_alu(*entry, d, source, kNone, kNone);
  if (flush) {
    const u32 next = clamp ? temporary(4) : result(o[0], 4);
    emit_alu("add.ftz.f32", next, d, immediate(0x80000000u, 4));
    d = next;
  }
  if (clamp) {
    emit_alu("sat." + to, result(o[0], bytes), d);
  } else if (extend) {
    const char* sign = is_signed_type(to) ? "s" : "u";
    emit_alu(
        "cvt." + (sign + std::to_string(8 * bytes)) + "." + sign + std::to_string(8 * stored(to)),
        result(o[0], bytes), d);
  }
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
  comparison(w, 1, plain, o.at(1), o.at(2));
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

void Decoder::comparison(const Words& w, std::size_t at, u32 d, const Operand& a, const Operand& b,
                         std::string_view type) {
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

void Decoder::compare_halves(const Words& w, u32 low, u32 high) {
  const auto& o = s_->operands;
  const AluEntry* entry = find("setp." + std::string(w[1]) + "." +
                               std::string(w.back().substr(0, w.back().size() - 2)));
  if (entry == nullptr || contains(w, "ftz")) unknown();
  const u32 a = value(o.at(1), 4), b = value(o.at(2), 4);
  for (const bool upper : {false, true}) {
    const u32 x = temporary(2), y = temporary(2);
    emit_alu(upper ? "high.b32" : "low.b32", x, a);
    emit_alu(upper ? "high.b32" : "low.b32", y, b);
    emit_alu(*entry, upper ? high : low, x, y, kNone);
  }
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
    comparison(w, 1, p[0], o[1], o[2]);
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
  u32 sum = bits == 8 ? combined("shl.b32", 4, value(o[3], 4), immediate(16, 4)) : immediate(0, 4);
  for (const int i : {1, 2}) {
    const u32 narrow = temporary(2), wide = temporary(4);
    emit_alu("cvt.sat." + to + ".s32", narrow, value(o[i], 4));
    emit_alu("cvt.u32.u16", wide, narrow);
    const u32 part = combined("and.b32", 4, wide, immediate(mask, 4));
    sum = combined("or.b32", 4, sum, combined("shl.b32", 4, part, immediate(i == 1 ? bits : 0, 4)));
  }
  emit_alu("mov.b32", result(o[0], 4), sum);
}

void Decoder::logic3() {
  const auto& o = s_->operands;
  const u32 in[3] = {value(o.at(1), 4), value(o.at(2), 4), value(o.at(3), 4)};
  const u64 table = o.at(4).value;
  u32 not_in[3], sum = immediate(0, 4);
  for (int i = 0; i < 3; ++i) emit_alu("not.b32", not_in[i] = temporary(4), in[i]);
  for (int row = 0; row < 8; ++row) {
    if (!((table >> row) & 1)) continue;
    const u32 ab = temporary(4), abc = temporary(4), next = temporary(4);
    emit_alu("and.b32", ab, row & 4 ? in[0] : not_in[0], row & 2 ? in[1] : not_in[1]);
    emit_alu("and.b32", abc, ab, row & 1 ? in[2] : not_in[2]);
    emit_alu("or.b32", next, sum, abc);
    sum = next;
  }
  emit_alu("mov.b32", result(o[0], 4), sum);
}

void Decoder::bit_insert(const Words& w) {
  const auto& o = s_->operands;
  const int bytes = size_of_type(w.back());
  u32 where;
  if (o.at(3).kind == Kind::kImmediate && o.at(4).kind == Kind::kImmediate) {
    where = immediate((o[3].value & 0xff) | (o[4].value & 0xff) << 8, 4);
  } else {
    where = temporary(4);
    emit_alu("bfi.where", where, value(o[3], 4), value(o[4], 4));
  }
  emit_alu("bfi.b" + std::to_string(8 * bytes), result(o[0], bytes), value(o[1], bytes),
           value(o[2], bytes), where);
}

void Decoder::select_by_sign(const Words& w) {
  const auto& o = s_->operands;
  const std::string_view type = w[w.size() - 2];
  const bool is_float = w.back() == "f32";
  const u32 p = temporary(1);
  emit_alu(is_float ? "setp.ge.f32" : "setp.ge.s32", p, value(o.at(3), 4), immediate(0, 4));
  const int bytes = size_of_type(type);
  emit_alu("selp." + bits_type(type), result(o[0], bytes), value(o[1], bytes), value(o[2], bytes),
           p);
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
    const u32 product = temporary(bytes);
    emit_alu("mul." + std::string(contains(w, "hi") ? "hi." : "lo.") + std::string(type), product,
             a, b);
    a = product, b = value(o.at(3), bytes);
  }
  if (subtract) {
    const u32 inverse = temporary(bytes);
    emit_alu("not" + bits, inverse, b);
    b = inverse;
  }
  // After a subtraction the flag holds the carry of a + ~b + 1, the inverse of the borrow.
  const u32 in = carries_in ? carry_ : immediate(subtract ? 1 : 0, 1);
  const u32 out = temporary(1), sum = temporary(bytes);
  if (contains(w, "cc")) emit_alu("carry" + bits, out, a, b, in);
  emit_alu("addc" + bits, sum, a, b, in);
  if (contains(w, "cc")) emit_alu("mov.pred", carry_, out);
  emit_alu("mov" + bits, result(o[0], bytes), sum);
}

}  // namespace ado::emulator
