#include "tutti/function/direct_convolution.h"

#include <algorithm>

#if defined(__x86_64__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // what the header leaves open on purpose (GCC bug 105593)
#include <immintrin.h>
#endif

namespace tutti {

#if defined(__x86_64__)
namespace {

// A tile: chains that are computed at once.
constexpr int64_t kTileLanes = 16, kTileVectors = 3, kTileWidth = kTileLanes * kTileVectors;
constexpr int64_t kTileRows = 8;
constexpr int64_t kTileSize = kTileRows * kTileWidth;

// The chains of row i and column j of a tile multiply a[i * row_stride + k] by b[steps[k] + j], k = 0, 1, ….
struct Factors {
  const float* a;
  int64_t row_stride;
  const float* b;
  const int32_t* steps;
  int64_t num_groups, depth;        // steps: so many groups of so many
  const uint16_t* masks = nullptr;  // of a group: the lanes that take part, for each vector. Null: all
  int64_t mask_stride = 0;          // from group to group
};

// Of masks in the registers that are meant for them. GCC 12 keeps those of intrinsics elsewhere and moves them for each
// use.
struct MaskedLanes {
  __mmask16 mask;

  [[gnu::target("avx512f"), gnu::always_inline]] static MaskedLanes at(const uint16_t* lanes) {
    MaskedLanes loaded;
    asm("kmovw %1, %0" : "=Yk"(loaded.mask) : "m"(*lanes));
    return loaded;
  }
  [[gnu::target("avx512f"), gnu::always_inline]] __m512 load(const float* from) const {
    __m512 loaded;
    asm("vmovups %2, %0%{%1%}%{z%}"
        : "=v"(loaded)
        : "Yk"(mask), "m"(*reinterpret_cast<const float(*)[kTileLanes]>(from)));
    return loaded;
  }
  [[gnu::target("avx512f"), gnu::always_inline]] void add_product(const __m512& a, const __m512& b, __m512& sum) const {
    asm("vfmadd231ps %2, %3, %0%{%1%}" : "+v"(sum) : "Yk"(mask), "v"(a), "v"(b));
  }
};

template <int rows, int vectors, bool masked>
[[gnu::target("avx512f")]] void add_products(const Factors& factors, float* sums) {
  __m512 sum[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) sum[i][v] = _mm512_loadu_ps(sums + i * kTileWidth + v * kTileLanes);
  const float* a = factors.a;
  const int32_t* step = factors.steps;
  for (int64_t group = 0; group < factors.num_groups; ++group) {
    [[maybe_unused]] MaskedLanes lanes[vectors];
    if constexpr (masked) {
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) lanes[v] = MaskedLanes::at(factors.masks + group * factors.mask_stride + v);
    }
    for (int64_t k = 0; k < factors.depth; ++k, ++a, ++step) {
      const float* const from = factors.b + *step;
      __m512 b[vectors];
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v)
        if constexpr (masked)
          b[v] = lanes[v].load(from + v * kTileLanes);
        else
          b[v] = _mm512_loadu_ps(from + v * kTileLanes);
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) {
        const __m512 element = _mm512_set1_ps(a[i * factors.row_stride]);
#pragma GCC unroll 3
        for (int v = 0; v < vectors; ++v)
          if constexpr (masked)
            lanes[v].add_product(element, b[v], sum[i][v]);
          else
            sum[i][v] = _mm512_fmadd_ps(element, b[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(sums + i * kTileWidth + v * kTileLanes, sum[i][v]);
}

using AddProducts = void (*)(const Factors& factors, float* sums);

template <int vectors, bool masked>
constexpr AddProducts kAddProducts[kTileRows] = {add_products<1, vectors, masked>, add_products<2, vectors, masked>,
                                                 add_products<3, vectors, masked>, add_products<4, vectors, masked>,
                                                 add_products<5, vectors, masked>, add_products<6, vectors, masked>,
                                                 add_products<7, vectors, masked>, add_products<8, vectors, masked>};

template <bool masked>
AddProducts add_products_of(int64_t rows, int64_t vectors) {
  const auto row = static_cast<size_t>(rows - 1);
  return vectors == 1   ? kAddProducts<1, masked>[row]
         : vectors == 2 ? kAddProducts<2, masked>[row]
                        : kAddProducts<3, masked>[row];
}

// As many rows and vectors as a tile has at most.
void add_to_tile(int64_t rows, int64_t vectors, const Factors& factors, float* sums) {
  (factors.masks ? add_products_of<true>(rows, vectors) : add_products_of<false>(rows, vectors))(factors, sums);
}

// What lies behind `count` elements at `to`, up to 15, is overwritten.
[[gnu::target("avx512f")]] void copy_beyond(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kTileLanes) {
    const auto mask = static_cast<__mmask16>((1U << std::min(count - i, kTileLanes)) - 1);
    _mm512_storeu_ps(to + i, _mm512_maskz_loadu_ps(mask, from + i));
  }
}

// to = from + bias
[[gnu::target("avx512f")]] void add_bias(const float* from, float bias, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kTileLanes) {
    const auto mask = static_cast<__mmask16>((1U << std::min(count - i, kTileLanes)) - 1);
    _mm512_mask_storeu_ps(to + i, mask, _mm512_add_ps(_mm512_loadu_ps(from + i), _mm512_set1_ps(bias)));
  }
}

int64_t vectors_of(int64_t elements) { return (elements + kTileLanes - 1) / kTileLanes; }

int64_t tiles_of(int64_t elements) { return (elements + kTileWidth - 1) / kTileWidth; }

// Sets the lanes of `count` elements for which f is true.
template <class F>
std::vector<uint16_t> masks_of(int64_t count, F f) {
  std::vector<uint16_t> masks(static_cast<size_t>(tiles_of(count) * kTileVectors));
  for (int64_t i = 0; i < count; ++i)
    if (f(i)) masks[static_cast<size_t>(i / kTileLanes)] |= static_cast<uint16_t>(1U << (i % kTileLanes));
  return masks;
}

// So that a tile that starts in them may be read.
void make_room(std::vector<float>& memory, int64_t count) { memory.resize(static_cast<size_t>(count + kTileWidth)); }

}  // namespace

DirectConvolution::DirectConvolution(const ConvolutionShape& shape) : shape_(shape) {
  const int64_t of_channel = shape.height * shape.columns();  // in shifted_
  for (int64_t row = 0; row < shape.kernel_height; ++row)
    for (int64_t column = 0; column < shape.kernel_width; ++column) {
      for (int64_t channel = 0; channel < shape.in_channels; ++channel)
        steps_.push_back(
            static_cast<int32_t>((column * shape.in_channels + channel) * of_channel + row * shape.columns()));
      for (int64_t channel = 0; channel < shape.out_channels; ++channel)
        steps_of_input_.push_back(static_cast<int32_t>((channel * shape.rows() - row) * shape.width - column));
      const auto masks = masks_of(shape.pixels(), [&](int64_t pixel) {
        const int64_t y = pixel / shape.width - row, x = pixel % shape.width - column;
        return 0 <= y && y < shape.rows() && 0 <= x && x < shape.columns();
      });
      taking_part_.insert(taking_part_.end(), masks.begin(), masks.end());
    }
  for (int64_t row = 0; row < shape.rows(); ++row)
    for (int64_t column = 0; column < shape.columns(); ++column)
      steps_of_weights_.push_back(static_cast<int32_t>((row * shape.width + column) * column_size()));
}

void DirectConvolution::convolve(const float* images, const float* weights, const float* bias, float* result) {
  const int64_t taps = shape_.taps();
  weights_.resize(static_cast<size_t>(shape_.out_channels * taps * shape_.in_channels));
  float* to = weights_.data();
  for (int64_t out = 0; out < shape_.out_channels; ++out)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t in = 0; in < shape_.in_channels; ++in) *to++ = weights[(out * shape_.in_channels + in) * taps + tap];
  make_room(shifted_, shape_.kernel_width * shape_.in_channels * shape_.height * shape_.columns());
  for (int64_t i = 0; i < shape_.images; ++i)
    convolve_image(images + i * shape_.in_channels * shape_.pixels(), bias,
                   result + i * shape_.out_channels * shape_.results());
}

void DirectConvolution::convolve_image(const float* image, const float* bias, float* result) {
  float* shifted = shifted_.data();
  for (int64_t column = 0; column < shape_.kernel_width; ++column)
    for (int64_t row = 0; row < shape_.in_channels * shape_.height; ++row, shifted += shape_.columns())
      copy_beyond(image + row * shape_.width + column, shape_.columns(), shifted);
  const auto depth = static_cast<int64_t>(steps_.size());
  for (int64_t first = 0; first < shape_.results(); first += kTileWidth) {
    const int64_t count = std::min(kTileWidth, shape_.results() - first);
    for (int64_t channel = 0; channel < shape_.out_channels; channel += kTileRows) {
      const int64_t rows = std::min(kTileRows, shape_.out_channels - channel);
      float sums[kTileSize] = {};
      add_to_tile(rows, vectors_of(count),
                  {weights_.data() + channel * depth, depth, shifted_.data() + first, steps_.data(), 1, depth}, sums);
      for (int64_t i = 0; i < rows; ++i)
        add_bias(sums + i * kTileWidth, bias ? bias[channel + i] : -0.0F, count,
                 result + (channel + i) * shape_.results() + first);
    }
  }
}

void DirectConvolution::gradient_of_input(const float* gradient, const float* weights, float* result) {
  const int64_t taps = shape_.taps();
  weights_.resize(static_cast<size_t>(shape_.out_channels * taps * shape_.in_channels));
  float* to = weights_.data();
  for (int64_t in = 0; in < shape_.in_channels; ++in)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t out = 0; out < shape_.out_channels; ++out)
        *to++ = weights[(out * shape_.in_channels + in) * taps + tap];
  make_room(spread_, shape_.out_channels * shape_.rows() * shape_.width);
  for (int64_t i = 0; i < shape_.images; ++i)
    gradient_of_image(gradient + i * shape_.out_channels * shape_.results(),
                      result + i * shape_.in_channels * shape_.pixels());
}

void DirectConvolution::gradient_of_image(const float* gradient, float* result) {
  for (int64_t row = 0; row < shape_.out_channels * shape_.rows(); ++row)
    copy_beyond(gradient + row * shape_.columns(), shape_.columns(), spread_.data() + row * shape_.width);
  const int64_t taps = shape_.taps(), depth = taps * shape_.out_channels;
  const auto mask_stride = static_cast<int64_t>(taking_part_.size()) / taps;
  for (int64_t first = 0; first < shape_.pixels(); first += kTileWidth) {
    const int64_t count = std::min(kTileWidth, shape_.pixels() - first);
    for (int64_t channel = 0; channel < shape_.in_channels; channel += kTileRows) {
      const int64_t rows = std::min(kTileRows, shape_.in_channels - channel);
      float sums[kTileSize] = {};
      add_to_tile(rows, vectors_of(count),
                  {weights_.data() + channel * depth, depth, spread_.data() + first, steps_of_input_.data(), taps,
                   shape_.out_channels, taking_part_.data() + first / kTileLanes, mask_stride},
                  sums);
      for (int64_t i = 0; i < rows; ++i)
        std::copy_n(sums + i * kTileWidth, count, result + (channel + i) * shape_.pixels() + first);
    }
  }
}

// For each pixel that begins a row of a result and those behind it: kernel_height pixels of each channel that lie below
// one another, then a one. So a patch is kernel_width of these in a row, and the gradient of the ones is the bias's.
void DirectConvolution::lay_out_patches(const float* image) {
  const int64_t channels = shape_.in_channels;
  float* transposed = transposed_.data();
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t column = 0; column < shape_.width; ++column)
      for (int64_t row = 0; row < shape_.height; ++row)
        *transposed++ = image[channel * shape_.pixels() + row * shape_.width + column];
  float* to = patches_.data();
  for (int64_t row = 0; row < shape_.rows(); ++row)
    for (int64_t column = 0; column < shape_.width; ++column) {
      for (int64_t channel = 0; channel < channels; ++channel, to += shape_.kernel_height)
        copy_beyond(transposed_.data() + channel * shape_.pixels() + column * shape_.height + row, shape_.kernel_height,
                    to);
      *to++ = 1;
    }
}

void DirectConvolution::gradient_of_weights(const float* gradient, const float* images, float* of_weights,
                                            float* of_bias) {
  const int64_t width = shape_.kernel_width * column_size();
  make_room(transposed_, shape_.in_channels * shape_.pixels());
  make_room(patches_, shape_.rows() * shape_.width * column_size());
  sums_.assign(static_cast<size_t>((shape_.out_channels + kTileRows - 1) / kTileRows * tiles_of(width) * kTileSize), 0);
  for (int64_t i = 0; i < shape_.images; ++i) {
    lay_out_patches(images + i * shape_.in_channels * shape_.pixels());
    const float* const own = gradient + i * shape_.out_channels * shape_.results();
    float* sums = sums_.data();
    for (int64_t channel = 0; channel < shape_.out_channels; channel += kTileRows)
      for (int64_t first = 0; first < width; first += kTileWidth, sums += kTileSize)
        add_to_tile(std::min(kTileRows, shape_.out_channels - channel), vectors_of(std::min(kTileWidth, width - first)),
                    {own + channel * shape_.results(), shape_.results(), patches_.data() + first,
                     steps_of_weights_.data(), 1, shape_.results()},
                    sums);
  }
  take_sums(of_weights, of_bias);
}

void DirectConvolution::take_sums(float* of_weights, float* of_bias) const {
  const int64_t tiles_of_row = tiles_of(shape_.kernel_width * column_size());
  const auto sum = [&](int64_t out, int64_t lane) {
    const int64_t tile = out / kTileRows * tiles_of_row + lane / kTileWidth;
    return sums_[static_cast<size_t>(tile * kTileSize + out % kTileRows * kTileWidth + lane % kTileWidth)];
  };
  for (int64_t out = 0; out < shape_.out_channels; ++out) {
    for (int64_t in = 0; in < shape_.in_channels; ++in)
      for (int64_t row = 0; row < shape_.kernel_height; ++row)
        for (int64_t column = 0; column < shape_.kernel_width; ++column)
          *of_weights++ = sum(out, column * column_size() + in * shape_.kernel_height + row);
    if (of_bias) of_bias[out] = sum(out, column_size() - 1);
  }
}
#pragma GCC diagnostic pop
#else
DirectConvolution::DirectConvolution(const ConvolutionShape& shape) : shape_(shape) {}

void DirectConvolution::convolve(const float*, const float*, const float*, float*) {}
void DirectConvolution::gradient_of_input(const float*, const float*, float*) {}
void DirectConvolution::gradient_of_weights(const float*, const float*, float*, float*) {}
#endif

}  // namespace tutti
