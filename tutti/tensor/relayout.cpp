#include "tutti/tensor/relayout.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/copy_on_write.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/strict_mode.h"

namespace tutti {
namespace {

Placement placement_of(const Spec* spec) { return {{spec->axes.begin(), spec->axes.end()}, spec->unreduced}; }

const Spec* spec_of(const Spec* from, const Placement& placement) {
  const AxisMap axes(placement.axes.begin(), placement.axes.end());
  return intern(from->shape, axes, placement.unreduced, from->sizes);
}

std::vector<RedistributionStep> plan(const Spec* from, const Spec* to, const std::string& cause) {
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::invalid_argument,
                str(cause, ": from layout ", from->layout().to_string(), " to ", to->layout().to_string(), ": ", why));
  };
  if (from->shape != to->shape || from->sizes != to->sizes) refuse("mesh and shape must be the same");
  if (to->unreduced & ~from->unreduced) refuse("a value cannot be made a sum of terms");
  const auto& mesh = from->shape->sizes;
  return plan_redistribution({mesh.begin(), mesh.end()}, placement_of(from), placement_of(to),
                             {from->sizes.begin(), from->sizes.end()});
}

// Whether a device needs elements that another one has: an axis is no longer split as it was.
bool moves_pieces(const Spec* from, const Spec* to) {
  for (size_t axis = 0; axis < from->axes.size(); ++axis) {
    const int8_t d = from->axes[axis];
    if (d >= 0 && d != to->axes[axis] && from->shape->sizes[static_cast<size_t>(d)] > 1) return true;
  }
  return false;
}

}  // namespace

Relayout::Relayout(const Spec* from, const Spec* to, const std::string& cause, Asked asked)
    : from_(from),
      to_(to),
      cause_(cause),
      asked_(asked),
      moves_pieces_(moves_pieces(from, to)),
      steps_(plan(from, to, cause)) {
  const MeshShape* shape = from->shape;
  for (const RedistributionStep& step : steps_) {
    const bool sends = step.kind != RedistributionKind::slice && shape->count(step.dimensions) > 1;
    counters_.push_back(!sends ? nullptr
                               : &communication_counter({.op = to_string(step.kind),
                                                         .mesh_dimension = shape->names(step.dimensions),
                                                         .cause = cause,
                                                         .implied = asked == Asked::implied,
                                                         .free = shape->merged()}));
  }
  if (shape->merged()) return;
  if (shape->mesh.shares_memory()) {
    copies_.emplace_back(from, to);
    return;
  }
  for (const RedistributionStep& step : steps_) {
    const Spec* next = spec_of(from, step.after);
    copies_.emplace_back(from, next);
    from = next;
  }
}

std::shared_ptr<const Relayout> Relayout::of(const Spec* from, const Spec* to, const std::string& cause) {
  constexpr size_t kMostKept = 1024;
  using Key = std::tuple<const Spec*, const Spec*, std::string>;
  static std::mutex mutex;
  static auto& made = *new std::map<Key, std::shared_ptr<const Relayout>>;
  const std::lock_guard lock(mutex);
  if (const auto found = made.find({from, to, cause}); found != made.end()) return found->second;
  if (made.size() == kMostKept) made.clear();
  return made[{from, to, cause}] = std::make_shared<const Relayout>(from, to, cause, Asked::explicitly);
}

void Relayout::record(size_t element_bytes) const {
  if (asked_ == Asked::implied && moves_pieces_) check_implied_relayout(cause_, *from_, *to_);
  for (size_t i = 0; i < steps_.size(); ++i)
    if (counters_[i]) communicated(*counters_[i], steps_[i].buffer * static_cast<int64_t>(element_bytes));
}

Components Relayout::run(const TensorMeta& meta, const Components& components) const {
  record(meta.dtype.itemsize());
  const Sharing sharing = asked_ == Asked::implied ? Sharing::allowed : Sharing::copy_on_write;
  if (from_->shape->merged())  // one buffer before and after: the layout is metadata
    return sharing == Sharing::allowed ? components : Components{share_whole_or_copy(components[0])};
  Components now = components;
  for (const PieceCopies& copies : copies_) now = copies.run(meta, now, sharing, cause_);
  return now;
}

}  // namespace tutti
