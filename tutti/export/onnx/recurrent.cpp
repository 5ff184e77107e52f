#include <string>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

// A kind of layer. The weights of its gates lie one behind the other.
struct Recurrence {
  const char* op;
  std::vector<size_t> gates;  // LibTorch's, in ONNX's order
  size_t num_states;
  Attributes attributes = {};
};
Recurrence lstm_kind() { return {"LSTM", {0, 3, 1, 2}, 2}; }  // i f c o there, i o f c here
Recurrence gru_kind() { return {"GRU", {1, 0, 2}, 1, {{"linear_before_reset", int64_t{1}}}}; }  // r z h, z r h
Recurrence rnn_kind(const char* activation, size_t num_directions) {
  return {"RNN", {0}, 1, {{"activations", std::vector<std::string>(num_directions, activation)}}};
}

// Of one direction of a layer; biases may lack names.
struct Weights {
  Operand input, hidden, input_bias, hidden_bias;
};

Operand in_order(const C& c, const Recurrence& kind, const Operand& weights) {
  if (kind.gates.size() == 1) return weights;
  const Operands gates = c.graph.node("Split", {weights}, {{"axis", int64_t{0}}}, kind.gates.size());
  Operands ordered;
  for (const size_t gate : kind.gates) ordered.push_back(gates[gate]);
  return c.node("Concat", ordered, {{"axis", int64_t{0}}});
}

// The same of all directions, along a new first axis.
Operand stacked(const C& c, Operands parts) {
  for (Operand& part : parts) part = c.graph.unsqueeze(part, {0});
  return parts.size() == 1 ? parts[0] : c.node("Concat", parts, {{"axis", int64_t{0}}});
}

// The layer's values and its states at the end: [time, directions, batch, hidden] and [directions, batch, hidden].
Operands layer(const C& c, const Recurrence& kind, const Operand& x, const std::vector<Weights>& directions,
               const Operands& states, int64_t hidden_size) {
  Operands input, hidden, biases;
  for (const Weights& weights : directions) {
    input.push_back(in_order(c, kind, weights.input));
    hidden.push_back(in_order(c, kind, weights.hidden));
    if (weights.input_bias.name.empty()) continue;
    biases.push_back(c.node("Concat", {in_order(c, kind, weights.input_bias), in_order(c, kind, weights.hidden_bias)},
                            {{"axis", int64_t{0}}}));
  }
  Operands inputs = {x, stacked(c, input), stacked(c, hidden), biases.empty() ? Operand{} : stacked(c, biases), {}};
  inputs.insert(inputs.end(), states.begin(), states.end());
  Attributes attributes = kind.attributes;
  attributes.push_back({"hidden_size", hidden_size});
  attributes.push_back({"direction", std::string(directions.size() == 2 ? "bidirectional" : "forward")});
  return c.graph.node(kind.op, inputs, attributes, 1 + kind.num_states);
}

at::ScalarType dtype_of(const C& c) { return arithmetic(c.result().dtype); }

Operands states_of(const C& c, const Recurrence& kind) {
  Operands states = kind.num_states == 2 ? c.tensors("hx") : Operands{c.tensor("hx")};
  if (states.size() != kind.num_states) c.refuse("with another number of states than it has");
  for (Operand& state : states) state = c.graph.cast(state, dtype_of(c));
  return states;
}
int64_t hidden_size_of(const C& c, const Recurrence& kind) {
  const ValueType& state = kind.num_states == 2 ? *c.types("hx")[0] : c.type("hx");
  const auto size = constant_of(state.sizes.back());
  if (!size) c.refuse("with states whose size is not known");
  return *size;
}

std::vector<std::vector<Weights>> weights_of(const C& c, size_t num_layers, size_t num_directions) {
  Operands all = c.tensors("params");
  for (Operand& one : all) one = c.graph.cast(one, dtype_of(c));
  const bool has_biases = c.flag("has_biases");
  const size_t count = has_biases ? 4 : 2;
  if (all.size() != num_layers * num_directions * count) c.refuse("with projections");
  std::vector<std::vector<Weights>> layers(num_layers);
  for (size_t i = 0; i < all.size(); i += count) {
    Weights weights{all[i], all[i + 1], {}, {}};
    if (has_biases) weights.input_bias = all[i + 2], weights.hidden_bias = all[i + 3];
    layers[i / count / num_directions].push_back(weights);
  }
  return layers;
}

// [time, directions, batch, hidden] as [time, batch, directions times hidden].
Operand joined(const C& c, const Operand& values, size_t num_directions) {
  if (num_directions == 1) return c.graph.squeeze(values, {1});
  return c.node("Reshape", {c.graph.transpose(values, {0, 2, 1, 3}), c.graph.integers({0, 0, -1})});
}

Operands layers(const C& c, const Recurrence& kind) {
  if (!c.takes("hx") || !c.takes("input") || c.rank("input") != 3)
    c.refuse("of a packed sequence, or of none in a batch");
  if (c.flag("train") && c.number("dropout") != 0) c.refuse("with dropout, as in training; call eval() before");
  const size_t num_directions = c.flag("bidirectional") ? 2 : 1;
  const auto num_layers = static_cast<size_t>(c.integer("num_layers"));
  const bool batch_first = c.flag("batch_first");
  const Operands states = states_of(c, kind);
  Operand x = c.tensor("input", dtype_of(c));
  if (batch_first) x = c.graph.transpose(x, {1, 0, 2});
  std::vector<Operands> last(kind.num_states);
  const auto all_weights = weights_of(c, num_layers, num_directions);
  for (size_t i = 0; i < num_layers; ++i) {
    Operands first = states;
    const auto begin = static_cast<int64_t>(i * num_directions), end = static_cast<int64_t>((i + 1) * num_directions);
    if (num_layers > 1)
      for (Operand& state : first) state = c.graph.slice(state, 0, c.graph.integers({begin}), c.graph.integers({end}));
    const Operands made = layer(c, kind, x, all_weights[i], first, hidden_size_of(c, kind));
    x = joined(c, made[0], num_directions);
    for (size_t k = 0; k < kind.num_states; ++k) last[k].push_back(made[1 + k]);
  }
  Operands results = {batch_first ? c.graph.transpose(x, {1, 0, 2}) : x};
  for (const Operands& parts : last)
    results.push_back(num_layers == 1 ? parts[0] : c.node("Concat", parts, {{"axis", int64_t{0}}}));
  return results;
}

// One step: a layer over a sequence of one.
Operands cell(const C& c, const Recurrence& kind) {
  if (c.rank("input") != 2) c.refuse("of what is no batch");
  const auto weight = [&](const char* name) { return c.has(name) ? c.tensor(name, dtype_of(c)) : Operand{}; };
  const Weights weights{weight("w_ih"), weight("w_hh"), weight("b_ih"), weight("b_hh")};
  if (weights.input_bias.name.empty() != weights.hidden_bias.name.empty()) c.refuse("with one bias of two");
  Operands states = states_of(c, kind);
  for (Operand& state : states) state = c.graph.unsqueeze(state, {0});
  const Operand x = c.graph.unsqueeze(c.tensor("input", dtype_of(c)), {0});
  Operands made = layer(c, kind, x, {weights}, states, hidden_size_of(c, kind));
  made.erase(made.begin());
  for (Operand& state : made) state = c.graph.squeeze(state, {0});
  return made;
}

Operands rnn(const C& c, const char* activation) {
  return layers(c, rnn_kind(activation, c.takes("bidirectional") && c.flag("bidirectional") ? 2 : 1));
}

constexpr NamedLowering kRecurrent[] = {
    {"lstm", [](const C& c) { return layers(c, lstm_kind()); }},
    {"gru", [](const C& c) { return layers(c, gru_kind()); }},
    {"rnn_tanh", [](const C& c) { return rnn(c, "Tanh"); }},
    {"rnn_relu", [](const C& c) { return rnn(c, "Relu"); }},
    {"lstm_cell", [](const C& c) { return cell(c, lstm_kind()); }},
    {"gru_cell", [](const C& c) { return cell(c, gru_kind()); }},
    {"rnn_tanh_cell", [](const C& c) { return cell(c, rnn_kind("Tanh", 1)); }},
    {"rnn_relu_cell", [](const C& c) { return cell(c, rnn_kind("Relu", 1)); }},
};

}  // namespace

std::span<const NamedLowering> recurrent_lowerings() { return kRecurrent; }

}  // namespace tutti::saved_model::onnx
