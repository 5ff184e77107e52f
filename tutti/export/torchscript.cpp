#include "tutti/export/torchscript.h"

#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/export.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/export/python_names.h"
#include "tutti/export/tensor_part.h"

namespace tutti::saved_model {
namespace {

namespace jit = torch::jit;
using Kind = Argument::Kind;

class TorchScriptWriter {
 public:
  TorchScriptWriter(const Program& program, const std::vector<Tensor>& variables)
      : program_(program),
        unit_(std::make_shared<jit::CompilationUnit>()),
        module_(c10::QualifiedName("__torch__.SavedModel"), unit_),
        graph_(std::make_shared<jit::Graph>()),
        self_(graph_->addInput("self")) {
    add_inputs();
    add_variables(variables);
    for (const Call& call : program.calls)
      if (!call.is_step) add_call(call);
    add_outputs();
  }

  jit::Module finish();

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::unimplemented,
                str("saved_model: the signature '", program_.name, "' ", what,
                    ", which a TorchScript file cannot say; save with {.torchscript = false}"));
  }
  jit::Value*& value(int number) {
    if (static_cast<size_t>(number) >= values_.size()) values_.resize(static_cast<size_t>(number) + 1);
    return values_[static_cast<size_t>(number)];
  }
  jit::Value* tensor(int number) {
    jit::Value* const found = value(number);
    if (!found) refuse(str("uses text, value ", number, ", in its calls"));
    return found;
  }
  void add_input(int number, const std::string& name);
  void add_inputs();
  void add_variables(const std::vector<Tensor>& variables);
  void add_call(const Call& call);
  void add_outputs();
  jit::Value* size(int number);
  jit::Value* integer(const Integer& integer);
  jit::Value* list(const c10::TypePtr& type, const std::vector<jit::Value*>& items);
  jit::Value* argument(const Argument& argument, const c10::Argument& schema);
  jit::Value* transposed(jit::Value* matrix);
  jit::Node* node_of(const c10::FunctionSchema& schema, std::vector<jit::Value*> arguments);

  const Program& program_;
  std::shared_ptr<jit::CompilationUnit> unit_;
  jit::Module module_;
  std::shared_ptr<jit::Graph> graph_;
  jit::Value* self_;
  std::vector<jit::Value*> values_;  // by number; null for text
  std::vector<jit::Value*> sizes_;   // those that were asked for
  PythonNames names_;
};

void TorchScriptWriter::add_input(int number, const std::string& name) {
  jit::Value* const input = graph_->addInput(names_.add(name));
  input->setType(c10::TensorType::get());
  value(number) = input;
}

void TorchScriptWriter::add_inputs() {
  for (const auto& [value, name] : inputs_of_tensor_part(program_, [&](const std::string& what) { refuse(what); }))
    add_input(value, name);
}

void TorchScriptWriter::add_variables(const std::vector<Tensor>& variables) {
  std::vector<std::string> names;
  PythonNames attributes;
  for (size_t i = 0; i < variables.size(); ++i) {
    names.push_back(attributes.add(program_.variables[i]));
    const bool is_parameter = variables[i].requires_grad();
    module_.register_attribute(names.back(), c10::TensorType::get(), variables[i], is_parameter, !is_parameter);
  }
  self_->setType(module_._ivalue()->type());
  for (size_t i = 0; i < variables.size(); ++i) {
    jit::Value* const output = graph_->insertNode(graph_->createGetAttr(self_, names[i]))->output();
    output->setType(c10::TensorType::get());
    value(static_cast<int>(program_.inputs.size() + i)) = output;
  }
}

jit::Value* TorchScriptWriter::size(int number) {
  sizes_.resize(program_.sizes.size());
  jit::Value*& size = sizes_[static_cast<size_t>(number)];
  if (size) return size;
  for (const Place& place : program_.sizes[static_cast<size_t>(number)])
    if (jit::Value* const shows = value(place.value); shows && !size)
      size = graph_->insert(at::aten::size, {shows, graph_->insertConstant(place.axis)});
  if (!size) refuse("reads the size of text that no tensor has");
  return size;
}

jit::Value* TorchScriptWriter::integer(const Integer& integer) {
  jit::Value* sum = nullptr;
  for (const Integer::Term& term : integer.terms) {
    jit::Value* product = size(term.sizes[0]);
    if (term.sizes.size() == 2) product = graph_->insert(at::aten::mul, {product, size(term.sizes[1])});
    if (term.factor != 1) product = graph_->insert(at::aten::mul, {product, graph_->insertConstant(term.factor)});
    sum = sum ? graph_->insert(at::aten::add, {sum, product}) : product;
  }
  if (!sum) return graph_->insertConstant(integer.constant);
  return integer.constant ? graph_->insert(at::aten::add, {sum, graph_->insertConstant(integer.constant)}) : sum;
}

jit::Value* TorchScriptWriter::list(const c10::TypePtr& type, const std::vector<jit::Value*>& items) {
  return graph_->insertNode(graph_->createList(type, items))->output();
}

jit::Value* TorchScriptWriter::argument(const Argument& argument, const c10::Argument& schema) {
  const auto numbers = [&] {
    std::vector<jit::Value*> items;
    for (const Integer& number : argument.integers) items.push_back(integer(number));
    return items;
  };
  switch (argument.kind) {
    case Kind::none: return graph_->insertConstant(c10::IValue());
    case Kind::value: return tensor(argument.values[0]);
    case Kind::values: {
      std::vector<jit::Value*> items;
      for (const int number : argument.values)
        items.push_back(number < 0 ? graph_->insertConstant(c10::IValue()) : tensor(number));
      const bool may_lack = schema.type()->str().find('?') != std::string::npos ||
                            schema.type()->str().find("Optional") != std::string::npos;
      return list(may_lack ? c10::TypePtr(c10::OptionalType::ofTensor()) : c10::TypePtr(c10::TensorType::get()), items);
    }
    case Kind::boolean: return graph_->insertConstant(argument.integers[0].constant != 0);
    case Kind::booleans: {
      std::vector<jit::Value*> items;
      for (const Integer& flag : argument.integers) items.push_back(graph_->insertConstant(flag.constant != 0));
      return list(c10::BoolType::get(), items);
    }
    case Kind::integer: return integer(argument.integers[0]);
    case Kind::integers: return list(c10::IntType::get(), numbers());
    case Kind::number: return graph_->insertConstant(argument.numbers[0]);
    case Kind::numbers: return graph_->insertConstant(argument.numbers);
    case Kind::text: return graph_->insertConstant(argument.text);
    case Kind::device: return graph_->insertConstant(c10::Device(at::kCPU));
    case Kind::integer_scalar:  // a tensor of no axes decides no dtype where the other operand has axes
      if (!argument.integers[0].terms.empty()) refuse("uses a size as a tensor");
      return graph_->insertConstant(at::scalar_tensor(argument.integers[0].constant, at::kLong));
    case Kind::number_scalar: return graph_->insertConstant(at::scalar_tensor(argument.numbers[0], at::kFloat));
  }
  return nullptr;
}

bool is_one(const jit::Value* number) {
  const auto constant = jit::toIValue(number);
  return constant && constant->isScalar() && constant->toScalar().equal(1);
}

jit::Value* TorchScriptWriter::transposed(jit::Value* matrix) {
  return matrix->node()->kind() == at::aten::t ? matrix->node()->input() : graph_->insert(at::aten::t, {matrix});
}

// TorchScript runs addmm as mm and add, which rounds once more; linear() calls addmm.
jit::Node* TorchScriptWriter::node_of(const c10::FunctionSchema& schema, std::vector<jit::Value*> arguments) {
  if (schema.name() == "aten::addmm" && is_one(arguments[3]) && is_one(arguments[4]))
    return graph_->create(at::aten::linear, {arguments[1], transposed(arguments[2]), arguments[0]});
  return graph_->create(c10::Symbol::fromQualString(schema.name()), arguments, schema.returns().size());
}

void TorchScriptWriter::add_call(const Call& call) {
  const size_t dot = call.op.find('.');
  const c10::OperatorName name(call.op.substr(0, dot), dot == std::string::npos ? "" : call.op.substr(dot + 1));
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
  std::vector<jit::Value*> inputs;
  for (size_t i = 0; i < call.arguments.size(); ++i)
    inputs.push_back(argument(call.arguments[i].argument, op.schema().arguments()[i]));
  jit::Node* const node = graph_->insertNode(node_of(op.schema(), std::move(inputs)));
  for (size_t i = 0; i < call.results.size(); ++i) {
    jit::Value* const output = node->outputs()[i];
    output->setType(op.schema().returns()[i].type());
    const Call::Result& result = call.results[i];
    if (!result.is_list) {
      if (result.values[0] >= 0) value(result.values[0]) = output;
      continue;
    }
    jit::Node* const parts = graph_->insertNode(graph_->createListUnpack(output, result.values.size()));
    for (size_t k = 0; k < result.values.size(); ++k)
      if (result.values[k] >= 0) value(result.values[k]) = parts->outputs()[k];
  }
  if (!node->maybeOperator()) refuse(str("calls ", call.op, " in a form that TorchScript does not have"));
}

void TorchScriptWriter::add_outputs() {
  std::vector<jit::Value*> outputs;
  for (const auto& output : program_.outputs) {
    if (output.spec.is_text) refuse(str("returns text as '", output.spec.name, '\''));
    outputs.push_back(tensor(output.value));
  }
  graph_->registerOutput(outputs.size() == 1 ? outputs[0] : graph_->insertNode(graph_->createTuple(outputs))->output());
}

jit::Module TorchScriptWriter::finish() {
  jit::EliminateDeadCode(graph_);  // the t() of a matrix that linear() takes
  graph_->lint();
  jit::Function* const forward = unit_->create_function(c10::QualifiedName(*module_.type()->name(), "forward"), graph_);
  module_.type()->addMethod(forward);
  return module_;
}

}  // namespace

void write_torchscript(const Program& program, const std::vector<Tensor>& variables,
                       FunctionRef<void(std::span<const std::byte> bytes)> write) {
  const jit::Module module = TorchScriptWriter(program, variables).finish();
  jit::ExportModule(module, [&](const void* bytes, size_t count) {
    write({static_cast<const std::byte*>(bytes), count});
    return count;
  });
}

}  // namespace tutti::saved_model
