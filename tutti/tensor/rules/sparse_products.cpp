#include "tutti/tensor/rules/sparse_products.h"

#include <ATen/core/Tensor.h>

#include "tutti/core/error.h"
#include "tutti/tensor/sparse_tensor.h"

namespace tutti {
namespace {

using at::Tensor;
using torch::jit::Stack;

Tensor with_values(const Tensor& coalesced, const Tensor& values) {
  return sparse_tensor(coalesced._indices(), values, coalesced.sizes(), /*is_coalesced=*/true);
}

void give_sum(Stack& stack, const Tensor& sparse_terms) {
  const Tensor self = torch::jit::peek(stack, 0, 4).toTensor();
  self.add_(sparse_terms, torch::jit::peek(stack, 3, 4).toScalar());
  torch::jit::drop(stack, 4);
  stack.emplace_back(self);
}

bool add_square(Stack& stack) {
  const Tensor& gradient = torch::jit::peek(stack, 1, 4).toTensor();
  if (!gradient.is_sparse() || !gradient.is_same(torch::jit::peek(stack, 2, 4).toTensor())) return false;
  if (!torch::jit::peek(stack, 3, 4).toScalar().equal(1))  // by one number Adagrad alone multiplies
    throw Error(ErrorCode::unimplemented,
                "aten::addcmul_: of LibTorch's optimizers SGD and Adagrad alone take sparse gradients; make the table "
                "without sparse(true)");
  const Tensor terms = gradient.coalesce();
  give_sum(stack, with_values(terms, terms._values().pow(2)));
  return true;
}

bool add_quotient(Stack& stack) {
  const Tensor& gradient = torch::jit::peek(stack, 1, 4).toTensor();
  const Tensor& divisor = torch::jit::peek(stack, 2, 4).toTensor();
  if (!gradient.is_sparse() || divisor.is_sparse() || divisor.sizes() != gradient.sizes()) return false;
  const Tensor terms = gradient.coalesce();
  give_sum(stack, with_values(terms, terms._values().div(divisor.sparse_mask(terms)._values())));
  return true;
}

}  // namespace

SparseForm sparse_form_of(const std::string& name) {
  if (name == "aten::addcmul_") return add_square;
  if (name == "aten::addcdiv_") return add_quotient;
  return nullptr;
}

}  // namespace tutti
