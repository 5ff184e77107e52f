#include "tutti/checkpoint/weights.h"

#include <ATen/ops/view_as_complex.h>
#include <c10/core/GradMode.h>

#include <functional>
#include <memory>

#include "tutti/checkpoint/contents.h"
#include "tutti/checkpoint/safetensors.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"
#include "tutti/files/npy.h"

namespace tutti {
namespace {

using Tensors = std::map<std::string, Tensor>;

// A tensor in a file. It is read where it is needed.
struct Stored {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
  std::function<Tensor()> read;

  std::string form() const { return files::form_text(dtype, sizes); }
};
using StoredTensors = std::map<std::string, Stored>;

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
  Tensors finish() {
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
  Tensors weights_;
};

Tensors weights_of(const Trackable& object, const WeightNames& names) {
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
                                               "loaded also in .pt, .pth or .bin"));
}

StoredTensors tensors_in(const std::filesystem::path& file, WeightFormat format, const std::string& entry = {}) {
  StoredTensors stored;
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
bool are_pairs(const Stored& stored, const Tensor& weight) {
  std::vector<int64_t> pairs = weight.sizes().vec();
  pairs.push_back(2);
  return weight.is_complex() && stored.dtype == c10::toRealValueType(weight.scalar_type()) && stored.sizes == pairs;
}

// What does not fit, a line each, and the names that one side alone has.
struct Comparison {
  std::string mismatches;
  checkpoint::Differences differences;
};

Comparison compare(const Tensors& weights, const StoredTensors& stored) {
  Comparison result;
  const auto form = [](const Tensor& tensor) { return files::form_text(tensor.scalar_type(), tensor.sizes()); };
  for (const auto& [name, weight] : weights) {
    const auto found = stored.find(name);
    if (found == stored.end())
      result.differences.missing.push_back(name);
    else if (form(weight) != found->second.form() && !are_pairs(found->second, weight))
      result.mismatches +=
          str("\n  '", name, "' is ", found->second.form(), " in the file and ", form(weight), " in the program");
  }
  for (const auto& [name, value] : stored)
    if (!weights.contains(name)) result.differences.extra.push_back(name);
  return result;
}

void overwrite(const Tensor& weight, const Stored& stored) {
  Tensor value = stored.read();
  if (are_pairs(stored, weight)) value = at::view_as_complex(value);
  checkpoint::for_each_buffer_to_write(weight, [&](checkpoint::Region&& region, const Tensor& buffer) {
    Tensor part = value;
    for (int64_t axis = 0; axis < part.dim(); ++axis)
      part = part.narrow(axis, region.first[static_cast<size_t>(axis)], region.sizes[static_cast<size_t>(axis)]);
    buffer.detach().copy_(part);
  });
}

void overwrite_all(const Tensors& weights, const StoredTensors& stored) {
  for (const auto& [name, weight] : weights)
    if (const auto found = stored.find(name); found != stored.end()) overwrite(weight, found->second);
}

[[noreturn]] void fits_not(const char* op, const std::filesystem::path& file, const std::string& what) {
  throw Error(ErrorCode::failed_precondition,
              str(op, ": '", file.string(), "' does not fit; nothing was changed", what));
}

}  // namespace

void save_weights(const Trackable& object, const std::filesystem::path& file, const WeightNames& names) {
  const c10::NoGradGuard no_grad;
  const WeightFormat format = format_of(file);
  if (format == WeightFormat::pytorch)
    throw Error(ErrorCode::invalid_argument,
                str("save_weights: '", file.string(),
                    "' would be PyTorch's, which are read and not written; .safetensors is what Python reads too"));
  Tensors weights = weights_of(object, names);
  const auto processes = Processes::of_program();
  for (auto& [name, weight] : weights)
    if (processes) weight = gather(weight);  // what replicas wrote is read by all processes
  on_chief(processes, "save_weights", [&] {
    if (format == WeightFormat::npz)
      files::write_npz(file, weights);
    else
      checkpoint::save_safetensors(checkpoint::posix_file_system(), file, weights);
    return std::string();
  });
}

RestoreStatus load_weights(const Trackable& object, const std::filesystem::path& file, const WeightNames& names) {
  const c10::NoGradGuard no_grad;
  const Tensors weights = weights_of(object, names);
  const StoredTensors stored = tensors_in(file, format_of(file));
  Comparison comparison = compare(weights, stored);
  if (!comparison.mismatches.empty()) fits_not("load_weights", file, comparison.mismatches);
  overwrite_all(weights, stored);
  return RestoreStatus(file, std::move(comparison.differences));
}

checkpoint::Differences load_state_dict(const Trackable& object, const std::filesystem::path& file,
                                        const StateDictOptions& options) {
  const c10::NoGradGuard no_grad;
  const auto ending = file.extension();
  const WeightFormat format = ending == ".safetensors" || ending == ".npz" ? format_of(file) : WeightFormat::pytorch;
  if (!options.entry.empty() && format != WeightFormat::pytorch)
    throw Error(ErrorCode::invalid_argument,
                str("load_state_dict: '", file.string(), "' has no entries; `entry` is of PyTorch's files"));
  WeightNames names;
  if (options.rename)
    for (const auto& [own, weight] : weights_of(object, {})) names[own] = options.rename(own);
  const Tensors weights = weights_of(object, names);
  const StoredTensors stored = tensors_in(file, format, options.entry);
  Comparison comparison = compare(weights, stored);
  if (options.strict && !comparison.differences.none())
    comparison.mismatches += str("\n  ", comparison.differences.to_string());
  if (!comparison.mismatches.empty()) fits_not("load_state_dict", file, comparison.mismatches);
  overwrite_all(weights, stored);
  return std::move(comparison.differences);
}

}  // namespace tutti
