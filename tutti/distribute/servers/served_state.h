#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/core/bytes.h"
#include "tutti/distribute/partitioner.h"
#include "tutti/distribute/servers/served_updates.h"

namespace tutti::servers {

class LongMessage;

// Of a plain, contiguous tensor in the memory of the CPU.
inline std::span<const uint8_t> bytes_of(const at::Tensor& plain) {
  return {static_cast<const uint8_t*>(plain.const_data_ptr()), plain.nbytes()};
}

// Rows of a tensor that lie on one server.
struct Shard {
  int server = 0;
  int64_t first_row = 0, num_rows = 0;
};

// A tensor that servers keep: a variable, or state that an optimizer has beside one.
struct ServedTensor {
  c10::weak_intrusive_ptr<c10::TensorImpl> impl;
  std::vector<int64_t> sizes;
  at::ScalarType dtype;
  bool is_trained = false;    // changed by optimizers alone
  bool is_elsewhere = false;  // this task has no copy of it: rows of it are brought to who looks them up
  int64_t num_rows = 1;       // a scalar has one
  int64_t row_bytes = 0;
  std::vector<Shard> shards;  // in the order of rows
};

// What the servers keep, as every task has made it in the same order and knows it by number. Each task has all of it in
// its own memory, but for larger variables of a worker; of that, the rows of a server's shards are the value, and the
// rest are copies. One thread at a time.
class ServedState {
 public:
  // `largest_copy`: this task has no copies of variables of more bytes.
  ServedState(int num_servers, Partitioner partitioner, std::optional<int64_t> largest_copy = {});

  // Throws: unimplemented for a tensor that is not replicated, dense and on the CPU.
  void add_variable(const at::Tensor& variable);
  int add_optimizer(ServedOptimizer optimizer);

  const std::optional<int64_t>& largest_copy() const { return largest_copy_; }
  int num_tensors() const { return static_cast<int>(tensors_.size()); }
  const ServedTensor& operator[](int number) const { return tensors_[static_cast<size_t>(number)]; }
  // Throws: failed_precondition where the program has let it go.
  at::Tensor tensor(int number) const;
  bool is_alive(int number) const { return !(*this)[number].impl.expired(); }
  // The number of a variable; that of the one whose memory a tensor shares, as a view of it does.
  std::optional<int> find(const at::Tensor& tensor) const;
  std::optional<int> find_memory_of(const at::Tensor& tensor) const;
  int num_optimizers() const { return static_cast<int>(optimizers_.size()); }
  const ServedOptimizer& optimizer(int number) const { return optimizers_[static_cast<size_t>(number)]; }
  // Brings into their tensors what the program did to the state of those that it still has.
  void settle_optimizers() const;
  std::vector<int> variables_of(int optimizer) const;  // by number, that are alive
  // The tensors that its updates of a variable change.
  const std::vector<int>& changed_by(int optimizer, int variable) const;

  // What all tasks have to agree on, a line for each.
  std::vector<std::string> describe() const;

  // The memory of the value in this process, as nobody's write: what shares it sees the new value at once.
  char* memory(int number) const;
  // The bytes of a server's rows, in their order.
  size_t bytes_on(int number, int server) const;
  void append(LongMessage& message, int number, int server) const;
  // The same of other memory that has a whole such tensor; `owner`: see LongMessage::part.
  void append_rows(LongMessage& message, int number, int server, const void* whole,
                   const std::shared_ptr<const void>& owner = {}) const;
  // Numbers of rows of that server, each behind the one before. Throws: data_loss for others.
  std::vector<int64_t> read_rows(ByteReader& reader, int number, int server) const;
  // Writes such bytes where `memory` has the whole tensor. Throws: data_loss for another number of them.
  void take(ByteReader& reader, int number, int server, char* memory) const;

 private:
  int add_tensor(const at::Tensor& tensor, std::vector<Shard> shards, bool is_trained);

  int num_servers_;
  std::optional<int64_t> largest_copy_;
  RoundRobinPlacer placer_;
  std::vector<ServedTensor> tensors_;
  std::unordered_map<const c10::TensorImpl*, int> numbers_;  // of variables
  std::vector<ServedOptimizer> optimizers_;
  std::vector<std::unordered_map<int, std::vector<int>>> changes_;  // of each optimizer, by variable
};

}  // namespace tutti::servers
