// Encodes the types of a kernel's parameters in the mangled name of a variable. NVRTC includes this
// file before the source.
#pragma once
namespace adokernels_parameters {
using Size = decltype(sizeof(0));
template <class T, bool = __is_enum(T)> struct Plain { using type = T; };
template <class T> struct Plain<T, true> { using type = __underlying_type(T); };
template <class T> struct Pointee { using type = T; };
template <class T> struct Pointee<T*> { using type = T; };
template <class T> __device__ constexpr auto bytes(int) -> decltype(sizeof(T)) { return sizeof(T); }
template <class T> __device__ constexpr Size bytes(...) { return 0; }  // incomplete types
struct End;
template <Size kBytes, Size kPointeeBytes, class T, class = End> struct One {};
template <class... T> struct List {};
template <class... T> __device__ auto of(void (*)(T...))
    -> List<One<sizeof(T), bytes<typename Pointee<T>::type>(0), typename Plain<T>::type>...>;
template <class L> __device__ char list;
}  // namespace adokernels_parameters
