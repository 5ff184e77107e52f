#include "tutti/function/print.h"

#include <ATen/core/Formatting.h>

#include <charconv>
#include <iostream>

#include "tutti/tensor/call_recorder.h"

namespace tutti::function_internal {
namespace {

constexpr int64_t kPrintedAtEnds = 3;

template <class Number>
std::string shortest(Number number) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string text_of_number(const Tensor& element) {
  const at::Scalar number = element.item();
  if (number.isBoolean()) return number.toBool() ? "true" : "false";
  if (number.isComplex()) {
    const auto complex = number.toComplexDouble();
    return '(' + shortest(complex.real()) + ',' + shortest(complex.imag()) + ')';
  }
  if (!number.isFloatingPoint())
    return element.scalar_type() == at::kUInt64 ? shortest(number.toUInt64()) : shortest(number.toLong());
  return element.scalar_type() == at::kDouble ? shortest(number.toDouble()) : shortest(number.toFloat());
}

// Rows of the last axis are lines; `depth` axes were gone through.
void append(std::string& text, const Tensor& tensor, int64_t depth) {
  if (tensor.dim() == 0) {
    text += text_of_number(tensor);
    return;
  }
  const auto begin_element = [&](int64_t i) {
    if (i == 0) return;
    text.append(static_cast<size_t>(tensor.dim() - 1), '\n');
    text.append(tensor.dim() == 1 ? 1 : static_cast<size_t>(depth + 1), ' ');
  };
  text += '[';
  for (int64_t i = 0, size = tensor.size(0); i < size; ++i) {
    begin_element(i);
    if (i == kPrintedAtEnds && size > 2 * kPrintedAtEnds) {
      text += "...";
      i = size - kPrintedAtEnds;
      begin_element(i);
    }
    append(text, tensor.select(0, i), depth + 1);
  }
  text += ']';
}

std::string text_of_tensor(const Tensor& tensor) {
  if (!tensor.is_sparse() && tensor.layout() == at::kStrided && !tensor.is_quantized()) {
    std::string text;
    append(text, tensor, 0);
    return text;
  }
  return tutti::str(tensor);
}

}  // namespace

std::ostream& standard_error() { return std::cerr; }

void print(std::ostream& out, const std::vector<Printed>& parts) {
  std::vector<Tensor> tensors;
  std::vector<std::string> texts;  // before each tensor, and behind the last
  texts.emplace_back();
  bool first = true;
  for (const Printed& part : parts) {
    if (!std::exchange(first, false)) texts.back() += ' ';
    if (const auto* const text = std::get_if<std::string>(&part)) {
      texts.back() += *text;
    } else if (const Tensor& tensor = std::get<Tensor>(part); tensor.defined()) {
      tensors.push_back(tensor.detach());
      texts.emplace_back();
    } else {
      texts.back() += "undefined";
    }
  }
  texts.back() += '\n';
  host_step("print", tensors, {}, [&out, texts](at::ArrayRef<Tensor> now) {
    std::string line;
    for (size_t i = 0; i < now.size(); ++i) line += texts[i] + text_of_tensor(now[i]);
    out << line + texts.back() << std::flush;
  });
}

}  // namespace tutti::function_internal
