#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tutti::keras {

// What is said about the outputs of a model: the same about all, something about each in their order, or by their
// names:
//   .loss = losses::MeanSquaredError()
//   .loss = {losses::MeanSquaredError(), losses::BinaryCrossentropy()}
//   .loss = {{"age", losses::MeanSquaredError()}, {"spam", losses::BinaryCrossentropy()}}
template <class T>
class PerOutput {
 public:
  PerOutput() = default;
  template <std::convertible_to<T> Value>
  PerOutput(const Value& value) : for_all_(true), values_{value} {}
  PerOutput(std::vector<T> values) : values_(std::move(values)) {}
  PerOutput(std::initializer_list<T> values) : values_(values) {}
  PerOutput(std::initializer_list<std::pair<const std::string, T>> by_name) : by_name_(by_name) {}
  static PerOutput of_names(std::map<std::string, T> by_name) {
    PerOutput all;
    all.by_name_ = std::move(by_name);
    return all;
  }

  bool empty() const { return values_.empty() && by_name_.empty(); }
  bool for_all() const { return for_all_; }
  const std::vector<T>& values() const { return values_; }
  const std::map<std::string, T>& by_name() const { return by_name_; }

 private:
  bool for_all_ = false;
  std::vector<T> values_;
  std::map<std::string, T> by_name_;
};

}  // namespace tutti::keras
