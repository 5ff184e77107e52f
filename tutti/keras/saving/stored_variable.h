#pragma once

#include <memory>
#include <string>

#include "tutti/checkpoint/weights_internal.h"
#include "tutti/files/hdf5_reader.h"
#include "tutti/keras/saving/keras_variables.h"

namespace tutti::keras {

// A weight of a model in a file of Keras's, at `path`.
inline checkpoint::StoredWeight stored_variable(const std::shared_ptr<const files::Hdf5Reader>& file,
                                                const KerasVariable& variable, const std::string& path) {
  const files::Hdf5Form form = file->form(path);
  const at::ScalarType own = variable.value.scalar_type();
  return {.dtype = form.dtype == variable.dtype ? own : form.dtype, .sizes = form.sizes, .read = [file, own, path] {
            return file->read(path).to(own);
          }};
}

}  // namespace tutti::keras
