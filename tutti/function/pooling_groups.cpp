#include "tutti/function/pooling_groups.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

#include "tutti/function/geometry.h"
#include "tutti/function/native_pooling.h"

namespace tutti {
namespace {

int value_at(const std::vector<Program::Operand>& operands, size_t i) {
  return operands[i].kind == Program::Operand::Kind::tensor ? operands[i].values[0] : -1;
}

class PoolingPass {
 public:
  PoolingPass(const Program& program, const std::vector<CallGroup>& groups,
              FunctionRef<at::IValue(const Program::Operand&)> build)
      : program_(program), groups_(groups), build_(build) {}

  // Of the two groups from `first` on, and of the gradient's, which may be missing.
  struct Found {
    PooledRelu forward;
    std::optional<size_t> backward_first;
    PooledRelu backward = {};
  };

  std::optional<Found> at(size_t first) const {
    const Program::Call* const relu = single(first, "aten::relu");
    const Program::Call* const pool = single(first + 1, "aten::max_pool2d_with_indices");
    if (!relu || !pool || !go_together(*relu, *pool)) return {};
    Found found{{.self = value_at(relu->arguments, 0),
                 .rectified = value_at(pool->arguments, 0),
                 .pooled = value_at(pool->results, 0),
                 .where = value_at(pool->results, 1),
                 .proof = std::make_shared<JoinedProof>()},
                {}};
    const int rectified = value_at(relu->results, 0);
    if (!is_alike(found.forward.self, rectified) || !is_all_of(found.forward.rectified, rectified) || !pools(*pool))
      return {};
    for (const int made : {rectified, found.forward.pooled, found.forward.where})
      if (num_writers(made) != 1) return {};
    if (goes_out(rectified)) return {};
    std::vector<const Program::Call*> others = users_of(rectified);
    std::erase(others, pool);
    if (others.empty()) return found;
    if (others.size() != 2) return {};
    for (size_t i = first + 2; i + 1 < groups_.size(); ++i)
      if (groups_[i].calls[0] == others[0]) found.backward_first = i;
    if (!found.backward_first || !take_backward(*found.backward_first, *others[1], rectified, found)) return {};
    return found;
  }

 private:
  bool take_backward(size_t first, const Program::Call& last, int rectified, Found& found) const {
    const Program::Call* const spread = single(first, "aten::max_pool2d_with_indices_backward");
    const Program::Call* const threshold = single(first + 1, "aten::threshold_backward");
    if (!spread || threshold != &last || !go_together(*spread, *threshold)) return false;
    const PooledRelu& forward = found.forward;
    const int spread_out = value_at(spread->results, 0), passed = value_at(threshold->arguments, 0);
    found.backward = forward;
    found.backward.gradient = value_at(spread->arguments, 0);
    found.backward.result = value_at(threshold->results, 0);
    return value_at(spread->arguments, 1) == forward.rectified && value_at(spread->arguments, 7) == forward.where &&
           value_at(threshold->arguments, 1) == rectified && is_alike(spread_out, forward.rectified) &&
           is_all_of(passed, spread_out) && is_alike(passed, rectified) && num_writers(spread_out) == 1 &&
           !goes_out(spread_out) && users_of(spread_out).size() == 1 &&
           threshold->arguments[2].constant.toScalar().equal(0) && is_alike(found.backward.result, rectified) &&
           is_alike(found.backward.gradient, forward.pooled);
  }

  const Program::Call* single(size_t group, const char* name) const {
    if (group >= groups_.size() || groups_[group].calls.size() != 1 || groups_[group].pooling) return nullptr;
    const Program::Call& call = *groups_[group].calls[0];
    return call.op && call.name == name && is_on_host(program_, call) ? &call : nullptr;
  }

  static bool go_together(const Program::Call& a, const Program::Call& b) {
    return a.replica == b.replica && a.one_thread == b.one_thread && a.grad_mode == b.grad_mode;
  }

  bool pools(const Program::Call& pool) const {
    torch::jit::Stack arguments;
    for (const Program::Operand& argument : pool.arguments) arguments.push_back(build_(argument));
    return pools_2x2(arguments) || pools_2x2_of_images(arguments);
  }

  bool is_alike(int a, int b) const { return a >= 0 && b >= 0 && value(a).geometry == value(b).geometry; }

  // Whether `view` shows all elements of a tensor that has no gaps, maybe with its axes in another order.
  bool is_all_of(int view, int whole) const {
    if (view < 0 || whole < 0 || value(view).buffer != value(whole).buffer) return false;
    const Geometry &a = value(view).geometry, &b = value(whole).geometry;
    const int64_t bytes = c10::multiply_integers(b.sizes) * static_cast<int64_t>(c10::elementSize(b.dtype));
    return a.dtype == b.dtype && a.offset == b.offset &&
           c10::multiply_integers(a.sizes) == c10::multiply_integers(b.sizes) && extent_bytes(a) == bytes &&
           extent_bytes(b) == bytes;
  }

  static bool has(const c10::SmallVector<int, 2>& buffers, int buffer) {
    return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
  }
  int64_t num_writers(int value_number) const {
    return std::count_if(program_.calls.begin(), program_.calls.end(),
                         [&](const Program::Call& call) { return has(call.writes, value(value_number).buffer); });
  }
  // Those that look at its elements.
  std::vector<const Program::Call*> users_of(int value_number) const {
    std::vector<const Program::Call*> users;
    for (const Program::Call& call : program_.calls)
      if (!call.is_view && has(call.reads, value(value_number).buffer)) users.push_back(&call);
    return users;
  }
  bool goes_out(int value_number) const {
    const auto is_in = [&](int result) { return result >= 0 && value(result).buffer == value(value_number).buffer; };
    return std::any_of(program_.results.begin(), program_.results.end(),
                       [&](const Program::Result& result) { return is_in(result.value); }) ||
           std::any_of(program_.leaves.begin(), program_.leaves.end(),
                       [&](const Program::Leaf& leaf) { return std::ranges::any_of(leaf.exit_values, is_in); });
  }

  const Program::Value& value(int number) const { return program_.values[static_cast<size_t>(number)]; }

  const Program& program_;
  const std::vector<CallGroup>& groups_;
  FunctionRef<at::IValue(const Program::Operand&)> build_;
};

}  // namespace

std::vector<CallGroup> join_poolings(const Program& program, std::vector<CallGroup> groups,
                                     FunctionRef<at::IValue(const Program::Operand&)> build) {
  const auto join = [&](size_t first, const PooledRelu& pooling) {
    groups[first].calls.push_back(groups[first + 1].calls[0]);
    groups[first].ops.clear();
    groups[first].pooling = pooling;
    groups[first + 1].calls.clear();
  };
  for (size_t i = 0; i + 1 < groups.size(); ++i) {
    if (groups[i].calls.empty()) continue;
    const auto found = PoolingPass(program, groups, build).at(i);
    if (!found) continue;
    join(i, found->forward);
    if (found->backward_first) join(*found->backward_first, found->backward);
  }
  std::erase_if(groups, [](const CallGroup& group) { return group.calls.empty(); });
  return groups;
}

std::unique_ptr<JoinedCalls> pooling_step(const Program& program, const CallGroup& group,
                                          const JoinedCalls::Memory& memory) {
  const PooledRelu& of = *group.pooling;
  const Geometry& images = program.values[static_cast<size_t>(of.rectified)].geometry;
  const auto in_images = [&](int value) { return memory.tensor(value).as_strided(images.sizes, images.strides); };
  const Tensor pooled = memory.tensor(of.pooled), where = memory.tensor(of.where);
  if (of.gradient < 0)
    return std::make_unique<JoinedCalls>(
        program, group.calls, memory, std::vector{pooled, where},
        [self = in_images(of.self), pooled, where] { max_pool_2x2_of_relu(self, pooled, where); }, of.proof);
  return std::make_unique<JoinedCalls>(
      program, group.calls, memory, std::vector{memory.tensor(of.result)},
      [gradient = memory.tensor(of.gradient), pooled, where, result = in_images(of.result)] {
        max_pool_2x2_of_relu_backward(gradient, pooled, where, result);
      },
      of.proof);
}

}  // namespace tutti
