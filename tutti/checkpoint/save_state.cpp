#include "tutti/checkpoint/save_state.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/copy_on_write.h"

namespace tutti::checkpoint {
namespace {

class Saver : public GraphVisitor {
 public:
  bool restoring() const override { return false; }
  bool has(const std::string&, bool now) override { return now; }

  void tensor(const std::string& name, const Tensor& value) override {
    if (!value.defined())
      throw Error(ErrorCode::invalid_argument, str("Checkpoint: '", path_of(name), "' is an undefined tensor"));
    contents.tensors.push_back(named_tensor(path_of(name), value));
  }
  void shards(const std::string& name, const std::vector<Tensor>& shards) override {
    contents.tensors.push_back(named_shards(path_of(name), shards));
  }
  void number(const std::string& name, int64_t& value) override { put(name, value); }
  void number(const std::string& name, double& value) override { put(name, value); }
  void opaque(const std::string& name, const std::function<Tensor()>& save,
              const std::function<void(const Tensor&)>&) override {
    tensor(name, save());
  }

  Contents contents;

 private:
  void put(const std::string& name, Value value) {
    if (!contents.values.emplace(path_of(name), value).second)
      throw Error(ErrorCode::invalid_argument, str("Checkpoint: two numbers are named '", path_of(name), "'"));
  }
};

// `tensor`, plain and dense, with a storage of its own as far as anybody can tell.
Tensor snapshot_of(const Tensor& tensor, bool may_share) {
  if (!tensor.device().is_cpu()) return tensor.detach().cpu();
  if (!may_share) return tensor.detach().clone();
  return share_or_copy(tensor);
}

}  // namespace

Contents state_of(const std::vector<NamedTrackable>& objects) {
  Saver saver;
  visit_all(objects, saver);
  const auto step = saver.contents.values.find("step");
  if (step != saver.contents.values.end() && std::holds_alternative<int64_t>(step->second))
    saver.contents.step = std::get<int64_t>(step->second);
  return std::move(saver.contents);
}

Contents snapshot(Contents contents, bool shared) {
  for (NamedTensor& tensor : contents.tensors) {
    require_all_here(tensor);
    for (Piece& piece : tensor.pieces) piece.tensor = snapshot_of(piece.tensor, shared);
  }
  return contents;
}

}  // namespace tutti::checkpoint
