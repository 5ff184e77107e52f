#include "tutti/keras/shape.h"

#include <ATen/core/Tensor.h>

namespace tutti::keras {

std::string to_string(c10::IntArrayRef shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += shape[i] == kUnknown ? "None" : std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  shapes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) shapes.push_back(tensor.sizes().vec());
  return shapes;
}

}  // namespace tutti::keras
