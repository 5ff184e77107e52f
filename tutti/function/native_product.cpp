#include "tutti/function/native_product.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "tutti/function/matrix_product.h"
#include "tutti/function/native_trial.h"
#include "tutti/tensor/parallel_ranges.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

// MKL adds in another order where there are fewer. Of a depth of 1 it adds nothing, so that zeros keep their signs.
constexpr int64_t kLeastRows = 4, kLeastColumns = 12;
constexpr double kMostOperations = 3e8;  // of what is tried: a few milliseconds
constexpr int64_t kMultiplicationsOfAThread = 1 << 20;

// The pieces into which MKL cuts the depth on processors of AMD: 192, or a half where there is less than two of them.
int64_t piece_of(int64_t depth) {
  constexpr int64_t kPiece = 192;
  return depth <= kPiece ? depth : depth < 2 * kPiece ? depth / 2 : kPiece;
}

struct Operands {
  at::Tensor a, b, bias;  // bias: undefined where there is none
};

// Contiguous, or the transpose of what is.
bool is_plain_matrix(const at::Tensor& x) {
  if (x.scalar_type() != at::kFloat || x.dim() != 2 || x.numel() == 0 || x.is_neg()) return false;
  return (x.stride(1) == 1 && x.stride(0) == x.size(1)) || (x.stride(0) == 1 && x.stride(1) == x.size(0));
}

bool is_plain_bias(const at::Tensor& bias, int64_t columns) {
  return lies_plainly(bias, at::kFloat) && bias.dim() == 1 && bias.size(0) == columns;
}

bool is_one(const at::IValue& scale) { return scale.isScalar() && scale.toScalar().equal(1); }

// (a, b) or (bias, a, b, beta, alpha)
std::optional<Operands> operands_of(const std::string& op, const Stack& arguments) {
  Operands operands;
  if (op == "aten::mm") {
    operands = {arguments[0].toTensor(), arguments[1].toTensor(), {}};
  } else if (op == "aten::addmm" && is_one(arguments[3]) && is_one(arguments[4])) {
    operands = {arguments[1].toTensor(), arguments[2].toTensor(), arguments[0].toTensor()};
  } else {
    return {};
  }
  if (!is_plain_matrix(operands.a) || !is_plain_matrix(operands.b)) return {};
  if (operands.a.size(0) < kLeastRows || operands.b.size(1) < kLeastColumns || operands.a.size(1) < 2) return {};
  if (operands.bias.defined() && !is_plain_bias(operands.bias, operands.b.size(1))) return {};
  return operands;
}

MatrixPart part_of(const at::Tensor& matrix) {
  return {matrix.const_data_ptr<float>(), matrix.stride(0), matrix.stride(1)};
}

// Columns are divided among threads, rows where these are more.
void multiply_into(const Operands& operands, const at::Tensor& result) {
  MatrixProduct whole{.a = part_of(operands.a), .b = part_of(operands.b)};
  whole.bias = operands.bias.defined() ? operands.bias.const_data_ptr<float>() : nullptr;
  whole.result = result.mutable_data_ptr<float>();
  whole.rows = operands.a.size(0);
  whole.columns = operands.b.size(1);
  whole.depth = operands.a.size(1);
  whole.piece = piece_of(whole.depth);
  const int64_t of_a_row = whole.columns * whole.depth;
  const int64_t grain = std::max<int64_t>(64, kMultiplicationsOfAThread / std::max<int64_t>(1, of_a_row));
  parallel_ranges(whole.rows, grain, [&](int64_t begin, int64_t end) {
    MatrixProduct part = whole;
    part.a.data += begin * whole.a.row_stride;
    part.result += begin * whole.columns;
    part.rows = end - begin;
    multiply(part);
  });
}

void multiply_matrices(const Stack& arguments) {
  multiply_into({arguments[0].toTensor(), arguments[1].toTensor(), {}}, arguments[2].toTensor());
}

void multiply_matrices_and_add(const Stack& arguments) {
  multiply_into({arguments[1].toTensor(), arguments[2].toTensor(), arguments[0].toTensor()}, arguments[5].toTensor());
}

bool passes_a_trial(const Operands& shapes) {
  Operands tried;
  const at::Tensor own = at::empty({shapes.a.size(0), shapes.b.size(1)});
  at::Tensor wanted = at::empty_like(own);
  return passes({.draw =
                     [&](const at::Generator& generator, bool tiny) {
                       tried = {random_like(shapes.a, tiny ? 1e-36 : 1, generator),
                                random_like(shapes.b, tiny ? 1e-9 : 1, generator),
                                random_like(shapes.bias, tiny ? 0 : 1, generator)};
                     },
                 .own = [&] { multiply_into(tried, own); },
                 .theirs =
                     [&] {
                       tried.bias.defined() ? at::addmm_out(wanted, tried.bias, tried.a, tried.b)
                                            : at::mm_out(wanted, tried.a, tried.b);
                     },
                 .agrees = [&] { return has_the_bits_of(own, wanted); }});
}

// One trial for each kind of product, in a process.
bool passed_a_trial(const Operands& operands) {
  using Kind = std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, at::Float32MatmulPrecision>;
  static std::mutex mutex;
  static std::map<Kind, bool> outcomes;
  const Kind kind{operands.a.size(0),
                  operands.b.size(1),
                  operands.a.size(1),
                  operands.a.stride(1) == 1,
                  operands.b.stride(1) == 1,
                  operands.bias.defined(),
                  at::globalContext().float32MatmulPrecision()};
  const std::lock_guard lock(mutex);
  const auto known = outcomes.find(kind);
  if (known != outcomes.end()) return known->second;
  return outcomes[kind] = passes_a_trial(operands);
}

}  // namespace

NativeKernel native_product_of(const std::string& op, const Stack& arguments) {
  if (!multiplies_in_vectors()) return nullptr;
  const auto operands = operands_of(op, arguments);
  if (!operands) return nullptr;
  const double operations = 2.0 * static_cast<double>(operands->a.numel()) * static_cast<double>(operands->b.size(1));
  if (operations > kMostOperations || !passed_a_trial(*operands)) return nullptr;
  return op == "aten::mm" ? multiply_matrices : multiply_matrices_and_add;
}

}  // namespace tutti
