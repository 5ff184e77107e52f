#include "tutti/distribute/intra_op_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace tutti {
namespace {

// OpenMP and MKL come with LibTorch; which of them, its build decides. Both have a limit that holds for one thread
// alone.
struct Limits {
  void (*set_openmp)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  int (*get_openmp)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  int (*set_mkl)(int) = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"));
};

const Limits& limits() {
  static const Limits found;
  return found;
}

}  // namespace

IntraOpThreads::IntraOpThreads(int num_threads) {
  at::get_num_threads();  // LibTorch sets the number for this thread when it is first asked, here and not later
  if (limits().set_openmp && limits().get_openmp) {
    previous_openmp_ = limits().get_openmp();
    limits().set_openmp(num_threads);
  }
  if (limits().set_mkl) previous_mkl_ = limits().set_mkl(num_threads);
}

IntraOpThreads::~IntraOpThreads() {
  if (previous_openmp_) limits().set_openmp(previous_openmp_);
  if (limits().set_mkl) limits().set_mkl(previous_mkl_);
}

}  // namespace tutti
