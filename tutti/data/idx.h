#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "tutti/core/tensor_fwd.h"

namespace tutti::data {

// The tensor in an IDX file (the format of MNIST), plain or gzip-compressed whatever its name; its shape and dtype
// (uint8, int8, int16, int32, float32, float64) are the file's. Throws: not_found if there is no such file, data_loss,
// with the numbers of bytes, if it is damaged, shorter or longer than its header says. Source:
// http://yann.lecun.com/exdb/mnist (section "the IDX file format").
Tensor read_idx(const std::filesystem::path& path);

}  // namespace tutti::data
