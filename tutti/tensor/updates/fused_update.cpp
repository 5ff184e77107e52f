#include "tutti/tensor/updates/fused_update.h"

#include <algorithm>

#include "tutti/collectives/local/half.h"
#include "tutti/tensor/parallel_ranges.h"
#include "tutti/tensor/updates/vector_code.h"

namespace tutti {
namespace {

constexpr int64_t kTile = 16 * 1024;      // elements
constexpr int64_t kMinTilesOfThread = 2;  // for fewer, waking it costs more than it saves
constexpr int64_t kBlock = 1024;  // elements that are widened at once: all buffers of a block stay in the L1 cache

// What is the same for all elements of a buffer, for those in [begin, end).
template <class T>
TypedUpdate<T> elements(const BufferUpdate& buffer, int64_t begin, int64_t end) {
  return {.variable = nullptr,
          .gradient = nullptr,
          .slots = {},
          .count = end - begin,
          .gradient_scale = static_cast<T>(buffer.gradient_scale),
          .gradient_limit = static_cast<T>(buffer.gradient_limit),
          .variable_scale = static_cast<T>(buffer.variable_scale)};
}

template <class T>
void update_in_place(const BufferUpdate& buffer, int64_t begin, int64_t end, size_t num_slots,
                     const FunctionRef<void(const TypedUpdate<T>&)>& rule) {
  TypedUpdate<T> part = elements<T>(buffer, begin, end);
  part.variable = static_cast<T*>(buffer.variable) + begin;
  part.gradient = static_cast<const T*>(buffer.gradient) + begin;
  for (size_t slot = 0; slot < num_slots; ++slot) part.slots[slot] = static_cast<T*>(buffer.slots[slot]) + begin;
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
void update_widened(const BufferUpdate& buffer, int64_t tile_begin, int64_t tile_end, const ElementRule& rule) {
  std::array<std::array<float, kBlock>, 2 + kMaxUpdateSlots> wide;
  for (int64_t begin = tile_begin; begin < tile_end; begin += kBlock) {
    TypedUpdate<float> part = elements<float>(buffer, begin, std::min(begin + kBlock, tile_end));
    widen<T>(buffer.variable, begin, part.count, part.variable = wide[0].data());
    widen<T>(buffer.gradient, begin, part.count, wide[1].data());
    part.gradient = wide[1].data();
    for (size_t slot = 0; slot < rule.num_slots; ++slot)
      widen<T>(buffer.slots[slot], begin, part.count, part.slots[slot] = wide[2 + slot].data());
    rule.in_float(part);
    narrow<T>(part.variable, begin, part.count, buffer.variable);
    for (size_t slot = 0; slot < rule.num_slots; ++slot)
      narrow<T>(part.slots[slot], begin, part.count, buffer.slots[slot]);
  }
}

void update_part(const BufferUpdate& buffer, int64_t begin, int64_t end, const ElementRule& rule) {
  switch (buffer.dtype) {
    case at::kFloat: return update_in_place(buffer, begin, end, rule.num_slots, rule.in_float);
    case at::kDouble: return update_in_place(buffer, begin, end, rule.num_slots, rule.in_double);
    case at::kHalf: return update_widened<Half>(buffer, begin, end, rule);
    default: return update_widened<BFloat16>(buffer, begin, end, rule);
  }
}

}  // namespace

void fused_update(std::span<const BufferUpdate> updates, const ElementRule& rule) {
  int64_t total = 0;
  for (const BufferUpdate& buffer : updates) total += buffer.count;
  parallel_ranges((total + kTile - 1) / kTile, kMinTilesOfThread, [&](int64_t begin, int64_t end) {
    int64_t first = 0;  // of the buffer's elements, in the sequence of all
    for (const BufferUpdate& buffer : updates) {
      const int64_t from = std::max(begin * kTile - first, int64_t{0});
      const int64_t to = std::min(end * kTile - first, buffer.count);
      if (from < to) update_part(buffer, from, to, rule);
      first += buffer.count;
    }
  });
}

}  // namespace tutti
