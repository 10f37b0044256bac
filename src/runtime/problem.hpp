// A routine's struct without its type: its arrays and options by position.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/array.hpp"
#include "runtime/option.hpp"

namespace ado {

// Shows every value of a float64 operand to `holds`; throws ValueError for the first value for
// which it is false.
struct EachValue {
  std::string routine;
  bool on_device = false;

  void operator()(const char* name, const Array& array, const char* rule,
                  const std::function<bool(double)>& holds) const;
};

// The member of a routine's struct that holds an option.
struct OptionSlot {
  void* member = nullptr;
  void (*set)(void* member, const OptionValue& value) = nullptr;
};

class Problem {
 public:
  virtual ~Problem() = default;
  Problem& operator=(const Problem&) = delete;

  // The arrays and options of the struct, in the order of the routine's lists.
  std::vector<Array*> inputs, outputs;
  std::vector<OptionSlot> options;

  virtual std::unique_ptr<Problem> clone() const = 0;
  // What is wrong with the values of the options, or with results that overlap operands; nullptr if
  // there is no objection.
  virtual const char* why_not() const = 0;
  virtual const char* why_not_overlap() const = 0;
  virtual void check_values(const EachValue& each_value) = 0;
  virtual double useful_flops() const = 0;

  // Each operand read once and each result written once; the elements of a broadcast dimension
  // count once.
  double compulsory_bytes() const;
  // If there are none, nothing has to run.
  std::int64_t result_elements() const;

 protected:
  Problem() = default;
  Problem(const Problem&) = delete;
};

}  // namespace ado
