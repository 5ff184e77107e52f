// Losses with a reduction argument: 0 none, 1 mean, 2 sum. In separate buffers a mean or sum is one of the elements'
// losses.
#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/arguments.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"
#include "tutti/tensor/size_check.h"

namespace tutti {
namespace {

using at::IValue;
enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// The letters of self and target: [n, C, …] and [n, …], or [C] and [].
struct ClassLetters {
  std::string self, target;
  int class_axis;
  explicit ClassLetters(int64_t rank)
      : self(rank == 1 ? "C" : "nC" + letters(rank - 2)),
        target(rank == 1 ? "" : "n" + letters(rank - 2)),
        class_axis(rank == 1 ? 0 : 1) {
    if (self.find('n', 1) != std::string::npos) throw NoShardedForm();
    self[static_cast<size_t>(class_axis)] = 'z';
  }
};

constexpr int64_t kNoClass = -100;

// Of a part of the classes, targets among the others are none. Returns which are.
template <size_t kTarget, size_t kIgnoredClass>
Tensor leave_out_others(torch::jit::Stack& call, const AxisPiece& classes) {
  const Tensor target = call[kTarget].toTensor().to(at::kLong);
  Tensor elsewhere = target.eq(call[kIgnoredClass].toInt());
  const int64_t end = classes.begin + classes.length;
  if (classes.begin > 0) elsewhere.logical_or_(target.lt(classes.begin));
  if (end < classes.size) elsewhere.logical_or_(target.ge(end));  // the last part finds classes that do not exist
  call[kTarget] = target.sub(classes.begin).masked_fill_(elsewhere, kNoClass);
  call[kIgnoredClass] = kNoClass;
  return elsewhere;
}

template <size_t kTarget, size_t kIgnoredClass>
void call_on_classes(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& classes) {
  leave_out_others<kTarget, kIgnoredClass>(call, classes);
  op.callBoxed(call);
}

// The sum over a part of the classes, and of its weights. LibTorch's own sum is one by one where each sixteenth target
// is left out, as those of other parts may be, and so comes to an end in 16 bits.
void sum_on_classes(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& classes) {
  if (call[3].toInt() == kNone || classes.length == classes.size) return call_on_classes<1, 4>(op, call, classes);
  const Tensor is_here = leave_out_others<1, 4>(call, classes).logical_not_();
  const Tensor self = call[0].toTensor(), target = call[1].toTensor(),
               weight = call[2].toOptional<Tensor>().value_or(Tensor());
  call[3] = int64_t{kNone};
  op.callBoxed(call);
  Tensor weights = is_here;
  if (weight.defined() && weight.numel() > 0)
    weights = weight.index_select(0, target.clamp_min(0).flatten())
                  .view(target.sizes())
                  .masked_fill(is_here.logical_not(), 0);
  call[0] = call[0].toTensor().sum();
  call[1] = weights.sum().to(self.scalar_type());
}

// nll_loss_forward(self, target, weight [C], reduction, ignore_index) -> (loss, total_weight)
bool nll_loss(Planner& p) {
  const ClassLetters l(p.spec(0)->rank());
  shard(p, {{0, l.self}, {1, l.target}, {2, "z"}}, {p.integer(3) == kNone ? l.target : ""});
  p.result({}, {}, p.parts_of_first_result());
  p.local_call(sum_on_classes, 0, l.class_axis);
  return true;
}

// nll_loss_backward(grad, self, target, weight, reduction, ignore_index, total_weight), total_weight of the whole batch
bool nll_loss_backward(Planner& p) {
  const ClassLetters l(p.spec(1)->rank());
  shard(p,
        {{1, l.self},
         {2, l.target},
         {3, "z"},
         {0, p.spec(0)->rank() == 0 ? "" : l.target},
         {6, letters(p.spec(6)->rank(), 'A')}},
        {l.self});
  p.local_call(call_on_classes<2, 5>, 1, l.class_axis);
  p.contiguous(1);
  return true;
}

// The tensors of a call with the letters of the shape that they broadcast to.
struct ElementwiseOperands {
  explicit ElementwiseOperands(const Planner& p) {
    int64_t rank = 0;
    for (int i = 0; i < p.num_arguments(); ++i)
      if (const Spec* spec = p.spec(i)) rank = std::max<int64_t>(rank, spec->rank());
    all = letters(rank);
    for (int i = 0; i < p.num_arguments(); ++i)
      if (const Spec* spec = p.spec(i))
        terms.push_back({i, all.substr(all.size() - spec->sizes.size()), -1, /*broadcasts=*/true});
  }

  std::string all;
  std::vector<Term> terms;
};

// loss(self, target, [weight,] reduction, …): elementwise, then the reduction.
bool elementwise_loss(Planner& p) {
  const ElementwiseOperands operands(p);
  int reduction = 2;
  while (!p.is_integer(reduction)) ++reduction;
  if (p.integer(reduction) < kNone || p.integer(reduction) > kSum) return false;  // each loss takes others otherwise
  shard(p, operands.terms, {p.integer(reduction) == kNone ? operands.all : ""});
  return true;
}

// loss_backward(grad, self, target, …): the shape that all broadcast to.
bool elementwise_loss_backward(Planner& p) {
  const ElementwiseOperands operands(p);
  shard(p, operands.terms, {operands.all});
  return true;
}

size_t reduction_position(at::ArrayRef<IValue> a, size_t from) {
  size_t position = from;
  while (!a[position].isInt()) ++position;
  return position;
}

// The loss of each element, and then the mean or the sum of these, which are as many as the operands broadcast to.
template <const char* const& kName>
Results decompose_loss(at::ArrayRef<IValue> a) {
  const size_t position = reduction_position(a, 2);
  const int64_t reduction = a[position].toInt();
  if (reduction != kMean && reduction != kSum) return {};
  std::vector<IValue> arguments(a.begin(), a.end());
  arguments[position] = int64_t{kNone};
  const Tensor losses = call(kName, "", std::move(arguments))[0].toTensor();
  return std::vector<IValue>{reduction == kMean ? losses.mean() : losses.sum()};
}

// The gradient of a mean as that of a sum, of grad / count, where LibTorch counts self's elements.
template <const char* const& kName>
Results decompose_loss_backward(at::ArrayRef<IValue> a) {
  const size_t reduction = reduction_position(a, 3);
  if (a[reduction].toInt() != kMean) return {};
  std::vector<IValue> arguments(a.begin(), a.end());
  arguments[reduction] = int64_t{kSum};
  arguments[0] = a[0].toTensor().div(static_cast<double>(a[1].toTensor().numel()));
  return call(kName, "", std::move(arguments));
}

template <const char* const& kName>
Results decompose_nll(at::ArrayRef<IValue> a) {
  if (a[3].toInt() != kMean) return {};
  std::vector<IValue> arguments(a.begin(), a.end());
  arguments[3] = int64_t{kSum};
  auto results = call(kName, "", std::move(arguments));
  results[0] = results[0].toTensor().div(results[1].toTensor());
  return results;
}

constexpr const char* kNll = "aten::nll_loss_forward";
constexpr const char* kNll2d = "aten::nll_loss2d_forward";
constexpr const char* kMse = "aten::mse_loss";
constexpr const char* kMseBackward = "aten::mse_loss_backward";
constexpr const char* kSmoothL1 = "aten::smooth_l1_loss";
constexpr const char* kSmoothL1Backward = "aten::smooth_l1_loss_backward";
constexpr const char* kHuber = "aten::huber_loss";
constexpr const char* kHuberBackward = "aten::huber_loss_backward";
constexpr const char* kBce = "aten::binary_cross_entropy";
constexpr const char* kBceBackward = "aten::binary_cross_entropy_backward";
constexpr const char* kSoftMargin = "aten::soft_margin_loss";
constexpr const char* kSoftMarginBackward = "aten::soft_margin_loss_backward";
constexpr const char* kBceLogits = "aten::binary_cross_entropy_with_logits";

// binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction): LibTorch multiplies in place, so that
// the others' sizes have to broadcast to the target's, and those of the target and of pos_weight to self's.
Results decompose_bce_logits(at::ArrayRef<IValue> a) {
  const Tensor &self = a[0].toTensor(), &target = a[1].toTensor();
  const Tensor weight = tensor_or_none(a[2]), positive = tensor_or_none(a[3]);
  if (self.sizes() != target.sizes() || weight.defined() || positive.defined()) {
    const NotRecorded no_calls_of_the_program;
    if (positive.defined()) without_memory(self).mul_(without_memory(positive)).mul_(without_memory(target));
    const Tensor loss = without_memory(target).mul_(without_memory(self));
    if (weight.defined()) loss.mul_(without_memory(weight));
  }
  return decompose_loss<kBceLogits>(a);
}

// What LibTorch's kernel of binary_cross_entropy takes for the target: of neither tensor it sees axes of size 1. More
// targets than inputs would leave losses unwritten.
Tensor fitted_target(const Tensor& self, const Tensor& target) {
  const at::DimVector sizes(without_memory(self).squeeze().sizes());
  TORCH_CHECK(at::is_expandable_to(without_memory(target).squeeze().sizes(), sizes),
              "binary_cross_entropy: a target of sizes ", target.sizes(), " does not fit an input of sizes ",
              self.sizes());
  return target.squeeze().expand(sizes).reshape(self.sizes());
}

// By which LibTorch multiplies the losses in place.
void check_weight(const Tensor& self, const IValue& weight) {
  const NotRecorded no_call_of_the_program;
  const Tensor factor = tensor_or_none(weight);
  if (factor.defined()) at::empty(self.sizes(), without_memory(self).options()).mul_(without_memory(factor));
}

// binary_cross_entropy(self, target, weight, reduction)
Results decompose_bce(at::ArrayRef<IValue> a) {
  const Tensor &self = a[0].toTensor(), &target = a[1].toTensor();
  check_weight(self, a[2]);
  if (self.sizes() == target.sizes()) return decompose_loss<kBce>(a);
  return call(kBce, "", {self, fitted_target(self, target), a[2], a[3]});
}

// binary_cross_entropy_backward(grad, self, target, weight, reduction)
Results decompose_bce_backward(at::ArrayRef<IValue> a) {
  const Tensor &self = a[1].toTensor(), &target = a[2].toTensor();
  check_weight(self, a[3]);
  if (self.sizes() == target.sizes()) return decompose_loss_backward<kBceBackward>(a);
  return call(kBceBackward, "", {a[0], self, fitted_target(self, target), a[3], a[4]});
}

}  // namespace

void add_loss_rules(RuleTable& table) {
  table["nll_loss_forward"] = table["nll_loss2d_forward"] = {nll_loss, SizeArguments::unaffected};
  table["nll_loss_backward"] = table["nll_loss2d_backward"] = {nll_loss_backward, SizeArguments::unaffected};
  for (const char* name : {"mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy",
                           "binary_cross_entropy_with_logits"})
    table[name] = {elementwise_loss, SizeArguments::none};
  for (const char* name : {"mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward",
                           "soft_margin_loss_backward", "binary_cross_entropy_backward"})
    table[name] = {elementwise_loss_backward, SizeArguments::none};
}

void add_loss_decompositions(DecompositionTable& table) {
  table["nll_loss_forward"] = decompose_nll<kNll>;
  table["nll_loss2d_forward"] = decompose_nll<kNll2d>;
  table["mse_loss"] = decompose_loss<kMse>;
  table["mse_loss_backward"] = decompose_loss_backward<kMseBackward>;
  table["smooth_l1_loss"] = decompose_loss<kSmoothL1>;
  table["smooth_l1_loss_backward"] = decompose_loss_backward<kSmoothL1Backward>;
  table["huber_loss"] = decompose_loss<kHuber>;
  table["huber_loss_backward"] = decompose_loss_backward<kHuberBackward>;
  table["soft_margin_loss"] = decompose_loss<kSoftMargin>;
  table["soft_margin_loss_backward"] = decompose_loss_backward<kSoftMarginBackward>;
  table["binary_cross_entropy"] = decompose_bce;
  table["binary_cross_entropy_backward"] = decompose_bce_backward;
  table["binary_cross_entropy_with_logits"] = decompose_bce_logits;
}

}  // namespace tutti
