#include "tutti/keras/layers/core/einsum_dense.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class EinsumDenseImpl : public LayerImpl {
 public:
  explicit EinsumDenseImpl(const EinsumDenseOptions& options)
      : LayerImpl("EinsumDense", options.name), options_(options) {
    parse();
    for (const char letter : options_.bias_axes)
      if (output_.find(letter) == std::string::npos)
        refuse(str("bias_axes is \"", options_.bias_axes, "\"; its letters must be of the output, \"", output_, '"'));
    const size_t expected = output_.size() - (has_ellipsis_ ? 0 : 1);
    if (options_.output_shape.size() != expected)
      refuse(str("output_shape has ", options_.output_shape.size(), " extents; the output of \"", options_.equation,
                 "\" has ", expected, has_ellipsis_ ? " behind the ellipsis" : " without the batch"));
  }

  void build(const Shape& input_shape) override {
    const std::map<char, int64_t> extents = extents_for(input_shape);
    kernel_ = add_weight("kernel", shape_of(kernel_letters_, extents),
                         {.initializer = options_.kernel_initializer,
                          .regularizer = options_.kernel_regularizer,
                          .constraint = options_.kernel_constraint});
    if (options_.bias_axes.empty()) return;
    // From the first of its letters on an extent for each axis of the output, 1 where the bias is the same.
    const size_t first = output_.find_first_of(options_.bias_axes);
    Shape shape;
    for (const char letter : output_.substr(first))
      shape.push_back(options_.bias_axes.find(letter) == std::string::npos ? 1 : known(letter, extents));
    bias_ = add_weight("bias", shape,
                       {.initializer = options_.bias_initializer,
                        .regularizer = options_.bias_regularizer,
                        .constraint = options_.bias_constraint});
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    (void)extents_for(x.sizes().vec());
    const Tensor product = at::einsum(options_.equation, {x, kernel_});
    return options_.activation(bias_.defined() ? product + bias_ : product);
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    const std::map<char, int64_t> extents = extents_for(input_shape);
    Shape shape(input_shape.begin(), input_shape.end() - static_cast<std::ptrdiff_t>(input_.size()));
    for (const char letter : output_) shape.push_back(extents.at(letter));
    return shape;
  }

  bool supports_masking() const override { return true; }
  InputCast input_cast() const override { return InputCast::numbers; }

 private:
  // "...ab,bc->...ac" into the letters of input, kernel and output.
  void parse() {
    std::string equation;
    std::ranges::copy_if(options_.equation, std::back_inserter(equation), [](char c) { return c != ' '; });
    const size_t comma = equation.find(','), arrow = equation.find("->");
    if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) refuse_equation();
    input_ = equation.substr(0, comma);
    kernel_letters_ = equation.substr(comma + 1, arrow - comma - 1);
    output_ = equation.substr(arrow + 2);
    has_ellipsis_ = input_.starts_with("...");
    if (has_ellipsis_ != output_.starts_with("...")) refuse_equation();
    if (has_ellipsis_) {
      input_.erase(0, 3);
      output_.erase(0, 3);
    }
    for (const std::string* const letters : {&input_, &kernel_letters_, &output_})
      if (letters->empty() || !std::ranges::all_of(*letters, [](unsigned char c) { return std::isalpha(c) != 0; }))
        refuse_equation();
    for (const char letter : kernel_letters_ + output_)
      if (input_.find(letter) == std::string::npos &&
          (output_.find(letter) == std::string::npos || kernel_letters_.find(letter) == std::string::npos))
        refuse_equation();
  }

  [[noreturn]] void refuse_equation() const {
    refuse(str("the equation is \"", options_.equation,
               "\"; it must be of the form \"abc,cd->abd\", with or without \"...\" before the input and the output"));
  }

  // The extent of each letter of input and output; kUnknown where neither tells.
  std::map<char, int64_t> extents_for(const Shape& input_shape) const {
    const size_t rank = input_shape.size();
    if (has_ellipsis_ ? rank < input_.size() + 1 : rank != input_.size())
      refuse(str("the input has shape ", to_string(input_shape), "; the equation is \"", options_.equation, '"'));
    std::map<char, int64_t> extents;
    for (size_t i = 0; i < input_.size(); ++i) extents[input_[i]] = input_shape[rank - input_.size() + i];
    const size_t offset = output_.size() - options_.output_shape.size();
    for (size_t i = 0; i < output_.size(); ++i) {
      const int64_t wanted = i < offset ? kUnknown : options_.output_shape[i - offset];
      int64_t& extent = extents.try_emplace(output_[i], kUnknown).first->second;
      if (wanted != kUnknown && extent != kUnknown && wanted != extent)
        refuse(str("the input has shape ", to_string(input_shape), "; output_shape wants ", wanted, " for '",
                   output_[i], '\''));
      if (extent == kUnknown) extent = wanted;
    }
    return extents;
  }

  int64_t known(char letter, const std::map<char, int64_t>& extents) const {
    const int64_t extent = extents.at(letter);
    if (extent == kUnknown) refuse(str("the extent of '", letter, "' must be known when the layer is built"));
    return extent;
  }

  Shape shape_of(const std::string& letters, const std::map<char, int64_t>& extents) const {
    Shape shape;
    for (const char letter : letters) shape.push_back(known(letter, extents));
    return shape;
  }

  EinsumDenseOptions options_;
  bool has_ellipsis_ = false;
  std::string input_, kernel_letters_, output_;  // the letters, without an ellipsis
  Tensor kernel_;
  Tensor bias_;
};

}  // namespace

EinsumDense::EinsumDense(const EinsumDenseOptions& options)
    : Layer(std::make_shared<EinsumDenseImpl>(options), options) {}

}  // namespace tutti::keras::layers
