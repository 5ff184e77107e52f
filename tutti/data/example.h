#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tutti::data {

// The values of one feature; std::monostate has none and no type either. TF: tf.train.Feature, tf.train.BytesList,
// tf.train.FloatList, tf.train.Int64List.
using BytesList = std::vector<std::string>;
using FloatList = std::vector<float>;
using Int64List = std::vector<int64_t>;
using Feature = std::variant<std::monostate, BytesList, FloatList, Int64List>;

// What a record of a file usually holds: values by name. Names are UTF-8, or TensorFlow refuses to read them. TF:
// tf.train.Example.
struct Example {
  std::map<std::string, Feature> features;

  // The protocol buffer, with the features in the order of their names. Throws: invalid_argument for more than 2 GB.
  std::string serialize() const;
  // Of a name that comes twice the last feature counts. Throws: invalid_argument for bytes that are no Example.
  static Example parse(std::string_view bytes);

  bool operator==(const Example&) const = default;
};

// A sequence: features of each step, by name, and those of the whole. TF: tf.train.SequenceExample.
struct SequenceExample {
  std::map<std::string, Feature> context;
  std::map<std::string, std::vector<Feature>> feature_lists;

  // As those of Example.
  std::string serialize() const;
  static SequenceExample parse(std::string_view bytes);

  bool operator==(const SequenceExample&) const = default;
};

// Looks up features of one Example after the other without copying their values.
class ExampleReader {
 public:
  // A Feature where it lies; the types in the same order.
  using View = std::variant<std::monostate, std::span<const std::string* const>, std::span<const float>,
                            std::span<const int64_t>>;

  ExampleReader();
  ~ExampleReader();

  // Whether the bytes are an Example. What was found in the one before is gone.
  bool read(std::string_view bytes);
  // As monostate if it is not there.
  View find(std::string_view name) const;

 private:
  struct Message;
  std::unique_ptr<Message> message_;
};

}  // namespace tutti::data
