// Finds, loads and calls cuBLAS. A build without CUDA cannot call it and does not search for it.
#include "common/cublas.cuh"

#include "common/launch.cuh"

#ifdef ADO_WITH_CUDA

#include <dlfcn.h>
#include <library_types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "device/emulated.hpp"
#include "device/internal.cuh"

namespace ado::cuda::cublas {
namespace {

// Signatures of the called functions, as in their ABI: statuses and operations are ints.
using Handle = void*;
using Create = int(Handle*);
using SetStream = int(Handle, void* stream);
using SetWorkspace = int(Handle, void* workspace, std::size_t bytes);
using StatusText = const char*(int);
template <class T>
using Gemm = int(Handle, int op_a, int op_b, int m, int n, int k, const T* alpha, const T* a,
                 int lda, const T* b, int ldb, const T* beta, T* c, int ldc);

constexpr int kAsStored = 0, kTransposed = 1;  // CUBLAS_OP_N, CUBLAS_OP_T

// cublasLt, a dependency of cuBLAS. It accepts a handle of cuBLAS.
using Descriptor = void*;  // of an operation or of a matrix
using CreateOperation = int(Descriptor*, int compute_type, int scale_type);
using SetOperation = int(Descriptor, int attribute, const void* value, std::size_t bytes);
using CreateMatrix = int(Descriptor*, int type, std::uint64_t rows, std::uint64_t cols,
                         std::int64_t leading);
using Destroy = int(Descriptor);
using Multiply = int(Handle, Descriptor operation, const void* alpha, const void* a, Descriptor,
                     const void* b, Descriptor, const void* beta, const void* c, Descriptor,
                     void* d, Descriptor, const void* algorithm, void* workspace,
                     std::size_t workspace_bytes, void* stream);

constexpr int kTransposeFirst = 3;  // CUBLASLT_MATMUL_DESC_TRANSA

struct Library {
  Create* create = nullptr;
  SetStream* set_stream = nullptr;
  SetWorkspace* set_workspace = nullptr;
  Gemm<float>* sgemm = nullptr;
  Gemm<double>* dgemm = nullptr;
  StatusText *status_name = nullptr, *status_text = nullptr;
  CreateOperation* create_operation = nullptr;
  SetOperation* set_operation = nullptr;
  CreateMatrix* create_matrix = nullptr;
  Destroy *destroy_operation = nullptr, *destroy_matrix = nullptr;
  Multiply* multiply = nullptr;

  bool complete() const {
    return create != nullptr && set_stream != nullptr && set_workspace != nullptr &&
           sgemm != nullptr && dgemm != nullptr && status_name != nullptr &&
           status_text != nullptr && create_operation != nullptr && set_operation != nullptr &&
           create_matrix != nullptr && destroy_operation != nullptr && destroy_matrix != nullptr &&
           multiply != nullptr;
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
  find("cublasSetWorkspace_v2", library.set_workspace);
  find("cublasSgemm_v2", library.sgemm);
  find("cublasDgemm_v2", library.dgemm);
  find("cublasGetStatusName", library.status_name);
  find("cublasGetStatusString", library.status_text);
  find("cublasLtMatmulDescCreate", library.create_operation);
  find("cublasLtMatmulDescSetAttribute", library.set_operation);
  find("cublasLtMatmulDescDestroy", library.destroy_operation);
  find("cublasLtMatrixLayoutCreate", library.create_matrix);
  find("cublasLtMatrixLayoutDestroy", library.destroy_matrix);
  find("cublasLtMatmul", library.multiply);
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
  ADO_CUBLAS(library().set_stream(handle, go.stream));  // also selects the default workspace
  // For a captured call, the default workspace would be an allocation in the graph.
  const Stream stream = stream_of(current_device(), reinterpret_cast<std::uintptr_t>(go.stream));
  const Buffer workspace(is_captured(stream) ? kTensorWorkspace : 0, stream);
  if (workspace.data() != nullptr)
    ADO_CUBLAS(library().set_workspace(handle, workspace.data(), workspace.bytes()));
  // cuBLAS is column-major, so each row-major matrix here is a transposed matrix to cuBLAS.
  const T one = 1, zero = 0;
  const int rows = static_cast<int>(p.rows), cols = static_cast<int>(p.cols),
            depth = static_cast<int>(p.depth);
  ADO_CUBLAS(function(handle, kTransposed, kAsStored, cols, rows, depth, &one, p.right_transposed,
                      depth, p.left, depth, &zero, p.out, cols));
}

// The types of a product, as values of cudaDataType and cublasComputeType_t.
struct TensorFormat {
  int operand, result, scale, compute;
};

TensorFormat format_of(TensorType type) {
  constexpr int kSumFp32 = 68, kSumFp64 = 70, kSumInt32 = 72, kTf32 = 77;  // CUBLAS_COMPUTE_...
  switch (type) {
    case TensorType::kFp64:
      return {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, kSumFp64};
    case TensorType::kTf32:
      return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, kTf32};
    case TensorType::kBf16:
      return {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, kSumFp32};
    case TensorType::kFp16:
      return {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, kSumFp32};
    case TensorType::kFp8:
      return {CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, kSumFp32};
    case TensorType::kInt8:
      break;
  }
  return {CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, kSumInt32};
}

using Owner = std::unique_ptr<void, Destroy*>;

Owner operation_of(const TensorFormat& format) {
  Descriptor made = nullptr;
  ADO_CUBLAS(library().create_operation(&made, format.compute, format.scale));
  Owner operation(made, library().destroy_operation);
  const int transposed = kTransposed;
  ADO_CUBLAS(library().set_operation(made, kTransposeFirst, &transposed, sizeof transposed));
  return operation;
}

Owner matrix_of(int type, std::int64_t size) {
  Descriptor made = nullptr;
  const auto rows = static_cast<std::uint64_t>(size);
  ADO_CUBLAS(library().create_matrix(&made, type, rows, rows, size));
  return {made, library().destroy_matrix};
}

}  // namespace

const char* why_missing() {
  if (emulated::current()) return emulated::kNoLibraries;
  return library().complete() ? nullptr : "cuBLAS (libcublas.so.13 or .12) was not found";
}

void gemm(const Launch& go, const Product<float>& product) {
  gemm_with(library().sgemm, go, product);
}
void gemm(const Launch& go, const Product<double>& product) {
  gemm_with(library().dgemm, go, product);
}

// FP8 and INT8 require that the first operand is transposed and the second is not. As for gemm,
// cuBLAS sees transposed matrices, so it multiplies `right` with `left`.
void tensor_product(const Launch& go, TensorType type, std::int64_t size, const std::byte* left,
                    const std::byte* right, std::byte* out) {
  if (go.recorder != nullptr) return;
  constexpr double kFp64[] = {1, 0};
  constexpr float kFp32[] = {1, 0};
  constexpr std::int32_t kInt32[] = {1, 0};
  const TensorFormat format = format_of(type);
  const void *one = kFp32, *zero = kFp32 + 1;
  if (format.scale == CUDA_R_64F) one = kFp64, zero = kFp64 + 1;
  if (format.scale == CUDA_R_32I) one = kInt32, zero = kInt32 + 1;
  const std::lock_guard lock(turn);
  const Handle handle = handles.current(create);
  const Owner operation = operation_of(format);
  const Owner operand = matrix_of(format.operand, size), result = matrix_of(format.result, size);
  ADO_CUBLAS(library().multiply(handle, operation.get(), one, right, operand.get(), left,
                                operand.get(), zero, out, result.get(), out, result.get(), nullptr,
                                go.scratch, kTensorWorkspace, go.stream));
}

}  // namespace ado::cuda::cublas

#else

namespace ado::cuda::cublas {

const char* why_missing() { return nullptr; }

}  // namespace ado::cuda::cublas

#endif
