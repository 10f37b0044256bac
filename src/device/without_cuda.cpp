// The interface to CUDA in a build without a CUDA compiler: every function throws Unavailable.
#ifndef ADO_WITH_CUDA

#include "core/error.hpp"
#include "device/chunked_copy.hpp"
#include "device/device.hpp"

namespace ado::cuda {
namespace {

[[noreturn]] void unavailable() { throw Unavailable(why_unavailable()); }

}  // namespace

const std::string& why_unavailable() {
  static const std::string reason = "built without CUDA";
  return reason;
}

int device_count() { return 0; }
int current_device() { return 0; }
int device_of(const void*) { unavailable(); }
DeviceScope::DeviceScope(int) { unavailable(); }
DeviceScope::~DeviceScope() = default;
const Properties& properties() { unavailable(); }
Hardware hardware(void*) { unavailable(); }

Stream stream_of(int, std::uintptr_t) { unavailable(); }
std::uintptr_t handle_of(const Stream&) { unavailable(); }
Stream nameable(const Stream& stream) { return stream; }
bool is_captured(const Stream&) { return false; }
RelaxedCapture::RelaxedCapture() { unavailable(); }
RelaxedCapture::~RelaxedCapture() = default;
void synchronize(const Stream&) { unavailable(); }
OwnStream::OwnStream(int) { unavailable(); }
OwnStream::~OwnStream() = default;
Event::Event(const Stream&) { unavailable(); }
Event::~Event() = default;
void Event::block(const Stream&) const {}
bool Event::done() const { return true; }
void wait_for(const Stream&, const Stream&) { unavailable(); }

Buffer::Buffer(std::size_t, const Stream&, void*) { unavailable(); }
Buffer::~Buffer() = default;
void Buffer::before_use(const Stream&, bool) {}
void Buffer::after_use(const Stream&, bool) {}

void copy_to_device(std::byte*, const void*, std::size_t, const Stream&) { unavailable(); }
void copy_to_host(void*, const std::byte*, std::size_t, const Stream&) { unavailable(); }
void copy_strided(const Array&, const Array&, const Stream&) { unavailable(); }
void fill(std::byte*, unsigned char, std::size_t) { unavailable(); }
void synchronize() { unavailable(); }
PageLockedMemory::PageLockedMemory(std::size_t) { unavailable(); }
PageLockedMemory::~PageLockedMemory() = default;
bool page_locked(const std::byte*, std::size_t) { return false; }
void enqueue_upload(std::byte*, const PageLockedRows&, const Stream&) { unavailable(); }
void enqueue_download(const PageLockedRows&, const std::byte*, const Stream&) { unavailable(); }
void run(const ChunkedCopy&) { unavailable(); }
CopyQueue::CopyQueue(int) { unavailable(); }
CopyQueue::~CopyQueue() = default;
std::shared_ptr<QueuedCopy> CopyQueue::begin(ChunkedCopy) { unavailable(); }
void CopyQueue::wait(const QueuedCopy&) const {}
void CopyQueue::close() {}
Sample sample(const std::function<void()>&, bool, int, void*) { unavailable(); }

}  // namespace ado::cuda

#endif
