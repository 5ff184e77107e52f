#include "tutti/dtensor/stateless_random.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/str.h"
#include "tutti/dtensor/random_distributions.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/parallel_ranges.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements that are worth a thread

[[noreturn]] void refuse(const char* function, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, str(function, ": ", why));
}

// A box of a larger tensor.
struct Box {
  at::IntArrayRef sizes, offset, global_sizes;
};

// Calls f(begin in the box, begin in the tensor, count) for stretches that lie together in both, covering the elements
// [begin, end) of the box.
void for_each_run(const Box& box, int64_t begin, int64_t end, FunctionRef<void(int64_t, int64_t, int64_t)> f) {
  const auto rank = static_cast<int>(box.sizes.size());
  int cut = rank - 1;  // the last axis that the box does not hold whole, -1 for none; a run goes over it and the rest
  int64_t run = 1;
  for (; cut >= 0 && box.sizes[cut] == box.global_sizes[cut]; --cut) run *= box.sizes[cut];
  const int64_t stride_of_cut = run;
  if (cut >= 0) run *= box.sizes[cut];
  for (int64_t at = begin; at < end;) {
    int64_t rest = at / run, global = at % run, stride = stride_of_cut;
    if (cut >= 0) {
      global += box.offset[cut] * stride;
      stride *= box.global_sizes[cut];
    }
    for (int axis = cut - 1; axis >= 0; --axis) {
      global += (rest % box.sizes[axis] + box.offset[axis]) * stride;
      rest /= box.sizes[axis];
      stride *= box.global_sizes[axis];
    }
    const int64_t count = std::min(end - at, run - at % run);
    f(at, global, count);
    at += count;
  }
}

// Writes what `finish` makes of the numbers of a distribution to a box of a tensor.
template <class T, class Distribution, class Finish>
void fill(const Box& box, const StatelessSeed& seed, Finish finish, T* out) {
  const PhiloxStream stream(seed.first, seed.second);
  const Distribution distribution;
  constexpr auto kGroup = static_cast<int64_t>(Distribution::kGroup);
  const auto fill_run = [&](int64_t local, int64_t global, int64_t count) {
    for (int64_t i = 0; i < count;) {
      const auto numbers = distribution(stream, static_cast<uint64_t>((global + i) / kGroup));
      for (int64_t lane = (global + i) % kGroup; lane < kGroup && i < count; ++lane, ++i)
        out[local + i] = finish(numbers[static_cast<size_t>(lane)]);
    }
  };
  parallel_ranges(c10::multiply_integers(box.sizes), kGrain,
                  [&](int64_t begin, int64_t end) { for_each_run(box, begin, end, fill_run); });
}

using FillBox = FunctionRef<void(const Box& box, const Tensor& out)>;

Tensor filled(const Box& box, at::ScalarType dtype, FillBox fill_box) {
  const Tensor out = at::empty(box.sizes, dtype);
  if (out.numel() > 0) fill_box(box, out);
  return out;
}

// Each component that is in this process, by itself.
Components shards(const Spec* spec, at::ScalarType dtype, FillBox fill_box) {
  Components components(static_cast<size_t>(spec->num_components));
  for (int i = 0; i < spec->num_components; ++i) {
    if (!spec->is_here(i)) continue;
    at::DimVector sizes, offset;
    for (int axis = 0; axis < spec->rank(); ++axis) {
      sizes.push_back(spec->length(i, axis));
      offset.push_back(spec->begin(i, axis));
    }
    components[static_cast<size_t>(i)] = filled({sizes, offset, spec->sizes}, dtype, fill_box).to(spec->device_of(i));
  }
  return components;
}

// Fills a new tensor in the place that the thread's scope gives it.
Tensor create(const char* function, at::IntArrayRef shape, at::ScalarType dtype, FillBox fill_box) {
  int64_t numel = 1;
  for (const int64_t size : shape) {
    if (size < 0) refuse(function, str("shape ", str_list(shape), " has a negative size"));
    if (size > 0 && numel > std::numeric_limits<int64_t>::max() / size)
      refuse(function, str("shape ", str_list(shape), " has more elements than 64 bits hold"));
    numel *= size;
  }
  const auto* scope = ThreadView::current().scope;
  const Layout* layout = scope ? scope_layout(*scope, static_cast<int64_t>(shape.size())) : nullptr;
  const Spec* spec = layout ? spec_of(function, *layout, shape) : nullptr;
  Components components;
  {
    const GlobalViewGuard outside_of_scopes;
    const at::DimVector zeros(shape.size(), 0);
    if (spec)
      components = shards(spec, dtype, fill_box);
    else
      components.push_back(filled({shape, zeros, shape}, dtype, fill_box));
  }
  if (spec) return make_mesh_tensor(spec, std::move(components));
  return scope ? make_mesh_tensor(scope->shape, components[0]) : components[0];
}

// number * scale + shift, rounded to the dtype after each, as TensorFlow's two ops do.
template <class T, class Distribution>
void fill_scaled(const Box& box, const StatelessSeed& seed, double scale, double shift, const Tensor& out) {
  const auto finish = [scale = static_cast<T>(scale), shift = static_cast<T>(shift)](T number) {
    return static_cast<T>(static_cast<T>(number * scale) + shift);
  };
  fill<T, Distribution>(box, seed, finish, out.mutable_data_ptr<T>());
}

// Dtype: one of is_supported_float.
template <template <class> class Distribution>
void fill_floats(const Box& box, const StatelessSeed& seed, double scale, double shift, const Tensor& out) {
  switch (out.scalar_type()) {
    case at::kFloat: return fill_scaled<float, Distribution<float>>(box, seed, scale, shift, out);
    case at::kDouble: return fill_scaled<double, Distribution<double>>(box, seed, scale, shift, out);
    case at::kHalf: return fill_scaled<at::Half, Distribution<at::Half>>(box, seed, scale, shift, out);
    default: return fill_scaled<at::BFloat16, Distribution<at::BFloat16>>(box, seed, scale, shift, out);
  }
}

template <class T>
void fill_integers(const Box& box, const StatelessUniformOptions& options, const Tensor& out) {
  using Word = std::make_unsigned_t<T>;
  const Word low = options.minval ? static_cast<Word>(options.minval->to<T>()) : 0;
  const Word range = options.maxval ? static_cast<Word>(options.maxval->to<T>()) - low : 0;
  const auto finish = [=](Word word) { return static_cast<T>(range ? low + word % range : word); };
  fill<T, FullRange<T>>(box, options.seed, finish, out.mutable_data_ptr<T>());
}

bool is_supported_float(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;
}

void check_float(const char* function, at::ScalarType dtype) {
  if (!is_supported_float(dtype))
    refuse(function, str("dtype is ", at::toString(dtype), "; it must be float32, float64, float16 or bfloat16"));
}

template <template <class> class Distribution>
Tensor normal(const char* function, at::IntArrayRef shape, const StatelessNormalOptions& options) {
  check_float(function, options.dtype);
  return create(function, shape, options.dtype, [&](const Box& box, const Tensor& out) {
    fill_floats<Distribution>(box, options.seed, options.stddev, options.mean, out);
  });
}

template <class T>
void check_integer_bounds(const StatelessUniformOptions& options) {
  if (options.minval.has_value() != options.maxval.has_value())
    refuse("stateless_uniform", "integers need both minval and maxval, or none for all numbers of the dtype");
  if (!options.minval) return;
  const auto check = [](const at::Scalar& bound) {
    if (!bound.isIntegral(false) || bound.toLong() < std::numeric_limits<T>::min() ||
        bound.toLong() > std::numeric_limits<T>::max())
      refuse("stateless_uniform", str("bound ", bound.toDouble(), " is no integer of the dtype"));
  };
  check(*options.minval);
  check(*options.maxval);
  if (options.maxval->toLong() <= options.minval->toLong())
    refuse("stateless_uniform",
           str("maxval is ", options.maxval->toLong(), "; it must be above minval, ", options.minval->toLong()));
}

template <class T>
Tensor uniform_integers(at::IntArrayRef shape, const StatelessUniformOptions& options) {
  check_integer_bounds<T>(options);
  return create("stateless_uniform", shape, options.dtype,
                [&](const Box& box, const Tensor& out) { fill_integers<T>(box, options, out); });
}

}  // namespace

Tensor stateless_normal(at::IntArrayRef shape, const StatelessNormalOptions& options) {
  return normal<Normal>("stateless_normal", shape, options);
}

Tensor stateless_truncated_normal(at::IntArrayRef shape, const StatelessNormalOptions& options) {
  return normal<TruncatedNormal>("stateless_truncated_normal", shape, options);
}

Tensor stateless_uniform(at::IntArrayRef shape, const StatelessUniformOptions& options) {
  if (options.dtype == at::kInt) return uniform_integers<int32_t>(shape, options);
  if (options.dtype == at::kLong) return uniform_integers<int64_t>(shape, options);
  if (!is_supported_float(options.dtype))
    refuse("stateless_uniform", str("dtype is ", at::toString(options.dtype),
                                    "; it must be float32, float64, float16, bfloat16, int32 or int64"));
  const double low = options.minval ? options.minval->toDouble() : 0;
  const double high = options.maxval ? options.maxval->toDouble() : 1;
  if (!(high > low)) refuse("stateless_uniform", str("maxval is ", high, "; it must be above minval, ", low));
  return create("stateless_uniform", shape, options.dtype, [&](const Box& box, const Tensor& out) {
    fill_floats<Uniform>(box, options.seed, high - low, low, out);
  });
}

}  // namespace tutti
