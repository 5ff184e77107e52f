// A layer of an LSTM as LibTorch runs it on the CPU, in one call over all steps. Its rows are independent: it follows
// the batch, and weights are whole. (Elsewhere, and for GRU and RNN, LibTorch calls the ops of each step.)
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/pieces.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// Layouts of what has a batch, cut by one mesh dimension.
struct BatchLayouts {
  int8_t dimension;
  AxisMap sequence() const { return {-1, dimension, -1}; }  // [step, row, feature]
  AxisMap state() const { return {dimension, -1}; }         // [row, feature]
};

void ask_for_whole_weights(Planner& p) {
  for (int weight = 1; weight <= 4; ++weight) p.operand(weight, unsharded(p.spec(weight)->rank()));
}

// Whether the weights are two matrices and two vectors: of others LibTorch makes such, and their gradients too.
bool are_matrices(const Planner& p) {
  return p.spec(1)->rank() == 2 && p.spec(2)->rank() == 2 && p.spec(3)->rank() == 1 && p.spec(4)->rank() == 1;
}

// mkldnn_rnn_layer(input, weight × 4, state, cell, …, train) -> (output, state, cell, workspace)
bool layer(Planner& p) {
  const Spec *input = p.spec(0), *state = p.spec(5), *cell = p.spec(6);
  if (input->rank() != 3 || state->rank() != 2 || cell->rank() != 2 || !are_matrices(p)) return false;
  const BatchLayouts batch{input->axes[1]};
  if (has_empty_piece(p, input->sizes[1], batch.dimension)) return false;
  p.operand(0, batch.sequence());
  ask_for_whole_weights(p);
  p.operand(5, batch.state());
  p.operand(6, batch.state());
  p.result(batch.sequence(), {-1, input->sizes[1], -1});
  p.result(batch.state(), state->sizes);
  p.result(batch.state(), cell->sizes);
  p.opaque_result(batch.dimension);
  return true;
}

// mkldnn_rnn_layer_backward(input, weight × 4, state, cell, output, last state, last cell, gradients of these three, …,
// workspace) -> (gradients of input, weight × 2, bias × 2, state, cell). The workspace says how the batch was cut.
bool layer_backward(Planner& p) {
  constexpr int kWorkspace = 22;
  const Spec *input = p.spec(0), *state = p.spec(5), *cell = p.spec(6), *workspace = p.spec(kWorkspace);
  if (!workspace || workspace->rank() != 1 || !are_matrices(p)) return false;
  const BatchLayouts batch{workspace->axes[0]};
  for (const int sequence : {0, 7, 10})
    if (p.spec(sequence)) p.operand(sequence, batch.sequence());
  for (const int of_rows : {5, 6, 8, 9, 11, 12})
    if (p.spec(of_rows)) p.operand(of_rows, batch.state());
  ask_for_whole_weights(p);
  p.operand(kWorkspace, workspace->axes);
  p.result(batch.sequence(), input->sizes);
  const DimensionMask parts = batch.dimension < 0 ? 0 : DimensionMask{1} << batch.dimension;
  for (int weight = 1; weight <= 4; ++weight) {
    const Spec* spec = p.spec(weight);
    p.result(unsharded(spec->rank()), spec->sizes, parts);
  }
  p.result(batch.state(), state->sizes);
  p.result(batch.state(), cell->sizes);
  return true;
}

}  // namespace

void add_recurrent_rules(RuleTable& table) {
  table["mkldnn_rnn_layer"] = {layer, SizeArguments::unaffected};
  table["mkldnn_rnn_layer_backward"] = {layer_backward, SizeArguments::unaffected};
}

}  // namespace tutti
