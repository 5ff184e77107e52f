#pragma once

#include <c10/util/SmallVector.h>

#include <string>

#include "tutti/tensor/replica_values.h"
#include "tutti/tensor/spec.h"

namespace tutti {

class CommunicationCounter;

// Who asked for a relayout: the program by name, or an op that could not run on the layouts it was given.
enum class Asked { explicitly, implied };

// One collective: sums the terms of `dimensions`, joins the pieces of `axis`, or cuts `axis` into pieces.
struct RelayoutStage {
  enum class Kind { all_reduce, all_gather, slice };
  Kind kind;
  DimensionMask dimensions;
  int axis;
  const Spec* from;
  const Spec* to;
  CommunicationCounter* counter;  // null for a slice: it moves nothing
};

// How a value gets from one layout to another: a pure plan, made once.
struct Relayout {
  const Spec* from;
  const Spec* to;
  c10::SmallVector<RelayoutStage, 3> stages;

  Relayout(const Spec* from, const Spec* to, const std::string& cause, Asked asked);
  // The components in the layout `to`. Each stage is recorded in the communications log.
  Components run(const Components& components) const;
  // Records the stages alone: with merged buffers nothing else is to be done.
  void record(size_t element_bytes) const;
};

// The pieces of a plain value of global sizes: views where the devices share memory, copies on their devices elsewhere.
Components cut(const Tensor& value, const Spec* spec);
// For each device of the mesh the tensor that it holds of a value.
Components replica_pieces(const Spec* spec, const Components& components);

}  // namespace tutti
