#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/data/dataset.h"
#include "tutti/data/example.h"

namespace tutti::data {

template <class T>
concept FeatureValue = std::same_as<T, float> || std::same_as<T, int64_t> || std::same_as<T, std::string>;

// As many values as the shape has, in each Example: a Tensor, or Strings for T = std::string. TF:
// tf.io.FixedLenFeature.
template <FeatureValue T>
struct FixedLenFeature {
  std::string name;
  std::vector<int64_t> shape = {};
  std::vector<T> default_value =
      {};  // for an Example without the feature, one or as many as in the shape; none: required
};

// Any number of values, none for an Example without the feature. TF: tf.io.VarLenFeature.
template <FeatureValue T>
struct VarLenFeature {
  std::string name;
  T padding_value = {};
};

// The values of a VarLenFeature in a batch: rows that stay together through batch, shuffle and distribute, where
// TensorFlow has a sparse tensor.
template <class Values>
struct PaddedFeature {
  Values values;   // [batch, longest], padded at the end of each row
  Tensor lengths;  // int64 [batch]: how many there were

  auto parts() { return std::tie(values, lengths); }
};

namespace parse_example_internal {

struct Column {
  std::string name;
  bool variable;
  std::vector<int64_t> shape;
  Feature fill;  // the default or the padding; of the column's type
};

template <class T>
Column column(const FixedLenFeature<T>& feature) {
  return {feature.name, false, feature.shape, feature.default_value};
}
template <class T>
Column column(const VarLenFeature<T>& feature) {
  return {feature.name, true, {}, std::vector<T>{feature.padding_value}};
}

template <class T>
using Values = std::conditional_t<std::same_as<T, std::string>, Strings, Tensor>;

template <class F>
struct Result;
template <class T>
struct Result<FixedLenFeature<T>> {
  using Single = Values<T>;
  using Batch = Values<T>;
};
template <class T>
struct Result<VarLenFeature<T>> {
  using Single = Values<T>;
  using Batch = PaddedFeature<Values<T>>;
};

// The leaves of a batch, two for a variable column; of one record, one for each column.
std::vector<graph::Leaf> parse_batch(const Strings& records, const std::vector<Column>& columns);
std::vector<graph::Leaf> parse_single(const Strings& record, const std::vector<Column>& columns);

}  // namespace parse_example_internal

// The features of serialized Examples, batch [n], with n rows each: what the argument's feature gives, or the tuple of
// what the arguments' do. Features that are not asked for are passed over.
// Throws: invalid_argument, with the record and the feature, for bytes that are no Example, a feature that is required
// and not there, or one of another type or number of values. TF: tf.io.parse_example.
//
//   records.batch(64).map([](const Strings& batch) {
//     return parse_example(batch, FixedLenFeature<float>{"x", {28, 28}}, FixedLenFeature<int64_t>{"label"});
//   });
template <class... Features>
auto parse_example(const Strings& batch, const Features&... features) {
  using namespace parse_example_internal;
  using T = typename dataset_internal::Joined<typename Result<Features>::Batch...>::type;
  return from_element<T>(graph::Element(parse_batch(batch, {column(features)...})));
}

// The same of one Example, a scalar, without the axis of the batch; a VarLenFeature gives its values [n].
// TF: tf.io.parse_single_example.
template <class... Features>
auto parse_single_example(const Strings& record, const Features&... features) {
  using namespace parse_example_internal;
  using T = typename dataset_internal::Joined<typename Result<Features>::Single...>::type;
  return from_element<T>(graph::Element(parse_single(record, {column(features)...})));
}

}  // namespace tutti::data
