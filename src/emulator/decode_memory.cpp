// Decodes accesses to memory: loads, stores, atomics, asynchronous and bulk copies, mbarriers.
#include <algorithm>
#include <cstddef>

#include "emulator/decoder.hpp"

namespace ado::emulator {

u32 Decoder::add_access(Access access) {
  access.line = line_;
  p_.accesses.push_back(access);
  return static_cast<u32>(p_.accesses.size() - 1);
}

MoveFunction Decoder::move_of(std::string_view type, int register_bytes, bool store) const {
  const MoveTable& moves = tables_.functions->moves;
  const std::string wanted =
      (is_signed_type(type) && !store && size_of_type(type) < register_bytes ? "s" : "b") +
      std::to_string(8 * size_of_type(type));
  for (std::size_t i = 0; i < moves.count; ++i)
    if (moves.entries[i].type == wanted && moves.entries[i].register_bytes == register_bytes)
      return store ? moves.entries[i].store : moves.entries[i].load;
  unknown();
}

void Decoder::move_element(Access access, int bytes, u32 data) {
  access.element_bytes = static_cast<u8>(bytes);
  access.register_bytes = lane_bytes(data);
  access.move = move_of("b" + std::to_string(8 * bytes), access.register_bytes, access.store);
  access.data[0] = data;
  emit(access.store ? Op::kStore : Op::kLoad, {.aux = add_access(access)});
}

void Decoder::move_local(s64 offset, u32 data, bool store) {
  move_element({.space = Space::kLocal,
                .store = store,
                .address_bytes = 4,
                .address = immediate(static_cast<u64>(offset), 4)},
               lane_bytes(data), data);
}

Space Decoder::space_of(const Words& w) {
  for (const std::string_view word : w) {
    if (word == "global") return Space::kGlobal;
    if (word == "shared" || word.starts_with("shared::")) return Space::kShared;
    if (word == "local") return Space::kLocal;
    if (word == "const") return Space::kConst;
    if (word == "param" || word.starts_with("param::")) return Space::kParam;
  }
  return Space::kGeneric;
}

void Decoder::set_address(Access& access, const Operand& o) {
  if (o.kind != Kind::kAddress || o.parts.empty()) fail("expected an address");
  const Operand& base = o.parts[0];
  access.offset = static_cast<s64>(o.value);
  if (base.kind == Kind::kRegister) {
    access.address = reg(base.reg);
    access.address_bytes = static_cast<u8>(bytes_of(base));
    if (access.address_bytes < 4) fail("addresses must have 32 or 64 bits");
  } else {
    const bool narrow = access.space == Space::kShared || access.space == Space::kLocal;
    access.address = value(base, narrow ? 4 : 8);
    access.address_bytes = narrow ? 4 : 8;
  }
}

void Decoder::load_or_store(const Words& w, bool store) {
  const Statement& s = *s_;
  Access access;
  access.space = space_of(w);
  access.store = store;
  // Kernels synchronise also by loads and stores that bypass the L1 cache (cg, cv, wt).
  static constexpr std::string_view kStrong[] = {"volatile", "relaxed", "acquire", "release",
                                                 "mmio",     "cg",      "cv",      "wt"};
  access.strong = std::any_of(std::begin(kStrong), std::end(kStrong),
                              [&](std::string_view word) { return contains(w, word); });
  access.synchronises = access.strong && !contains(w, "volatile");
  access.between_blocks = access.strong && !contains(w, "cta");
  const Operand& place = s.operands[store ? 0 : 1];
  const Operand& data = s.operands[store ? 1 : 0];
  const std::string_view type = w.back();
  access.element_bytes = static_cast<u8>(size_of_type(type));
  const std::span<const Operand> list = parts_of(data);
  const std::size_t count = contains(w, "v2") ? 2 : contains(w, "v4") ? 4 : 1;
  if (access.element_bytes == 0 || list.size() != count || access.element_bytes * count > 16)
    unknown();
  access.count = static_cast<u8>(count);
  if (access.space == Space::kParam) {
    const Operand& base = place.parts.at(0);
    if (base.kind == Kind::kVariable && !local_offset(base) && !store) {
      const Variable& v = variable(base);
      const u64 size = static_cast<u64>(v.bytes), bytes = access.element_bytes * count;
      if (v.offset < 0 || place.value > size || bytes > size - place.value)
        fail("outside the parameter");
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].kind == Kind::kSink) continue;
        const int bytes = bytes_of(list[i]);
        const u64 at =
            static_cast<u64>(variable(base).offset) + place.value + i * access.element_bytes;
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
  access.register_bytes = static_cast<u8>(register_bytes);
  set_address(access, place);
  if (contains(w, "release")) fence(w);
  emit(store ? Op::kStore : Op::kLoad, {.aux = add_access(access)});
  if (contains(w, "acquire")) fence(w);
}

// Orders the accesses of a thread, at the scope of the instruction.
void Decoder::fence(const Words& w) {
  const bool proxy = contains(w, "proxy");
  const bool local = contains(w, "cta") || (proxy && !contains(w, "gpu") && !contains(w, "sys"));
  const bool async = proxy && contains(w, "async");
  emit(Op::kFence,
       {.mode = static_cast<u8>((local ? 0 : kBetweenBlocks) | (async ? kBeforeAsync : 0))});
}

// The number of times that the function refers to a register.
int Decoder::mentions_of(int reg) const {
  const auto in = [&](const auto& self, const Operand& o) -> int {
    int found = o.kind == Kind::kRegister && o.reg == reg;
    for (const Operand& part : o.parts) found += self(self, part);
    return found;
  };
  int found = 0;
  for (const Statement& s : frame_->function->statements) {
    found += s.guard == reg;
    for (const Operand& o : s.operands) found += in(in, o);
  }
  return found;
}

void Decoder::atomic(const Words& w, bool reduction) {
  const Statement& s = *s_;
  Access access{.space = space_of(w), .atomic = true, .strong = true};
  access.between_blocks = !contains(w, "cta");
  bool known = false;
  for (const std::string_view word : w)
    if (const auto at = kAtomicOps.find(word); at != kAtomicOps.end())
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
  access.element_bytes = static_cast<u8>(bytes);
  std::size_t i = reduction ? 0 : 1;
  const bool vector = s.operands.at(i + 1).kind == Kind::kVector;
  if (!reduction && !vector && s.operands[0].kind != Kind::kSink)
    access.result = result(s.operands[0], bytes);
  set_address(access, s.operands.at(i));
  if (vector) {
    const auto& parts = s.operands[i + 1].parts;
    if (parts.empty() || parts.size() > Access::kOldValues || parts.size() * bytes > 16) unknown();
    access.count = static_cast<u8>(parts.size());
    access.data.fill(kNone);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      access.data[k] = value(parts[k], bytes);
      if (!reduction && s.operands[0].kind == Kind::kVector)
        access.data[Access::kOldValues + k] = result(s.operands[0].parts.at(k), bytes);
    }
  } else {
    access.operand = value(s.operands.at(i + 1), bytes);
    const Operand& o = s.operands[i + 1];
    access.counts_lanes =
        access.operation == AtomicOp::kAdd && !access.is_float && bytes == 4 &&
        o.kind == Kind::kImmediate && o.value == 1 &&
        (reduction || s.operands[0].kind != Kind::kRegister || mentions_of(s.operands[0].reg) == 1);
    if (access.operation == AtomicOp::kCompare) access.second = value(s.operands.at(i + 2), bytes);
  }
  const bool both = contains(w, "acq_rel");
  if (both || contains(w, "release")) fence(w);
  emit(Op::kAtomic, {.aux = add_access(access)});
  if (both || contains(w, "acquire")) fence(w);
}

void Decoder::copy_async(const Words& w) {
  const Statement& s = *s_;
  if (contains(w, "bulk")) return copy_bulk(w);
  if (contains(w, "mbarrier")) return mbarrier(w);
  if (contains(w, "commit_group")) return emit(Op::kCommitGroup);
  if (contains(w, "wait_group") || contains(w, "wait_all")) {
    // wait_all also waits for copies that are not in a group.
    const u32 pending = contains(w, "wait_all") ? kNone : static_cast<u32>(s.operands.at(0).value);
    return emit(Op::kWaitGroup, {.aux = pending});
  }
  if (space_of(w) != Space::kShared) unknown();
  // [to], [from], bytes {, source bytes | predicate} {, cache policy}
  Access access{.space = Space::kShared, .store = true};
  const u64 size = s.operands.at(2).value;
  if (size != 4 && size != 8 && size != 16) fail("cp.async copies 4, 8 or 16 bytes");
  access.element_bytes = static_cast<u8>(size);
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
  emit(Op::kCopyAsync, {.aux = add_access(access)});
}

u32 Decoder::generic_address(const Operand& o, Space space) {
  Access place{.space = space};
  set_address(place, o);
  const u32 address =
      place.address_bytes == 4 ? computed("cvt.u64.u32", place.address) : place.address;
  const u64 added = static_cast<u64>(place.offset) + (space == Space::kShared ? kSharedWindow : 0);
  return added == 0 ? address : computed("add.u64", address, immediate(added, 8));
}

void Decoder::mbarrier(const Words& w) {
  const auto& o = s_->operands;
  Extra e;
  MbarrierMode mode;
  u8 bytes = 0;
  const auto set = [&](MbarrierOperand which, u32 r) { e.registers[which] = r; };
  const auto address = [&](const Operand& place) {
    set(kMbarrierAddress, generic_address(place, space_of(w)));
  };
  const std::string_view op = w[0] == "cp" ? "copies" : w[1];
  if (op == "copies") {
    mode = MbarrierMode::kArriveOfCopies;
    bytes = contains(w, "noinc") ? 1 : 0;
    address(o.at(0));
  } else if (op == "init" || op == "inval") {
    mode = op == "init" ? MbarrierMode::kInit : MbarrierMode::kInvalidate;
    address(o.at(0));
    if (op == "init") set(kMbarrierValue, value(o.at(1), 4));
  } else if (op == "expect_tx" || op == "complete_tx") {
    mode = op == "expect_tx" ? MbarrierMode::kExpect : MbarrierMode::kComplete;
    address(o.at(0));
    set(kMbarrierBytes, value(o.at(1), 4));
  } else if (op == "arrive" || op == "arrive_drop") {
    mode = op == "arrive" ? MbarrierMode::kArrive : MbarrierMode::kArriveAndDrop;
    const std::size_t at = o.at(0).kind == Kind::kAddress ? 0 : 1;  // after the state
    if (at == 1 && o[0].kind != Kind::kSink) set(kMbarrierResult, result(o[0], 8));
    address(o.at(at));
    if (o.size() > at + 1)
      set(contains(w, "expect_tx") ? kMbarrierBytes : kMbarrierValue, value(o[at + 1], 4));
  } else if (op == "test_wait" || op == "try_wait") {
    const bool parity = contains(w, "parity");
    mode = parity ? MbarrierMode::kTestParity : MbarrierMode::kTest;
    set(kMbarrierResult, result(o.at(0), 1));
    address(o.at(1));
    set(kMbarrierValue, value(o.at(2), parity ? 4 : 8));
  } else if (op == "pending_count") {
    mode = MbarrierMode::kPendingCount;
    set(kMbarrierResult, result(o.at(0), 4));
    set(kMbarrierAddress, value(o.at(1), 8));
  } else {
    unknown();
  }
  // Initialising a barrier is a store, the rest synchronises.
  Access access{.space = Space::kShared, .store = true};
  access.atomic = mode != MbarrierMode::kInit && mode != MbarrierMode::kInvalidate;
  access.element_bytes = 8;
  access.extra = add_extra(e);
  emit(Op::kMbarrier, {.aux = add_access(access), .bytes = bytes, .mode = static_cast<u8>(mode)});
}

void Decoder::copy_bulk(const Words& w) {
  const auto& o = s_->operands;
  if (contains(w, "prefetch")) return;  // the emulator has no caches
  if (contains(w, "commit_group")) return emit(Op::kCommitBulk);
  if (contains(w, "wait_group"))
    return emit(Op::kWaitBulk, {.aux = static_cast<u32>(o.at(0).value)});
  if (contains(w, "im2col") || contains(w, "cp_mask") || w[1] == "reduce") unknown();
  const bool tensor = contains(w, "tensor"), grouped = contains(w, "bulk_group");
  const bool between = !contains(w, "global");
  Extra e;
  const auto set = [&](BulkOperand which, u32 r) { e.registers[which] = r; };
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
  if (contains(w, "multicast::cluster"))
    set(kBulkBlocks, computed("cvt.u32.u16", value(o.at(next++), 2)));
  Access access{.space = Space::kShared, .store = !grouped};
  access.element_bytes = 16;
  access.extra = add_extra(e);
  const BulkMode mode = between   ? BulkMode::kSharedToShared
                        : grouped ? BulkMode::kStore
                                  : BulkMode::kLoad;
  emit(Op::kCopyBulk, {.aux = add_access(access), .mode = static_cast<u8>(mode)});
}

// Stores a field of a TensorMap.
void Decoder::replace_tensor_map(const Words& w) {
  struct Field {
    std::string_view name;
    std::size_t offset;
    int bytes;
    std::vector<u64> choices = {};  // stored values of the immediates 0, 1, 2, ...
  };
  static const Field kFields[] = {
      {"global_address", offsetof(TensorMap, address), 8},
      {"rank", offsetof(TensorMap, dimensions), 1},
      {"global_dim", offsetof(TensorMap, lengths), 4},
      {"global_stride", offsetof(TensorMap, strides), 8},
      {"box_dim", offsetof(TensorMap, box), 2},
      {"element_stride", offsetof(TensorMap, steps), 1},
      {"elemtype", offsetof(TensorMap, element_bytes), 1, {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4}},
      {"swizzle_mode", offsetof(TensorMap, swizzle_bytes), 1, {0, 32, 64, 128}},
      {"fill_mode", offsetof(TensorMap, nan_outside), 1, {0, 1}}};
  const auto& o = s_->operands;
  const std::string_view name = w.at(3);
  const Operand& given = o.at(o.size() - 1);
  const auto put = [&](std::size_t offset, int bytes, u32 data) {
    Access access{.space = space_of(w), .store = true};
    set_address(access, o[0]);
    access.offset += static_cast<s64>(offset);
    move_element(access, bytes, data);
  };
  if (name == "interleave_layout" && given.value == 0) return;
  const auto* const field = std::ranges::find(kFields, name, &Field::name);
  if (field == std::end(kFields)) unknown();
  const bool chosen = !field->choices.empty();
  if (chosen && (given.kind != Kind::kImmediate || given.value >= field->choices.size())) unknown();
  const std::size_t index = o.size() == 3 ? o[1].value : 0;
  const u32 plain =
      chosen ? immediate(field->choices[given.value], 4) : value(given, field->bytes == 8 ? 8 : 4);
  const u32 data = name == "rank" ? computed("add.u32", plain, immediate(1, 4)) : plain;
  put(field->offset + index * static_cast<std::size_t>(field->bytes), field->bytes, data);
  if (name == "global_address") put(offsetof(TensorMap, mark), 8, immediate(TensorMap::kMark, 8));
}

void Decoder::copy_tensor_map(const Words& w) {
  for (std::size_t at = 0; at < sizeof(TensorMap); at += 8) {
    const u32 word = temporary(8);
    for (const bool store : {false, true}) {
      Access access{.space = store ? Space::kGlobal : Space::kShared, .store = store, .lanes = 1};
      set_address(access, s_->operands.at(store ? 0 : 1));
      access.offset += static_cast<s64>(at);
      move_element(access, 8, word);
    }
  }
  fence(w);
}

void Decoder::convert_address(const Words& w) {
  const auto& o = s_->operands;
  const int bytes = size_of_type(w.back());
  if (bytes != 8) unknown();
  const bool to = contains(w, "to");
  Space space = space_of(w);
  if (space == Space::kParam && !frame_->entry) space = Space::kLocal;
  const u64 window = space == Space::kShared  ? kSharedWindow
                     : space == Space::kLocal ? kLocalWindow
                                              : 0;
  const u32 d = result(o.at(0), 8), a = value(o.at(1), 8);
  if (space == Space::kParam && !to) {  // the address may be an offset (address_of), which is small
    const u32 small = computed("setp.lt.u64", a, immediate(u64{1} << 16, 8)),
              absolute = computed("add.u64", a, constant(Source::kParamAddress, 8, 0));
    return emit_alu("selp.b64", d, absolute, a, small);
  }
  if (window == 0) return emit_alu("mov.b64", d, a);
  emit_alu(to ? "sub.u64" : "add.u64", d, a, immediate(window, 8));
}

}  // namespace ado::emulator
