#include "idioms.h"

#include <bit>

#include "tutti/core/str.h"

namespace tutti::fuzz {

std::string to_string(Idiom idiom) {
  static const char* const kNames[] = {"accumulate",
                                       "keep_gradients",
                                       "clip_norm",
                                       "clip_value",
                                       "scheduler",
                                       "momentum",
                                       "adam",
                                       "param_groups",
                                       "decay_by_hand",
                                       "ema",
                                       "ema_by_data",
                                       "target_network",
                                       "anchor",
                                       "freeze",
                                       "tie_weights",
                                       "recurrent",
                                       "state_in_module",
                                       "custom_function",
                                       "adversary",
                                       "hook",
                                       "penalty",
                                       "running_buffer",
                                       "evaluate",
                                       "evaluate_inference",
                                       "save",
                                       "clone",
                                       "clamp_data",
                                       "set_data",
                                       "vector",
                                       "step_inside",
                                       "loss_history",
                                       "update_in_call",
                                       "evaluate_often",
                                       "checkpoint",
                                       "convolve",
                                       "embed",
                                       "attend",
                                       "normalize_layer",
                                       "normalize_batch",
                                       "dropout",
                                       "reparametrize",
                                       "scale_loss",
                                       "two_losses",
                                       "fast_weights",
                                       "perturb",
                                       "look_ahead",
                                       "sparse_words",
                                       "temperature",
                                       "lbfgs",
                                       "add_group"};
  static_assert(std::size(kNames) == static_cast<size_t>(Idiom::last));
  return kNames[static_cast<size_t>(idiom)];
}

std::string to_string(const Choice& choice) {
  std::string text = choice.replicas ? str("--replicas ", choice.replicas) : std::string("--replicas 0");
  if (!choice.merge) text += " --separate";
  if (choice.recorded) text += " --recorded";
  if (choice.gpus) text += " --gpus";
  if (choice.processes) text += " --processes";
  if (choice.idioms) text += " --idioms ";
  for (int i = 0; i < static_cast<int>(Idiom::last); ++i)
    if (choice.has(static_cast<Idiom>(i))) text += (text.back() == ' ' ? "" : ",") + to_string(static_cast<Idiom>(i));
  return text;
}

Choice sensible(Choice choice) {
  const auto drop = [&](Idiom idiom) { choice.idioms &= ~(uint64_t{1} << static_cast<int>(idiom)); };
  const auto exclude = [&](Idiom first, Idiom second) {
    if (choice.has(first)) drop(second);
  };
  if (choice.processes && choice.replicas == 0) choice.recorded = false;  // what processes do in global view is refused
  exclude(Idiom::adam, Idiom::momentum);
  exclude(Idiom::save, Idiom::clone);
  exclude(Idiom::tie_weights, Idiom::freeze);
  exclude(Idiom::step_inside, Idiom::adam);
  exclude(Idiom::evaluate_inference, Idiom::evaluate);
  exclude(Idiom::tie_weights, Idiom::reparametrize);
  // Where there is no gradient but its rounding errors, of a bias before a norm.
  for (const Idiom norm : {Idiom::normalize_batch, Idiom::normalize_layer}) exclude(Idiom::adam, norm);
  if (choice.has(Idiom::lbfgs))
    for (const Idiom idiom : {Idiom::adam, Idiom::momentum, Idiom::param_groups, Idiom::scheduler, Idiom::accumulate,
                              Idiom::clip_norm, Idiom::clip_value, Idiom::decay_by_hand, Idiom::step_inside,
                              Idiom::update_in_call, Idiom::scale_loss, Idiom::perturb, Idiom::add_group})
      drop(idiom);
  for (const Idiom other : {Idiom::param_groups, Idiom::scale_loss}) exclude(other, Idiom::add_group);
  exclude(Idiom::lbfgs, Idiom::save);  // LibTorch cannot write what it has not made yet
  for (const Idiom renewed : {Idiom::save, Idiom::clone}) exclude(renewed, Idiom::add_group);
  if (!choice.has(Idiom::embed) || choice.recorded) drop(Idiom::sparse_words);  // sparse gradients are not recorded
  if (choice.gpus && choice.replicas == 0) drop(Idiom::sparse_words);           // simulated GPUs copy none
  if (choice.has(Idiom::sparse_words))  // what LibTorch does to dense gradients alone
    for (const Idiom idiom : {Idiom::adam, Idiom::momentum, Idiom::clip_norm, Idiom::clip_value, Idiom::decay_by_hand,
                              Idiom::keep_gradients, Idiom::perturb, Idiom::lbfgs})
      drop(idiom);
  // Each replica takes its own step.
  if (choice.replicas > 1 || (choice.replicas > 0 && choice.processes)) drop(Idiom::fast_weights);
  exclude(Idiom::tie_weights, Idiom::fast_weights);
  exclude(Idiom::attend, Idiom::penalty);                        // LibTorch's kernel has no second gradient
  if (choice.replicas > 0) drop(Idiom::normalize_batch);         // each replica has statistics of its own
  if (choice.replicas > 0 || choice.gpus) drop(Idiom::dropout);  // and draws numbers of its own
  if (choice.gpus) drop(Idiom::recurrent);                       // for which LibTorch has a kernel of CUDA's alone
  if (!choice.has(Idiom::recurrent)) drop(Idiom::state_in_module);
  if (choice.replicas > 0) drop(Idiom::state_in_module);  // docs: state that replicas share is a race
  if (choice.recorded) drop(Idiom::recurrent);            // a state that a step leaves outside is refused
  // An optimizer's state that was loaded goes to the GPUs at each step.
  if (choice.recorded && choice.gpus && choice.has(Idiom::momentum)) drop(Idiom::save);
  if (choice.recorded && choice.has(Idiom::update_in_call)) {
    drop(Idiom::adam);       // counts its steps in C++
    drop(Idiom::scheduler);  // changes a number in C++
    drop(Idiom::clip_norm);  // reads a number
  }
  exclude(Idiom::update_in_call, Idiom::accumulate);
  for (const Idiom inside : {Idiom::step_inside, Idiom::scale_loss, Idiom::perturb, Idiom::add_group})
    exclude(Idiom::update_in_call, inside);
  exclude(Idiom::accumulate, Idiom::perturb);
  exclude(Idiom::scale_loss, Idiom::perturb);
  if (choice.has(Idiom::step_inside)) {  // what looks at gradients between backward and step
    for (const Idiom idiom : {Idiom::accumulate, Idiom::clip_norm, Idiom::clip_value, Idiom::decay_by_hand,
                              Idiom::adversary, Idiom::scheduler, Idiom::scale_loss, Idiom::perturb, Idiom::add_group})
      drop(idiom);
  }
  return choice;
}

}  // namespace tutti::fuzz
