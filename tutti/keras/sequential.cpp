#include "tutti/keras/sequential.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras {
namespace {

class SequentialImpl : public ModelImpl {
 public:
  SequentialImpl(std::vector<layers::Layer> layers, std::string name)
      : ModelImpl("Sequential", std::move(name)), layers_(std::move(layers)) {
    for (auto layer = layers_.begin(); layer != layers_.end(); ++layer) name_uniquely(*layer, {layers_.begin(), layer});
  }

  void build(const Shape& input_shape) override {
    Shape shape = input_shape;
    if (!shape.empty()) shape[0] = kUnknown;
    for (const layers::Layer& layer : layers_) {
      try {
        layer.build(shape);
        shape = layer.compute_output_shape(shape);
      } catch (const Error& error) {
        throw Error(error.code(), str(error.what(), origin_of_input()), error.location());
      }
      output_shapes_.push_back(shape);
      track_layer(*layer.impl());
    }
  }

  Tensor call(const Tensor& x, const layers::CallOptions& options) const override {
    Tensor value = x;
    for (const layers::Layer& layer : layers_) value = layer(value, options);
    return value;
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    Shape shape = input_shape;
    for (const layers::Layer& layer : layers_) shape = layer.compute_output_shape(shape);
    return shape;
  }

  Summary summary() const override {
    Summary summary{.model_name = name()};
    for (size_t i = 0; i < layers_.size(); ++i)
      summary.rows.push_back(
          summary_row(*layers_[i].impl(), built() ? std::optional(output_shapes_[i]) : std::nullopt));
    add_totals(summary);
    return summary;
  }

 private:
  // Gives `layer` a name that none of the layers before it has.
  void name_uniquely(const layers::Layer& layer, std::span<const layers::Layer> before) const {
    const auto taken = [&](const std::string& name) {
      return std::ranges::any_of(before, [&](const layers::Layer& other) { return other.name() == name; });
    };
    if (!layer.impl()->has_default_name()) {
      if (taken(layer.name())) refuse(str("two layers are called \"", layer.name(), "\"; names must be unique"));
      return;
    }
    std::string name = layer.name();
    for (int number = 1; taken(name); ++number) name = str(layer.name(), '_', number);
    layer.impl()->rename(name);
  }

  // For the error of the layer that is being built.
  std::string origin_of_input() const {
    if (output_shapes_.empty()) return " (the model's input)";
    const layers::Layer& previous = layers_[output_shapes_.size() - 1];
    return str(" (the output of ", previous.name(), ')');
  }

  std::vector<layers::Layer> layers_;
  std::vector<Shape> output_shapes_;  // of the layers built so far
};

}  // namespace

Sequential::Sequential(std::initializer_list<layers::Layer> layers, std::string name)
    : Sequential(std::vector(layers), std::move(name)) {}

Sequential::Sequential(std::vector<layers::Layer> layers, std::string name)
    : Model(std::make_shared<SequentialImpl>(std::move(layers), std::move(name))) {}

}  // namespace tutti::keras
