// Whole training programs, put together from the idioms that programs of LibTorch's users have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::fuzz {

// What a training program may do, each a bit of Choice::idioms.
enum class Idiom : uint8_t {
  accumulate,      // a step of the optimizer after each second backward
  keep_gradients,  // zero_grad(false), which fills instead of dropping
  clip_norm,
  clip_value,
  scheduler,
  momentum,  // else plain SGD
  adam,
  param_groups,
  decay_by_hand,   // the gradient is changed before the step
  ema,             // an average of the parameters, by lerp_
  ema_by_data,     // the same through p.data()
  target_network,  // a second module that follows the first
  anchor,          // a penalty for leaving the first parameters, of which detach() keeps no copy
  freeze,          // the first layer, for two steps
  tie_weights,
  recurrent,        // a state that is kept over batches
  state_in_module,  // the state is a member of the module
  custom_function,
  adversary,  // a second module with an optimizer of its own, as in a GAN
  hook,
  penalty,  // of the gradient's norm: a second backward
  running_buffer,
  evaluate,            // before training, under NoGradGuard
  evaluate_inference,  // the same under InferenceMode
  save,                // and go on with what was loaded
  clone,               // and go on with the clone
  clamp_data,          // w.data().clamp_() after the step
  set_data,            // w.set_data(...) after the step
  vector,              // parameters_to_vector and back
  step_inside,         // the optimizer steps in run
  loss_history,        // keeps losses as tensors
  update_in_call,  // zero_grad and the optimizer's step beside the step of the replicas: in a function that is recorded
  evaluate_often,  // after each third step, by a function of its own if the step is one
  checkpoint,      // written, what it is of overwritten, and restored
  convolve,
  embed,
  attend,
  normalize_layer,
  normalize_batch,
  dropout,
  reparametrize,  // the last weight is a direction by a gain
  scale_loss,     // by a GradScaler; without Tutti it is not scaled, as powers of two leave the numbers alone
  two_losses,     // backward twice through one graph
  fast_weights,   // a loss of weights after a step of their own, as in meta-learning
  perturb,        // the gradient is that of weights which their own gradient moved, and that are moved back (SAM)
  look_ahead,     // slow weights, to which the fast ones go back after each third step
  sparse_words,   // the embedding's gradient is sparse
  temperature,    // a parameter of no axes
  lbfgs,          // an optimizer that calls a closure
  add_group,      // the optimizer is given the later layers after two steps
  last
};
std::string to_string(Idiom idiom);

struct Choice {
  uint64_t idioms = 0;
  int replicas = 0;  // of each process; 0: global view
  bool merge = true;
  bool recorded = false;   // the step is a function that is recorded and replayed
  bool gpus = false;       // the mesh's devices: simulated ones where there are none
  bool processes = false;  // those that were launched train together
  bool has(Idiom idiom) const { return idioms >> static_cast<int>(idiom) & 1; }
};
std::string to_string(const Choice& choice);
// Where idioms exclude each other or mean nothing in this place, without some.
Choice sensible(Choice choice);

// The numbers that a program leaves: losses, parameters, …, each with a name.
struct Number {
  std::string name;
  std::vector<double> values;
};
// On one device, without Tutti; and where the choice says.
std::vector<Number> train_plain(const Choice& choice);
std::vector<Number> train_on_mesh(const Choice& choice);

}  // namespace tutti::fuzz
