#include "tutti/estimator/warm_start.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <unordered_map>
#include <utility>

#include "tutti/checkpoint/folder.h"
#include "tutti/checkpoint/reader.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/estimator/log.h"

namespace tutti::estimator {
namespace {

[[noreturn]] void refuse_start(const std::string& what, ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, "warm start: " + what);
}

std::filesystem::path newest_checkpoint(const std::filesystem::path& path) {
  auto& files = checkpoint::posix_file_system();
  if (checkpoint::is_checkpoint(files, path)) return path;
  if (const auto latest = checkpoint::Folder(files, path).latest()) return *latest;
  refuse_start(str("there is no checkpoint at ", path), ErrorCode::not_found);
}

// Which names an expression of vars_to_warm_start begins.
class NamePattern {
 public:
  explicit NamePattern(const std::string& expression) try : expression_(expression), regex_(expression) {
  } catch (const std::regex_error& error) {
    refuse_start(str("vars_to_warm_start has '", expression, "', no regular expression: ", error.what()));
  }
  bool matches(const std::string& name) {
    const bool found = std::regex_search(name, regex_, std::regex_constants::match_continuous);
    matched_ |= found;
    return found;
  }
  void warn_if_unused(const std::vector<std::string>& names) const {
    if (!matched_)
      warn(str("warm start: vars_to_warm_start has '", expression_,
               "', and no trained variable's name begins so: ", str_list(names)));
  }

 private:
  std::string expression_;
  std::regex regex_;
  bool matched_ = false;
};

std::vector<std::string> words_of(const std::filesystem::path& file, std::optional<int64_t> size) {
  std::ifstream stream(file);
  if (!stream) refuse_start(str("cannot read the vocabulary ", file), ErrorCode::not_found);
  std::vector<std::string> words;
  for (std::string line; (!size || std::ssize(words) < *size) && std::getline(stream, line);) words.push_back(line);
  if (size && std::ssize(words) < *size)
    refuse_start(str("the vocabulary ", file, " has ", words.size(), " lines, and its size is ", *size));
  return words;
}

// What a variable of these sizes has learnt under its old vocabulary, at the places of the new one.
Tensor remapped(const std::string& name, const VocabInfo& info, const Tensor& old, at::IntArrayRef sizes) {
  const auto refuse = [&](const std::string& what) { refuse_start(str("'", name, "': ", what)); };
  if (info.new_vocab_size < 1 || info.num_oov_buckets < 0 || info.axis < 0 || info.axis >= std::ssize(sizes))
    refuse(str("VocabInfo has new_vocab_size ", info.new_vocab_size, ", num_oov_buckets ", info.num_oov_buckets,
               " and axis ", info.axis, "; they are positive, 0 or more, and an axis of the variable"));
  const auto axis = static_cast<size_t>(info.axis);
  const auto words = words_of(info.new_vocab, info.new_vocab_size);
  const auto old_words = words_of(info.old_vocab.empty() ? info.new_vocab : info.old_vocab, info.old_vocab_size);
  std::vector<int64_t> fits = old.sizes().vec();
  if (fits.size() == sizes.size()) fits[axis] = sizes[axis];
  if (at::IntArrayRef(fits) != sizes || sizes[axis] != info.new_vocab_size + info.num_oov_buckets ||
      old.size(info.axis) < std::ssize(old_words))
    refuse(str("it has shape ", str_list(sizes), ", and ", str_list(old.sizes()), " in the checkpoint; along axis ",
               info.axis, " there are ", words.size(), " words and ", info.num_oov_buckets, " buckets now, and ",
               old_words.size(), " words there"));
  std::unordered_map<std::string, int64_t> old_places;
  for (const std::string& word : old_words) old_places.try_emplace(word, std::ssize(old_places));
  std::vector<int64_t> from, to;
  for (size_t i = 0; i < words.size(); ++i)
    if (const auto found = old_places.find(words[i]); found != old_places.end()) {
      from.push_back(found->second);
      to.push_back(static_cast<int64_t>(i));
    }
  Tensor values = info.backup_initializer ? (*info.backup_initializer)(sizes.vec()).to(old.scalar_type())
                                          : at::zeros(sizes, old.options());
  return values.index_copy(info.axis, at::tensor(to, at::kLong),
                           old.index_select(info.axis, at::tensor(from, at::kLong)));
}

template <class T>
void require_used(const char* map, const std::map<std::string, T>& unused, const std::vector<std::string>& names) {
  if (!unused.empty())
    refuse_start(str(map, " has '", unused.begin()->first,
                     "', which is no variable that is warm-started; the model trains ", str_list(names)));
}

}  // namespace

void initialize_from(const VariableStore& store, const WarmStartSettings& settings) {
  if (settings.ckpt_to_initialize_from.empty())
    throw Error(ErrorCode::invalid_argument, "WarmStartSettings: ckpt_to_initialize_from is empty; name a folder");
  const c10::AutoGradMode no_grad(false);
  const auto folder = newest_checkpoint(settings.ckpt_to_initialize_from);
  const checkpoint::Reader reader(checkpoint::posix_file_system(), folder);
  const auto expressions = settings.vars_to_warm_start.value_or(std::vector<std::string>());
  std::vector<NamePattern> patterns(expressions.begin(), expressions.end());
  auto unused = settings.var_name_to_prev_var_name;
  auto unused_vocabularies = settings.var_name_to_vocab_info;
  std::vector<std::string> names;
  for (const auto& [name, variable] : store.trainable()) {
    names.push_back(name);
    int64_t matches = 0;
    for (NamePattern& pattern : patterns) matches += pattern.matches(name);
    if (settings.vars_to_warm_start ? matches == 0 : !unused_vocabularies.contains(name)) continue;
    const auto renamed = unused.extract(name);
    const std::string before = renamed ? renamed.mapped() : name;
    if (!reader.find("variables/" + before)) refuse_start(str(folder, " has no variable '", before, '\''));
    if (const auto vocabulary = unused_vocabularies.extract(name)) {
      const Tensor learnt = reader.read("variables/" + before);
      variable.copy_(remapped(name, vocabulary.mapped(), learnt, variable.sizes()));
    } else {
      reader.read("variables/" + before, variable);
    }
    log_info(str("Warm-starting variable: ", name, "; prev_var_name: ", before == name ? "Unchanged" : before));
  }
  for (const NamePattern& pattern : patterns) pattern.warn_if_unused(names);
  require_used("var_name_to_prev_var_name", unused, names);
  require_used("var_name_to_vocab_info", unused_vocabularies, names);
}

}  // namespace tutti::estimator
