#pragma once

#include <vector>

#include "tutti/tensor/replica_values.h"
#include "tutti/tensor/spec.h"

namespace tutti {

// Whether a piece that needs no copy, being a part of one that is there, shares its memory.
enum class Sharing {
  allowed,        // a part is a view: for operands, which are read and dropped
  copy_on_write,  // a part is a copy, and only a piece that stays as it is shares: for values that may be written or
                  // kept
};

// A box of elements of a piece, and where it lies in the components that it is the sum of: one or more, in this order.
struct PieceCopy {
  c10::SmallVector<int, 8> terms;
  at::DimVector from, to, lengths;  // first element in a term and in the piece, and extent
};

// How the components in one layout become those in another: each element is read and written once, whatever the
// collectives that separate devices would take. Sums go over the mesh dimensions that only `from` is unreduced over. A
// pure value, made once.
class PieceCopies {
 public:
  PieceCopies(const Spec* from, const Spec* to);
  Components run(const Components& components, Sharing sharing) const;

 private:
  struct Piece {
    at::DimVector sizes;
    std::vector<PieceCopy> copies;
    int same_as;  // an earlier piece whose sums are the same ones, or -1
  };
  Tensor shared(const Piece& piece, const Components& components, Sharing sharing) const;

  const Spec* to_;
  std::vector<Piece> pieces_;
};

// The same values, not to be written by who writes `tensor`: shared copy-on-write where they are all that is in the
// memory, else copied.
Tensor owned(const Tensor& tensor);

// The device of component `index`; where memory is shared, the only one there is.
c10::Device component_device(const Spec* spec, int index);

}  // namespace tutti
