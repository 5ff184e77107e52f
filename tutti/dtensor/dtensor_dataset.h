#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/data/dataset.h"
#include "tutti/data/dataset_iterator.h"
#include "tutti/data/graph/node.h"
#include "tutti/data/structure.h"
#include "tutti/mesh/layout.h"

namespace tutti::dtensor {

struct DTensorDatasetOptions {
  Mesh mesh;
  // Of the batches, whose rank is that of the elements + 1: one for each tensor of an element, in the order of its
  // parts; of a std::map's, in that of its names.
  std::vector<Layout> layouts;
  // The rows of a batch on all devices together.
  int64_t global_batch_size = 0;
  // Whether the dataset gives batches of this size, instead of their elements.
  bool dataset_already_batched = false;
  // The mesh dimension that must split axis 0 of every layout; without it any layouts will do.
  std::optional<std::string> batch_dim = {};
  // How many batches a thread makes ready ahead of the program, cut and on their devices; 0: none, and no thread.
  int64_t prefetch = 0;
  // Leaves out a short last batch, as TensorFlow does. Else its pieces are shorter or empty.
  bool drop_remainder = true;
};

// What a DTensorDataset<T> does that needs no T.
class MeshBatches {
 public:
  // `blank`: an element without values, for its leaves.
  MeshBatches(const data::graph::NodePtr& dataset, const data::graph::Element& blank, DTensorDatasetOptions options);

  const DTensorDatasetOptions& options() const { return rules_->options; }
  // Gives batches, some of which may lie on the mesh already.
  const data::graph::NodePtr& node() const { return node_; }
  // The batch with each tensor in its layout.
  data::graph::Element lay_out(data::graph::Element batch) const { return rules_->lay_out(std::move(batch)); }

 private:
  struct Rules {
    DTensorDatasetOptions options;

    void check_options() const;
    void check_leaves(const std::vector<data::graph::Leaf>& leaves) const;
    void check_batch(const std::vector<data::graph::Leaf>& leaves) const;
    void check_already_batched(int64_t batch_size) const;
    data::graph::Element lay_out(data::graph::Element batch) const;
  };

  std::shared_ptr<const Rules> rules_;
  data::graph::NodePtr node_;
};

// One pass over a DTensorDataset. Its state holds whole values, and is restored on any mesh and in any layouts.
template <class T>
using DTensorIterator = data::DatasetIterator<T>;

// The batches of a dataset as mesh tensors, in an element's own structure: each tensor is the stack of
// global_batch_size elements, in order, laid out as `layouts` says, so that every device has the piece that is its own.
// A value, as a Dataset is. TF: tf.experimental.dtensor.DTensorDataset.
template <class T>
class DTensorDataset {
 public:
  using value_type = T;

  // Throws: invalid_argument for options that contradict each other, a layout of another mesh, a batch_dim that the
  // mesh lacks, and for text, which has no layout. Iterating throws invalid_argument for a layout of another rank than
  // the batch's, and for batches of the wrong size.
  DTensorDataset(const data::Dataset<T>& dataset, DTensorDatasetOptions options)
      : batches_(dataset.node(), data::to_element(T()), std::move(options)) {}

  DTensorIterator<T> begin() const {
    const auto lay_out = [batches = batches_](data::graph::Element batch) { return batches.lay_out(std::move(batch)); };
    return DTensorIterator<T>(batches_.node(), lay_out);
  }
  std::default_sentinel_t end() const { return {}; }

  // The number of batches, data::kInfinite or data::kUnknown, without running anything.
  int64_t cardinality() const { return batches_.node()->cardinality; }
  const DTensorDatasetOptions& options() const { return batches_.options(); }

 private:
  MeshBatches batches_;
};

}  // namespace tutti::dtensor
