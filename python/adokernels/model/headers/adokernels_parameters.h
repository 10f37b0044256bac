// The types of a kernel's parameters, which the mangled name of a variable spells out. NVRTC
// includes this file before the source. Types of C++03 are not found.
#pragma once

#if __cplusplus >= 201103L
namespace adokernels_parameters {

using Size = decltype(sizeof(0));

template <class T, bool = __is_enum(T)>
struct Plain {
  using type = T;
};
template <class T>
struct Plain<T, true> {
  using type = __underlying_type(T);
};
template <class T>
struct Pointee {
  using type = T;
};
template <class T>
struct Pointee<T*> {
  using type = T;
};

template <class T>
__device__ constexpr auto bytes(int) -> decltype(sizeof(T)) {
  return sizeof(T);
}
template <class T>  // incomplete types
__device__ constexpr Size bytes(...) {
  return 0;
}

struct End;
template <Size kBytes, Size kPointeeBytes, class T, class = End>
struct One {};
template <class... T>
struct List {};

template <class... T>
__device__ List<One<sizeof(T), bytes<typename Pointee<T>::type>(0), typename Plain<T>::type>...> of(
    void (*)(T...));

#if __cplusplus >= 201402L
template <class L>
__device__ char list;
#else
template <class L>
__global__ void list() {}
#endif

}  // namespace adokernels_parameters
#endif
