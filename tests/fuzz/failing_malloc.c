// Replaces malloc and related functions, which operator new and NumPy call, by ones that can fail.
//
// fail_allocation(n, 0) makes the nth allocation from now fail, fail_allocation(n, 1) also all
// later ones. With a negative n, none fails. Returns the number of allocations since its last call.
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static atomic_long wanted = -1, made = 0;
static atomic_int following = 0;

long fail_allocation(long n, int all_following) {
  wanted = -1;
  const long before = atomic_exchange(&made, 0);
  following = all_following;
  wanted = n;
  return before;
}

static int fails(void) {
  const long n = wanted;
  if (n < 0) return 0;
  const long number = atomic_fetch_add(&made, 1);
  if (number != n && !(following && number > n)) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
void* memalign(size_t align, size_t size) { return fails() ? NULL : __libc_memalign(align, size); }
void* aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

int posix_memalign(void** memory, size_t align, size_t size) {
  void* const allocated = memalign(align, size);
  if (allocated == NULL) return ENOMEM;
  *memory = allocated;
  return 0;
}
