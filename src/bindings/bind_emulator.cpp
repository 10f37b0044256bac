// Python class for PTX modules on the emulator, and functions of the emulated GPU.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <span>

#include "bindings/arrays.hpp"
#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "device/emulated.hpp"
#include "device/emulated_gpus.hpp"
#include "device/source_kernel.hpp"
#include "emulator/emulator.hpp"
#include "runtime/call.hpp"

namespace ado::bindings {
namespace {

namespace py = pybind11;
using namespace emulator;

using Shape = std::array<unsigned, 3>;
// The name of an array, the array, and whether its contents are defined.
using Operands = std::vector<std::tuple<std::string, py::array, bool>>;

py::dict dict_of(const AccessCounts& c) {
  using namespace py::literals;
  return py::dict("requests"_a = c.requests, "lanes"_a = c.lanes, "bytes"_a = c.bytes,
                  "unique"_a = c.unique, "sectors"_a = c.sectors, "wavefronts"_a = c.wavefronts,
                  "ideal"_a = c.ideal);
}

py::dict dict_of(const Operations& o) {
  static constexpr const char* kNames[] = {
      "flop16",    "flop32",     "flop64",     "divide32", "divide64", "root32",       "root64",
      "special32", "expanded32", "expanded64", "fused32",  "fused64",  "instruction64"};
  static_assert(std::size(kNames) == kCounted);
  py::dict found;
  for (int i = 0; i < kCounted; ++i) found[kNames[i]] = o[i];
  return found;
}

py::dict dict_of(const Work& c) {
  using namespace py::literals;
  return py::dict(
      "instructions"_a = c.instructions, "lanes"_a = c.lanes,
      "operations"_a = dict_of(c.operations), "global_loads"_a = dict_of(c.global_loads),
      "global_stores"_a = dict_of(c.global_stores), "global_atomics"_a = dict_of(c.global_atomics),
      "shared_loads"_a = dict_of(c.shared_loads), "shared_stores"_a = dict_of(c.shared_stores),
      "shared_atomics"_a = dict_of(c.shared_atomics), "local_loads"_a = dict_of(c.local_loads),
      "local_stores"_a = dict_of(c.local_stores), "constant_loads"_a = dict_of(c.constant_loads));
}

py::dict dict_of(const Counts& c) {
  using namespace py::literals;
  py::list lines;
  for (const LineCounts& line : c.lines)
    lines.append(py::dict("file"_a = line.at.file, "line"_a = line.at.line,
                          "outer_file"_a = line.at.outer_file, "outer_line"_a = line.at.outer_line,
                          **dict_of(static_cast<const Work&>(line))));
  return py::dict("blocks"_a = c.blocks, "warps"_a = c.warps, "branches"_a = c.branches,
                  "divergent_branches"_a = c.divergent_branches, "barriers"_a = c.barriers,
                  "atomics"_a = c.atomics, "async_copies"_a = c.async_copies,
                  "atomic_addresses"_a = c.atomic_addresses, "bulk_loads"_a = dict_of(c.bulk_loads),
                  "bulk_stores"_a = dict_of(c.bulk_stores), "lines"_a = lines,
                  **dict_of(static_cast<const Work&>(c)));
}

py::dict dict_of(const Result& result) {
  using namespace py::literals;
  py::object error = py::none();
  if (const auto& e = result.error)
    error = py::dict("kind"_a = e->kind, "text"_a = e->text(), "file"_a = e->at.file,
                     "line"_a = e->at.line, "thread"_a = e->thread, "block"_a = e->block,
                     "array"_a = e->array, "byte"_a = e->byte);
  return py::dict("counts"_a = dict_of(result.counts), "error"_a = error,
                  "output"_a = result.output);
}

// A module with its own device memory. Arrays are device memory for the duration of a launch.
class EmulatedModule {
 public:
  explicit EmulatedModule(std::string ptx) : module_(Module::load(std::move(ptx), memory_)) {}

  std::vector<std::string> entries() const {
    const auto names = module_->entries();
    return {names.begin(), names.end()};
  }
  std::vector<std::pair<std::size_t, std::size_t>> parameters(const std::string& entry) const {
    std::vector<std::pair<std::size_t, std::size_t>> layout;
    for (const Parameter& p : module_->parameters(entry)) layout.emplace_back(p.offset, p.bytes);
    return layout;
  }
  std::span<std::byte> variable(const std::string& name) const {
    const auto bytes = module_->variable(name);
    if (bytes.data() == nullptr) throw NameError("the module has no variable " + name);
    return bytes;
  }
  std::size_t shared_bytes(const std::string& entry) { return module_->shared_bytes(entry); }
  py::dict launch(const std::string& entry, const Shape& grid, const Shape& block,
                  const py::bytes& params, const Operands& arrays, std::size_t shared_bytes,
                  const Shape& cluster, bool checks, int threads, std::int64_t limit) {
    for (const auto& [name, array, initialised] : arrays)
      memory_.add(array.data(), static_cast<std::size_t>(array.nbytes()), name, initialised,
                  array.writeable());
    struct Removal {
      Memory& memory;
      const Operands& arrays;
      ~Removal() {
        for (const auto& operand : arrays) memory.remove(std::get<1>(operand).data());
      }
    } removal{memory_, arrays};
    const auto extent = [](const Shape& s) { return Extent{s[0], s[1], s[2]}; };
    Options options{.checks = {checks, checks, checks, checks, checks},
                    .threads = threads,
                    .max_block_transitions = limit};
    const std::string_view bytes(params);
    Result result;
    without_gil([&] {
      result = emulator::launch(*module_, entry,
                                {extent(grid), extent(block), extent(cluster), shared_bytes},
                                std::as_bytes(std::span(bytes)), memory_, options);
    });
    return dict_of(result);
  }

 private:
  Memory memory_;
  std::unique_ptr<Module> module_;
};

// Runs a call or a function on the emulated GPU. Returns (KernelInfo, counts) of each launch.
template <class Run>
py::list counts_of(const Run& run) {
  cuda::emulated::Recording recording;
  run();
  py::list list;
  for (const cuda::emulated::Launched& launched : recording.launches)
    list.append(py::make_tuple(launched.kernel, dict_of(launched.counts)));
  return list;
}

py::memoryview view_of(cuda::emulated::Fatbin fatbin) {
  return py::memoryview::from_memory(fatbin.data(), static_cast<py::ssize_t>(fatbin.size()));
}

// Returns a function that calls a function of a module of the package.
template <class Value>
auto read_with(const char* module, const char* function) {
  return [=](cuda::emulated::Fatbin fatbin) {
    const py::gil_scoped_acquire gil;
    const auto reader = py::module_::import(module);
    return reader.attr(function)(view_of(fatbin)).template cast<Value>();
  };
}

// Replaces kernels in launches between __enter__ and __exit__.
class SubstitutionScope {
 public:
  SubstitutionScope(const std::map<std::uintptr_t, std::uintptr_t>& kernels, py::object observer)
      : observer_(std::move(observer)) {
    for (const auto& [kernel, other] : kernels)
      kernels_[reinterpret_cast<const void*>(kernel)] = reinterpret_cast<const void*>(other);
  }
  void enter() {
    cuda::emulated::Substitution::Observer observe;
    if (!observer_.is_none())
      observe = [this](const void* kernel, const char* name, const LaunchShape& shape,
                       std::span<const std::byte> parameters) {
        const py::gil_scoped_acquire gil;
        const auto lengths = [](const Extent& e) { return Shape{e.x, e.y, e.z}; };
        observer_(reinterpret_cast<std::uintptr_t>(kernel), name, lengths(shape.grid),
                  lengths(shape.block), shape.dynamic_shared_bytes,
                  py::bytes(reinterpret_cast<const char*>(parameters.data()), parameters.size()));
      };
    scope_.emplace(kernels_, std::move(observe));
  }
  void exit() { scope_.reset(); }

 private:
  std::map<const void*, const void*> kernels_;
  py::object observer_;
  std::optional<cuda::emulated::Substitution> scope_;
};

py::list counts_of_call(Call& call) {
  if (call.memory() != kEmulator)
    throw ValueError("the call must be prepared with device=\"emulator\"");
  return counts_of([&] { without_gil([&] { call.run(); }); });
}

}  // namespace

void bind_emulator(py::module_& m) {
  py::class_<EmulatedModule>(m, "EmulatedModule",
                             "Kernels in PTX, which are executed on the CPU and counted.")
      .def(py::init<std::string>(), py::arg("ptx"))
      .def_property_readonly("entries", &EmulatedModule::entries)
      .def("parameters", &EmulatedModule::parameters, py::arg("entry"),
           "Offset and size of each parameter of a kernel.")
      .def(
          "variable",
          [](const py::object& self, const std::string& name) {
            const auto bytes = self.cast<const EmulatedModule&>().variable(name);
            return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(bytes.size()),
                                             reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                             self);
          },
          py::arg("name"), "The bytes of a global or constant variable, as a view.")
      .def("shared_bytes", &EmulatedModule::shared_bytes, py::arg("entry"),
           "Bytes of static shared memory of a kernel.")
      .def("launch", &EmulatedModule::launch, py::arg("entry"), py::arg("grid"), py::arg("block"),
           py::arg("params"), py::arg("arrays"), py::arg("shared_bytes") = 0,
           py::arg("cluster") = Shape{1, 1, 1}, py::arg("checks") = true, py::arg("threads") = 1,
           py::arg("limit") = 0,
           "Execute a kernel. Each array is a name, an array and whether its contents are defined. "
           "Return its counts, the first error and the output of printf.");
  m.def("emulated_counts", &counts_of_call, py::arg("call"),
        "Run a call on the emulated GPU; return (KernelInfo, counts) of each launch.");
  m.def(
      "emulated_counts", [](const py::function& run) { return counts_of(run); }, py::arg("run"),
      "Call a function; return (KernelInfo, counts) of each launch of this thread on the emulated "
      "GPU.");
  py::class_<SubstitutionScope>(
      m, "Substitution",
      "Context manager: launches of this thread run other kernels instead of some kernels, by "
      "their "
      "handles. `observer` is called before each launch, with the handle, the mangled name, the "
      "grid, the block, the dynamic shared memory and the values of the parameters.")
      .def(py::init<const std::map<std::uintptr_t, std::uintptr_t>&, py::object>(),
           py::arg("kernels"), py::arg("observer") = py::none())
      .def("__enter__", &SubstitutionScope::enter)
      .def("__exit__", [](SubstitutionScope& scope, const py::object&, const py::object&,
                          const py::object&) { scope.exit(); });
  m.def(
      "emulated_ptx",
      [](std::uintptr_t kernel) {
        std::string text;
        without_gil([&] { text = cuda::emulated::ptx(reinterpret_cast<const void*>(kernel)); });
        return text;
      },
      py::arg("kernel"), "The PTX of the module of a kernel, by its handle.");
  m.def("memory_at", &cuda::memory_at, py::arg("address"),
        "First address and size of the memory of a GPU or of the emulator that contains an "
        "address, or (0, 0).");
  m.def(
      "emulated_address",
      [](const DeviceArray& array, const std::string& name) {
        cuda::emulated::name_memory(array.view.data, name);
        return reinterpret_cast<std::uintptr_t>(array.view.data);
      },
      py::arg("array"), py::arg("name"),
      "The address of an array of the emulator. Error messages refer to the array by this name.");
  m.def(
      "use_host_memory",
      [](std::uintptr_t address, std::size_t bytes, const std::string& name) {
        cuda::emulated::use_host_memory(reinterpret_cast<void*>(address), bytes, name);
      },
      py::arg("address"), py::arg("bytes"), py::arg("name"),
      "Let kernels on the emulator access memory of the host until `forget_host_memory`.");
  m.def(
      "forget_host_memory",
      [](std::uintptr_t address) {
        cuda::emulated::forget_host_memory(reinterpret_cast<void*>(address));
      },
      py::arg("address"), "End the effect of `use_host_memory`.");
  m.def("set_emulated_misalignment", &cuda::emulated::set_misalignment, py::arg("bytes"),
        "Let later arrays of the emulator begin this number of bytes after an aligned address.");
  cuda::emulated::set_fatbin_reader(
      {read_with<std::string>("adokernels.fat_binary", "ptx_in"),
       read_with<std::map<std::string, int>>("adokernels.machine_code", "registers_in")});
  cuda::emulated::set_waiter([](const std::function<void()>& wait) {
    std::optional<ReleaseGil> released;
    if (PyGILState_Check() != 0) released.emplace();
    wait();
  });
  m.def(
      "fatbins",
      [] {
        std::map<std::string, cuda::emulated::Fatbin> found;
        without_gil([&] { found = cuda::emulated::fatbins(); });
        std::map<std::string, py::memoryview> views;
        for (const auto& [symbol, fatbin] : found) views.emplace(symbol, view_of(fatbin));
        return views;
      },
      "The fat binary with each built-in kernel, by mangled name.");
  m.def("why_no_emulator", &cuda::emulated::why_unavailable,
        "Empty if kernels can run on the emulator.");
  m.def(
      "set_emulator_checks",
      [](bool race, bool global_race, bool initialised, bool synchronised,
         bool shared_initialised) {
        cuda::emulated::set_checks(
            {race, global_race, initialised, synchronised, shared_initialised});
      },
      py::kw_only(), py::arg("race"), py::arg("global_race"), py::arg("initialised"),
      py::arg("synchronised"), py::arg("shared_initialised"),
      "Set the checks of later launches on the emulated GPU.");
  m.def(
      "emulator_checks",
      [] {
        const auto checks = cuda::emulated::checks();
        return std::tuple(checks.racecheck, checks.global_racecheck, checks.initcheck,
                          checks.synccheck, checks.shared_initcheck);
      },
      "(race, global_race, initialised, synchronised, shared_initialised) of set_emulator_checks.");
  m.def(
      "set_emulated_gpu",
      [](const std::string& name, const std::map<std::string, double>& changes) {
        cuda::emulated::choose_gpu({name, changes});
      },
      py::arg("name"), py::arg("changes"),
      "Choose the GPU that later calls emulate, with other values of some of its properties.");
  m.def(
      "emulated_gpu",
      [] {
        const auto choice = cuda::emulated::chosen_gpu();
        return std::pair(choice.name, choice.changes);
      },
      "(name, changes) of set_emulated_gpu.");
}

}  // namespace ado::bindings
