#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/preprocessing/category_ids_options.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"

namespace tutti::keras::layers {

// Ids of the values of one feature. Calls are steps of a program that is saved. Threads: any number.
class CategoryIds {
 public:
  // Throws: invalid_argument, in the name of the column, for options out of range.
  explicit CategoryIds(CategoryIdsOptions options);

  const CategoryIdsOptions& options() const { return options_; }
  int64_t num_buckets() const;
  // int64 [batch, n]; kNoCategory where the value is missing: "" or -1, or behind a length. Values are [batch],
  // [batch, n] or of more axes, which count as one; behind them may be their lengths, int64 [batch].
  // Throws: invalid_argument for inputs of another kind or shape; out_of_range for an id from refused_from on.
  Tensor operator()(const std::vector<TensorOrText>& inputs) const;

 private:
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  int64_t id_of(std::string_view value) const;
  int64_t id_of(int64_t value) const;

  CategoryIdsOptions options_;
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> words_;
};

// Ids of all combinations of what an example has, one of each key, by their hash.
class CrossedIds {
 public:
  // Throws: as CategoryIds.
  explicit CrossedIds(CrossedIdsOptions options);

  const CrossedIdsOptions& options() const { return options_; }
  size_t num_inputs() const;
  // int64 [batch, n]; kNoCategory behind an example's last combination, of which the last key's values change first.
  // `inputs` by the keys: ids [batch, n]; or the values of a feature, where "" and -1 count, and their lengths.
  // Throws: invalid_argument for inputs of other kinds or batches; resource_exhausted for more than 2^27 ids.
  Tensor operator()(const std::vector<TensorOrText>& inputs) const;

 private:
  CrossedIdsOptions options_;
};

}  // namespace tutti::keras::layers
