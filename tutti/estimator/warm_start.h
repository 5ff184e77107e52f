#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tutti/estimator/variable_store.h"
#include "tutti/keras/initializers.h"

namespace tutti::estimator {

// How the rows of a variable follow its vocabulary from one model to the next: a word keeps what it has learnt.
// TF: tf.estimator.VocabInfo.
struct VocabInfo {
  std::filesystem::path new_vocab = {};  // a word in each line; required, as its size is
  int64_t new_vocab_size = 0;            // so many of its lines
  int64_t num_oov_buckets = 0;           // rows behind those of words
  std::filesystem::path old_vocab = {};  // of the other model; empty: new_vocab
  std::optional<int64_t> old_vocab_size = {};
  std::optional<keras::initializers::Initializer> backup_initializer = {};  // of new words and buckets; none: zeros
  int64_t axis = 0;  // 1: words are columns, as those of label_vocabulary in the last layer
};

// Which variables begin with the values that another model learnt. TF: tf.estimator.WarmStartSettings.
struct WarmStartSettings {
  // A checkpoint's folder, or a model_dir, of which the newest is taken; required.
  std::filesystem::path ckpt_to_initialize_from = {};
  // Expressions of which one matches the beginning of a trained variable's name; none: those with a vocabulary alone.
  std::optional<std::vector<std::string>> vars_to_warm_start = {{".*"}};
  std::map<std::string, VocabInfo> var_name_to_vocab_info = {};
  std::map<std::string, std::string> var_name_to_prev_var_name = {};
};

// Does so. Throws: invalid_argument for settings without a folder, an expression that is none, a variable that the
// checkpoint does not have or that has another shape there, and a name of the maps that is not used; not_found for a
// folder without a checkpoint, or a vocabulary that is not there.
void initialize_from(const VariableStore& store, const WarmStartSettings& settings);

}  // namespace tutti::estimator
