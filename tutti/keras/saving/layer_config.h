#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/str.h"
#include "tutti/keras/activations.h"
#include "tutti/keras/constraints.h"
#include "tutti/keras/initializers.h"
#include "tutti/keras/regularizers.h"
#include "tutti/keras/shape.h"

namespace tutti::keras {

// The options of a layer in a .keras file, by Keras's names for them, when it is read or when it is written. `option`
// goes both ways, so that a class needs one list of its options:
//
//   void list_options(keras::LayerConfig& config, ScaleOptions& options) {
//     config.option("factor", options.factor);
//     config.option("axis", options.axis);
//   }
//
// Of a file that is read, what nobody takes is an error, but for options that are null, and initializers, as every
// weight is in the file. Throws, from every member that takes an option: data_loss for one of another type;
// unimplemented for one that is not there.
class LayerConfig {
 public:
  // To read: `json` is an object; `layer` begins messages: "m.keras: the layer dense (Dense)". `calls`: what all calls
  // of the layer say beside their inputs.
  LayerConfig(std::string_view json, std::string layer, std::map<std::string, std::string> calls = {});
  // To write.
  explicit LayerConfig(std::string layer);
  bool is_written() const { return is_written_; }

  // --- Both ways: puts the option of a file that is read into `value`, or `value` into one that is written.
  void option(const std::string& name, int64_t& value);
  void option(const std::string& name, double& value);  // finite
  void option(const std::string& name, bool& value);
  void option(const std::string& name, std::string& value);
  void option(const std::string& name, Shape& value);     // null is kUnknown
  void option(const std::string& name, uint64_t& value);  // at most 2^63 - 1 where it is read
  // Keras's own, with its parameters. Throws, where it is written: unimplemented for another function, as Python
  // lacks it.
  void option(const std::string& name, activations::Activation& value);
  void option(const std::string& name, initializers::Initializer& value);
  void option(const std::string& name, std::optional<regularizers::Regularizer>& value);
  void option(const std::string& name, std::optional<constraints::Constraint>& value);
  // Nothing is null, or not there.
  template <class Value>
  void option(const std::string& name, std::optional<Value>& value);
  // One extent for each axis.
  template <size_t Rank>
  void option(const std::string& name, std::array<int64_t, Rank>& value);
  template <size_t Rank, size_t Columns>
  void option(const std::string& name, std::array<std::array<int64_t, Columns>, Rank>& value);
  // One of these.
  template <class Value>
  using Names = std::vector<std::pair<const char*, Value>>;
  template <class Value>
  void option(const std::string& name, Value& value, const Names<Value>& names);
  // Whole numbers as they are, -1 too; and where one of them stands for a list of it.
  void integers(const std::string& name, std::vector<int64_t>& value);
  void axes(const std::string& name, std::vector<int64_t>& value);
  // A list of numbers, one number, or a tensor of one axis; null is none of them, or the values that there are.
  void numbers(const std::string& name, std::vector<double>& value);
  // What Keras says in calls of a layer and not in its options; false unless a file says so.
  void call_option(const std::string& name, bool& value);

  // --- To read.
  bool has(const std::string& option) const;  // and it is not null
  bool says(const std::string& option) const { return options_.contains(option); }
  int64_t integer(const std::string& option);
  double number(const std::string& option);
  bool boolean(const std::string& option);
  std::string text(const std::string& option);
  Shape shape(const std::string& option);                    // null is kUnknown
  std::string json(const std::string& option);               // as it is
  std::vector<std::string> list(const std::string& option);  // of elements as they are

  // Takes options that this layer has in one value alone, and that files may lack: {{"unroll", "false"}}. They are not
  // written. Throws: unimplemented for another value.
  void require(const std::map<std::string, std::string>& values);
  // Takes options that change nothing here.
  void skip(std::initializer_list<const char*> options);

  // From here on `option` leaves a value as it is where a file lacks the option; null is there.
  void keep_defaults() { keeps_defaults_ = true; }

  // Throws: unimplemented, by name, for options that nothing took.
  void finish() const;

  // --- To write.
  void put(const std::string& option, std::string json);
  const std::map<std::string, std::string>& options() const { return options_; }
  const std::map<std::string, std::string>& calls() const { return calls_; }

  const std::string& layer() const { return layer_; }
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const std::string& take(const std::string& option);
  bool is_default(const std::string& option) const {
    return keeps_defaults_ && !is_written_ && !options_.contains(option);
  }

  std::string layer_;
  bool is_written_;
  bool keeps_defaults_ = false;
  std::map<std::string, std::string> options_;  // by name, their JSON
  std::map<std::string, std::string> calls_;
  std::set<std::string> taken_;
};

// The members of a JSON object, and the elements of an array, as they are. `source` begins messages. Throws: data_loss.
std::map<std::string, std::string> json_members(std::string_view object, std::string_view source);
std::vector<std::string> json_elements(std::string_view array, std::string_view source);
// And back.
std::string json_object(const std::map<std::string, std::string>& members);
std::string json_array(const std::vector<std::string>& elements);
std::string json_shape(const Shape& shape);  // kUnknown is null

// --- Only definitions below.

template <class Value>
void LayerConfig::option(const std::string& name, std::optional<Value>& value) {
  if (is_default(name)) return;
  if (is_written_ ? !value : !has(name)) {
    is_written_ ? put(name, "null") : value.reset();
    return;
  }
  Value one = value.value_or(Value());
  option(name, one);
  value = one;
}

template <size_t Rank>
void LayerConfig::option(const std::string& name, std::array<int64_t, Rank>& value) {
  Shape extents(value.begin(), value.end());
  option(name, extents);
  if (extents.size() != Rank) refuse(str("has ", name, " of ", extents.size(), " numbers; ", Rank, " are expected"));
  std::ranges::copy(extents, value.begin());
}

template <size_t Rank, size_t Columns>
void LayerConfig::option(const std::string& name, std::array<std::array<int64_t, Columns>, Rank>& value) {
  std::vector<std::string> rows;
  for (const auto& row : value) rows.push_back(json_shape({row.begin(), row.end()}));
  if (is_written_) return put(name, json_array(rows));
  rows = list(name);
  if (rows.size() != Rank) refuse(str("has ", name, " of ", rows.size(), " lists; ", Rank, " are expected"));
  for (size_t i = 0; i < Rank; ++i) LayerConfig(json_object({{name, rows[i]}}), layer_).option(name, value[i]);
}

template <class Value>
void LayerConfig::option(const std::string& name, Value& value, const Names<Value>& names) {
  if (is_default(name)) return;
  if (is_written_) {
    std::string own = std::ranges::find(names, value, &std::pair<const char*, Value>::second)->first;
    option(name, own);
    return;
  }
  const std::string own = text(name);
  const auto found = std::ranges::find(names, own, &std::pair<const char*, Value>::first);
  if (found == names.end()) refuse(str("has ", name, " = \"", own, "\", which is not supported"));
  value = found->second;
}

}  // namespace tutti::keras
