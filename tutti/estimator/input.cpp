#include "tutti/estimator/input.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::estimator {
namespace {

struct Description {
  std::string operator()(std::monostate) const { return "nothing"; }
  std::string operator()(const Tensor& tensor) const { return str("a Tensor ", str_list(tensor.sizes())); }
  std::string operator()(const Strings& text) const { return str("Strings ", str_list(text.shape())); }
  std::string operator()(const data::Columns& columns) const { return str("the Columns ", str_list(columns.names())); }
};

template <class T, class Value>
const T& as(const Value& value, const char* wanted) {
  static const T none;
  if (std::holds_alternative<std::monostate>(value)) return none;
  if (const T* held = std::get_if<T>(&value)) return *held;
  throw Error(ErrorCode::invalid_argument,
              str("the input function gives ", std::visit(Description(), value), ", and the model function takes ",
                  wanted, "; take `const estimator::Input&` to look"));
}

}  // namespace

Input::Input(const std::map<std::string, Tensor>& tensors) {
  data::Columns columns;
  columns.numbers = tensors;
  value_ = std::move(columns);
}

const Tensor& Input::tensor() const { return as<Tensor>(value_, "a Tensor"); }
const Strings& Input::strings() const { return as<Strings>(value_, "Strings"); }
const data::Columns& Input::columns() const { return as<data::Columns>(value_, "Columns"); }

std::unique_ptr<BatchIterator> InputFn::operator()(const data::InputContext& context) const {
  if (!make_) throw Error(ErrorCode::invalid_argument, "there is no input_fn; give a function that returns a Dataset");
  return make_(context);
}

}  // namespace tutti::estimator
