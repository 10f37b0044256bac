// A type-erased routine struct: its arrays and options by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/array.hpp"
#include "core/variant.hpp"
#include "runtime/device_id.hpp"
#include "runtime/option.hpp"
#include "device/stream.hpp"

namespace ado {

// Calls `holds` for each value of a float64 operand. Throws ValueError for the first value for
// which `holds` returns false. Several values after it can have been passed to `holds`, too.
struct EachValue {
  std::string routine;
  std::optional<cuda::Stream> stream = {};  // of operands in device memory

  template <class Holds>
  void operator()(const char* name, const Array& array, const char* rule,
                  const Holds& holds) const {
    check_runs(name, array, rule, [&](const std::byte* from, std::int64_t stride, std::int64_t n) {
      // The compiler vectorises the loop over contiguous values, because it has no early exit.
      return stride == sizeof(double) ? count_invalid(from, sizeof(double), n, holds)
                                      : count_invalid(from, stride, n, holds);
    });
  }

 private:
  // Returns the number of invalid values among `count` values that are `stride` bytes apart.
  using CountInvalid = std::function<std::int64_t(const std::byte*, std::int64_t, std::int64_t)>;

  template <class Holds>
  __attribute__((always_inline)) static std::int64_t count_invalid(const std::byte* from,
                                                                   std::int64_t stride,
                                                                   std::int64_t count,
                                                                   const Holds& holds) {
    std::int64_t invalid = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      double value;
      std::memcpy(&value, from + i * stride, sizeof value);
      invalid += !holds(value);
    }
    return invalid;
  }

  void check_runs(const char* name, const Array& array, const char* rule,
                  const CountInvalid& count_invalid) const;
  // Throws the error for element number `element` in row-major order.
  [[noreturn]] void refuse(const char* name, const Array& array, const char* rule,
                           std::int64_t element, const std::byte* at) const;
};

// The member of a routine's struct that holds an option.
struct OptionSlot {
  void* member = nullptr;
  void (*set)(void* member, const OptionValue& value) = nullptr;
};

// Returns true if the address ranges of two arrays overlap. Interleaved arrays overlap, even if
// they share no element.
bool extents_overlap(const Array& a, const Array& b);

// The same elements with the dimensions in reverse order.
Array transposed(const Array& a);

class Problem {
 public:
  virtual ~Problem() = default;
  Problem& operator=(const Problem&) = delete;

  // Pointers to the arrays and options of the struct, in the order of the routine's lists.
  std::vector<Array*> inputs, outputs;
  std::vector<OptionSlot> options;
  DeviceId memory = kHost;  // the device that holds the arrays

  virtual std::unique_ptr<Problem> clone() const = 0;
  // why_not: why the options, or the inputs with these options, are invalid. why_not_overlap: why
  // results must not overlap operands. nullptr if there is no objection.
  virtual const char* why_not() const = 0;
  virtual const char* why_not_overlap() const = 0;
  virtual void check_values(const EachValue& each_value) = 0;
  virtual double useful_flops() const = 0;
  // The length that only results have, or 0 if there is none.
  virtual std::int64_t result_length() const = 0;
  // Returns true if kernels can access arrays with these strides.
  virtual bool takes_layout(const Array& array) const = 0;
  // Returns true if kernels can access this array in device memory in place.
  bool takes_in_place(const Array& array) const;

  // The bytes of reading each needed element of the operands once and writing each result once. The
  // elements of a broadcast dimension count once.
  virtual double compulsory_bytes() const;
  // The number of elements of all results. If it is 0, nothing runs.
  std::int64_t result_elements() const;

  // Replaces arrays by packed arrays at the addresses that `address` returns. An array that is
  // packed in column-major order keeps this order if kernels can access it. An output that
  // overwrites an input still does so afterwards. If `address` returns nullptr for a non-empty
  // array, the array is kept.
  void move_arrays(const DeviceId& device, const std::function<std::byte*(const Array&)>& address);

 protected:
  Problem() = default;
  Problem(const Problem&) = delete;
};

}  // namespace ado
