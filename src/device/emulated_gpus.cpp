#include "device/emulated_gpus.hpp"

#include <atomic>
#include <charconv>
#include <cmath>
#include <mutex>
#include <string_view>
#include <variant>

#include "core/error.hpp"

namespace ado::cuda::emulated {
namespace {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". NVIDIA's CCCL
// gives the same values in cuda::arch_traits (libcudacxx/include/cuda/__device/arch_traits.h).
struct Limits {
  int compute, threads, blocks;          // per multiprocessor
  int shared_kib, shared_kib_per_block;  // of a multiprocessor; of a block that opts in
};
constexpr Limits kLimits[] = {
    {75, 1024, 16, 64, 64},    {80, 2048, 32, 164, 163},  {86, 1536, 16, 100, 99},
    {87, 1536, 16, 164, 163},  {88, 1536, 16, 100, 99},   {89, 1536, 24, 100, 99},
    {90, 2048, 32, 228, 227},  {100, 2048, 32, 228, 227}, {103, 2048, 32, 228, 227},
    {110, 1536, 24, 228, 227}, {120, 1536, 24, 100, 99},  {121, 1536, 24, 100, 99},
};

// Values that CUDA's runtime reports: the output of NVIDIA's sample deviceQuery on these products,
// published with several drivers, and the records in notebooks/data (H200, H100). The drivers agree
// except for the memory, which varies by 1 %. Clocks are the maximum clocks.
struct Product {
  const char *name, *full_name;
  int compute, multiprocessors;
  double core_hertz, memory_hertz;
  int memory_bus_bits, memory_mib, l2_mib;
};
constexpr Product kProducts[] = {
    {"H200", "NVIDIA H200", 90, 132, 1.98e9, 3.201e9, 6016, 143155, 60},
    {"H100", "NVIDIA H100 SXM", 90, 132, 1.98e9, 2.619e9, 5120, 81079, 50},
    {"A100", "NVIDIA A100 SXM", 80, 108, 1.41e9, 1.593e9, 5120, 81051, 40},
    {"A10", "NVIDIA A10", 86, 72, 1.695e9, 6.251e9, 384, 22516, 6},
    {"L4", "NVIDIA L4", 89, 58, 2.04e9, 6.251e9, 192, 22518, 48},
    {"T4", "Tesla T4", 75, 40, 1.59e9, 5.001e9, 256, 15110, 4},
    {"RTX 4090", "NVIDIA GeForce RTX 4090", 89, 128, 2.52e9, 10.501e9, 384, 24081, 72},
    {"RTX 5090", "NVIDIA GeForce RTX 5090", 120, 170, 2.407e9, 14.001e9, 512, 32101, 96},
};

using Property = std::variant<int Properties::*, std::int64_t Properties::*, double Properties::*>;
const std::map<std::string_view, Property> kProperties = {
    {"compute", &Properties::compute},
    {"core_hertz", &Properties::core_hertz},
    {"l2_bytes", &Properties::l2_bytes},
    {"memory_bus_bits", &Properties::memory_bus_bits},
    {"memory_bytes", &Properties::memory_bytes},
    {"memory_hertz", &Properties::memory_hertz},
    {"multiprocessors", &Properties::multiprocessors},
    {"shared_bytes", &Properties::shared_bytes_per_block},
    {"shared_bytes_per_multiprocessor", &Properties::shared_bytes_per_multiprocessor},
    {"threads_per_multiprocessor", &Properties::threads_per_multiprocessor},
};

// Returns the row of a table with this name. Throws ValueError with all names.
template <class Rows>
const auto& find(const Rows& rows, const char* what, const auto& wanted, const auto& name_of) {
  std::string known;
  for (const auto& row : rows) {
    if (name_of(row) == wanted) return row;
    known += (known.empty() ? "" : ", ") + std::string(name_of(row));
  }
  throw ValueError(std::string(what) + " must be one of " + known + ", got " + std::string(wanted));
}

// Streams would need the locale of the C++ runtime, and a process can have several runtimes.
std::string text_of(double value) {
  char digits[32];
  const auto format = std::chars_format::general;
  return {digits, std::to_chars(digits, digits + sizeof digits, value, format, 6).ptr};
}

GpuModel make(const GpuChoice& choice) {
  const Product& product = find(kProducts, "the emulated GPU", choice.name,
                                [](const Product& p) { return std::string(p.name); });
  constexpr std::int64_t kKiB = 1 << 10;
  Properties p{.name = std::string("emulated ") + product.full_name,
               .uuid = {},
               .pci_bus_id = {},
               .compute = product.compute,
               .multiprocessors = product.multiprocessors,
               .core_hertz = product.core_hertz,
               .memory_hertz = product.memory_hertz,
               .memory_bus_bits = product.memory_bus_bits,
               .memory_bytes = product.memory_mib * kKiB * kKiB,
               .l2_bytes = product.l2_mib * kKiB * kKiB};
  for (const auto& [name, value] : choice.changes) {
    const auto& row = find(kProperties, "a property of the emulated GPU", name,
                           [](const auto& entry) { return std::string(entry.first); });
    std::visit(
        [&](auto member) {
          using Value = std::remove_reference_t<decltype(p.*member)>;
          constexpr double kMost = sizeof(Value) == 4 ? 0x1p31 - 1 : 0x1p53;
          constexpr bool kWhole = std::is_integral_v<Value>;
          if (!(value >= 1 && value <= kMost) || (kWhole && value != std::floor(value)))
            throw ValueError(name + " must be " + (kWhole ? "a whole number " : "") +
                             "between 1 and " + text_of(kMost) + ", got " + text_of(value));
          p.*member = static_cast<Value>(value);
        },
        row.second);
  }
  const Limits& limits =
      find(kLimits, "compute (the compute capability times ten)", std::to_string(p.compute),
           [](const Limits& l) { return std::to_string(l.compute); });
  const auto set = [](auto& property, auto limit) {
    if (property == 0) property = limit;  // the caller has not set it
  };
  set(p.threads_per_multiprocessor, limits.threads);
  set(p.shared_bytes_per_multiprocessor, limits.shared_kib * kKiB);
  set(p.shared_bytes_per_block, limits.shared_kib_per_block * kKiB);
  if (!choice.changes.empty()) p.name += ", modified";
  return {std::move(p), limits.blocks, limits.compute < 80 ? 0 : 1 << 10};
}

// Never destroyed, because static destructors can free memory of the emulated GPU.
struct Chosen {
  std::mutex mutex;
  std::map<GpuChoice, GpuModel> made;
  std::atomic<const std::pair<const GpuChoice, GpuModel>*> current;

  Chosen() { choose({}); }
  void choose(const GpuChoice& choice) {
    GpuModel model = make(choice);  // throws if a value is NaN, which the map cannot order
    const std::lock_guard lock(mutex);
    current = &*made.try_emplace(choice, std::move(model)).first;
  }
};

Chosen& chosen() {
  static Chosen& object = *new Chosen;
  return object;
}

}  // namespace

void choose_gpu(const GpuChoice& choice) { chosen().choose(choice); }
GpuChoice chosen_gpu() { return chosen().current.load()->first; }
const GpuModel& gpu_model() { return chosen().current.load()->second; }

}  // namespace ado::cuda::emulated
