#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/core/function_ref.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/preprocessing/token_counts_internal.h"
#include "tutti/keras/layers/preprocessing/vocabulary_internal.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::layers {

// What StringLookup and IntegerLookup have in common: a vocabulary, how it is learned, and the form of the output.
class IndexLookup {
 public:
  // has_vocabulary: one was given, and adapt() may not replace it.
  IndexLookup(VocabularyOptions options, bool has_vocabulary);

  Vocabulary& vocabulary() { return vocabulary_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

  void reset_state() { counts_ = {}; }
  // Counts the tokens of a batch whose last axis is one document; `token` gives each.
  void update_state(const Shape& shape, FunctionRef<std::string_view(int64_t index)> token);
  void finalize_state();

  // The ids of tokens in this shape in the output's form; `id` gives each, on several threads.
  Tensor encode(const Shape& shape, FunctionRef<int64_t(int64_t index)> id) const;
  Shape output_shape(const Shape& input_shape) const;

  // Throws: failed_precondition without a vocabulary, invalid_argument unless the layer looks up in this direction.
  void require_direction(bool invert) const;

 private:
  OutputMode mode_;
  bool invert_;
  bool has_vocabulary_;
  Vocabulary vocabulary_;
  TokenCounts counts_;  // of the adaptation under way
};

}  // namespace tutti::keras::layers
