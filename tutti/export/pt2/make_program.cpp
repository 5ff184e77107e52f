#include "tutti/export/pt2/make_program.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/export/allowed_ops.h"
#include "tutti/export/pt2/schema_codes.h"
#include "tutti/export/pt2/size_arithmetic.h"

namespace tutti::saved_model::pt2 {
namespace {

using Kind = Argument::Kind;

constexpr int64_t kSchemaMajorRead = 8;
constexpr std::string_view kOps = "torch.ops.aten.";

c10::TypePtr without_optional(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType() : type;
}

// What an op takes: an int, or a list of floats.
struct Taken {
  c10::TypeKind kind;
  bool is_list = false;
  std::optional<int32_t> count = {};  // of a list that one number stands for
};

Taken taken_by(const c10::Argument& schema) {
  const c10::TypePtr type = without_optional(schema.type());
  if (type->kind() != c10::TypeKind::ListType) return {type->kind()};
  return {without_optional(type->expectRef<c10::ListType>().getElementType())->kind(), true, schema.N()};
}

// Of a module that returns a dictionary of tensors its keys, else "output_0" and so on.
std::vector<std::string> names_of_outputs(const std::string& out_spec, size_t count, const std::string& source) {
  std::vector<std::string> names, keys;
  for (size_t i = 0; i < count; ++i) names.push_back(str("output_", i));
  JsonReader json(out_spec, source);
  std::string type, context;
  const auto text_or_null = [&](std::string& to) { json.at_text() ? void(to = json.text()) : json.skip(); };
  bool is_version = true;
  json.array([&] {
    if (std::exchange(is_version, false)) return json.skip();
    json.object([&](std::string_view key) {
      if (key == "type")
        text_or_null(type);
      else if (key == "context")
        text_or_null(context);
      else
        json.skip();
    });
  });
  if (type != "builtins.dict") return names;
  JsonReader list(context, source);
  list.array([&] { list.at_text() ? void(keys.push_back(list.text())) : list.skip(); });
  return keys.size() == count ? keys : names;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Model& model, const std::string& source) : model_(model), source_(source) {}

  MadeProgram run();

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::unimplemented, str(source_, ' ', what));
  }
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::data_loss, str(source_, " is damaged: it ", what));
  }
  [[noreturn]] void refuse_node(const std::string& what) const { refuse(str("calls ", node_->target, what)); }

  const TensorMeta& meta_of(const std::string& name) const;
  at::ScalarType dtype_of(const std::string& name) const;
  int size_number(const std::string& symbol);
  void add_input(const InputSpec& input);
  void add_variable(const InputSpec& input);
  void add_inputs();
  int value_of(const std::string& name) const;
  void name_value(const std::string& name, int value);
  Integer integer_of(const GraphArgument::Item& item) const;
  Integer size_of_axis(const Node& node) const;
  bool add_integer(const Node& node);
  Argument numbers(const GraphArgument& given, const Taken& taken) const;
  Argument argument(const GraphArgument& given, const c10::Argument& schema) const;
  Call::Result result(const GraphArgument& given);
  void add_call(const Node& node);
  void add_outputs();

  const Model& model_;
  const std::string& source_;
  const Node* node_ = nullptr;  // at hand
  MadeProgram made_;
  int num_values_ = 0;
  std::map<std::string, int> values_;        // tensors by their names in the graph
  std::map<std::string, Integer> integers_;  // integers by theirs
  std::map<std::string, int> sizes_;         // unknown sizes by their symbols
};

const TensorMeta& ProgramBuilder::meta_of(const std::string& name) const {
  const auto found = model_.tensors.find(name);
  if (found == model_.tensors.end()) damaged(str("does not say what ", json_text(name), " is"));
  return found->second;
}

at::ScalarType ProgramBuilder::dtype_of(const std::string& name) const {
  const auto dtype = meta_of(name).dtype;
  if (!dtype) refuse(str("has ", json_text(name), " of a dtype that this library does not know"));
  return *dtype;
}

int ProgramBuilder::size_number(const std::string& symbol) {
  const auto [found, is_new] = sizes_.try_emplace(symbol, static_cast<int>(sizes_.size()));
  if (is_new) {
    made_.program.sizes.emplace_back();
    const auto range = model_.ranges.find(symbol);
    made_.size_ranges.push_back(range == model_.ranges.end() ? SizeRange{} : range->second);
  }
  return found->second;
}

void ProgramBuilder::name_value(const std::string& name, int value) {
  if (!values_.try_emplace(name, value).second || integers_.contains(name))
    damaged(str("gives the name ", json_text(name), " twice"));
}

void ProgramBuilder::add_input(const InputSpec& input) {
  if (input.argument.kind != "as_tensor" || input.argument.items.size() != 1)
    refuse(str("takes an input of the kind ", json_text(input.argument.kind), "; export it with tensors alone"));
  const std::string& name = input.argument.items[0].name;
  Spec spec;
  spec.name = name;
  spec.dtype = dtype_of(name);
  const std::vector<Extent>& sizes = meta_of(name).sizes;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis].expression.empty()) {
      if (sizes[axis].value < 0) damaged(str("has the input ", json_text(name), " of a negative size"));
      spec.shape.push_back(sizes[axis].value);
      continue;
    }
    const auto symbol = symbol_of(sizes[axis].expression);
    if (!symbol)
      refuse(str("takes ", json_text(name), " of a size ", json_text(sizes[axis].expression),
                 "; export it with sizes that are known or free"));
    const auto number = static_cast<size_t>(size_number(*symbol));
    made_.program.sizes[number].push_back({num_values_, static_cast<int>(axis)});
    spec.shape.push_back(kUnknown);
  }
  name_value(name, num_values_++);
  made_.program.inputs.push_back(std::move(spec));
}

void ProgramBuilder::add_variable(const InputSpec& input) {
  if (input.kind != "parameter" && input.kind != "buffer" && input.kind != "tensor_constant")
    refuse(str("takes ", json_text(input.kind), ", which is no tensor"));
  name_value(input.argument.items.at(0).name, num_values_++);
  made_.program.variables.push_back(input.target);
  made_.variables.push_back(input);
}

void ProgramBuilder::add_inputs() {
  for (const InputSpec& input : model_.inputs)
    if (input.argument.items.empty()) refuse(str("takes an input of the kind ", json_text(input.kind)));
  for (const InputSpec& input : model_.inputs)
    if (input.kind == "user_input") add_input(input);
  for (const InputSpec& input : model_.inputs)
    if (input.kind != "user_input") add_variable(input);
}

int ProgramBuilder::value_of(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) damaged(str("uses ", json_text(name), " before it is made"));
  return found->second;
}

Integer ProgramBuilder::integer_of(const GraphArgument::Item& item) const {
  if (item.name.empty()) return {.constant = item.integer};
  const auto found = integers_.find(item.name);
  if (found == integers_.end()) damaged(str("uses ", json_text(item.name), " before it is made"));
  return found->second;
}

// Of sym_size(tensor, axis).
Integer ProgramBuilder::size_of_axis(const Node& node) const {
  const auto is_of = [](const Node::Input& input, std::string_view kind) {
    return input.argument.kind == kind && input.argument.items.size() == 1;
  };
  if (node.inputs.size() != 2 || !is_of(node.inputs[0], "as_tensor") || !is_of(node.inputs[1], "as_int"))
    damaged("asks for a size otherwise than of a tensor and an axis");
  const std::string& name = node.inputs[0].argument.items[0].name;
  const std::vector<Extent>& sizes = meta_of(name).sizes;
  const int64_t axis = node.inputs[1].argument.items[0].integer, rank = static_cast<int64_t>(sizes.size());
  if (axis < -rank || axis >= rank) damaged(str("asks for the size ", axis, " of a tensor of ", rank, " axes"));
  const Extent& size = sizes[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  if (size.expression.empty()) return {.constant = size.value};
  const auto symbol = symbol_of(size.expression);
  const auto found = symbol ? sizes_.find(*symbol) : sizes_.end();
  if (found == sizes_.end()) refuse_node(str(" for a size ", json_text(size.expression), ", which no input has"));
  return {.terms = {{1, {found->second}}}};
}

// Whether the node gives an integer.
bool ProgramBuilder::add_integer(const Node& node) {
  const bool is_size = node.target == "torch.ops.aten.sym_size.int";
  if (!is_size && node.target.starts_with(kOps)) return false;
  Integer integer;
  if (is_size) {
    integer = size_of_axis(node);
  } else {
    const auto takes = [](const Node::Input& input) {
      return (input.argument.kind == "as_int" || input.argument.kind == "as_sym_int") &&
             input.argument.items.size() == 1;
    };
    const bool takes_two = node.inputs.size() == 2 && takes(node.inputs[0]) && takes(node.inputs[1]);
    if (!takes_two) refuse_node(", which is no operation of LibTorch's on tensors");
    const auto made = computed(node.target, integer_of(node.inputs[0].argument.items[0]),
                               integer_of(node.inputs[1].argument.items[0]));
    if (!made) refuse_node(" on sizes; sums, differences and products of two of them are read");
    integer = *made;
  }
  if (node.outputs.size() != 1 || node.outputs[0].kind != "as_sym_int" || node.outputs[0].items.size() != 1)
    refuse_node(", which gives another thing than an integer");
  const std::string& name = node.outputs[0].items[0].name;
  if (name.empty() || values_.contains(name) || !integers_.emplace(name, integer).second)
    damaged(str("gives the name ", json_text(name), " twice"));
  return true;
}

// Numbers, in the form that the op takes them.
Argument ProgramBuilder::numbers(const GraphArgument& given, const Taken& taken) const {
  const bool is_float = given.kind == "as_float" || given.kind == "as_floats";
  const bool is_bool = given.kind == "as_bool" || given.kind == "as_bools";
  const bool is_many = given.kind.ends_with('s');
  if (!is_many && given.items.size() != 1) damaged("has one number that is several");
  Argument made;
  for (const auto& item : given.items)
    if (is_float)
      made.numbers.push_back(item.number);
    else
      made.integers.push_back(is_bool ? Integer{.constant = item.integer} : integer_of(item));
  const bool to_tensor = taken.kind == c10::TypeKind::TensorType;
  const bool to_float = taken.kind == c10::TypeKind::FloatType;
  if (to_float && !is_float && !is_bool) {
    for (const Integer& number : made.integers) {
      if (!number.terms.empty()) refuse_node(" with a size where it takes a number with a fraction");
      made.numbers.push_back(static_cast<double>(number.constant));
    }
    made.integers.clear();
  }
  const bool has_numbers = is_float || !made.numbers.empty();
  if (taken.is_list && !is_many && taken.count) {  // one number for all axes
    const auto count = static_cast<size_t>(*taken.count);
    if (has_numbers) made.numbers.resize(count, made.numbers[0]);
    if (!has_numbers) made.integers.resize(count, Integer(made.integers[0]));
  }
  if (to_tensor && (is_bool || taken.is_list)) refuse_node(" with a number where it takes tensors");
  if (to_tensor)
    made.kind = has_numbers ? Kind::number_scalar : Kind::integer_scalar;
  else if (is_bool)
    made.kind = taken.is_list ? Kind::booleans : Kind::boolean;
  else if (has_numbers || (to_float && taken.is_list))
    made.kind = taken.is_list ? Kind::numbers : Kind::number;
  else
    made.kind = taken.is_list ? Kind::integers : Kind::integer;
  return made;
}

Argument ProgramBuilder::argument(const GraphArgument& given, const c10::Argument& schema) const {
  const std::string& kind = given.kind;
  const auto code = [&](std::optional<int64_t> number) {
    if (!number || given.items.size() != 1) refuse_node(str(" with an unknown '", schema.name(), '\''));
    return Argument{.kind = Kind::integer, .integers = {{*number}}};
  };
  const int64_t first = given.items.empty() ? 0 : given.items[0].integer;
  if (kind == "as_none") return {};
  if (kind == "as_scalar_type") {
    const auto dtype = dtype_of_code(first);
    return code(dtype ? std::optional<int64_t>(static_cast<int64_t>(*dtype)) : std::nullopt);
  }
  if (kind == "as_memory_format") return code(memory_format_of_code(first));
  if (kind == "as_layout") return code(layout_of_code(first));
  if (kind == "as_tensor" || kind == "as_optional_tensor") {
    if (given.items.size() != 1) damaged("has one tensor that is several");
    if (given.items[0].name.empty()) return {};
    return {.kind = Kind::value, .values = {value_of(given.items[0].name)}};
  }
  if (kind == "as_tensors" || kind == "as_optional_tensors") {
    Argument made{.kind = Kind::values};
    for (const auto& item : given.items) made.values.push_back(item.name.empty() ? -1 : value_of(item.name));
    return made;
  }
  if (kind == "as_string" && given.items.size() == 1) return {.kind = Kind::text, .text = given.items[0].name};
  if (kind == "as_device" && given.items.size() == 1) {
    if (given.items[0].name == "cpu") return {.kind = Kind::device};
    refuse_node(str(" on the device ", json_text(given.items[0].name), "; export it on the CPU"));
  }
  const bool is_numbers = kind.starts_with("as_int") || kind.starts_with("as_float") || kind.starts_with("as_bool") ||
                          kind.starts_with("as_sym_int");
  if (!is_numbers || kind == "as_int_lists" || kind == "as_float_lists")
    refuse_node(str(" with '", schema.name(), "' of the kind ", json_text(kind)));
  return numbers(given, taken_by(schema));
}

Call::Result ProgramBuilder::result(const GraphArgument& given) {
  Call::Result made{.is_list = given.kind == "as_tensors"};
  if (given.kind == "as_none") return {.values = {-1}};
  if (given.kind != "as_tensor" && !made.is_list)
    refuse_node(str(", which gives a value of the kind ", json_text(given.kind)));
  for (const auto& item : given.items) {
    name_value(item.name, num_values_);
    made.values.push_back(num_values_++);
  }
  if (!made.is_list && made.values.size() != 1) damaged("has one tensor that is several");
  return made;
}

void ProgramBuilder::add_call(const Node& node) {
  node_ = &node;
  if (add_integer(node)) return;
  std::string name = node.target.substr(kOps.size());
  if (name == "_assert_tensor_metadata.default") return;  // that a tensor has the dtype and device it was exported with
  if (name == "detach_.default") name = "detach.default";  // torch.export's own, of a copy that it made
  const size_t dot = name.find('.');
  if (dot == std::string::npos) refuse_node(", which names no overload");
  const std::string overload = name.substr(dot + 1) == "default" ? "" : name.substr(dot + 1);
  const c10::OperatorName op("aten::" + name.substr(0, dot), overload);
  const auto found = c10::Dispatcher::singleton().findSchema(op);
  if (!found) refuse_node(", which this LibTorch does not have");
  if (const std::string why = why_refused(found->schema()); !why.empty())
    refuse_node(str(", which no saved model may call: ", why, ". Save the program as torch.export.export gives it"));
  Call call{.op = overload.empty() ? op.name : op.name + '.' + overload};
  for (const Node::Input& input : node.inputs) {
    const auto& schemas = found->schema().arguments();
    const auto schema = std::ranges::find(schemas, input.name, &c10::Argument::name);
    if (schema == schemas.end())
      refuse_node(str(" with an argument ", json_text(input.name), " that it does not have"));
    call.arguments.push_back({input.name, argument(input.argument, *schema)});
  }
  for (const GraphArgument& output : node.outputs) call.results.push_back(result(output));
  made_.program.calls.push_back(std::move(call));
}

void ProgramBuilder::add_outputs() {
  const std::vector<std::string> names = names_of_outputs(model_.out_spec, model_.outputs.size(), source_);
  for (size_t i = 0; i < model_.outputs.size(); ++i) {
    const OutputSpec& output = model_.outputs[i];
    if (output.kind != "user_output")
      refuse(str("has an output of the kind ", json_text(output.kind),
                 ": it writes to a buffer, a parameter or an input. Call eval() before torch.export.export"));
    if (output.argument.kind != "as_tensor" || output.argument.items.size() != 1)
      refuse(str("returns a value of the kind ", json_text(output.argument.kind), "; return tensors alone"));
    const std::string& name = output.argument.items[0].name;
    Spec spec;
    spec.name = names[i];
    spec.dtype = dtype_of(name);
    for (const Extent& size : meta_of(name).sizes)
      spec.shape.push_back(size.expression.empty() && size.value >= 0 ? size.value : kUnknown);
    made_.program.outputs.push_back({std::move(spec), value_of(name)});
  }
}

MadeProgram ProgramBuilder::run() {
  if (model_.schema_major != kSchemaMajorRead)
    refuse(str("is of torch.export's schema ", model_.schema_major, "; ", kSchemaMajorRead, " is read"));
  made_.program.name = "forward";
  add_inputs();
  for (const Node& node : model_.nodes) add_call(node);
  add_outputs();
  return std::move(made_);
}

}  // namespace

MadeProgram make_program(const Model& model, const std::string& source) { return ProgramBuilder(model, source).run(); }

}  // namespace tutti::saved_model::pt2
