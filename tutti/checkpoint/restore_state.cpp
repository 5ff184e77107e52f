#include "tutti/checkpoint/restore_state.h"

#include <c10/core/GradMode.h>

#include <set>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/random_state.h"

namespace tutti::checkpoint {
namespace {

// What both passes over the objects have in common: the path, and which names were saved.
class StoredVisitor : public StateVisitor {
 public:
  explicit StoredVisitor(const Reader& reader) : reader_(reader) {
    for (const IndexedTensor& tensor : reader.tensors()) names_.insert(tensor.name);
    for (const auto& [name, value] : reader.values()) names_.insert(name);
  }

  bool has(const std::string& name, bool) override {
    const std::string path = path_ + name;
    const auto found = names_.lower_bound(path);
    if (found != names_.end() && *found == path) return true;
    const auto inside = names_.lower_bound(path + '/');
    return inside != names_.end() && inside->starts_with(path + '/');
  }
  void object(const std::string& name, Savable& part) override {
    const std::string outer = path_;
    path_ += name + '/';
    part.visit_state(*this);
    path_ = outer;
  }

  const std::set<std::string>& names() const { return names_; }

 protected:
  const Reader& reader_;
  std::string path_;

 private:
  std::set<std::string> names_;
};

// The first pass: finds all that differs and changes nothing.
class Comparison : public StoredVisitor {
 public:
  using StoredVisitor::StoredVisitor;

  bool restoring() const override { return false; }
  void tensor(const std::string& name, const Tensor& value) override {
    const std::string path = path_ + name;
    const IndexedTensor* stored = reader_.find(path);
    if (!visit(path, stored)) return;
    if (value.sizes() != c10::IntArrayRef(stored->sizes) || value.scalar_type() != stored->dtype)
      mismatches_.push_back(str("'", path, "' is ", c10::toString(stored->dtype), ' ', str_list(stored->sizes),
                                " in the checkpoint and ", c10::toString(value.scalar_type()), ' ',
                                str_list(value.sizes()), " in the program"));
  }
  void number(const std::string& name, int64_t&) override { value<int64_t>(name, "an integer"); }
  void number(const std::string& name, double&) override { value<double>(name, "a floating-point number"); }
  void opaque(const std::string& name, const std::function<Tensor()>&,
              const std::function<void(const Tensor&)>&) override {
    const std::string path = path_ + name;
    const IndexedTensor* stored = reader_.find(path);
    if (visit(path, stored) && (stored->dtype != at::kByte || stored->sizes.size() != 1))
      mismatches_.push_back(str("'", path, "' is ", c10::toString(stored->dtype), ' ', str_list(stored->sizes),
                                " in the checkpoint, and must be a row of bytes"));
  }

  // Throws for mismatches.
  Differences finish(const std::filesystem::path& folder) {
    for (const std::string& name : names())
      if (!visited_.contains(name)) differences_.extra.push_back(name);
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

  template <class T>
  void value(const std::string& name, const char* type) {
    const std::string path = path_ + name;
    const auto found = reader_.values().find(path);
    const Value* stored = found == reader_.values().end() ? nullptr : &found->second;
    if (visit(path, stored) && !std::holds_alternative<T>(*stored))
      mismatches_.push_back(str("'", path, "' is not ", type, " in the checkpoint"));
  }

  std::set<std::string> visited_;
  std::vector<std::string> mismatches_;
  Differences differences_;
};

// The second pass: what the checkpoint has goes where it belongs.
class Restorer : public StoredVisitor {
 public:
  using StoredVisitor::StoredVisitor;

  bool restoring() const override { return true; }
  void tensor(const std::string& name, const Tensor& value) override {
    const IndexedTensor* stored = reader_.find(path_ + name);
    if (!stored) return;
    for (Piece& piece : pieces_to_write(value)) requests_.push_back({stored, std::move(piece)});
  }
  void number(const std::string& name, int64_t& value) override { take(name, value); }
  void number(const std::string& name, double& value) override { take(name, value); }
  void opaque(const std::string& name, const std::function<Tensor()>&,
              const std::function<void(const Tensor&)>& restore) override {
    const std::string path = path_ + name;
    if (reader_.find(path)) restore(reader_.read(path));
  }

  void finish() { reader_.read(requests_); }

 private:
  template <class T>
  void take(const std::string& name, T& value) {
    const auto found = reader_.values().find(path_ + name);
    if (found != reader_.values().end()) value = std::get<T>(found->second);
  }

  std::vector<Reader::Request> requests_;
};

void walk(const std::vector<NamedTrackable>& objects, StateVisitor& visitor) {
  const c10::NoGradGuard no_grad;
  for (const NamedTrackable& part : objects) part.object.visit(part.name, visitor);
  visitor.opaque(kRandomState, random_state, restore_random_state);
}

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
  walk(objects, comparison);
  return comparison.finish(reader.folder());
}

void restore(const Reader& reader, const std::vector<NamedTrackable>& objects) {
  Restorer restorer(reader);
  walk(objects, restorer);
  restorer.finish();
}

}  // namespace tutti::checkpoint
