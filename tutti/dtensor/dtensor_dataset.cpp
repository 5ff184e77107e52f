#include "tutti/dtensor/dtensor_dataset.h"

#include <ATen/core/Tensor.h>

#include <variant>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pipeline_scope.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::dtensor {

namespace graph = data::graph;

namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(ErrorCode::invalid_argument, str("DTensorDataset: ", parts...));
}

}  // namespace

void MeshBatches::Rules::check_options() const {
  if (options.global_batch_size < 1)
    refuse("global_batch_size is ", options.global_batch_size, "; it must be at least 1");
  if (options.prefetch < 0) refuse("prefetch is ", options.prefetch, "; it must be at least 0");
  if (options.layouts.empty()) refuse("no layouts; there must be one for each tensor of an element");
  const int batch_dimension = options.batch_dim ? options.mesh.dimension(*options.batch_dim) : -1;
  for (size_t i = 0; i < options.layouts.size(); ++i) {
    const Layout& layout = options.layouts[i];
    const std::string name = str("layout ", i, ", ", layout.to_string());
    if (layout.mesh() != options.mesh)
      refuse(name, ", is of the mesh ", layout.mesh().to_string(), ", the dataset of another one, ",
             options.mesh.to_string());
    if (layout.rank() == 0) refuse(name, ", is of a scalar; a batch has an axis of its rows");
    if (layout.unreduced()) refuse(name, ", is a sum over devices, which a value of a dataset is not");
    if (layout.has_match()) refuse(name, ", leaves open how an axis is cut; name a mesh dimension, or kUnsharded");
    if (options.batch_dim && layout.dimension_of(0) != batch_dimension)
      refuse(name, ", does not split axis 0 over the batch_dim '", *options.batch_dim,
             "'; all layouts must, or leave batch_dim out");
  }
}

// Their number and kinds, as far as they are known: an element without values has undefined tensors.
void MeshBatches::Rules::check_leaves(const std::vector<graph::Leaf>& leaves) const {
  for (size_t i = 0; i < leaves.size(); ++i)
    if (!std::holds_alternative<Tensor>(leaves[i]))
      refuse("leaf ", i, " is ", std::holds_alternative<Strings>(leaves[i]) ? "text" : "a dataset",
             ", which has no layout; map it to tensors first, or leave it out");
  if (leaves.size() != options.layouts.size())
    refuse(options.layouts.size(), " layouts for elements of ", leaves.size(), " tensors; there must be one for each");
}

void MeshBatches::Rules::check_already_batched(int64_t batch_size) const {
  if (batch_size == data::graph::kNotBatched)
    refuse("the dataset is not batched; leave dataset_already_batched out, or batch it by ", options.global_batch_size);
  if (batch_size != data::kUnknown && batch_size != options.global_batch_size)
    refuse("the dataset has batches of ", batch_size, " rows, and global_batch_size is ", options.global_batch_size);
}

void MeshBatches::Rules::check_batch(const std::vector<graph::Leaf>& leaves) const {
  check_leaves(leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto shape = graph::shape_of(leaves[i]);
    if (shape.size() != static_cast<size_t>(options.layouts[i].rank()))
      refuse("layout ", i, ", ", options.layouts[i].to_string(), ", has rank ", options.layouts[i].rank(),
             " and the batches have shape ", str_list(shape), "; a layout has one entry more than the shape of an ",
             "element. If the dataset gives batches, set dataset_already_batched");
  }
  const int64_t rows = graph::num_rows(leaves, "DTensorDataset");
  if (rows == options.global_batch_size || (rows < options.global_batch_size && !options.drop_remainder)) return;
  refuse("a batch of the dataset has ", rows, " rows, and global_batch_size is ", options.global_batch_size,
         rows < options.global_batch_size ? "; batch with drop_remainder, or set DTensorDataset's to false" : "");
}

graph::Element MeshBatches::Rules::lay_out(graph::Element batch) const {
  const graph::PipelineScope scope;
  const graph::Keys keys = batch.keys();
  std::vector<graph::Leaf> leaves = std::move(batch).leaves();
  check_batch(leaves);
  for (size_t i = 0; i < leaves.size(); ++i) leaves[i] = relayout(std::get<Tensor>(leaves[i]), options.layouts[i]);
  return graph::Element(std::move(leaves), keys);
}

MeshBatches::MeshBatches(const graph::NodePtr& dataset, const graph::Element& blank, DTensorDatasetOptions options)
    : rules_(std::make_shared<const Rules>(Rules{std::move(options)})), node_(dataset) {
  const DTensorDatasetOptions& given = rules_->options;
  rules_->check_options();
  if (!blank.keys()) rules_->check_leaves(blank.leaves());  // else the names in dictionaries are not known yet
  if (given.dataset_already_batched)
    rules_->check_already_batched(dataset->batch_size);
  else
    node_ = graph::batch(dataset, given.global_batch_size, {.drop_remainder = given.drop_remainder});
  if (given.prefetch == 0) return;
  const auto lay_out = [rules = rules_](graph::Element batch) { return rules->lay_out(std::move(batch)); };
  node_ = graph::prefetch(graph::map(node_, lay_out), given.prefetch);
}

}  // namespace tutti::dtensor
