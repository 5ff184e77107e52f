#include "tutti/keras/summary.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>

#include "tutti/core/str.h"

namespace tutti::keras {
namespace {

using Widths = std::array<size_t, 3>;

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

void write_cells(std::ostream& out, const Widths& widths, const SummaryRow& row, const char* bar) {
  out << bar << ' ' << std::left << std::setw(static_cast<int>(widths[0])) << row.layer << ' ' << bar << ' '
      << std::setw(static_cast<int>(widths[1])) << row.output_shape << ' ' << bar << ' ' << std::right
      << std::setw(static_cast<int>(widths[2])) << row.num_params << ' ' << bar << '\n';
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

SummaryTotals weight_totals(const std::vector<layers::Weight>& weights, bool trainable) {
  SummaryTotals totals;
  for (const layers::Weight& weight : weights)
    if (weight.trainable == trainable)
      totals =
          sum(totals, {weight.value.numel(), weight.value.numel() * static_cast<int64_t>(weight.value.element_size())});
  return totals;
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) {
  const SummaryRow header{.layer = "Layer (type)", .output_shape = "Output Shape", .num_params = "Param #"};
  Widths widths{31, 22, 13};  // Keras's, on a terminal of 80 columns
  for (const SummaryRow& row : summary.rows)
    widths = {std::max(widths[0], row.layer.size()), std::max(widths[1], row.output_shape.size()),
              std::max(widths[2], row.num_params.size())};

  out << "Model: \"" << summary.model_name << "\"\n";
  write_line(out, widths, {"┏", "━", "┳", "┓"});
  write_cells(out, widths, header, "┃");
  write_line(out, widths, {"┡", "━", "╇", "┩"});
  for (size_t i = 0; i < summary.rows.size(); ++i) {
    if (i > 0) write_line(out, widths, {"├", "─", "┼", "┤"});
    write_cells(out, widths, summary.rows[i], "│");
  }
  write_line(out, widths, {"└", "─", "┴", "┘"});

  const SummaryTotals optimizer = summary.optimizer.value_or(SummaryTotals{});
  write_totals(out, "Total", sum(sum(summary.trainable, summary.non_trainable), optimizer));
  write_totals(out, "Trainable", summary.trainable);
  write_totals(out, "Non-trainable", summary.non_trainable);
  if (summary.optimizer) write_totals(out, "Optimizer", optimizer);
  return out;
}

}  // namespace tutti::keras
