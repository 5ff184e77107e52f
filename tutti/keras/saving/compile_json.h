#pragma once

#include <string>
#include <vector>

#include "tutti/keras/compile_options.h"

namespace tutti::keras {

// What compile said, as compile_config has it in config.json of a .keras file. The names are those of the model's
// outputs; `source` begins messages. Throws: unimplemented, by its name, for a loss, a metric or an optimizer that
// Python's Keras lacks.
std::string compile_json(const CompileOptions& options, const std::vector<std::string>& output_names,
                         const std::string& source);

// And back. Throws: data_loss; unimplemented for what is not known here.
CompileOptions compile_options_of(const std::string& json, const std::vector<std::string>& output_names,
                                  const std::string& source);

}  // namespace tutti::keras
