#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct CircleOptions {
  double gamma = 80;            // the scale of similarities
  double margin = 0.4;          // how far apart the similarities within and between classes are to be
  bool remove_diagonal = true;  // a sample is not compared with itself
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "circle";
};

// Draws embeddings of one class together and those of others apart, each pair weighted by how far it is from its aim.
// Every sample is compared with all of the global batch; those with value 0 do not count in a mean.
// Shapes: labels, whole numbers, [N] or [N, 1]; predictions [N, features] of length 1. Ranks: all replicas.
// TF: tf.keras.losses.Circle. Source: Sun et al., Circle Loss, 2020
class Circle : public Loss {
 public:
  explicit Circle(const CircleOptions& options = {});
};

}  // namespace tutti::keras::losses
