// Finds, loads and calls cuBLAS. A build without CUDA cannot call it and does not search for it.
#include "common/cublas.cuh"

#include "common/launch.cuh"

#ifdef __CUDACC__

#include <dlfcn.h>

#include <mutex>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "device/internal.cuh"

namespace ado::cuda::cublas {
namespace {

// Signatures of the called functions, as in their ABI: statuses and operations are ints.
using Handle = void*;
using Create = int(Handle*);
using SetStream = int(Handle, void* stream);
using StatusText = const char*(int);
template <class T>
using Gemm = int(Handle, int op_a, int op_b, int m, int n, int k, const T* alpha, const T* a,
                 int lda, const T* b, int ldb, const T* beta, T* c, int ldc);

constexpr int kAsStored = 0, kTransposed = 1;  // CUBLAS_OP_N, CUBLAS_OP_T

struct Library {
  Create* create = nullptr;
  SetStream* set_stream = nullptr;
  Gemm<float>* sgemm = nullptr;
  Gemm<double>* dgemm = nullptr;
  StatusText *status_name = nullptr, *status_text = nullptr;

  bool complete() const {
    return create != nullptr && set_stream != nullptr && sgemm != nullptr && dgemm != nullptr &&
           status_name != nullptr && status_text != nullptr;
  }
};

Library open(const std::string& file) {
  Library library;
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return library;
  const auto find = [handle]<class Function>(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(handle, name));
  };
  find("cublasCreate_v2", library.create);
  find("cublasSetStream_v2", library.set_stream);
  find("cublasSgemm_v2", library.sgemm);
  find("cublasDgemm_v2", library.dgemm);
  find("cublasGetStatusName", library.status_name);
  find("cublasGetStatusString", library.status_text);
  return library;
}

// Folders to search, with a slash at the end: the search path of the loader (also finds a library
// that is already loaded), pip's wheels next to this package, and the toolkit.
std::vector<std::string> folders() {
  std::vector<std::string> list{""};
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&why_missing), &info) != 0 &&
      info.dli_fname != nullptr) {
    const std::string own_file = info.dli_fname;
    if (const auto slash = own_file.rfind('/'); slash != std::string::npos)
      for (const char* wheel : {"../nvidia/cu13/lib/", "../nvidia/cublas/lib/"})
        list.push_back(own_file.substr(0, slash + 1) + wheel);
  }
  list.push_back("/usr/local/cuda/lib64/");
  return list;
}

const Library& library() {
  static const Library found = [] {
    for (const std::string& folder : folders())
      for (const char* name : {"libcublas.so.13", "libcublas.so.12"})
        if (const Library candidate = open(folder + name); candidate.complete()) return candidate;
    return Library{};
  }();
  return found;
}

void check(int status, const char* call, int line) {
  if (status != 0)
    throw CudaError(call, __FILE__, line, library().status_name(status),
                    library().status_text(status));
}
#define ADO_CUBLAS(call) check(call, #call, __LINE__)

Handle create() {
  Handle handle = nullptr;
  ADO_CUBLAS(library().create(&handle));
  return handle;
}

std::mutex turn;
PerDevice<Handle> handles;  // the first call on a device creates its handle

// All calls on a device use the same handle, so calls are serialised.
template <class T>
void gemm_with(Gemm<T>* function, const Launch& go, const Product<T>& p) {
  if (go.recorder != nullptr) return;
  const std::lock_guard lock(turn);
  const Handle handle = handles.current(create);
  ADO_CUBLAS(library().set_stream(handle, go.stream));
  // cuBLAS is column-major, so each row-major matrix here is a transposed matrix to cuBLAS.
  const T one = 1, zero = 0;
  const int rows = static_cast<int>(p.rows), cols = static_cast<int>(p.cols),
            depth = static_cast<int>(p.depth);
  ADO_CUBLAS(function(handle, kTransposed, kAsStored, cols, rows, depth, &one, p.right_transposed,
                      depth, p.left, depth, &zero, p.out, cols));
}

}  // namespace

const char* why_missing() {
  return library().complete() ? nullptr : "cuBLAS (libcublas.so.13 or .12) was not found";
}

void gemm(const Launch& go, const Product<float>& product) {
  gemm_with(library().sgemm, go, product);
}
void gemm(const Launch& go, const Product<double>& product) {
  gemm_with(library().dgemm, go, product);
}

}  // namespace ado::cuda::cublas

#else

namespace ado::cuda::cublas {

const char* why_missing() { return nullptr; }

}  // namespace ado::cuda::cublas

#endif
