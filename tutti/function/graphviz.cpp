#include "tutti/function/graphviz.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "tutti/core/str.h"
#include "tutti/function/program.h"

namespace tutti {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// Of one program. The names of its nodes begin with a prefix, as those of parts stand beside the others.
class Picture {
 public:
  Picture(const Program& program, std::string prefix, std::ostream& out)
      : program_(program),
        prefix_(std::move(prefix)),
        out_(out),
        makers_(program.values.size(), kNobody),
        writers_(program.buffers.size(), kNobody) {}

  void draw() {
    for (size_t i = 0; i < program_.calls.size(); ++i) draw(program_.calls[i], static_cast<int>(i));
    draw_results();
    for (size_t i = 0; i < program_.values.size(); ++i)
      if (makers_[i] == kNobody) draw_from_outside(static_cast<int>(i));
  }

 private:
  static constexpr int kNobody = -1;

  std::string value_node(int value) const { return str(prefix_, 'v', value); }
  std::string call_node(int call) const { return str(prefix_, 'c', call); }

  // Where a value is from as it is now: what made it, or wrote to its memory since.
  std::string source(int value) const {
    const auto buffer = static_cast<size_t>(program_.values[static_cast<size_t>(value)].buffer);
    const int last = std::max(makers_[static_cast<size_t>(value)], writers_[buffer]);
    return last == kNobody ? value_node(value) : call_node(last);
  }

  // What a call writes in place is an argument of it, too.
  static bool takes(const Program::Call& call, int value) {
    return std::ranges::any_of(call.arguments, [&](const Program::Operand& argument) {
      return std::ranges::find(argument.values, value) != argument.values.end();
    });
  }

  void draw_uses(const Program::Operand& operand, const std::string& user) {
    for (const int value : operand.values)
      if (value >= 0)
        out_ << source(value) << " -> " << user
             << " [label=" << quoted(to_string(program_.values[static_cast<size_t>(value)].geometry)) << "];\n";
  }

  void draw(const Program::Call& call, int number) {
    const std::string node = call_node(number);
    out_ << node << " [shape=box, label=" << quoted(call.name) << "];\n";
    for (const Program::Operand& argument : call.arguments) draw_uses(argument, node);
    for (const Program::Operand& result : call.results)
      for (const int value : result.values)
        if (value >= 0 && !takes(call, value)) makers_[static_cast<size_t>(value)] = number;
    for (const int buffer : call.writes) writers_[static_cast<size_t>(buffer)] = number;
    for (size_t i = 0; i < call.parts.size(); ++i) {
      const std::string prefix = str(node, 'p', i);
      out_ << "subgraph cluster_" << prefix << " {\nlabel=" << quoted(call.parts[i].name) << ";\n";
      Picture(*call.parts[i].program, prefix, out_).draw();
      out_ << "}\n";
    }
  }

  void draw_results() {
    const std::string node = prefix_ + "results";
    out_ << node << " [shape=box, style=rounded, label=\"results\"];\n";
    for (const Program::Result& result : program_.results)
      if (result.value >= 0) draw_uses({.kind = Program::Operand::Kind::tensor, .values = {result.value}}, node);
  }

  void draw_from_outside(int value) {
    const auto number = static_cast<size_t>(program_.values[static_cast<size_t>(value)].buffer);
    const Program::Buffer& buffer = program_.buffers[number];
    const std::string index = buffer.index < 0 ? "" : str(' ', buffer.index);
    out_ << value_node(value) << " [shape=ellipse, label=" << quoted(str(name_of(buffer.kind), index)) << "];\n";
    if (const int writer = writers_[number]; writer != kNobody)
      out_ << call_node(writer) << " -> " << value_node(value) << " [style=dashed, constraint=false];\n";
  }

  const Program& program_;
  const std::string prefix_;
  std::ostream& out_;
  std::vector<int> makers_;   // of values
  std::vector<int> writers_;  // of buffers: the last one
};

}  // namespace

std::string to_graphviz(const Program& program) {
  std::ostringstream out;
  out << "digraph " << quoted(program.name) << " {\n";
  Picture(program, "", out).draw();
  out << "}\n";
  return out.str();
}

}  // namespace tutti
