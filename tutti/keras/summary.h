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
};

struct SummaryTotals {
  int64_t num = 0;
  int64_t num_bytes = 0;
};

struct Summary {
  std::string model_name;
  std::vector<SummaryRow> rows;
  SummaryTotals trainable;
  SummaryTotals non_trainable;
  std::optional<SummaryTotals> optimizer;  // once it has state
};

// A layer's line of the table.
SummaryRow summary_row(const layers::LayerImpl& layer, const std::optional<Shape>& output_shape);

// The totals over the weights that are trainable, or over the others.
SummaryTotals weight_totals(const std::vector<layers::Weight>& weights, bool trainable);

// Writes the table that Keras 3 prints.
std::ostream& operator<<(std::ostream& out, const Summary& summary);

}  // namespace tutti::keras
