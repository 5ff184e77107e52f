#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "tutti/keras/model.h"

namespace tutti::keras {

// A model that is a chain of layers. Layers without a name get one that is unique in the model: "dense", "dense_1". One
// that another model has named keeps that name.
// TF: tf.keras.Sequential
class Sequential : public Model {
 public:
  // Throws: invalid_argument if a layer or a given name occurs twice.
  explicit Sequential(std::initializer_list<layers::Layer> layers, std::string name = {});
  explicit Sequential(std::vector<layers::Layer> layers, std::string name = {});
};

}  // namespace tutti::keras
