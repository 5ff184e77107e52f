#pragma once

namespace tutti {

// What does not go well in tests/nccl/fake_nccl.cpp.
enum class NcclFault : int {
  none,
  no_id,             // ncclGetUniqueId fails
  failed_start,      // the member's ncclCommInitRankConfig fails at once
  failed_join,       // …, later
  endless_join,      // the member is never said to have joined
  failed_call,       // what the member starts fails at once
  failed_settling,   // …, when NCCL takes it over
  failed_on_device,  // …, on its device, where it does not end
  endless_call,      // what the member starts does not end
  failed_leave,      // the member's ncclCommFinalize fails
  endless_leave,     // …, does not end
  failed_destroy,    // the member's ncclCommDestroy fails
};

}  // namespace tutti
