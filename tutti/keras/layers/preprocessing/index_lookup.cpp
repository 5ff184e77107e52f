#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tutti/keras/layers/preprocessing/encode_ids_internal.h"
#include "tutti/keras/layers/preprocessing/index_lookup_internal.h"
#include "tutti/tensor/parallel_ranges.h"

namespace tutti::keras::layers {
namespace {

// One weight for each column; those that only pad have none.
Tensor padded(const std::vector<float>& weights, int64_t num_columns) {
  Tensor result = at::zeros({num_columns}, at::kFloat);
  std::ranges::copy(weights, result.mutable_data_ptr<float>());
  return result;
}

}  // namespace

IndexLookup::IndexLookup(VocabularyOptions options, bool has_vocabulary)
    : mode_(options.mode), invert_(options.invert), has_vocabulary_(has_vocabulary), vocabulary_(std::move(options)) {
  if (invert_ && mode_ != OutputMode::int_)
    vocabulary_.refuse("invert gives tokens, which have no output mode; leave output_mode at OutputMode::int_");
}

void IndexLookup::update_state(const Shape& shape, FunctionRef<std::string_view(int64_t index)> token) {
  if (has_vocabulary_)
    vocabulary_.refuse("adapt() would replace the vocabulary of the options; give none, or call set_vocabulary()");
  const int64_t length = shape.empty() ? 1 : shape.back();
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<std::string_view> document(static_cast<size_t>(length));
  for (int64_t first = 0; first < count; first += length) {
    for (int64_t i = 0; i < length; ++i) document[static_cast<size_t>(i)] = token(first + i);
    counts_.add_document(document);
  }
}

void IndexLookup::finalize_state() {
  vocabulary_.learn(counts_);
  reset_state();
}

Tensor IndexLookup::encode(const Shape& shape, FunctionRef<int64_t(int64_t index)> id) const {
  constexpr int64_t kWorthAThread = 16 * 1024;
  Tensor ids = at::empty(shape, at::kLong);
  auto* out = ids.mutable_data_ptr<int64_t>();
  parallel_ranges(ids.numel(), kWorthAThread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = id(i);
  });
  if (mode_ == OutputMode::int_) return ids;
  const int64_t num_columns = vocabulary_.num_columns();
  const bool weighs = mode_ == OutputMode::tf_idf;
  return encode_ids(ids, {.mode = mode_,
                          .num_columns = num_columns,
                          .dtype = weighs ? at::kFloat : at::kLong,
                          .weights = weighs ? padded(vocabulary_.idf_weights(), num_columns) : Tensor()});
}

Shape IndexLookup::output_shape(const Shape& input_shape) const {
  return encoded_shape(input_shape, mode_, vocabulary_.num_columns());
}

void IndexLookup::require_direction(bool invert) const {
  vocabulary_.require_known();
  if (invert != invert_)
    vocabulary_.refuse(invert ? "ids are looked up with invert = true only"
                              : "with invert = true only ids are looked up");
}

}  // namespace tutti::keras::layers
