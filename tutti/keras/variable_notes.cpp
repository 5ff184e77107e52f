#include "tutti/keras/variable_notes.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace tutti::keras {
namespace {

// LibTorch's place on a tensor for what others note there.
struct VariableNotes : c10::BackendMeta {
  std::optional<constraints::Constraint> constraint;
  std::string path;
};

const VariableNotes* notes_of(const Tensor& variable) {
  return dynamic_cast<const VariableNotes*>(variable.unsafeGetTensorImpl()->get_backend_meta());
}

// The same to write in, made if there are none.
VariableNotes& notes_on(const Tensor& variable) {
  at::TensorImpl* const impl = variable.unsafeGetTensorImpl();
  if (!notes_of(variable)) impl->set_backend_meta(c10::make_intrusive<VariableNotes>());
  return static_cast<VariableNotes&>(*impl->get_backend_meta());
}

}  // namespace

void constrain(const Tensor& variable, constraints::Constraint constraint) {
  notes_on(variable).constraint = std::move(constraint);
}

const constraints::Constraint* constraint_of(const Tensor& variable) {
  const VariableNotes* const notes = notes_of(variable);
  return notes && notes->constraint ? &*notes->constraint : nullptr;
}

void set_path(const Tensor& variable, std::string path) { notes_on(variable).path = std::move(path); }

std::string path_of(const Tensor& variable) {
  const VariableNotes* const notes = notes_of(variable);
  return notes ? notes->path : std::string();
}

}  // namespace tutti::keras
