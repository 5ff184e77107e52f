#pragma once

#include <map>
#include <string>
#include <variant>

#include "tutti/data/columns.h"
#include "tutti/data/parse_example.h"

namespace tutti::data {

using FeatureSpec = std::variant<FixedLenFeature<float>, FixedLenFeature<int64_t>, FixedLenFeature<std::string>,
                                 VarLenFeature<float>, VarLenFeature<int64_t>, VarLenFeature<std::string>>;

// What is to be read of each Example, by the features' names.
using ParseSpec = std::map<std::string, FeatureSpec>;

// "FixedLenFeature<float>([2], default [1, 2])"
std::string to_string(const FeatureSpec& spec);
bool operator==(const FeatureSpec& a, const FeatureSpec& b);

// The features of serialized Examples as columns; of a VarLenFeature they have the lengths too.
// Throws: as parse_example of a list of features. TF: tf.io.parse_example with a dictionary.
Columns parse_example(const Strings& batch, const ParseSpec& spec);

}  // namespace tutti::data
