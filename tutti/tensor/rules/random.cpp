// Random numbers: those that one device would have drawn. Ops that fill a tensor draw for a whole one, which is then
// cut; the others are written here by means of these, as LibTorch's CPU kernels compute them. What draws a number of
// times that depends on its operand (multinomial, poisson, …) gathers it.
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>
#include <mutex>

#include "tutti/core/error.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using at::IValue;
using Generator = std::optional<at::Generator>;
using DrawnResults = std::optional<std::vector<IValue>>;

Generator generator_of(const IValue& value) { return value.isNone() ? Generator() : Generator(value.toGenerator()); }

// A *_like op: what it fills, and by which generator. Its last arguments are empty_like's options, before which one
// overload has a generator.
struct Like {
  Tensor result;
  Generator generator;
  size_t num_bounds;  // of its arguments between the tensor and these

  explicit Like(at::ArrayRef<IValue> a) {
    constexpr size_t kOptions = 5;
    static const auto empty_like = c10::Dispatcher::singleton().findSchemaOrThrow("aten::empty_like", "");
    torch::jit::Stack call{a[0]};
    call.insert(call.end(), a.end() - kOptions, a.end());
    empty_like.callBoxed(call);
    result = call[0].toTensor();
    const IValue& last = a[a.size() - kOptions - 1];
    const bool names_generator = last.isGenerator() || last.isNone();
    if (last.isGenerator()) generator = last.toGenerator();
    num_bounds = a.size() - 1 - kOptions - (names_generator ? 1 : 0);
  }
};

DrawnResults decompose_rand_like(at::ArrayRef<IValue> a) {
  Like like(a);
  return std::vector<IValue>{like.result.uniform_(0, 1, like.generator)};
}

DrawnResults decompose_randn_like(at::ArrayRef<IValue> a) {
  Like like(a);
  return std::vector<IValue>{like.result.normal_(0, 1, like.generator)};
}

// randint_like(self, high) or (self, low, high)
DrawnResults decompose_randint_like(at::ArrayRef<IValue> a) {
  if (!a[1].isInt()) return {};
  Like like(a);
  const int64_t low = like.num_bounds == 2 ? a[1].toInt() : 0, high = a[like.num_bounds].toInt();
  return std::vector<IValue>{like.result.random_(low, high, like.generator)};
}

// Whether numbers are drawn one after the other, as CPU kernels do.
bool draws_in_order(const Tensor& tensor) { return tensor.device().is_cpu(); }

// Whether a test holds for all elements: each piece for itself, so that nothing moves but the terms of a sum, and what
// processes among which the mesh is divided tell each other.
template <class Test>
bool holds_everywhere(const Tensor& tensor, const Test& test) {
  const Spec* const spec = is_mesh_tensor(tensor) ? mesh_impl(tensor).spec() : nullptr;
  if (!spec || spec->unreduced || spec->shape->divided()) return test(tensor).all().template item<bool>();
  const Components& pieces = mesh_impl(tensor).read();
  return std::all_of(pieces.begin(), pieces.end(),
                     [&](const Tensor& piece) { return test(piece).all().template item<bool>(); });
}

void check_probabilities(const Tensor& probabilities) {
  host_step("check_probabilities", probabilities, {}, [](at::ArrayRef<Tensor> now) {
    TORCH_CHECK(holds_everywhere(now[0], [](const Tensor& p) { return p.ge(0).logical_and_(p.le(1)); }),
                "bernoulli_: a probability is not between 0 and 1");
  });
}

void check_deviations(const Tensor& deviations) {
  TORCH_CHECK(!deviations.is_complex(), "normal expects standard deviation to be non-complex");
  host_step("check_deviations", deviations, {}, [](at::ArrayRef<Tensor> now) {
    TORCH_CHECK(holds_everywhere(now[0], [](const Tensor& d) { return d.ge(0); }),
                "normal expects all elements of std >= 0.0");
  });
}

// What a component holds of a whole value.
Tensor place_in(Tensor whole, const Spec* spec, int component) {
  for (int axis = 0; axis < spec->rank(); ++axis)
    whole = whole.narrow(axis, spec->begin(component, axis), spec->length(component, axis));
  return whole;
}

// On an accelerator the kernel decides which number an element gets. So each device draws for a whole tensor of which
// it knows its own probabilities, all by the same numbers, and takes its own elements: no probability moves.
// Requires: of one layout.
Tensor draw_on_each_device(const Tensor& self, const Tensor& probabilities, const Generator& given) {
  const Spec* const spec = mesh_impl(self).spec();
  const Components& known = mesh_impl(probabilities).read_here();
  at::Generator generator = given ? *given : at::globalContext().defaultGenerator(spec->shape->home);
  if (auto* const recorder = CallRecorder::current())
    recorder->refuse(Error(ErrorCode::unimplemented,
                           "function: bernoulli of a divided tensor of probabilities, for which each GPU draws all "
                           "numbers, cannot be recorded; compare with numbers: torch::rand_like(p).lt(p)"));
  const std::lock_guard lock(generator.mutex());
  const Tensor before = generator.get_state();
  Components drawn(static_cast<size_t>(spec->num_components));
  for (int first = 0; first < spec->num_components; ++first) {
    if (!spec->is_here(first) || drawn[static_cast<size_t>(first)].defined()) continue;
    const c10::Device device = spec->device_of(first);
    const auto for_each_there = [&](const auto& visit) {
      for (int i = first; i < spec->num_components; ++i)
        if (spec->is_here(i) && spec->device_of(i) == device) visit(i, static_cast<size_t>(i));
    };
    const Tensor whole = at::empty_strided(self.sizes(), self.strides(), self.options().device(device));
    const Tensor all =
        at::empty_strided(self.sizes(), probabilities.strides(), probabilities.options().device(device)).zero_();
    for_each_there([&](int i, size_t place) { place_in(all, spec, i).copy_(known[place]); });
    at::Generator own = make_generator(0, device);
    own.set_state(before);
    whole.bernoulli_(all, own);
    for_each_there([&](int i, size_t place) { drawn[place] = place_in(whole, spec, i).clone(); });
    generator.set_state(own.get_state());
  }
  return make_mesh_tensor(spec, std::move(drawn), self.strides());
}

// bernoulli_(self, p, generator) with a tensor of probabilities.
DrawnResults decompose_bernoulli_in_place(at::ArrayRef<IValue> a) {
  if (!a[1].isTensor()) return {};
  const Tensor &self = a[0].toTensor(), &probabilities = a[1].toTensor();
  if (self.numel() == 0) return std::vector<IValue>{self};  // probabilities of any type
  if (!draws_in_order(self)) {
    if (!is_mesh_tensor(self) || mesh_impl(self).spec()->unreduced || self.sizes() != probabilities.sizes()) return {};
    const Tensor like_self = relayout(probabilities, layout_of(self));
    return std::vector<IValue>{self.copy_(draw_on_each_device(self, like_self, generator_of(a[2])))};
  }
  check_probabilities(probabilities);
  const Tensor drawn = at::empty_like(self, probabilities.options()).uniform_(0, 1, generator_of(a[2]));
  return std::vector<IValue>{self.copy_(drawn.lt(probabilities))};
}

// bernoulli(self, generator), bernoulli(self, p, generator): a number or a tensor. Of the last form the result lies as
// self does.
DrawnResults decompose_bernoulli(at::ArrayRef<IValue> a) {
  const Tensor& self = a[0].toTensor();
  if (a.size() == 3 && a[1].isDouble())
    return std::vector<IValue>{
        at::empty_like(self, at::MemoryFormat::Contiguous).bernoulli_(a[1].toDouble(), generator_of(a[2]))};
  if (a.size() == 3) return std::vector<IValue>{at::empty_like(self).bernoulli_(a[1].toTensor(), generator_of(a[2]))};
  return std::vector<IValue>{at::empty_like(self, at::MemoryFormat::Contiguous).bernoulli_(self, generator_of(a[1]))};
}

// normal(mean, std, generator), each a number or a tensor.
DrawnResults decompose_normal(at::ArrayRef<IValue> a) {
  const bool has_mean = a[0].isTensor(), has_deviation = a[1].isTensor();
  if (!has_mean && !has_deviation) return {};
  if (has_deviation) check_deviations(a[1].toTensor());
  const Tensor& like = a[has_mean ? 0 : 1].toTensor();
  const bool broadcasts = has_mean && has_deviation && like.sizes() != a[1].toTensor().sizes();
  Tensor result =
      at::empty_like(broadcasts ? like.add(a[1].toTensor()) : like, like.options(), at::MemoryFormat::Contiguous);
  if (result.numel() == 0) return std::vector<IValue>{result};  // of any type
  result.normal_(0, has_deviation ? 1 : a[1].toDouble(), generator_of(a[2]));
  if (has_deviation) result.mul_(a[1].toTensor());
  return std::vector<IValue>{has_mean ? result.add_(a[0].toTensor()) : result.add_(a[0].toDouble())};
}

// Which elements native_dropout keeps, laid out as the input is. On an accelerator its kernel decides which number an
// element gets, so it draws for a whole tensor of the type.
Tensor dropout_mask(const Tensor& input, double kept) {
  if (draws_in_order(input)) return at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(kept);
  const MeshShape* shape = mesh_impl(input).mesh_shape();
  const Tensor ones = at::ones(input.sizes(), input.options().device(shape->home));
  const Spec* spec = intern(shape, mesh_impl(input).spec()->axes, 0, input.sizes());
  return make_mesh_tensor(spec, cut(std::get<1>(at::native_dropout(ones, 1 - kept, /*train=*/true)), spec));
}

// native_dropout(input, p, train) -> (output, mask)
DrawnResults decompose_dropout(at::ArrayRef<IValue> a) {
  const Tensor& input = a[0].toTensor();
  if (!a[2].isNone() && !a[2].toBool())
    return std::vector<IValue>{input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  const double kept = 1 - a[1].toDouble();
  const Tensor mask = dropout_mask(input, kept);
  return std::vector<IValue>{input.mul(mask).mul_(kept == 0 ? 0 : 1 / kept), mask};
}

}  // namespace

void add_random_rules(RuleTable& table) {
  for (const char* name : {"bernoulli", "cauchy_", "geometric_", "log_normal_", "native_dropout",
                           "native_dropout_backward", "normal", "rand_like", "randn_like", "random_"})
    table[name] = {pointwise, SizeArguments::unaffected};
  table["randint_like"] = {pointwise, SizeArguments::unaffected};  // its SymInts are bounds of values
}

void add_random_decompositions(DecompositionTable& table) {
  table["bernoulli"] = decompose_bernoulli;
  table["bernoulli_"] = decompose_bernoulli_in_place;
  table["native_dropout"] = decompose_dropout;
  table["normal"] = decompose_normal;
  table["rand_like"] = decompose_rand_like;
  table["randint_like"] = decompose_randint_like;
  table["randn_like"] = decompose_randn_like;
}

}  // namespace tutti
