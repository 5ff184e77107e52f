#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras {

struct SummaryRow {
  std::string layer;         // "dense (Dense)"
  std::string output_shape;  // "(None, 10)"; "?" before the layer is built
  std::string num_params;    // "650"; "0 (unbuilt)"
  std::vector<std::string> connected_to =
      {};  // "dense[0][0]": in a graph, the calls and outputs that the layer is called on
};

struct SummaryTotals {
  int64_t num = 0;
  int64_t num_bytes = 0;
};

struct Summary {
  std::string model_name;
  bool shows_connections = false;
  std::vector<SummaryRow> rows = {};
  SummaryTotals trainable = {};
  SummaryTotals non_trainable = {};
  std::optional<SummaryTotals> optimizer = {};  // once it has state
  int64_t num_devices = 1;
  int64_t num_bytes_per_device = 0;  // of the weights, on the device that has most
};

// A layer's line of the table.
SummaryRow summary_row(const layers::LayerImpl& layer, const std::optional<Shape>& output_shape);

// The totals over these weights.
SummaryTotals weight_totals(const std::vector<layers::Weight>& weights);

// Sets how many devices the weights lie on, and what the first, which has the most, holds of them.
void count_devices(const std::vector<layers::Weight>& weights, Summary& summary);

// Writes the table that Keras 3 prints.
std::ostream& operator<<(std::ostream& out, const Summary& summary);

}  // namespace tutti::keras
