// Reads fat binaries, which nvcc embeds in host objects: device code for several architectures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ado::emulator {

// The code of one architecture in a fat binary.
struct FatbinEntry {
  enum class Kind : std::uint16_t { kPtx = 1, kCubin = 2 };
  Kind kind;
  int compute;  // compute capability times ten
  std::span<const std::uint8_t> payload;
  std::size_t size;  // decompressed
  bool compressed;

  // The decompressed code. Throws std::runtime_error if the compression is not zstd.
  std::string code() const;
};

// `data` starts with the header of a fat binary. Throws std::runtime_error for unknown formats.
std::vector<FatbinEntry> read_fatbin(const void* data);

// Registers per thread of each kernel in a cubin, by its mangled name.
std::map<std::string, int> registers_in(const std::string& cubin);

// Decompresses one frame of zstd (RFC 8878) to `size` bytes. Throws std::runtime_error for invalid
// data.
std::string decompress_zstd(std::span<const std::uint8_t> frame, std::size_t size);

}  // namespace ado::emulator
