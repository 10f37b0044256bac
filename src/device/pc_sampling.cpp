// Samples program counters with CUPTI's PC Sampling API, and maps them to source lines.
#include "device/pc_sampling.hpp"

#include "core/error.hpp"
#include "device/cupti.cuh"

#ifdef ADO_WITH_CUPTI

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "common/launch.cuh"

namespace ado::pc_sampling {
namespace {

using Clock = std::chrono::steady_clock;
using Cubin = std::vector<char>;

constexpr std::size_t kBufferedPcs = 4096;  // further PCs are fetched in further calls
// Samples are decoded at intervals of this length. One interval fits the hardware's 512 MB buffer.
constexpr auto kRange = std::chrono::milliseconds(20);
constexpr int kLaunchesPerSynchronisation = 8;
constexpr const char* kPrefix = "smsp__pcsamp_warps_issue_stalled_";

// A parameter structure of the PC Sampling API with its size and context, all other members zero.
#define ADO_PC_SAMPLING_PARAMS(function, name, of_context) \
  CUpti_PCSampling##function##Params name = {};            \
  name.size = CUpti_PCSampling##function##ParamsSize;      \
  name.ctx = of_context

struct Reasons {
  std::vector<std::uint32_t> indices;
  std::vector<std::string> names;
};

Reasons reasons_of(CUcontext context) {
  std::size_t count = 0;
  ADO_PC_SAMPLING_PARAMS(GetNumStallReasons, number, context);
  number.numStallReasons = &count;
  ADO_CUPTI(PCSamplingGetNumStallReasons, &number);

  Reasons reasons{std::vector<std::uint32_t>(count), {}};
  std::vector<char> text(count * CUPTI_STALL_REASON_STRING_SIZE);
  std::vector<char*> names;
  for (std::size_t i = 0; i < count; ++i)
    names.push_back(&text[i * CUPTI_STALL_REASON_STRING_SIZE]);
  ADO_PC_SAMPLING_PARAMS(GetStallReasons, params, context);
  params.numStallReasons = count;
  params.stallReasonIndex = reasons.indices.data();
  params.stallReasons = names.data();
  ADO_CUPTI(PCSamplingGetStallReasons, &params);
  for (const std::string name : names)
    reasons.names.push_back(name.rfind(kPrefix, 0) == 0 ? name.substr(std::strlen(kPrefix)) : name);
  return reasons;
}

// Memory for the samples of kBufferedPcs PCs.
class Buffer {
 public:
  explicit Buffer(std::size_t reasons)
      : counts_(std::make_unique<CUpti_PCSamplingStallReason[]>(kBufferedPcs * reasons)),
        pcs_(std::make_unique<CUpti_PCSamplingPCData[]>(kBufferedPcs)) {
    for (std::size_t i = 0; i < kBufferedPcs; ++i) {
      pcs_[i].size = sizeof(CUpti_PCSamplingPCData);
      pcs_[i].stallReason = &counts_[i * reasons];
    }
    data_.size = sizeof(CUpti_PCSamplingData);
    data_.collectNumPcs = kBufferedPcs;
    data_.pPcData = pcs_.get();
  }

  CUpti_PCSamplingData* data() { return &data_; }

 private:
  std::unique_ptr<CUpti_PCSamplingStallReason[]> counts_;
  std::unique_ptr<CUpti_PCSamplingPCData[]> pcs_;
  CUpti_PCSamplingData data_ = {};
};

// The source line of an instruction. path is empty without line information.
struct Place {
  std::string path;
  unsigned line = 0;
};

std::string taken(char* text) {
  std::string copy = text == nullptr ? "" : text;
  std::free(text);
  return copy;
}

Place place_of(const Cubin& cubin, const std::string& function, std::uint64_t pc) {
  CUpti_GetSassToSourceCorrelationParams params = {};
  params.size = CUpti_GetSassToSourceCorrelationParamsSize;
  params.cubin = cubin.data();
  params.cubinSize = cubin.size();
  params.functionName = function.c_str();
  params.pcOffset = pc;
  // Fails for kernels without line information.
  if (cupti::library().GetSassToSourceCorrelation(&params) != CUPTI_SUCCESS) return {};
  const std::string file = taken(params.fileName), folder = taken(params.dirName);
  if (file.empty() || params.lineNumber == 0) return {};
  return {folder.empty() || file[0] == '/' ? file : folder + "/" + file, params.lineNumber};
}

}  // namespace

struct Sampler::State {
  CUcontext context = nullptr;
  CUpti_SubscriberHandle subscriber = nullptr;
  bool enabled = false;
  Reasons reasons;
  std::unique_ptr<Buffer> configured, fetched;

  std::mutex loading;
  std::vector<Cubin> cubins;  // one per loaded module

  using Pc = std::tuple<std::uint64_t, std::string, std::uint64_t>;  // cubin, function, offset
  std::map<Pc, std::vector<std::uint64_t>> counts;
  std::uint64_t dropped = 0, unattributed = 0;

  static void CUPTIAPI on_module(void* self, CUpti_CallbackDomain, CUpti_CallbackId,
                                 const void* data) {
    const auto& resource = *static_cast<const CUpti_ResourceData*>(data);
    const auto& module = *static_cast<const CUpti_ModuleResourceData*>(resource.resourceDescriptor);
    auto& state = *static_cast<State*>(self);
    const std::lock_guard lock(state.loading);
    state.cubins.emplace_back(module.pCubin, module.pCubin + module.cubinSize);
  }

  void subscribe() {
    ADO_CUPTI(Subscribe, &subscriber, &State::on_module, this);
    ADO_CUPTI(EnableCallback, 1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
              CUPTI_CBID_RESOURCE_MODULE_LOADED);
  }

  void enable() {
    ADO_PC_SAMPLING_PARAMS(Enable, params, context);
    ADO_CUPTI(PCSamplingEnable, &params);
    enabled = true;
  }

  // Kernels need not be serialised: samples of concurrent kernels carry the kernel's own PCs, and
  // launches keep their usual overlap. Without start and stop, the work that prepares the operands
  // would be sampled, too.
  void configure() {
    reasons = reasons_of(context);
    configured = std::make_unique<Buffer>(reasons.indices.size());
    fetched = std::make_unique<Buffer>(reasons.indices.size());
    CUpti_PCSamplingConfigurationInfo info[4] = {};
    info[0].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE;
    info[0].attributeData.collectionModeData.collectionMode =
        CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
    info[1].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL;
    info[1].attributeData.enableStartStopControlData.enableStartStopControl = 1;
    info[2].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON;
    info[2].attributeData.stallReasonData.stallReasonCount = reasons.indices.size();
    info[2].attributeData.stallReasonData.pStallReasonIndex = reasons.indices.data();
    info[3].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
    info[3].attributeData.samplingDataBufferData.samplingDataBuffer = configured->data();
    ADO_PC_SAMPLING_PARAMS(ConfigurationInfo, params, context);
    params.numAttributes = std::size(info);
    params.pPCSamplingConfigurationInfo = info;
    ADO_CUPTI(PCSamplingSetConfigurationAttribute, &params);
  }

  void start() {
    ADO_PC_SAMPLING_PARAMS(Start, params, context);
    ADO_CUPTI(PCSamplingStart, &params);
  }
  void stop() {
    ADO_PC_SAMPLING_PARAMS(Stop, params, context);
    ADO_CUPTI(PCSamplingStop, &params);
  }

  // Fetches the samples of a range. They must be fetched before the next range starts.
  void fetch() {
    do {
      ADO_PC_SAMPLING_PARAMS(GetData, params, context);
      params.pcSamplingData = fetched->data();
      ADO_CUPTI(PCSamplingGetData, &params);
      add(*fetched->data());
    } while (fetched->data()->remainingNumPcs > 0);
  }

  void add(const CUpti_PCSamplingData& data) {
    dropped += data.droppedSamples;
    unattributed += data.nonUsrKernelsTotalSamples;
    for (std::size_t i = 0; i < data.totalNumPcs; ++i) {
      const CUpti_PCSamplingPCData& pc = data.pPcData[i];
      // CUPTI shares the memory of a name between records, so it is not freed.
      const bool known = pc.functionName != nullptr && pc.functionName[0] != '\0';
      auto& samples = counts[{pc.cubinCrc, known ? pc.functionName : "", pc.pcOffset}];
      samples.resize(reasons.indices.size());
      for (std::size_t j = 0; j < pc.stallReasonCount; ++j) {
        const std::uint32_t index = pc.stallReason[j].pcSamplingStallReasonIndex;
        for (std::size_t k = 0; k < reasons.indices.size(); ++k)
          if (reasons.indices[k] == index) samples[k] += pc.stallReason[j].samples;
      }
    }
  }

  std::map<std::uint64_t, const Cubin*> cubins_by_checksum() {
    const std::lock_guard lock(loading);
    std::map<std::uint64_t, const Cubin*> found;
    for (const Cubin& cubin : cubins) {
      CUpti_GetCubinCrcParams params = {};
      params.size = CUpti_GetCubinCrcParamsSize;
      params.cubin = cubin.data();
      params.cubinSize = cubin.size();
      ADO_CUPTI(GetCubinCrc, &params);
      found[params.cubinCrc] = &cubin;
    }
    return found;
  }

  // Sums the samples per source line.
  Samples by_line() {
    const auto known = cubins_by_checksum();
    std::map<std::tuple<std::string, std::string, unsigned>, std::vector<std::uint64_t>> lines;
    Samples result{reasons.names, {}, dropped, unattributed};
    for (const auto& [where, samples] : counts) {
      const auto& [checksum, function, pc] = where;
      if (function.empty()) {
        for (std::size_t k = 0; k < samples.size(); ++k)
          if (!is_part(reasons.names[k])) result.unattributed += samples[k];
        continue;
      }
      const auto cubin = known.find(checksum);
      const Place place = cubin == known.end() ? Place{} : place_of(*cubin->second, function, pc);
      auto& sums = lines[{short_name(function.c_str()), place.path, place.line}];
      sums.resize(samples.size());
      for (std::size_t k = 0; k < samples.size(); ++k) sums[k] += samples[k];
    }
    for (const auto& [where, samples] : lines) {
      const auto& [kernel, path, line] = where;
      result.lines.push_back({kernel, path, line, samples});
    }
    return result;
  }

  // Returns true if the samples of a reason are also counted by another reason.
  static bool is_part(const std::string& reason) {
    return reason.find("_not_issued") != std::string::npos;
  }

  // Ends sampling. CUPTI then writes the remaining samples to the configured buffer.
  CUptiResult disable() {
    enabled = false;
    ADO_PC_SAMPLING_PARAMS(Disable, params, context);
    return cupti::library().PCSamplingDisable(&params);
  }

  ~State() {
    if (enabled) disable();
    if (subscriber != nullptr) cupti::library().Unsubscribe(subscriber);
  }
};

Sampler::Sampler() : state_(std::make_unique<State>()) {
  cuda::require();
  cupti::library();             // throws before the device is used
  ADO_CUDA(cudaFree(nullptr));  // creates the context
  state_->context = cupti::current_context();
  state_->subscribe();
  state_->enable();
  state_->configure();
}

Sampler::~Sampler() = default;

Samples Sampler::collect(const std::function<void()>& work, double seconds) {
  State& state = *state_;
  if (!state.enabled) throw ValueError("collect() must be called once per Sampler");
  work();
  ADO_CUDA(cudaDeviceSynchronize());
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  do {
    const auto end_of_range = Clock::now() + kRange;
    state.start();
    do {
      for (int i = 0; i < kLaunchesPerSynchronisation; ++i) work();
      ADO_CUDA(cudaDeviceSynchronize());
    } while (Clock::now() < end_of_range);
    state.stop();
    state.fetch();
  } while (Clock::now() < end);
  cupti::check(state.disable(), "cuptiPCSamplingDisable", __FILE__, __LINE__);
  state.add(*state.configured->data());
  return state.by_line();
}

}  // namespace ado::pc_sampling

#else

namespace ado::pc_sampling {

struct Sampler::State {};

Sampler::Sampler() { throw Unavailable("samples of kernels: " + cupti::why_missing()); }
Sampler::~Sampler() = default;
Samples Sampler::collect(const std::function<void()>&, double) { return {}; }

}  // namespace ado::pc_sampling

#endif
