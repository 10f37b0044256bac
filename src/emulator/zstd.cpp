// Decompresses zstd (RFC 8878), without dictionaries. Checksums are ignored.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "emulator/fatbin.hpp"

namespace ado::emulator {
namespace {

using Data = std::span<const std::uint8_t>;

[[noreturn]] void invalid() { throw std::runtime_error("the zstd data is invalid"); }

// Returns the first `size` bytes and removes them.
Data take(Data& data, std::size_t size) {
  if (size > data.size()) invalid();
  const Data taken = data.first(size);
  data = data.subspan(size);
  return taken;
}

std::uint64_t take_integer(Data& data, std::size_t bytes) {
  std::uint64_t value = 0;
  const Data from = take(data, bytes);
  std::memcpy(&value, from.data(), bytes);
  return value;
}

int highest_bit(std::uint64_t value) { return std::bit_width(value) - 1; }

// Bits of a little-endian number. Bits outside the data are 0.
std::uint64_t bits_at(Data data, std::int64_t position, int count) {
  if (position < 0) {
    const auto missing = static_cast<int>(std::min<std::int64_t>(-position, count));
    return bits_at(data, 0, count - missing) << missing;
  }
  const auto byte = static_cast<std::size_t>(position / 8);
  std::uint64_t word = 0;
  if (byte < data.size())
    std::memcpy(&word, data.data() + byte, std::min<std::size_t>(8, data.size() - byte));
  return word >> position % 8 & ((std::uint64_t{1} << count) - 1);
}

// A stream that is read from its end. The highest bit of the last byte marks the end.
class BackwardBits {
 public:
  explicit BackwardBits(Data data) : data_(data) {
    if (data.empty() || data.back() == 0) invalid();
    position_ = static_cast<std::int64_t>(8 * (data.size() - 1)) + highest_bit(data.back());
  }
  std::uint64_t peek(int count) const { return bits_at(data_, position_ - count, count); }
  void skip(int count) { position_ -= count; }
  std::uint64_t read(int count) {
    skip(count);
    return bits_at(data_, position_, count);
  }
  std::int64_t left() const { return position_; }  // negative: more bits were read than exist

 private:
  Data data_;
  std::int64_t position_;
};

// --- Finite state entropy ------------------------------------------------------------------------

struct FseTable {
  struct State {
    std::uint8_t symbol, bits;
    std::uint16_t base;
  };
  int log = 0;
  std::vector<State> states;

  void start(std::uint32_t& state, BackwardBits& bits) const {
    state = static_cast<std::uint32_t>(bits.read(log));
  }
  std::uint8_t symbol(std::uint32_t state) const { return states[state].symbol; }
  void next(std::uint32_t& state, BackwardBits& bits) const {
    const State& now = states[state];
    state = now.base + static_cast<std::uint32_t>(bits.read(now.bits));
  }
};

// `counts`: of each symbol, in 1 << log states; -1: less than one state.
FseTable fse_table(int log, std::span<const std::int16_t> counts) {
  const std::uint32_t size = 1U << log, step = (size >> 1) + (size >> 3) + 3;
  FseTable table{log, std::vector<FseTable::State>(size)};
  std::vector<std::uint32_t> next(counts.size());
  std::uint32_t end = size, position = 0;
  for (std::size_t s = 0; s < counts.size(); ++s)
    if (counts[s] == -1) {
      table.states[--end].symbol = static_cast<std::uint8_t>(s);
      next[s] = 1;
    }
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s] <= 0) continue;
    next[s] = static_cast<std::uint32_t>(counts[s]);
    for (int i = 0; i < counts[s]; ++i) {
      table.states[position].symbol = static_cast<std::uint8_t>(s);
      do position = (position + step) & (size - 1);
      while (position >= end);
    }
  }
  for (FseTable::State& state : table.states) {
    const std::uint32_t value = next[state.symbol]++;
    state.bits = static_cast<std::uint8_t>(log - highest_bit(value));
    state.base = static_cast<std::uint16_t>((value << state.bits) - size);
  }
  return table;
}

FseTable read_fse_table(Data& data, int most) {
  std::int64_t position = 0;
  const auto read = [&](int count) {
    position += count;
    return static_cast<int>(bits_at(data, position - count, count));
  };
  const int log = read(4) + 5;
  if (log > most) invalid();
  std::vector<std::int16_t> counts;
  for (int left = 1 << log; left > 0;) {
    const int bits = highest_bit(static_cast<unsigned>(left + 1)) + 1;
    const int half = (1 << (bits - 1)) - 1, threshold = (1 << bits) - 2 - left;
    int value = read(bits);
    if ((value & half) < threshold) {  // a value with one bit less
      --position;
      value &= half;
    } else if (value > half) {
      value -= threshold;
    }
    const int count = value - 1;
    left -= std::abs(count);
    counts.push_back(static_cast<std::int16_t>(count));
    for (int repeated = count == 0 ? 3 : 0; repeated == 3;) {
      repeated = read(2);
      counts.insert(counts.end(), static_cast<std::size_t>(repeated), 0);
    }
    if (counts.size() > 256 || left < 0) invalid();
  }
  take(data, static_cast<std::size_t>((position + 7) / 8));
  return fse_table(log, counts);
}

// --- Literals ------------------------------------------------------------------------------------

struct HuffmanTable {
  struct Code {
    std::uint8_t symbol, bits;
  };
  int log = 0;
  std::vector<Code> codes;

  void decode(Data stream, std::span<std::uint8_t> to) const {
    BackwardBits bits(stream);
    for (std::uint8_t& symbol : to) {
      const Code code = codes[bits.peek(log)];
      symbol = code.symbol;
      bits.skip(code.bits);
    }
    if (bits.left() != 0) invalid();
  }
};

std::vector<std::uint8_t> read_weights(Data& data) {
  const auto header = take_integer(data, 1);
  std::vector<std::uint8_t> weights;
  if (header >= 128) {
    const Data packed = take(data, (header - 126) / 2);
    for (std::size_t i = 0; i < header - 127; ++i)
      weights.push_back(i % 2 == 0 ? packed[i / 2] >> 4 : packed[i / 2] & 15);
    return weights;
  }
  Data stream = take(data, header);
  const FseTable table = read_fse_table(stream, 6);
  BackwardBits bits(stream);
  std::uint32_t states[2];
  for (std::uint32_t& state : states) table.start(state, bits);
  for (int turn = 0; weights.size() < 256; turn ^= 1) {
    weights.push_back(table.symbol(states[turn]));
    table.next(states[turn], bits);
    if (bits.left() < 0) {
      weights.push_back(table.symbol(states[turn ^ 1]));
      break;
    }
  }
  return weights;
}

HuffmanTable read_huffman_table(Data& data) {
  std::vector<std::uint8_t> weights = read_weights(data);
  std::uint32_t total = 0;
  for (const std::uint8_t weight : weights) total += weight == 0 ? 0 : 1U << (weight - 1);
  HuffmanTable table;
  table.log = highest_bit(total) + 1;
  if (total == 0 || table.log > 11) invalid();
  // The weight of the last symbol completes the sum to a power of two.
  weights.push_back(static_cast<std::uint8_t>(highest_bit((1U << table.log) - total) + 1));
  for (int weight = 1; weight <= table.log; ++weight)
    for (std::size_t s = 0; s < weights.size(); ++s)
      if (weights[s] == weight)
        table.codes.insert(
            table.codes.end(), std::size_t{1} << (weight - 1),
            {static_cast<std::uint8_t>(s), static_cast<std::uint8_t>(table.log + 1 - weight)});
  if (table.codes.size() != std::size_t{1} << table.log) invalid();
  return table;
}

enum class LiteralKind : std::uint8_t { kRaw, kRepeated, kCompressed, kSameTable };

std::vector<std::uint8_t> read_literals(Data& data, HuffmanTable& table) {
  if (data.empty()) invalid();
  const LiteralKind kind{static_cast<std::uint8_t>(data[0] & 3)};
  const int format = data[0] >> 2 & 3;
  if (kind == LiteralKind::kRaw || kind == LiteralKind::kRepeated) {
    static constexpr int kBytes[] = {1, 2, 1, 3};
    const auto header = take_integer(data, static_cast<std::size_t>(kBytes[format]));
    const std::size_t size = header >> (kBytes[format] == 1 ? 3 : 4);
    if (kind == LiteralKind::kRepeated)
      return std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(take_integer(data, 1)));
    const Data raw = take(data, size);
    return {raw.begin(), raw.end()};
  }
  static constexpr int kBytes[] = {3, 3, 4, 5}, kSizeBits[] = {10, 10, 14, 18};
  const auto header = take_integer(data, static_cast<std::size_t>(kBytes[format]));
  const std::uint64_t mask = (std::uint64_t{1} << kSizeBits[format]) - 1;
  std::vector<std::uint8_t> literals(header >> 4 & mask);
  Data streams = take(data, header >> (4 + kSizeBits[format]) & mask);
  if (kind == LiteralKind::kCompressed) table = read_huffman_table(streams);
  if (table.codes.empty()) invalid();
  const std::span<std::uint8_t> all(literals);
  if (format == 0) {
    table.decode(streams, all);
    return literals;
  }
  std::array<std::size_t, 3> sizes;
  for (std::size_t& size : sizes) size = take_integer(streams, 2);
  const std::size_t part = (all.size() + 3) / 4;
  if (3 * part > all.size()) invalid();
  for (std::size_t i = 0; i < 3; ++i)
    table.decode(take(streams, sizes[i]), all.subspan(i * part, part));
  table.decode(streams, all.subspan(3 * part));
  return literals;
}

// --- Sequences of literals and matches -----------------------------------------------------------

// Each code stands for a range of values: a first value, and the number of additional bits.
struct Codes {
  std::vector<std::uint32_t> first;
  std::vector<std::uint8_t> bits;
  std::uint32_t value(std::uint8_t code, BackwardBits& from) const {
    return first.at(code) + static_cast<std::uint32_t>(from.read(bits[code]));
  }
};

Codes codes_of(std::uint32_t first, std::size_t single,
               std::initializer_list<std::uint8_t> additional) {
  Codes codes;
  codes.bits.assign(single, 0);
  codes.bits.insert(codes.bits.end(), additional);
  for (const std::uint8_t bits : codes.bits) {
    codes.first.push_back(first);
    first += 1U << bits;
  }
  return codes;
}

struct SequenceTable {
  FseTable table;
  int most_log;
  FseTable predefined;

  enum class Mode : std::uint8_t { kPredefined, kOneSymbol, kCompressed, kSame };
  void read(Mode mode, Data& data) {
    if (mode == Mode::kPredefined) table = predefined;
    if (mode == Mode::kOneSymbol)
      table = {0, {{static_cast<std::uint8_t>(take_integer(data, 1)), 0, 0}}};
    if (mode == Mode::kCompressed) table = read_fse_table(data, most_log);
    if (table.states.empty()) invalid();
  }
};

constexpr std::int16_t kLiteralCounts[] = {4, 3, 2, 2, 2, 2, 2, 2, 2,  2,  2,  2,
                                           2, 1, 1, 1, 2, 2, 2, 2, 2,  2,  2,  2,
                                           2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
constexpr std::int16_t kOffsetCounts[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
constexpr std::int16_t kMatchCounts[] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                         1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                         1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

class Decompressor {
 public:
  explicit Decompressor(std::size_t size) { output_.reserve(size); }

  void block(Data data) {
    const std::vector<std::uint8_t> literals = read_literals(data, huffman_);
    Data unused(literals);
    const std::size_t count = sequence_count(data);
    if (count != 0) {
      const auto modes = take_integer(data, 1);
      const auto mode = [&](int shift) {
        return SequenceTable::Mode{std::uint8_t(modes >> shift & 3)};
      };
      literal_.read(mode(6), data);
      offset_.read(mode(4), data);
      match_.read(mode(2), data);
      sequences(count, data, unused);
    }
    append(unused);
  }
  void append(Data data) {
    output_.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  void repeat(std::uint8_t byte, std::size_t size) {
    output_.append(size, static_cast<char>(byte));
  }
  std::string take_output() { return std::move(output_); }

 private:
  static std::size_t sequence_count(Data& data) {
    const auto first = take_integer(data, 1);
    if (first < 128) return first;
    if (first < 255) return ((first - 128) << 8) + take_integer(data, 1);
    return take_integer(data, 2) + 0x7f00;
  }

  void sequences(std::size_t count, Data stream, Data& literals) {
    static const Codes literal_codes =
        codes_of(0, 16, {1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    static const Codes match_codes =
        codes_of(3, 32, {1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    BackwardBits bits(stream);
    std::uint32_t literal = 0, offset = 0, match = 0;
    literal_.table.start(literal, bits);
    offset_.table.start(offset, bits);
    match_.table.start(match, bits);
    for (std::size_t i = 0; i < count; ++i) {
      const int offset_bits = offset_.table.symbol(offset);
      if (offset_bits > 31) invalid();
      const std::uint64_t code = (std::uint64_t{1} << offset_bits) + bits.read(offset_bits);
      const std::uint32_t length = match_codes.value(match_.table.symbol(match), bits);
      const std::uint32_t before = literal_codes.value(literal_.table.symbol(literal), bits);
      append(take(literals, before));
      copy(distance(code, before == 0), length);
      if (i + 1 == count) break;
      literal_.table.next(literal, bits);
      match_.table.next(match, bits);
      offset_.table.next(offset, bits);
    }
    if (bits.left() != 0) invalid();
  }

  // Codes up to 3 are the last distances. After a match without literals before it, they are one
  // further back.
  std::uint64_t distance(std::uint64_t code, bool no_literals) {
    auto& [last, second, third] = distances_;
    if (code > 3) {
      third = second, second = last, last = code - 3;
      return last;
    }
    const std::uint64_t index = code - (no_literals ? 0 : 1);
    const std::uint64_t found = index == 0   ? last
                                : index == 1 ? second
                                : index == 2 ? third
                                             : last - 1;
    if (index > 1) third = second;
    if (index > 0) second = last;
    last = found;
    return found;
  }

  void copy(std::uint64_t distance, std::size_t length) {
    if (distance == 0 || distance > output_.size()) invalid();
    const std::size_t from = output_.size() - distance;
    for (std::size_t i = 0; i < length; ++i) output_.push_back(output_[from + i]);
  }

  HuffmanTable huffman_;
  SequenceTable literal_{{}, 9, fse_table(6, kLiteralCounts)};
  SequenceTable offset_{{}, 8, fse_table(5, kOffsetCounts)};
  SequenceTable match_{{}, 9, fse_table(6, kMatchCounts)};
  std::array<std::uint64_t, 3> distances_ = {1, 4, 8};
  std::string output_;
};

}  // namespace

std::string decompress_zstd(std::span<const std::uint8_t> data, std::size_t size) {
  constexpr std::uint32_t kMagic = 0xfd2fb528;
  if (take_integer(data, 4) != kMagic) invalid();
  const auto flags = take_integer(data, 1);
  const bool single_segment = (flags >> 5 & 1) != 0;
  static constexpr std::size_t kIdBytes[] = {0, 1, 2, 4}, kSizeBytes[] = {0, 2, 4, 8};
  if (!single_segment) take(data, 1);  // the size of the window
  take(data, kIdBytes[flags & 3]);
  take(data, flags >> 6 == 0 && single_segment ? 1 : kSizeBytes[flags >> 6]);
  Decompressor decompressor(size);
  enum Kind { kRaw, kRepeated, kCompressed };
  for (bool last = false; !last;) {
    const auto header = take_integer(data, 3);
    const std::size_t bytes = header >> 3;
    last = (header & 1) != 0;
    switch (header >> 1 & 3) {
      case kRaw:
        decompressor.append(take(data, bytes));
        break;
      case kRepeated:
        decompressor.repeat(static_cast<std::uint8_t>(take_integer(data, 1)), bytes);
        break;
      case kCompressed:
        decompressor.block(take(data, bytes));
        break;
      default:
        invalid();
    }
  }
  std::string output = decompressor.take_output();
  if (output.size() != size) invalid();
  return output;
}

}  // namespace ado::emulator
