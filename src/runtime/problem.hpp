// A problem: the operands and options of one call, bound to a routine and checked against all its
// rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/array.hpp"
#include "core/variant.hpp"
#include "device/device.hpp"
#include "device/stream.hpp"
#include "runtime/device_id.hpp"
#include "runtime/option.hpp"
#include "runtime/shape_rule.hpp"

namespace ado {

class AnyVariant;
class Routine;
struct OperandInfo;

// Properties of an array that only the library that owns it knows. Plain memory has defaults, so
// only arrays of other libraries need an implementation.
class ArrayTraits {
 public:
  virtual ~ArrayTraits() = default;
  virtual std::string type_name() const = 0;
  virtual bool same_type(const ArrayTraits& other) const = 0;
  // Called only if the extents of the two arrays overlap.
  virtual bool shares_memory(const ArrayTraits& other) const = 0;
  // Returns true if the memory may belong to a mapped file (core/file_maps.hpp).
  virtual bool may_be_mapped() const { return false; }
  // For arrays in device memory that several streams use. Between these calls, work that reads or
  // writes the array is enqueued on the stream.
  virtual void before_use(const cuda::Stream&, bool /*writes*/) {}
  virtual void after_use(const cuda::Stream&, bool /*writes*/) {}
};

// An array argument of a call.
struct Argument {
  Array view;
  DeviceId memory = kHost;        // the device that holds the array
  ArrayTraits* traits = nullptr;  // must exist as long as the problem that it is bound to
};

// Calls `holds` for each value of a float64 operand. Throws ValueError for the first value for
// which `holds` returns false. `holds` can also have been called for several values after it.
struct EachValue {
  const std::string& routine;
  std::optional<cuda::Stream> stream = {};  // the stream of operands in device memory

  // Returns false while a graph captures the stream, because replays read other values.
  bool known() const { return !stream || !cuda::is_captured(*stream); }

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

// A problem contains the routine's struct (adaptor.hpp), to which its arrays and options are bound.
// If kernels cannot access the arrays where they are, place() adds a copy of the problem with
// arrays that they can access.
class Problem {
 public:
  explicit Problem(const Routine& routine);
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  virtual ~Problem() { release(); }

  const Routine& routine() const { return *routine_; }

  // Pointers to the arrays and options of the struct, in the order of the routine's lists.
  std::vector<Array*> inputs, outputs;
  std::vector<OptionSlot> options;
  DeviceId memory = kHost;  // the device that holds the arrays
  // An object that must exist as long as the problem, for example the traits of its arrays.
  std::shared_ptr<void> owner;

  // ---- The routine's rules and costs ----

  virtual std::unique_ptr<Problem> clone() const = 0;  // copies only the struct
  // why_not: why the options, or the inputs with these options, are invalid. why_not_overlap: why
  // results must not overlap operands. nullptr if there is no objection.
  virtual const char* why_not() const = 0;
  virtual const char* why_not_overlap() const = 0;
  virtual double useful_flops() const = 0;
  // The bytes moved if each needed element of the operands is read once and each result is written
  // once. The elements of a broadcast dimension count once.
  virtual double compulsory_bytes() const;
  // Returns true if kernels can access arrays with these strides.
  virtual bool takes_layout(const Array& array) const = 0;
  // Returns true if kernels can access this array in device memory in place.
  bool takes_in_place(const Array& array) const;
  // The number of elements of all results. If it is 0, nothing runs.
  std::int64_t result_elements() const;

  // ---- Binding ----

  // Call these functions in this order: bind_input for every input, set_option, check_options,
  // bind_output for every output, check_overlap if the caller passed the outputs. They throw
  // ValueError or TypeError. A valid call allocates no memory.
  void bind_input(const Argument& argument);
  void set_option(std::size_t option, const OptionValue& value);  // an index into options
  void check_options();
  void bind_output(const Argument& argument);
  // Instead of bind_output: next_output returns a packed array without memory for the next output.
  // bind_new_output binds new memory for it, on the device of the inputs.
  const Array& next_output();
  void bind_new_output(std::byte* data, ArrayTraits* traits);
  void check_overlap() const;
  // Forgets the operands, and resets the options, for the next call.
  void reset();

  const std::vector<std::pair<std::size_t, OptionValue>>& given_options() const { return given_; }
  bool on_device() const { return memory.kind == Device::kCuda; }
  // Returns the device to run on. It is determined by device operands, by the named variant and by
  // `device`, which must agree. Without any of them, it is the default device.
  DeviceId resolve_device(const AnyVariant* variant, const std::optional<DeviceId>& device) const;

  // ---- Placing ----

  // Checks the values of operands. From this call until release(), operands in device memory are in
  // use on the stream with this handle: work that accesses them is enqueued on it.
  void check_values(std::uintptr_t stream = 0);
  // Copies the arrays that kernels on the stream's GPU cannot access in place: arrays in host
  // memory, device arrays that are not aligned to the element size, and device arrays that are not
  // packed (rows with a pitch are accepted if the routine supports them). Returns after operands in
  // host memory have been read.
  void place(const cuda::Stream& stream);
  // The problem on which kernels run: this one or its copy.
  const Problem& placed() const { return placed_ ? *placed_ : *this; }
  // Copies the results of the copy to the caller's arrays. If these are in host memory, returns
  // after the copies are complete.
  void fetch() const;
  // Frees the copy, and ends the use of operands in device memory.
  void release() {
    if (placed_ || used_on_) release_device();
  }

  // Replaces arrays by packed arrays at the addresses that `address` returns. An array that is
  // packed in column-major order keeps this order if kernels can access it. An output that
  // overwrites an input still does so afterwards. If `address` returns nullptr for a non-empty
  // array, the array is kept.
  void move_arrays(const DeviceId& device, const std::function<std::byte*(const Array&)>& address);

 protected:
  virtual void check_each(const EachValue& each_value) = 0;
  // The length that only results have, or 0 if there is none.
  virtual std::int64_t result_length() const = 0;

 private:
  void release_device();
  void check(const OperandInfo& info, const Argument& argument);
  void check_type(const OperandInfo& info, const Argument& argument) const;
  bool stays(const Array& array) const { return on_device() && takes_in_place(array); }

  const Routine* routine_;
  Lengths lengths_;
  std::vector<ArrayTraits*> traits_;  // one per bound array: inputs, then outputs
  std::vector<std::pair<std::size_t, OptionValue>> given_;  // the options that were set
  std::optional<cuda::Stream> used_on_;
  std::unique_ptr<Problem> placed_;
  std::vector<std::unique_ptr<cuda::Buffer>> buffers_;  // memory of placed_
};

}  // namespace ado
