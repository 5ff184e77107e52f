#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras {

// Where the layers that a thread makes find their weights, by name, while it is in force: so a function that makes its
// layers anew each time it is called computes with the same weights each time, as a graph that is made once does.
// Layers that were made elsewhere have weights of their own.
class WeightSource {
 public:
  // Null outside of guards.
  static WeightSource* current();

  // The name of a layer that is being made: "dense", of the next one "dense_1".
  virtual std::string name_layer(const std::string& name) = 0;
  // The weight of a path such as "dense/kernel"; the first time it is what `make` returns, called in global view, in
  // the strategy's scope. Ranks: all replicas, in the same order.
  // Throws: failed_precondition for a weight of another shape.
  virtual Tensor weight(const std::string& path, const std::vector<int64_t>& shape, bool trainable,
                        const std::function<Tensor()>& make) = 0;
  // Those that were asked for so far and are trained.
  virtual std::vector<Tensor> trainable_variables() const = 0;

 protected:
  ~WeightSource() = default;
};

// Puts a source in force on this thread while it lives.
class WeightSourceGuard {
 public:
  explicit WeightSourceGuard(WeightSource& source);
  ~WeightSourceGuard();
  WeightSourceGuard(const WeightSourceGuard&) = delete;
  WeightSourceGuard& operator=(const WeightSourceGuard&) = delete;

 private:
  WeightSource* outer_;
};

}  // namespace tutti::keras
