// Lists, finds and selects variants.
#include <algorithm>
#include <ranges>
#include <set>
#include <string>

#include "core/error.hpp"
#include "device/device.hpp"
#include "runtime/host.hpp"
#include "runtime/routine.hpp"
#include "runtime/text.hpp"

namespace ado {

std::string OperandInfo::type_text() const {
  return type.same_as == nullptr ? type.text : std::string(type.text) + " " + type.same_as;
}

namespace {

// Returns the reason why the default skips an available variant, or nullptr.
const char* why_skipped(const AnyVariant& variant, const Problem& problem,
                        const Hardware& hardware) {
  const char* unsolvable = variant.why_not(problem);
  return unsolvable != nullptr ? unsolvable : variant.why_slower(problem, hardware);
}

}  // namespace

const char* name_of(Step step) {
  static constexpr const char* kNames[] = {"",
                                           "other",
                                           "coalesce accesses",
                                           "avoid bank conflicts",
                                           "more work in parallel",
                                           "raise occupancy",
                                           "more loads in flight",
                                           "wider accesses",
                                           "reuse in registers or shared memory",
                                           "fewer or cheaper operations",
                                           "fused multiply-add",
                                           "avoid divergence",
                                           "avoid spills",
                                           "fewer barriers",
                                           "less DRAM traffic",
                                           "fuse or overlap kernels"};
  return kNames[static_cast<std::size_t>(step)];
}

const Hardware kReferenceGpu{.compute = 90,
                             .multiprocessors = 132,
                             .threads_per_multiprocessor = 2048,
                             .l2_bytes = 60 << 20,
                             .shared_bytes = 227 << 10,
                             .shared_bytes_per_multiprocessor = 228 << 10,
                             .core_hertz = 1.98e9,
                             .memory_bandwidth = 2 * 3.201e9 * 6016 / 8};

Target target_of(Device device, void* stream) {
  if (device == Device::kCpu) return {};
  return {device, cuda::why_unavailable().empty() ? cuda::hardware(stream) : kReferenceGpu};
}

bool AnyVariant::available_on(const Target& target) const {
  return target.assumed ? target.hardware.compute >= min_compute : available();
}

bool AnyVariant::available() const {
  return device == Device::kCpu ||
         (built && cuda::why_unavailable().empty() && cuda::properties().compute >= min_compute);
}

std::string AnyVariant::why_unavailable() const {
  if (available()) return {};
  if (!built) return "built without CUDA";
  if (!cuda::why_unavailable().empty()) return cuda::why_unavailable();
  const auto text = [](int c) { return std::to_string(c / 10) + "." + std::to_string(c % 10); };
  return "requires compute capability " + text(min_compute) + ", but this device has " +
         text(cuda::properties().compute);
}

bool Routine::batched() const {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const OperandInfo& input) { return input.shape.has_batch(); });
}

const AnyLadder& Routine::ladder(Device device) const {
  return device == Device::kCuda ? cuda_ : cpu_[static_cast<int>(host::isa())];
}

std::vector<const AnyVariant*> Routine::variants() const {
  std::vector<const AnyVariant*> list;
  for (const Device device : {Device::kCpu, Device::kCuda})
    for (const auto& variant : ladder(device)) list.push_back(variant.get());
  return list;
}

const AnyVariant& Routine::find(std::string_view variant) const {
  for (const Device device : {Device::kCpu, Device::kCuda})
    for (const auto& candidate : ladder(device))
      if (variant == candidate->name) return *candidate;
  std::vector<std::string> names;
  for (const AnyVariant* candidate : variants()) names.emplace_back(candidate->name);
  const std::string unknown(variant);
  throw NameError(name + " has no variant '" + unknown + "'" + suggest(unknown, names));
}

const AnyVariant& Routine::choose(const Problem& problem, const Target& target,
                                  std::vector<Skipped>* skipped) const {
  const AnyVariant* unavailable = nullptr;
  bool unsolvable = false;
  for (const auto& variant : std::views::reverse(ladder(target.device))) {
    if (variant->ceiling) continue;
    const char* reason = nullptr;
    const bool available = variant->available_on(target);
    if (available && (reason = why_skipped(*variant, problem, target.hardware)) == nullptr)
      return *variant;
    unavailable = available ? nullptr : variant.get();
    unsolvable = available;
    if (skipped != nullptr)
      skipped->push_back({variant.get(), available ? reason : variant->why_unavailable()});
  }
  const std::string on_device = name_of(target.device);
  if (unsolvable)
    throw ValueError(name + ": no variant on " + on_device + " can solve this problem");
  throw Unavailable(
      name + " on " + on_device + ": " +
      (unavailable != nullptr ? unavailable->why_unavailable() : "no variant for this device"));
}

std::optional<std::size_t> Routine::find_option(std::string_view option) const {
  for (std::size_t i = 0; i < options.size(); ++i)
    if (option == options[i].name) return i;
  return std::nullopt;
}

std::vector<OperandType> Routine::operand_types(const NamedLengths& lengths,
                                                const std::vector<std::int64_t>& batch,
                                                std::optional<ElementType> type) const {
  Lengths table(dimensions);
  std::set<std::string> given;
  const auto set = [&](const std::string& word, std::int64_t length) {
    if (length < 0)
      throw ValueError(name + ": lengths must not be negative, got " + std::to_string(length));
    const auto known = std::find(dimensions.begin(), dimensions.end(), word);
    if (known == dimensions.end())
      throw ValueError(name + " has no length '" + word + "'" + suggest(word, dimensions));
    table.set(static_cast<std::size_t>(known - dimensions.begin()), length);
    if (!given.insert(word).second) throw ValueError(name + " got the length " + word + " twice");
  };
  for (const auto& [word, length] : lengths) set(word, length);
  if (given.size() != dimensions.size())
    throw ValueError(name + " takes " + std::to_string(dimensions.size()) + " lengths, got " +
                     std::to_string(given.size()));
  if (!batch.empty() && !batched()) throw ValueError(name + " takes no batch dimensions");
  for (const std::int64_t length : batch)
    if (length < 0)
      throw ValueError(name + ": lengths must not be negative, got " + std::to_string(length));
  table.set_batch(batch);

  std::vector<OperandType> types;
  for (const OperandInfo& input : inputs) {
    const auto fail = [&] {
      throw TypeError(name + ": " + input.name + " must have " + input.type_text() + ", got " +
                      name_of(*type));
    };
    ElementType element = input.type.fixed;
    if (input.same_as >= 0) {
      element = types[static_cast<std::size_t>(input.same_as)].type;
    } else if (input.type.accepts != nullptr && element.size != 0) {
      if (type && input.type.accepts(*type)) element = *type;  // else its default type
    } else if (input.type.accepts != nullptr) {
      if (!type) throw TypeError(name + ": a dtype is required for the operand " + input.name);
      if (!input.type.accepts(*type)) fail();
      element = *type;
    } else if (type && *type != element) {
      fail();
    }
    types.push_back({input.name, table.resolve(input.shape), element});
  }
  return types;
}

}  // namespace ado
