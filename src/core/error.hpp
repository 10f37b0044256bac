// The errors that the library throws. src/bindings/module.cpp maps each one to a Python
// exception.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace ado {

// An invalid shape, size, block or overlap, or a variant that cannot solve the problem.
struct ValueError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// An element type or an object that the operand does not accept.
struct TypeError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// An unknown routine or variant.
struct NameError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// The variant is not in this build, there is no device, or the device is too old.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct OutOfDeviceMemory : std::runtime_error {
  OutOfDeviceMemory(std::size_t wanted, std::size_t free)
      : std::runtime_error("out of device memory: " + std::to_string(wanted) +
                           " bytes requested, " + std::to_string(free) + " bytes free"),
        wanted(wanted),
        free(free) {}
  std::size_t wanted, free;
};

// Any other failure of a CUDA call.
struct CudaError : std::runtime_error {
  CudaError(const char* call, const char* file, int line, const char* name, const char* text)
      : std::runtime_error(std::string(name) + ": " + text + "\n  " + call + "\n  at " + file +
                           ":" + std::to_string(line)),
        call(call),
        file(file),
        line(line),
        name(name),
        text(text) {}
  std::string call, file;
  int line;
  std::string name, text;
};

// An error of a kernel that the emulator executed.
struct KernelError : std::runtime_error {
  struct Where {
    std::string kernel, kind;  // kind: "out of bounds", "race", ...
    std::string file;
    int line = 0;
    std::array<unsigned, 3> thread = {}, block = {};
    std::string array;      // empty: no known array
    std::int64_t byte = 0;  // in the array; may be negative or beyond its end
  };
  KernelError(Where where, const std::string& text)
      : std::runtime_error(where.kernel + ": " + text), where(std::move(where)) {}
  Where where;
};

}  // namespace ado
