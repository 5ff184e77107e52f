#include "print.h"

#include <algorithm>
#include <sstream>

#include "optimizers.h"
#include "tutti/core/str.h"

namespace tutti::fuzz {
namespace {

std::string list(const std::vector<int64_t>& values) {
  std::string text = "{";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "}";
}

std::string dtype_text(at::ScalarType dtype) {
  const std::string name = c10::toString(dtype);
  return "at::k" + name;
}

std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str().find_first_of(".en") == std::string::npos ? text.str() + ".0" : text.str();
}

std::string real_text(const Input& input, int64_t start) {
  int64_t count = 1;
  for (const int64_t size : input.sizes) count *= size;
  const auto of = [&](int64_t n) {
    return str("at::arange(", count, ").mul(", input.step, ").add(", start, ").remainder(", n,
               ").to(at::kDouble).reshape(", list(input.sizes), ")");
  };
  const std::string scaled = input.scale == 1 ? "" : str(".mul(", input.scale, ")");
  switch (input.elements) {
    case Elements::any: return of(31) + ".sub(15).div(8)" + scaled;
    case Elements::positive: return of(31) + ".add(1).div(16)" + scaled;
    case Elements::fractions: return of(15) + ".add(1).div(16)";
    case Elements::indices: return of(input.below < 1 ? 1 : input.below);
    case Elements::definite: return "symmetric(" + of(31) + ".sub(15).div(32))";
  }
  return "";
}

std::string value_text(const Input& input) {
  std::string text = real_text(input, input.start);
  if (input.dtype == at::kBool)
    text += ".gt(0)";
  else if (at::isComplexType(input.dtype) && input.elements != Elements::definite)
    text = "at::complex(" + text + ", " + real_text(input, input.start + 5) + ")";
  text += ".to(" + dtype_text(input.dtype) + ")";
  const size_t rank = input.sizes.size();
  if (input.strides == Strides::transposed && rank >= 2) text += ".transpose(0, -1).contiguous().transpose(0, -1)";
  if (input.strides == Strides::channels_last && rank == 4) text += ".contiguous(at::MemoryFormat::ChannelsLast)";
  if (input.strides == Strides::channels_last && rank == 5) text += ".contiguous(at::MemoryFormat::ChannelsLast3d)";
  return text + ".clone()";
}

std::string dimension_name(int dimension) { return std::string(1, static_cast<char>('x' + dimension)); }

std::string place_text(const Input& input, const Program& program) {
  if (program.place == Place::replicas || input.plain) return value_text(input);
  std::string axes;
  for (const int d : input.axes)
    axes += (axes.empty() ? "" : ", ") + (d < 0 ? "kUnsharded" : '"' + dimension_name(d) + '"');
  std::string text = "place(" + value_text(input) + ", {" + axes + "}";
  return text + (input.unreduced < 0 ? ")" : ", \"" + dimension_name(input.unreduced) + "\")");
}

std::string constant_text(const at::IValue& value, const c10::Argument& argument) {
  const std::string type = argument.real_type()->str();
  if (value.isNone()) return "{}";
  if (value.isBool()) return value.toBool() ? "true" : "false";
  if (value.isString()) return "\"" + value.toStringRef() + "\"";
  if (value.isInt() && type.find("ScalarType") == 0) return dtype_text(static_cast<at::ScalarType>(value.toInt()));
  if (value.isInt() && type.find("MemoryFormat") == 0) return str("static_cast<at::MemoryFormat>(", value.toInt(), ")");
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isDouble()) return number_text(value.toDouble());
  if (value.isIntList()) {
    const std::string items = list(value.toIntVector());
    return type.back() == '?' ? "at::OptionalIntArrayRef(std::vector<int64_t>" + items + ")" : items;
  }
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string argument_text(const Program& program, const Argument& argument, const c10::Argument& schema) {
  if (argument.kind == Argument::Kind::constant) return constant_text(argument.constant, schema);
  const bool optional = schema.real_type()->str().find('?') != std::string::npos;
  if (argument.kind == Argument::Kind::tensor)
    return argument.slots[0] < 0 ? "{}" : slot_name(program, argument.slots[0]);
  std::string items;
  for (const int slot : argument.slots)
    items +=
        (items.empty() ? "" : ", ") + (slot < 0 ? std::string("std::optional<Tensor>()") : slot_name(program, slot));
  return (optional ? "c10::List<std::optional<Tensor>>({" : "std::vector<Tensor>({") + items + "})";
}

std::string call_text(const Program& program, const Statement& statement) {
  std::string text = "at::_ops::", name = op_name(*statement.op);
  const auto& schema = statement.op->schema();
  for (const char c : name) text += c == '.' ? '_' : c;
  text += "::call(";
  for (size_t i = 0; i < statement.arguments.size(); ++i)
    text += (i ? ", " : "") + argument_text(program, statement.arguments[i], schema.arguments()[i]);
  return text + ")";
}

std::string names_of(const Program& program, const std::vector<int>& slots) {
  std::string text;
  for (const int slot : slots) text += (text.empty() ? "" : ", ") + slot_name(program, slot);
  return text;
}

std::string statement_text(const Program& program, const Statement& statement) {
  const auto slots = [&](size_t argument) { return names_of(program, statement.arguments[argument].slots); };
  std::string result;
  for (size_t i = 0; i < program.statements.size(); ++i)
    if (&program.statements[i] == &statement) result = str("y", i);
  switch (statement.kind) {
    case Statement::Kind::call:
      return (statement.op->schema().returns().empty() ? "" : "auto " + result + " = ") +
             call_text(program, statement) + ";";
    case Statement::Kind::backward: return "torch::autograd::backward({" + slots(0) + "}, halves({" + slots(0) + "}));";
    case Statement::Kind::gradient:
      return "auto " + result + " = torch::autograd::grad({" + slots(0) + "}, {" + slots(1) + "}, halves({" + slots(0) +
             "}), true, true, true);";
    case Statement::Kind::hook:
      return slots(0) + ".register_hook([](const Tensor& gradient) { return gradient * 2; });";
    case Statement::Kind::read_gradient: return "Tensor " + result + " = " + slots(0) + ".grad();";
    case Statement::Kind::zero_gradients: return "for (Tensor leaf : leaves) leaf.mutable_grad() = Tensor();";
    case Statement::Kind::optimizer_step:

      // One for all its steps.
      return "[&] { static auto& optimizer = *new torch::optim::" +
             Optimizers::names()[static_cast<size_t>(statement.optimizer)] + "; optimizer.step(); }();";
  }
  return "";
}

std::string mesh_text(const Program& program) {
  std::string dimensions;
  for (size_t d = 0; d < program.mesh.size(); ++d)
    dimensions += str(d ? ", " : "", "{\"", dimension_name(static_cast<int>(d)), "\", ", program.mesh[d], "}");
  return "const Mesh mesh({" + dimensions + "}, configure_logical_cpus(" + std::to_string(program.num_devices()) + ")" +
         (program.place == Place::merged ? ")" : ", {.merge = false})");
}

std::string first_line(const std::string& text) { return text.substr(0, std::min<size_t>(text.find('\n'), 300)); }

bool has_kind(const Program& program, Statement::Kind kind) {
  return std::any_of(program.statements.begin(), program.statements.end(),
                     [&](const Statement& statement) { return statement.kind == kind; });
}

std::string helpers_text(const Program& program) {
  std::string text;
  if (has_kind(program, Statement::Kind::backward) || has_kind(program, Statement::Kind::gradient))
    text +=
        "std::vector<Tensor> halves(std::vector<Tensor> of) {\n"
        "  for (Tensor& tensor : of) tensor = at::full_like(tensor.detach(), 0.5);\n  return of;\n}\n";
  if (std::any_of(program.inputs.begin(), program.inputs.end(),
                  [](const Input& input) { return input.elements == Elements::definite; }))
    text += "Tensor symmetric(Tensor x) { return x + x.mT() + at::eye(x.size(-1), at::kDouble) * 8; }\n";
  return text;
}

std::string inputs_text(const Program& program, const std::string& before) {
  std::string text;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    text += "  " + before + str("x", i, " = ") + place_text(program.inputs[i], program) +
            (program.inputs[i].requires_grad ? ".requires_grad_();\n" : ";\n");
  return text;
}

std::string leaves_text(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].requires_grad) text += (text.empty() ? "" : ", ") + str("x", i);
  return text;
}

// The statements, and what is printed after them.
std::string statements_text(const Program& program) {
  std::string text;
  if (has_kind(program, Statement::Kind::zero_gradients) || has_kind(program, Statement::Kind::optimizer_step))
    text += "  const std::vector<Tensor> leaves{" + leaves_text(program) + "};\n";
  bool no_grad = false;
  for (const Statement& statement : program.statements) {
    if (statement.no_grad != no_grad) text += str("  at::GradMode::set_enabled(", no_grad ? "true" : "false", ");\n");
    no_grad = statement.no_grad;
    text += "  " + statement_text(program, statement) + "\n";
  }
  if (no_grad) text += "  at::GradMode::set_enabled(true);\n";
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    text += str("  std::cout << \"x", i, " \" << x", i, " << std::endl;\n");
    if (program.inputs[i].requires_grad) text += str("  std::cout << \"gradient \" << x", i, ".grad() << std::endl;\n");
  }
  for (size_t i = 0; i < program.statements.size(); ++i)
    if (const Statement& statement = program.statements[i]; statement.result > 0 && statement.op) {
      const auto& returns = statement.op->schema().returns();
      if (returns.size() == 1) text += str("  std::cout << \"y", i, " \" << y", i, " << std::endl;\n");
      for (size_t k = 0; k < returns.size() && returns.size() > 1; ++k)
        text += str("  std::cout << \"y", i, " \" << std::get<", k, ">(y", i, ") << std::endl;\n");
    }
  return text;
}

std::string guarded(const std::string& call) {
  return "  try {\n    " + call + "\n  } catch (const std::exception& error) {\n" +
         "    std::cout << \"throws \" << error.what() << std::endl;\n  }\n";
}

std::string program_of_mesh(const Program& program) {
  return "template <class Place>\nvoid program(const Place& place) {\n" + inputs_text(program, "Tensor ") +
         statements_text(program) + "}\n\nint main() {\n" +
         guarded(
             "program([](const Tensor& value, const std::vector<std::string>&, const std::string& = {}) { return "
             "value; });") +
         "  " + mesh_text(program) +
         ";\n  const auto place = [&](const Tensor& value, const std::vector<std::string>& axes, const std::string& "
         "sum = "
         "{}) {\n    if (sum.empty()) return distribute_tensor(value, Layout(axes, mesh));\n" +
         "    std::vector<Tensor> terms(mesh.num_devices(), at::zeros_like(value));  // of a mesh of one dimension\n" +
         "    terms.at(0) = value * 2;\n    terms.at(1) = -value;\n" +
         "    return dtensor::pack(terms, Layout(axes, mesh, {sum}));\n  };\n" + guarded("program(place);") + "}\n";
}

std::string program_of_replicas(const Program& program) {
  std::string names;
  for (size_t i = 0; i < program.inputs.size(); ++i) names += str(i ? ", x" : "x", i);
  return "template <class Build, class Run>\nvoid program(const Build& build, const Run& run) {\n" +
         (names.empty() ? "" : "  Tensor " + names + ";\n") + "  build([&] {\n" + inputs_text(program, "") +
         "  });\n  run([&] {\n" + statements_text(program) + "  });\n}\n\nint main() {\n" +
         "  const auto call = [](const auto& f) { f(); };\n" + guarded("program(call, call);") +
         str("  MirroredStrategy strategy({.devices = configure_logical_cpus(", program.num_devices(), ")});\n") +
         guarded("program([&](const auto& f) { strategy.build(f); }, [&](const auto& f) { strategy.run(f); });") +
         "}\n";
}

}  // namespace

std::string slot_name(const Program& program, int slot) {
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].slot == slot) return str("x", i);
  for (size_t i = 0; i < program.statements.size(); ++i) {
    const Statement& statement = program.statements[i];
    if (slot < statement.result || slot >= statement.result + Program::kResults || statement.result == 0) continue;
    const int index = slot - statement.result;
    if (statement.kind == Statement::Kind::gradient) return str("y", i, "[", index, "]");
    if (statement.kind != Statement::Kind::call) return str("y", i);
    const auto& returns = statement.op->schema().returns();
    if (returns.size() == 1 && returns[0].real_type()->str().find("[]") != std::string::npos)
      return str("y", i, "[", index, "]");
    return returns.size() > 1 ? str("std::get<", index, ">(y", i, ")") : str("y", i);
  }
  return str("slot ", slot);
}

std::string statement_name(const Statement& statement) {
  static const char* const kNames[] = {"",     "backward",       "autograd::grad", "register_hook",
                                       "grad", "zero_gradients", "optimizer step"};
  return statement.op ? op_name(*statement.op) : kNames[static_cast<size_t>(statement.kind)];
}

std::string statement_names(const Program& program) {
  std::string text;
  for (const Statement& statement : program.statements) text += (text.empty() ? "" : ", ") + statement_name(statement);
  return text;
}

std::string values_text(const Tensor& tensor) {
  constexpr int64_t kMost = 12;
  std::string text = "{";
  const Tensor flat = tensor.reshape({-1});
  for (int64_t i = 0; i < std::min(flat.numel(), kMost); ++i) {
    std::ostringstream element;
    element << at::IValue(flat[i].item());
    text += (i ? ", " : "") + element.str();
  }
  return text + (flat.numel() > kMost ? ", …}" : "}");
}

std::string to_cpp(const Program& program, const Verdict& verdict) {
  return "// " + to_string(program.place) + " on " + list(program.mesh) + ": " + verdict.kind + ": " +
         first_line(verdict.text) + "\n#include <iostream>\n\n#include \"tutti/tutti.h\"\n\nusing namespace tutti;\n" +
         helpers_text(program) + "\n" +
         (program.place == Place::replicas ? program_of_replicas(program) : program_of_mesh(program));
}

}  // namespace tutti::fuzz
