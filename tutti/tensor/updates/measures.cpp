#include "tutti/tensor/updates/measures.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <array>
#include <bit>

#include "tutti/collectives/local/half.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/parallel_ranges.h"
#include "tutti/tensor/updates/host_buffers.h"
#include "tutti/tensor/updates/vector_code.h"

namespace tutti {
namespace {

// Calls measure(begin, end) for the parts of a buffer, the same on any number of threads.
template <class Measure>
double sum_of_parts(int64_t count, Measure measure) {
  constexpr int64_t kPart = 16 * 1024, kParts = 64, kMinPartsOfThread = 2;
  std::array<double, kParts> sums{};
  const int64_t part = std::max(kPart, (count + kParts - 1) / kParts);
  parallel_ranges((count + part - 1) / part, kMinPartsOfThread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      sums[static_cast<size_t>(i)] = measure(i * part, std::min((i + 1) * part, count));
  });
  double sum = 0;
  for (const double of_part : sums) sum += of_part;
  return sum;
}

template <std::floating_point T>
double as_double(T value) {
  return value;
}
double as_double(Half value) { return to_float(value); }
double as_double(BFloat16 value) { return to_float(value); }

template <class T>
double squares_of(const T* values, int64_t begin, int64_t end) {
  constexpr int64_t kLanes = 8;  // sums beside each other become a vector
  std::array<double, kLanes> sums{};
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = as_double(values[i + lane]);
      sums[static_cast<size_t>(lane)] += value * value;
    }
  for (; i < end; ++i) sums[0] += as_double(values[i]) * as_double(values[i]);
  double sum = 0;
  for (const double of_lane : sums) sum += of_lane;
  return sum;
}

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }
uint16_t bits_of(Half value) { return value.bits; }
uint16_t bits_of(BFloat16 value) { return value.bits; }

// How many elements have all bits of the exponent set: infinities and NaNs.
template <class T, class Bits>
double count_set(const T* values, Bits exponent, int64_t begin, int64_t end) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) count += (bits_of(values[i]) & exponent) == exponent;
  return static_cast<double>(count);
}

double buffer_squares(const Tensor& buffer) {
  const void* data = buffer.const_data_ptr();
  const auto sum = [&](const auto* values) {
    return sum_of_parts(buffer.numel(), [&](int64_t begin, int64_t end) {
      return in_vectors([&] { return squares_of(values, begin, end); });
    });
  };
  switch (buffer.scalar_type()) {
    case at::kFloat: return sum(static_cast<const float*>(data));
    case at::kDouble: return sum(static_cast<const double*>(data));
    case at::kHalf: return sum(static_cast<const Half*>(data));
    default: return sum(static_cast<const BFloat16*>(data));
  }
}

bool buffer_is_finite(const Tensor& buffer) {
  const void* data = buffer.const_data_ptr();
  const auto none_set = [&](const auto* values, auto exponent) {
    return sum_of_parts(buffer.numel(), [&](int64_t begin, int64_t end) {
             return in_vectors([&] { return count_set(values, exponent, begin, end); });
           }) == 0;
  };
  switch (buffer.scalar_type()) {
    case at::kFloat: return none_set(static_cast<const float*>(data), uint32_t{0x7f800000});
    case at::kDouble: return none_set(static_cast<const double*>(data), uint64_t{0x7ff0000000000000});
    case at::kHalf: return none_set(static_cast<const Half*>(data), uint16_t{0x7c00});
    default: return none_set(static_cast<const BFloat16*>(data), uint16_t{0x7f80});
  }
}

// Whether each element lies in one buffer alone, so that sums over the buffers are those over the value.
bool elements_are_apart(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return true;
  const Spec& spec = *mesh_impl(tensor).spec();
  return !spec.unreduced && (spec.num_components == 1 || spec.shape->mesh.shares_memory());
}

}  // namespace

double sum_of_squares(const Tensor& tensor) {
  if (!in_host_buffers(tensor) || !elements_are_apart(tensor))
    return tensor.to(at::kDouble).square().sum().item<double>();
  double sum = 0;
  for (const Tensor& buffer : read_buffers_of(tensor)) sum += buffer_squares(buffer);
  return sum;
}

bool all_finite(const Tensor& tensor) {
  if (in_host_buffers(tensor)) return std::ranges::all_of(read_buffers_of(tensor), buffer_is_finite);
  if (const auto values = sparse_values_of(tensor); !values.empty()) return std::ranges::all_of(values, all_finite);
  return at::isfinite(tensor).all().item<bool>();
}

}  // namespace tutti
