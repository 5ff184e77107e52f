#include "tutti/keras/summary.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>

#include "tutti/core/str.h"
#include "tutti/mesh/layout.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras {
namespace {

using Widths = std::vector<size_t>;
using Cells = std::vector<std::string>;

// "1,234,567"
std::string with_separators(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// "4.68 KB"
std::string readable_bytes(int64_t num_bytes) {
  static constexpr std::array kUnits{"B", "KB", "MB", "GB", "TB"};
  auto amount = static_cast<double>(num_bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << amount << ' ' << kUnits[unit];
  return out.str();
}

// A horizontal line: left, cells of `fill` joined by `middle`, right.
void write_line(std::ostream& out, const Widths& widths, const std::array<const char*, 4>& pieces) {
  const auto& [left, fill, middle, right] = pieces;
  for (size_t column = 0; column < widths.size(); ++column) {
    out << (column == 0 ? left : middle);
    for (size_t i = 0; i < widths[column] + 2; ++i) out << fill;
  }
  out << right << '\n';
}

constexpr size_t kNumParamsColumn = 2;  // its cells are aligned to the right

void write_cells(std::ostream& out, const Widths& widths, const Cells& cells, const char* bar) {
  for (size_t column = 0; column < widths.size(); ++column)
    out << bar << ' ' << (column == kNumParamsColumn ? std::right : std::left)
        << std::setw(static_cast<int>(widths[column])) << cells[column] << ' ';
  out << bar << '\n';
}

// The lines of a row: one, or one for each connection.
std::vector<Cells> lines_of(const SummaryRow& row, bool shows_connections) {
  std::vector<Cells> lines{{row.layer, row.output_shape, row.num_params}};
  if (!shows_connections) return lines;
  lines[0].push_back(row.connected_to.empty() ? "-" : row.connected_to[0]);
  for (size_t i = 1; i < row.connected_to.size(); ++i) lines.push_back({"", "", "", row.connected_to[i]});
  return lines;
}

void write_totals(std::ostream& out, const char* title, const SummaryTotals& totals) {
  out << ' ' << title << " params: " << with_separators(totals.num) << " (" << readable_bytes(totals.num_bytes)
      << ")\n";
}

SummaryTotals sum(const SummaryTotals& a, const SummaryTotals& b) { return {a.num + b.num, a.num_bytes + b.num_bytes}; }

}  // namespace

SummaryRow summary_row(const layers::LayerImpl& layer, const std::optional<Shape>& output_shape) {
  int64_t num_params = 0;
  for (const layers::Weight& weight : layer.weights()) num_params += weight.value.numel();
  return {.layer = str(layer.name(), " (", layer.type(), ')'),
          .output_shape = output_shape ? to_string(*output_shape) : "?",
          .num_params = layer.built() ? with_separators(num_params) : "0 (unbuilt)"};
}

SummaryTotals weight_totals(const std::vector<layers::Weight>& weights) {
  SummaryTotals totals;
  for (const layers::Weight& weight : weights)
    totals =
        sum(totals, {weight.value.numel(), weight.value.numel() * static_cast<int64_t>(weight.value.element_size())});
  return totals;
}

void count_devices(const std::vector<layers::Weight>& weights, Summary& summary) {
  for (const layers::Weight& weight : weights) {
    int64_t num = weight.value.numel();
    if (is_mesh_tensor(weight.value)) {
      const Layout layout = layout_of(weight.value);
      summary.num_devices = std::max(summary.num_devices, layout.mesh().num_devices());
      num = c10::multiply_integers(layout.local_shape_from_global_shape(weight.value.sizes().vec()));
    }
    summary.num_bytes_per_device += num * static_cast<int64_t>(weight.value.element_size());
  }
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) {
  Cells header{"Layer (type)", "Output Shape", "Param #"};
  Widths widths{31, 22, 13};  // Keras's, on a terminal of 80 columns
  if (summary.shows_connections) {
    header.emplace_back("Connected to");
    widths = {19, 17, 10, 17};
  }
  std::vector<std::vector<Cells>> rows;
  for (const SummaryRow& row : summary.rows)
    for (const Cells& line : rows.emplace_back(lines_of(row, summary.shows_connections)))
      for (size_t column = 0; column < widths.size(); ++column)
        widths[column] = std::max(widths[column], line[column].size());

  out << "Model: \"" << summary.model_name << "\"\n";
  write_line(out, widths, {"┏", "━", "┳", "┓"});
  write_cells(out, widths, header, "┃");
  write_line(out, widths, {"┡", "━", "╇", "┩"});
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) write_line(out, widths, {"├", "─", "┼", "┤"});
    for (const Cells& line : rows[i]) write_cells(out, widths, line, "│");
  }
  write_line(out, widths, {"└", "─", "┴", "┘"});

  const SummaryTotals optimizer = summary.optimizer.value_or(SummaryTotals{});
  write_totals(out, "Total", sum(sum(summary.trainable, summary.non_trainable), optimizer));
  write_totals(out, "Trainable", summary.trainable);
  write_totals(out, "Non-trainable", summary.non_trainable);
  if (summary.optimizer) write_totals(out, "Optimizer", optimizer);
  if (summary.num_devices > 1)
    out << " Weights on each of " << summary.num_devices << " devices: " << readable_bytes(summary.num_bytes_per_device)
        << '\n';
  return out;
}

}  // namespace tutti::keras
