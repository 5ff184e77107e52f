#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tutti::saved_model::onnx {

// The set of ONNX's operators that is written: what those of later sets say of them otherwise does not count. It is the
// first that has LayerNormalization.
inline constexpr int64_t kOpset = 17;

struct Attribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<std::string>> value;
};
using Attributes = std::vector<Attribute>;

struct Node {
  std::string op;
  std::vector<std::string> inputs;  // "": one that is left out
  std::vector<std::string> outputs;
  Attributes attributes;
};

// Bytes in a file that lies beside the model's.
struct FilePlace {
  std::string file;
  uint64_t offset = 0;
};

struct Initializer {
  std::string name;
  int32_t data_type = 0;  // by ONNX's numbers
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;
  std::optional<FilePlace> place = {};  // where the bytes are read from
};

struct ValueInfo {
  std::string name;
  int32_t data_type = 0;
  std::vector<std::variant<int64_t, std::string>> dims;  // an extent, or its name; "" for one without
};

// A model with one graph, as plain data. Each name of a value comes once, and its node before those that read it.
struct Model {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Initializer> initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
};

// What a .onnx file holds. Throws: resource_exhausted where that is more than the 2 GiB that protobuf allows.
std::string serialize(const Model& model);

}  // namespace tutti::saved_model::onnx
