#pragma once

#include "tutti/distribute/shared_cross_device_ops.h"
#include "tutti/mesh/mesh.h"

namespace tutti {

// The cross-device ops of a strategy that was given these, which may be empty, and whose values lie on this mesh.
//
// Where none were given: NcclAllReduce, if all devices are GPUs of CUDA, of two cards or more, each with the values in
// its own memory; on GPUs of another kind only where TUTTI_NCCL_LIBRARY names a library, which is then for them. Where
// NCCL cannot be loaded, a warning says so, once, and none are returned: sums are taken on one device. A library that
// the variable names in vain is an error, as of nccl::load.
// Where NcclAllReduce was given to devices of one card, a warning says that it will not be used.
SharedCrossDeviceOps cross_device_ops_of(const char* strategy, const Mesh& mesh, SharedCrossDeviceOps given);

}  // namespace tutti
