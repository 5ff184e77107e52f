#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::layers {

// The value of an id that is in no column.
inline constexpr int64_t kNoId = -1;

struct IdEncoding {
  OutputMode mode = OutputMode::int_;
  int64_t num_columns = 0;
  at::ScalarType dtype = at::kFloat;  // of all modes but int_
  // Of tf_idf: one for each column. Of count, if defined: one for each id, instead of 1.
  Tensor weights = {};
};

// The shape of encode_ids. The last axis of the ids is the sample, and becomes the columns; one_hot adds them as an
// axis unless the last one, which is not the only one, is of size 1.
Shape encoded_shape(const Shape& ids, OutputMode mode, int64_t num_columns);

// int64 ids, each kNoId or in [0, num_columns), in the form of the encoding.
Tensor encode_ids(const Tensor& ids, const IdEncoding& encoding);

}  // namespace tutti::keras::layers
