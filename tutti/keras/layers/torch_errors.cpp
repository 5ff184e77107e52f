#include <algorithm>
#include <string>

#include "tutti/core/str.h"
#include "tutti/keras/layers/torch_errors_internal.h"

namespace tutti::keras::layers {

void refuse_as(const LayerImpl& layer, const c10::Error& error, const std::vector<Tensor>& inputs) {
  std::string text = error.what_without_backtrace();
  text.resize(std::min(text.find('\n'), text.size()));
  const char* separator = "; the input is ";
  for (const Tensor& input : inputs) {
    text += str(separator, c10::toString(input.scalar_type()), ' ', to_string(input.sizes()));
    separator = ", ";
  }
  if (!layer.weights().empty())
    text += str("; the weights are ", c10::toString(layer.weights()[0].value.scalar_type()));
  layer.refuse(text);
}

}  // namespace tutti::keras::layers
