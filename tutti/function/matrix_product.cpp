#include "tutti/function/matrix_product.h"

#include <algorithm>

#if defined(__x86_64__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // what the header leaves open on purpose (GCC bug 105593)
#include <immintrin.h>
#endif

namespace tutti {

#if defined(__x86_64__)
namespace {

constexpr int64_t kLanes = 16, kVectors = 3, kPanel = kLanes * kVectors;  // columns that are made at once
constexpr int64_t kRows = 8;                                              // and rows
constexpr int64_t kMaxPiece = 192;

// A piece of a panel: element (p, j) of b lies at data[p * stride + j].
struct Panel {
  const float* data;
  int64_t stride;
  int64_t depth;
  __mmask16 masks[kVectors];  // of the columns that there are
};

[[gnu::target("avx512f")]] __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>((1U << std::clamp<int64_t>(count, 0, kLanes)) - 1);
}

// 16 columns of a part that lie in a row each, to rows of `to`.
[[gnu::target("avx512f")]] void transpose_16(const float* from, int64_t stride, int64_t count, int64_t columns,
                                             float* to) {
  __m512 r[16], t[16];
  const __mmask16 mask = first_lanes(count);
  for (int i = 0; i < 16; ++i)
    r[i] = i < columns ? _mm512_maskz_loadu_ps(mask, from + i * stride) : _mm512_setzero_ps();
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; ++k) {
      const __m512d low = _mm512_castps_pd(t[i + k]), high = _mm512_castps_pd(t[i + k + 2]);
      r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  for (int i = 0; i < 16; i += 8)
    for (int k = 0; k < 4; ++k) {
      t[i + k] = _mm512_shuffle_f32x4(r[i + k], r[i + k + 4], 0x88);
      t[i + k + 4] = _mm512_shuffle_f32x4(r[i + k], r[i + k + 4], 0xdd);
    }
  for (int k = 0; k < 8; ++k) {
    r[k] = _mm512_shuffle_f32x4(t[k], t[k + 8], 0x88);
    r[k + 8] = _mm512_shuffle_f32x4(t[k], t[k + 8], 0xdd);
  }
  for (int64_t i = 0; i < count; ++i) _mm512_storeu_ps(to + i * kPanel, r[i]);
}

// The columns [begin, begin + kPanel) of b, at depths [first, first + depth): as they lie, or transposed into `packed`.
[[gnu::target("avx512f")]] Panel panel_of(const MatrixProduct& product, int64_t begin, int64_t first, int64_t depth,
                                          float* packed) {
  const MatrixPart& b = product.b;
  const int64_t columns = std::min(kPanel, product.columns - begin);
  const float* const from = b.data + first * b.row_stride + begin * b.column_stride;
  Panel panel{from, b.row_stride, depth, {}};
  for (int64_t v = 0; v < kVectors; ++v) panel.masks[v] = first_lanes(columns - v * kLanes);
  if (b.column_stride == 1) return panel;
  for (int64_t v = 0; v * kLanes < columns; ++v)
    for (int64_t p = 0; p < depth; p += kLanes)
      transpose_16(from + p + v * kLanes * b.column_stride, b.column_stride, std::min(kLanes, depth - p),
                   columns - v * kLanes, packed + p * kPanel + v * kLanes);
  panel.data = packed;
  panel.stride = kPanel;
  return panel;
}

// Of `rows` rows and `vectors` vectors of columns: `before` + the piece's sums, or these alone.
template <int rows, int vectors>
[[gnu::target("avx512f")]] void add_piece(const Panel& panel, const MatrixPart& a, const float* before,
                                          int64_t before_stride, float* result, int64_t stride) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) sums[i][v] = _mm512_setzero_ps();
  const float* b = panel.data;
  for (int64_t p = 0; p < panel.depth; ++p, b += panel.stride) {
    __m512 columns[vectors];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) columns[v] = _mm512_maskz_loadu_ps(panel.masks[v], b + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const __m512 element = _mm512_set1_ps(a.data[i * a.row_stride + p * a.column_stride]);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) sums[i][v] = _mm512_fmadd_ps(element, columns[v], sums[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
      // Of two that are no numbers this gives the first, as MKL does; and no sum is a negative zero.
      const __m512 first =
          before ? _mm512_maskz_loadu_ps(panel.masks[v], before + i * before_stride + v * kLanes) : _mm512_setzero_ps();
      const __m512 sum = _mm512_fmadd_ps(first, _mm512_set1_ps(1), sums[i][v]);
      _mm512_mask_storeu_ps(result + i * stride + v * kLanes, panel.masks[v], sum);
    }
}

using AddPiece = void (*)(const Panel& panel, const MatrixPart& a, const float* before, int64_t before_stride,
                          float* result, int64_t stride);

template <int vectors>
constexpr AddPiece kAddPiece[kRows] = {add_piece<1, vectors>, add_piece<2, vectors>, add_piece<3, vectors>,
                                       add_piece<4, vectors>, add_piece<5, vectors>, add_piece<6, vectors>,
                                       add_piece<7, vectors>, add_piece<8, vectors>};

AddPiece add_piece_of(int64_t rows, int64_t columns) {
  const auto row = static_cast<size_t>(rows - 1);
  return columns <= kLanes ? kAddPiece<1>[row] : columns <= 2 * kLanes ? kAddPiece<2>[row] : kAddPiece<3>[row];
}

}  // namespace

bool multiplies_in_vectors() { return __builtin_cpu_supports("avx512f"); }

void multiply(const MatrixProduct& product) {
  alignas(64) float packed[kMaxPiece * kPanel];
  for (int64_t begin = 0; begin < product.columns; begin += kPanel)
    for (int64_t first = 0; first < product.depth; first += product.piece) {
      const int64_t depth = std::min(product.piece, product.depth - first);
      const Panel panel = panel_of(product, begin, first, depth, packed);
      for (int64_t row = 0; row < product.rows; row += kRows) {
        const MatrixPart& a = product.a;
        const MatrixPart own{a.data + row * a.row_stride + first * a.column_stride, a.row_stride, a.column_stride};
        float* const result = product.result + row * product.columns + begin;
        const bool starts = first == 0;
        const float* const before = !starts ? result : product.bias ? product.bias + begin : nullptr;
        add_piece_of(std::min(kRows, product.rows - row), product.columns - begin)(
            panel, own, before, starts ? 0 : product.columns, result, product.columns);
      }
    }
}
#pragma GCC diagnostic pop
#else
bool multiplies_in_vectors() { return false; }

void multiply(const MatrixProduct&) {}
#endif

}  // namespace tutti
