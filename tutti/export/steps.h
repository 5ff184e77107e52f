#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/export/value.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"

namespace tutti::saved_model {

// Steps of preprocessing: layers that are saved by name, version and configuration.
using keras::layers::PreprocessingOptions;

// "text_vectorization"
std::string step_name(const PreprocessingOptions& layer);
// Of the configuration. A newer one is another meaning.
int64_t step_version(const PreprocessingOptions& layer);

// Files beside the description, by name from the folder on, with their contents. One of the same contents is one file.
class Assets {
 public:
  // Returns the file's name, "assets/STEM_0.txt".
  std::string add(const std::string& stem, std::string contents);
  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  std::map<std::string, std::string> files_;
};

// A JSON object. Throws: unimplemented for what cannot be saved: a function of the user's.
std::string step_config(const PreprocessingOptions& layer, Assets& assets);
// `asset` gives the contents of a file. Throws: unimplemented for a step or a version that is not known; data_loss for
// a configuration that step_config does not return.
PreprocessingOptions parse_step(const std::string& name, int64_t version, std::string_view config,
                                const std::function<std::string(const std::string& file)>& asset,
                                std::string_view source);

size_t num_inputs_of(const PreprocessingOptions& layer);
// The layer, as a function. Throws: data_loss for options that the layer refuses.
std::function<Value(const std::vector<Value>& inputs)> make_step(const PreprocessingOptions& layer);

// Whether the last axis of the result is as long as the longest text, or as the values say.
bool has_free_length(const PreprocessingOptions& layer);

}  // namespace tutti::saved_model
