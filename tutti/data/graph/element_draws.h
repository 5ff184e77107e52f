#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tutti/data/graph/context.h"
#include "tutti/data/graph/state.h"
#include "tutti/tensor/view.h"

namespace tutti::data::graph {

// Where the random numbers come from that a function draws in one pass, from LibTorch, on the host and without naming a
// generator. With `passes` they follow from the pass's seed and the element's index alone, on whatever thread.
class ElementDraws {
 public:
  // passes: null: from LibTorch's default generator, in the order of the calls.
  ElementDraws(const std::shared_ptr<const Passes>& passes, const Context& context);

  // function(), for element `index`. May be called on several threads at once.
  template <class F>
  auto call(int64_t index, const F& function) const {
    if (!seed_) return function();
    at::Generator generator = generator_of(index);
    ThreadView view = ThreadView::current();
    view.generator = &generator;
    const ThreadViewGuard drawing(view);
    return function();
  }

  // The operation, with whether its function draws by a seed.
  std::string op(const std::string& name) const { return seed_ ? name + " with a seed" : name; }
  // Behind state.op().
  void save(StateWriter& state) const;
  void restore(StateReader& state);

 private:
  at::Generator generator_of(int64_t index) const;

  std::optional<uint64_t> seed_;  // of the pass
  std::optional<uint64_t> given_seed_;
};

}  // namespace tutti::data::graph
