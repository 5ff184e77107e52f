#include "tutti/checkpoint/restore_state.h"

#include <functional>
#include <map>
#include <unordered_set>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"

namespace tutti::checkpoint {
namespace {

// What both passes over the objects have in common: which names were saved.
class StoredVisitor : public GraphVisitor {
 public:
  explicit StoredVisitor(const Reader& reader) : reader_(reader) {}

  // Also of an object with something in it.
  bool has(const std::string& name, bool) override {
    const std::string path = path_of(name), inside = path + '/';
    if (reader_.find(path) || reader_.values().contains(path)) return true;
    const auto value = reader_.values().lower_bound(inside);
    return reader_.has_one_that_starts_with(inside) ||
           (value != reader_.values().end() && value->first.starts_with(inside));
  }
  std::optional<int64_t> saved_number(const std::string& name) const override {
    const auto found = reader_.values().find(path_of(name));
    if (found == reader_.values().end()) return {};
    const auto* number = std::get_if<int64_t>(&found->second);
    return number ? std::optional(*number) : std::nullopt;
  }

 protected:
  const Reader& reader_;
};

// The first pass: finds all that differs and changes nothing.
class Comparison : public StoredVisitor {
 public:
  using StoredVisitor::StoredVisitor;

  bool restoring() const override { return false; }
  void tensor(const std::string& name, const Tensor& value) override {
    const std::string path = path_of(name);
    const IndexedTensor* stored = reader_.find(path);
    if (visit(path, stored)) compare(*stored, value.scalar_type(), value.sizes());
  }
  void shards(const std::string& name, const std::vector<Tensor>& shards) override {
    const std::string path = path_of(name);
    const IndexedTensor* stored = reader_.find(path);
    if (!visit(path, stored)) return;
    std::vector<int64_t> sizes = shards[0].sizes().vec();
    for (size_t i = 1; i < shards.size(); ++i) sizes[0] += shards[i].size(0);
    compare(*stored, shards[0].scalar_type(), sizes);
  }
  void number(const std::string& name, int64_t&) override { value<int64_t>(name, "an integer"); }
  void number(const std::string& name, double&) override { value<double>(name, "a floating-point number"); }
  void opaque(const std::string& name, const std::function<Tensor()>&,
              const std::function<void(const Tensor&)>&) override {
    const std::string path = path_of(name);
    const IndexedTensor* stored = reader_.find(path);
    if (visit(path, stored) && (stored->dtype != at::kByte || stored->sizes.size() != 1))
      mismatches_.push_back(str("'", path, "' is ", files::form_text(stored->dtype, stored->sizes),
                                " in the checkpoint, and must be a row of bytes"));
  }

  // Throws for mismatches.
  Differences finish(const std::filesystem::path& folder) {
    for (const IndexedTensor& tensor : reader_.tensors()) note_if_extra(std::string(tensor.name));
    for (const auto& [name, value] : reader_.values()) note_if_extra(name);
    if (mismatches_.empty()) return std::move(differences_);
    std::string text =
        str("restoring '", folder.string(), "': the checkpoint is of another program; nothing was changed");
    for (const std::string& mismatch : mismatches_) text += "\n  " + mismatch;
    if (!differences_.none()) text += "\n  " + differences_.to_string();
    throw Error(ErrorCode::failed_precondition, text);
  }

 private:
  void compare(const IndexedTensor& stored, at::ScalarType dtype, c10::IntArrayRef sizes) {
    if (sizes != c10::IntArrayRef(stored.sizes) || dtype != stored.dtype)
      mismatches_.push_back(str("'", stored.name, "' is ", files::form_text(stored.dtype, stored.sizes),
                                " in the checkpoint and ", files::form_text(dtype, sizes), " in the program"));
  }

  template <class Stored>
  bool visit(const std::string& path, const Stored* stored) {
    visited_.insert(path);
    if (!stored) differences_.missing.push_back(path);
    return stored;
  }

  void note_if_extra(const std::string& name) {
    if (!visited_.contains(name)) differences_.extra.push_back(name);
  }

  template <class T>
  void value(const std::string& name, const char* type) {
    const std::string path = path_of(name);
    const auto found = reader_.values().find(path);
    const Value* stored = found == reader_.values().end() ? nullptr : &found->second;
    if (visit(path, stored) && !std::holds_alternative<T>(*stored))
      mismatches_.push_back(str("'", path, "' is not ", type, " in the checkpoint"));
  }

  std::unordered_set<std::string> visited_;
  std::vector<std::string> mismatches_;
  Differences differences_;
};

// What is whole and yet refused is no damage.
template <class F>
auto as_precondition(const std::string& path, const std::filesystem::path& folder, F f) {
  try {
    return f();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss && error.code() != ErrorCode::failed_precondition) throw;
    throw Error(ErrorCode::failed_precondition,
                str("restoring '", folder.string(), "': the checkpoint is whole, and '", path,
                    "' does not take its state, as one of another program: ", error.what()));
  }
}

using Takings = std::map<std::string, std::function<void()>>;

// The second pass: has those that can tell look at their state. Changes nothing.
class Preparation : public StoredVisitor {
 public:
  using StoredVisitor::StoredVisitor;

  bool restoring() const override { return false; }
  void tensor(const std::string&, const Tensor&) override {}
  void shards(const std::string&, const std::vector<Tensor>&) override {}
  void number(const std::string&, int64_t&) override {}
  void number(const std::string&, double&) override {}
  void opaque(const std::string&, const std::function<Tensor()>&, const std::function<void(const Tensor&)>&) override {}
  void prepared(const std::string& name, const std::function<Tensor()>&,
                const std::function<std::function<void()>(const Tensor&)>& prepare) override {
    const std::string path = path_of(name);
    if (!reader_.find(path)) return;
    const Tensor state = reader_.read(path);
    takings[path] = as_precondition(path, reader_.folder(), [&] { return prepare(state); });
  }

  Takings takings;  // by the paths
};

// The third pass: what the checkpoint has goes where it belongs.
class Restorer : public StoredVisitor {
 public:
  Restorer(const Reader& reader, Takings takings) : StoredVisitor(reader), takings_(std::move(takings)) {}

  bool restoring() const override { return true; }
  void tensor(const std::string& name, const Tensor& value) override {
    if (const IndexedTensor* stored = reader_.find(path_of(name))) requests_.push_back({stored, value, {}});
  }
  void shards(const std::string& name, const std::vector<Tensor>& shards) override {
    const IndexedTensor* stored = reader_.find(path_of(name));
    if (!stored) return;
    for (int64_t first = 0; const Tensor& shard : shards) {
      requests_.push_back({stored, shard, first});
      first += shard.size(0);
    }
  }
  void number(const std::string& name, int64_t& value) override { take(name, value); }
  void number(const std::string& name, double& value) override { take(name, value); }
  void opaque(const std::string& name, const std::function<Tensor()>&,
              const std::function<void(const Tensor&)>& restore) override {
    const std::string path = path_of(name);
    if (!reader_.find(path)) return;
    const Tensor state = reader_.read(path);
    as_precondition(path, reader_.folder(), [&] { restore(state); });
  }
  void prepared(const std::string& name, const std::function<Tensor()>& save,
                const std::function<std::function<void()>(const Tensor&)>& prepare) override {
    const auto taking = takings_.find(path_of(name));
    if (taking != takings_.end())
      taking->second();
    else  // of a part that was made just now
      StoredVisitor::prepared(name, save, prepare);
  }

  void finish() { reader_.read(requests_); }

 private:
  template <class T>
  void take(const std::string& name, T& value) {
    const auto found = reader_.values().find(path_of(name));
    if (found != reader_.values().end()) value = std::get<T>(found->second);
  }

  Takings takings_;
  std::vector<Reader::Request> requests_;
};

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += str(text.empty() ? "'" : ", '", name, "'");
  return text;
}

}  // namespace

std::string Differences::to_string() const {
  std::string text;
  if (!missing.empty()) text += "the checkpoint lacks " + list_of(missing);
  if (!extra.empty()) text += str(text.empty() ? "" : "; ", "nothing in the program takes ", list_of(extra));
  return text;
}

Differences compare(const Reader& reader, const std::vector<NamedTrackable>& objects) {
  Comparison comparison(reader);
  visit_all(objects, comparison);
  return comparison.finish(reader.folder());
}

void restore(const Reader& reader, const std::vector<NamedTrackable>& objects) {
  Preparation preparation(reader);
  visit_all(objects, preparation);
  Restorer restorer(reader, std::move(preparation.takings));
  visit_all(objects, restorer);
  restorer.finish();
}

}  // namespace tutti::checkpoint
