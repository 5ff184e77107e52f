#include "tutti/export/pt2/exported_program.h"

#include <c10/core/Layout.h>
#include <caffe2/serialize/versions.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/export/call_schema.h"
#include "tutti/export/pt2/json_parts.h"
#include "tutti/export/pt2/schema_codes.h"
#include "tutti/export/pt2/symbolic_size.h"
#include "tutti/export/pt2/variable_paths.h"
#include "tutti/export/python_names.h"
#include "tutti/export/tensor_part.h"

namespace tutti::saved_model::pt2 {
namespace {

using Kind = Argument::Kind;

// Of torch.export's schema.
constexpr int kSchemaMajor = 8;
constexpr int kSchemaMinor = 20;
constexpr int kPositional = 1;
constexpr int kKeyword = 2;

// "linear" of "aten::linear", "add" of "aten::add_.Tensor".
std::string_view base_of(std::string_view op) {
  std::string_view name = op.substr(std::string_view("aten::").size());
  name = name.substr(0, name.find('.'));
  while (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

// Those that take a number of Python's where their schema has a tensor.
bool takes_numbers_as_tensors(std::string_view op) {
  constexpr std::array<std::string_view, 9> kNames = {"add",      "sub",      "mul",         "div",         "divide",
                                                      "multiply", "subtract", "true_divide", "floor_divide"};
  return std::ranges::find(kNames, base_of(op)) != kNames.end();
}

// "torch.ops.aten.add.Tensor"
std::string target_of(const std::string& op) {
  const std::string name = op.substr(std::string_view("aten::").size());
  return str("torch.ops.aten.", name, name.find('.') == std::string::npos ? ".default" : "");
}

std::string named_argument(std::string_view name, const std::string& argument, int kind) {
  return json_object({{"name", json_text(name)}, {"arg", argument}, {"kind", json_integer(kind)}});
}

// A structure of Python's as pytrees write it.
std::string pytree(std::string_view type, const std::string& context, const std::string& children) {
  return json_object({{"type", type.empty() ? "null" : json_text(type)},
                      {"context", context.empty() ? "null" : json_text(context)},
                      {"children_spec", children}});
}
std::string leaves(size_t count) { return json_list(std::vector<std::string>(count, pytree("", "", "[]"))); }
std::string tuple_of(const std::string& children) { return pytree("builtins.tuple", "null", children); }

std::vector<std::string> joined(std::vector<std::string> items, const std::vector<std::string>& others) {
  items.insert(items.end(), others.begin(), others.end());
  return items;
}

c10::TypeKind kind_of(const c10::Argument& schema) {
  const c10::TypePtr& type = schema.real_type();
  const auto* const optional = type->castRaw<c10::OptionalType>();
  return optional ? optional->getElementType()->kind() : type->kind();
}

class ProgramWriter {
 public:
  explicit ProgramWriter(const Source& source)
      : source_(source), program_(source.program), names_(source.types.size()), sizes_(program_.sizes.size()) {}

  ExportedProgram run();

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::unimplemented, str("saved_model: the signature '", program_.name, "' ", what,
                                              ", which a .pt2 file cannot say; save without .pt2"));
  }
  [[noreturn]] void refuse_call(const std::string& what) const;
  const std::string& name_of(int value) const;
  std::string define(int value, std::string_view wanted, bool requires_grad = false);
  void add_node(const std::string& target, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::string& name);
  std::string symbolic(const std::string& target, std::string_view wanted, const std::vector<std::string>& inputs,
                       const SymbolicSize& value);
  std::string operation(std::string_view op, const std::string& a, const std::string& b, const SymbolicSize& value);
  std::string size(int number);
  std::string integer(const Integer& integer);
  std::string sym_int(const Integer& integer);
  std::string integers(const std::vector<Integer>& integers);
  std::string tensors(const std::vector<int>& values);
  std::string enumerated(const Argument& argument, const c10::Argument& schema);
  std::string argument(const Argument& argument, const c10::Argument& schema);
  std::vector<std::string> arguments(const Call& call, const c10::FunctionSchema& schema);
  std::string new_value(int value, std::string_view wanted);
  std::string result(const Call::Result& result, std::string_view wanted, bool is_only);
  const Place* place_of(int size) const;
  void check_dtype(const ValueType& type, const std::string& what) const;
  void add_inputs();
  void add_variables();
  void add_call(size_t index);
  void add_outputs();
  std::string module_call_graph() const;
  std::string range_constraints() const;

  const Source& source_;
  const Program& program_;
  PythonNames python_names_;
  std::vector<std::string> names_;  // by number of the value; empty for text and what is not made yet
  std::vector<std::string> sizes_;  // by number: the names of those that were asked for
  size_t call_ = 0;                 // that is being written
  int num_unbacked_ = 0;
  ExportedProgram made_;
  // Of the graph, as JSON; its inputs are variables and what the module takes.
  std::vector<std::string> variables_, variable_specs_, inputs_, input_specs_, argument_names_;
  std::vector<std::string> nodes_, outputs_, output_specs_;
  std::string tensor_values_, sym_int_values_;  // members of objects
};

void ProgramWriter::refuse_call(const std::string& what) const {
  const std::string line = line_of(source_.places[call_]);
  refuse(str("calls ", program_.calls[call_].op, line.empty() ? "" : " at ", line, ' ', what));
}

const std::string& ProgramWriter::name_of(int value) const {
  const std::string& name = names_[static_cast<size_t>(value)];
  if (name.empty()) refuse_call(str("with value ", value, ", which is text or a tensor that LibTorch left undefined"));
  return name;
}

// The value has this name from here on: what is written in place is a new value in the graph.
std::string ProgramWriter::define(int value, std::string_view wanted, bool requires_grad) {
  const ValueType& type = source_.types[static_cast<size_t>(value)];
  const std::string name = python_names_.add(wanted);
  if (!tensor_values_.empty()) tensor_values_ += ", ";
  tensor_values_ += json_text(name) + ": " + json_tensor_meta(type, requires_grad, num_unbacked_);
  names_[static_cast<size_t>(value)] = name;
  return name;
}

void ProgramWriter::add_node(const std::string& target, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs, const std::string& name) {
  nodes_.push_back(json_object({{"target", json_text(target)},
                                {"inputs", json_list(inputs)},
                                {"outputs", json_list(outputs)},
                                {"metadata", "{}"},
                                {"is_hop_single_tensor_return", "null"},
                                {"name", json_text(name)}}));
}

// A node that gives an integer.
std::string ProgramWriter::symbolic(const std::string& target, std::string_view wanted,
                                    const std::vector<std::string>& inputs, const SymbolicSize& value) {
  const std::string name = python_names_.add(wanted);
  if (!sym_int_values_.empty()) sym_int_values_ += ", ";
  sym_int_values_ += json_text(name) + ": " + json_size(value);
  add_node(target, inputs, {json_kind("as_sym_int", json_kind("as_name", json_text(name)))}, name);
  return name;
}

// Where an input shows an unknown size; null: text alone does.
const Place* ProgramWriter::place_of(int size) const {
  const std::vector<Place>& places = program_.sizes[static_cast<size_t>(size)];
  const auto found = std::ranges::find_if(
      places, [&](const Place& place) { return !names_[static_cast<size_t>(place.value)].empty(); });
  return found == places.end() ? nullptr : &*found;
}

// The n-th unknown size, as a node reads it of an input.
std::string ProgramWriter::size(int number) {
  std::string& name = sizes_[static_cast<size_t>(number)];
  if (!name.empty()) return name;
  const Place* const place = place_of(number);
  if (!place) refuse("reads the size of text that no tensor has");
  return name = symbolic("torch.ops.aten.sym_size.int", "sym_size",
                         {named_argument("self", json_tensor(name_of(place->value)), kPositional),
                          named_argument("dim", json_kind("as_int", json_integer(place->axis)), kPositional)},
                         size_of(Integer{.terms = {{1, {number}}}}));
}

std::string sym_int_named(const std::string& name) {
  return json_kind("as_sym_int", json_kind("as_name", json_text(name)));
}

std::string ProgramWriter::operation(std::string_view op, const std::string& a, const std::string& b,
                                     const SymbolicSize& value) {
  return symbolic(str("_operator.", op), op, {named_argument("a", a, kPositional), named_argument("b", b, kPositional)},
                  value);
}

// The name of a node that computes it.
std::string ProgramWriter::integer(const Integer& integer) {
  std::string sum;
  Integer so_far;
  for (const Integer::Term& term : integer.terms) {
    const Integer unit{.terms = {{1, term.sizes}}}, scaled{.terms = {term}};
    std::string product = size(term.sizes[0]);
    if (term.sizes.size() == 2)
      product = operation("mul", sym_int_named(product), sym_int_named(size(term.sizes[1])), size_of(unit));
    if (term.factor != 1)
      product =
          operation("mul", sym_int_named(product), json_kind("as_int", json_integer(term.factor)), size_of(scaled));
    so_far.terms.push_back(term);
    sum = sum.empty() ? product : operation("add", sym_int_named(sum), sym_int_named(product), size_of(so_far));
  }
  if (!integer.constant) return sum;
  return operation("add", sym_int_named(sum), json_kind("as_int", json_integer(integer.constant)), size_of(integer));
}

std::string ProgramWriter::sym_int(const Integer& number) {
  if (number.terms.empty()) return json_kind("as_int", json_integer(number.constant));
  return sym_int_named(integer(number));
}

std::string ProgramWriter::integers(const std::vector<Integer>& numbers) {
  std::vector<std::string> items;
  const bool all_constant = std::ranges::all_of(numbers, [](const Integer& number) { return number.terms.empty(); });
  for (const Integer& number : numbers) {
    if (all_constant)
      items.push_back(json_integer(number.constant));
    else if (number.terms.empty())
      items.push_back(json_kind("as_int", json_integer(number.constant)));
    else
      items.push_back(json_kind("as_name", json_text(integer(number))));
  }
  return json_kind(all_constant ? "as_ints" : "as_sym_ints", json_list(items));
}

std::string ProgramWriter::tensors(const std::vector<int>& values) {
  std::vector<std::string> items;
  const bool may_lack = std::ranges::any_of(values, [](int value) { return value < 0; });
  for (const int value : values) {
    if (!may_lack)
      items.push_back(json_name(name_of(value)));
    else
      items.push_back(value < 0 ? json_kind("as_none", "true") : json_tensor(name_of(value)));
  }
  return json_kind(may_lack ? "as_optional_tensors" : "as_tensors", json_list(items));
}

// An integer that stands for a dtype, a memory format or a layout; empty for another.
std::string ProgramWriter::enumerated(const Argument& argument, const c10::Argument& schema) {
  const int64_t number = argument.integers[0].constant;
  std::optional<int> code;
  std::string_view kind;
  switch (kind_of(schema)) {
    case c10::TypeKind::ScalarTypeType:
      kind = "as_scalar_type";
      code = code_of_dtype(static_cast<at::ScalarType>(number));
      break;
    case c10::TypeKind::MemoryFormatType:
      kind = "as_memory_format";
      code = code_of_memory_format(number);
      break;
    case c10::TypeKind::LayoutType:
      kind = "as_layout";
      code = code_of_layout(number);
      break;
    default: return {};
  }
  if (!code) refuse_call(str("with '", schema.name(), "' ", number));
  return json_kind(kind, json_integer(*code));
}

std::string ProgramWriter::argument(const Argument& argument, const c10::Argument& schema) {
  const auto number_as_tensor = [&](const std::string& number) {
    if (!takes_numbers_as_tensors(program_.calls[call_].op))
      refuse_call(str("with a number as the tensor '", schema.name(), "'"));
    return number;
  };
  switch (argument.kind) {
    case Kind::none: return json_kind("as_none", "true");
    case Kind::value: return json_tensor(name_of(argument.values[0]));
    case Kind::values: return tensors(argument.values);
    case Kind::boolean: return json_kind("as_bool", argument.integers[0].constant ? "true" : "false");
    case Kind::booleans: {
      std::vector<std::string> items;
      for (const Integer& flag : argument.integers) items.push_back(flag.constant ? "true" : "false");
      return json_kind("as_bools", json_list(items));
    }
    case Kind::integer: {
      const std::string code = enumerated(argument, schema);
      return code.empty() ? sym_int(argument.integers[0]) : code;
    }
    case Kind::integers: return integers(argument.integers);
    case Kind::number: return json_kind("as_float", json_float(argument.numbers[0]));
    case Kind::numbers: {
      std::vector<std::string> items;
      for (const double number : argument.numbers) items.push_back(json_float(number));
      return json_kind("as_floats", json_list(items));
    }
    case Kind::text: return json_kind("as_string", json_text(argument.text));
    case Kind::device: return json_kind("as_device", json_object({{"type", "\"cpu\""}, {"index", "null"}}));
    case Kind::integer_scalar: return number_as_tensor(sym_int(argument.integers[0]));
    case Kind::number_scalar: return number_as_tensor(json_kind("as_float", json_float(argument.numbers[0])));
  }
  return {};
}

std::vector<std::string> ProgramWriter::arguments(const Call& call, const c10::FunctionSchema& schema) {
  std::vector<std::string> made;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const c10::Argument& wanted = schema.arguments()[i];
    const Argument& given = call.arguments[i].argument;
    if (wanted.kwarg_only() && given.kind == Kind::none) continue;
    made.push_back(
        named_argument(wanted.name(), argument(given, wanted), wanted.kwarg_only() ? kKeyword : kPositional));
  }
  return made;
}

std::string ProgramWriter::new_value(int value, std::string_view wanted) {
  const ValueType& type = source_.types[static_cast<size_t>(value)];
  if (!type.is_known()) refuse_call("which gives a tensor of as many axes as the sizes or values of its inputs say");
  if (!code_of_dtype(type.dtype)) refuse_call(str("which gives a tensor of dtype ", at::toString(type.dtype)));
  return define(value, wanted);
}

std::string ProgramWriter::result(const Call::Result& result, std::string_view wanted, bool is_only) {
  if (result.is_list) {
    std::vector<std::string> items;
    for (const int value : result.values) {
      if (value < 0) refuse_call("which gives a list with an undefined tensor");
      items.push_back(json_name(new_value(value, wanted)));
    }
    if (items.empty()) refuse_call("which gives an empty list");
    return json_kind("as_tensors", json_list(items));
  }
  if (result.values[0] >= 0) return json_tensor(new_value(result.values[0], wanted));
  if (is_only) refuse_call("which gives an undefined tensor");
  return json_kind("as_none", "true");
}

void ProgramWriter::check_dtype(const ValueType& type, const std::string& what) const {
  if (!code_of_dtype(type.dtype)) refuse(str(what, " of dtype ", at::toString(type.dtype)));
}

void ProgramWriter::add_variables() {
  made_.variables = variable_paths(program_.variables);
  for (size_t i = 0; i < source_.variables.size(); ++i) {
    const std::string& path = made_.variables[i];
    const size_t value = program_.inputs.size() + i;
    check_dtype(source_.types[value], str("uses the variable '", program_.variables[i], '\''));
    const bool is_parameter = source_.variables[i].requires_grad();
    const std::string name = define(static_cast<int>(value), (is_parameter ? "p_" : "b_") + path, is_parameter);
    variables_.push_back(json_tensor(name));
    if (is_parameter)
      variable_specs_.push_back(
          json_kind("parameter", json_object({{"arg", json_name(name)}, {"parameter_name", json_text(path)}})));
    else
      variable_specs_.push_back(json_kind(
          "buffer", json_object({{"arg", json_name(name)}, {"buffer_name", json_text(path)}, {"persistent", "true"}})));
  }
}

void ProgramWriter::add_inputs() {
  for (const auto& [value, wanted] : inputs_of_tensor_part(program_, [&](const std::string& what) { refuse(what); })) {
    const ValueType& type = source_.types[static_cast<size_t>(value)];
    const auto is_unknown = [](const std::optional<Integer>& size) { return !size; };
    if (!type.is_known() || std::ranges::any_of(type.sizes, is_unknown))
      refuse(str("takes '", wanted, "', which is text or has a size of its own"));
    check_dtype(type, str("takes '", wanted, '\''));
    const std::string name = define(value, wanted);
    made_.inputs.push_back(value);
    argument_names_.push_back(json_text(name));
    inputs_.push_back(json_tensor(name));
    input_specs_.push_back(json_kind("user_input", json_object({{"arg", json_tensor(name)}})));
  }
}

void ProgramWriter::add_call(size_t index) {
  call_ = index;
  const Call& call = program_.calls[index];
  const c10::FunctionSchema& schema = schema_of(call);
  const std::vector<std::string> inputs = arguments(call, schema);
  std::vector<std::string> outputs;
  for (const Call::Result& made : call.results)
    outputs.push_back(result(made, base_of(call.op), call.results.size() == 1));
  const bool is_single = call.results.size() == 1 && !call.results[0].is_list;
  const std::string name =
      is_single ? names_[static_cast<size_t>(call.results[0].values[0])] : python_names_.add(base_of(call.op));
  add_node(target_of(call.op), inputs, outputs, name);
}

void ProgramWriter::add_outputs() {
  for (const auto& [spec, value] : program_.outputs) {
    if (spec.is_text) refuse(str("returns text as '", spec.name, '\''));
    outputs_.push_back(json_tensor(names_[static_cast<size_t>(value)]));
    output_specs_.push_back(json_kind("user_output", json_object({{"arg", outputs_.back()}})));
  }
}

std::string ProgramWriter::module_call_graph() const {
  const std::string by_name = pytree("builtins.dict", "[]", "[]");
  const std::string taken = tuple_of(json_list({tuple_of(leaves(inputs_.size())), by_name}));
  const std::string given = outputs_.size() == 1 ? pytree("", "", "[]") : tuple_of(leaves(outputs_.size()));
  constexpr const char* kTreespecVersion = "1";
  return json_list(
      {json_object({{"fqn", "\"\""},
                    {"signature", json_object({{"inputs", json_list(inputs_)},
                                               {"outputs", json_list(outputs_)},
                                               {"in_spec", json_text(json_list({kTreespecVersion, taken}))},
                                               {"out_spec", json_text(json_list({kTreespecVersion, given}))},
                                               {"forward_arg_names", json_list(argument_names_)}})}})});
}

// Any size is taken that is not negative.
std::string ProgramWriter::range_constraints() const {
  const std::string any = json_object({{"min_val", "0"}, {"max_val", "null"}});
  std::string members;
  const auto add = [&](const std::string& symbol) {
    members += str(members.empty() ? "" : ", ", json_text(symbol), ": ", any);
  };
  for (size_t i = 0; i < program_.sizes.size(); ++i)
    if (place_of(static_cast<int>(i))) add(symbol_name(static_cast<int>(i)));
  for (int i = 0; i < num_unbacked_; ++i) add(str('u', i));
  return '{' + members + '}';
}

ExportedProgram ProgramWriter::run() {
  add_inputs();  // first, so that they get their names
  add_variables();
  for (size_t i = 0; i < program_.calls.size(); ++i)
    if (!program_.calls[i].is_step) add_call(i);
  add_outputs();
  const std::string graph = json_object({{"inputs", json_list(joined(variables_, inputs_))},
                                         {"outputs", json_list(outputs_)},
                                         {"nodes", json_list(nodes_)},
                                         {"tensor_values", '{' + tensor_values_ + '}'},
                                         {"sym_int_values", '{' + sym_int_values_ + '}'},
                                         {"sym_bool_values", "{}"},
                                         {"is_single_tensor_return", "false"},
                                         {"custom_obj_values", "{}"},
                                         {"sym_float_values", "{}"}});
  const std::string signature = json_object(
      {{"input_specs", json_list(joined(variable_specs_, input_specs_))}, {"output_specs", json_list(output_specs_)}});
  const std::string module = json_object({{"graph", graph},
                                          {"signature", signature},
                                          {"module_call_graph", module_call_graph()},
                                          {"metadata", "{}"},
                                          {"treespec_namedtuple_fields", "{}"}});
  made_.json = json_object(
      {{"graph_module", module},
       {"opset_version", json_kind("aten", json_integer(caffe2::serialize::kMaxSupportedFileFormatVersion))},
       {"range_constraints", range_constraints()},
       {"schema_version", json_object({{"major", json_integer(kSchemaMajor)}, {"minor", json_integer(kSchemaMinor)}})},
       {"verifiers", "[\"TRAINING\"]"},
       {"torch_version", json_text(TORCH_VERSION)},
       {"guards_code", "[]"}});
  return std::move(made_);
}

}  // namespace

ExportedProgram exported_program(const Source& source) { return ProgramWriter(source).run(); }

std::string json_tensor_meta(const ValueType& type, bool requires_grad, int& num_unbacked) {
  std::vector<std::string> sizes, strides(type.rank());
  std::vector<SymbolicSize> extents;
  for (const auto& size : type.sizes) {
    extents.push_back(size ? size_of(*size) : unbacked_size(num_unbacked++));
    sizes.push_back(json_size(extents.back()));
  }
  SymbolicSize stride = constant_size(1);
  for (size_t axis = type.rank(); axis-- > 0;) {
    strides[axis] = json_size(stride);
    const bool is_empty = extents[axis].is_constant && *extents[axis].value == 0;
    if (!is_empty) stride = stride * extents[axis];
  }
  return json_object({{"dtype", json_integer(code_of_dtype(type.dtype).value())},
                      {"sizes", json_list(sizes)},
                      {"requires_grad", requires_grad ? "true" : "false"},
                      {"device", json_object({{"type", "\"cpu\""}, {"index", "null"}})},
                      {"strides", json_list(strides)},
                      {"storage_offset", json_kind("as_int", "0")},
                      {"layout", json_integer(code_of_layout(static_cast<int64_t>(at::kStrided)).value())}});
}

}  // namespace tutti::saved_model::pt2
