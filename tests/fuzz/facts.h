#pragma once

#include <functional>
#include <string>

#include "machine.h"
#include "program.h"

namespace tutti::fuzz {

// The strides of axes that have any.
Sizes strides_that_count(const Seen& seen);

// What a program does, as far as LibTorch leaves its results open by it.
class Facts {
 public:
  // Both outlive it. `wanted`: what LibTorch gives.
  Facts(const Program& program, const Outcome& wanted) : program_(program), wanted_(wanted) {}

  bool calls(const std::function<bool(const std::string& op)>& matches) const;
  bool has_value_of_no_elements() const;
  // Whether what a call gives has no elements, or its first operand has none.
  bool is_of_no_elements(const Statement& call) const;
  // What a kernel keeps depends on the path that it takes, as does its place in memory.
  bool is_left_to_backward(int slot) const;
  bool mixes_types() const;
  // Of those that copy an operand in some layouts.
  bool calls_product() const;
  // Whether the result of einsum or linear has a hook and is then written in place.
  bool hooks_written_product() const;
  bool calls_dropout() const;
  bool calls_logsumexp_into() const;
  bool transforms_into() const;
  bool hangs_on_a_nan() const;
  bool takes_median_of_expanded() const;
  bool calls_norm() const;
  bool takes_complex_deviation_into() const;
  double most_elements() const;
  // LibTorch's mean beside a variance runs along the elements, and of an infinity depends on where that comes, as do
  // those of batch, layer and instance norms; its gelu of an infinity is one or none, depending on how many elements
  // come with it, and so does its norm of numbers whose squares are infinite. Its product of halves is one of halves.
  // Its logsumexp adds in the precision of its out=. Its solution of a singular system divides by no pivot, or by a
  // rounding error.
  bool leaves_infinities_open() const;
  // LibTorch's negation of complex numbers gives zeros a sign that hangs on how many elements come with them.
  bool negates() const;
  bool sums_overflow(const Tensor& value) const;
  // Of an argument that LibTorch resizes, and of what comes of it, strides depend on who does it.
  bool resizes() const;
  // How a gradient lies depends on the formulas, of which a mesh has its own for products.
  bool is_result_of_gradient(int slot) const;
  // What grad() gave, to which later passes add.
  bool is_read_gradient(int slot) const;
  // Whether replicas may share the tensor: an input, or what a call wrote and returned.
  bool is_shared(int slot) const;
  // Optimizers write to data(): LibTorch does not see that a graph of before saved what they write.
  bool goes_back_behind_a_step() const;
  bool writes_behind_kron() const;
  bool is_bits_of_a_result(int slot) const;
  // LibTorch makes the view's graph again after a write under no_grad: then a gradient reaches the base's elements that
  // the view itself has not.
  bool takes_elements_around_a_view() const;

 private:
  // Of `count` values from this slot on, of which there is one.
  bool have_no_elements(int first, int count) const;
  bool is_input(int slot) const;
  bool writes_to(int slot) const;

  const Program& program_;
  const Outcome& wanted_;
};

}  // namespace tutti::fuzz
