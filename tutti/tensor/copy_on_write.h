#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

// Copy-on-write shares, the only ones that the library makes. A share is a storage over the memory of another: whoever
// writes first, the one or the other, gets a copy of its own, and what is dropped last frees the memory. LibTorch
// counts a memory's shares, and keeps beside the count a lock under which it copies.
//
// Who drops a share (frees it, puts another memory in its place, writes to it) first counts down, and then takes that
// lock. If another thread drops the last share between these two steps, the lock is gone. So
//   - any thread may drop a share as long as somebody keeps another one all the while. The global value keeps one for
//     the replicas: it drops its own only where no replica runs (ReplicaValues). Global view keeps one of a gradient
//     that every replica takes over (MeshMeta);
//   - where nobody keeps one, a single thread drops all shares. Other threads hand theirs back to it
//     (core/release_queue.h): what the writer of an asynchronous checkpoint held, the training thread drops at its next
//     batch or run;
//   - where neither can be promised, because the memory is the user's or goes to users, there are copies instead of
//     shares: in distribute_tensor, and of the gradients that sum_gradients() gives to all replicas.
//
// Making shares: on any thread, also of one memory at once. While the first share of a memory is made, which changes
// its storage in place, no op may run on it.
namespace tutti {

using Tensor = at::Tensor;

// A share of a tensor's memory; null where there can be none: memory that LibTorch did not allocate, sparse tensors.
c10::Storage share_storage(const Tensor& tensor);
// A constant of the geometry, dtype and keys of another tensor, in this memory.
Tensor make_over(c10::Storage storage, const Tensor& geometry);

// A constant with the value of a tensor: over a share of its memory, or a copy where there can be none.
Tensor share_or_copy(const Tensor& tensor);
// The same for a value that may be kept: a copy also of what is only a part of its memory, which would keep all of it.
Tensor share_whole_or_copy(const Tensor& tensor);

// Whether a storage is over a memory that others may share.
bool has_share(c10::StorageImpl& storage);
// Gives a tensor memory of its own, if it has a share.
void leave_share(const Tensor& tensor);

// Shares that stay until the end of the block, though an op asks for their memory as if it wrote there: some of
// LibTorch's do with what they only read. Nothing may write there meanwhile.
class KeptShares {
 public:
  KeptShares() = default;
  ~KeptShares();
  KeptShares(const KeptShares&) = delete;
  KeptShares& operator=(const KeptShares&) = delete;

  void add(c10::StorageImpl& storage);

 private:
  c10::SmallVector<c10::StorageImpl*, 4> storages_;
};

}  // namespace tutti
