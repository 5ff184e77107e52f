#include "tutti/export/pt2/read_model.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/export/pt2/schema_codes.h"

namespace tutti::saved_model::pt2 {
namespace {

// Members that are not named here are skipped: torch.export adds some without another major version of its schema.
class ModelReader {
 public:
  ModelReader(std::string_view text, std::string_view source) : text_(text), json_(text, source) {}

  Model model();
  std::map<std::string, Payload> payloads();

 private:
  // Reads an object, of which `member` reads what it knows: it returns false for a key that it does not.
  template <class Member>
  void object(Member member) {
    json_.object([&](std::string_view key) {
      if (!member(key)) json_.skip();
    });
  }
  // Of an object with one member, which says what it is.
  template <class Read>
  void only_member(Read read) {
    int count = 0;
    json_.object([&](std::string_view key) {
      if (++count > 1) json_.fail("a value is of several kinds at once");
      read(std::string(key));
    });
    if (count == 0) json_.fail("a value is of no kind");
  }
  std::string_view raw();
  bool flag() { return raw() == "true"; }
  bool null();
  std::optional<int64_t> integer_or_null();
  double floating();
  Extent extent();
  std::vector<Extent> extents();
  TensorMeta tensor_meta();
  std::string name();
  GraphArgument::Item item(std::string_view kind);
  GraphArgument argument();
  Node node();
  void graph(Model& model);
  void signature(Model& model);
  void call_graph(Model& model);
  void graph_module(Model& model);

  std::string_view text_;
  JsonReader json_;
};

// The text of any value.
std::string_view ModelReader::raw() {
  const size_t begin = json_.at();
  json_.skip();
  std::string_view text = text_.substr(begin, json_.at() - begin);
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \n\r\t")));
  return text;
}

// Reads null if that is next.
bool ModelReader::null() {
  const size_t at = text_.find_first_not_of(" \n\r\t", json_.at());
  if (at == std::string_view::npos || !text_.substr(at).starts_with("null")) return false;
  json_.skip();
  return true;
}

std::optional<int64_t> ModelReader::integer_or_null() {
  if (null()) return {};
  return json_.integer();
}

double ModelReader::floating() {
  if (!json_.at_text()) return json_.number();
  const std::string text = json_.text();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  json_.fail(str("expected a number, found ", json_text(text)));
}

Extent ModelReader::extent() {
  Extent extent;
  only_member([&](const std::string& kind) {
    if (kind == "as_int") {
      extent.value = json_.integer();
    } else if (kind == "as_expr") {
      object([&](std::string_view key) {
        if (key == "expr_str") extent.expression = json_.text();
        return key == "expr_str";
      });
      if (extent.expression.empty()) json_.fail("a size is an empty expression");
    } else {
      json_.fail(str("no kind of size: ", json_text(kind)));
    }
  });
  return extent;
}

std::vector<Extent> ModelReader::extents() {
  std::vector<Extent> extents;
  json_.array([&] { extents.push_back(extent()); });
  return extents;
}

TensorMeta ModelReader::tensor_meta() {
  TensorMeta meta;
  object([&](std::string_view key) {
    if (key == "dtype")
      meta.dtype = dtype_of_code(json_.integer());
    else if (key == "sizes")
      meta.sizes = extents();
    else if (key == "strides")
      meta.strides = extents();
    else if (key == "storage_offset")
      meta.offset = extent();
    else if (key == "requires_grad")
      meta.requires_grad = flag();
    else
      return false;
    return true;
  });
  return meta;
}

// {"name": "x"}
std::string ModelReader::name() {
  std::string name;
  object([&](std::string_view key) {
    if (key == "name") name = json_.text();
    return key == "name";
  });
  return name;
}

// One of an argument's values, whatever list it is in.
GraphArgument::Item ModelReader::item(std::string_view kind) {
  GraphArgument::Item item;
  if (kind == "as_tensor" || kind == "as_tensors") {
    item.name = name();
  } else if (kind == "as_float" || kind == "as_floats") {
    item.number = floating();
  } else if (kind == "as_bool" || kind == "as_bools") {
    item.integer = flag();
  } else if (kind == "as_string") {
    item.name = json_.text();
  } else if (kind == "as_device") {
    object([&](std::string_view key) {
      if (key == "type") item.name = json_.text();
      return key == "type";
    });
  } else if (kind == "as_sym_int" || kind == "as_sym_ints" || kind == "as_optional_tensors" ||
             kind == "as_optional_tensor") {
    only_member([&](const std::string& part) {
      if (part == "as_name")
        item.name = json_.text();
      else if (part == "as_int")
        item.integer = json_.integer();
      else if (part == "as_tensor")
        item.name = name();
      else
        json_.skip();  // as_none
    });
  } else {
    item.integer = json_.integer();
  }
  return item;
}

GraphArgument ModelReader::argument() {
  static const std::set<std::string> kKnown = {
      "as_tensor",           "as_tensors",        "as_int",    "as_ints",        "as_float",
      "as_floats",           "as_string",         "as_bool",   "as_bools",       "as_sym_int",
      "as_sym_ints",         "as_device",         "as_layout", "as_scalar_type", "as_memory_format",
      "as_optional_tensors", "as_optional_tensor"};
  GraphArgument argument;
  only_member([&](const std::string& kind) {
    argument.kind = kind;
    if (!kKnown.contains(kind))
      json_.skip();  // who uses it refuses it by its name
    else if (json_.at_array())
      json_.array([&] { argument.items.push_back(item(kind)); });
    else
      argument.items.push_back(item(kind));
  });
  return argument;
}

Node ModelReader::node() {
  Node node;
  object([&](std::string_view key) {
    if (key == "target") {
      node.target = json_.text();
    } else if (key == "inputs") {
      json_.array([&] {
        Node::Input& input = node.inputs.emplace_back();
        object([&](std::string_view part) {
          if (part == "name")
            input.name = json_.text();
          else if (part == "arg")
            input.argument = argument();
          else
            return false;
          return true;
        });
      });
    } else if (key == "outputs") {
      json_.array([&] { node.outputs.push_back(argument()); });
    } else {
      return false;
    }
    return true;
  });
  return node;
}

void ModelReader::graph(Model& model) {
  object([&](std::string_view key) {
    if (key == "nodes")
      json_.array([&] { model.nodes.push_back(node()); });
    else if (key == "tensor_values")
      json_.object([&](std::string_view name) {
        const std::string own(name);
        model.tensors[own] = tensor_meta();
      });
    else
      return false;
    return true;
  });
}

// Of the specs of inputs and outputs: {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}}
void ModelReader::signature(Model& model) {
  const auto spec = [&](std::string& kind, GraphArgument& argument, std::string* target) {
    only_member([&](const std::string& seen) {
      kind = seen;
      const bool is_users = seen == "user_input" || seen == "user_output";
      object([&](std::string_view key) {
        if (key == "arg" && is_users) {
          argument = this->argument();
        } else if (key == "arg") {
          argument.kind = "as_tensor";
          argument.items.push_back({.name = name()});
        } else if (target && key.ends_with("_name")) {
          *target = json_.text();
        } else {
          return false;
        }
        return true;
      });
    });
  };
  object([&](std::string_view key) {
    if (key == "input_specs")
      json_.array([&] {
        InputSpec& input = model.inputs.emplace_back();
        spec(input.kind, input.argument, &input.target);
      });
    else if (key == "output_specs")
      json_.array([&] {
        OutputSpec& output = model.outputs.emplace_back();
        spec(output.kind, output.argument, nullptr);
      });
    else
      return false;
    return true;
  });
}

// The structure of what the module returns: of the first entry, which is the whole module.
void ModelReader::call_graph(Model& model) {
  bool is_first = true;
  json_.array([&] {
    if (!std::exchange(is_first, false)) return json_.skip();
    object([&](std::string_view key) {
      if (key != "signature") return false;
      object([&](std::string_view part) {
        if (part == "out_spec") model.out_spec = json_.text();
        return part == "out_spec";
      });
      return true;
    });
  });
}

void ModelReader::graph_module(Model& model) {
  object([&](std::string_view key) {
    if (key == "graph")
      graph(model);
    else if (key == "signature")
      signature(model);
    else if (key == "module_call_graph")
      call_graph(model);
    else
      return false;
    return true;
  });
}

Model ModelReader::model() {
  Model model;
  object([&](std::string_view key) {
    if (key == "graph_module") {
      graph_module(model);
    } else if (key == "range_constraints") {
      json_.object([&](std::string_view symbol) {
        SizeRange& range = model.ranges[std::string(symbol)];
        object([&](std::string_view part) {
          if (part != "min_val" && part != "max_val") return false;
          if (const auto bound = integer_or_null()) (part == "min_val" ? range.least : range.most) = *bound;
          return true;
        });
      });
    } else if (key == "schema_version") {
      object([&](std::string_view part) {
        if (part == "major") model.schema_major = json_.integer();
        return part == "major";
      });
    } else if (key == "guards_code") {
      json_.array([&] { model.guards.push_back(json_.text()); });
    } else {
      return false;
    }
    return true;
  });
  json_.end();
  return model;
}

std::map<std::string, Payload> ModelReader::payloads() {
  std::map<std::string, Payload> payloads;
  object([&](std::string_view key) {
    if (key != "config") return false;
    json_.object([&](std::string_view name) {
      Payload& payload = payloads[std::string(name)];
      object([&](std::string_view part) {
        if (part == "path_name")
          payload.file = json_.text();
        else if (part == "is_param")
          payload.is_parameter = flag();
        else if (part == "use_pickle")
          payload.is_pickle = flag();
        else if (part == "tensor_meta" && !null())
          payload.meta = tensor_meta();
        else if (part != "tensor_meta")
          return false;
        return true;
      });
    });
    return true;
  });
  json_.end();
  return payloads;
}

}  // namespace

Model read_model(std::string_view text, const std::string& source) { return ModelReader(text, source).model(); }

std::map<std::string, Payload> read_payloads(std::string_view text, const std::string& source) {
  return ModelReader(text, source).payloads();
}

}  // namespace tutti::saved_model::pt2
