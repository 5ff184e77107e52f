#pragma once

#include <vector>

#include "tutti/tensor/components.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/tensor_meta.h"

namespace tutti {

// What becomes of a piece that is a part of one that is there, or all of it.
enum class Sharing {
  allowed,        // a view, for operands, which are read and dropped
  copy_on_write,  // a value of its own, which may be written or kept: a part is copied, all of it shared until written
};

// A box of elements of a piece, and where it lies in the components that it is the sum of: one or more, in this order.
struct PieceCopy {
  c10::SmallVector<int, 8> terms;
  at::DimVector from, to, lengths;  // first element in a term and in the piece, and extent
};

// How the components in one layout become those in another: each element is read and written once, whatever the
// collectives that separate devices would take. Sums go over the mesh dimensions that only `from` is unreduced over.
// The whole of several pieces has the strides that a mesh tensor of these pieces has. A pure value, made once.
class PieceCopies {
 public:
  PieceCopies(const Spec* from, const Spec* to);
  Components run(const TensorMeta& meta, const Components& components, Sharing sharing) const;

 private:
  struct Piece {
    at::DimVector sizes;
    std::vector<PieceCopy> copies;
    int same_as;  // an earlier piece whose sums are the same ones, or -1
  };
  Tensor part(const Piece& piece, const TensorMeta& meta, const Components& components, c10::Device device) const;
  Tensor empty_piece(const Piece& piece, const TensorMeta& meta, c10::Device device) const;

  const Spec* from_;
  const Spec* to_;
  bool joins_;  // to_ is the whole of several pieces
  std::vector<Piece> pieces_;
};

}  // namespace tutti
