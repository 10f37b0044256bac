// Builds a Routine from a routine's struct: its operands, options and variants. These templates are
// instantiated once per routine. The rest of the runtime does not depend on the struct's type.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "core/variant.hpp"
#include "runtime/routine.hpp"

namespace ado {

// ------------------------------------------------------------------------------------------------
// Options: conversion between C++ members and OptionValue.

template <class Value>
OptionType option_type() {
  if constexpr (std::is_array_v<Value>) {
    OptionType type = option_type<std::remove_extent_t<Value>>();
    type.length = std::extent_v<Value>;
    return type;
  } else if constexpr (std::is_enum_v<Value>) {
    const auto& names = EnumNames<Value>::kNames;
    return {.kind = ScalarKind::kWord, .choices = {std::begin(names), std::end(names)}};
  } else if constexpr (std::is_same_v<Value, bool>) {
    return {.kind = ScalarKind::kBool};
  } else if constexpr (std::is_integral_v<Value>) {
    return {.kind = ScalarKind::kInt,
            .lowest = std::numeric_limits<Value>::min(),
            .highest = std::numeric_limits<Value>::max()};
  } else {
    static_assert(std::is_same_v<Value, double>);
    return {.kind = ScalarKind::kFloat};
  }
}

template <class Value>
Scalar scalar_of(const Value& member) {
  if constexpr (std::is_enum_v<Value>)
    return std::string(EnumNames<Value>::kNames[static_cast<std::size_t>(member)]);
  else if constexpr (std::is_same_v<Value, bool> || std::is_same_v<Value, double>)
    return member;
  else
    return std::int64_t{member};
}

template <class Value>
OptionValue value_of(const Value& member) {
  OptionValue value;
  if constexpr (std::is_array_v<Value>) {
    value.is_tuple = true;
    for (const auto& item : member) value.items.push_back(scalar_of(item));
  } else {
    value.items.push_back(scalar_of(member));
  }
  return value;
}

// The value has been checked against option_type<Value>.
template <class Value>
void set_scalar(Value& member, const Scalar& value) {
  if constexpr (std::is_enum_v<Value>) {
    const auto& names = EnumNames<Value>::kNames;
    for (std::size_t i = 0; i < std::size(names); ++i)
      if (std::get<std::string>(value) == names[i]) member = static_cast<Value>(i);
  } else {
    std::visit(
        [&]<class Given>(const Given& given) {
          if constexpr (std::is_arithmetic_v<Given>) member = static_cast<Value>(given);
        },
        value);
  }
}

template <class Value>
void set_member(void* member, const OptionValue& value) {
  if constexpr (std::is_array_v<Value>) {
    auto& array = *static_cast<Value*>(member);
    for (std::size_t i = 0; i < std::extent_v<Value>; ++i) set_scalar(array[i], value.items[i]);
  } else {
    set_scalar(*static_cast<Value*>(member), value.items[0]);
  }
}

// ------------------------------------------------------------------------------------------------
// A problem of one routine.

template <class R>
class ProblemOf final : public Problem {
 public:
  explicit ProblemOf(const Routine& routine, const R& own = {}) : Problem(routine), values(own) {
    values.operands(*this);
  }

  std::unique_ptr<Problem> clone() const override {
    auto copy = std::make_unique<ProblemOf>(routine(), values);
    copy->memory = memory;
    return copy;
  }

  const char* why_not() const override {
    if constexpr (requires { values.why_not(); }) return values.why_not();
    return nullptr;
  }
  const char* why_not_overlap() const override {
    if constexpr (requires { values.why_not_overlap(); }) return values.why_not_overlap();
    return "out overlaps an operand";
  }
  void check_each(const EachValue& each_value) override {
    if constexpr (requires { values.check_values(each_value); }) values.check_values(each_value);
  }
  double useful_flops() const override { return values.flops(); }
  std::int64_t result_length() const override {
    if constexpr (requires { values.result_length(); }) return values.result_length();
    return 0;
  }
  double compulsory_bytes() const override {
    if constexpr (requires { values.compulsory_bytes(); }) return values.compulsory_bytes();
    return Problem::compulsory_bytes();
  }
  bool takes_layout(const Array& array) const override {
    if (array.packed()) return true;
    if constexpr (requires { values.takes_layout(array); }) return values.takes_layout(array);
    return false;
  }

  // The visitor of R::operands: stores the addresses of the members.
  void input(const Operand&, Array& slot) { inputs.push_back(&slot); }
  void output(const Operand&, Array& slot) { outputs.push_back(&slot); }
  template <class Value>
  void option(const Option&, Value& member) {
    options.push_back({&member, set_member<Value>});
  }

  R values;
};

// ------------------------------------------------------------------------------------------------
// A variant of one routine.

template <class R>
class VariantOf final : public AnyVariant {
 public:
  VariantOf(const Variant<R>& variant, Device runs_on) : variant_(variant) {
    name = variant.name;
    changes = variant.changes;
    if constexpr (requires { R::kPrecision; }) precision = R::kPrecision;
    device = runs_on;
    min_compute = device == Device::kCuda ? variant.min_compute : 0;
    ceiling = variant.ceiling;
    built = variant.run != nullptr;
    models_flops = static_cast<bool>(variant.flops);
    if (variant.grid)
      for (const Extent& block : variant.blocks)
        if (block.volume() != 0) blocks.push_back(block);
    for (const Stage& stage : variant.stages)
      if (stage.variant != nullptr) stages.push_back(stage);
  }

  const char* why_not(const Problem& p) const override {
    return variant_.why_not == nullptr ? nullptr : variant_.why_not(of(p));
  }
  const char* why_slower(const Problem& p, const Hardware& hardware) const override {
    return variant_.why_slower ? variant_.why_slower(of(p), hardware) : nullptr;
  }
  Launch launch(const Problem& p, Extent block, const Hardware& hardware) const override {
    return launch_of(variant_, of(p), block, hardware);
  }
  std::size_t scratch_bytes(const Problem& p, const Hardware& hardware) const override {
    return variant_.scratch_bytes ? variant_.scratch_bytes(of(p), hardware) : 0;
  }
  double executed_flops(const Problem& p, const Hardware& hardware) const override {
    return variant_.flops ? variant_.flops(of(p), hardware) : p.useful_flops();
  }
  double requested_bytes(const Problem& p, const Hardware& hardware) const override {
    return variant_.bytes ? variant_.bytes(of(p), hardware) : p.compulsory_bytes();
  }
  double executed_instructions(const Problem& p, const Hardware& hardware) const override {
    return variant_.instructions ? variant_.instructions(of(p), hardware) : 0;
  }
  void run(const Problem& p, const Launch& launch) const override { variant_.run(of(p), launch); }

 private:
  static const R& of(const Problem& p) { return static_cast<const ProblemOf<R>&>(p).values; }

  const Variant<R>& variant_;
};

// ------------------------------------------------------------------------------------------------
// A routine with its ladders.

template <class R>
class RoutineBuilder {
 public:
  static std::unique_ptr<Routine> build(const Ladder<R> (&cpu)[kIsaLevels], const Ladder<R>& cuda) {
    RoutineBuilder builder;
    Routine& routine = *builder.routine_;
    routine.name = R::kName;
    routine.summary = R::kSummary;
    routine.source = R::kSource;
    if constexpr (requires { R::kHalo; }) routine.halo = R::kHalo;
    routine.make_problem_ = [](const Routine& r) -> std::unique_ptr<Problem> {
      return std::make_unique<ProblemOf<R>>(r);
    };
    R().operands(builder);
    const std::size_t computed = routine.lengths.size() - routine.dimensions.size();
    if (computed != (requires(const R& r) { r.result_length(); } ? 1 : 0))
      throw std::logic_error(routine.name + " must compute each length that only results have");
    for (int level = 0; level < kIsaLevels; ++level)
      add(routine.cpu_[level], cpu[level], Device::kCpu);
    add(routine.cuda_, cuda, Device::kCuda);
    return std::move(builder.routine_);
  }

  // The visitor of R::operands: stores the declarations of the members.
  void input(const Operand& operand, Array&) {
    add(routine_->inputs, operand);
    routine_->dimensions = routine_->lengths;  // outputs follow the inputs
  }
  void output(const Operand& operand, Array&) { add(routine_->outputs, operand); }
  template <class Value>
  void option(const Option& option, Value& member) {
    routine_->options.push_back({option.name, option.doc, option_type<Value>(), value_of(member)});
  }

 private:
  void add(std::vector<OperandInfo>& list, const Operand& operand) {
    OperandInfo info{.name = operand.name,
                     .doc = operand.doc,
                     .shape = parse_shape(operand.shape, routine_->lengths),
                     .type = operand.type};
    const auto& inputs = routine_->inputs;
    for (std::size_t i = 0; operand.type.same_as != nullptr && i < inputs.size(); ++i)
      if (std::strcmp(inputs[i].name, operand.type.same_as) == 0)
        info.same_as = static_cast<int>(i);
    if (operand.type.same_as != nullptr && info.same_as < 0)
      throw std::logic_error(std::string(R::kName) + " has no input " + operand.type.same_as);
    list.push_back(std::move(info));
  }
  static void add(AnyLadder& list, const Ladder<R>& ladder, Device device) {
    for (const Variant<R>& variant : ladder)
      list.push_back(std::make_unique<VariantOf<R>>(variant, device));
  }

  std::unique_ptr<Routine> routine_ = std::make_unique<Routine>();
};

}  // namespace ado
