// Messages of tf.train.Example and SequenceExample: whatever the bytes are, they are parsed, or refused as
// invalid_argument; and what was parsed and written again is parsed the same.
#include "tutti/data/example.h"

#include "tutti/core/error.h"
#include "tutti/data/parse_example.h"

namespace tutti::data {
namespace {

template <class F>
void refuses_or_holds(F f) {
  try {
    f();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
  }
}

template <class Message>
void check_round_trip(std::string_view bytes) {
  const std::string once = Message::parse(bytes).serialize();
  if (Message::parse(once).serialize() != once) __builtin_trap();
}

}  // namespace
}  // namespace tutti::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti::data;
  const std::string bytes(data, data + size);
  refuses_or_holds([&] { check_round_trip<Example>(bytes); });
  refuses_or_holds([&] { check_round_trip<SequenceExample>(bytes); });
  const tutti::Strings batch(std::vector<std::string>{"", bytes});
  refuses_or_holds([&] { parse_example(batch, VarLenFeature<float>{"a"}, VarLenFeature<std::string>{"b"}); });
  refuses_or_holds([&] {
    parse_single_example(bytes, FixedLenFeature<int64_t>{"a", {2}, {1}}, FixedLenFeature<std::string>{"b", {}, {""}},
                         VarLenFeature<int64_t>{"c"});
  });
  return 0;
}
