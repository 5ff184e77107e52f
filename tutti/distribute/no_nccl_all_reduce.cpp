// The backend of NcclAllReduce in a build without NCCL.
#include "tutti/core/error.h"
#include "tutti/distribute/nccl_all_reduce.h"

namespace tutti {

std::shared_ptr<const CrossDeviceOps> make_nccl_backend(const NcclAllReduceOptions&) {
  throw Error(ErrorCode::unimplemented,
              "NcclAllReduce: this library was built without NCCL (the CMake option TUTTI_NCCL is OFF); leave "
              "cross_device_ops out for the built-in all-reduce, or use HierarchicalCopyAllReduce");
}

}  // namespace tutti
