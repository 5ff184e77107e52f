#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tutti/checkpoint/region.h"
#include "tutti/core/function_ref.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::checkpoint {

// A part of a tensor that lies in a buffer of its own: a plain tensor of the region's sizes.
struct Piece {
  Region region;
  Tensor tensor;   // undefined in the processes that do not have it
  int owner = -1;  // the rank of the only process that has it; -1: each has it
};

// A tensor to be saved: what it is, and where its elements are.
struct NamedTensor {
  std::string name;            // of the object graph; free of mesh, layout and replicas
  at::ScalarType dtype;        //
  std::vector<int64_t> sizes;  // global
  std::string layout;          // for people: Layout::to_string(); empty for a plain tensor
  std::vector<Piece> pieces;   // a grid; none of zero elements, unless it is the only one
};

// What is to be saved of a plain or mesh tensor: its buffers, not copied, and of equal ones the first. A sum of terms
// that is not yet taken is taken. To be called in global view. A save beside training puts copy-on-write shares in the
// place of the pieces' tensors. Throws: invalid_argument for an undefined tensor; unimplemented for one that is not
// dense or of a quantized dtype; failed_precondition in a replica.
NamedTensor named_tensor(std::string name, const Tensor& tensor);

// Throws: unimplemented where a piece is in another process.
void require_all_here(const NamedTensor& tensor);

// One tensor whose rows lie in several, one after another, in the same way. Throws: as named_tensor; invalid_argument
// for shards of different dtypes or row sizes.
NamedTensor named_shards(std::string name, const std::vector<Tensor>& shards);

// Calls write(region, buffer) for each buffer of `tensor`, equal ones too, to have it overwritten; the region is the
// part of the tensor that the buffer holds. A buffer stays where it is until the tensor is written to in another way.
// Of a sum of terms the buffers of the first term are given, and those of the others set to zero. From then on replicas
// see what is written. To be called in global view.
void for_each_buffer_to_write(const Tensor& tensor, FunctionRef<void(Region&& region, const Tensor& buffer)> write);

using Value = std::variant<int64_t, double, std::string>;  // text is UTF-8

// What one checkpoint keeps.
struct Contents {
  std::vector<NamedTensor> tensors;     // names are unique
  std::map<std::string, Value> values;  // names of their own
  int64_t step = 0;                     // of training, for people and for CheckpointManager
};

}  // namespace tutti::checkpoint
