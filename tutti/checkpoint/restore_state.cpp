#include "tutti/checkpoint/restore_state.h"

#include <unordered_set>

#include "tutti/checkpoint/dtype_names.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

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
    if (!visit(path, stored)) return;
    if (value.sizes() != c10::IntArrayRef(stored->sizes) || value.scalar_type() != stored->dtype)
      mismatches_.push_back(str("'", path, "' is ", form_text(stored->dtype, stored->sizes), " in the checkpoint and ",
                                form_text(value.scalar_type(), value.sizes()), " in the program"));
  }
  void number(const std::string& name, int64_t&) override { value<int64_t>(name, "an integer"); }
  void number(const std::string& name, double&) override { value<double>(name, "a floating-point number"); }
  void opaque(const std::string& name, const std::function<Tensor()>&,
              const std::function<void(const Tensor&)>&) override {
    const std::string path = path_of(name);
    const IndexedTensor* stored = reader_.find(path);
    if (visit(path, stored) && (stored->dtype != at::kByte || stored->sizes.size() != 1))
      mismatches_.push_back(str("'", path, "' is ", form_text(stored->dtype, stored->sizes),
                                " in the checkpoint, and must be a row of bytes"));
  }

  // Throws for mismatches.
  Differences finish(const std::filesystem::path& folder) {
    for (const IndexedTensor& tensor : reader_.tensors()) note_if_extra(tensor.name);
    for (const auto& [name, value] : reader_.values()) note_if_extra(name);
    if (mismatches_.empty()) return std::move(differences_);
    std::string text =
        str("restoring '", folder.string(), "': the checkpoint is of another program; nothing was changed");
    for (const std::string& mismatch : mismatches_) text += "\n  " + mismatch;
    if (!differences_.none()) text += "\n  " + differences_.to_string();
    throw Error(ErrorCode::failed_precondition, text);
  }

 private:
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

// The second pass: what the checkpoint has goes where it belongs.
class Restorer : public StoredVisitor {
 public:
  using StoredVisitor::StoredVisitor;

  bool restoring() const override { return true; }
  void tensor(const std::string& name, const Tensor& value) override {
    if (const IndexedTensor* stored = reader_.find(path_of(name))) requests_.push_back({stored, value});
  }
  void number(const std::string& name, int64_t& value) override { take(name, value); }
  void number(const std::string& name, double& value) override { take(name, value); }
  void opaque(const std::string& name, const std::function<Tensor()>&,
              const std::function<void(const Tensor&)>& restore) override {
    const std::string path = path_of(name);
    if (reader_.find(path)) restore(reader_.read(path));
  }

  void finish() { reader_.read(requests_); }

 private:
  template <class T>
  void take(const std::string& name, T& value) {
    const auto found = reader_.values().find(path_of(name));
    if (found != reader_.values().end()) value = std::get<T>(found->second);
  }

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
  Restorer restorer(reader);
  visit_all(objects, restorer);
  restorer.finish();
}

}  // namespace tutti::checkpoint
