// Matrix products: mma.sync, wmma.mma and wgmma.mma_async. The PTX manual defines how the elements
// of a fragment are distributed over the lanes. For wmma, decode_matrices.cpp defines the
// distribution.
//
// Sums are computed in float64 and rounded once. Tensor cores add in another order, with fewer
// bits.
//
// A warp computes its rows of a wgmma.mma_async when it starts it, but the result counts as
// unknown until wgmma.wait_group. At wait_group, the warp waits until the other warps of its group
// have started the same products, because it may then allow others to overwrite the operands.
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/state.hpp"

namespace ado::emulator {
namespace {

using Fragment = MatrixProduct::Fragment;

constexpr int kGroupWarps = 4;
constexpr u32 kChunk = 16;  // bytes that a swizzle keeps together
constexpr int kMostSums = 128 * kLanes, kMostLeft = 32 * 32, kMostRight = 32 * 256;

int elements_per_register(Number type) { return std::max(4 / element_bytes(type), 1); }

// The position of column `column` in a row of b (lanes/matrices.cpp).
int position_of(int column) { return (column & ~7) + column % 2 * 4 + column % 8 / 2; }

// One product while it is computed.
struct Product {
  Worker& worker;
  Warp& warp;
  const MatrixProduct& p;
  const Extra& registers;
  double *sum, *a, *b;

  const LaneFunctions& functions() const { return worker.launch.functions; }
  void* at(const Fragment& f, int i) const { return warp.at(registers[f.first + i]); }

  // Loads the elements of a fragment of wmma, which are stored by rows.
  void load_opaque(double* to, const Fragment& f, int elements) const {
    const int per_register = elements_per_register(f.type);
    double part[4 * kLanes];
    for (int i = 0; i < f.count; ++i) {
      functions().widen(part, at(f, i), f.type, per_register * kLanes);
      for (int e = 0; e < per_register; ++e)
        for (int lane = 0; lane < kLanes; ++lane)
          to[((i * per_register + e) * kLanes + lane) % elements] = part[lane * per_register + e];
    }
  }
  // A register of a contains 8 rows of a, and a register of b contains 8 columns of b.
  void load_left() const {
    const int width = 4 * elements_per_register(p.a.type), down = p.m / 8;
    double part[4 * kLanes];
    for (int i = 0; i < p.a.count; ++i) {
      functions().widen(part, at(p.a, i), p.a.type, 8 * width);
      double* to = a + i % down * 8 * p.k + i / down * width;
      for (int row = 0; row < 8; ++row, to += p.k) std::copy_n(part + row * width, width, to);
    }
  }
  void load_right() const {
    const int width = 4 * elements_per_register(p.b.type);
    double part[4 * kLanes];
    for (int i = 0; i < p.b.count; ++i) {
      functions().widen(part, at(p.b, i), p.b.type, 8 * width);
      for (int column = 0; column < 8; ++column)
        for (int row = 0; row < width; ++row)
          b[(i * width + row) * p.n + position_of(column)] = part[column * width + row];
    }
  }
  void load_sum() const {
    const int per_register = elements_per_register(p.c.type);
    double part[2 * kLanes];
    for (int i = 0; i < p.c.count; ++i) {
      double* const to = sum + i * per_register * kLanes;
      functions().widen(per_register == 1 ? to : part, at(p.c, i), p.c.type, per_register * kLanes);
      for (int e = 0; e < per_register && per_register > 1; ++e)
        for (int lane = 0; lane < kLanes; ++lane) to[e * kLanes + lane] = part[2 * lane + e];
    }
  }
  void store_sum() const {
    const int per_register = elements_per_register(p.d.type), elements = p.m * p.n;
    double part[2 * kLanes];
    for (int i = 0; i < p.d.count; ++i) {
      const double* from = sum + i * per_register * kLanes % elements;
      if (per_register == 2) {
        for (int lane = 0; lane < kLanes; ++lane)
          part[2 * lane] = from[lane],
                   part[2 * lane + 1] = sum[((2 * i + 1) * kLanes + lane) % elements];
        from = part;
      }
      functions().narrow(at(p.d, i), from, p.d.type, p.saturates, per_register * kLanes);
    }
  }
};

// --- Matrices in shared memory -------------------------------------------------------------------

// A matrix of `lines` rows of a, or columns of b, from `first` on. Its chunks of 16 bytes contain
// neighbours along k or, if it is transposed, neighbouring lines.
struct Stored {
  u64 descriptor;
  bool transposed;
  int first, lines, k, bytes;  // of an element

  u32 field(int shift) const { return static_cast<u32>(descriptor >> shift & 0x3fff) << 4; }
  int per_chunk() const { return static_cast<int>(kChunk) / bytes; }

  // The address of the chunk that contains element (line, i).
  u32 address(int line, int i) const {
    static constexpr u32 kWidths[] = {16, 128, 64, 32};  // of a swizzle
    const u32 width = kWidths[descriptor >> 62], leading = field(16), stride = field(32),
              phase = static_cast<u32>(descriptor >> 49 & 7) << 7;
    const auto x = static_cast<u32>(line), y = static_cast<u32>(i);
    u32 offset;
    if (transposed) {
      const u32 byte = x * static_cast<u32>(bytes);
      offset = byte % width + y % 8 * width +
               (width == kChunk ? byte / width * stride + y / 8 * leading
                                : byte / width * leading + y / 8 * stride);
    } else {
      const u32 byte = y * static_cast<u32>(bytes);
      offset = x % 8 * width + x / 8 * stride + (width == kChunk ? byte / kChunk * leading : byte);
    }
    const u32 at = field(0) + offset;
    return at ^ (((at - phase) >> 3) & (width - kChunk));
  }
  // Calls visit(address, line, i) for the first element of each chunk.
  template <class Visit>
  void for_chunks(const Visit& visit) const {
    for (int line = first; line < first + lines; line += transposed ? per_chunk() : 1)
      for (int i = 0; i < k; i += transposed ? 1 : per_chunk()) visit(address(line, i), line, i);
  }
};

Stored stored_of(const Warp& warp, const MatrixProduct& p, const Fragment& f, u64 descriptor) {
  const bool left = &f == &p.a;
  return {descriptor,       f.transposed, left ? warp.index % kGroupWarps * p.m : 0,
          left ? p.m : p.n, p.k,          element_bytes(f.type)};
}

std::string place_of(const Worker& worker, int line) {
  return source_line(worker.launch, line).text();
}
// The place of the last write of a byte.
std::string writer_of(const Worker& worker, const BlockState& block, u32 byte) {
  return place_of(worker, worker.program.accesses[block.shadow.writer_sites[byte]].line);
}

// The first byte of a chunk that was written after `time`, or kChunk.
u32 first_later(const u32* writers, u32 time) {
  const u32 last = time << kWhoBits | kWho;
  u32 later = 0;
  for (u32 i = 0; i < kChunk; ++i) later |= static_cast<u32>(writers[i] > last);  // vectors
  if (later == 0) return kChunk;
  return static_cast<u32>(
      std::find_if(writers, writers + kChunk, [&](u32 entry) { return entry > last; }) - writers);
}

// Checks the chunks of a matrix before wgmma reads them.
class Reading {
 public:
  Reading(Worker& worker, Warp& warp, u32 access)
      : worker_(worker), warp_(warp), access_(access), block_(*warp.home) {}

  bool check(const Stored& stored) {
    bool fine = true;
    s64 offsets[kLanes];
    int count = 0;
    const auto record = [&] {
      const u32 mask = count == kLanes ? kAllLanes : (1u << count) - 1;
      fine = fine && record_shared(worker_, warp_, block_, access(), static_cast<int>(access_),
                                   offsets, Pattern::kScattered, 0, mask, kChunk, false);
      count = 0;
    };
    stored.for_chunks([&](u32 at, int, int) {
      fine = fine && check_chunk(at);
      offsets[count++] = at;
      if (count == kLanes) record();
    });
    if (count > 0) record();
    return fine;
  }

 private:
  const Access& access() const { return worker_.program.accesses[access_]; }
  bool fail(const char* kind, u32 byte, const std::string& message) const {
    return report(worker_, warp_, access().line, 0, kind,
                  "wgmma reads byte " + std::to_string(byte) + " of shared memory, " + message,
                  "shared", byte);
  }

  bool check_chunk(u32 at) const {
    if (at + kChunk > block_.shared_size)
      return fail("out of bounds", at,
                  "which has " + std::to_string(block_.shared_size) + " bytes");
    if (!block_.written.empty() && !all_written(at))
      for (u32 i = at; i < at + kChunk; ++i) {
        const bool pending = block_.written[i] == 2;
        if (block_.written[i] == 1 || (!pending && !worker_.launch.options.checks.shared_initcheck))
          continue;
        return fail(pending ? "missing wait" : "uninitialised", i,
                    pending ? "which is written by a copy that was not waited for"
                            : "which nothing has written");
      }
    if (block_.shadow.writers.empty()) return true;
    const u32* const writers = &block_.shadow.writers[at];
    if (first_later(writers, std::max(warp_.proxy_time, 1u) - 1) == kChunk) return true;
    for (u32 i = 0; i < kChunk; ++i)
      if (!is_fenced(writers[i], at + i))
        return fail("missing fence", at + i,
                    "which was written at " + writer_of(worker_, block_, at + i) +
                        " without fence.proxy.async after the write");
    return true;
  }

  bool all_written(u32 at) const {
    u64 halves[2];
    std::memcpy(halves, &block_.written[at], sizeof halves);
    return halves[0] == 0x0101010101010101u && halves[1] == halves[0];
  }

  // Returns true unless an ordinary store wrote the byte and neither its warp nor this one has
  // executed fence.proxy.async since. cp.async is not an ordinary store here, because CUTLASS has
  // no fence after it.
  bool is_fenced(u32 entry, u32 byte) const {
    const u32 time = entry >> kWhoBits, who = entry & kWho;
    const Access& writer = worker_.program.accesses[block_.shadow.writer_sites[byte]];
    if (time < warp_.proxy_time || entry == 0 || writer.move == nullptr) return true;
    const u32 index = who >= kLanesOfWarp ? who - kLanesOfWarp : who / kLanes;
    return index >= block_.warps.size() || time < block_.warps[index].proxy_time;
  }

  Worker& worker_;
  Warp& warp_;
  u32 access_;
  BlockState& block_;
};

void load_stored(const Product& q, const Fragment& f, const Stored& stored) {
  const u8* const shared = q.warp.home->shared.data();
  double part[kChunk];
  stored.for_chunks([&](u32 at, int line, int i) {
    q.functions().widen(part, shared + at, f.type, stored.per_chunk());
    for (int e = 0; e < stored.per_chunk(); ++e) {
      const int x = stored.transposed ? line + e : line, y = stored.transposed ? i : i + e;
      if (&f == &q.p.a)
        q.a[(x - stored.first) * q.p.k + y] = part[e];
      else
        q.b[y * q.p.n + position_of(x)] = part[e];
    }
  });
}

// Checks a wgmma.mma_async, loads its operands from shared memory, and notes that it runs.
bool start_in_group(const Product& q, u32 index, int line) {
  Warp& warp = q.warp;
  const auto warps = static_cast<int>(warp.home->warps.size());
  if (warp.index / kGroupWarps * kGroupWarps + kGroupWarps > warps)
    return report(q.worker, warp, line, 0, "missing thread",
                  "wgmma needs the 128 threads of a warpgroup");
  if (!warp.group_fenced)
    return report(q.worker, warp, line, 0, "missing fence",
                  "the first wgmma.mma_async must follow a wgmma.fence");
  RunningProduct running{index, warp.product_groups, warp.home->shadow.time, {}};
  Reading reading(q.worker, warp, q.p.access);
  for (const Fragment* f : {&q.p.a, &q.p.b}) {
    if (!f->shared) continue;
    const u64 descriptor = warp.value(q.registers[f->first], 0, 8);
    running.descriptors[f == &q.p.b] = descriptor;
    const Stored stored = stored_of(warp, q.p, *f, descriptor);
    if (!reading.check(stored)) return false;
    load_stored(q, *f, stored);
  }
  warp.running.push_back(running);
  ++warp.products;
  return true;
}

// Reports a byte that was overwritten while the product ran.
bool check_unchanged(Worker& worker, Warp& warp, const RunningProduct& running) {
  const MatrixProduct& p = worker.program.matrices[running.product];
  const BlockState& block = *warp.home;
  bool fine = true;
  for (const Fragment* f : {&p.a, &p.b}) {
    if (!f->shared || block.shadow.writers.empty()) continue;
    const Stored stored = stored_of(warp, p, *f, running.descriptors[f == &p.b]);
    stored.for_chunks([&](u32 at, int, int) {
      const u32* const writers = &block.shadow.writers[at];
      const u32* const later = std::find_if(
          writers, writers + kChunk, [&](u32 entry) { return entry >> kWhoBits > running.time; });
      if (later == writers + kChunk || !fine) return;
      const auto byte = static_cast<u32>(later - block.shadow.writers.data());
      fine = report(worker, warp, worker.program.accesses[p.access].line, 0, "race",
                    "race in shared memory: wgmma reads byte " + std::to_string(byte) +
                        ", which is overwritten at " + writer_of(worker, block, byte) +
                        " before wgmma.wait_group",
                    "shared", byte);
    });
  }
  return fine;
}

// The lanes meet at an .aligned instruction.
void synchronise(Warp& warp) {
  std::array<u32, kLanes> members;
  members.fill(kAllLanes);
  warp_synchronised(warp, members.data(), kAllLanes);
}

}  // namespace

bool multiply_matrices(Worker& worker, Warp& warp, u32 product, int line, u32 mask) {
  if (mask != kAllLanes)
    return report(worker, warp, line, std::countr_zero(~mask), "missing thread",
                  "a product of matrices needs all threads of the warp");
  if (worker.matrices.empty()) worker.matrices.resize(kMostSums + kMostLeft + kMostRight);
  const MatrixProduct& p = worker.program.matrices[product];
  double* const memory = worker.matrices.data();
  const Product q{worker,
                  warp,
                  p,
                  worker.program.extras[p.extra],
                  memory,
                  memory + kMostSums,
                  memory + kMostSums + kMostLeft};
  if (p.access != kNone && !start_in_group(q, product, line)) return false;
  if (p.opaque) {
    q.load_opaque(q.a, p.a, p.m * p.k);
    q.load_opaque(q.b, p.b, p.k * p.n);
    q.load_opaque(q.sum, p.c, p.m * p.n);
  } else {
    if (!p.a.shared) q.load_left();
    if (!p.b.shared) q.load_right();
    if (p.access != kNone && !(warp.predicate(q.registers[p.scale]) & 1))
      std::fill_n(q.sum, p.m * p.n, 0);
    else
      q.load_sum();
  }
  if (p.negated)
    for (int i = 0; i < p.m * p.k; ++i) q.a[i] = -q.a[i];
  q.functions().multiply(q.sum, q.a, q.b, p.m, p.n, p.k, !p.opaque, p.a.type == Number::kF64);
  q.store_sum();
  return true;
}

void fence_products(Warp& warp) {
  synchronise(warp);
  warp.group_fenced = true;
  warp.unfenced.clear();
}

Arrival wait_products(Worker& worker, Warp& warp, s64 pending) {
  if (warp.running.empty()) return Arrival::kArrived;
  const int first = warp.index / kGroupWarps * kGroupWarps;
  for (int i = first; i < first + kGroupWarps; ++i) {
    const Warp& other = warp.home->warps[i];
    if (other.state != WarpState::kDone && other.products < warp.products) return Arrival::kParked;
  }
  bool fine = true;
  std::erase_if(warp.running, [&](const RunningProduct& running) {
    if (running.group >= warp.product_groups - pending) return false;
    fine = fine && check_unchanged(worker, warp, running);
    return true;
  });
  if (!fine) return Arrival::kFailed;
  synchronise(warp);
  return Arrival::kArrived;
}

bool check_group(Worker& worker, Warp& warp, u32 check, int line) {
  const Program& p = worker.program;
  const GroupCheck& c = p.group_checks[check];
  for (const RunningProduct& running : warp.running)
    if (std::ranges::find(c.running, running.product) != c.running.end())
      return report(worker, warp, line, 0, "missing wait",
                    std::string("a register of the wgmma.mma_async at ") +
                        place_of(worker, p.accesses[p.matrices[running.product].access].line) +
                        " is " + (c.writes ? "written" : "read") + " before wgmma.wait_group");
  for (const u32 other : c.unfenced)
    if (std::ranges::find(warp.unfenced, other) != warp.unfenced.end())
      return report(worker, warp, line, 0, "missing fence",
                    "wgmma.mma_async uses a register that was written at " +
                        place_of(worker, p.group_checks[other].line) +
                        ", without a wgmma.fence in between");
  if (c.marks) warp.unfenced.push_back(check);
  return true;
}

// Lane l holds the elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of each matrix or, transposed,
// of column l / 4. Another register has word l % 4 of the row in lane 8 i + l / 4.
bool transpose_rows(Worker& worker, Warp& warp, const Inst& inst, int line, u32 mask) {
  if (mask != kAllLanes)
    return report(worker, warp, line, std::countr_zero(~mask), "missing thread",
                  "ldmatrix and stmatrix need all threads of the warp");
  const Extra& e = worker.program.extras[inst.aux];
  const bool stored = inst.mode & kRowsStored, transposed = inst.mode & kRowsTransposed;
  const int count = inst.bytes, rows = stored ? 0 : count, matrices = stored ? 4 : 0;
  u16 elements[kLanes][8];
  // Moves words of the rows, or elements of the lanes, to `elements` or from it.
  const auto move = [](u8* word, u16* element, std::size_t bytes, bool out) {
    out ? std::memcpy(word, element, bytes) : std::memcpy(element, word, bytes);
  };
  const auto move_rows = [&] {
    for (int w = 0; w < 4; ++w)
      for (int lane = 0; lane < 8 * count; ++lane)
        move(warp.at(e[rows + w]) + 4 * lane, &elements[lane][2 * w], 4, stored);
  };
  if (!stored) move_rows();
  for (int i = 0; i < count; ++i)
    for (int lane = 0; lane < kLanes; ++lane) {
      u8* const word = warp.at(e[matrices + i]) + 4 * lane;
      const int first = 8 * i + lane / 4, pair = lane % 4 * 2;
      if (!transposed) move(word, &elements[first][pair], 4, !stored);
      for (int half = 0; half < 2 && transposed; ++half)
        move(word + 2 * half, &elements[8 * i + pair + half][lane / 4], 2, !stored);
    }
  if (stored) move_rows();
  return true;
}

}  // namespace ado::emulator
