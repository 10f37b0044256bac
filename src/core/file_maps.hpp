// Files that are mapped into the memory of this process.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ado {

using AddressRange =
    std::pair<std::intptr_t, std::intptr_t>;  // first byte, byte after the last one

// A part of a file that is mapped at consecutive addresses.
struct FilePart {
  std::string device;  // as in /proc/self/maps: "fd:01"
  std::uint64_t inode = 0;
  std::uint64_t begin = 0, end = 0;  // bytes of the file
  bool shared = false;               // false for a private map, whose writes do not reach the file
};

// Parts of files that are mapped at these addresses. The list is empty if the memory does not
// belong to a file, or if the system does not list the maps. Reading the list takes up to a
// millisecond.
std::vector<FilePart> mapped_parts(const AddressRange& range);

// Returns true if writing to one range changes bytes of the other one, because both ranges map the
// same part of a file.
bool writes_through_file(const AddressRange& written, const AddressRange& read);

}  // namespace ado
