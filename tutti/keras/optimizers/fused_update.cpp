#include <algorithm>

#include "tutti/collectives/local/half.h"
#include "tutti/keras/optimizers/fused_update_internal.h"
#include "tutti/keras/optimizers/vector_code_internal.h"
#include "tutti/tensor/parallel_ranges.h"

namespace tutti::keras::optimizers {
namespace {

constexpr int64_t kTile = 16 * 1024;      // elements
constexpr int64_t kMinTilesOfThread = 2;  // for fewer, waking it costs more than it saves
constexpr int64_t kBlock = 1024;  // elements that are widened at once: all buffers of a block stay in the L1 cache

// The elements [begin, end) of a piece, without their buffers.
template <class T>
Elements<T> elements(const Piece& piece, int64_t begin, int64_t end) {
  return {.variable = nullptr,
          .gradient = nullptr,
          .slots = {},
          .count = end - begin,
          .gradient_scale = static_cast<T>(piece.gradient_scale),
          .gradient_limit = static_cast<T>(piece.gradient_limit),
          .variable_scale = static_cast<T>(piece.variable_scale)};
}

template <class T>
void update_in_place(const Piece& piece, int64_t begin, int64_t end, size_t num_slots,
                     const FunctionRef<void(const Elements<T>&)>& rule) {
  Elements<T> part = elements<T>(piece, begin, end);
  part.variable = static_cast<T*>(piece.variable) + begin;
  part.gradient = static_cast<const T*>(piece.gradient) + begin;
  for (size_t slot = 0; slot < num_slots; ++slot) part.slots[slot] = static_cast<T*>(piece.slots[slot]) + begin;
  rule(part);
}

template <class T>
void widen(const void* from, int64_t begin, int64_t count, float* to) {
  const T* source = static_cast<const T*>(from) + begin;
  in_vectors([&] {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(source[i]);
  });
}

Half rounded(float value, Half) { return to_half(value); }
BFloat16 rounded(float value, BFloat16) { return to_bfloat16(value); }

template <class T>
void narrow(const float* from, int64_t begin, int64_t count, void* to) {
  T* target = static_cast<T*>(to) + begin;
  in_vectors([&] {
    for (int64_t i = 0; i < count; ++i) target[i] = rounded(from[i], T());
  });
}

// Of 16-bit numbers, in float32, block by block.
template <class T>
void update_widened(const Piece& piece, int64_t tile_begin, int64_t tile_end, const ElementRule& rule) {
  std::array<std::array<float, kBlock>, 2 + kMaxSlots> wide;
  for (int64_t begin = tile_begin; begin < tile_end; begin += kBlock) {
    Elements<float> part = elements<float>(piece, begin, std::min(begin + kBlock, tile_end));
    widen<T>(piece.variable, begin, part.count, part.variable = wide[0].data());
    widen<T>(piece.gradient, begin, part.count, wide[1].data());
    part.gradient = wide[1].data();
    for (size_t slot = 0; slot < rule.num_slots; ++slot)
      widen<T>(piece.slots[slot], begin, part.count, part.slots[slot] = wide[2 + slot].data());
    rule.in_float(part);
    narrow<T>(part.variable, begin, part.count, piece.variable);
    for (size_t slot = 0; slot < rule.num_slots; ++slot)
      narrow<T>(part.slots[slot], begin, part.count, piece.slots[slot]);
  }
}

void update(const Piece& piece, int64_t begin, int64_t end, const ElementRule& rule) {
  switch (piece.dtype) {
    case at::kFloat: return update_in_place(piece, begin, end, rule.num_slots, rule.in_float);
    case at::kDouble: return update_in_place(piece, begin, end, rule.num_slots, rule.in_double);
    case at::kHalf: return update_widened<Half>(piece, begin, end, rule);
    default: return update_widened<BFloat16>(piece, begin, end, rule);
  }
}

}  // namespace

void fused_update(std::span<const Piece> pieces, const ElementRule& rule) {
  int64_t total = 0;
  for (const Piece& piece : pieces) total += piece.count;
  parallel_ranges((total + kTile - 1) / kTile, kMinTilesOfThread, [&](int64_t begin, int64_t end) {
    int64_t first = 0;  // of the piece's elements, in the sequence of all
    for (const Piece& piece : pieces) {
      const int64_t from = std::max(begin * kTile - first, int64_t{0});
      const int64_t to = std::min(end * kTile - first, piece.count);
      if (from < to) update(piece, from, to, rule);
      first += piece.count;
    }
  });
}

}  // namespace tutti::keras::optimizers
