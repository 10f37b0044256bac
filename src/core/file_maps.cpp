#include "core/file_maps.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace ado {
namespace {

std::vector<std::string> lines_of_maps() {
  std::vector<std::string> lines;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) lines.push_back(line);
  return lines;
}

// A line: "7f1c2000-7f1c4000 rw-s 00001000 fd:01 1234   /path". strtoull instead of streams, see
// processors.cpp.
std::vector<FilePart> parts_in(const std::vector<std::string>& lines, const AddressRange& range) {
  std::vector<FilePart> parts;
  for (const std::string& line : lines) {
    char* rest = nullptr;
    const auto first = static_cast<std::intptr_t>(std::strtoull(line.c_str(), &rest, 16));
    if (*rest != '-') continue;
    const auto last = static_cast<std::intptr_t>(std::strtoull(rest + 1, &rest, 16));
    if (last <= range.first || range.second <= first) continue;
    const std::string fields(rest);  // " rw-s 00001000 fd:01 1234   /path"
    const auto device = fields.find(' ', 6) + 1, inode = fields.find(' ', device);
    if (device == 0 || inode == std::string::npos) continue;
    FilePart part;
    part.shared = fields[4] == 's';
    part.device = fields.substr(device, inode - device);
    part.inode = std::strtoull(fields.c_str() + inode, nullptr, 10);
    if (part.inode == 0) continue;  // memory without a file
    const std::uint64_t offset = std::strtoull(fields.c_str() + 6, nullptr, 16);
    part.begin = offset + static_cast<std::uint64_t>(std::max(range.first, first) - first);
    part.end = offset + static_cast<std::uint64_t>(std::min(range.second, last) - first);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

std::vector<FilePart> mapped_parts(const AddressRange& range) {
  return parts_in(lines_of_maps(), range);
}

bool writes_through_file(const AddressRange& written, const AddressRange& read) {
  const auto lines = lines_of_maps();
  const auto targets = parts_in(lines, written), sources = parts_in(lines, read);
  return std::any_of(targets.begin(), targets.end(), [&](const FilePart& to) {
    return to.shared && std::any_of(sources.begin(), sources.end(), [&](const FilePart& from) {
             return from.device == to.device && from.inode == to.inode && from.begin < to.end &&
                    to.begin < from.end;
           });
  });
}

}  // namespace ado
