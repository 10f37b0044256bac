// Memory for work that CUDA graphs capture.
//
// A replay uses the addresses of the capture, so the memory must exist as long as the graph, its
// clones and its executable graphs. CUDA keeps a "user object" for this long, and here the object
// is the memory. During a capture, cudaMallocAsync would add an allocation to the graph. Such a
// graph cannot be cloned, be a child of another graph, or be instantiated twice at the same time,
// and each replay allocates and frees.
//
// As in a memory pool, work that is captured later on the same stream reuses returned memory.
//
// The memory comes from a pool of its own, for two reasons. In the default pool, an allocation may
// reuse memory that another stream has freed but may still use, which makes the allocation depend
// on that stream. And the default pool releases unused memory when a stream is synchronized, which
// can wait for all streams. A stream that is being captured allows neither: the capture would
// become invalid. The pool keeps its memory for later graphs until cuda::synchronize().
#include <algorithm>
#include <atomic>

#include "common/graph_counter.cuh"
#include "device/internal.cuh"

#ifdef ADO_WITH_CUDA

namespace ado::cuda {
namespace {

// Buffers that are no longer needed, as a linked list. They are freed later, because CUDA destroys
// user objects in a thread that must not call CUDA.
struct Unneeded {
  std::unique_ptr<Buffer> buffer;
  Unneeded* next = nullptr;
};
std::atomic<Unneeded*> unneeded{nullptr};

void CUDART_CB append(void* entry) {
  auto* const first = static_cast<Unneeded*>(entry);
  first->next = unneeded;
  while (!unneeded.compare_exchange_weak(first->next, first)) continue;
}

// The state of a capture: its identifier, and the memory of each of its streams.
struct Capture {
  struct Branch {
    cudaStream_t stream;
    std::vector<GraphMemory> returned = {};
    GraphMemory counter = {};
  };
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  std::vector<Branch> branches = {};
};

// The last capture in which this thread made a call.
thread_local Capture last;

Capture::Branch& branch_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
#if CUDART_VERSION >= 13000
  ADO_CUDA(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, nullptr, nullptr, nullptr));
#else
  ADO_CUDA(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, nullptr, nullptr));
#endif
  if (status != cudaStreamCaptureStatusActive)
    throw_error(cudaErrorStreamCaptureInvalidated, "cudaStreamGetCaptureInfo(...)", __FILE__,
                __LINE__);
  if (last.id != id || last.graph != graph) last = {.id = id, .graph = graph};
  const auto found = std::find_if(last.branches.begin(), last.branches.end(),
                                  [&](const auto& branch) { return branch.stream == stream; });
  return found != last.branches.end() ? *found : last.branches.emplace_back(stream);
}

// The pool of a device, and the only stream that allocates from it and frees.
struct Pool {
  explicit Pool(int device) : own_stream(device) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {.type = cudaMemLocationTypeDevice, .id = device};
    ADO_CUDA(cudaMemPoolCreate(&pool, &properties));
    std::uint64_t kept = UINT64_MAX;
    ADO_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
  }
  OwnStream own_stream;
  cudaMemPool_t pool = nullptr;
};

std::atomic<bool> pools_exist{false};

Pool& pool_of_device() {
  static PerDevice<Pool> pools;
  pools_exist = true;
  return pools.current([] { return Pool(current_device()); });
}

// Allocates memory that is 0 and belongs to the graph of the last capture.
GraphMemory allocate(std::size_t bytes) {
  const RelaxedCapture relaxed;
  const Pool& pool = pool_of_device();
  const Stream& stream = pool.own_stream.stream();
  auto entry = std::make_unique<Unneeded>(std::make_unique<Buffer>(bytes, stream, pool.pool));
  std::byte* const data = entry->buffer->data();
  ADO_CUDA(cudaMemsetAsync(data, 0, bytes, raw(stream)));
  synchronize(stream);
  cudaUserObject_t owner = nullptr;
  ADO_CUDA(cudaUserObjectCreate(&owner, entry.get(), append, 1, cudaUserObjectNoDestructorSync));
  static_cast<void>(entry.release());  // the user object owns it
  if (const cudaError_t status =
          cudaGraphRetainUserObject(last.graph, owner, 1, cudaGraphUserObjectMove);
      status != cudaSuccess) {
    cudaUserObjectRelease(owner, 1);
    throw_error(status, "cudaGraphRetainUserObject(...)", __FILE__, __LINE__);
  }
  return {data, bytes, last.id};
}

}  // namespace

GraphMemory memory_of_graph(cudaStream_t stream, std::size_t bytes) {
  std::vector<GraphMemory>& returned = branch_of(stream).returned;
  const auto found = std::find_if(returned.begin(), returned.end(),
                                  [&](const GraphMemory& memory) { return memory.bytes >= bytes; });
  if (found == returned.end()) return allocate(bytes);
  const GraphMemory memory = *found;
  returned.erase(found);
  return memory;
}

void return_to_graph(cudaStream_t stream, const GraphMemory& memory) {
  if (memory.capture != last.id) return;
  for (Capture::Branch& branch : last.branches)
    if (branch.stream == stream) branch.returned.push_back(memory);
}

unsigned* counter_of_graph(const Launch& go) {
  const auto stream = reinterpret_cast<std::uintptr_t>(go.stream);
  if (go.recorder != nullptr || !is_captured(stream_of(current_device(), stream))) return nullptr;
  GraphMemory& counter = branch_of(static_cast<cudaStream_t>(go.stream)).counter;
  if (counter.data == nullptr) counter = allocate(sizeof(unsigned));
  return reinterpret_cast<unsigned*>(counter.data);
}

void free_later(std::unique_ptr<Buffer> buffer) { append(new Unneeded{std::move(buffer)}); }

void free_later_memory() {
  if (unneeded.load(std::memory_order_relaxed) == nullptr) return;
  for (Unneeded* entry = unneeded.exchange(nullptr); entry != nullptr;) {
    const std::unique_ptr<Unneeded> freed(entry);
    entry = entry->next;
  }
}

void release_graph_memory() {
  free_later_memory();
  if (!pools_exist) return;
  const Pool& pool = pool_of_device();
  synchronize(pool.own_stream.stream());
  ADO_CUDA(cudaMemPoolTrimTo(pool.pool, 0));
}

}  // namespace ado::cuda

#endif
