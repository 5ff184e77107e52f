#include "tutti/checkpoint/weights.h"

#include <ATen/ops/view_as_complex.h>
#include <c10/core/GradMode.h>

#include <functional>
#include <memory>

#include "tutti/checkpoint/contents.h"
#include "tutti/checkpoint/safetensors.h"
#include "tutti/checkpoint/weights_internal.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"
#include "tutti/files/npy.h"

namespace tutti {
namespace {

using checkpoint::SharedNames;
using checkpoint::StoredWeight;
using checkpoint::StoredWeights;
using checkpoint::Weights;

// Collects the tensors of an object, but not of the objects in it.
class Collector : public StateVisitor {
 public:
  explicit Collector(const WeightNames& names) : names_(names) {}

  bool restoring() const override { return false; }
  bool has(const std::string&, bool now) override { return now; }
  void tensor(const std::string& name, const Tensor& value) override {
    const auto found = names_.find(name);
    used_ += found != names_.end();
    const std::string& in_file = found == names_.end() ? name : found->second;
    if (!weights_.emplace(in_file, value).second)
      throw Error(ErrorCode::invalid_argument, str("weights: two are named '", in_file, "' in the file"));
  }
  void number(const std::string&, int64_t&) override {}
  void number(const std::string&, double&) override {}
  void opaque(const std::string&, const std::function<Tensor()>&, const std::function<void(const Tensor&)>&) override {}
  void object(const std::string&, Savable& part) override {
    if (std::exchange(inside_, true)) return;
    part.visit_state(*this);
  }

  // By their names in the file.
  Weights finish() {
    if (weights_.empty()) throw Error(ErrorCode::invalid_argument, "weights: the object has none");
    if (used_ < names_.size())
      throw Error(ErrorCode::invalid_argument, str("weights: ", names_.size() - used_, " of the ", names_.size(),
                                                   " names given are not those of weights of the object"));
    return std::move(weights_);
  }

 private:
  const WeightNames& names_;
  size_t used_ = 0;
  bool inside_ = false;
  Weights weights_;
};

Weights weights_of(const Trackable& object, const WeightNames& names) {
  Collector collector(names);
  object.visit("", collector);
  return collector.finish();
}

enum class WeightFormat { safetensors, npz, pytorch };

WeightFormat format_of(const std::filesystem::path& file) {
  const auto ending = file.extension();
  if (ending == ".safetensors") return WeightFormat::safetensors;
  if (ending == ".npz") return WeightFormat::npz;
  if (ending == ".pt" || ending == ".pth" || ending == ".bin") return WeightFormat::pytorch;
  throw Error(ErrorCode::invalid_argument, str("weights: '", file.string(),
                                               "' must end in .safetensors or .npz, which tells the format; to be "
                                               "loaded also in .pt, .pth or .bin; .weights.h5 is for the members "
                                               "save_weights and load_weights of a keras::Model"));
}

StoredWeights tensors_in(const std::filesystem::path& file, WeightFormat format, const std::string& entry = {}) {
  StoredWeights stored;
  if (format != WeightFormat::safetensors) {
    for (const auto& [name, tensor] :
         format == WeightFormat::npz ? files::read_npz(file) : files::read_state_dict(file, entry))
      stored[name] = {tensor.scalar_type(), tensor.sizes().vec(), [tensor] { return tensor; }};
    return stored;
  }
  const auto open = std::make_shared<const checkpoint::SafetensorsFile>(checkpoint::posix_file_system(), file);
  for (const checkpoint::SafetensorsEntry& entry : open->entries())
    stored[entry.name] = {entry.dtype, entry.sizes, [open, &entry] { return open->read(entry); }};
  return stored;
}

// Whether these are the pairs of real numbers that safetensors files have for complex ones.
bool are_pairs(const StoredWeight& stored, const Tensor& weight) {
  std::vector<int64_t> pairs = weight.sizes().vec();
  pairs.push_back(2);
  return weight.is_complex() && stored.dtype == c10::toRealValueType(weight.scalar_type()) && stored.sizes == pairs;
}

std::string stored_form(const StoredWeight& stored) { return files::form_text(stored.dtype, stored.sizes); }

// What does not fit, a line each, and the names that one side alone has.
struct WeightComparison {
  std::string mismatches;
  checkpoint::Differences differences;
};

WeightComparison compare_weights(const Weights& weights, const StoredWeights& stored) {
  WeightComparison result;
  const auto form = [](const Tensor& tensor) { return files::form_text(tensor.scalar_type(), tensor.sizes()); };
  for (const auto& [name, weight] : weights) {
    const auto found = stored.find(name);
    if (found == stored.end())
      result.differences.missing.push_back(name);
    else if (form(weight) != stored_form(found->second) && !are_pairs(found->second, weight))
      result.mismatches +=
          str("\n  '", name, "' is ", stored_form(found->second), " in the file and ", form(weight), " in the program");
  }
  for (const auto& [name, value] : stored)
    if (!weights.contains(name)) result.differences.extra.push_back(name);
  return result;
}

void overwrite(const Tensor& weight, const StoredWeight& stored) {
  Tensor value = stored.read();
  if (are_pairs(stored, weight)) value = at::view_as_complex(value);
  checkpoint::for_each_buffer_to_write(weight, [&](checkpoint::Region&& region, const Tensor& buffer) {
    Tensor part = value;
    for (int64_t axis = 0; axis < part.dim(); ++axis)
      part = part.narrow(axis, region.first[static_cast<size_t>(axis)], region.sizes[static_cast<size_t>(axis)]);
    buffer.detach().copy_(part);
  });
}

}  // namespace

namespace checkpoint {

Differences overwrite_weights(const char* op, const std::filesystem::path& file, const Weights& weights,
                              const StoredWeights& stored, SharedNames shared) {
  const c10::NoGradGuard no_grad;
  WeightComparison comparison = compare_weights(weights, stored);
  if (shared == SharedNames::all && !comparison.differences.none())
    comparison.mismatches += str("\n  ", comparison.differences.to_string());
  if (!comparison.mismatches.empty())
    throw Error(ErrorCode::failed_precondition,
                str(op, ": '", file.string(), "' does not fit; nothing was changed", comparison.mismatches));
  for (const auto& [name, weight] : weights)
    if (const auto found = stored.find(name); found != stored.end()) overwrite(weight, found->second);
  return std::move(comparison.differences);
}

void load_every_weight(const Trackable& object, const std::filesystem::path& file) {
  overwrite_weights("load_weights", file, weights_of(object, {}), tensors_in(file, format_of(file)), SharedNames::all);
}

void write_on_chief(Weights weights, const std::function<void(const Weights&)>& write) {
  const c10::NoGradGuard no_grad;
  const auto processes = Processes::of_program();
  for (auto& [name, weight] : weights)
    if (processes) weight = gather(weight);  // what replicas wrote is read by all processes
  on_chief(processes, "save_weights", [&] {
    write(weights);
    return std::string();
  });
}

}  // namespace checkpoint

void save_weights(const Trackable& object, const std::filesystem::path& file, const WeightNames& names) {
  const WeightFormat format = format_of(file);
  if (format == WeightFormat::pytorch)
    throw Error(ErrorCode::invalid_argument,
                str("save_weights: '", file.string(),
                    "' would be PyTorch's, which are read and not written; .safetensors is what Python reads too"));
  checkpoint::write_on_chief(weights_of(object, names), [&](const Weights& weights) {
    if (format == WeightFormat::npz)
      files::write_npz(file, weights);
    else
      checkpoint::save_safetensors(checkpoint::posix_file_system(), file, weights);
  });
}

RestoreStatus load_weights(const Trackable& object, const std::filesystem::path& file, const WeightNames& names) {
  const Weights weights = weights_of(object, names);
  return RestoreStatus(file, checkpoint::overwrite_weights("load_weights", file, weights,
                                                           tensors_in(file, format_of(file)), SharedNames::any));
}

checkpoint::Differences load_state_dict(const Trackable& object, const std::filesystem::path& file,
                                        const StateDictOptions& options) {
  const auto ending = file.extension();
  const WeightFormat format = ending == ".safetensors" || ending == ".npz" ? format_of(file) : WeightFormat::pytorch;
  if (!options.entry.empty() && format != WeightFormat::pytorch)
    throw Error(ErrorCode::invalid_argument,
                str("load_state_dict: '", file.string(), "' has no entries; `entry` is of PyTorch's files"));
  WeightNames names;
  if (options.rename)
    for (const auto& [own, weight] : weights_of(object, {})) names[own] = options.rename(own);
  return checkpoint::overwrite_weights("load_state_dict", file, weights_of(object, names),
                                       tensors_in(file, format, options.entry),
                                       options.strict ? SharedNames::all : SharedNames::any);
}

}  // namespace tutti
