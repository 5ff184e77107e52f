#include "tutti/function/native_pooling.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>

#include "tutti/core/target_clones.h"
#include "tutti/tensor/parallel_ranges.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

constexpr int64_t kElementsOfAThread = 32768;
constexpr int64_t kAtOnce = 16;  // results that are made at once

// Where relu is joined with the pooling, zero; else no number, below which nothing lies.
constexpr float kNoThreshold = std::numeric_limits<float>::quiet_NaN();

// Of neighbouring planes, the whole ones: of the input and of the result.
struct Planes {
  int64_t count, height, width, rows, columns;

  int64_t elements() const { return height * width; }
  int64_t results() const { return rows * columns; }
};

// Takes an element that is larger, or no number, and where it lies.
[[gnu::always_inline]] inline void choose(float element, int32_t place, float& value, int32_t& chosen) {
  const bool taken = (element > value) | (element != element);
  value = taken ? element : value;
  chosen = taken ? place : chosen;
}

// As relu does it, which keeps what is no number, and the sign of a zero.
[[gnu::always_inline]] inline float raised(float element, float threshold) {
  return element < threshold ? threshold : element;
}

// Of 2 x 2 elements, of which the first lies at `place`.
template <class Count>
[[gnu::always_inline]] inline void pool(const float* __restrict top, int32_t width, int32_t place, Count count,
                                        float threshold, float* __restrict values, int64_t* __restrict indices) {
  const float* __restrict bottom = top + width;
  for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
    float value = -std::numeric_limits<float>::infinity();
    int32_t chosen = place + 2 * i;
    choose(raised(top[2 * i], threshold), place + 2 * i, value, chosen);
    choose(raised(top[2 * i + 1], threshold), place + 2 * i + 1, value, chosen);
    choose(raised(bottom[2 * i], threshold), place + 2 * i + width, value, chosen);
    choose(raised(bottom[2 * i + 1], threshold), place + 2 * i + 1 + width, value, chosen);
    values[i] = value;
    indices[i] = chosen;
  }
}

// The loops become loops of the vectors that the processor has. A vector that is longer than what is left of a row
// goes on into the next rows, whose results overwrite it.
#if defined(__x86_64__)
TUTTI_TARGET_CLONES("avx512f", "avx2", "default")
#endif
void pool_planes(const float* from, const Planes& planes, float threshold, float* values, int64_t* indices) {
  const float* const end = from + planes.count * planes.elements();
  const float* const values_end = values + planes.count * planes.results();
  const auto width = static_cast<int32_t>(planes.width);
  for (int64_t plane = 0; plane < planes.count; ++plane, from += planes.elements())
    for (int64_t row = 0; row < planes.rows; ++row) {
      const auto first = static_cast<int32_t>(2 * row * planes.width);
      for (int64_t column = 0; column < planes.columns; column += kAtOnce) {
        const auto place = static_cast<int32_t>(first + 2 * column);
        const int64_t left = std::min(kAtOnce, planes.columns - column);
        if (values_end - values >= kAtOnce && end - (from + place + width) >= 2 * kAtOnce)
          pool(from + place, width, place, std::integral_constant<int64_t, kAtOnce>(), threshold, values, indices);
        else
          pool(from + place, width, place, left, threshold, values, indices);
        values += left;
        indices += left;
      }
    }
}

// Of the 2 x 2 pixels whose first one is given the largest element of each channel, and its place. Channels lie beside
// each other, pixels of a row behind each other.
[[gnu::always_inline]] inline void pool_pixels(const float* pixel, int64_t width, int64_t place, int64_t channels,
                                               float threshold, float* values, int64_t* indices) {
  constexpr int64_t kBlock = 64;
  int32_t chosen[kBlock];
  for (int64_t begin = 0; begin < channels; begin += kBlock) {
    const int64_t size = std::min(kBlock, channels - begin);
    const float *const top = pixel + begin, *const bottom = top + width * channels;
    for (int64_t i = 0; i < size; ++i) {
      float value = -std::numeric_limits<float>::infinity();
      int32_t which = 0;
      choose(raised(top[i], threshold), 0, value, which);
      choose(raised(top[channels + i], threshold), 1, value, which);
      choose(raised(bottom[i], threshold), 2, value, which);
      choose(raised(bottom[channels + i], threshold), 3, value, which);
      values[begin + i] = value;
      chosen[i] = which;
    }
    for (int64_t i = 0; i < size; ++i) indices[begin + i] = place + (chosen[i] & 1) + (chosen[i] & 2 ? width : 0);
  }
}

// An image whose channels lie innermost.
#if defined(__x86_64__)
TUTTI_TARGET_CLONES("avx512f", "avx2", "default")
#endif
void pool_image(const float* image, int64_t width, int64_t channels, int64_t rows, int64_t columns, float threshold,
                float* values, int64_t* indices) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t place = 2 * (row * width + column), made = (row * columns + column) * channels;
      pool_pixels(image + place * channels, width, place, channels, threshold, values + made, indices + made);
    }
}

// What relu lets through of the gradient of a result that was more than the threshold.
[[gnu::always_inline]] inline float passed(float gradient, float result, float threshold) {
  return result <= threshold ? 0.0F : gradient;
}

// The gradients of one row's elements, two for each of the `count` results whose places follow `place` there. Returns
// how many of the first `wanted` results have their place in this row.
template <class Count>
[[gnu::always_inline]] inline int32_t spread(const float* __restrict gradient, const float* __restrict results,
                                             float threshold, const int64_t* __restrict indices, int32_t place,
                                             Count count, int32_t wanted, float* __restrict to) {
  float even[kAtOnce], odd[kAtOnce];
  int32_t found = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
    const int32_t offset = static_cast<int32_t>(indices[i]) - place - 2 * i;
    // To zero, which makes a zero of either sign a positive one.
    const float added = passed(gradient[i], results[i], threshold) + 0.0F;
    even[i] = offset == 0 ? added : 0.0F;
    odd[i] = offset == 1 ? added : 0.0F;
    const int32_t is_own = (offset | 1) == 1 ? 1 : 0, counts = i < wanted ? 1 : 0;
    found += is_own & counts;
  }
  for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
  return found;
}

// Returns whether all places lie in their 2 x 2 elements. As above, a vector goes on into the next rows. `results`: of
// the pooling, which are compared with the threshold.
#if defined(__x86_64__)
TUTTI_TARGET_CLONES("avx512f", "avx2", "default")
#endif
bool spread_planes(const float* gradient, const float* results, float threshold, const int64_t* indices,
                   const Planes& planes, float* to) {
  const float* const end = to + planes.count * planes.elements();
  const float* const gradient_end = gradient + planes.count * planes.results();
  const auto width = static_cast<int32_t>(planes.width);
  int64_t found = 0;
  for (int64_t plane = 0; plane < planes.count; ++plane, to += planes.elements()) {
    for (int64_t row = 0; row < 2 * planes.rows; ++row) {
      const int64_t result = plane * planes.results() + row / 2 * planes.columns;
      for (int64_t column = 0; column < planes.columns; column += kAtOnce) {
        const auto left = static_cast<int32_t>(std::min(kAtOnce, planes.columns - column));
        const auto place = static_cast<int32_t>(row * width + 2 * column);
        const int64_t own = result + column;
        if (end - (to + place) >= 2 * kAtOnce && gradient_end - (gradient + own) >= kAtOnce)
          found += spread(gradient + own, results + own, threshold, indices + own, place,
                          std::integral_constant<int32_t, kAtOnce>(), left, to + place);
        else
          found += spread(gradient + own, results + own, threshold, indices + own, place, left, left, to + place);
      }
      if (planes.width > 2 * planes.columns) to[(row + 1) * planes.width - 1] = 0;
    }
    std::fill(to + 2 * planes.rows * planes.width, to + planes.elements(), 0.0F);
  }
  return found == planes.count * planes.results();
}

// Of one pixel the gradients of its channels: those that chose it.
[[gnu::always_inline]] inline void spread_pixel(const float* __restrict gradient, const float* __restrict results,
                                                float threshold, const int64_t* __restrict indices, int64_t place,
                                                int64_t channels, float* __restrict to) {
  for (int64_t i = 0; i < channels; ++i) {
    const float added = passed(gradient[i], results[i], threshold) + 0.0F;
    to[i] = indices[i] == place ? added : 0.0F;
  }
}

// An image whose channels lie innermost. Requires: all places lie in their 2 x 2 pixels.
#if defined(__x86_64__)
TUTTI_TARGET_CLONES("avx512f", "avx2", "default")
#endif
void spread_image(const float* gradient, const float* results, float threshold, const int64_t* indices, int64_t width,
                  int64_t height, int64_t channels, float* to) {
  const int64_t rows = height / 2, columns = width / 2;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t result = (row * columns + column) * channels, first = 2 * (row * width + column);
      for (const int64_t place : {first, first + 1, first + width, first + width + 1})
        spread_pixel(gradient + result, results + result, threshold, indices + result, place, channels,
                     to + place * channels);
    }
    if (width % 2)
      for (const int64_t y : {2 * row, 2 * row + 1})
        std::fill_n(to + (y * width + width - 1) * channels, channels, 0.0F);
  }
  std::fill(to + 2 * rows * width * channels, to + height * width * channels, 0.0F);
}

// As LibTorch does it for any places.
void spread_anywhere(const float* gradient, const int64_t* indices, const Planes& planes, float* to) {
  std::fill_n(to, planes.count * planes.elements(), 0.0F);
  for (int64_t i = 0; i < planes.count * planes.results(); ++i)
    if (indices[i] != -1) to[i / planes.results() * planes.elements() + indices[i]] += gradient[i];
}

Planes planes_of(const at::Tensor& input, const at::Tensor& result) {
  const int64_t elements = result.size(-2) * result.size(-1);
  return {result.numel() / elements, input.size(-2), input.size(-1), result.size(-2), result.size(-1)};
}

// Calls f(first plane, planes).
template <class F>
void for_planes(const Planes& planes, F f) {
  const int64_t grain = std::max<int64_t>(1, kElementsOfAThread / planes.elements());
  parallel_ranges(planes.count, grain, [&](int64_t begin, int64_t end) {
    Planes some = planes;
    some.count = end - begin;
    f(begin, some);
  });
}

// Calls f(first image, images) with the images divided among threads.
template <class F>
void for_images(const at::Tensor& images, F f) {
  const int64_t size = images.size(1) * images.size(2) * images.size(3);
  parallel_ranges(images.size(0), std::max<int64_t>(1, kElementsOfAThread / size), f);
}

void pool_all_planes(const at::Tensor& self, float threshold, const at::Tensor& out, const at::Tensor& where) {
  if (out.numel() == 0) return;
  const auto* from = self.const_data_ptr<float>();
  auto* values = out.mutable_data_ptr<float>();
  auto* indices = where.mutable_data_ptr<int64_t>();
  for_planes(planes_of(self, out), [&](int64_t first, const Planes& planes) {
    pool_planes(from + first * planes.elements(), planes, threshold, values + first * planes.results(),
                indices + first * planes.results());
  });
}

void pool_all_images(const at::Tensor& self, float threshold, const at::Tensor& out, const at::Tensor& where) {
  if (out.numel() == 0) return;
  const int64_t channels = self.size(1), height = self.size(2), width = self.size(3);
  const int64_t rows = out.size(2), columns = out.size(3);
  const auto* from = self.const_data_ptr<float>();
  auto* values = out.mutable_data_ptr<float>();
  auto* indices = where.mutable_data_ptr<int64_t>();
  const int64_t size = channels * height * width, made = channels * rows * columns;
  for_images(self, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      pool_image(from + i * size, width, channels, rows, columns, threshold, values + i * made, indices + i * made);
  });
}

// `first`: the number of the argument kernel_size.
bool is_2x2(const at::Tensor& input, const Stack& arguments, size_t first,
            at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  const auto all = [&](size_t i, int64_t wanted) {
    const auto numbers = arguments[i].toIntVector();
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == wanted; });
  };
  const bool ceils = arguments[first + 4].toBool();
  return input.scalar_type() == at::kFloat && input.is_contiguous(format) && !input.is_neg() && input.dim() >= 3 &&
         input.size(-1) >= 2 && input.size(-2) >= 2 &&
         input.size(-1) * input.size(-2) < std::numeric_limits<int32_t>::max() &&
         (!ceils || (input.size(-1) % 2 == 0 && input.size(-2) % 2 == 0)) && all(first, 2) && all(first + 1, 2) &&
         all(first + 2, 0) && all(first + 3, 1);
}

}  // namespace

// (self, kernel_size, stride, padding, dilation, ceil_mode, out, indices)
void max_pool_2x2(const Stack& arguments) {
  pool_all_planes(arguments[0].toTensor(), kNoThreshold, arguments[6].toTensor(), arguments[7].toTensor());
}

bool pools_2x2(const Stack& arguments) { return is_2x2(arguments[0].toTensor(), arguments, 1); }

// The same arguments.
void max_pool_2x2_of_images(const Stack& arguments) {
  pool_all_images(arguments[0].toTensor(), kNoThreshold, arguments[6].toTensor(), arguments[7].toTensor());
}

bool pools_2x2_of_images(const Stack& arguments) {
  const at::Tensor& images = arguments[0].toTensor();
  return images.dim() == 4 && is_2x2(images, arguments, 1, at::MemoryFormat::ChannelsLast);
}

// (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices, grad_input)
void max_pool_2x2_backward(const Stack& arguments) {
  const at::Tensor &gradient = arguments[0].toTensor(), &where = arguments[7].toTensor();
  const at::Tensor& out = arguments[8].toTensor();
  if (out.numel() == 0) return;
  const auto* from = gradient.const_data_ptr<float>();
  const auto* indices = where.const_data_ptr<int64_t>();
  auto* to = out.mutable_data_ptr<float>();
  for_planes(planes_of(out, gradient), [&](int64_t first, const Planes& planes) {
    const auto* own_gradient = from + first * planes.results();
    const auto* own_indices = indices + first * planes.results();
    auto* const own = to + first * planes.elements();
    if (!spread_planes(own_gradient, /*results=*/own_gradient, kNoThreshold, own_indices, planes, own))
      spread_anywhere(own_gradient, own_indices, planes, own);
  });
}

bool pooled_2x2(const Stack& arguments) {
  const at::Tensor& gradient = arguments[0].toTensor();
  return is_2x2(arguments[1].toTensor(), arguments, 2) && gradient.is_contiguous() && !gradient.is_neg() &&
         gradient.scalar_type() == at::kFloat && gradient.numel() > 0 && arguments[7].toTensor().is_contiguous();
}

void max_pool_2x2_of_relu(const at::Tensor& self, const at::Tensor& pooled, const at::Tensor& where) {
  (self.is_contiguous() ? pool_all_planes : pool_all_images)(self, /*threshold=*/0, pooled, where);
}

void max_pool_2x2_of_relu_backward(const at::Tensor& gradient, const at::Tensor& pooled, const at::Tensor& where,
                                   const at::Tensor& out) {
  if (out.numel() == 0) return;
  const auto *from = gradient.const_data_ptr<float>(), *results = pooled.const_data_ptr<float>();
  const auto* indices = where.const_data_ptr<int64_t>();
  auto* to = out.mutable_data_ptr<float>();
  if (out.is_contiguous())
    return for_planes(planes_of(out, gradient), [&](int64_t first, const Planes& planes) {
      const int64_t own = first * planes.results();
      spread_planes(from + own, results + own, /*threshold=*/0, indices + own, planes, to + first * planes.elements());
    });
  const int64_t channels = out.size(1), height = out.size(2), width = out.size(3);
  const int64_t size = channels * height * width, made = channels * (height / 2) * (width / 2);
  for_images(out, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      spread_image(from + i * made, results + i * made, /*threshold=*/0, indices + i * made, width, height, channels,
                   to + i * size);
  });
}

}  // namespace tutti
