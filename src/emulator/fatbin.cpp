#include "emulator/fatbin.hpp"

#include <cstring>
#include <stdexcept>

namespace ado::emulator {
namespace {

template <class T>
T read_at(const std::uint8_t* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace

std::string FatbinEntry::code() const {
  std::string code =
      compressed ? decompress_zstd(payload, size) : std::string(payload.begin(), payload.end());
  if (kind == Kind::kPtx) code.resize(code.find_last_not_of('\0') + 1);  // padding
  return code;
}

// The header has 16 bytes, and the header of each entry at least 64. nvcc 13 writes version 1.
std::vector<FatbinEntry> read_fatbin(const void* data) {
  constexpr std::uint32_t kMagic = 0xba55ed50;
  constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;
  const auto* at = static_cast<const std::uint8_t*>(data);
  if (read_at<std::uint32_t>(at) != kMagic || read_at<std::uint16_t>(at + 4) != 1)
    throw std::runtime_error("the fat binary has an unknown format");
  const std::uint8_t* const first = at + read_at<std::uint16_t>(at + 6);
  const std::uint8_t* const end = first + read_at<std::uint64_t>(at + 8);
  std::vector<FatbinEntry> entries;
  for (at = first; at < end;) {
    const auto header = read_at<std::uint32_t>(at + 4);
    const auto padded = read_at<std::uint64_t>(at + 8);
    const auto compressed = read_at<std::uint32_t>(at + 16);
    const auto flags = read_at<std::uint64_t>(at + 40);
    const auto size = read_at<std::uint64_t>(at + 56);
    if ((flags & kLz4) != 0)
      throw std::runtime_error(
          "the fat binary is compressed with LZ4; build it with nvcc -compress-mode=size or none");
    const bool zstd = (flags & kZstd) != 0;
    entries.push_back({.kind = FatbinEntry::Kind{read_at<std::uint16_t>(at)},
                       .compute = static_cast<int>(read_at<std::uint32_t>(at + 28)),
                       .payload = {at + header, zstd ? compressed : padded},
                       .size = size,
                       .compressed = zstd});
    at += header + padded;
  }
  return entries;
}

// The section .nv.info contains attributes: format, number, size, value. The number of registers
// belongs to a symbol.
std::map<std::string, int> registers_in(const std::string& cubin) {
  const auto* const data = reinterpret_cast<const std::uint8_t*>(cubin.data());
  struct Section {
    std::uint32_t name, type;
    std::uint64_t flags, address, offset, size;
    std::uint32_t link, info;
    std::uint64_t align, entry_size;
  };
  const auto headers = read_at<std::uint64_t>(data + 0x28);
  const auto section = [&](std::size_t i) {
    return read_at<Section>(data + headers + i * sizeof(Section));
  };
  const Section names = section(read_at<std::uint16_t>(data + 0x3e));
  std::map<std::string, int> registers;
  for (std::size_t i = 0, count = read_at<std::uint16_t>(data + 0x3c); i < count; ++i) {
    const Section info = section(i);
    if (std::strcmp(cubin.data() + names.offset + info.name, ".nv.info") != 0) continue;
    const Section symbols = section(info.link);
    const std::uint64_t strings = section(symbols.link).offset;
    for (std::uint64_t at = info.offset; at < info.offset + info.size;) {
      constexpr std::uint8_t kWithSize = 4, kRegisterCount = 0x2f;
      const std::uint8_t format = data[at], attribute = data[at + 1];
      if (format == kWithSize && attribute == kRegisterCount) {
        const auto symbol = read_at<std::uint32_t>(data + at + 4);
        const auto name = read_at<std::uint32_t>(data + symbols.offset + symbol * 24);
        registers[cubin.data() + strings + name] = read_at<int>(data + at + 8);
      }
      at += 4 + (format == kWithSize ? read_at<std::uint16_t>(data + at + 2) : 0);
    }
  }
  return registers;
}

}  // namespace ado::emulator
