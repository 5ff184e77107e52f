#include "tutti/checkpoint/object_graph.h"

#include <c10/core/GradMode.h>

#include "tutti/tensor/random_state.h"

namespace tutti::checkpoint {

void GraphVisitor::object(const std::string& name, Savable& part) {
  const size_t outer = path_.size();
  path_ += name + '/';
  part.visit_state(*this);
  path_.resize(outer);
}

void visit_all(const std::vector<NamedTrackable>& objects, GraphVisitor& visitor) {
  const c10::NoGradGuard no_grad;
  for (const NamedTrackable& part : objects) part.object.visit(part.name, visitor);
  visitor.opaque(kRandomState, random_state, restore_random_state);
}

}  // namespace tutti::checkpoint
