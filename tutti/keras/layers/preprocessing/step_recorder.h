#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <variant>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/data/parse_spec.h"
#include "tutti/keras/layers/preprocessing/category_ids_options.h"
#include "tutti/keras/layers/preprocessing/hashing.h"
#include "tutti/keras/layers/preprocessing/integer_lookup.h"
#include "tutti/keras/layers/preprocessing/string_lookup.h"
#include "tutti/keras/layers/preprocessing/text_vectorization_options.h"

namespace tutti::keras::layers {

// One feature of serialized Examples [batch], or how many values of a VarLenFeature each of them has.
struct ParseFeatureOptions {
  std::string key = {};
  data::FeatureSpec feature = {};
  bool lengths = false;
};

// All by which a preprocessing layer can be made again: its options, with the vocabulary that it has by now.
using PreprocessingOptions = std::variant<TextVectorizationOptions, StringLookupOptions, IntegerLookupOptions,
                                          HashingOptions, ParseFeatureOptions, CategoryIdsOptions, CrossedIdsOptions>;
using TensorOrText = std::variant<Tensor, Strings>;

// Sees the calls of preprocessing layers that work on text or on memory, where no tensor operation tells of them.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;

  // Returns what the layer returns for its inputs, which is one for all but CategoryIds and CrossedIds.
  virtual TensorOrText step(PreprocessingOptions layer, std::vector<TensorOrText> inputs) = 0;

  // Of the calling thread; null if nothing is recorded.
  static StepRecorder* current();
};

// The calling thread's steps go to the recorder until the end of the block; with a null pointer they go to none.
class StepRecordGuard {
 public:
  explicit StepRecordGuard(StepRecorder* recorder);
  ~StepRecordGuard();
  StepRecordGuard(const StepRecordGuard&) = delete;
  StepRecordGuard& operator=(const StepRecordGuard&) = delete;

 private:
  StepRecorder* previous_;
};

}  // namespace tutti::keras::layers
