// Products of tensors with more than two axes: einsum, matmul, linear. LibTorch folds axes into those of matrices,
// which would gather an axis that is sharded and folded behind another. Such a product is one op here, einsum, whose
// equation is its sharding rule; its gradients are products again.
#include "tutti/tensor/contraction.h"

#include <ATen/ExpandUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/einsum_native.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/matmul_native.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/real.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

bool contains(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// A tensor and a letter for each of its axes.
struct Labelled {
  Tensor tensor;
  std::string letters;
};

// The product of two tensors. Each letter of one is among those of the other or of the result, none twice. `matrices`:
// of LibTorch's matmul, whose gradients are contiguous.
struct Product : torch::autograd::Function<Product> {
  static Tensor forward(AutogradContext* context, const Tensor& a, const Tensor& b, const std::string& letters_a,
                        const std::string& letters_b, const std::string& result, bool matrices) {
    context->save_for_backward({b.requires_grad() ? a : Tensor(), a.requires_grad() ? b : Tensor()});
    context->saved_data["a"] = letters_a;
    context->saved_data["b"] = letters_b;
    context->saved_data["result"] = result;
    context->saved_data["matrices"] = matrices;
    context->saved_data["complex_a"] = a.is_complex();
    context->saved_data["complex_b"] = b.is_complex();
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return at::einsum(letters_a + "," + letters_b + "->" + result, {a, b});
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const tensor_list saved = context->get_saved_variables();
    const auto letters = [&](const char* name) { return context->saved_data[name].toStringRef(); };
    const bool matrices = context->saved_data["matrices"].toBool();
    // Factors of two types have made a result of the wider one; a real factor's gradient is real.
    const auto product = [&](const Tensor& other, const char* from, const char* to, const char* is_complex) {
      Tensor gradient = Product::apply(gradients[0], other.conj().to(gradients[0].scalar_type()), letters("result"),
                                       letters(from), letters(to), matrices);
      if (gradient.is_complex() && !context->saved_data[is_complex].toBool()) gradient = at::real(gradient);
      return matrices ? gradient.contiguous() : gradient;
    };
    return {context->needs_input_grad(0) ? product(saved[1], "b", "a", "complex_a") : Tensor(),
            context->needs_input_grad(1) ? product(saved[0], "a", "b", "complex_b") : Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

// `value` summed over the axes whose letters are not among `kept`. Of one element the sum is that, and so are integers.
Labelled summed(const Labelled& value, const std::string& kept) {
  at::DimVector axes, ones;
  std::string letters;
  for (size_t axis = 0; axis < value.letters.size(); ++axis) {
    if (contains(kept, value.letters[axis]))
      letters += value.letters[axis];
    else
      (value.tensor.size(static_cast<int64_t>(axis)) == 1 ? ones : axes).push_back(static_cast<int64_t>(axis));
  }
  if (axes.empty()) return ones.empty() ? value : Labelled{value.tensor.squeeze(ones), letters};
  axes.append(ones.begin(), ones.end());
  return Labelled{value.tensor.sum(axes), letters};
}

// Under autocast LibTorch's einsum multiplies matrices in the lower precision, and does everything else as it comes.
void lower_precision(Tensor& a, Tensor& b) {
  const c10::DeviceType device = a.device().type();
  if (!at::autocast::is_autocast_enabled(device)) return;
  for (Tensor* factor : {&a, &b})
    *factor = at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), *factor, device);
}

bool share_letter(const std::string& a, const std::string& b, const std::string& but_for) {
  return std::any_of(a.begin(), a.end(), [&](char c) { return contains(b, c) && !contains(but_for, c); });
}

// Matrices that are multiplied have one type, as LibTorch requires; what it multiplies element by element, and what has
// no elements, need not.
void check_types(const Labelled& a, const Labelled& b, const std::string& kept) {
  if (a.tensor.scalar_type() == b.tensor.scalar_type() || a.tensor.numel() == 0 || b.tensor.numel() == 0) return;
  for (size_t axis = 0; axis < a.letters.size(); ++axis)
    TORCH_CHECK(contains(kept, a.letters[axis]) || a.tensor.size(static_cast<int64_t>(axis)) == 1,
                "expected scalar type ", a.tensor.scalar_type(), " but found ", b.tensor.scalar_type());
}

// The product of all, from left to right.
Tensor product_of(std::vector<Labelled> factors, const std::string& result, bool matrices) {
  Labelled left = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) {
    std::string later = result;
    for (size_t k = i + 1; k < factors.size(); ++k) later += factors[k].letters;
    left = summed(left, later + factors[i].letters);
    Labelled right = summed(factors[i], later + left.letters);
    std::string letters;
    for (const char letter : left.letters + right.letters)
      if (contains(later, letter) && !contains(letters, letter)) letters += letter;
    if (i + 1 == factors.size()) letters = result;
    if (share_letter(left.letters, right.letters, letters)) {
      lower_precision(left.tensor, right.tensor);
      check_types(left, right, letters);
    }
    left = {Product::apply(left.tensor, right.tensor, left.letters, right.letters, letters, matrices), letters};
  }
  return left.tensor;
}

bool is_whole(const Tensor& tensor) { return !is_mesh_tensor(tensor) || mesh_impl(tensor).whole(); }

// Whether folding all axes but the last takes no sharded one apart: only a first axis, cut evenly, or the last is
// sharded.
bool folds_in_place(const Tensor& tensor) {
  if (tensor.dim() <= 2 || is_whole(tensor)) return true;
  const Spec* spec = mesh_impl(tensor).spec();
  const auto unsplit = [](int8_t dimension) { return dimension < 0; };
  if (!std::all_of(spec->axes.begin() + 1, spec->axes.end() - 1, unsplit)) return false;
  return unsplit(spec->axes[0]) || spec->sizes[0] % spec->shape->sizes[static_cast<size_t>(spec->axes[0])] == 0;
}

// The factors of an einsum and the letters of its result, in small letters; nothing for an equation with an ellipsis, a
// repeated letter within a factor, or axes that broadcast.
std::optional<std::pair<std::vector<Labelled>, std::string>> parse(c10::string_view equation, at::TensorList tensors) {
  std::string known, result;
  std::vector<std::string> letters{""};
  bool explicit_result = false;
  for (size_t i = 0; i < equation.size(); ++i) {
    const char c = equation[i];
    if (c == ' ' || c == '>') continue;
    if (c == '-') {
      explicit_result = true;
    } else if (c == ',') {
      letters.emplace_back();
    } else {
      if (!std::isalpha(static_cast<unsigned char>(c))) return {};
      if (!contains(known, c)) known += c;
      std::string& target = explicit_result ? result : letters.back();
      if (contains(target, c)) return {};
      target += c;
    }
  }
  if (known.size() > 26 || letters.size() != tensors.size() || letters.size() < 2) return {};
  if (!explicit_result) {
    std::sort(known.begin(), known.end());
    for (const char c : known)
      if (std::count_if(letters.begin(), letters.end(), [c](const auto& text) { return contains(text, c); }) == 1)
        result += c;
  }
  const auto small = [&](std::string text) {
    for (char& c : text) c = static_cast<char>('a' + known.find(c));
    return text;
  };
  std::vector<int64_t> size(26, -1);
  std::vector<Labelled> factors;
  for (size_t i = 0; i < letters.size(); ++i) {
    factors.push_back({tensors[i], small(letters[i])});
    if (static_cast<size_t>(tensors[i].dim()) != letters[i].size()) return {};
    for (size_t axis = 0; axis < letters[i].size(); ++axis) {
      int64_t& known_size = size[static_cast<size_t>(factors[i].letters[axis] - 'a')];
      if (known_size >= 0 && known_size != tensors[i].size(static_cast<int64_t>(axis))) return {};
      known_size = tensors[i].size(static_cast<int64_t>(axis));
    }
  }
  return std::pair(std::move(factors), small(result));
}

// Where a factor has no elements, which type the result has of several is LibTorch's secret. A sum of small integers or
// booleans, which a factor may become first, is one of another type.
bool has_types_of_nothing(at::TensorList tensors) {
  const auto differs = [&](const Tensor& tensor) {
    return tensor.scalar_type() != tensors[0].scalar_type() ||
           (tensor.scalar_type() != at::kLong && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true));
  };
  const auto is_empty = [](const Tensor& tensor) { return tensor.numel() == 0; };
  return std::any_of(tensors.begin(), tensors.end(), is_empty) && std::any_of(tensors.begin(), tensors.end(), differs);
}

Tensor einsum(c10::string_view equation, at::TensorList tensors, at::OptionalIntArrayRef path) {
  if (!std::all_of(tensors.begin(), tensors.end(), is_whole) && !has_types_of_nothing(tensors))
    if (auto parsed = parse(equation, tensors))
      return product_of(std::move(parsed->first), parsed->second, /*matrices=*/false);
  return at::native::einsum(equation, tensors, path);
}

// A factor of matmul: its batch axes lettered from the right, without those of size 1 that broadcast.
Labelled factor(Tensor tensor, const Tensor& other, const std::string& matrix) {
  int64_t batch = std::max<int64_t>(tensor.dim() - static_cast<int64_t>(matrix.size()), 0);
  const int64_t batch_of_other = std::max<int64_t>(other.dim() - 2, 0);
  std::string letters;
  for (int64_t axis = 0, from_right = batch; axis < batch; --from_right) {
    const bool broadcasts =
        tensor.size(axis) == 1 && from_right <= batch_of_other && other.size(batch_of_other - from_right) != 1;
    if (broadcasts) {
      tensor = tensor.squeeze(axis);
      --batch;
    } else {
      letters += static_cast<char>('a' + from_right - 1);
      ++axis;
    }
  }
  return {tensor, letters + matrix};
}

Tensor matmul(const Tensor& self, const Tensor& other) {
  const int64_t rank = std::max(self.dim(), other.dim());
  const bool folds = other.dim() <= 2 ? folds_in_place(self) : is_whole(self) && is_whole(other);
  if (rank <= 2 || rank > 20 || std::min(self.dim(), other.dim()) == 0 || folds || self.scalar_type() == at::kBool ||
      self.scalar_type() != other.scalar_type() || self.size(-1) != other.size(other.dim() == 1 ? 0 : -2))
    return at::native::matmul(self, other);
  const Labelled a = factor(self, other, self.dim() == 1 ? "y" : "xy");
  const Labelled b = factor(other, self, other.dim() == 1 ? "y" : "yz");
  std::string result;
  for (char letter = static_cast<char>('a' + rank - 3); letter >= 'a'; --letter)
    if (contains(a.letters + b.letters, letter)) result += letter;
  if (self.dim() > 1) result += 'x';
  if (other.dim() > 1) result += 'z';
  return product_of({a, b}, result, /*matrices=*/true).contiguous();
}

Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) {
  const auto is_of_type = [&](const Tensor& tensor) { return tensor.scalar_type() == input.scalar_type(); };
  const auto fits_rows = [&] {
    return !bias || !bias->defined() ||
           (is_of_type(*bias) && at::is_expandable_to(bias->sizes(), weight.sizes().slice(0, 1)));
  };
  if (folds_in_place(input) || weight.dim() != 2 || !is_of_type(weight) || !fits_rows() ||
      input.size(-1) != weight.size(1) || input.dim() > 20)
    return at::native::linear(input, weight, bias);
  const Labelled a = factor(input, weight, "xy");
  std::string result = a.letters;
  result.back() = 'z';
  const Tensor product = product_of({a, {weight, "zy"}}, result, /*matrices=*/true).contiguous();
  return bias && bias->defined() ? product.add(*bias) : product;
}

}  // namespace

void register_contractions() {
  auto& autograd = immortal_library("aten", kMeshAutogradKey);
  autograd.impl("einsum", einsum);
  autograd.impl("matmul", matmul);
  autograd.impl("linear", linear);
}

}  // namespace tutti
