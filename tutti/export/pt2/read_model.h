#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::saved_model::pt2 {

// What an archive of torch.export says, as plain data: its schema (torch/_export/serde/schema.py) as far as it is read.

// A number, or an expression of sympy's.
struct Extent {
  int64_t value = 0;
  std::string expression = {};
};

struct TensorMeta {
  std::optional<at::ScalarType> dtype = {};  // none: one that LibTorch has no name for
  std::vector<Extent> sizes = {}, strides = {};
  Extent offset = {};
  bool requires_grad = false;
};

// An argument is of one kind, "as_ints", and has items of it; one that is none has no name.
struct GraphArgument {
  struct Item {
    std::string name = {};
    int64_t integer = 0;
    double number = 0;
  };
  std::string kind = {};
  std::vector<Item> items = {};
};

struct Node {
  struct Input {
    std::string name;
    GraphArgument argument;
  };
  std::string target = {};
  std::vector<Input> inputs = {};
  std::vector<GraphArgument> outputs = {};
};

struct InputSpec {
  std::string kind = {};  // "user_input", "parameter"
  GraphArgument argument = {};
  std::string target = {};  // the name of a parameter, a buffer or a constant
};

struct OutputSpec {
  std::string kind = {};
  GraphArgument argument = {};
};

struct SizeRange {
  int64_t least = 0;
  int64_t most = INT64_MAX;
};

struct Model {
  int64_t schema_major = 0;
  std::vector<Node> nodes = {};
  std::map<std::string, TensorMeta> tensors = {};
  std::vector<InputSpec> inputs = {};
  std::vector<OutputSpec> outputs = {};
  std::map<std::string, SizeRange> ranges = {};  // by symbol
  std::vector<std::string> guards = {};
  std::string out_spec = {};
};

// Where a weight or a constant lies.
struct Payload {
  std::string file = {};
  bool is_parameter = false;
  bool is_pickle = false;
  std::optional<TensorMeta> meta = {};
};

// `source` is the beginning of messages. Throws: data_loss for what is not of this form.
Model read_model(std::string_view text, const std::string& source);
std::map<std::string, Payload> read_payloads(std::string_view text, const std::string& source);

}  // namespace tutti::saved_model::pt2
