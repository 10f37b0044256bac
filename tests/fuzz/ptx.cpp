// Mutates PTX texts, and loads, decodes and launches them: nothing but an exception may happen.
//
//   ptx SEED COUNT FILE...
//
// Compile it, src/emulator/*.cpp, src/emulator/lanes/*.cpp with -DADO_ISA=baseline, and
// src/core/*.cpp with the address and undefined-behaviour sanitizers.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "emulator/emulator.hpp"
#include "emulator/lanes/table.hpp"

namespace ado {
namespace baseline {
emulator::LaneFunctions lane_functions();
}
namespace avx2 {
emulator::LaneFunctions lane_functions() { return baseline::lane_functions(); }
}  // namespace avx2
namespace avx512 {
emulator::LaneFunctions lane_functions() { return baseline::lane_functions(); }
}  // namespace avx512
}  // namespace ado

using namespace ado::emulator;

static std::mt19937_64 random_bits;
static std::size_t below(std::size_t n) { return n == 0 ? 0 : random_bits() % n; }

// A part of a text that begins and ends at white space or punctuation, most often.
static std::string part_of(const std::string& text) {
  const std::size_t begin = below(text.size()), length = below(below(4) == 0 ? 200 : 12);
  return text.substr(begin, length);
}

static std::string mutated(std::string text, const std::vector<std::string>& texts) {
  static const char* const kWords[] = {"{",          "}",
                                       "[",          "]",
                                       "(",          ")",
                                       ";",          ",",
                                       ":",          "|",
                                       "!",          "@",
                                       "-",          "%r1",
                                       "%rd1",       "%p1",
                                       "%f1",        "_",
                                       "0",          "-1",
                                       "4294967295", "99999999999999999999",
                                       "0f7F800000", ".v4",
                                       ".v2",        ".b32",
                                       ".b64",       ".f16x2",
                                       ".pred",      ".reg",
                                       ".shared",    ".global",
                                       ".local",     ".param",
                                       ".align",     ".entry",
                                       ".func",      "abc",
                                       "mma.sync",   "cp.async",
                                       "call",       "bra",
                                       "bar.sync",   "shfl.sync",
                                       "ld",         "st",
                                       "atom",       "\"",
                                       "/*",         "//",
                                       "\n",         "<",
                                       ">",          "=",
                                       "%tid.x",     "%clock.z"};
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(text.size()), length = below(below(4) == 0 ? 100 : 8);
    switch (below(5)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, part_of(text));
        break;
      case 2:
        text.replace(at, std::min(length, text.size() - at), part_of(texts[below(texts.size())]));
        break;
      case 3:
        text.replace(at, std::min(length, text.size() - at), kWords[below(std::size(kWords))]);
        break;
      default:
        if (!text.empty()) text[at] = static_cast<char>(32 + below(95));
    }
  }
  return text;
}

int main(int count, char** words) {
  std::vector<std::string> texts;
  for (int i = 3; i < count; ++i) {
    std::ifstream file(words[i]);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const std::uint64_t seed = std::strtoull(words[1], nullptr, 10);
  long decoded = 0, launched = 0;
  for (long i = 0; i < std::atol(words[2]); ++i) {
    random_bits.seed(seed + static_cast<std::uint64_t>(i));
    const std::string text = mutated(texts[below(texts.size())], texts);
    if (std::getenv("PTX_SHOW") != nullptr) std::cout << text << std::endl;
    std::fprintf(stderr, i % 10000 == 0 ? "seed %llu\n" : "",
                 static_cast<unsigned long long>(seed + static_cast<std::uint64_t>(i)));
    try {
      Memory memory;
      alignas(256) static std::byte data[4096];
      memory.add(data, sizeof data, "data", true);
      const auto module = Module::load(text, memory);
      for (const std::string_view entry : module->entries()) {
        std::vector<std::byte> params(4096);
        const auto address = reinterpret_cast<std::uint64_t>(data);
        for (std::size_t k = 0; k + 8 <= params.size(); k += 8)
          std::copy_n(reinterpret_cast<const std::byte*>(&address), 8, &params[k]);
        module->program(entry);
        ++decoded;
        Options options;
        options.max_block_transitions = 100;
        if (below(2) == 0) options.checks = {true, true, true, true, true};
        options.threads = 1;
        launch(*module, entry, {.grid = {1}, .block = {48}, .dynamic_shared_bytes = 256}, params,
               memory, options);
        ++launched;
      }
    } catch (const std::exception&) {
    }
  }
  std::printf("%ld kernels decoded, %ld launched\n", decoded, launched);
}
