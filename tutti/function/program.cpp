#include "tutti/function/program.h"

#include <algorithm>
#include <sstream>

#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

void write_values(std::ostream& out, const Program::Operand& operand) {
  const bool list = operand.kind != Program::Operand::Kind::tensor;
  if (list) out << '[';
  for (size_t i = 0; i < operand.values.size(); ++i) {
    if (i) out << ", ";
    if (operand.values[i] < 0)
      out << "none";
    else
      out << '%' << operand.values[i];
  }
  if (list) out << ']';
}

void write_operand(std::ostream& out, const Program::Operand& operand) {
  if (operand.kind != Program::Operand::Kind::constant)
    write_values(out, operand);
  else if (operand.constant.isTensor())
    out << (operand.constant.toTensor().defined() ? "number" : "none");
  else if (operand.constant.isGenerator())
    out << "generator";
  else
    out << operand.constant;
}

std::string indented(const std::string& lines) {
  std::istringstream in(lines);
  std::string text;
  for (std::string line; std::getline(in, line);) text += "    " + line + '\n';
  return text;
}

}  // namespace

const Tensor& gradient_of(const Tensor& leaf) {
  const MeshMeta* const meta = is_mesh_tensor(leaf) ? mesh_impl(leaf).mesh_meta() : nullptr;
  const bool only_looks = meta && (in_replica_view() || meta->group()->is_of_processes());
  return only_looks ? meta->unreduced_gradient() : leaf.grad();
}

at::ArrayRef<Tensor> gradient_pieces(const Tensor& leaf) {
  const Tensor& gradient = gradient_of(leaf);
  if (is_mesh_tensor(gradient)) return mesh_impl(gradient).read_here();
  return gradient.defined() ? at::ArrayRef<Tensor>(gradient) : at::ArrayRef<Tensor>();
}

const Tensor* gradient_piece(const Program& program, const Program::Buffer& gradient) {
  const auto pieces = gradient_pieces(program.leaves[static_cast<size_t>(gradient.index)].tensor);
  const auto piece = static_cast<size_t>(gradient.piece);
  return piece < pieces.size() && pieces[piece].defined() ? &pieces[piece] : nullptr;
}

std::string_view name_of(Program::Buffer::Kind kind) {
  switch (kind) {
    case Program::Buffer::Kind::argument: return "argument";
    case Program::Buffer::Kind::captured: return "captured";
    case Program::Buffer::Kind::replica: return "replica's";
    case Program::Buffer::Kind::gradient: return "gradient";
    case Program::Buffer::Kind::constant: return "constant";
    case Program::Buffer::Kind::temporary: return "temporary";
  }
  return "";
}

std::string name_of(const c10::OperatorHandle& op) {
  const auto& [name, overload] = op.operator_name();
  return overload.empty() ? name : str(name, '.', overload);
}

bool is_on_host(const Program& program, const Program::Call& call) {
  const auto lie_there = [&](const c10::SmallVector<int, 2>& buffers) {
    return std::all_of(buffers.begin(), buffers.end(),
                       [&](int buffer) { return program.buffers[static_cast<size_t>(buffer)].device.is_cpu(); });
  };
  return lie_there(call.reads) && lie_there(call.writes);
}

bool Program::Call::makes_lists() const {
  return std::any_of(results.begin(), results.end(),
                     [](const Operand& result) { return result.kind != Operand::Kind::tensor; });
}

std::string Program::to_string() const {
  std::ostringstream out;
  const auto text_of = [&](const Value& value) {
    const c10::Device device = buffers[static_cast<size_t>(value.buffer)].device;
    return tutti::to_string(value.geometry) + (device.is_cpu() ? "" : tutti::str(" on ", device));
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const Buffer& buffer = buffers[static_cast<size_t>(values[i].buffer)];
    if (buffer.kind == Buffer::Kind::temporary) continue;
    out << '%' << i << ": " << name_of(buffer.kind) << ' ';
    if (buffer.index >= 0) out << buffer.index << ' ';
    out << text_of(values[i]) << (buffer.written ? ", written" : "") << '\n';
  }
  for (const Call& call : calls) {
    for (size_t i = 0; i < call.results.size(); ++i) {
      if (i) out << ", ";
      write_operand(out, call.results[i]);
    }
    out << (call.results.empty() ? "" : " = ") << call.name << '(';
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      if (i) out << ", ";
      write_operand(out, call.arguments[i]);
    }
    out << ')';
    for (const Operand& result : call.results)
      for (const int value : result.values)
        if (value >= 0) out << "  " << text_of(values[static_cast<size_t>(value)]);
    out << '\n';
    for (const Part& part : call.parts) out << "  " << part.name << ":\n" << indented(part.program->to_string());
  }
  out << "return";
  for (const Result& result : results) out << (result.value < 0 ? " none" : str(" %", result.value));
  out << '\n';
  return out.str();
}

}  // namespace tutti
