// Apart from the other kernels, since LibTorch's lists of ops name all of them.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include "tests/support/simulated_kernels.h"
#include "tutti/tensor/library.h"

namespace tutti {

void register_simulated_autocast() {
  immortal_library("_", c10::DispatchKey::AutocastPrivateUse1).fallback(torch::CppFunction::makeFallthrough());
  torch::Library& m = immortal_library("aten", c10::DispatchKey::AutocastPrivateUse1);  // of LibTorch's macros
#define TUTTI_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TUTTI_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TUTTI_FP32_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TUTTI_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(TUTTI_LOWER)
  AT_FORALL_FP32(TUTTI_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TUTTI_FP32_DTYPE)
  AT_FORALL_PROMOTE(TUTTI_PROMOTE)
#undef TUTTI_LOWER
#undef TUTTI_FP32
#undef TUTTI_FP32_DTYPE
#undef TUTTI_PROMOTE
}

}  // namespace tutti
