// CUDA streams and events, without CUDA's types.
#pragma once

#include <cstdint>
#include <memory>

namespace ado::cuda {

// The number of the emulated GPU (emulated.hpp). CUDA numbers the GPUs of a machine from 0.
inline constexpr int kEmulatedGpu = 255;

// A stream of one GPU. CUDA's handles are normalised, so equal streams compare equal.
struct Stream {
  int device = 0;
  void* handle = nullptr;    // a cudaStream_t; nullptr: the legacy default stream
  std::uint64_t thread = 0;  // the thread of a per-thread default stream, otherwise 0

  bool is_legacy() const { return handle == nullptr; }
  friend bool operator==(const Stream&, const Stream&) = default;
};

// Returns the stream with this cudaStream_t. 0 and 1 are the legacy default stream; 2 is the
// default stream of the calling thread.
Stream stream_of(int device, std::uintptr_t handle);

// Returns the handle that identifies the stream in other libraries: 1 for the legacy default
// stream, 2 for the default stream of a thread, otherwise the cudaStream_t.
std::uintptr_t handle_of(const Stream& stream);

// Returns a stream that any thread can use and whose work is ordered after the work on `stream`.
// Only its own thread can use a per-thread default stream. For other threads, the result is the
// legacy default stream, because the two synchronise with each other.
Stream nameable(const Stream& stream);

// Waits on the host until the work on a stream has finished.
void synchronize(const Stream& stream);

// Returns true while a CUDA graph captures the stream: its work is recorded, and does not run.
bool is_captured(const Stream& stream);

// Lets the calling thread allocate memory, load kernels and query events within a scope, even if
// one of its streams is captured. CUDA otherwise forbids these calls, and they end the capture.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int previous_ = 0;  // a CUstreamCaptureMode; 0: the default
};

// A stream that does not synchronise with the legacy default stream. The destructor does not cancel
// work that is already enqueued.
class OwnStream {
 public:
  explicit OwnStream(int device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const Stream& stream() const { return stream_; }

 private:
  Stream stream_;
};

// A CUDA event, recorded after the work that has been enqueued on a stream so far.
class Event {
 public:
  explicit Event(const Stream& stream);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  const Stream& stream() const { return stream_; }
  // Work that is enqueued on `waiting` after this call runs after the event. The host does not
  // wait.
  void block(const Stream& waiting) const;
  bool done() const;  // true if the work has finished

 private:
  Stream stream_;
  void* event_ = nullptr;
};

// Work that is enqueued on `waiting` after this call runs after work that was enqueued on `awaited`
// before this call. A captured stream waits only for other captured streams, because a graph is
// replayed later, on a stream of the user's choice. Throws ValueError if only `awaited` is
// captured.
void wait_for(const Stream& waiting, const Stream& awaited);

}  // namespace ado::cuda
