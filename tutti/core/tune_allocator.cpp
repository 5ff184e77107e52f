#include "tutti/core/tune_allocator.h"

#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tutti {

void tune_allocator() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, (1U << 31) - 1);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace tutti
