#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/coordinator/function_signature.h"
#include "tutti/coordinator/per_worker_table.h"
#include "tutti/coordinator/remote_value.h"
#include "tutti/coordinator/value_bytes.h"
#include "tutti/core/error.h"

// Calls that another process makes. Both have the function, by number; what travels are arguments and results.
namespace tutti::coordinator {

using Bytes = std::vector<uint8_t>;

// A function as a worker calls it for others: its arguments and its result are bytes. Empty for one whose arguments or
// result do not travel.
using NamedCall = std::function<ByteWriter(ByteReader& arguments, const PerWorkerTable& values, int worker)>;

template <class P>
inline constexpr bool can_be_read = is_of_worker<P> || can_travel<std::remove_cvref_t<P>>;

template <class P, class A>
consteval bool can_be_sent() {
  if constexpr (is_per_worker<A>)
    return std::same_as<typename A::value_type, std::remove_cvref_t<P>>;
  else
    return can_be_read<P>;
}

template <class P, class A>
void write_argument(ByteWriter& writer, const A& argument) {
  writer.number(is_per_worker<A>);
  if constexpr (is_per_worker<A>)
    writer.number(argument.number());
  else
    write_value<std::remove_cvref_t<P>>(writer, static_cast<std::remove_cvref_t<P>>(argument));
}

// An argument as it came.
template <class P>
class ReadArgument {
 public:
  using Value = std::remove_cvref_t<P>;

  ReadArgument(ByteReader& reader, const PerWorkerTable& values, int worker) {
    if (reader.number_in(0, 1) == 1)
      value_ = static_cast<Value*>(values.at(reader.number(), typeid(Value), worker));
    else if constexpr (!is_of_worker<P>)
      own_.emplace(read_value<Value>(reader));
    else
      reader.damaged("a value where a PerWorker value is taken");
  }
  P get() {
    if constexpr (is_of_worker<P>)
      return *value_;
    else if constexpr (std::is_rvalue_reference_v<P>)
      return std::move(own());
    else
      return own();
  }

 private:
  Value& own() { return own_ ? *own_ : *value_; }

  std::conditional_t<is_of_worker<P>, std::optional<int>, std::optional<Value>> own_;
  Value* value_ = nullptr;
};

template <class R, class... P>
NamedCall named_call(std::shared_ptr<const std::function<R(P...)>> function) {
  if constexpr (can_travel<R> && (can_be_read<P> && ...)) {
    return [function](ByteReader& reader, [[maybe_unused]] const PerWorkerTable& values, [[maybe_unused]] int worker) {
      std::tuple<ReadArgument<P>...> arguments{ReadArgument<P>(reader, values, worker)...};  // in their order
      reader.finish();
      const auto call = [&](auto&... each) -> R { return (*function)(each.get()...); };
      ByteWriter result;
      if constexpr (std::is_void_v<R>)
        std::apply(call, arguments);
      else
        write_value<R>(result, std::apply(call, arguments));
      return result;
    };
  } else {
    return {};
  }
}

// A call that another process makes.
template <class R>
class RemoteCall final : public Result<R> {
 public:
  RemoteCall(int function, ByteWriter arguments) : function_(function), arguments_(std::move(arguments)) {}

  void write_message(ByteWriter& writer) const override {
    writer.number(function_);
    writer.text({reinterpret_cast<const char*>(arguments_.bytes().data()), arguments_.bytes().size()});
  }
  size_t message_bytes() const override { return arguments_.bytes().size(); }

 private:
  void run(int) override {
    throw Error(ErrorCode::internal, "ClusterCoordinator: a function of another process is to be called in this one");
  }
  void drop_arguments() override { arguments_ = {}; }
  void read_result(ByteReader& result) override {
    if constexpr (!std::is_void_v<R>) this->value_.emplace(read_value<R>(result));
    result.finish();
  }

  const int function_;
  ByteWriter arguments_;
};

}  // namespace tutti::coordinator
