#include <algorithm>
#include <functional>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/call_text.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;

// The shapes to which the elements of a window are padded where their open axes become `length` long.
Shapes padded_to(int64_t length, Shapes shapes, const Node& window) {
  if (shapes.empty())
    for (const Leaf& leaf : window.elements->front().leaves()) {
      auto& shape = shapes.emplace_back(shape_of(leaf).size(), -1);
      if (!shape.empty()) shape.front() = length;
    }
  else
    for (auto& shape : shapes) std::ranges::replace(shape, -1, length);
  return shapes;
}

struct Buckets {
  std::vector<int64_t> boundaries;
  std::vector<int64_t> batch_sizes;
  BucketOptions options;

  std::string text(const std::string& op) const {
    return call_text(op, boundaries, batch_sizes, options.padding_value, options.padded_shapes,
                     options.pad_to_bucket_boundary, options.no_padding, options.drop_remainder);
  }

  int64_t bucket_of(int64_t length) const { return std::ranges::upper_bound(boundaries, length) - boundaries.begin(); }

  NodePtr batch_of(int64_t bucket, const NodePtr& window) const {
    const auto index = static_cast<size_t>(bucket);
    const int64_t size = batch_sizes[index];
    if (options.no_padding) return batch(window, size, {.drop_remainder = options.drop_remainder});
    PaddedBatchOptions padding{options.drop_remainder, options.padding_value, options.padded_shapes};
    if (options.pad_to_bucket_boundary) {
      if (index == boundaries.size())
        throw Error(ErrorCode::invalid_argument,
                    str("an element is not shorter than the last boundary, ", boundaries.back(),
                        "; with pad_to_bucket_boundary all must be: filter the elements, or add a boundary"));
      padding.padded_shapes = padded_to(boundaries[index] - 1, options.padded_shapes, *window);
    }
    return padded_batch(window, size, padding);
  }
};

void check(const Buckets& buckets) {
  const bool ascending =
      std::ranges::adjacent_find(buckets.boundaries, std::greater_equal()) == buckets.boundaries.end();
  const bool positive = std::ranges::all_of(buckets.batch_sizes, [](int64_t size) { return size > 0; });
  if (buckets.boundaries.empty() || !ascending || !positive ||
      buckets.batch_sizes.size() != buckets.boundaries.size() + 1)
    throw Error(ErrorCode::invalid_argument,
                str("bucket_by_sequence_length: boundaries ", str_list(buckets.boundaries), ", batch sizes ",
                    str_list(buckets.batch_sizes),
                    "; boundaries must ascend, and there must be one more batch size, all at least 1"));
  if (buckets.options.no_padding && buckets.options.pad_to_bucket_boundary)
    throw Error(ErrorCode::invalid_argument,
                "bucket_by_sequence_length: no_padding and pad_to_bucket_boundary exclude each other");
}

}  // namespace

NodePtr bucket_by_sequence_length(const NodePtr& input, NumberFunction length, std::vector<int64_t> boundaries,
                                  std::vector<int64_t> batch_sizes, const BucketOptions& options) {
  const auto buckets = std::make_shared<const Buckets>(Buckets{std::move(boundaries), std::move(batch_sizes), options});
  check(*buckets);
  GroupFunctions functions;
  functions.key = [buckets, length = std::move(length)](const Element& element) {
    return buckets->bucket_of(length(element));
  };
  functions.reduce = [buckets](int64_t bucket, const NodePtr& window) { return buckets->batch_of(bucket, window); };
  functions.window_size = [buckets](int64_t bucket) { return buckets->batch_sizes[static_cast<size_t>(bucket)]; };
  functions.op = "bucket_by_sequence_length";
  functions.text = buckets->text(functions.op);
  Node node = *group_by_window(input, std::move(functions));
  node.row_sizes_vary = !options.no_padding;
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
