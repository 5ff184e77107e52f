#include "tutti/function/call_elements.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/recorder.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti {

namespace {

thread_local CallElements* calls_elements = nullptr;  // of the innermost call

[[noreturn]] void throw_end() { throw Error(ErrorCode::out_of_range, "next: the data are at their end"); }

}  // namespace

CallElements::CallElements(const std::string& function, at::ArrayRef<ElementSource> iterators)
    : function_(function), iterators_(iterators), outer_(std::exchange(calls_elements, this)) {}

CallElements::~CallElements() { calls_elements = outer_; }

TakenElement CallElements::next(const ElementSource& source) {
  if (CallElements* const call = calls_elements)
    if (const auto iterator = call->number_of(source)) return call->take(*iterator);
  if (CallRecorder* const recorder = CallRecorder::current())
    recorder->refuse(
        Error(ErrorCode::failed_precondition,
              "next: takes an element in a recorded function of an iterator that is no argument of its call, or takes "
              "it in run; pass the iterator to the function, and what next() gives to run"));
  auto element = pull(calls_elements, source);
  if (!element) throw_end();
  return *std::move(element);
}

void CallElements::fetch(const std::vector<int>& iterators) {
  for (const int iterator : iterators) {
    auto element = pull(iterator);
    if (!element)
      throw Error(ErrorCode::out_of_range,
                  str(function_, ": the data ended after ", elements_.size(), " of ", iterators.size(),
                      " elements that a call takes; nothing of it was done"));
    elements_.push_back(*std::move(element));
  }
}

void CallElements::check_all_taken() const {
  if (num_taken_ == elements_.size()) return;
  throw Error(ErrorCode::failed_precondition, str(function_, ": ", elements_.size(),
                                                  " elements were fetched for the call, as many as calls before took, "
                                                  "and it took ",
                                                  num_taken_,
                                                  "; the others are lost. What decides how many it takes must be an "
                                                  "argument, or FunctionOptions::depends_on"));
}

std::optional<int> CallElements::number_of(const ElementSource& source) const {
  for (size_t i = 0; i < iterators_.size(); ++i)
    if (iterators_[i].iterator == source.iterator) return static_cast<int>(i);
  return {};
}

TakenElement CallElements::take(int iterator) {
  const auto next = elements_.begin() + static_cast<std::ptrdiff_t>(num_taken_);
  const auto is_of_it = [&](const Element& element) { return element.iterator == iterator; };
  if (const auto fetched = std::find_if(next, elements_.end(), is_of_it); fetched != elements_.end()) {
    std::rotate(next, fetched, fetched + 1);
  } else {
    auto element = pull(iterator);
    if (!element) throw_end();
    elements_.insert(next, *std::move(element));
  }
  const Element& taken = elements_[num_taken_++];
  TakenElement given = taken.value;
  if (!recorder_ || recorder_->is_over()) return given;
  if (CallRecorder::current() != recorder_)
    throw Error(ErrorCode::failed_precondition,
                function_ +
                    ": next takes an element in init_scope or host_call, where nothing is recorded; take it "
                    "before");
  if (auto copies = recorder_->take_element(taken.tensors)) given.parts.tensors = *std::move(copies);
  return given;
}

std::optional<CallElements::Element> CallElements::pull(int iterator) {
  auto value = pull(outer_, iterators_[static_cast<size_t>(iterator)]);
  if (!value) return {};
  TakenApart tensors = take_apart(value->parts.tensors);
  return Element{iterator, *std::move(value), std::move(tensors)};
}

// What a call around this one has fetched comes first.
std::optional<TakenElement> CallElements::pull(CallElements* from, const ElementSource& source) {
  for (; from; from = from->outer_)
    if (const auto iterator = from->number_of(source); iterator && from->has_fetched(*iterator))
      return from->take(*iterator);
  const UnrecordedGuard unrecorded;  // what computes the element is no part of a function
  struct Aside {
    CallElements* call = std::exchange(calls_elements, nullptr);
    ~Aside() { calls_elements = call; }
  } const aside;
  return source.take(source.iterator);
}

bool CallElements::has_fetched(int iterator) const {
  return std::any_of(elements_.begin() + static_cast<std::ptrdiff_t>(num_taken_), elements_.end(),
                     [&](const Element& element) { return element.iterator == iterator; });
}

}  // namespace tutti
